//! The lasting part of a shard: objects, their keys and ranges, and holds.
//!
//! Every change to it passes through the methods of [`Ledger`], and nothing else can make one: the
//! fields are private to this file and its parts for looking ahead and for restoring. A restore replays
//! them, and a log of the same calls could make a crash as harmless as a planned restart. Leases and
//! recency are not lasting in this sense: they only ever protect longer or order otherwise, so they
//! are touched directly.

mod nearer;
mod restoring;

use super::abroad::Abroad;
use super::holds::Holds;
use super::idle::IdleClass;
use super::index::Index;
use super::keys::{KeyAddress, Keys, KeysFull};
use super::objects::{Object, ObjectFlags, ObjectHandle, ObjectState, Objects};
use super::ranges::{RangeHandle, Ranges, Recency, SegmentIndex};
use super::segments::Segments;
use super::side::Side;
use crate::moment::Moment;
use crate::pool::message::Remnant;
use crate::route::{KeyHash, Route};

pub(super) use restoring::Restored;

/// The lasting part of a shard.
#[derive(Debug)]
pub(super) struct Ledger {
    route: Route,
    /// Accesses within this many milliseconds, a power of two, count as one.
    recency_step_bits: u32,
    index: Index,
    keys: Keys,
    objects: Objects,
    ranges: Ranges,
    holds: Holds,
    abroad: Abroad,
    side: Side,
}

/// A new object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation<'a> {
    /// Its key.
    pub(super) key: &'a [u8],
    /// The hash of the key.
    pub(super) hash: KeyHash,
    /// Its size.
    pub(super) size_bytes: u64,
    /// The number of its put.
    pub(super) sequence: u64,
    /// Never to be evicted.
    pub(super) hard_pin: bool,
    /// Where its replicas lie: allocated ranges, at least one, each on another segment.
    pub(super) ranges: &'a [RangeHandle],
}

impl Ledger {
    pub(super) fn new(route: Route, lease_ttl_ms: u64) -> Ledger {
        Ledger {
            route,
            recency_step_bits: (lease_ttl_ms / RECENCY_STEPS).max(1).ilog2(),
            index: Index::new(),
            keys: Keys::new(),
            objects: Objects::new(),
            ranges: Ranges::new(),
            holds: Holds::default(),
            abroad: Abroad::default(),
            side: Side::new(),
        }
    }

    /// Makes an object that is being written. Its ranges belong to it from here on.
    ///
    /// # Errors
    /// When the key arena is full; the ranges stay with the caller.
    pub(super) fn reserve(
        &mut self,
        segments: &mut Segments,
        reservation: Reservation<'_>,
    ) -> Result<ObjectHandle, KeysFull> {
        // The handle must be known before the key is stored, since the key remembers its owner.
        let object = self.objects.insert(Object {
            key: KeyAddress::default(),
            key_length: reservation.key.len() as u16,
            state: ObjectState::Writing,
            flags: ObjectFlags { hard_pin: reservation.hard_pin, soft_pin: false },
            size_bytes: reservation.size_bytes,
            lease_until: Moment::default(),
            first_range: reservation.ranges[0].0,
            sequence: reservation.sequence,
        });
        match self.keys.push(object.0, reservation.key) {
            Ok(address) => self.objects.set_key(object, address),
            Err(full) => {
                self.objects.remove(object);
                return Err(full);
            }
        }
        self.index.insert(reservation.hash.tag(), object);
        let mut next = RangeHandle::NONE;
        for &range in reservation.ranges.iter().rev() {
            self.ranges.set_owner(range, object.0);
            self.ranges.set_sibling(range, next);
            next = range;
            segments.note_unfinished(
                self.ranges.segment(range),
                self.ranges.length_bytes(range) as i64,
            );
        }
        Ok(object)
    }

    /// Makes an object readable. Its last access is now.
    pub(super) fn complete(
        &mut self,
        segments: &mut Segments,
        object: ObjectHandle,
        now: Moment,
        soft_pin: bool,
    ) {
        let hard_pin = self.objects.flags(object).hard_pin;
        self.objects.set_state(object, ObjectState::Readable);
        self.objects.set_flags(object, ObjectFlags { hard_pin, soft_pin });
        self.objects.set_lease_until(object, now);
        let mut range = self.first_range(object);
        while !range.is_none() {
            let segment = self.ranges.segment(range);
            let length_bytes = self.ranges.length_bytes(range);
            segments.note_unfinished(segment, -(length_bytes as i64));
            if hard_pin {
                segments.note_pinned(segment, length_bytes as i64);
            } else {
                let resting = resting_list(soft_pin, self.objects.reused(object));
                self.ranges.push_newest(range, resting);
            }
            range = self.ranges.sibling(range);
        }
    }

