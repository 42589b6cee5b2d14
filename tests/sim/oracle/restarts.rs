//! What a restart of the master changes for the model.

use mooring_actors::invariant::Violation;
use mooring_actors::pool::message::Mount;
use mooring_actors::{Moment, ShardId};
use mooring_proto::Incarnation;

use super::{Oracle, readable};
use crate::asked::PutAsked;
use crate::cluster::maps::HashMap;
use crate::cluster::mount;
use crate::store::Memories;

/// A handoff as the model sees it.
#[derive(Debug)]
pub(crate) struct HandedOver {
    /// When the master before came to rest.
    pub(crate) exported: Moment,
    /// When the next one begins to serve.
    pub(crate) serving: Moment,
    /// The mounts of before, as they are mounted now.
    pub(crate) mounts: HashMap<Mount, Mount>,
    /// The keys with an object, and the put of each.
    pub(crate) objects: HashMap<u32, u64>,
}

impl Oracle {
    /// The next master serves, with all that the one before has handed over. Unfinished puts are not
    /// among it. Each object has the longer of a full lease and what was left of its own.
    pub(crate) fn handed_over(
        &mut self,
        master: Incarnation,
        handoff: &HandedOver,
        shard_of: impl Fn(u32) -> ShardId,
    ) -> Result<(), Violation> {
        self.tally.handoffs += 1;
        self.must_be_handed_over(handoff)?;
        self.begin(master);
        self.handed_over = handoff.mounts.values().copied().collect();
        for put in self.puts.values_mut() {
            put.shard = shard_of(put.asked.key);
            put.handed_over = true;
            let before = put.replicas.len();
            put.replicas.retain_mut(|replica| {
                let now = handoff.mounts.get(&mount(replica.slot, replica.generation));
                if let Some(now) = now {
                    replica.generation = now.generation.0;
                }
                now.is_some()
            });
            put.doubtful |= put.replicas.len() < before;
        }
        for (key, model) in &mut self.keys {
            model.writing = None;
            model.readable = handoff.objects.get(key).copied();
            let again = |until: Moment| {
                let left_ms = until.since_ms(handoff.exported);
                handoff.serving.after_ms(left_ms.max(self.lease_ttl_ms))
            };
            model.leased_until = again(model.leased_until);
            model.leased_at_most_until = again(model.leased_at_most_until);
        }
        self.guards.mounted_again(&handoff.mounts);
        Ok(())
    }

    /// What is handed over is what is there: nothing that is not readable, and all that must stay.
    fn must_be_handed_over(&self, handoff: &HandedOver) -> Result<(), Violation> {
        for (&key, &sequence) in &handoff.objects {
            let model = self.key(key);
            if model.readable != Some(sequence) {
                let fault = format!("is handed over with put {sequence:#x}, and is {model:?}");
                return Err(readable(key, &fault));
            }
        }
        let mut left_out = self.keys.keys().filter(|key| !handoff.objects.contains_key(key));
        left_out.try_for_each(|key| self.must_be_gone(handoff.exported, *key))
    }

    /// The next master serves and knows nothing. What is in memory may not be read again, and stores
    /// that check the mount of each access keep those away who still mean to.
    ///
    /// Where memory is reached without asking its store, readers go on until their leases end.
    pub(crate) fn began_cold(&mut self, master: Incarnation, memories: &Memories) {
        self.tally.cold_starts += 1;
        self.begin(master);
        self.keys.clear();
        self.puts.clear();
        self.guards.end_of_master(|memory| memories.all[memory].checks_mounts);
    }

    fn begin(&mut self, master: Incarnation) {
        self.master = master;
        self.lost.clear();
        self.handed_over.clear();
        self.opened.clear();
        self.sweeps.clear();
        self.group_reads.clear();
    }

    /// A shard hears that the owner of a segment that was handed over has come back.
    pub(crate) fn opened(&mut self, shard: ShardId, opened: Mount) {
        self.tally.opened += 1;
        self.opened.insert((shard, opened));
    }

    /// Whether the object of a put may be invisible because the owner of a segment has not come back
    /// yet.
    pub(super) fn is_hidden(&self, sequence: u64) -> bool {
        let put = &self.puts[&sequence];
        put.replicas.iter().any(|replica| {
            let mount = mount(replica.slot, replica.generation);
            self.handed_over.contains(&mount) && !self.opened.contains(&(put.shard, mount))
        })
    }

    /// Whether a key has an object that may be invisible for this reason.
    pub(crate) fn hides(&self, key: u32) -> bool {
        self.key(key).readable.is_some_and(|sequence| self.is_hidden(sequence))
    }

    /// A start is at its shard. If the object of its key is hidden then, it is gone for good, whatever
    /// becomes of the start.
    ///
    /// Its time counts from here, also if the same start comes again before it is answered.
    pub(crate) fn start_heard(&mut self, put: &PutAsked, now: Moment) {
        self.first_heard.entry(put.put_id).or_insert(now);
        self.forget_if_hidden(put.key);
    }

    fn forget_if_hidden(&mut self, key: u32) {
        if let Some(sequence) = self.key(key).readable
            && self.is_hidden(sequence)
            && let Some(put) = self.puts.get_mut(&sequence)
        {
            put.doubtful = true;
        }
    }

    /// A remove-all is at its shard. What is hidden then may be gone for good, also if its segment opens
    /// before the answer.
    pub(crate) fn remove_all_heard(&mut self, shard: ShardId) {
        *self.sweeps.entry(shard).or_default() += 1;
        let keys: Vec<u32> = self.keys.keys().copied().collect();
        for key in keys {
            if self.key(key).readable.is_some_and(|sequence| self.puts[&sequence].shard == shard) {
                self.forget_if_hidden(key);
            }
        }
    }

    /// All was removed, also what was hidden all the while.
    pub(super) fn forget_hidden(&mut self, shard: ShardId) {
        let hidden: Vec<u32> = self
            .keys
            .iter()
            .filter(|(_, model)| {
                model.readable.is_some_and(|sequence| {
                    self.puts[&sequence].shard == shard && self.is_all_hidden(sequence)
                })
            })
            .map(|(key, _)| *key)
            .collect();
        for key in hidden {
            if let Some(model) = self.keys.get_mut(&key) {
                model.readable = None;
            }
        }
    }

    fn is_all_hidden(&self, sequence: u64) -> bool {
        let put = &self.puts[&sequence];
        put.replicas.iter().all(|replica| {
            let mount = mount(replica.slot, replica.generation);
            self.handed_over.contains(&mount) && !self.opened.contains(&(put.shard, mount))
        })
    }
}
