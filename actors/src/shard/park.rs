//! Puts that wait for space, in the order in which they came.
//!
//! A parked put holds its key, so that no other start overtakes it, and has a deadline. It is tried
//! again whenever room was made, and answered exactly once: granted, or refused by its deadline,
//! with its client, or when the pool says that no room can be made.

use std::collections::{HashMap, HashSet, VecDeque};

use mooring_proto::ClientId;
use mooring_proto::error::{ErrorCode, NoSpace, Refusal};
use mooring_proto::message::object::{PutOptions, PutStartGrant};

use super::message::{PutRequest, ShardEffect, ShardReply, SoftPinAction};
use super::put::{Attempt, Start};
use super::state::Shard;
use super::upsert::{Extra, Mode};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{Mount, ShardReport};
use crate::request::RequestId;
use crate::route::KeyHash;

/// The parked puts of a shard.
#[derive(Debug, Default)]
pub(super) struct Parked {
    queue: VecDeque<ParkedPut>,
    keys: HashSet<Box<[u8]>>,
    /// Batches with at least one parked put.
    batches: HashMap<RequestId, Batch>,
    /// The room request that is under way.
    room: Option<RoomRequest>,
    last_room_number: u64,
    /// No room for this size and above until then, says the pool.
    no_room: Option<NoRoom>,
}

#[derive(Debug)]
struct RoomRequest {
    number: u64,
    size_bytes: u64,
}

#[derive(Clone, Debug)]
struct NoRoom {
    size_bytes: u64,
    until: Moment,
    refusal: Refusal,
}

/// A put that waits.
#[derive(Debug)]
pub(super) struct ParkedPut {
    request: RequestId,
    index: usize,
    client: ClientId,
    options: PutOptions,
    key: Box<[u8]>,
    hash: KeyHash,
    put: PutRequest,
    mode: Mode,
    data_type: u8,
    soft_pin: SoftPinAction,
    group: Option<Box<[u8]>>,
    deadline: Moment,
}

impl ParkedPut {
    pub(super) fn new(
        request: RequestId,
        index: usize,
        start: &Start<'_>,
        deadline: Moment,
    ) -> ParkedPut {
        ParkedPut {
            request,
            index,
            client: start.client,
            options: start.options.clone(),
            key: start.key.into(),
            hash: start.hash,
            put: start.put,
            mode: start.mode,
            data_type: start.extra.data_type,
            soft_pin: start.extra.soft_pin,
            group: start.extra.group.map(Box::from),
            deadline,
        }
    }
}

/// The answers of one batch of starts, some of them still open.
#[derive(Debug)]
pub(super) struct Batch {
    id: RequestId,
    answers: Vec<Option<Result<PutStartGrant, Refusal>>>,
    open: usize,
}

impl Batch {
    pub(super) fn new(id: RequestId, keys: usize) -> Batch {
        Batch { id, answers: vec![None; keys], open: keys }
    }

    pub(super) fn answer(&mut self, index: usize, answer: Result<PutStartGrant, Refusal>) {
        let before = self.answers[index].replace(answer);
        assert!(before.is_none(), "each put is answered once");
        self.open -= 1;
    }

    fn into_effect(self) -> ShardEffect {
        let answers = self.answers.into_iter().map(|answer| answer.expect("none is open"));
        ShardEffect::Reply { id: self.id, reply: ShardReply::Started(answers.collect()) }
    }
}

impl Parked {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn holds_key(&self, key: &[u8]) -> bool {
        !self.keys.is_empty() && self.keys.contains(key)
    }

    /// Whether room was asked for and the answer is not there yet.
    pub(super) fn room_requested(&self) -> bool {
        self.room.is_some()
    }

    /// Numbers a room request.
    pub(super) fn request_room(&mut self, size_bytes: u64) -> u64 {
        self.last_room_number += 1;
        self.room = Some(RoomRequest { number: self.last_room_number, size_bytes });
        self.last_room_number
    }

    /// Why an object of this size need not be tried now.
    pub(super) fn no_room(&self, now: Moment, size_bytes: u64) -> Option<Refusal> {
        self.no_room
            .as_ref()
            .filter(|no_room| now < no_room.until && no_room.size_bytes <= size_bytes)
            .map(|no_room| no_room.refusal.clone())
    }

    fn answer(
        &mut self,
        put: &ParkedPut,
        answer: Result<PutStartGrant, Refusal>,
        effects: &mut Vec<ShardEffect>,
    ) {
        self.keys.remove(&put.key);
        let batch = self.batches.get_mut(&put.request).expect("a parked put has its batch");
        batch.answer(put.index, answer);
        if batch.open == 0
            && let Some(batch) = self.batches.remove(&put.request)
        {
            effects.push(batch.into_effect());
        }
    }

    /// Refuses the parked puts that a rule picks.
    fn refuse(
        &mut self,
        refusal: &Refusal,
        picks: impl Fn(&ParkedPut) -> bool,
        effects: &mut Vec<ShardEffect>,
    ) -> usize {
        let before = self.queue.len();
        for put in std::mem::take(&mut self.queue) {
            if picks(&put) {
                self.answer(&put, Err(refusal.clone()), effects);
            } else {
                self.queue.push_back(put);
            }
        }
        before - self.queue.len()
    }
}

impl Shard {
    /// Lets a put wait.
    ///
    /// # Errors
    /// When too many wait already.
    pub(super) fn park(&mut self, put: ParkedPut) -> Result<(), Refusal> {
        if self.parked.queue.len() >= self.config.parked_puts_max {
            self.counters.put_refused += 1;
            return Err(Refusal { retry_after_ms: Some(100), ..ErrorCode::Overloaded.into() });
        }
        self.parked.keys.insert(put.key.clone());
        self.parked.queue.push_back(put);
        Ok(())
    }