    /// Ends the soft pin of an object, if it still has one.
    pub(super) fn end_soft_pin(&mut self, object: ObjectHandle) {
        let flags = self.objects.flags(object);
        self.objects.set_flags(object, ObjectFlags { soft_pin: false, ..flags });
        let mut range = self.first_range(object);
        while !range.is_none() {
            if self.ranges.listed(range) == Some(Recency::SoftPinned) {
                let resting = resting_list(false, self.objects.reused(object));
                self.ranges.push_newest(range, resting);
            }
            range = self.ranges.sibling(range);
        }
    }

    /// Removes an object. Its ranges are free at once, or held until a moment that has not passed.
    /// Gives the hash of its key.
    pub(super) fn erase(
        &mut self,
        segments: &mut Segments,
        object: ObjectHandle,
        now: Moment,
        held_until: Option<Moment>,
    ) -> KeyHash {
        let hash = self.route.hash(self.key(object));
        let removed = self.index.remove(hash.tag(), object);
        assert!(removed, "every object is in the index");
        let mut range = self.first_range(object);
        while !range.is_none() {
            let next = self.ranges.sibling(range);
            self.forget_range(segments, object, range, now, held_until);
            range = next;
        }
        if self.objects.has_side(object) {
            self.side.remove(object);
        }
        let record = self.objects.remove(object);
        self.keys.remove(record.key, usize::from(record.key_length));
        hash
    }

    /// Removes one replica of an object, and the object with its last one. Gives the hash of its key if
    /// the object is gone.
    pub(super) fn erase_replica(
        &mut self,
        segments: &mut Segments,
        replica: RangeHandle,
        now: Moment,
        held_until: Option<Moment>,
    ) -> Option<KeyHash> {
        let object = self.owner(replica);
        let first = self.first_range(object);
        if first == replica && self.ranges.sibling(replica).is_none() {
            return Some(self.erase(segments, object, now, held_until));
        }
        let after = self.ranges.sibling(replica);
        if first == replica {
            self.objects.set_first_range(object, after.0);
        } else {
            let mut before = first;
            while self.ranges.sibling(before) != replica {
                before = self.ranges.sibling(before);
            }
            self.ranges.set_sibling(before, after);
        }
        if self.objects.state(object) == ObjectState::Readable {
            self.objects.set_shrunk(object);
        }
        self.forget_range(segments, object, replica, now, held_until);
        None
    }

    /// Takes a range from its object: free, held, or remembered with its lost segment.
    fn forget_range(
        &mut self,
        segments: &mut Segments,
        object: ObjectHandle,
        range: RangeHandle,
        now: Moment,
        held_until: Option<Moment>,
    ) {
        let segment = self.ranges.segment(range);
        let length_bytes = self.ranges.length_bytes(range);
        segments.mark_changed(segment);
        if self.objects.state(object) == ObjectState::Writing {
            segments.note_unfinished(segment, -(length_bytes as i64));
        } else if self.objects.flags(object).hard_pin {
            segments.note_pinned(segment, -(length_bytes as i64));
        }
        let held_until = held_until.filter(|until| *until > now);
        let offset_bytes = self.ranges.offset_bytes(range);
        if self.ranges.is_alien(range) {
            let (mount, sequence) = (segments.at(segment).mount, self.objects.sequence(object));
            self.abroad.leave(range, mount, offset_bytes, sequence, held_until);
        }
        match held_until {
            None => {
                segments.note_freed(segment, length_bytes);
                self.ranges.free(range);
            }
            // The owner of a foreign span holds it, unless it has swept the segment before it hears of
            // this. The loss of the segment then comes here too, and the remnant goes with it.
            Some(until) if segments.lost(segment) || self.ranges.is_alien(range) => {
                segments.note_remnant(segment, Remnant { offset_bytes, length_bytes, until });
                self.ranges.free(range);
            }
            Some(until) => {
                let hold = self.holds.add(range, until);
                self.ranges.hold(range, hold);
            }
        }
    }

