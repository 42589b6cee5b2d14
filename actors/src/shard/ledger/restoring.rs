//! Taking over what the master before has handed over.
//!
//! What is restored has no key before [`Ledger::restore_keys`], and its ranges are in no recency list
//! before the laying of their segment ends. Nothing may be removed before that.

use super::{
    Ledger, Moment, Object, ObjectFlags, ObjectHandle, ObjectState, RangeHandle, Segments,
};
use crate::shard::idle::IdleClass;
use crate::shard::index::{IndexBuilder, Slot};
use crate::shard::restore::{RestoredKeys, StoredKey};

/// An object that the master before has handed over.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Restored {
    pub(in crate::shard) key: StoredKey,
    pub(in crate::shard) size_bytes: u64,
    pub(in crate::shard) sequence: u64,
    pub(in crate::shard) lease_until: Moment,
    pub(in crate::shard) idle_class: IdleClass,
    pub(in crate::shard) hard_pin: bool,
    pub(in crate::shard) soft_pin: bool,
    pub(in crate::shard) reused: bool,
    /// Its first replica.
    pub(in crate::shard) range: RangeHandle,
}

/// A key stands twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shard) struct KeyTwice;

impl Ledger {
    /// Takes an object over from the master before. All of them are leased from the moment of
    /// serving.
    #[inline]
    pub(in crate::shard) fn restore_object(
        &mut self,
        segments: &mut Segments,
        restored: &Restored,
    ) -> ObjectHandle {
        let Restored { hard_pin, soft_pin, range, .. } = *restored;
        let object = self.objects.insert(Object {
            key: restored.key.address,
            key_length: restored.key.length,
            state: ObjectState::Readable,
            flags: ObjectFlags { hard_pin, soft_pin },
            size_bytes: restored.size_bytes,
            lease_until: restored.lease_until,
            first_range: range.0,
            sequence: restored.sequence,
        });
        self.objects.set_idle_class(object, restored.idle_class);
        if restored.reused {
            self.objects.set_reused(object);
        }
        self.restore_range(segments, object, range);
        object
    }

    /// Takes another replica of an object over.
    pub(in crate::shard) fn restore_replica(
        &mut self,
        segments: &mut Segments,
        object: ObjectHandle,
        range: RangeHandle,
    ) {
        let last = self.replicas(object).last().expect("an object has a replica");
        self.ranges.set_sibling(last, range);
        self.restore_range(segments, object, range);
    }

    fn restore_range(&mut self, segments: &mut Segments, object: ObjectHandle, range: RangeHandle) {
        self.ranges.set_owner(range, object.0);
        let segment = self.ranges.segment(range);
        if self.objects.flags(object).hard_pin {
            segments.note_pinned(segment, self.ranges.length_bytes(range) as i64);
        } else {
            segments.mark_changed(segment);
            let class = self.objects.idle_class(object);
            self.ranges.lease_laid(range, class.index());
        }
    }

    /// Takes a held range over.
    pub(in crate::shard) fn restore_hold(&mut self, range: RangeHandle, until: Moment) {
        let hold = self.holds.add(range, until);
        self.ranges.hold(range, hold);
    }

    /// Gives all restored objects their keys. The ledger had none before.
    ///
    /// # Errors
    /// When two of them have one key. The ledger must not be used then.
    pub(in crate::shard) fn restore_keys(
        &mut self,
        keys: RestoredKeys,
        index: IndexBuilder,
    ) -> Result<(), KeyTwice> {
        self.keys = keys.keys;
        let built = index.finish();
        self.index = built.index;
        let mut runs = built.same_tag.chunk_by(Slot::has_tag_of);
        if runs.any(|run| self.has_key_twice(run)) { Err(KeyTwice) } else { Ok(()) }
    }

    fn has_key_twice(&self, slots: &[Slot]) -> bool {
        let mut keys: Vec<&[u8]> = slots.iter().map(|slot| self.key(slot.handle)).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }
}
