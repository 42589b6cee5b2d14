//! Reading: where objects are, which keys exist, and what a lease protects.

use mooring_proto::Incarnation;
use mooring_proto::error::{ErrorCode, Refusal};
use mooring_proto::message::inspect::KeyEntry;
use mooring_proto::message::object::{Located, RangeDescriptor};
use mooring_proto::message::replicas::Replicas;

use super::ahead::{LookAhead, Moves};
use super::message::{KeyBatch, ShardReply};
use super::objects::{ObjectHandle, ObjectState};
use super::ranges::RangeHandle;
use super::state::Shard;
use crate::moment::Moment;

impl Shard {
    /// Where the objects of a batch lie; each that is readable gets a lease.
    pub(super) fn locate(
        &mut self,
        now: Moment,
        batch: &KeyBatch,
    ) -> Vec<Result<Located, Refusal>> {
        self.lease_each(now, batch, |shard, object| shard.located(object))
    }

    /// Leases each object of a batch that is readable, and tells of it.
    pub(super) fn lease_each<T>(
        &mut self,
        now: Moment,
        batch: &KeyBatch,
        tell: impl Fn(&Shard, ObjectHandle) -> T,
    ) -> Vec<Result<T, Refusal>> {
        let until = now.after_ms(self.config.lease_ttl_ms);
        let mut answers = Vec::with_capacity(batch.len());
        self.counters.gets += batch.len() as u64;
        let mut ahead = LookAhead::new(batch, Moves::Leased(until));
        for index in 0..batch.len() {
            let likely = ahead.advance(&self.ledger, index);
            let answer = match self.find_readable(batch, index, likely) {
                Ok(object) => {
                    self.lease(now, object, batch.keys[index].hash, until);
                    self.counters.get_hits += 1;
                    Ok(tell(self, object))
                }
                Err(code) => Err(Refusal::from(code)),
            };
            answers.push(answer);
        }
        answers
    }

    /// Which keys of a batch are readable; with `lease`, those that are get one.
    pub(super) fn exist(&mut self, now: Moment, lease: bool, batch: &KeyBatch) -> Vec<bool> {
        let until = now.after_ms(self.config.lease_ttl_ms);
        let mut answers = Vec::with_capacity(batch.len());
        self.counters.exists += batch.len() as u64;
        let moves = if lease { Moves::Leased(until) } else { Moves::None };
        let mut ahead = LookAhead::new(batch, moves);
        for index in 0..batch.len() {
            let likely = ahead.advance(&self.ledger, index);
            let found = self.find_readable(batch, index, likely);
            if let (Ok(object), true) = (found, lease) {
                self.lease(now, object, batch.keys[index].hash, until);
            }
            answers.push(found.is_ok());
        }
        answers
    }

    /// Whether keys still have the objects of the given puts, with every replica that they ever had:
    /// the one that was read may be another one than those that are left.
    pub(super) fn validate(
        &mut self,
        incarnation: Incarnation,
        batch: &KeyBatch,
        sequences: &[u64],
    ) -> Vec<Result<(), Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::None);
        for (index, sequence) in sequences.iter().enumerate() {
            let likely = ahead.advance(&self.ledger, index);
            let same = incarnation == self.config.incarnation
                && self.find_readable(batch, index, likely).is_ok_and(|object| {
                    let objects = self.ledger.objects();
                    objects.sequence(object) == *sequence && !objects.shrunk(object)
                });
            answers.push(if same { Ok(()) } else { Err(Refusal::from(ErrorCode::Changed)) });
        }
        answers
    }

    /// One page of readable keys, and of hidden ones if they are asked for. The work is bounded by the
    /// records that are looked at, so a page can come back with fewer keys than asked for.
    pub(super) fn list_keys(&self, cursor: u32, limit: u32, hidden: bool) -> ShardReply {
        let mut keys = Vec::new();
        let mut looked_at = 0;
        let mut next = cursor;
        while let Some(object) = self.ledger.objects().next_from(next) {
            if keys.len() >= limit as usize || looked_at >= LISTED_RECORDS_MAX {
                return ShardReply::Keys { keys, next: Some(next) };
            }
            let is_complete = self.ledger.objects().state(object) == ObjectState::Readable;
            if is_complete && (hidden || self.reachable(object)) {
                keys.push(KeyEntry {
                    key: self.ledger.key(object).to_vec().into(),
                    size_bytes: self.ledger.objects().size_bytes(object),
                });
            }
            looked_at += 1;
            next = object.0 + 1;
        }
        ShardReply::Keys { keys, next: None }
    }

    /// The object of a key if it can be read, given what [`LookAhead`] says of it. Get, exist and
    /// validate all ask here, so they cannot disagree.
    pub(super) fn find_readable(
        &self,
        batch: &KeyBatch,
        index: usize,
        likely: Option<ObjectHandle>,
    ) -> Result<ObjectHandle, ErrorCode> {
        let found = self.ledger.find_likely(batch.keys[index].hash, batch.key(index), likely);
        match found {
            Some(object) if self.readable(object) => Ok(object),
            Some(object) if self.ledger.objects().state(object) == ObjectState::Writing => {
                Err(ErrorCode::NotReadable)
            }
            _ => Err(ErrorCode::NotFound),
        }
    }

    /// Whether a complete replica of the object lies on a mounted segment.
    pub(super) fn readable(&self, object: ObjectHandle) -> bool {
        self.ledger.objects().state(object) == ObjectState::Readable && self.reachable(object)
    }

    /// Whether any replica of the object lies on a mounted segment.
    pub(super) fn reachable(&self, object: ObjectHandle) -> bool {
        self.ledger
            .replicas(object)
            .any(|range| self.segments.readable(self.ledger.ranges().segment(range)))
    }

    /// Whether a reader may still hold a descriptor of the object.
    pub(super) fn leased(&self, object: ObjectHandle, now: Moment) -> bool {
        self.ledger.objects().state(object) == ObjectState::Readable
            && self.ledger.objects().lease_until(object) > now
    }

    /// The descriptors of an object's replicas on mounted segments.
    #[inline]
    pub(super) fn descriptors(&self, object: ObjectHandle) -> Replicas {
        let first = self.ledger.first_range(object);
        // The usual object has one, and no list is made.
        match self.descriptor(first) {
            Some(only) if self.ledger.ranges().sibling(first).is_none() => Replicas::from(only),
            _ => self.ledger.replicas(object).filter_map(|range| self.descriptor(range)).collect(),
        }
    }

    /// The descriptor of a replica, if its segment is mounted.
    #[inline]
    fn descriptor(&self, range: RangeHandle) -> Option<RangeDescriptor> {
        let ranges = self.ledger.ranges();
        let segment = self.segments.at(ranges.segment(range));
        segment.readable.then(|| RangeDescriptor {
            slot: u32::from(segment.mount.slot.0),
            generation: segment.mount.generation.0,
            offset_bytes: ranges.offset_bytes(range),
        })
    }

    #[inline]
    fn located(&self, object: ObjectHandle) -> Located {
        Located {
            size_bytes: self.ledger.objects().size_bytes(object),
            sequence: self.ledger.objects().sequence(object),
            replicas: self.descriptors(object),
        }
    }
}

/// Records that one page of keys looks at: below a millisecond of work.
const LISTED_RECORDS_MAX: usize = 16_384;