    /// Frees the held ranges whose time has come, at most this many. Says how many.
    pub(super) fn release_holds(
        &mut self,
        segments: &mut Segments,
        now: Moment,
        budget: usize,
    ) -> usize {
        let mut released = 0;
        while released < budget {
            let Some(range) = self.holds.take_ended(now) else { break };
            segments.note_freed(self.ranges.segment(range), self.ranges.length_bytes(range));
            self.ranges.free(range);
            released += 1;
        }
        released
    }

    /// Forgets a held range of a lost segment; it lives on as a remnant.
    pub(super) fn release_lost_hold(&mut self, segments: &mut Segments, range: RangeHandle) {
        let until = self.holds.remove(self.ranges.owner(range));
        let remnant = Remnant {
            offset_bytes: self.ranges.offset_bytes(range),
            length_bytes: self.ranges.length_bytes(range),
            until,
        };
        segments.note_remnant(self.ranges.segment(range), remnant);
        self.ranges.free(range);
    }

    /// How many ranges are held.
    pub(super) fn holds(&self) -> usize {
        self.holds.len()
    }

    /// Until when a held range is held.
    pub(super) fn held_until(&self, range: RangeHandle) -> Moment {
        self.holds.until(self.ranges.owner(range))
    }

    /// The object with this key, whatever its state.
    pub(super) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<ObjectHandle> {
        self.index.find(hash.tag(), |object| self.key(object) == key)
    }

    /// The same, given what [`Ledger::probe`] has said of the hash, if no object was made or removed
    /// since.
    pub(super) fn find_likely(
        &self,
        hash: KeyHash,
        key: &[u8],
        likely: Option<ObjectHandle>,
    ) -> Option<ObjectHandle> {
        // Without an object of this hash there is none of this key.
        let likely = likely?;
        if self.key(likely) == key { Some(likely) } else { self.find(hash, key) }
    }

    /// The key of an object.
    pub(super) fn key(&self, object: ObjectHandle) -> &[u8] {
        self.keys.bytes(self.objects.key(object), usize::from(self.objects.key_length(object)))
    }

    /// The object that owns a used range.
    pub(super) fn owner(&self, range: RangeHandle) -> ObjectHandle {
        ObjectHandle(self.ranges.owner(range))
    }

    /// The first replica of an object.
    pub(super) fn first_range(&self, object: ObjectHandle) -> RangeHandle {
        RangeHandle(self.objects.first_range(object))
    }

    /// The replicas of an object.
    pub(super) fn replicas(&self, object: ObjectHandle) -> impl Iterator<Item = RangeHandle> {
        let first = Some(self.first_range(object));
        std::iter::successors(first, |range| {
            Some(self.ranges.sibling(*range)).filter(|sibling| !sibling.is_none())
        })
    }

    /// What is known of ranges abroad.
    pub(super) fn abroad(&self) -> &Abroad {
        &self.abroad
    }

    /// What is known of ranges abroad, to change.
    pub(super) fn abroad_mut(&mut self) -> &mut Abroad {
        &mut self.abroad
    }

    /// What only some objects have.
    pub(super) fn side(&self) -> &Side {
        &self.side
    }

    /// What only some objects have, to change.
    pub(super) fn side_mut(&mut self) -> &mut Side {
        &mut self.side
    }

    /// Notes that an object has side data, and says whether that is new.
    pub(super) fn mark_side(&mut self, object: ObjectHandle) -> bool {
        let new = !self.objects.has_side(object);
        self.objects.set_side(object);
        new
    }

    /// The records, to read.
    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The ranges, to read.
    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The ranges, for spans, provisional allocation and recency. Not for ranges of objects.
    pub(super) fn ranges_mut(&mut self) -> &mut Ranges {
        &mut self.ranges
    }

    /// Extends the lease of a readable object, which is reused from here on, and makes it the newest of
    /// its segments, unless it was made that in the same step of time: a hot object need not be moved at
    /// each access, which would load its neighbours.
    pub(super) fn lease(&mut self, object: ObjectHandle, until: Moment) {
        let before = self.objects.lease_until(object);
        if before < until {
            self.objects.set_lease_until(object, until);
        }
        self.objects.set_reused(object);
        if self.objects.flags(object).hard_pin {
            return;
        }
        // Leases all last equally long, so those of one step were also given in one. The first access
        // in a step finds the lease of an earlier one.
        let moved = self.same_step(before, until);
        let mut range = self.first_range(object);
        while !range.is_none() {
            if !moved || self.ranges.listed(range) != Some(Recency::Leased) {
                self.ranges.push_newest(range, Recency::Leased);
            }
            range = self.ranges.sibling(range);
        }
    }

