//! What every answer must agree with: a model of the keys, fed with the answers themselves in the
//! order in which the master decided them.

mod groups;
mod restarts;
mod starts;
mod writers;

use mooring_actors::core::Settings;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::Mount;
use mooring_actors::shard::message::ShardReply;
use mooring_actors::{Moment, ShardId};
use mooring_proto::Incarnation;
use mooring_proto::error::{ErrorCode, Refusal};
use mooring_proto::message::object::{Located, RangeDescriptor};

use self::groups::GroupRead;
pub(crate) use self::groups::group_name;
pub(crate) use self::restarts::HandedOver;
use crate::asked::{Asked, PutAsked};
use crate::cluster::maps::{HashMap, HashSet};
use crate::cluster::{INCARNATION, mount};
use crate::guards::{Guard, Guards};
use crate::store::{Memories, Place};

/// The model.
#[derive(Debug)]
pub(crate) struct Oracle {
    keys: HashMap<u32, KeyModel>,
    /// Every put that was ever granted, by its number.
    puts: HashMap<u64, PutModel>,
    /// When the start of each put, by the number of its client, was first at its shard.
    first_heard: HashMap<u64, Moment>,
    pub(crate) guards: Guards,
    /// Mounts that a shard has heard to be lost.
    lost: HashSet<(ShardId, Mount)>,
    /// Mounts that this master has been handed, and those of them that a shard has opened.
    handed_over: HashSet<Mount>,
    opened: HashSet<(ShardId, Mount)>,
    /// The master that answers.
    pub(crate) master: Incarnation,
    /// Remove-alls under way, by shard.
    sweeps: HashMap<ShardId, u32>,
    /// Answers that have to do with groups, and by shard and group the last read of a member.
    answers: u64,
    group_reads: HashMap<(ShardId, u32), GroupRead>,
    lease_ttl_ms: u64,
    put_discard_timeout_ms: u64,
    put_release_timeout_ms: u64,
    pub(crate) tally: Tally,
}

/// How often things happened, to see that a run is worth something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) granted: u64,
    pub(crate) refused_for_space: u64,
    pub(crate) ended: u64,
    pub(crate) located: u64,
    pub(crate) missed: u64,
    pub(crate) read: u64,
    pub(crate) read_refused: u64,
    pub(crate) late_writes: u64,
    pub(crate) losses: u64,
    /// Mounts that were not answered and not asked for again.
    pub(crate) given_up: u64,
    pub(crate) evicted: u64,
    pub(crate) handoffs: u64,
    pub(crate) cold_starts: u64,
    /// Segments that opened at a shard after a restart.
    pub(crate) opened: u64,
    /// Objects that were located although another master had been handed them.
    pub(crate) outlived: u64,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyModel {
    /// If the key is readable, then it has the object of this put.
    readable: Option<u64>,
    writing: Option<u64>,
    /// It must not go before.
    leased_until: Moment,
    /// It may be refused to go before: a forced removal of everything may have passed it over.
    leased_at_most_until: Moment,
    /// The last put that was granted.
    newest: Option<u64>,
}

/// When a request reached its shard, and whether its answer is that of the same moment. A batch of
/// starts may wait for space, and then some of its answers are older than others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) since: Moment,
    pub(crate) at_once: bool,
}

#[derive(Debug)]
struct PutModel {
    asked: PutAsked,
    shard: ShardId,
    replicas: Vec<RangeDescriptor>,
    started: Moment,
    hard_pin: bool,
    /// It may be pinned hard, if only as an object was that it has replaced.
    may_be_pinned: bool,
    /// A remove-all came by, and pins are nothing to it.
    pin_void: bool,
    /// When it joined its group, in the order of answers.
    joined: u64,
    /// When it was last found to be there, in the same order.
    found: u64,
    /// A forced remove-all came by, and leases are nothing to it.
    left_group: bool,
    /// A replica was on a segment that is lost.
    doubtful: bool,
    /// A later master than that of the put has been handed it.
    handed_over: bool,
}

impl Oracle {
    pub(crate) fn new(settings: &Settings) -> Oracle {
        Oracle {
            keys: HashMap::default(),
            puts: HashMap::default(),
            first_heard: HashMap::default(),
            guards: Guards::default(),
            lost: HashSet::default(),
            handed_over: HashSet::default(),
            opened: HashSet::default(),
            master: INCARNATION,
            sweeps: HashMap::default(),
            answers: 0,
            group_reads: HashMap::default(),
            lease_ttl_ms: settings.lease_ttl_ms,
            put_discard_timeout_ms: settings.put_discard_timeout_ms,
            put_release_timeout_ms: settings.put_release_timeout_ms,
            tally: Tally::default(),
        }
    }

