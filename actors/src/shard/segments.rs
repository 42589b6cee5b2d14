//! What a shard knows of each mounted segment.

use std::collections::HashMap;

use mooring_proto::SegmentId;

use super::ranges::SegmentIndex;
use crate::moment::Moment;
use crate::pool::message::{Mount, Remnant, SegmentSpace, SegmentUsage};

/// The segments by slot.
#[derive(Debug, Default)]
pub(super) struct Segments {
    by_slot: Vec<Option<Box<ShardSegment>>>,
    /// Slots on which objects may be placed, in no order.
    placeable: Vec<SegmentIndex>,
    by_id: HashMap<SegmentId, SegmentIndex>,
    /// Slots whose use has changed since the last full report, each once.
    changed: Vec<SegmentIndex>,
    /// Slots whose use the message at hand has changed, each once.
    touched: Vec<SegmentIndex>,
    /// Slots with an eviction order that is not carried out.
    evicting: Vec<SegmentIndex>,
    /// Of the placeable segments.
    largest_capacity_bytes: u64,
    /// Of the placeable segments.
    smallest_capacity_bytes: u64,
    /// Where the pool has granted pages last.
    latest_grant: Option<SegmentIndex>,
}

/// One mounted segment.
#[derive(Debug)]
pub(super) struct ShardSegment {
    pub(super) mount: Mount,
    pub(super) segment: SegmentId,
    pub(super) capacity_bytes: u64,
    pub(super) page_bytes: u32,
    /// Whether descriptors of it are handed out. Ends with the segment.
    pub(super) readable: bool,
    /// Whether it is gone and being swept. A segment that is neither readable nor lost is pending:
    /// its owner has not yet come back after a restart.
    pub(super) lost: bool,
    /// Whether objects may be placed on it.
    pub(super) placeable: bool,
    /// When its quarantine ends, if it has one; a hint for those who are refused until then.
    pub(super) rests_until: Option<Moment>,
    /// Until when it counts as new, and gets no more than its fair share.
    pub(super) slow_until: Moment,
    /// A span request for an object of this size is under way.
    pub(super) span_requested_bytes: Option<u64>,
    /// That request is the second one, after the shard's own free pages were returned.
    pub(super) joined: bool,
    /// The pool had no span for an object of this size when it was last asked, and nothing has been
    /// said since. A smaller one may still find a span.
    pub(super) dry_from_bytes: Option<u64>,
    /// Free bytes as the pool sees them, over all shards.
    pub(super) space_bytes: u64,
    /// The eviction that was ordered: the total to reach.
    pub(super) evict_to_total_bytes: u64,
    /// All bytes that eviction has freed here.
    pub(super) evicted_total_bytes: u64,
    /// Bytes of ranges that are being written.
    pub(super) unfinished_bytes: u64,
    /// Bytes of readable hard-pinned objects.
    pub(super) pinned_bytes: u64,
    /// What was last reported.
    pub(super) reported: Option<SegmentUsage>,
    /// Ranges that outlive the segment, gathered while it is swept.
    pub(super) remnants: Vec<Remnant>,
    changed: bool,
    touched: bool,
}

impl Segments {
    /// Adds a mounted segment.
    pub(super) fn mount(
        &mut self,
        mount: Mount,
        segment: SegmentId,
        capacity_bytes: u64,
        page_bytes: u32,
    ) {
        let index = usize::from(mount.slot.0);
        if self.by_slot.len() <= index {
            self.by_slot.resize_with(index + 1, || None);
        }
        assert!(self.by_slot[index].is_none(), "a slot is used again only after it was swept");
        self.by_slot[index] = Some(Box::new(ShardSegment {
            mount,
            segment,
            capacity_bytes,
            page_bytes,
            readable: true,
            lost: false,
            placeable: false,
            rests_until: None,
            slow_until: Moment::default(),
            span_requested_bytes: None,
            joined: false,
            dry_from_bytes: None,
            space_bytes: capacity_bytes,
            evict_to_total_bytes: 0,
            evicted_total_bytes: 0,
            unfinished_bytes: 0,
            pinned_bytes: 0,
            reported: None,
            remnants: Vec::new(),
            changed: false,
            touched: false,
        }));
        self.by_id.insert(segment, SegmentIndex(mount.slot.0));
    }

