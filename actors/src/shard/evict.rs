//! Eviction: idle objects of a segment make room, counted in bytes.

use super::objects::{ObjectHandle, ObjectState};
use super::ranges::{RangeHandle, Recency, SegmentIndex};
use super::reuse::idle_goes_first;
use super::state::Shard;
use crate::invariant::Invariant;
use crate::moment::Moment;
use crate::route::KeyHash;

impl Shard {
    /// Whether an order of the pool is not carried out yet.
    pub(super) fn eviction_due(&self) -> bool {
        !self.segments.evicting().is_empty()
    }

    /// One slice of what the pool has ordered.
    pub(super) fn evict_ordered(&mut self, now: Moment) {
        let mut budget = EVICTIONS_MAX;
        while let Some(index) = self.segments.evicting().last().copied() {
            if !self.segments.at(index).owes_eviction() {
                self.segments.end_eviction(index);
                continue;
            }
            if budget == 0 {
                return;
            }
            if budget.is_multiple_of(VICTIMS_AHEAD) {
                self.look_at_victims(now, index);
            }
            budget -= 1;
            // The last object of a segment stays, however large: without it the segment would be of no
            // use for objects of its size.
            if self.only_one_may_go(now, index) || self.evict_next(now, index).is_none() {
                // Nothing here may go now. The pool sees it in the next report and orders anew.
                self.segments.forgive_eviction(index);
            }
        }
    }

    /// Whether a single object is all that the shard has on a segment.
    fn only_one_may_go(&mut self, now: Moment, index: SegmentIndex) -> bool {
        self.ledger.settle_leases(index, now, SETTLED_MAX);
        let ranges = self.ledger.ranges();
        self.victim(now, index).is_some_and(|range| {
            ranges.length_bytes(range) == ranges.allocated_bytes(index)
                && ranges.length_bytes(range) > self.segments.at(index).capacity_bytes / 2
        })
    }

    /// The replica of a segment that goes next, an unpinned one if there is any: the oldest of those
    /// that were never read, or of those that were.
    fn victim(&self, now: Moment, index: SegmentIndex) -> Option<RangeHandle> {
        let ranges = self.ledger.ranges();
        let idle_ms = |range| self.ledger.idle_ms(range, now, self.config.lease_ttl_ms);
        match (ranges.oldest(index, Recency::Idle), ranges.oldest(index, Recency::Reused)) {
            (Some(idle), Some(reused)) => {
                let weight = self.reuse.weight();
                let idle_goes = idle_goes_first(idle_ms(idle), idle_ms(reused), weight);
                Some(if idle_goes { idle } else { reused })
            }
            (None, None) => ranges.oldest(index, Recency::SoftPinned),
            (idle, reused) => idle.or(reused),
        }
    }

    /// Brings nearer what the next evictions on a segment will touch, one thing after the other for all of
    /// them, so that what the processor has to wait for overlaps. A guess: another list may come next.
    fn look_at_victims(&self, now: Moment, index: SegmentIndex) {
        let ranges = self.ledger.ranges();
        let oldest = self.victim(now, index);
        let next = |range: &RangeHandle| ranges.newer(*range);
        let mut victims = [RangeHandle::NONE; VICTIMS_AHEAD];
        let mut count = 0;
        for victim in std::iter::successors(oldest, next).take(VICTIMS_AHEAD) {
            victims[count] = victim;
            count += 1;
        }
        self.look_at_replicas(&victims[..count]);
    }

    /// Brings nearer what the end of these replicas will touch, and of their objects with them.
    pub(super) fn look_at_replicas(&self, replicas: &[RangeHandle]) {
        replicas.iter().for_each(|replica| self.ledger.prefetch_record(*replica));
        replicas.iter().for_each(|replica| self.ledger.prefetch_neighbourhood(*replica));
        for replica in replicas {
            self.reuse.prefetch(self.ledger.prefetch_slot_of(*replica));
        }
    }

    /// Evicts the next replica of a segment, and says how many bytes that freed; `None` if none may
    /// go.
    pub(super) fn evict_next(&mut self, now: Moment, index: SegmentIndex) -> Option<u64> {
        self.ledger.settle_leases(index, now, SETTLED_MAX);
        loop {
            let victim = self.victim(now, index)?;
            // Each one that is spared leaves the lists of what may go.
            if !self.spared_with_group(now, victim) {
                return Some(self.evict(now, victim));
            }
        }
    }

    /// Evicts one replica and says how many bytes that freed. With the last replica of a member the
    /// rest of its group begins to go.
    pub(super) fn evict(&mut self, now: Moment, victim: RangeHandle) -> u64 {
        let freed_bytes = self.ledger.ranges().length_bytes(victim);
        let group = self.ledger.group_name(self.ledger.owner(victim));
        if self.evict_alone(now, victim) {
            self.evict_group(group);
        }
        freed_bytes
    }

    /// Evicts one replica and says whether its object is gone with it.
    pub(super) fn evict_alone(&mut self, now: Moment, victim: RangeHandle) -> bool {
        let index = self.ledger.ranges().segment(victim);
        let freed_bytes = self.ledger.ranges().length_bytes(victim);
        let held_until = self.lease_in_the_way(now, victim);
        let gone = self.erase_known_replica(now, victim, held_until);
        if let Some(hash) = gone {
            self.reuse.note_evicted(hash, self.ledger.objects().len());
        }
        let gone = gone.is_some();
        self.counters.evicted_objects += u64::from(gone);
        self.counters.evicted_bytes += freed_bytes;
        let segment = self.segments.at_mut(index);
        segment.evicted_total_bytes += freed_bytes;
        self.room_made |= !self.parked.is_empty();
        gone
    }

