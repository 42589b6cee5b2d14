//! Puts that have started and neither ended nor been revoked.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use mooring_proto::ClientId;

use super::message::SoftPinAction;
use super::objects::ObjectHandle;
use crate::moment::Moment;

/// The unfinished puts of a shard.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    by_object: HashMap<ObjectHandle, Put, BuildHasherDefault<HandleHasher>>,
    /// In the order of their starts. An entry whose put has ended meanwhile is skipped.
    by_start: VecDeque<(ObjectHandle, u64)>,
}

/// An unfinished put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) client: ClientId,
    pub(super) put_id: u64,
    pub(super) sequence: u64,
    pub(super) started: Moment,
    /// How many replicas were asked for; it may have got fewer.
    pub(super) replicas: u8,
    /// For how long the object is to be pinned softly once it is readable.
    pub(super) soft_pin_ttl_ms: Option<u64>,
    /// Until when the object that it replaces was pinned softly.
    pub(super) inherited_soft_pin_until: Option<Moment>,
    /// What becomes of that pin.
    pub(super) soft_pin: SoftPinAction,
}

impl Put {
    /// Until when its object is pinned softly that becomes readable now.
    pub(super) fn soft_pin_until(&self, now: Moment) -> Option<Moment> {
        let inherited = match self.soft_pin {
            SoftPinAction::Preserve => self.inherited_soft_pin_until,
            SoftPinAction::Enable | SoftPinAction::Disable => None,
        };
        let asked = self.soft_pin_ttl_ms.map(|ttl_ms| now.after_ms(ttl_ms));
        asked.or(inherited).filter(|until| *until > now)
    }
}

impl Unfinished {
    pub(super) fn add(&mut self, object: ObjectHandle, put: Put) {
        self.by_object.insert(object, put);
        self.by_start.push_back((object, put.sequence));
    }

    pub(super) fn of(&self, object: ObjectHandle) -> Option<&Put> {
        self.by_object.get(&object)
    }

    pub(super) fn remove(&mut self, object: ObjectHandle) -> Option<Put> {
        let put = self.by_object.remove(&object);
        // Ended puts leave an entry behind in the queue; without this a fast writer would grow it
        // for a whole release timeout.
        while let Some(&(object, sequence)) = self.by_start.front() {
            if self.is_current(object, sequence) {
                break;
            }
            self.by_start.pop_front();
        }
        if self.by_start.len() > 2 * self.by_object.len() + STALE_ENTRIES_MAX {
            let by_object = &self.by_object;
            self.by_start.retain(|(object, sequence)| {
                by_object.get(object).is_some_and(|put| put.sequence == *sequence)
            });
        }
        put
    }

    /// Takes the oldest put if it started at or before a moment.
    pub(super) fn oldest_started_by(&mut self, started: Moment) -> Option<ObjectHandle> {
        while let Some(&(object, sequence)) = self.by_start.front() {
            if !self.is_current(object, sequence) {
                self.by_start.pop_front();
                continue;
            }
            return (self.by_object[&object].started <= started).then_some(object);
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.by_object.len()
    }

    fn is_current(&self, object: ObjectHandle, sequence: u64) -> bool {
        self.by_object.get(&object).is_some_and(|put| put.sequence == sequence)
    }
}

/// Hashes handles, which the shard itself gives out, so that nobody can choose them to fall together.
#[derive(Debug, Default)]
struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // The table takes the lowest and the highest bits: a multiplication fills the high ones, and
        // turning brings those down.
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed.rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Entries of ended puts that may stay in the queue; each takes 16 bytes.
const STALE_ENTRIES_MAX: usize = 4096;
