//! What the answers to starts must agree with.

use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::{Moment, ShardId};
use mooring_proto::error::{ErrorCode, Refusal};
use mooring_proto::message::object::PutStartGrant;

use super::{Heard, KeyModel, Oracle, PutModel, pairs, readable};
use crate::asked::PutAsked;
use crate::cluster::maps::HashSet;
use crate::store::Memories;

/// The puts of one start, and what was asked for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    pub(super) puts: &'a [PutAsked],
    pub(super) replicas: u8,
    pub(super) hard_pin: bool,
    pub(super) upsert: bool,
}

/// One put of a start with what was asked for all of them.
#[derive(Clone, Copy, Debug)]
struct StartAsked<'a> {
    put: &'a PutAsked,
    replicas: u8,
    hard_pin: bool,
    upsert: bool,
}

impl Oracle {
    pub(super) fn starts_answered(
        &mut self,
        now: Moment,
        shard: ShardId,
        heard: Heard,
        batch: &Batch<'_>,
        answers: &[Result<PutStartGrant, Refusal>],
        memories: &Memories,
    ) -> Result<(), Violation> {
        for (put, answer) in pairs(batch.puts, answers)? {
            let first = self.first_heard.get(&put.put_id).copied();
            let since = first.map_or(heard.since, |first| first.min(heard.since));
            let heard = Heard { since, ..heard };
            match answer {
                Ok(grant) => {
                    let Batch { replicas, hard_pin, upsert, .. } = *batch;
                    let start = StartAsked { put, replicas, hard_pin, upsert };
                    self.started(now, shard, heard, &start, grant, memories)?;
                }
                Err(refusal) => self.start_refused(heard, put, refusal)?,
            }
        }
        Ok(())
    }

    fn started(
        &mut self,
        now: Moment,
        shard: ShardId,
        heard: Heard,
        start: &StartAsked<'_>,
        grant: &PutStartGrant,
        memories: &Memories,
    ) -> Result<(), Violation> {
        self.tally.granted += 1;
        let (sequence, asked) = (grant.sequence, start.put);
        let key = self.key(asked.key);
        if let Some(put) = self.puts.get(&sequence) {
            // An older answer may come last, and name a replica that was lost since.
            let names_these = grant.replicas.iter().all(|replica| put.replicas.contains(replica));
            let older = put.replicas.iter().all(|replica| grant.replicas.contains(replica));
            let same = put.asked == *asked
                && (names_these || older && !heard.at_once)
                && (key.writing == Some(sequence) || !heard.at_once);
            if same {
                return Ok(());
            }
            return Err(readable(asked.key, "got the reservation of another put"));
        }
        self.check_replicas(now, heard, start, grant, memories)?;
        let is_newest = key.newest < Some(sequence);
        if !is_newest && heard.at_once {
            return Err(readable(asked.key, &format!("got {sequence:#x} after {:?}", key.newest)));
        }
        if is_newest {
            // What an upsert replaces goes whoever reads it.
            if !start.upsert {
                self.must_be_gone(now, asked.key)?;
            }
            let model =
                KeyModel { writing: Some(sequence), newest: Some(sequence), ..KeyModel::default() };
            self.keys.insert(asked.key, model);
        }
        if heard.at_once {
            self.none_lost(shard, &grant.replicas)?;
        }
        let joined = self.next_answer();
        let model = PutModel {
            joined,
            found: 0,
            left_group: false,
            asked: *asked,
            shard,
            replicas: grant.replicas.to_vec(),
            started: heard.since,
            hard_pin: start.hard_pin,
            may_be_pinned: start.hard_pin || start.upsert,
            pin_void: false,
            handed_over: false,
            doubtful: grant.replicas.iter().any(|replica| self.is_lost(shard, *replica)),
        };
        self.puts.insert(sequence, model);
        Ok(())
    }

    /// The replicas of a grant lie inside of different segments, where nobody else is.
    fn check_replicas(
        &mut self,
        now: Moment,
        heard: Heard,
        start: &StartAsked<'_>,
        grant: &PutStartGrant,
        memories: &Memories,
    ) -> Result<(), Violation> {
        let segments: HashSet<u32> = grant.replicas.iter().map(|replica| replica.slot).collect();
        if segments.len() != grant.replicas.len() || segments.len() > usize::from(start.replicas) {
            let fault = format!("{} replicas lie at {grant:?}", start.replicas);
            return Err(readable(start.put.key, &fault));
        }
        let until = heard.since.after_ms(self.put_release_timeout_ms);
        for replica in &grant.replicas {
            let (place, from) = self.address(memories, *replica)?;
            let to = from + start.put.size_bytes;
            if to > place.base + place.size_bytes {
                return Err(Invariant::NoOverlap.violated(format!("{replica:?} is outside")));
            }
            // A start that waited for space beside others, while the master stalled, may be answered
            // when its time to write is over, and then nobody writes.
            if until <= now {
                continue;
            }
            if memories.all[place.memory].process == place.process {
                self.guards.check_grant(now, place.memory, (from, to), grant.sequence)?;
            }
            let size_bytes = start.put.size_bytes;
            self.guard(*replica, size_bytes, grant.sequence, until, true, memories)?;
        }
        Ok(())
    }

    fn start_refused(
        &mut self,
        heard: Heard,
        put: &PutAsked,
        refusal: &Refusal,
    ) -> Result<(), Violation> {
        match refusal.code {
            ErrorCode::AlreadyExists if heard.at_once && self.key(put.key).readable.is_none() => {
                Err(readable(put.key, "exists for a start, and for nobody else"))
            }
            ErrorCode::NoSpace if refusal.no_space.is_none() => {
                Err(Invariant::Answered.violated("a refusal for space does not say what holds it"))
            }
            ErrorCode::StaleToken | ErrorCode::NotFound | ErrorCode::Internal => {
                Err(Invariant::Answered.violated(format!("a start is refused with {refusal:?}")))
            }
            code => {
                self.tally.refused_for_space += u64::from(code == ErrorCode::NoSpace);
                Ok(())
            }
        }
    }
}