    /// Until when a victim is leased. None ever is, or the lists of what may go are wrong; its reader
    /// finds the right bytes all the same, since the range is held for that time.
    fn lease_in_the_way(&mut self, now: Moment, victim: RangeHandle) -> Option<Moment> {
        let object = self.ledger.owner(victim);
        if !self.leased(object, now) {
            return None;
        }
        let fault = format!("{victim:?} is evicted and leased");
        self.broken.push(Invariant::Lease.violated(fault));
        self.leased_until(object)
    }

    /// Removes an object with all that the shard knows of it.
    pub(super) fn erase(&mut self, now: Moment, object: ObjectHandle, held_until: Option<Moment>) {
        self.forget(object);
        let hash = self.ledger.erase(&mut self.segments, object, now, held_until);
        self.reuse.note_removed(hash);
        self.room_made |= !self.parked.is_empty();
    }

    /// Removes one replica, and the object with its last one. Whether the object is gone.
    pub(super) fn erase_replica(
        &mut self,
        now: Moment,
        replica: RangeHandle,
        held_until: Option<Moment>,
    ) -> bool {
        let gone = self.erase_known_replica(now, replica, held_until);
        if let Some(hash) = gone {
            self.reuse.note_removed(hash);
        }
        gone.is_some()
    }

    /// The same. Gives the hash of the object's key if that is gone.
    fn erase_known_replica(
        &mut self,
        now: Moment,
        replica: RangeHandle,
        held_until: Option<Moment>,
    ) -> Option<KeyHash> {
        let object = self.ledger.owner(replica);
        if self.ledger.replicas(object).nth(1).is_none() {
            self.forget(object);
        }
        self.ledger.erase_replica(&mut self.segments, replica, now, held_until)
    }

    /// Removes the replicas of an object that lie on lost segments, and the object with its last
    /// one.
    pub(super) fn erase_unreachable(
        &mut self,
        now: Moment,
        object: ObjectHandle,
        held_until: Option<Moment>,
    ) {
        let lost: Vec<RangeHandle> = self
            .ledger
            .replicas(object)
            .filter(|range| !self.segments.readable(self.ledger.ranges().segment(*range)))
            .collect();
        for range in lost {
            self.erase_replica(now, range, held_until);
        }
    }

    /// Forgets what stands beside the record of an object.
    fn forget(&mut self, object: ObjectHandle) {
        if self.ledger.objects().state(object) == ObjectState::Writing {
            self.unfinished.remove(object, self.ledger.objects().sequence(object));
        }
        if self.ledger.objects().flags(object).soft_pin {
            self.soft_pins.remove(object);
        }
    }

    /// Until when a reader may hold a descriptor of an object; `None` if it was never readable.
    pub(super) fn leased_until(&self, object: ObjectHandle) -> Option<Moment> {
        let objects = self.ledger.objects();
        (objects.state(object) == ObjectState::Readable).then(|| objects.lease_until(object))
    }
}

/// Objects that one slice of eviction removes: about 100 µs of work, so that a get that comes
/// meanwhile waits no longer.
const EVICTIONS_MAX: usize = 128;

/// Evictions that are looked ahead at once: enough for their misses of the cache to overlap.
const VICTIMS_AHEAD: usize = 32;

/// Ended leases that one eviction settles on the way.
const SETTLED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::message::{ShardEffect, ShardMessage};
    use crate::shard::ranges::RangeState;
    use crate::shard::stage::Stage;

    // The lists of what may go rule it out; if they are wrong, nobody may write there all the same.
    #[test]
    fn a_range_that_is_evicted_although_it_is_leased_is_held_for_its_reader_and_reported() {
        let mut stage = Stage::new(1, 1);
        stage.put(0, "leased", 60 << 10);
        stage.get("leased");
        let victim = stage.shard.ledger.first_range(ObjectHandle(0));
        stage.shard.evict(stage.now, victim);
        stage.shard.check().expect("all else is sound");
        assert_eq!(stage.shard.ledger.ranges().state(victim), RangeState::Held);
        let until = stage.now.after_ms(stage.shard.config.lease_ttl_ms);
        assert_eq!(stage.shard.ledger.held_until(victim), until);

        stage.tell(ShardMessage::Tick);
        let broken = |effect: &ShardEffect| match effect {
            ShardEffect::Broken(violation) => Some(violation.invariant),
            _ => None,
        };
        let found: Vec<_> = stage.effects.iter().filter_map(broken).collect();
        assert_eq!(found, [Invariant::Lease], "told once");
        stage.now = Moment::from_ms(until.as_ms() - 1);
        stage.tell(ShardMessage::Tick);
        assert_eq!(stage.shard.totals().holds, 1);
        stage.now = until;
        stage.tell(ShardMessage::Tick);
        assert_eq!(stage.shard.totals().holds, 0);
        stage.put(0, "next", 60 << 10);
        assert!(!stage.effects.iter().any(|effect| broken(effect).is_some()));
    }
}
