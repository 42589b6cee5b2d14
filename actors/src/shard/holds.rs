//! Ranges that nobody may be given yet, because someone may still write or read them.

use std::collections::{BTreeMap, HashMap};

use super::ranges::RangeHandle;
use crate::moment::Moment;

/// The holds of a shard. Each has a number, which the held range carries as its owner.
#[derive(Debug, Default)]
pub(super) struct Holds {
    by_end: BTreeMap<(Moment, u32), RangeHandle>,
    ends: HashMap<u32, Moment>,
    last: u32,
}

impl Holds {
    /// Adds a hold and gives it a number that no other one has.
    pub(super) fn add(&mut self, range: RangeHandle, until: Moment) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.ends.contains_key(&self.last) {
                break;
            }
        }
        self.ends.insert(self.last, until);
        self.by_end.insert((until, self.last), range);
        self.last
    }

    /// Takes one hold whose time has come.
    pub(super) fn take_ended(&mut self, now: Moment) -> Option<RangeHandle> {
        let (&(until, hold), &range) = self.by_end.first_key_value()?;
        if until > now {
            return None;
        }
        self.by_end.remove(&(until, hold));
        self.ends.remove(&hold);
        Some(range)
    }

    /// Removes a hold before its time and says when that would have been.
    pub(super) fn remove(&mut self, hold: u32) -> Moment {
        let until = self.ends.remove(&hold).expect("a held range knows its hold");
        self.by_end.remove(&(until, hold));
        until
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// When a hold ends.
    pub(super) fn until(&self, hold: u32) -> Moment {
        self.ends[&hold]
    }
}
