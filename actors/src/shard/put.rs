//! The life of a put: start, end, revoke, and what becomes of those that do neither.

use mooring_proto::error::{ErrorCode, Refusal};
use mooring_proto::limits::{KEY_BYTES_MAX, OBJECT_BYTES_MAX, REPLICAS_MAX};
use mooring_proto::message::object::{PutOptions, PutStartGrant};
use mooring_proto::{ClientId, Incarnation};

use super::ahead::{LookAhead, Moves};
use super::ledger::Reservation;
use super::message::{KeyBatch, PutExtras, PutRequest, ShardEffect};
use super::objects::{ObjectHandle, ObjectState};
use super::park::{Batch, ParkedPut};
use super::place::{Placed, Placement, Wanted};
use super::ranges::RangeHandle;
use super::state::Shard;
use super::unfinished::Put;
use super::upsert::{Extra, Mode};
use crate::moment::Moment;
use crate::request::RequestId;
use crate::route::KeyHash;

/// Who starts a put of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) client: ClientId,
    pub(super) options: &'a PutOptions,
    pub(super) key: &'a [u8],
    pub(super) hash: KeyHash,
    pub(super) put: PutRequest,
    pub(super) mode: Mode,
    pub(super) extra: Extra<'a>,
}

/// The starts of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts<'a> {
    pub(super) client: ClientId,
    pub(super) options: &'a PutOptions,
    pub(super) mode: Mode,
    pub(super) extras: Option<&'a PutExtras>,
    pub(super) batch: &'a KeyBatch,
    pub(super) puts: &'a [PutRequest],
}

impl<'a> Starts<'a> {
    fn start(&self, index: usize) -> Result<Start<'a>, ErrorCode> {
        Ok(Start {
            client: self.client,
            options: self.options,
            key: self.batch.key(index),
            hash: self.batch.keys[index].hash,
            put: self.puts[index],
            mode: self.mode,
            extra: Extra::of(self.extras, self.batch.len(), index)?,
        })
    }
}

impl Shard {
    /// Starts the puts of a batch. The answer follows at once, or when the last put that has to wait
    /// for space is decided.
    pub(super) fn start_puts(
        &mut self,
        now: Moment,
        id: RequestId,
        deadline: Option<Moment>,
        starts: &Starts<'_>,
        effects: &mut Vec<ShardEffect>,
    ) {
        let overdue = now.after_ms(self.config.parked_put_timeout_ms);
        let deadline = deadline.map_or(overdue, |deadline| deadline.min(overdue));
        let batch = starts.batch;
        let mut answers = Batch::new(id, batch.len());
        self.counters.put_starts += batch.len() as u64;
        let mut ahead = LookAhead::new(batch, Moves::None);
        for index in 0..starts.puts.len() {
            ahead.advance(&self.ledger, index);
            if let Some(ahead) = batch.keys.get(index + GHOSTS_AHEAD) {
                self.reuse.prefetch(ahead.hash);
            }
            let admitted = starts
                .start(index)
                .map_err(Refusal::from)
                .and_then(|start| Ok((start, self.admit(now, &start)?)));
            let answer = match admitted {
                Ok((_, Some(object))) => Ok(object),
                Ok((start, None)) => match self.place_put(now, &start, Attempt::First, effects) {
                    Some(answer) => answer,
                    None => match self.park(ParkedPut::new(id, index, &start, deadline)) {
                        Ok(()) => continue,
                        Err(refusal) => Err(refusal),
                    },
                },
                Err(refusal) => Err(refusal),
            };
            answers.answer(index, answer.map(|object| self.grant_of(object)));
        }
        self.await_answers(answers, effects);
    }

    /// Whether a start may go on: `None` if the key is free, the object if this very put has a
    /// reservation already.
    fn admit(&mut self, now: Moment, start: &Start<'_>) -> Result<Option<ObjectHandle>, Refusal> {
        if start.key.is_empty() || start.key.len() > KEY_BYTES_MAX {
            return Err(ErrorCode::InvalidKey.into());
        }
        if start.put.size_bytes == 0 || start.put.size_bytes > OBJECT_BYTES_MAX {
            return Err(ErrorCode::InvalidSize.into());
        }
        if start.options.replicas == 0 || usize::from(start.options.replicas) > REPLICAS_MAX {
            return Err(ErrorCode::InvalidArgument.into());
        }
        if self.parked.holds_key(start.key) {
            return Err(in_progress(self.config.parked_put_timeout_ms));
        }
        if start.mode == Mode::Upsert {
            // What the key has is replaced once there is space.
            return self.admit_upsert(now, start).map(|()| None);
        }
        let Some(object) = self.ledger.find(start.hash, start.key) else { return Ok(None) };
        let Some(put) = self.put_of(object).copied() else {
            if self.reachable(object) {
                return Err(ErrorCode::AlreadyExists.into());
            }
            self.erase(now, object, self.leased_until(object));
            return Ok(None);
        };
        let age_ms = now.since_ms(put.started);
        let writable_until = put.started.after_ms(self.config.put_release_timeout_ms);
        if !self.reachable(object) {
            self.erase(now, object, Some(writable_until));
            return Ok(None);
        }
        if age_ms < self.config.put_discard_timeout_ms {
            if put.client == start.client && put.put_id == start.put.put_id {
                return self.repeats(object, &put, start).map(|()| Some(object));
            }
            return Err(in_progress(self.config.put_discard_timeout_ms - age_ms));
        }
        self.counters.put_discarded += 1;
        self.erase(now, object, Some(writable_until));
        Ok(None)
    }

