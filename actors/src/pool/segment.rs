//! One mounted segment, as the pool keeps it.

use std::collections::BTreeSet;

use mooring_proto::message::inspect::{SegmentState, SegmentUse};
use mooring_proto::message::segment::{Segment, SegmentEntry};
use mooring_proto::{ClientId, Incarnation};

use super::heap::{PageHeap, page_bytes};
use super::message::{Mount, Remnant, SegmentDetail, SegmentSpace, SegmentUsage};
use super::spans::Collection;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::request::RequestId;
use crate::route::ShardId;

/// A segment from its mount until every shard has forgotten it.
#[derive(Debug)]
pub(super) struct MountedSegment {
    pub(super) mount: Mount,
    pub(super) client: ClientId,
    pub(super) identity: Segment,
    pub(super) phase: Phase,
    /// The master that has handed it over, if one has.
    pub(super) handed_over_by: Option<Incarnation>,
    /// When its owner has last offered it.
    pub(super) named_at: Moment,
    /// Its owner has asked for its end, and has not mounted it again since.
    pub(super) given_up: bool,
    pub(super) page_bytes: u32,
    pub(super) heap: PageHeap,
    /// By shard: what it reported, and what it was ordered to evict.
    pub(super) shares: Vec<Share>,
    /// The sum of all shares.
    pub(super) used: UseTotals,
    /// Free pages are being collected from the shards for waiting span requests.
    pub(super) collection: Option<Collection>,
    /// Where the next search for a window starts.
    pub(super) hand: u32,
    /// What the shards were last told of its space.
    pub(super) announced: Option<SegmentSpace>,
    pub(super) leaving: Leaving,
}

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Objects are placed and read.
    Open,
    /// Nothing is placed before that moment.
    Quarantined {
        /// Its end.
        until: Moment,
    },
    /// Nothing is placed; readable until that moment.
    Draining {
        /// Its end.
        until: Moment,
    },
    /// Restored and not placeable nor readable: its owner has not come back yet.
    Pending(Pending),
    /// Unreadable, being swept.
    Leaving,
}

/// What a segment that was handed over waits for, and what goes on when its owner comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// It is dropped if its owner has not come back by then.
    pub(super) until: Option<Moment>,
    /// The end of a drain.
    pub(super) drains_until: Option<Moment>,
    /// The end of a quarantine.
    pub(super) rests_until: Option<Moment>,
    /// The master that its owner has mounted it with.
    pub(super) mounted_with: Incarnation,
}

impl Pending {
    /// When it goes if nothing happens.
    pub(super) fn ends(&self) -> Option<Moment> {
        self.until.into_iter().chain(self.drains_until).min()
    }

    /// The phase after it has opened.
    pub(super) fn opened(&self, now: Moment) -> Phase {
        match (self.drains_until, self.rests_until.filter(|&until| until > now)) {
            (Some(until), _) => Phase::Draining { until },
            (None, Some(until)) => Phase::Quarantined { until },
            (None, None) => Phase::Open,
        }
    }
}

/// Who has not yet answered to the loss of a segment, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub(super) unconfirmed: BTreeSet<ShardId>,
    pub(super) unswept: BTreeSet<ShardId>,
    pub(super) waiting: Vec<RequestId>,
}

/// What one shard holds of a segment, by its last report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) allocated_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) leased_bytes: u64,
    pub(super) pinned_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) largest_free_run_bytes: u64,
    pub(super) evicted_total_bytes: u64,
    /// The last order's total, at least the reported one.
    pub(super) ordered_total_bytes: u64,
    /// When it was last asked to give pages back.
    pub(super) asked: Option<Moment>,
}

/// What all shards hold of a segment, by their last reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UseTotals {
    pub(super) allocated_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) leased_bytes: u64,
    pub(super) pinned_bytes: u64,
    pub(super) free_bytes: u64,
}

