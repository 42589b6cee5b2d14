//! Asking the memory for what will be touched soon.
//!
//! Nothing depends on it: a guess that is wrong costs a line of the cache.

use super::{KeyHash, Ledger, Moment, ObjectHandle, RangeHandle};

impl Ledger {
    /// Brings the lines that a lookup needs nearer: first the slot, then, with the candidate that
    /// [`Ledger::probe`] names, the record and the key.
    pub(in crate::shard) fn prefetch_slot(&self, hash: KeyHash) {
        self.index.prefetch(hash.tag());
    }

    /// The likely object of a hash; its record is on its way into the cache afterwards.
    pub(in crate::shard) fn probe(&self, hash: KeyHash) -> Option<ObjectHandle> {
        let object = self.index.probe(hash.tag())?;
        self.objects.prefetch(object);
        Some(object)
    }

    /// Brings what moving an object to the newest end of its list touches nearer, if it is there still.
    pub(in crate::shard) fn prefetch_neighbours(&self, object: ObjectHandle) {
        if self.objects.live(object) {
            self.ranges.prefetch_listed_neighbours(self.first_range(object));
        }
    }

    /// The same for an object that is about to be leased, unless the lease moves nothing.
    pub(in crate::shard) fn prefetch_for_lease(&self, object: ObjectHandle, until: Moment) {
        if self.objects.live(object) && !self.same_step(self.objects.lease_until(object), until) {
            self.ranges.prefetch_listed_neighbours(self.first_range(object));
        }
    }

    /// Brings all of an object's key nearer.
    pub(in crate::shard) fn prefetch_whole_key(&self, object: ObjectHandle) {
        let length = usize::from(self.objects.key_length(object));
        self.keys.prefetch(self.objects.key(object), length);
    }

    /// Brings key and first range of an object nearer, if it is there still.
    pub(in crate::shard) fn prefetch_object(&self, object: ObjectHandle) {
        if self.objects.live(object) {
            self.prefetch_whole_key(object);
            self.ranges.prefetch(self.first_range(object));
        }
    }

    /// Brings the record of an object nearer.
    pub(in crate::shard) fn prefetch_record_of(&self, object: ObjectHandle) {
        self.objects.prefetch(object);
    }

    /// Brings the record of a replica's object nearer: the first thing that an eviction needs.
    pub(in crate::shard) fn prefetch_record(&self, replica: RangeHandle) {
        self.objects.prefetch(self.owner(replica));
    }

    /// Then the key of that object, and the ranges beside the replica.
    pub(in crate::shard) fn prefetch_neighbourhood(&self, replica: RangeHandle) {
        self.prefetch_whole_key(self.owner(replica));
        self.ranges.prefetch_adjoining(replica);
    }

    /// Then the slot of the object in the index. Gives the hash of its key.
    pub(in crate::shard) fn prefetch_slot_of(&self, replica: RangeHandle) -> KeyHash {
        let hash = self.route.hash(self.key(self.owner(replica)));
        self.prefetch_slot(hash);
        hash
    }
}
