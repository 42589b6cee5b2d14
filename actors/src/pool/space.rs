//! What the pool tells about its space: to the shards, for placement, and to those who ask.

use std::collections::BTreeSet;

use mooring_proto::error::NoSpace;

use super::Pool;
use super::message::{PoolEffect, PoolOrder, PoolTotals, SegmentSlot, SegmentSpace};
use super::segment::{MountedSegment, Phase};

/// Which segments' space may have changed since the shards were told.
#[derive(Debug, Default)]
pub(super) struct SpaceNews {
    changed: BTreeSet<SegmentSlot>,
    /// A segment came, went, or may be placed on or no more.
    placement_changed: bool,
}

impl SpaceNews {
    /// The space of a segment may have changed.
    pub(super) fn changed(&mut self, slot: SegmentSlot) {
        self.changed.insert(slot);
    }

    /// The set of placeable segments has changed.
    pub(super) fn placement_changed(&mut self) {
        self.placement_changed = true;
    }
}

impl Pool {
    /// Tells the shards that there are other segments to place on, unless there are so many that
    /// it is better done once in a tick.
    pub(super) fn announce_placement(&mut self, effects: &mut Vec<PoolEffect>) {
        if self.space.placement_changed && self.segments.placeable().len() <= ANNOUNCE_AT_ONCE_MAX {
            self.announce_changes(effects);
        }
    }

    /// Tells the shards the space of the placeable segments on which it has changed so that they
    /// would act on it. When there are others to place on than before, they are told in any case,
    /// since a put may wait for that alone.
    pub(super) fn announce_changes(&mut self, effects: &mut Vec<PoolEffect>) {
        let news = std::mem::take(&mut self.space);
        let slots: Vec<SegmentSlot> = if news.placement_changed {
            self.segments.placeable().iter().copied().collect()
        } else {
            let placeable = |slot: &SegmentSlot| self.segments.placeable().contains(slot);
            news.changed.into_iter().filter(placeable).collect()
        };
        let mut spaces = Vec::new();
        for slot in slots {
            if let Some(segment) = self.segments.at_mut(slot)
                && differs_materially(segment)
            {
                segment.announced = Some(segment.space());
                spaces.push(segment.space());
            }
        }
        if news.placement_changed || !spaces.is_empty() {
            self.order_all(PoolOrder::Space(spaces), effects);
        }
    }

    /// What holds the space of all mounted segments. Pending ones don't count: nothing is placed
    /// there and nothing can be evicted. What is free on one that rests is held.
    pub(super) fn no_space(&self) -> NoSpace {
        let mut space = NoSpace::default();
        for segment in self.segments.iter().filter(|segment| segment.is_readable()) {
            if let Phase::Quarantined { .. } = segment.phase {
                space.held_bytes += segment.space().free_bytes + segment.used.held_bytes;
                continue;
            }
            space.free_bytes += segment.space().free_bytes;
            space.largest_free_run_bytes =
                space.largest_free_run_bytes.max(segment.largest_free_run_bytes());
            space.leased_bytes += segment.used.leased_bytes;
            space.pinned_bytes += segment.used.pinned_bytes;
            space.held_bytes += segment.used.held_bytes;
        }
        space
    }

    /// The totals of the pool, summed up from the segments themselves.
    pub fn totals(&self) -> PoolTotals {
        let mut totals = PoolTotals {
            segments_confirmed: self.pending_confirmed,
            segments_dropped: self.pending_dropped,
            windows_vacated: self.rooms.windows_vacated(),
            ..PoolTotals::default()
        };
        for segment in self.segments.iter().filter(|segment| segment.is_mounted()) {
            totals.segments += 1;
            totals.segments_pending += u64::from(segment.pending().is_some());
            totals.capacity_bytes += segment.capacity_bytes();
            totals.free_page_bytes += segment.bytes(segment.heap.free_pages());
            totals.eviction_debt_bytes += segment.debt_bytes();
        }
        totals
    }
}

fn differs_materially(segment: &MountedSegment) -> bool {
    let Some(announced) = segment.announced else { return true };
    let SegmentSpace { free_bytes, largest_free_run_bytes, .. } = segment.space();
    let differs = |new: u64, old: u64| {
        let difference = new.abs_diff(old);
        difference >= u64::from(segment.page_bytes)
            && difference.saturating_mul(MATERIAL_PART) >= old
    };
    differs(free_bytes, announced.free_bytes)
        || differs(largest_free_run_bytes, announced.largest_free_run_bytes)
}

/// With more placeable segments than this a change is announced at the next tick: a thousand
/// mounts one after another would otherwise look through the whole list a thousand times.
const ANNOUNCE_AT_ONCE_MAX: usize = 256;

/// A change by this part of what was announced is worth a message. It is relative to what is
/// left, so the figures get finer as a segment fills up.
const MATERIAL_PART: u64 = 16;