    /// Judges the answer of a shard.
    pub(crate) fn judge(
        &mut self,
        now: Moment,
        shard: ShardId,
        heard: Heard,
        asked: &Asked,
        reply: &ShardReply,
        memories: &Memories,
    ) -> Result<(), Violation> {
        match (asked, reply) {
            (Asked::Start { puts, hard_pin, replicas, upsert }, ShardReply::Started(answers)) => {
                let (replicas, hard_pin, upsert) = (*replicas, *hard_pin, *upsert);
                let batch = starts::Batch { puts, replicas, hard_pin, upsert };
                self.starts_answered(now, shard, heard, &batch, answers, memories)?;
            }
            (Asked::End { puts, .. }, ShardReply::Done(answers)) => {
                for (&(key, sequence), answer) in pairs(puts, answers)? {
                    self.ended(now, key, sequence, answer)?;
                }
            }
            (Asked::Revoke { puts, quiet, .. }, ShardReply::Done(answers)) => {
                for (&(key, sequence), answer) in pairs(puts, answers)? {
                    self.revoked(now, key, sequence, *quiet, answer)?;
                }
            }
            (Asked::Get { keys, .. }, ShardReply::Located(answers)) => {
                for (&key, answer) in pairs(keys, answers)? {
                    match answer {
                        Ok(located) => self.located(now, key, located, memories)?,
                        Err(_) => self.missed(now, key)?,
                    }
                }
            }
            (Asked::Get { keys, .. }, ShardReply::Described(answers)) => {
                for (&key, answer) in pairs(keys, answers)? {
                    match answer {
                        Ok(described) => {
                            self.located(now, key, &crate::writer::located(described), memories)?;
                            self.described(key, described)?;
                        }
                        Err(_) => self.missed(now, key)?,
                    }
                }
            }
            (Asked::EndByWriter { put }, ShardReply::Done(answers)) => {
                self.ended_by_writer(now, put, &answers[0])?;
            }
            (Asked::RevokeByWriter { put }, ShardReply::Done(answers)) => {
                self.revoked_by_writer(now, put, &answers[0])?;
            }
            (Asked::RemoveByWriter { keys, client }, ShardReply::Done(answers)) => {
                for (&key, answer) in pairs(keys, answers)? {
                    self.removed_by_writer(now, key, *client, answer)?;
                }
            }
            (Asked::Exist { keys, lease }, ShardReply::Existing(answers)) => {
                for (&key, &exists) in pairs(keys, answers)? {
                    self.exists(now, key, exists, *lease)?;
                }
            }
            (Asked::Validate { puts, .. }, ShardReply::Done(answers)) => {
                for (&(key, sequence), answer) in pairs(puts, answers)? {
                    if answer.is_ok() && self.key(key).readable != Some(sequence) {
                        return Err(readable(key, "was validated with the number of another put"));
                    }
                }
            }
            (Asked::Remove { keys, force }, ShardReply::Done(answers)) => {
                for (&key, answer) in pairs(keys, answers)? {
                    self.removed(now, key, *force, answer)?;
                }
            }
            (Asked::RemoveAll { force }, ShardReply::Removed { .. }) => {
                self.swept(shard, *force);
                self.forget_hidden(shard);
            }
            // Parts of it may have been done.
            (Asked::RemoveAll { force }, ShardReply::Restarting) => self.swept(shard, *force),
            (_, ShardReply::Restarting) => {}
            (Asked::Other, _) => {}
            (asked, reply) => {
                let fault = format!("{asked:?} was answered with {reply:?}");
                return Err(Invariant::Answered.violated(fault));
            }
        }
        Ok(())
    }

    /// A shard hears that a segment is lost.
    pub(crate) fn lost(&mut self, shard: ShardId, lost: Mount) {
        self.tally.losses += 1;
        self.lost.insert((shard, lost));
        for put in self.puts.values_mut().filter(|put| put.shard == shard) {
            put.doubtful |=
                put.replicas.iter().any(|replica| mount(replica.slot, replica.generation) == lost);
        }
    }

    /// The put of a key that is not finished, as far as is known.
    pub(crate) fn writing(&self, key: u32) -> Option<u64> {
        self.key(key).writing
    }

