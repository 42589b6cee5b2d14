//! How a segment goes: unmounted, drained, or lost with its client.

use std::collections::BTreeSet;
use std::mem;

use mooring_proto::error::{ErrorCode, WireError};
use mooring_proto::{ClientId, SegmentId};

use super::Pool;
use super::message::{Mount, PoolEffect, PoolOrder, PoolReply, Remnant, SegmentSlot};
use super::segment::{Leaving, Pending, Phase};
use crate::moment::Moment;
use crate::request::RequestId;
use crate::route::ShardId;

impl Pool {
    /// Takes a segment away, at once or after a grace. Without an answer here the request is
    /// answered when every shard has confirmed.
    pub(super) fn unmount(
        &mut self,
        now: Moment,
        id: RequestId,
        client: Option<ClientId>,
        segment: SegmentId,
        grace_ms: u64,
        effects: &mut Vec<PoolEffect>,
    ) -> Option<Result<u64, WireError>> {
        let Some(known) = self.segments.by_id(segment) else {
            let text = format!("segment {segment} is not mounted");
            return Some(Err(WireError::new(ErrorCode::SegmentNotFound, text)));
        };
        if client.is_some_and(|client| client != known.client) {
            let text = format!("segment {segment} is unmounted by its owner or an administrator");
            return Some(Err(WireError::new(ErrorCode::NotOwner, text)));
        }
        let (mount, phase) = (known.mount, known.phase);
        if known.is_mounted() {
            if client.is_some() {
                self.segments.set_given_up(mount.slot, true);
            }
            let asked = now.after_ms(grace_ms);
            let deadline = match phase {
                Phase::Draining { until }
                | Phase::Pending(Pending { drains_until: Some(until), .. }) => until.min(asked),
                Phase::Open | Phase::Quarantined { .. } | Phase::Pending(_) | Phase::Leaving => {
                    asked
                }
            };
            if deadline > now {
                self.drain(mount, deadline, effects);
                return Some(Ok(deadline.since_ms(now)));
            }
            self.lose(now, mount.slot, effects);
        }
        let leaving = &mut self.segments.of_mount(mount)?.leaving;
        if leaving.unconfirmed.is_empty() {
            return Some(Ok(0));
        }
        leaving.waiting.push(id);
        None
    }

    /// Every segment of a client goes at once.
    pub(super) fn lose_client(
        &mut self,
        now: Moment,
        client: ClientId,
        effects: &mut Vec<PoolEffect>,
    ) {
        for slot in self.segments.mounted_of(client) {
            self.lose(now, slot, effects);
        }
    }

    /// Nothing new is placed on a segment; at the deadline it is lost.
    fn drain(&mut self, mount: Mount, deadline: Moment, effects: &mut Vec<PoolEffect>) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        let was_open = segment.phase == Phase::Open;
        self.changed_clients.insert(segment.client);
        let phase = match segment.phase {
            Phase::Pending(pending) => {
                Phase::Pending(Pending { drains_until: Some(deadline), ..pending })
            }
            _ => Phase::Draining { until: deadline },
        };
        if let Phase::Draining { .. } = phase {
            self.keep_quarantine(mount.slot);
        }
        self.segments.set_phase(mount.slot, phase);
        self.timers.insert((deadline, mount.slot));
        if was_open {
            self.order_all(PoolOrder::SegmentPlaceable { mount, placeable: false }, effects);
            self.space.placement_changed();
            self.relieve(mount.slot, effects);
        }
    }

    /// A segment is gone: unreadable from now on.
    pub(super) fn lose(&mut self, now: Moment, slot: SegmentSlot, effects: &mut Vec<PoolEffect>) {
        self.keep_quarantine(slot);
        let shards: BTreeSet<ShardId> = self.shards().collect();
        let Some(segment) = self.segments.at_mut(slot) else { return };
        let mount = segment.mount;
        self.pending_dropped += u64::from(segment.pending().is_some());
        segment.leaving =
            Leaving { unconfirmed: shards.clone(), unswept: shards, waiting: Vec::new() };
        self.changed_clients.insert(segment.client);
        self.segments.set_phase(slot, Phase::Leaving);
        self.table_changed = true;
        self.space.placement_changed();
        self.order_all(PoolOrder::SegmentLost { mount }, effects);
        self.end_collection(mount, effects);
        self.abandon_segment(now, mount, effects);
    }

    /// A shard hands out no descriptor of a lost mount any more.
    pub(super) fn confirm(&mut self, shard: ShardId, mount: Mount, effects: &mut Vec<PoolEffect>) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        segment.leaving.unconfirmed.remove(&shard);
        if segment.is_mounted() || !segment.leaving.unconfirmed.is_empty() {
            return;
        }
        for id in mem::take(&mut segment.leaving.waiting) {
            effects.push(PoolEffect::Reply { id, reply: PoolReply::Unmounted(Ok(0)) });
        }
    }

    /// A shard has forgotten everything on a lost mount. After the last one the slot is free.
    pub(super) fn sweep(
        &mut self,
        now: Moment,
        shard: ShardId,
        mount: Mount,
        remnants: Vec<Remnant>,
        effects: &mut Vec<PoolEffect>,
    ) {
        self.confirm(shard, mount, effects);
        let Some(segment) = self.segments.of_mount(mount) else { return };
        if segment.is_mounted() {
            return;
        }
        let longest = now.after_ms(self.config.put_release_timeout_ms);
        let bounded: Vec<Remnant> = remnants
            .into_iter()
            .map(|remnant| {
                // Nothing is held for ever: a range without an end is held as long as any.
                let endless = remnant.until.as_ms() == u64::MAX;
                if endless { Remnant { until: longest, ..remnant } } else { remnant }
            })
            .collect();
        self.remnants.remember(now, &segment.identity, &bounded);
        segment.leaving.unswept.remove(&shard);
        if segment.leaving.unswept.is_empty() {
            self.segments.remove(mount.slot);
        }
    }

    /// A timer of a slot has run out: ends what is over.
    pub(super) fn slot_due(
        &mut self,
        now: Moment,
        slot: SegmentSlot,
        effects: &mut Vec<PoolEffect>,
    ) {
        let Some(segment) = self.segments.at_mut(slot) else { return };
        let mount = segment.mount;
        segment.heap.expire(now);
        if let Some(due) = segment.heap.next_expiry() {
            self.timers.insert((due, slot));
        }
        self.space.changed(slot);
        match segment.phase {
            Phase::Quarantined { until } if until <= now => {
                self.segments.set_phase(slot, Phase::Open);
                self.space.placement_changed();
                self.order_all(PoolOrder::SegmentPlaceable { mount, placeable: true }, effects);
            }
            Phase::Draining { until } if until <= now => self.lose(now, slot, effects),
            Phase::Pending(pending) if pending.ends().is_some_and(|until| until <= now) => {
                self.lose(now, slot, effects);
            }
            Phase::Open
            | Phase::Quarantined { .. }
            | Phase::Draining { .. }
            | Phase::Pending(_)
            | Phase::Leaving => {}
        }
    }

    /// The quarantine of a segment that goes before its end holds for its memory.
    pub(super) fn keep_quarantine(&mut self, slot: SegmentSlot) {
        if let Some(segment) = self.segments.at(slot)
            && let Phase::Quarantined { until }
            | Phase::Pending(Pending { rests_until: Some(until), .. }) = segment.phase
        {
            self.remnants.remember_whole(&segment.identity, until);
        }
    }
}