    /// Answers a batch, or keeps it until its parked puts are decided.
    pub(super) fn await_answers(&mut self, batch: Batch, effects: &mut Vec<ShardEffect>) {
        if batch.open == 0 {
            effects.push(batch.into_effect());
        } else {
            self.parked.batches.insert(batch.id, batch);
        }
    }

    /// Tries the parked puts again, the longest waiting first. What is as large as one that was tried
    /// in vain needs no try.
    pub(super) fn resume_parked(&mut self, now: Moment, effects: &mut Vec<ShardEffect>) {
        let mut tries_in_vain = 0;
        let mut too_large_bytes = u64::MAX;
        let mut waiting = VecDeque::new();
        while waiting.len() < LOOKS_MAX
            && tries_in_vain < MISSES_MAX
            && let Some(put) = self.parked.queue.pop_front()
        {
            if put.put.size_bytes >= too_large_bytes {
                waiting.push_back(put);
                continue;
            }
            match self.place_put(now, &put.start(), Attempt::Again, effects) {
                Some(answer) => {
                    let answer = answer.map(|object| self.grant_of(object));
                    self.parked.answer(&put, answer, effects);
                }
                None => {
                    // One that wants several replicas may wait for the second one only.
                    if put.options.replicas == 1 {
                        too_large_bytes = put.put.size_bytes;
                    }
                    waiting.push_back(put);
                    tries_in_vain += 1;
                }
            }
        }
        waiting.append(&mut self.parked.queue);
        self.parked.queue = waiting;
    }

    /// Refuses the parked puts whose time is over.
    pub(super) fn refuse_overdue(&mut self, now: Moment, effects: &mut Vec<ShardEffect>) {
        if self.parked.is_empty() {
            return;
        }
        // The sum over thousands of segments is worth its time only for somebody who is told.
        if self.parked.queue.iter().any(|put| put.deadline <= now) {
            let refusal = Refusal {
                code: ErrorCode::NoSpace,
                retry_after_ms: Some(100),
                no_space: Some(Box::new(self.own_space())),
            };
            let refused = self.parked.refuse(&refusal, |put| put.deadline <= now, effects);
            self.counters.put_refused += refused as u64;
        }
        self.cancel_unneeded_room(effects);
    }

    /// Refuses the parked puts of a client that is gone.
    pub(super) fn refuse_parked_of(&mut self, client: ClientId, effects: &mut Vec<ShardEffect>) {
        let refusal = Refusal::from(ErrorCode::NeedRemount);
        self.parked.refuse(&refusal, |put| put.client == client, effects);
        self.cancel_unneeded_room(effects);
    }

    /// Refuses every parked put.
    pub(super) fn refuse_all_parked(&mut self, refusal: &Refusal, effects: &mut Vec<ShardEffect>) {
        self.parked.refuse(refusal, |_| true, effects);
        self.parked.room = None;
    }

    /// Takes pages that were vacated for a parked put.
    pub(super) fn take_room(&mut self, number: u64, mount: Mount, run: PageRun) {
        self.parked.room.take_if(|room| room.number == number);
        self.take_pages(mount, run);
    }

    /// Refuses the parked puts for which no room can be made, and for a while those that come.
    pub(super) fn take_no_room(
        &mut self,
        now: Moment,
        number: u64,
        space: NoSpace,
        retry_after_ms: Option<u32>,
        effects: &mut Vec<ShardEffect>,
    ) {
        let Some(room) = self.parked.room.take_if(|room| room.number == number) else { return };
        let refusal =
            Refusal { code: ErrorCode::NoSpace, retry_after_ms, no_space: Some(Box::new(space)) };
        let until = now.after_ms(NO_ROOM_MS);
        self.parked.no_room =
            Some(NoRoom { size_bytes: room.size_bytes, until, refusal: refusal.clone() });
        let refused =
            self.parked.refuse(&refusal, |put| put.put.size_bytes >= room.size_bytes, effects);
        self.counters.put_refused += refused as u64;
        self.room_made = true;
    }

    /// Tells the pool when nobody waits any more for the room that was asked for.
    fn cancel_unneeded_room(&mut self, effects: &mut Vec<ShardEffect>) {
        let Some(room) = &self.parked.room else { return };
        if self.parked.queue.iter().any(|put| put.put.size_bytes >= room.size_bytes) {
            return;
        }
        let number = room.number;
        self.parked.room = None;
        effects.push(ShardEffect::Report(ShardReport::RoomCancelled { number }));
    }
}

impl ParkedPut {
    fn start(&self) -> Start<'_> {
        Start {
            client: self.client,
            options: &self.options,
            key: &self.key,
            hash: self.hash,
            put: self.put,
            mode: self.mode,
            extra: Extra {
                data_type: self.data_type,
                soft_pin: self.soft_pin,
                group: self.group.as_deref(),
            },
        }
    }
}

/// Parked puts that are tried in vain before the rest has to wait for the next occasion, so that a
/// long queue in a full pool costs little.
const MISSES_MAX: usize = 16;

/// Parked puts that are looked at and stay, tried or not.
const LOOKS_MAX: usize = 256;

/// For how long the pool's word that no room can be made is taken for new puts of that size. Long
/// enough to refuse a storm of them for nothing, short beside the leases that end meanwhile.
const NO_ROOM_MS: u64 = 20;
