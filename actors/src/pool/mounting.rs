//! Mount and remount.

use std::collections::{BTreeMap, BTreeSet};

use mooring_proto::error::{ErrorCode, WireError};
use mooring_proto::limits::{
    NAME_BYTES_MAX, REMOUNT_SEGMENTS_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
};
use mooring_proto::message::segment::{MountGrant, MountRequest, Segment, TransferEngine};
use mooring_proto::{ClientId, Incarnation, SegmentId};

use super::Pool;
use super::message::{Mount, PoolEffect, PoolOrder, SegmentSlot};
use super::segment::{MountedSegment, Phase};
use crate::moment::Moment;

/// What becomes of one entry of a request.
#[derive(Debug)]
enum Planned {
    /// It is mounted already.
    Known(Mount),
    /// It was handed over, and this is the proof that it is the same.
    Pending(Mount),
    /// It is mounted now.
    New,
    /// It repeats an entry before it.
    Repeats(usize),
}

/// What a request comes to.
#[derive(Debug, Default)]
struct Plan {
    entries: Vec<Planned>,
    /// Segments that it proves to be gone.
    gone: BTreeSet<SegmentSlot>,
    /// Why it has to wait: memory that it names is in the way of itself.
    waits: Option<WireError>,
}

/// What a request says about the segments of its client that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// Nothing.
    Some,
    /// There are none.
    All,
}

impl Pool {
    /// Mounts all these segments of a client or, with an error, none of them. What is mounted
    /// already with the same identity stays as it is, unless it was with another master meanwhile.
    ///
    /// A pending segment with the same identity opens. A segment that the request shows to be gone is
    /// lost as a whole, even if the request then has to wait until that is swept: its memory is mounted
    /// otherwise by now, or the client has it no more.
    pub(super) fn mount(
        &mut self,
        now: Moment,
        client: ClientId,
        mounts: Vec<MountRequest>,
        listing: Listing,
        effects: &mut Vec<PoolEffect>,
    ) -> Result<Vec<MountGrant>, WireError> {
        let gone = match listing {
            Listing::Some => BTreeSet::new(),
            Listing::All => self.unlisted(now, client, &mounts),
        };
        let plan = self.plan(client, &mounts, gone)?;
        for slot in plan.gone {
            effects.extend(self.unlisted_effect(slot, &mounts));
            self.lose(now, slot, effects);
        }
        if let Some(reason) = plan.waits {
            return Err(reason);
        }
        let new = plan.entries.iter().filter(|planned| matches!(planned, Planned::New)).count();
        if new > self.segments.room() {
            let text = format!("the segment table has room for {} more", self.segments.room());
            return Err(
                WireError::new(ErrorCode::Overloaded, text).retry_after_ms(LEAVING_RETRY_MS)
            );
        }
        self.remnants.forget_expired(now);
        let mut grants: Vec<MountGrant> = Vec::with_capacity(plan.entries.len());
        for (planned, request) in plan.entries.into_iter().zip(mounts) {
            let grant = match planned {
                Planned::Known(mount) => {
                    if self.names_another_master(&request) {
                        self.rest_again(now, mount);
                    }
                    self.grant_of(mount)
                }
                Planned::Pending(mount) => {
                    self.open_pending(now, mount, effects);
                    self.grant_of(mount)
                }
                Planned::New => {
                    let mount = self.open(now, client, request, effects)?;
                    self.grant_of(mount)
                }
                Planned::Repeats(before) => grants[before],
            };
            let slot = SegmentSlot(grant.slot as u16);
            if let Some(segment) = self.segments.at_mut(slot) {
                segment.named_at = now;
            }
            // If its owner still wants its end, it says so again after this.
            self.segments.set_given_up(slot, false);
            grants.push(grant);
        }
        // Told even if nothing has changed: whoever judges the client learns that it is complete.
        self.changed_clients.insert(client);
        Ok(grants)
    }