    /// The keys with an object that is pinned hard, as far as is known.
    pub(crate) fn pinned_keys(&self) -> Vec<u32> {
        let pinned = |key: &&u32| {
            let readable = self.keys[key].readable;
            readable.is_some_and(|sequence| self.puts[&sequence].may_be_pinned)
        };
        let mut keys: Vec<u32> = self.keys.keys().filter(pinned).copied().collect();
        keys.sort_unstable();
        keys
    }

    fn ended(
        &mut self,
        now: Moment,
        key: u32,
        sequence: u64,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let model = self.keys.entry(key).or_default();
        let is_current = model.writing == Some(sequence);
        match answer {
            Ok(()) if is_current => {
                self.tally.ended += 1;
                model.readable = Some(sequence);
                model.writing = None;
                self.guards.end_writing(sequence);
                let put = &self.puts[&sequence];
                if put.replicas.iter().all(|replica| self.is_lost(put.shard, *replica)) {
                    return Err(readable(key, "was ended, but all its replicas are lost"));
                }
                Ok(())
            }
            Ok(()) if model.readable == Some(sequence) => Ok(()),
            Ok(()) => Err(readable(key, &format!("was ended with the stale token {sequence:#x}"))),
            Err(_) if is_current && self.must_be_writable(now, sequence) => {
                Err(readable(key, &format!("lost its put {sequence:#x}: {answer:?}")))
            }
            Err(_) => Ok(()),
        }
    }

    fn revoked(
        &mut self,
        now: Moment,
        key: u32,
        sequence: u64,
        quiet: bool,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let model = self.keys.entry(key).or_default();
        let is_current = model.writing == Some(sequence);
        match answer {
            Ok(()) if is_current => {
                model.writing = None;
                if quiet {
                    self.guards.end_writing(sequence);
                }
                Ok(())
            }
            Ok(()) => Err(readable(key, "was revoked with a stale token")),
            Err(_) if is_current && self.must_be_writable(now, sequence) => {
                Err(readable(key, &format!("lost its put {sequence:#x}: {answer:?}")))
            }
            Err(_) => Ok(()),
        }
    }

    fn located(
        &mut self,
        now: Moment,
        key: u32,
        located: &Located,
        memories: &Memories,
    ) -> Result<(), Violation> {
        self.tally.located += 1;
        let sequence = located.sequence;
        if self.key(key).readable != Some(sequence) {
            let fault = format!("has put {sequence:#x} and not that of {:?}", self.key(key));
            return Err(readable(key, &fault));
        }
        let put = &self.puts[&sequence];
        if located.size_bytes != put.asked.size_bytes
            || located.replicas.is_empty()
            || !located.replicas.iter().all(|replica| put.replicas.contains(replica))
        {
            return Err(readable(key, &format!("is {put:?} and was located as {located:?}")));
        }
        self.none_lost(put.shard, &located.replicas)?;
        self.tally.outlived += u64::from(put.handed_over);
        let until = now.after_ms(self.lease_ttl_ms);
        for replica in &located.replicas {
            self.guard(*replica, located.size_bytes, sequence, until, false, memories)?;
        }
        self.lease(now, key, until);
        Ok(())
    }

    fn missed(&mut self, now: Moment, key: u32) -> Result<(), Violation> {
        self.tally.missed += 1;
        self.must_be_gone(now, key)?;
        // What is gone stays so; only what was handed over may still come back.
        let hidden = self.key(key).readable.is_some_and(|sequence| self.is_hidden(sequence));
        if !hidden && let Some(model) = self.keys.get_mut(&key) {
            model.readable = None;
        }
        Ok(())
    }

    fn exists(
        &mut self,
        now: Moment,
        key: u32,
        exists: bool,
        lease: bool,
    ) -> Result<(), Violation> {
        if !exists {
            return self.missed(now, key);
        }
        if self.key(key).readable.is_none() {
            return Err(readable(key, "exists, but no put of it has ended"));
        }
        self.found(key);
        if lease {
            self.lease(now, key, now.after_ms(self.lease_ttl_ms));
        }
        Ok(())
    }

