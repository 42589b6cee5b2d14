//! Restarts of the master: it comes to rest and hands over, or it just ends, and after a while the
//! next one serves, sometimes with another number of shards. Stores and clients go on meanwhile.

use mooring_actors::clients::ClientsMessage;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::{Mount, PoolMessage};
use mooring_actors::shard::message::{ShardMessage, ShardReply};
use mooring_actors::{Moment, RequestId, ShardId};
use rand::Rng;

use crate::asked::Asked;
use crate::cluster::handoff::{Handoff, OwnedRange};
use crate::cluster::maps::HashMap;
use crate::cluster::{Answer, Cluster, Envelope, mount};
use crate::event::{End, Event};
use crate::oracle::HandedOver;
use crate::plan::{Canary, Leaving, RestartPlan};
use crate::world::World;

/// How the master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Serving,
    /// It comes to rest, since that moment.
    Leaving(Moment),
    /// There is none.
    Down,
}

impl World {
    /// The next restart is due some time after the master has begun to serve.
    pub(crate) fn plan_restart(&mut self) {
        if let Some(restart) = self.plan.restarts.get(self.restarts).copied() {
            self.at(restart.after_ms, Event::Leave);
        }
    }

    /// Whether a request of now gets to the master: those that are sent while it leaves may not.
    pub(crate) fn is_taken(&mut self) -> bool {
        match self.life {
            Life::Serving => true,
            Life::Leaving(_) => self.dice.random_bool(0.3),
            Life::Down => false,
        }
    }

    pub(crate) fn begin_to_leave(&mut self) -> Result<(), Violation> {
        if self.calm || self.life != Life::Serving {
            return Ok(());
        }
        self.restarts += 1;
        let restart = self.restart();
        self.audit.note_text(self.clock, "leave", &restart);
        if restart.leaving == Leaving::Killed {
            return self.end_master(None);
        }
        self.life = Life::Leaving(self.clock);
        if restart.leaving == Leaving::KilledOnTheWay {
            let delay_ms = self.dice.random_range(0..=30);
            self.at(delay_ms, Event::KillLeaving);
        }
        if self.dice.random_bool(0.8) {
            let freeze = ClientsMessage::FreezeJudgement(true);
            self.post(End::Process, Envelope::ToClients(freeze));
        }
        self.post(End::Process, Envelope::ToClients(ClientsMessage::Quiesce));
        for number in 0..self.shards() {
            let quiesce =
                Envelope::ToShard(ShardId(number), ShardMessage::Quiesce { hands_over: true });
            self.post(End::Process, quiesce);
        }
        Ok(())
    }

    /// Somebody has no patience with a master that leaves.
    pub(crate) fn kill_leaving(&mut self) -> Result<(), Violation> {
        match self.life {
            Life::Leaving(_) => {
                // What it has not answered is not at rest.
                self.life = Life::Serving;
                self.end_master(None)
            }
            Life::Serving | Life::Down => Ok(()),
        }
    }

    /// The restart that has begun last.
    fn restart(&self) -> RestartPlan {
        self.plan.restarts[self.restarts - 1]
    }

    /// A master that leaves does so when all its actors are at rest.
    pub(crate) fn leave_if_at_rest(&mut self) -> Result<(), Violation> {
        let Life::Leaving(since) = self.life else { return Ok(()) };
        if self.cluster.shards_at_rest < self.cluster.shards.len() {
            if self.clock.since_ms(since) > REST_MS_MAX {
                let fault = format!("the actors do not come to rest since {since:?}");
                return Err(Invariant::Answered.violated(fault));
            }
            return Ok(());
        }
        self.none_under_way()?;
        self.check()?;
        self.note_last_mounts();
        let handoff = self.cluster.export();
        let lost = self.restart().leaving != Leaving::HandsOver;
        self.end_master((!lost).then_some(handoff))
    }

    /// At rest nothing is under way that any actor would still have to take in.
    fn none_under_way(&self) -> Result<(), Violation> {
        for ((from, to), lane) in &self.lanes {
            let inside = matches!(from, End::Pool | End::Shard(_) | End::Clients);
            let counts = |envelope: &&Envelope| {
                !matches!(
                    envelope,
                    Envelope::ToShard(_, ShardMessage::Continue | ShardMessage::ClientLost(_))
                        | Envelope::ToClients(_)
                )
            };
            if inside && let Some(envelope) = lane.messages.iter().find(counts) {
                let fault = format!("at rest {envelope:?} is on its way from {from:?} to {to:?}");
                return Err(Invariant::Conservation.violated(fault));
            }
        }
        Ok(())
    }

    /// What the pool has said of mounts is taken in before the clients are handed over.
    fn note_last_mounts(&mut self) {
        if let Some(lane) = self.lanes.get_mut(&(End::Pool, End::Clients)) {
            self.cluster.queue.append(&mut lane.messages);
        }
        self.cluster.settle();
    }