    /// The segments that a client has no more: a list of all that it has does not name them. Those
    /// that are pending are gone at once, the others only if they were not named for one client TTL
    /// either. So a list that was sent before a mount and comes after it takes nothing away, nor does
    /// one that is sent while its client still waits for the answer to the mount and may ask again.
    fn unlisted(
        &self,
        now: Moment,
        client: ClientId,
        mounts: &[MountRequest],
    ) -> BTreeSet<SegmentSlot> {
        let named: BTreeSet<_> = mounts.iter().map(|request| request.segment.segment).collect();
        let is_gone = |segment: &MountedSegment| {
            let forgotten = segment.named_at.after_ms(self.config.client_ttl_ms) <= now;
            let gone = segment.pending().is_some() || segment.is_listed() && forgotten;
            gone && !named.contains(&segment.identity.segment)
        };
        let own = self.segments.mounted_of(client).into_iter();
        own.filter(|&slot| self.segments.at(slot).is_some_and(is_gone)).collect()
    }

    /// What is told of a segment that is gone by a list of its owner. Of a pending one the shell tells
    /// that it is dropped, as of any other.
    fn unlisted_effect(&self, slot: SegmentSlot, mounts: &[MountRequest]) -> Option<PoolEffect> {
        let MountedSegment { client, identity, .. } =
            self.segments.at(slot).filter(|segment| segment.pending().is_none())?;
        let segment = identity.segment;
        let named = mounts.iter().any(|request| request.segment.segment == segment);
        (!named).then_some(PoolEffect::Unlisted { client: *client, segment })
    }

    /// Checks all entries, against the mounted segments and against each other. `gone` are those that
    /// go with the request.
    fn plan(
        &self,
        client: ClientId,
        mounts: &[MountRequest],
        gone: BTreeSet<SegmentSlot>,
    ) -> Result<Plan, WireError> {
        if mounts.len() > REMOUNT_SEGMENTS_MAX {
            let text =
                format!("segments has {} entries, at most {REMOUNT_SEGMENTS_MAX}", mounts.len());
            return Err(WireError::new(ErrorCode::TooLarge, text));
        }
        let kind_of = |segment: &Segment| segment.transfer_engine.is_some();
        let mut there = self.segments.iter().map(|known| &known.identity);
        let kind = there.next().or(mounts.first().map(|it| &it.segment)).is_some_and(kind_of);
        let mut plan = Plan { gone, ..Plan::default() };
        let mut seen: BTreeMap<SegmentId, usize> = BTreeMap::new();
        let mut bases: BTreeMap<u64, &Segment> = BTreeMap::new();
        for (index, request) in mounts.iter().enumerate() {
            let segment = &request.segment;
            check_fields(segment)?;
            if kind_of(segment) != kind {
                return Err(other_reach(segment));
            }
            if let Some(&before) = seen.get(&segment.segment) {
                if mounts[before].segment != *segment {
                    return Err(conflict(segment.segment));
                }
                plan.entries.push(Planned::Repeats(before));
                continue;
            }
            seen.insert(segment.segment, index);
            self.plan_entry(client, request, &mut plan)?;
            let before = bases.range(..segment.base + segment.size_bytes).next_back();
            if let Some((_, other)) = before
                && other.base + other.size_bytes > segment.base
            {
                return Err(overlap(segment.segment, other.segment));
            }
            bases.insert(segment.base, segment);
        }
        Ok(plan)
    }