    fn removed(
        &mut self,
        now: Moment,
        key: u32,
        force: bool,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let (stays, is_member) = (self.stays_until(key) > now, self.is_member(key));
        let model = self.keys.entry(key).or_default();
        match answer {
            Ok(()) if stays && !force => {
                Err(Invariant::Lease.violated(format!("key {key} was removed while leased")))
            }
            Ok(()) if model.readable.is_none() => Err(readable(key, "was removed twice")),
            Ok(()) => {
                *model = KeyModel { newest: model.newest, ..KeyModel::default() };
                Ok(())
            }
            // A lease lasts a millisecond longer than is told.
            Err(refusal)
                if refusal.code == ErrorCode::Leased
                    && model.leased_at_most_until < now
                    && !is_member =>
            {
                let over_ms = now.since_ms(model.leased_at_most_until);
                let what =
                    format!("key {key} is leased by nobody, {over_ms} ms after its last lease");
                Err(Invariant::Lease.violated(what))
            }
            Err(refusal) if refusal.code == ErrorCode::NotFound => {
                self.must_be_gone(now, key)?;
                // Also what was handed over and is hidden still.
                self.keys.entry(key).or_default().readable = None;
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// A remove-all has ended: what it could remove may be gone.
    fn swept(&mut self, shard: ShardId, force: bool) {
        *self.sweeps.entry(shard).or_default() -= 1;
        for (sequence, put) in &mut self.puts {
            if put.shard != shard {
                continue;
            }
            let Some(model) = self.keys.get_mut(&put.asked.key) else { continue };
            if model.readable == Some(*sequence) {
                put.pin_void = true;
                if force {
                    put.left_group = true;
                    model.leased_until = Moment::default();
                }
            }
        }
    }

    fn lease(&mut self, now: Moment, key: u32, until: Moment) {
        // Before its own lease begins: that says nothing of the time before.
        self.lease_group(now, key, until);
        self.found(key);
        let model = self.keys.entry(key).or_default();
        model.leased_until = model.leased_until.max(until);
        model.leased_at_most_until = model.leased_at_most_until.max(until);
    }

    fn guard(
        &mut self,
        replica: RangeDescriptor,
        size_bytes: u64,
        sequence: u64,
        until: Moment,
        of_writer: bool,
        memories: &Memories,
    ) -> Result<(), Violation> {
        let (place, from) = self.address(memories, replica)?;
        if memories.all[place.memory].process == place.process {
            let mount = mount(replica.slot, replica.generation);
            let to = from + size_bytes;
            self.guards.add(place.memory, Guard { from, to, until, sequence, mount, of_writer });
        }
        Ok(())
    }

    /// A shard hands out no descriptor of a mount that it has heard to be lost.
    fn none_lost(&self, shard: ShardId, replicas: &[RangeDescriptor]) -> Result<(), Violation> {
        match replicas.iter().find(|replica| self.is_lost(shard, **replica)) {
            None => Ok(()),
            Some(replica) => Err(Invariant::Readable
                .violated(format!("{replica:?} is handed out, but its segment is lost"))),
        }
    }

    fn is_lost(&self, shard: ShardId, replica: RangeDescriptor) -> bool {
        self.lost.contains(&(shard, mount(replica.slot, replica.generation)))
    }

    /// A key that is not readable for someone must not be leased, and not pinned either.
    fn must_be_gone(&self, now: Moment, key: u32) -> Result<(), Violation> {
        let model = self.key(key);
        let Some(sequence) = model.readable else { return Ok(()) };
        let put = &self.puts[&sequence];
        let swept = self.sweeps.get(&put.shard).is_some_and(|sweeps| *sweeps > 0);
        let stays = self.stays_until(key) > now || (put.hard_pin && !put.pin_void);
        if stays && !put.doubtful && !swept && !self.is_hidden(sequence) {
            return Err(Invariant::Lease.violated(format!("key {key} is gone: {model:?} {put:?}")));
        }
        Ok(())
    }

    /// Whether no other start can have taken the key of a put over.
    fn must_be_writable(&self, now: Moment, sequence: u64) -> bool {
        let put = &self.puts[&sequence];
        !put.doubtful && now < put.started.after_ms(self.put_discard_timeout_ms)
    }

    fn address(
        &self,
        memories: &Memories,
        replica: RangeDescriptor,
    ) -> Result<(Place, u64), Violation> {
        memories
            .address(self.master, replica)
            .ok_or_else(|| Invariant::Readable.violated(format!("{replica:?} is in no table")))
    }

    fn key(&self, key: u32) -> KeyModel {
        self.keys.get(&key).copied().unwrap_or_default()
    }
}

fn readable(key: u32, fault: &str) -> Violation {
    Invariant::Readable.violated(format!("key {key} {fault}"))
}

/// What was asked, each with its answer.
fn pairs<'a, A, B>(
    asked: &'a [A],
    answers: &'a [B],
) -> Result<impl Iterator<Item = (&'a A, &'a B)>, Violation> {
    if asked.len() == answers.len() {
        return Ok(asked.iter().zip(answers));
    }
    let fault = format!("{} were asked, {} answered", asked.len(), answers.len());
    Err(Invariant::Answered.violated(fault))
}