    /// Whether two moments are in the same step of time, within which accesses count as one.
    fn same_step(&self, one: Moment, other: Moment) -> bool {
        (one.as_ms() ^ other.as_ms()) >> self.recency_step_bits == 0
    }

    /// Notes that somebody has missed the key of a new object before, so that it counts as reused.
    pub(super) fn note_missed(&mut self, object: ObjectHandle) {
        self.objects.set_reused(object);
    }

    /// For how long nobody has accessed the object of a range, in milliseconds, if leases last as long
    /// as given.
    pub(super) fn idle_ms(&self, range: RangeHandle, now: Moment, lease_ttl_ms: u64) -> u64 {
        let object = self.owner(range);
        let restored_ms = self.objects.idle_class(object).as_ms();
        // Only an object that was put and never read has its last access at the end of its lease.
        let leased = restored_ms > 0 || self.objects.reused(object);
        let lease_ms = if leased { lease_ttl_ms } else { 0 };
        now.since_ms(self.objects.lease_until(object)).saturating_add(lease_ms + restored_ms)
    }

    /// Moves ranges whose lease has ended to the list from which they can be evicted, at most this
    /// many. Leases all last equally long, so the list is in the order of their ends, to a step of time.
    pub(super) fn settle_leases(&mut self, segment: SegmentIndex, now: Moment, budget: usize) {
        for _ in 0..budget {
            let Some(range) = self.ranges.oldest(segment, Recency::Leased) else { return };
            // It is touched when this one leaves the list; meanwhile the object is waited for.
            self.ranges.prefetch_newer(range);
            let object = self.owner(range);
            if self.objects.lease_until(object) > now {
                return;
            }
            let soft_pin = self.objects.flags(object).soft_pin;
            let resting = resting_list(soft_pin, self.objects.reused(object));
            if self.objects.idle_class(object) == IdleClass::NONE {
                self.ranges.push_newest(range, resting);
            } else {
                // Its lease is one of a restart: whatever was put since is newer.
                self.ranges.push_restored(range, resting);
            }
        }
    }

    /// Whether so much of the key arena is dead that it must be cleaned now.
    pub(super) fn keys_need_cleaning(&self) -> bool {
        self.keys.needs_cleaning()
    }

    /// Whether cleaning the key arena is worth the while when nothing else is to do.
    pub(super) fn keys_worth_cleaning(&self) -> bool {
        self.keys.worth_cleaning()
    }

    /// Moves some keys out of nearly empty chunks, so that memory does not grow with churn.
    pub(super) fn clean_keys(&mut self, budget_bytes: usize) {
        self.keys.clean_step(budget_bytes, &mut self.objects);
    }

    /// Bytes of memory that the structures take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.keys.memory_bytes()
            + self.objects.memory_bytes()
            + self.ranges.memory_bytes()
            + self.side.memory_bytes()
    }

    /// Whether every object stands in the index under its key, owns its ranges, and nothing else
    /// does. For tests.
    pub(super) fn check(&self) -> Result<(), String> {
        self.ranges.check()?;
        if self.index.len() != self.objects.len() {
            return Err(format!(
                "{} objects, {} of them in the index",
                self.objects.len(),
                self.index.len()
            ));
        }
        let mut cursor = 0;
        while let Some(object) = self.objects.next_from(cursor) {
            cursor = object.0 + 1;
            let key = self.key(object);
            if self.find(self.route.hash(key), key) != Some(object) {
                return Err(format!("object {} is not found by its key", object.0));
            }
            let mut range = self.first_range(object);
            if range.is_none() {
                return Err(format!("object {} has no replica", object.0));
            }
            while !range.is_none() {
                if self.owner(range) != object {
                    return Err(format!("range {} does not know object {}", range.0, object.0));
                }
                if self.ranges.length_bytes(range) < self.objects.size_bytes(object) {
                    return Err(format!("range {} is shorter than its object", range.0));
                }
                range = self.ranges.sibling(range);
            }
        }
        Ok(())
    }
}

/// Into how many steps of time a lease falls at least. What is leased is not evicted, so that the
/// order within a step says little; and a lease that ends holds those behind it up for a step at most.
const RECENCY_STEPS: u64 = 8;

/// The list of an object that nobody leases.
fn resting_list(soft_pin: bool, reused: bool) -> Recency {
    match (soft_pin, reused) {
        (true, _) => Recency::SoftPinned,
        (false, true) => Recency::Reused,
        (false, false) => Recency::Idle,
    }
}
