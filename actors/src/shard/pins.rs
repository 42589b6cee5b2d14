//! Soft pins: objects that are evicted only after all unpinned ones, until a deadline.

use std::collections::{BTreeSet, HashMap};

use super::objects::ObjectHandle;
use super::state::Shard;
use crate::moment::Moment;

/// The deadlines of softly pinned objects. Few objects have one, so it is no field of the record.
#[derive(Debug, Default)]
pub(super) struct SoftPins {
    until: HashMap<ObjectHandle, Moment>,
    by_end: BTreeSet<(Moment, ObjectHandle)>,
}

impl SoftPins {
    pub(super) fn add(&mut self, object: ObjectHandle, until: Moment) {
        self.remove(object);
        self.until.insert(object, until);
        self.by_end.insert((until, object));
    }

    pub(super) fn remove(&mut self, object: ObjectHandle) {
        if let Some(until) = self.until.remove(&object) {
            self.by_end.remove(&(until, object));
        }
    }

    /// When the soft pin of an object ends.
    pub(super) fn until(&self, object: ObjectHandle) -> Option<Moment> {
        self.until.get(&object).copied()
    }

    fn take_ended(&mut self, now: Moment) -> Option<ObjectHandle> {
        let &(until, object) = self.by_end.first()?;
        if until > now {
            return None;
        }
        self.by_end.pop_first();
        self.until.remove(&object);
        Some(object)
    }
}

impl Shard {
    /// Ends the soft pins whose time has come.
    pub(super) fn end_soft_pins(&mut self, now: Moment) {
        while let Some(object) = self.soft_pins.take_ended(now) {
            self.ledger.end_soft_pin(object);
        }
    }
}