    /// The segment of exactly this mount.
    pub(super) fn of_mount(&mut self, mount: Mount) -> Option<&mut ShardSegment> {
        self.by_slot
            .get_mut(usize::from(mount.slot.0))?
            .as_deref_mut()
            .filter(|segment| segment.mount == mount)
    }

    /// The segment in this slot, if there is one.
    pub(super) fn get(&self, index: SegmentIndex) -> Option<&ShardSegment> {
        self.by_slot.get(usize::from(index.0))?.as_deref()
    }

    /// The slot of a segment.
    pub(super) fn with_id(&self, segment: SegmentId) -> Option<SegmentIndex> {
        self.by_id.get(&segment).copied()
    }

    /// The segment in this slot.
    pub(super) fn at(&self, index: SegmentIndex) -> &ShardSegment {
        self.by_slot[usize::from(index.0)].as_deref().expect("ranges lie on mounted segments only")
    }

    /// The segment in this slot, to change.
    pub(super) fn at_mut(&mut self, index: SegmentIndex) -> &mut ShardSegment {
        self.by_slot[usize::from(index.0)]
            .as_deref_mut()
            .expect("ranges lie on mounted segments only")
    }

    /// Whether the segment is gone and being swept.
    pub(super) fn lost(&self, index: SegmentIndex) -> bool {
        self.at(index).lost
    }

    /// Whether descriptors of the segment are handed out.
    pub(super) fn readable(&self, index: SegmentIndex) -> bool {
        self.at(index).readable
    }

    /// Allows or forbids placing objects.
    pub(super) fn set_placeable(&mut self, index: SegmentIndex, placeable: bool) {
        let segment = self.at_mut(index);
        if segment.placeable == placeable {
            return;
        }
        segment.placeable = placeable;
        if placeable {
            self.placeable.push(index);
        } else {
            self.placeable.retain(|other| *other != index);
        }
        let capacities = || self.placeable.iter().map(|index| self.at(*index).capacity_bytes);
        let (smallest, largest) = (capacities().min(), capacities().max());
        self.smallest_capacity_bytes = smallest.unwrap_or(0);
        self.largest_capacity_bytes = largest.unwrap_or(0);
    }

    /// The capacity of the smallest segment on which objects may be placed.
    pub(super) fn smallest_capacity_bytes(&self) -> u64 {
        self.smallest_capacity_bytes
    }

    /// The capacity of the largest segment on which objects may be placed.
    pub(super) fn largest_capacity_bytes(&self) -> u64 {
        self.largest_capacity_bytes
    }

    /// Ends a mount: nothing is placed or read there any more.
    pub(super) fn lose(&mut self, index: SegmentIndex) {
        self.set_placeable(index, false);
        let segment = self.at_mut(index);
        segment.readable = false;
        segment.lost = true;
    }

    /// Forgets a swept segment and gives out its remnants.
    pub(super) fn forget(&mut self, index: SegmentIndex) -> Vec<Remnant> {
        self.changed.retain(|other| *other != index);
        self.touched.retain(|other| *other != index);
        self.evicting.retain(|other| *other != index);
        self.latest_grant.take_if(|latest| *latest == index);
        let Some(segment) = self.by_slot[usize::from(index.0)].take() else { return Vec::new() };
        // The same segment may be mounted again already, in another slot.
        if self.by_id.get(&segment.segment) == Some(&index) {
            self.by_id.remove(&segment.segment);
        }
        segment.remnants
    }

    /// Where objects may be placed.
    pub(super) fn placeable(&self) -> &[SegmentIndex] {
        &self.placeable
    }

    /// Every mounted segment.
    pub(super) fn all(&self) -> impl Iterator<Item = &ShardSegment> {
        self.by_slot.iter().flatten().map(Box::as_ref)
    }

    /// Takes over what the pool says about room.
    pub(super) fn take_space(&mut self, space: &SegmentSpace) {
        if let Some(segment) = self.of_mount(space.mount) {
            segment.space_bytes = space.free_bytes;
            if space.largest_free_run_bytes > 0 {
                segment.dry_from_bytes = None;
            }
        }
    }

    /// Remembers that the pool has granted pages.
    pub(super) fn note_grant(&mut self, index: SegmentIndex) {
        self.latest_grant = Some(index);
        self.mark_changed(index);
    }

