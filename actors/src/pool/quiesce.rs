//! Coming to rest before a handoff.
//!
//! The lane from each actor to each other one keeps its order, so an actor's last message is a marker:
//! behind it nothing more is under way. A shard and the clients actor come to rest first and say so.
//! Until all have, the pool goes on as usual, since some of what they said before is still to be taken
//! in. Then it changes nothing any more, and its own last order is the marker for the shards.

use std::collections::BTreeSet;
use std::mem;

use mooring_proto::error::{ErrorCode, WireError};

use super::Pool;
use super::message::{PoolEffect, PoolMessage, PoolOrder, PoolReply, PoolRequest};
use crate::moment::Moment;
use crate::route::ShardId;

/// Whose last message has not come yet.
#[derive(Debug)]
pub(super) struct Markers {
    shards: BTreeSet<ShardId>,
    clients: bool,
    at_rest: bool,
}

impl Markers {
    /// Everybody still speaks.
    pub(super) fn awaited(shards: u16) -> Markers {
        Markers { shards: (0..shards).map(ShardId).collect(), clients: true, at_rest: false }
    }

    /// The last report of a shard has come.
    pub(super) fn note_shard(&mut self, shard: ShardId) {
        self.shards.remove(&shard);
    }

    /// The last message of the clients actor has come.
    pub(super) fn note_clients(&mut self) {
        self.clients = false;
    }

    /// Whether nobody has anything to say any more.
    pub(super) fn complete(&self) -> bool {
        self.shards.is_empty() && !self.clients
    }
}

impl Pool {
    /// Whether it changes nothing any more.
    pub fn at_rest(&self) -> bool {
        self.markers.at_rest
    }

    /// Everybody else is at rest: so is the pool from now on.
    pub(super) fn come_to_rest(&mut self, effects: &mut Vec<PoolEffect>) {
        // The puts that waited for room or a span are refused by their shards already.
        self.abandon_rooms();
        let slots: Vec<_> = self.segments.iter().map(|segment| segment.mount.slot).collect();
        for slot in slots {
            let Some(segment) = self.segments.at_mut(slot) else { continue };
            segment.collection = None;
            for id in mem::take(&mut segment.leaving.waiting) {
                let reply = PoolReply::Unmounted(Err(restarting()));
                effects.push(PoolEffect::Reply { id, reply });
            }
        }
        self.markers.at_rest = true;
        self.order_all(PoolOrder::Quiesced, effects);
        effects.push(PoolEffect::AtRest);
    }

    /// Answers what a pool at rest can answer, and ignores all else.
    pub(super) fn answer_at_rest(
        &self,
        now: Moment,
        message: PoolMessage,
        effects: &mut Vec<PoolEffect>,
    ) {
        let PoolMessage::Request { id, request } = message else { return };
        let reply = match request {
            PoolRequest::Mount { .. } => PoolReply::Mounted(Err(restarting())),
            PoolRequest::Remount { .. } => PoolReply::Remounted(Err(restarting())),
            PoolRequest::Unmount { .. } => PoolReply::Unmounted(Err(restarting())),
            PoolRequest::Table => self.describe_table(),
            PoolRequest::Uses => self.describe_uses(now),
            PoolRequest::Inspect => self.describe_details(now),
            PoolRequest::Totals => PoolReply::Totals(self.totals()),
        };
        effects.push(PoolEffect::Reply { id, reply });
    }
}

fn restarting() -> WireError {
    // Not that nothing was done: a segment that is to be unmounted is gone already.
    WireError::new(ErrorCode::Restarting, "the master is restarting; ask the next one")
}