    /// What becomes of one entry, by the segments that are known.
    fn plan_entry(
        &self,
        client: ClientId,
        request: &MountRequest,
        plan: &mut Plan,
    ) -> Result<(), WireError> {
        let segment = &request.segment;
        let known = self.segments.by_id(segment.segment);
        if let Some(known) = known {
            match known.pending() {
                None => {
                    let mount = same_mount(known, client, segment)?;
                    if self.was_elsewhere(known, request) {
                        plan.gone.insert(mount.slot);
                        plan.waits = Some(dropped(segment.segment));
                    }
                    plan.entries.push(Planned::Known(mount));
                    return Ok(());
                }
                Some(pending) if pending.is_proved_by(known, client, request) => {
                    plan.entries.push(Planned::Pending(known.mount));
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        for other in known.into_iter().chain(self.segments.overlapping(client, segment)) {
            if other.pending().is_none() && !plan.gone.contains(&other.mount.slot) {
                return Err(overlap_with(other, segment));
            }
            plan.gone.insert(other.mount.slot);
            plan.waits = Some(dropped(other.identity.segment));
        }
        plan.entries.push(Planned::New);
        Ok(())
    }

    /// Whether a request names another master than this one.
    fn is_of_another_master(&self, request: &MountRequest) -> bool {
        request.mounted_with.is_some_and(|with| with != self.config.incarnation)
    }

    /// The same of one that its owner can tell. A store of Mooncake cannot, and says so each time it
    /// mounts again; what is known here already it has mounted with this master.
    fn names_another_master(&self, request: &MountRequest) -> bool {
        self.is_of_another_master(request) && request.mounted_with != Some(Incarnation::UNNAMED)
    }

    /// Whether a segment that is mounted here was mounted with another master since, which may have
    /// written over anything. Its owner then names that one. It also does when it has not got the
    /// answer to its last mount here; but then the other one is the master that handed the segment
    /// over, which is gone, or the segment still rests and nothing was placed there.
    fn was_elsewhere(&self, known: &MountedSegment, request: &MountRequest) -> bool {
        let resting = matches!(known.phase, Phase::Quarantined { .. });
        self.names_another_master(request)
            && request.mounted_with != known.handed_over_by
            && !(resting && known.handed_over_by.is_none())
    }

    /// Memory that another master may have handed out until just now rests for a lease from now on.
    fn rest_again(&mut self, now: Moment, mount: Mount) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        let Phase::Quarantined { until } = segment.phase else { return };
        let until = until.max(now.after_ms(self.config.lease_ttl_ms));
        self.segments.set_phase(mount.slot, Phase::Quarantined { until });
        self.timers.insert((until, mount.slot));
    }

    /// Mounts a segment that has passed all checks.
    fn open(
        &mut self,
        now: Moment,
        client: ClientId,
        request: MountRequest,
        effects: &mut Vec<PoolEffect>,
    ) -> Result<Mount, WireError> {
        let MountRequest { segment: identity, mounted_with } = request;
        let id = identity.segment;
        let remembered = self.remnants.recall(&identity);
        let Some(mount) = self.segments.insert(client, identity) else {
            return Err(WireError::new(ErrorCode::Internal, "no slot is free"));
        };
        let Some(segment) = self.segments.of_mount(mount) else {
            return Err(WireError::new(ErrorCode::Internal, "the mount is not in its slot"));
        };
        for remnant in &remembered.ranges {
            segment.heap.withhold(segment.pages_of(remnant), remnant.until);
        }
        let former = mounted_with.is_some_and(|with| with != self.config.incarnation);
        let rests_until = former.then(|| now.after_ms(self.config.lease_ttl_ms));
        let quarantined_until = rests_until.max(remembered.whole_until);
        let mounted = PoolOrder::SegmentMounted {
            mount,
            segment: id,
            capacity_bytes: segment.capacity_bytes(),
            page_bytes: segment.page_bytes,
            rests_until: quarantined_until,
        };
        if let Some(due) = segment.heap.next_expiry() {
            self.timers.insert((due, mount.slot));
        }
        self.order_all(mounted, effects);
        if let Some(until) = quarantined_until {
            self.segments.set_phase(mount.slot, Phase::Quarantined { until });
            self.timers.insert((until, mount.slot));
        }
        self.table_changed = true;
        self.space.placement_changed();
        Ok(mount)
    }

    fn grant_of(&self, mount: Mount) -> MountGrant {
        MountGrant {
            slot: u32::from(mount.slot.0),
            generation: mount.generation.0,
            incarnation: self.config.incarnation,
        }
    }
}

/// The mount of a segment with a known id, if it is the same segment.
fn same_mount(
    known: &MountedSegment,
    client: ClientId,
    segment: &Segment,
) -> Result<Mount, WireError> {
    if !known.is_mounted() {
        return Err(leaving(segment.segment));
    }
    if known.client != client || known.identity != *segment {
        return Err(conflict(segment.segment));
    }
    Ok(known.mount)
}

/// Each field within its bounds.
pub(super) fn check_fields(segment: &Segment) -> Result<(), WireError> {
    let Segment { base, size_bytes, endpoint, transfer_engine, .. } = segment;
    let fault = if *size_bytes < SEGMENT_BYTES_MIN {
        format!("size_bytes is {size_bytes}, at least {SEGMENT_BYTES_MIN}")
    } else if *size_bytes > SEGMENT_BYTES_MAX {
        format!("size_bytes is {size_bytes}, at most {SEGMENT_BYTES_MAX}")
    } else if *base == 0 {
        "base is zero".to_owned()
    } else if base.checked_add(*size_bytes).is_none() {
        format!("base + size_bytes overflows: {base} + {size_bytes}")
    } else if endpoint.is_empty() {
        "endpoint is empty".to_owned()
    } else if endpoint.len() > NAME_BYTES_MAX {
        format!("endpoint has {} bytes, at most {NAME_BYTES_MAX}", endpoint.len())
    } else if let Some(fault) = transfer_engine.as_ref().and_then(engine_fault) {
        fault
    } else {
        return Ok(());
    };
    Err(WireError::new(ErrorCode::InvalidSegment, format!("segment {}: {fault}", segment.segment)))
}

/// What is out of bounds in the part that the transfer engine needs.
fn engine_fault(engine: &TransferEngine) -> Option<String> {
    let texts = [("name", &engine.name), ("protocol", &engine.protocol), ("host", &engine.host)];
    let (field, text) = texts.into_iter().find(|(_, text)| text.len() > NAME_BYTES_MAX)?;
    Some(format!("transfer_engine.{field} has {} bytes, at most {NAME_BYTES_MAX}", text.len()))
}

fn conflict(segment: SegmentId) -> WireError {
    let text = format!(
        "segment {segment} is known with another owner, base, size_bytes, endpoint, \
         certificate_sha256 or transfer_engine"
    );
    WireError::new(ErrorCode::SegmentConflict, text)
}

/// Readers of one kind of memory cannot reach the other, so a key would be readable for some and
/// lost for others.
fn other_reach(segment: &Segment) -> WireError {
    let (this, those) = match segment.transfer_engine {
        Some(_) => ("by a transfer engine", "over QUIC"),
        None => ("over QUIC", "by a transfer engine"),
    };
    let text = format!(
        "segment {} is reached {this} and those of this master {those}: run a master for each",
        segment.segment
    );
    WireError::new(ErrorCode::SegmentConflict, text)
}

fn leaving(segment: SegmentId) -> WireError {
    let text = format!("segment {segment} is still being unmounted");
    WireError::new(ErrorCode::SegmentLeaving, text).retry_after_ms(LEAVING_RETRY_MS)
}

fn dropped(segment: SegmentId) -> WireError {
    let text = format!(
        "segment {segment} was another one before or with another master since, and what was stored \
         there is being dropped"
    );
    WireError::new(ErrorCode::SegmentLeaving, text).retry_after_ms(LEAVING_RETRY_MS)
}

fn overlap(segment: SegmentId, other: SegmentId) -> WireError {
    let text = format!("segment {segment}: base and size_bytes overlap segment {other}");
    WireError::new(ErrorCode::SegmentOverlap, text)
}

fn overlap_with(other: &MountedSegment, segment: &Segment) -> WireError {
    if !other.is_mounted() {
        return leaving(other.identity.segment);
    }
    // A store that was started again meets the mount of its former process until that one is
    // found to be offline, so trying again is of use.
    overlap(segment.segment, other.identity.segment).retry_after_ms(OVERLAP_RETRY_MS)
}

/// A sweep runs in slices and takes from a millisecond to some seconds.
const LEAVING_RETRY_MS: u32 = 100;

/// About the time in which a silent client is found to be offline.
const OVERLAP_RETRY_MS: u32 = 1_000;