    /// Where the pool has granted pages last.
    pub(super) fn latest_grant(&self) -> Option<SegmentIndex> {
        self.latest_grant
    }

    /// Remembers that the use of a segment has changed.
    pub(super) fn mark_changed(&mut self, index: SegmentIndex) {
        let segment = self.at_mut(index);
        let touched = std::mem::replace(&mut segment.touched, true);
        let changed = std::mem::replace(&mut segment.changed, true);
        if !touched {
            self.touched.push(index);
        }
        if !changed {
            self.changed.push(index);
        }
    }

    /// The segments whose use has changed, each once; they count as unchanged afterwards.
    pub(super) fn take_changed(&mut self) -> Vec<SegmentIndex> {
        let changed = std::mem::take(&mut self.changed);
        for index in &changed {
            self.at_mut(*index).changed = false;
        }
        changed
    }

    /// The segments whose use has changed since the last full report.
    pub(super) fn changed(&self) -> &[SegmentIndex] {
        &self.changed
    }

    /// The segments whose use the message at hand has changed, each once and in order.
    pub(super) fn take_touched(&mut self) -> Vec<SegmentIndex> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        for index in &touched {
            self.at_mut(*index).touched = false;
        }
        touched
    }

    /// Takes an order to evict until a total is reached.
    pub(super) fn order_eviction(&mut self, mount: Mount, evicted_total_bytes: u64) {
        let Some(segment) = self.of_mount(mount) else { return };
        segment.evict_to_total_bytes = evicted_total_bytes;
        let index = segment.index();
        if segment.owes_eviction() && !self.evicting.contains(&index) {
            self.evicting.push(index);
        }
    }

    /// The segments with an eviction order that is not carried out.
    pub(super) fn evicting(&self) -> &[SegmentIndex] {
        &self.evicting
    }

    /// An eviction order is carried out.
    pub(super) fn end_eviction(&mut self, index: SegmentIndex) {
        self.evicting.retain(|other| *other != index);
    }

    /// An eviction order cannot be carried out.
    pub(super) fn forgive_eviction(&mut self, index: SegmentIndex) {
        let segment = self.at_mut(index);
        segment.evict_to_total_bytes = segment.evicted_total_bytes;
        self.mark_changed(index);
        self.end_eviction(index);
    }

    /// Counts bytes that are being written, or no longer.
    pub(super) fn note_unfinished(&mut self, index: SegmentIndex, change_bytes: i64) {
        self.mark_changed(index);
        let segment = self.at_mut(index);
        segment.unfinished_bytes = counted(segment.unfinished_bytes, change_bytes);
    }

    /// Counts bytes of readable hard-pinned objects.
    pub(super) fn note_pinned(&mut self, index: SegmentIndex, change_bytes: i64) {
        self.mark_changed(index);
        let segment = self.at_mut(index);
        segment.pinned_bytes = counted(segment.pinned_bytes, change_bytes);
    }

    /// Remembers that bytes have become free.
    pub(super) fn note_freed(&mut self, index: SegmentIndex, length_bytes: u64) {
        self.mark_changed(index);
        let segment = self.at_mut(index);
        segment.space_bytes = (segment.space_bytes + length_bytes).min(segment.capacity_bytes);
    }

    /// Remembers a range that outlives its segment.
    pub(super) fn note_remnant(&mut self, index: SegmentIndex, remnant: Remnant) {
        self.at_mut(index).remnants.push(remnant);
    }
}

impl ShardSegment {
    /// The slot as the ranges know it.
    pub(super) fn index(&self) -> SegmentIndex {
        SegmentIndex(self.mount.slot.0)
    }

    /// Whether the pool has just said that it has no span for an object of this size.
    pub(super) fn dry_for(&self, size_bytes: u64) -> bool {
        self.dry_from_bytes.is_some_and(|from_bytes| size_bytes >= from_bytes)
    }

    /// Whether an eviction was ordered that is not carried out.
    pub(super) fn owes_eviction(&self) -> bool {
        self.readable && self.evicted_total_bytes < self.evict_to_total_bytes
    }
}

/// A gauge after a change. What was counted in is counted out, so it cannot fall below zero.
fn counted(gauge_bytes: u64, change_bytes: i64) -> u64 {
    gauge_bytes.checked_add_signed(change_bytes).expect("a gauge counts out what it counted in")
}