    /// The process ends. What it has not answered fails, and of its last answers some are lost.
    fn end_master(&mut self, handoff: Option<Handoff>) -> Result<(), Violation> {
        let rested = self.life != Life::Serving;
        self.life = Life::Down;
        self.stalled_until = Moment::default();
        self.audit.note_text(self.clock, "end", &handoff.is_some());
        if handoff.is_none() {
            self.restart_half_mounted();
        }
        self.handoff = handoff.map(|handoff| (self.clock, handoff));
        let lanes = std::mem::take(&mut self.lanes);
        for id in lanes.values().flat_map(|lane| &lane.messages).filter_map(request_id) {
            self.cluster.open.remove(&id);
        }
        if rested && let Some(id) = self.cluster.open.keys().next() {
            let fault = format!("{:?} has no answer at rest", self.pending.get(id));
            return Err(Invariant::Answered.violated(fault));
        }
        self.agenda.retain(|event| {
            !matches!(event, Event::Deliver(..) | Event::Arrive(_) | Event::GiveUp(_))
        });
        self.heard.clear();
        let mut arrivals: Vec<_> = self.arrivals.drain().collect();
        arrivals.sort_by_key(|(id, _)| *id);
        for (_, (asked, answer)) in arrivals {
            if self.dice.random_bool(0.5) {
                self.arrive(asked, answer)?;
            } else {
                self.failed(asked);
            }
        }
        let mut pending: Vec<_> = self.pending.drain().collect();
        pending.sort_by_key(|(id, _)| *id);
        for (id, (_, asked)) in pending {
            if !self.given_up.remove(&id) {
                self.failed(asked);
            }
        }
        self.given_up.clear();
        self.trouble_stores();
        let gap_ms = self.restart().gap_ms;
        self.at(gap_ms, Event::Serve);
        Ok(())
    }

    /// A store that was about to mount does not know whether the master that was killed has placed in
    /// its memory. Where nobody asks the store, it has to start again.
    fn restart_half_mounted(&mut self) {
        for number in 0..self.stores.len() {
            let checks = self.memories.all[number].checks_mounts;
            if !checks && self.stores[number].is_asking() {
                self.crash(number);
            }
        }
    }

    /// Some stores have troubles of their own while no master serves.
    fn trouble_stores(&mut self) {
        let ratio = self.restart().store_fault_ratio;
        for number in 0..self.stores.len() {
            if self.stores[number].retired || !self.dice.random_bool(ratio) {
                continue;
            }
            match self.dice.random_range(0..10) {
                0..4 => self.crash(number),
                4..7 => self.move_memory(number),
                7..9 => self.divide_anew(number),
                // Somebody has to stay.
                _ => self.stores[number].retired = number > 0,
            }
        }
    }

    /// A request was not answered, and whoever asked does not know what became of it.
    pub(crate) fn failed(&mut self, asked: Asked) {
        match asked {
            Asked::Mount { store, process, segment } => {
                let lives = self.is_process(store, process);
                if lives {
                    self.mount_in_doubt(store, segment);
                }
            }
            Asked::Remount { store, process, .. } => {
                self.is_process(store, process);
            }
            Asked::Unmount { store, process, segment, .. } => {
                let lives = self.is_process(store, process);
                if lives {
                    self.unmount_again(store, segment);
                }
            }
            Asked::Start { puts, .. } => {
                for put in puts {
                    let number = put.put_id as usize;
                    if number < self.puts.len() && self.dice.random_bool(0.5) {
                        let delay_ms = self.dice.random_range(0..=1_000);
                        self.at(delay_ms, Event::StartAgain { put: number });
                    }
                }
            }
            Asked::End { put_id, .. } => self.plan_to_conclude_again(put_id, true),
            Asked::Revoke { put_id, quiet, .. } => self.plan_to_conclude_again(put_id, quiet),
            _ => {}
        }
    }

    /// The next master serves, with what was handed over if there is anything.
    pub(crate) fn begin_to_serve(&mut self) -> Result<(), Violation> {
        let shards = self.restart().shards;
        let handed_over = self.handoff.take();
        self.audit.note_text(self.clock, "serve", &shards);
        let next = match &handed_over {
            None => self.cluster.replaced(shards),
            Some((_, handoff)) => {
                let planted = self.plant(handoff.clone());
                self.restored(&planted, shards)?
            }
        };
        let former = std::mem::replace(&mut self.cluster, next);
        if handed_over.is_none() {
            self.note_killed(former.incarnation);
        }
        self.oracle.tally.evicted += former.totals().evicted_objects;
        self.cluster.checked = false;
        self.began = self.clock;
        if self.plan.canary == Some(Canary::EarlyTime) {
            let early_ms = self.plan.settings.lease_ttl_ms;
            self.began = Moment::from_ms(self.clock.as_ms().saturating_sub(early_ms));
        }
        self.known_epoch = None;
        self.life = Life::Serving;
        let master = self.cluster.incarnation;
        match handed_over {
            None => self.oracle.began_cold(master, &self.memories),
            Some((exported, handoff)) => {
                for entry in self.cluster.handed_over.clone() {
                    self.memories.learn(master, &entry);
                }
                let mounts = self.mounts_of(&handoff);
                let objects = self.objects_of(&handoff);
                let handed_over = HandedOver { exported, serving: self.clock, mounts, objects };
                let cluster = &self.cluster;
                self.oracle.handed_over(master, &handed_over, |key| {
                    cluster.shard_of(&crate::keys::key_bytes(key))
                })?;
            }
        }
        self.check()?;
        if self.plan.canary == Some(Canary::RevivedKeys) {
            (0..20).for_each(|_| self.remove(0));
        }
        self.plan_restart();
        Ok(())
    }