    /// Whether a start that names the put of a reservation asks for the same. A client that uses an
    /// id twice would else write beyond its range. Preferences for segments are no part of it.
    fn repeats(&self, object: ObjectHandle, put: &Put, start: &Start<'_>) -> Result<(), Refusal> {
        let objects = self.ledger.objects();
        let same = objects.size_bytes(object) == start.put.size_bytes
            && objects.flags(object).hard_pin == start.options.hard_pin
            && put.replicas == start.options.replicas
            && put.soft_pin_ttl_ms == start.options.soft_pin_ttl_ms;
        if same { Ok(()) } else { Err(ErrorCode::InvalidArgument.into()) }
    }

    /// The unfinished put that made an object, if it has not ended.
    pub(super) fn put_of(&self, object: ObjectHandle) -> Option<&Put> {
        self.unfinished.of(object, self.ledger.objects().sequence(object))
    }

    /// Finds room for a put and reserves it; `None` if the put has to wait.
    pub(super) fn place_put(
        &mut self,
        now: Moment,
        start: &Start<'_>,
        attempt: Attempt,
        effects: &mut Vec<ShardEffect>,
    ) -> Option<Result<ObjectHandle, Refusal>> {
        let wanted = Wanted {
            size_bytes: start.put.size_bytes,
            replicas: usize::from(start.options.replicas),
            preferred: &start.options.preferred_segments,
        };
        let mut placed = Placed::default();
        match self.place(now, &wanted, attempt, &mut placed, effects) {
            Placement::Placed => Some(self.reserve(now, start, &placed)),
            Placement::Wait => None,
            Placement::Refused(refusal) => {
                self.counters.put_refused += 1;
                Some(Err(refusal))
            }
        }
    }

    fn reserve(
        &mut self,
        now: Moment,
        start: &Start<'_>,
        ranges: &[RangeHandle],
    ) -> Result<ObjectHandle, Refusal> {
        let sequence = self.next_sequence;
        let replaced = self.replaced(now, start);
        let reservation = Reservation {
            key: start.key,
            hash: start.hash,
            size_bytes: start.put.size_bytes,
            sequence,
            hard_pin: start.options.hard_pin || replaced.as_ref().is_some_and(|old| old.hard_pin),
            ranges,
        };
        let Ok(object) = self.ledger.reserve(&mut self.segments, reservation) else {
            for range in ranges {
                self.ledger.ranges_mut().free(*range);
            }
            self.counters.put_refused += 1;
            return Err(Refusal { retry_after_ms: Some(1000), ..ErrorCode::Overloaded.into() });
        };
        // Shards count in steps of the largest number of shards, so no two of them issue one number.
        self.next_sequence += SEQUENCE_STEP;
        self.unfinished.add(
            object,
            Put {
                client: start.client,
                put_id: start.put.put_id,
                sequence,
                started: now,
                replicas: start.options.replicas,
                soft_pin_ttl_ms: start.soft_pin_ttl_ms(),
                inherited_soft_pin_until: replaced.as_ref().and_then(|old| old.soft_pin_until),
                soft_pin: start.extra.soft_pin,
            },
        );
        self.note_extra(object, &start.extra, replaced.as_ref());
        if let Some(replaced) = replaced {
            self.replace(now, replaced);
        }
        self.reuse.note_use(now, start.hash, start.put.size_bytes);
        if self.reuse.was_evicted(start.hash) {
            self.ledger.note_missed(object);
        }
        self.counters.put_granted += 1;
        if ranges.len() < usize::from(start.options.replicas) {
            self.counters.put_short += 1;
        }
        Ok(object)
    }

    /// The answer to the start of a put. It is made where it is kept: handed on from call to call it would
    /// be copied in pieces, and the processor would wait for each to be written before it is read.
    #[inline]
    pub(super) fn grant_of(&self, object: ObjectHandle) -> PutStartGrant {
        PutStartGrant {
            sequence: self.ledger.objects().sequence(object),
            replicas: self.descriptors(object),
        }
    }

    /// Makes the objects of a batch readable.
    pub(super) fn end_puts(
        &mut self,
        now: Moment,
        incarnation: Incarnation,
        batch: &KeyBatch,
        sequences: &[u64],
    ) -> Vec<Result<(), Refusal>> {
        self.each_put(incarnation, batch, sequences, |shard, object| shard.end_put(now, object))
    }