impl Share {
    /// Bytes that eviction could free: neither leased nor pinned.
    pub(super) fn evictable_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.leased_bytes).saturating_sub(self.pinned_bytes)
    }

    /// Bytes that were ordered and are not reported as evicted yet.
    pub(super) fn debt_bytes(&self) -> u64 {
        self.ordered_total_bytes.saturating_sub(self.evicted_total_bytes)
    }
}

impl UseTotals {
    fn add(&mut self, share: &Share) {
        self.allocated_bytes += share.allocated_bytes;
        self.held_bytes += share.held_bytes;
        self.leased_bytes += share.leased_bytes;
        self.pinned_bytes += share.pinned_bytes;
        self.free_bytes += share.free_bytes;
    }

    fn subtract(&mut self, share: &Share) {
        self.allocated_bytes -= share.allocated_bytes;
        self.held_bytes -= share.held_bytes;
        self.leased_bytes -= share.leased_bytes;
        self.pinned_bytes -= share.pinned_bytes;
        self.free_bytes -= share.free_bytes;
    }
}

impl MountedSegment {
    /// A segment with all its pages free. The fields of `identity` are within their bounds.
    pub(super) fn new(mount: Mount, client: ClientId, identity: Segment, shards: u16) -> Self {
        let page_bytes = page_bytes(identity.size_bytes);
        let pages = (identity.size_bytes / u64::from(page_bytes)) as u32;
        MountedSegment {
            mount,
            client,
            identity,
            phase: Phase::Open,
            handed_over_by: None,
            named_at: Moment::default(),
            given_up: false,
            page_bytes,
            heap: PageHeap::new(pages, shards),
            shares: vec![Share::default(); usize::from(shards)],
            used: UseTotals::default(),
            collection: None,
            hand: 0,
            announced: None,
            leaving: Leaving::default(),
        }
    }

