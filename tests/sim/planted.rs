//! Faults that are planted in a handoff on purpose, to see that they are noticed.

use mooring_actors::RequestId;
use mooring_actors::pool::message::PoolOrder;
use mooring_actors::shard::message::{ShardMessage, ShardReply, ShardRequest};
use mooring_proto::error::{ErrorCode, Refusal};

use crate::asked::Asked;
use crate::cluster::handoff::{Handoff, OwnedRange};
use crate::cluster::{Answer, Envelope};
use crate::plan::Canary;
use crate::restart::wire_sequence;
use crate::world::World;

impl World {
    /// What the next master gets instead of what was handed over.
    pub(crate) fn plant(&mut self, mut handoff: Handoff) -> Handoff {
        match self.plan.canary {
            Some(Canary::StaleSnapshot) => {
                return self.first_handoff.get_or_insert(handoff).clone();
            }
            Some(Canary::UncheckedBase) => {
                for record in &mut handoff.pool.segments {
                    let mut pieces = self.stores.iter().flat_map(|store| &store.segments);
                    let id = record.segment.segment;
                    if let Some(piece) = pieces.find(|piece| piece.id == id) {
                        record.segment.base = piece.base;
                    }
                }
            }
            Some(Canary::DroppedGroups) => {
                for range in handoff.shards.iter_mut().flat_map(|file| &mut file.ranges) {
                    if let OwnedRange::Object { group, .. } = range {
                        group.clear();
                    }
                }
            }
            Some(Canary::DroppedHolds) => {
                for file in &mut handoff.shards {
                    file.ranges.retain(|range| !matches!(range, OwnedRange::Hold { .. }));
                    file.record.holds = 0;
                }
            }
            _ => {}
        }
        handoff
    }

    /// By how much the time of a message is ahead.
    pub(crate) fn early_ms(&self, envelope: &Envelope, is_tick: bool) -> u64 {
        let evicts =
            matches!(envelope, Envelope::ToShard(_, ShardMessage::Pool(PoolOrder::Evict { .. })));
        match self.plan.canary {
            Some(Canary::EarlyTicks) if is_tick => self.plan.settings.put_release_timeout_ms,
            Some(Canary::IgnoredLeases) if evicts => self.plan.settings.lease_ttl_ms,
            _ => 0,
        }
    }

    /// Whatever token an end or a revoke has, it is taken for that of the current put of the key.
    pub(crate) fn take_for_current(&mut self, envelope: &mut Envelope) {
        if self.plan.canary != Some(Canary::StaleTokens) {
            return;
        }
        let Envelope::ToShard(_, ShardMessage::Request { id, request, .. }) = envelope else {
            return;
        };
        let Some((_, Asked::End { puts, .. } | Asked::Revoke { puts, .. })) = self.pending.get(id)
        else {
            return;
        };
        let (ShardRequest::PutEnd { incarnation, sequences, .. }
        | ShardRequest::PutRevoke { incarnation, sequences, .. }) = request
        else {
            return;
        };
        if let Some(current) = self.oracle.writing(puts[0].0) {
            *incarnation = self.cluster.incarnation;
            sequences[0] = wire_sequence(current);
        }
    }

    /// A remove that names only keys that are hidden still does nothing, and says that it has.
    pub(crate) fn spare_hidden(&mut self, envelope: &mut Envelope) {
        if self.plan.canary != Some(Canary::RevivedKeys) {
            return;
        }
        let Envelope::ToShard(_, ShardMessage::Request { id, request, .. }) = envelope else {
            return;
        };
        let Some((_, Asked::Remove { keys, .. })) = self.pending.get(id) else { return };
        if let ShardRequest::Remove { batch, .. } = request
            && keys.iter().all(|key| self.oracle.hides(*key))
        {
            let batch = std::mem::take(batch);
            *request = ShardRequest::Exist { lease: false, batch };
            self.spared.insert(*id);
        }
    }

    /// The answer to such a remove.
    pub(crate) fn disguise(&mut self, id: RequestId, answer: &mut Answer) {
        if let Answer::Shard(reply) = answer
            && self.spared.remove(&id)
            && let ShardReply::Existing(found) = reply
        {
            let not_found = || Err(Refusal::from(ErrorCode::NotFound));
            *reply = ShardReply::Done(found.iter().map(|_| not_found()).collect());
        }
    }
}