    /// As the process does it: each shard by itself if it can be, all together otherwise.
    fn restored(&mut self, handoff: &Handoff, shards: u16) -> Result<Cluster, Violation> {
        let aliens: u64 = handoff.shards.iter().map(|file| file.record.aliens).sum();
        let result = if aliens == 0 && usize::from(shards) == handoff.shards.len() {
            self.cluster.restored(handoff)
        } else {
            self.cluster.reshaped(handoff, shards)
        };
        result.map_err(|error| {
            Invariant::Conservation.violated(format!("what was handed over is refused: {error}"))
        })
    }

    fn mounts_of(&self, handoff: &Handoff) -> HashMap<Mount, Mount> {
        let now = |id| {
            let known = self.cluster.handed_over.iter().find(|now| now.segment.segment == id)?;
            Some(mount(known.slot, known.generation))
        };
        let before = handoff.pool.segments.iter();
        before
            .filter_map(|record| now(record.segment.segment).map(|now| (record.mount(), now)))
            .collect()
    }

    fn objects_of(&self, handoff: &Handoff) -> HashMap<u32, u64> {
        let line = self.oracle.tally.cold_starts << WIRE_BITS;
        let ranges = handoff.shards.iter().flat_map(|file| &file.ranges);
        ranges
            .filter_map(|range| match range {
                OwnedRange::Object { key, record, .. } => {
                    Some((crate::keys::key_number(key), record.sequence | line))
                }
                _ => None,
            })
            .collect()
    }

    /// The master does nothing for a while, and then goes on as if nothing had been.
    pub(crate) fn stall(&mut self) {
        if self.calm {
            return;
        }
        self.plan_stall();
        let stall_ms = self.dice.random_range(1..=2 * self.plan.settings.client_ttl_ms);
        if let Life::Leaving(since) = self.life {
            self.life = Life::Leaving(since.after_ms(stall_ms));
        }
        self.audit.note_text(self.clock, "stall", &stall_ms);
        self.stalled_until = self.clock.after_ms(stall_ms);
    }

    pub(crate) fn plan_stall(&mut self) {
        let pause_ms = self.plan.stall_pause_ms;
        if pause_ms > 0 {
            let delay_ms = self.dice.random_range(1..=2 * pause_ms);
            self.at(delay_ms, Event::Stall);
        }
    }

    /// Lets a restart end that has begun.
    pub(crate) fn master_must_serve(&mut self) -> Result<(), Violation> {
        while self.life != Life::Serving {
            self.run_for(10)?;
        }
        Ok(())
    }

    /// A master that begins with nothing counts its puts anew. For the model no two puts have the same
    /// number.
    pub(crate) fn number_puts(&self, answer: &mut Answer) {
        let line = self.oracle.tally.cold_starts << WIRE_BITS;
        match answer {
            Answer::Shard(ShardReply::Started(answers)) => {
                answers.iter_mut().flatten().for_each(|grant| grant.sequence |= line);
            }
            Answer::Shard(ShardReply::Located(answers)) => {
                answers.iter_mut().flatten().for_each(|located| located.sequence |= line);
            }
            Answer::Shard(ShardReply::Described(answers)) => {
                answers.iter_mut().flatten().for_each(|described| described.sequence |= line);
            }
            _ => {}
        }
    }
}

/// The number of a put as the master knows it.
pub(crate) fn wire_sequence(sequence: u64) -> u64 {
    sequence & ((1 << WIRE_BITS) - 1)
}

fn request_id(envelope: &Envelope) -> Option<RequestId> {
    match envelope {
        Envelope::ToShard(_, ShardMessage::Request { id, .. })
        | Envelope::ToPool(PoolMessage::Request { id, .. })
        | Envelope::ToClients(ClientsMessage::Ping { id, .. }) => Some(*id),
        _ => None,
    }
}

/// No run makes more puts than these bits can number.
const WIRE_BITS: u32 = 48;

/// A message is under way for a quarter of a second at most, and rest takes a few in a row. What the
/// master stalls meanwhile does not count.
const REST_MS_MAX: u64 = 3_000;