    /// The bytes of the whole pages.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.bytes(self.heap.pages())
    }

    /// The bytes of this many pages.
    pub(super) fn bytes(&self, pages: u32) -> u64 {
        u64::from(pages) * u64::from(self.page_bytes)
    }

    /// How many pages an object of this size needs, or `None` if the segment has fewer.
    pub(super) fn pages_for(&self, size_bytes: u64) -> Option<u32> {
        let pages = size_bytes.div_ceil(u64::from(self.page_bytes)).max(1);
        u32::try_from(pages).ok().filter(|&pages| pages <= self.heap.pages())
    }

    /// The pages that a range touches, cut to the segment.
    pub(super) fn pages_of(&self, range: &Remnant) -> PageRun {
        let page_bytes = u64::from(self.page_bytes);
        let from = (range.offset_bytes / page_bytes) as u32;
        let end = (range.offset_bytes + range.length_bytes).div_ceil(page_bytes) as u32;
        PageRun::between(from, end.min(self.heap.pages()))
    }

    /// Whether it is mounted: not lost, not unmounted.
    pub(super) fn is_mounted(&self) -> bool {
        self.phase != Phase::Leaving
    }

    /// Whether its owner names it in a list of all that it has. One that is about to be unmounted may
    /// be left out, and so may any of a client of Mooncake, whose lists take nothing away.
    pub(super) fn is_listed(&self) -> bool {
        let goes = matches!(self.phase, Phase::Draining { .. } | Phase::Leaving);
        !goes && self.identity.transfer_engine.is_none()
    }

    /// Whether its owner counts it among those that it keeps, if it knows of it. Clients of Mooncake
    /// say nothing of that.
    pub(super) fn is_kept(&self) -> bool {
        self.is_mounted() && !self.given_up && self.identity.transfer_engine.is_none()
    }

    /// What it waits for, if it is pending.
    pub(super) fn pending(&self) -> Option<Pending> {
        match self.phase {
            Phase::Pending(pending) => Some(pending),
            _ => None,
        }
    }

    /// Whether readers may know it: neither pending nor lost.
    pub(super) fn is_readable(&self) -> bool {
        self.is_mounted() && self.pending().is_none()
    }

    /// Takes over a shard's report.
    pub(super) fn report(&mut self, shard: ShardId, usage: &SegmentUsage) {
        let share = &mut self.shares[usize::from(shard.0)];
        self.used.subtract(share);
        share.allocated_bytes = usage.allocated_bytes;
        share.held_bytes = usage.held_bytes;
        share.leased_bytes = usage.leased_bytes;
        share.pinned_bytes = usage.pinned_bytes;
        share.free_bytes = usage.free_bytes;
        share.largest_free_run_bytes = usage.largest_free_run_bytes;
        share.evicted_total_bytes = share.evicted_total_bytes.max(usage.evicted_total_bytes);
        share.ordered_total_bytes = share.ordered_total_bytes.max(share.evicted_total_bytes);
        self.used.add(share);
    }

    /// Its space: pages of the pool, and free space in spans by the shards' reports.
    pub(super) fn space(&self) -> SegmentSpace {
        SegmentSpace {
            mount: self.mount,
            free_bytes: self.bytes(self.heap.free_pages()) + self.used.free_bytes,
            largest_free_run_bytes: self.bytes(self.heap.longest_free_pages()),
        }
    }

    /// Bytes that are free or could be made so by eviction.
    pub(super) fn promise_bytes(&self) -> u64 {
        let evictable: u64 = self.shares.iter().map(Share::evictable_bytes).sum();
        self.space().free_bytes + evictable
    }

    /// The largest free run that is known, of the pool or inside a span.
    pub(super) fn largest_free_run_bytes(&self) -> u64 {
        let in_spans = self.shares.iter().map(|share| share.largest_free_run_bytes).max();
        in_spans.unwrap_or(0).max(self.bytes(self.heap.longest_free_pages()))
    }

    /// Its row of the segment table.
    pub(super) fn entry(&self) -> SegmentEntry {
        SegmentEntry {
            slot: u32::from(self.mount.slot.0),
            generation: self.mount.generation.0,
            client: self.client,
            segment: self.identity.clone(),
        }
    }

    /// Its row with its use.
    pub(super) fn describe(&self, now: Moment) -> SegmentUse {
        let (state, until) = match self.phase {
            Phase::Open => (SegmentState::Open, None),
            Phase::Quarantined { until } => (SegmentState::Quarantined, Some(until)),
            Phase::Draining { until } => (SegmentState::Draining, Some(until)),
            Phase::Pending(pending) => (SegmentState::Pending, pending.ends()),
            Phase::Leaving => (SegmentState::Leaving, None),
        };
        SegmentUse {
            entry: self.entry(),
            state,
            allocated_bytes: self.used.allocated_bytes,
            held_bytes: self.used.held_bytes,
            time_left_ms: until.map(|until| until.since_ms(now)),
        }
    }

    /// Its row with everything that is known of its space.
    pub(super) fn detail(&self, now: Moment) -> SegmentDetail {
        SegmentDetail {
            usage: self.describe(now),
            leased_bytes: self.used.leased_bytes,
            pinned_bytes: self.used.pinned_bytes,
            free_page_bytes: self.bytes(self.heap.free_pages()),
            free_span_bytes: self.used.free_bytes,
            largest_free_run_bytes: self.largest_free_run_bytes(),
            spans: self.heap.spans(),
            eviction_debt_bytes: self.debt_bytes(),
        }
    }

    /// Bytes that shards were ordered to evict and have not yet reported.
    pub(super) fn debt_bytes(&self) -> u64 {
        self.shares.iter().map(Share::debt_bytes).sum()
    }

    /// Whether the heap and the totals are sound.
    pub(super) fn check(&self) -> Result<(), String> {
        self.heap.check().map_err(|fault| format!("{:?}: {fault}", self.mount))?;
        let mut sum = UseTotals::default();
        self.shares.iter().for_each(|share| sum.add(share));
        if sum != self.used {
            return Err(format!("{:?}: the use totals are not the sum of the shares", self.mount));
        }
        Ok(())
    }
}