    /// Does something to the object of each put whose token is current.
    fn each_put(
        &mut self,
        incarnation: Incarnation,
        batch: &KeyBatch,
        sequences: &[u64],
        act: impl Fn(&mut Shard, ObjectHandle) -> Result<(), ErrorCode>,
    ) -> Vec<Result<(), Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::None);
        for (index, sequence) in sequences.iter().enumerate() {
            ahead.advance_by(&self.ledger, index, |at| {
                let object = self.unfinished.object_of(*sequences.get(at)?)?;
                self.ledger.prefetch_record_of(object);
                Some(object)
            });
            let answer = self
                .object_of_put(incarnation, batch, index, *sequence)
                .and_then(|object| act(self, object));
            answers.push(answer.map_err(Refusal::from));
        }
        answers
    }

    pub(super) fn end_put(&mut self, now: Moment, object: ObjectHandle) -> Result<(), ErrorCode> {
        if self.ledger.objects().state(object) == ObjectState::Readable {
            // A repeated end is a success, as long as there is something to read.
            return if self.reachable(object) { Ok(()) } else { Err(ErrorCode::NotFound) };
        }
        let put = *self.put_of(object).expect("an object being written has its put");
        let writable_until = put.started.after_ms(self.config.put_release_timeout_ms);
        // A replica on a segment that is gone may never have received its bytes.
        self.erase_unreachable(now, object, Some(writable_until));
        if self.unfinished.remove(object, put.sequence).is_none() {
            return Err(ErrorCode::NotFound);
        }
        let pinned_until = put.soft_pin_until(now);
        if let Some(until) = pinned_until {
            self.soft_pins.add(object, until);
        }
        self.ledger.complete(&mut self.segments, object, now, pinned_until.is_some());
        self.counters.put_ends += 1;
        Ok(())
    }

    /// Gives the reservations of a batch up.
    pub(super) fn revoke_puts(
        &mut self,
        now: Moment,
        incarnation: Incarnation,
        no_write_in_flight: bool,
        batch: &KeyBatch,
        sequences: &[u64],
    ) -> Vec<Result<(), Refusal>> {
        self.each_put(incarnation, batch, sequences, |shard, object| {
            shard.revoke_put(now, no_write_in_flight, object)
        })
    }

    pub(super) fn revoke_put(
        &mut self,
        now: Moment,
        no_write_in_flight: bool,
        object: ObjectHandle,
    ) -> Result<(), ErrorCode> {
        let Some(put) = self.put_of(object).copied() else {
            return Err(ErrorCode::PutComplete);
        };
        let writable_until = put.started.after_ms(self.config.put_release_timeout_ms);
        self.erase(now, object, (!no_write_in_flight).then_some(writable_until));
        self.counters.put_revokes += 1;
        Ok(())
    }

    /// The object that a token names: only that of the very put, whatever became of the key since.
    fn object_of_put(
        &self,
        incarnation: Incarnation,
        batch: &KeyBatch,
        index: usize,
        sequence: u64,
    ) -> Result<ObjectHandle, ErrorCode> {
        if incarnation != self.config.incarnation {
            return Err(ErrorCode::StaleToken);
        }
        let key = batch.key(index);
        // The usual token is of an unfinished put, whose object the index need not be searched for.
        if let Some(object) = self.unfinished.object_of(sequence)
            && self.ledger.key(object) == key
        {
            return Ok(object);
        }
        let found = self.ledger.find(batch.keys[index].hash, key);
        let object = found.ok_or(ErrorCode::NotFound)?;
        if self.ledger.objects().sequence(object) != sequence {
            return Err(ErrorCode::StaleToken);
        }
        Ok(object)
    }

    /// Frees the ranges of puts that nobody may still be writing, at most this many.
    pub(super) fn discard_unfinished(&mut self, now: Moment, budget: usize) {
        let release_ms = self.config.put_release_timeout_ms;
        let Some(started_ms) = now.as_ms().checked_sub(release_ms) else { return };
        let started = Moment::from_ms(started_ms);
        for _ in 0..budget {
            let Some(object) = self.unfinished.oldest_started_by(started) else { return };
            self.counters.put_discarded += 1;
            self.erase(now, object, None);
        }
    }
}

/// How far ahead of a put its row of evicted keys is asked for. A miss takes about as long as the work on
/// four keys.
const GHOSTS_AHEAD: usize = 4;

/// Whether a put is tried for the first time. A first try prefers to spread; one that has waited
/// takes what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Again,
}

pub(super) fn in_progress(retry_after_ms: u64) -> Refusal {
    Refusal {
        retry_after_ms: Some(u32::try_from(retry_after_ms).unwrap_or(u32::MAX)),
        ..ErrorCode::PutInProgress.into()
    }
}

/// The distance between the sequences of one shard: more than there can be shards.
pub(super) const SEQUENCE_STEP: u64 = 1 << 16;
