//! Segments that the former master has handed over, until their owners come back.
//!
//! A pending segment is mounted, but nothing is read or placed there. It opens when its owner names
//! the same memory again, with every field of its identity, and it is lost as a whole when the owner
//! comes back otherwise, is found to be offline, or takes too long.
//!
//! A client that comes back with a mount speaks of that segment alone. One that comes back with a
//! remount states all that it has, so what it does not name is gone.

use mooring_proto::message::segment::MountRequest;
use mooring_proto::{ClientId, Incarnation};

use super::Pool;
use super::message::{Mount, PoolEffect, PoolOrder};
use super::segment::{MountedSegment, Pending, Phase};
use crate::moment::Moment;

impl Pending {
    /// Whether the request shows that the memory is still the same, mounted by the same client with
    /// the master that has handed it over. A client that does not say which master it was is taken
    /// by the identity alone, as is a store of Mooncake that cannot say it.
    pub(super) fn is_proved_by(
        &self,
        known: &MountedSegment,
        client: ClientId,
        request: &MountRequest,
    ) -> bool {
        let cannot_say =
            |with| request.segment.transfer_engine.is_some() && with == Incarnation::UNNAMED;
        known.client == client
            && known.identity == request.segment
            && request.mounted_with.is_none_or(|with| with == self.mounted_with || cannot_say(with))
    }
}

impl Pool {
    /// The owner of a pending segment has come back with it: what was restored there is readable
    /// from now on. A drain and a quarantine go on; the master that handed them over knew the memory,
    /// so there is no new quarantine.
    pub(super) fn open_pending(
        &mut self,
        now: Moment,
        mount: Mount,
        effects: &mut Vec<PoolEffect>,
    ) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        let Some(pending) = segment.pending() else { return };
        let phase = pending.opened(now);
        segment.handed_over_by = Some(pending.mounted_with);
        if let Phase::Draining { .. } = phase {
            self.keep_quarantine(mount.slot);
        }
        self.segments.set_phase(mount.slot, phase);
        if let Phase::Draining { until } | Phase::Quarantined { until } = phase {
            self.timers.insert((until, mount.slot));
        }
        self.pending_confirmed += 1;
        self.table_changed = true;
        self.space.placement_changed();
        let placeable = phase == Phase::Open;
        self.order_all(PoolOrder::SegmentOpened { mount, placeable }, effects);
        self.relieve(mount.slot, effects);
    }
}
