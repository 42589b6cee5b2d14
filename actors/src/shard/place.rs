//! Where a put goes: which segments, and which ranges there.

use std::ops::Deref;

use mooring_proto::SegmentId;
use mooring_proto::error::{ErrorCode, NoSpace, Refusal};
use mooring_proto::limits::REPLICAS_MAX;

use super::message::ShardEffect;
use super::put::Attempt;
use super::ranges::{RangeHandle, Recency, SegmentIndex};
use super::state::Shard;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{Mount, SegmentSlot, ShardReport};

/// What a put needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) size_bytes: u64,
    pub(super) replicas: usize,
    pub(super) preferred: &'a [SegmentId],
}

/// What became of looking for it.
#[derive(Debug)]
pub(super) enum Placement {
    /// On different segments, at least one, at most as many as wanted.
    Placed,
    /// The pool was asked; its answer makes room or rules it out.
    Wait,
    /// There is none.
    Refused(Refusal),
}

/// The ranges of one object. There are few at most and usually one, so that a list on the heap would
/// cost more than the rest.
#[derive(Debug)]
pub(super) struct Placed {
    ranges: [RangeHandle; REPLICAS_MAX],
    count: usize,
}

impl Placed {
    fn push(&mut self, range: RangeHandle) {
        self.ranges[self.count] = range;
        self.count += 1;
    }
}

impl Default for Placed {
    fn default() -> Placed {
        Placed { ranges: [RangeHandle::NONE; REPLICAS_MAX], count: 0 }
    }
}

impl Deref for Placed {
    type Target = [RangeHandle];

    fn deref(&self) -> &[RangeHandle] {
        &self.ranges[..self.count]
    }
}

/// Which segments come into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Those that the object leaves below their watermark.
    Well,
    /// Those that are large enough.
    Barely,
}

/// What became of looking for one replica.
enum Replica {
    Found(RangeHandle),
    Asked,
    Nowhere,
}

impl Shard {
    /// Looks for ranges and adds them to `placed`, which is empty: the preferred segments first, else those
    /// with the most space; in the shard's own spans first, then in new ones. What is evictable gives way
    /// only when nothing else is left, and then only for the first replica.
    pub(super) fn place(
        &mut self,
        now: Moment,
        wanted: &Wanted<'_>,
        attempt: Attempt,
        placed: &mut Placed,
        effects: &mut Vec<ShardEffect>,
    ) -> Placement {
        if let Some(refusal) = self.out_of_question(now, wanted.size_bytes) {
            return Placement::Refused(refusal);
        }
        while placed.len() < wanted.replicas {
            match self.place_replica(now, wanted, attempt, placed, effects) {
                Replica::Found(range) => placed.push(range),
                Replica::Nowhere => break,
                Replica::Asked => {
                    placed.iter().for_each(|range| self.free_unused(*range));
                    return Placement::Wait;
                }
            }
        }
        if !placed.is_empty() {
            return Placement::Placed;
        }
        self.make_room(now, wanted, placed, effects)
    }

    /// Why an object of this size cannot be placed at all now.
    fn out_of_question(&self, now: Moment, size_bytes: u64) -> Option<Refusal> {
        if self.segments.placeable().is_empty() {
            let opens = self.segments.all().map(|segment| match segment.rests_until {
                Some(until) if until > now => until.since_ms(now).min(RETRY_RESTING_MS_MAX) as u32,
                _ => RETRY_UNPLACEABLE_MS,
            });
            let retry_after_ms = opens.min();
            return Some(Refusal { retry_after_ms, ..ErrorCode::NoSegment.into() });
        }
        if self.segments.largest_capacity_bytes() < size_bytes {
            return Some(ErrorCode::LargerThanSegments.into());
        }
        None
    }

    fn place_replica(
        &mut self,
        now: Moment,
        wanted: &Wanted<'_>,
        attempt: Attempt,
        placed: &[RangeHandle],
        effects: &mut Vec<ShardEffect>,
    ) -> Replica {
        for segment in wanted.preferred {
            let Some(index) = self.segments.with_id(*segment) else { continue };
            if let Some(found) = self.try_segment(index, wanted.size_bytes, placed, effects) {
                return found;
            }
        }
        if attempt == Attempt::Again
            && let Some(found) = self.try_choice_again(now, wanted.size_bytes, placed)
        {
            return found;
        }
        // What has just come is the likeliest to have room, and with thousands of segments a look at
        // each of them for each parked put would take long.
        if attempt == Attempt::Again
            && let Some(index) = self.segments.latest_grant()
            && self.usable(index, wanted.size_bytes, placed)
            && let Some(range) = self.allocate(index, wanted.size_bytes)
        {
            return Replica::Found(range);
        }
        if attempt == Attempt::First {
            let index = self.first_choice(now);
            if self.suits(index, wanted.size_bytes)
                && let Some(found) = self.try_segment(index, wanted.size_bytes, placed, effects)
            {
                return found;
            }
        }
        match self.try_every_segment(wanted.size_bytes, Fit::Well, placed, effects) {
            Replica::Nowhere
                if wanted.size_bytes > self.segments.smallest_capacity_bytes() / 8 * 7 =>
            {
                self.try_every_segment(wanted.size_bytes, Fit::Barely, placed, effects)
            }
            found => found,
        }
    }

    /// One segment: own spans first, then the pool; `None` if neither is of use.
    fn try_segment(
        &mut self,
        index: SegmentIndex,
        size_bytes: u64,
        placed: &[RangeHandle],
        effects: &mut Vec<ShardEffect>,
    ) -> Option<Replica> {
        if !self.usable(index, size_bytes, placed) {
            return None;
        }
        if let Some(range) = self.allocate(index, size_bytes) {
            return Some(Replica::Found(range));
        }
        self.ask_for_span(index, size_bytes, effects).then_some(Replica::Asked)
    }

    /// The segment that is chosen for a put that has waited. Of a batch that meets a shard without spans
    /// every put waits, and the first span that comes has room for all of them: so one for which the
    /// first span of another segment is on its way goes on waiting for that, and each segment gets its
    /// part.
    fn try_choice_again(
        &mut self,
        now: Moment,
        size_bytes: u64,
        placed: &[RangeHandle],
    ) -> Option<Replica> {
        let index = self.first_choice(now);
        if !self.usable(index, size_bytes, placed) || !self.suits(index, size_bytes) {
            return None;
        }
        if let Some(range) = self.allocate(index, size_bytes) {
            return Some(Replica::Found(range));
        }
        let is_first = self.ledger.ranges().capacity_bytes(index) == 0;
        let is_coming = self.segments.at(index).span_requested_bytes.is_some();
        (is_first && is_coming).then_some(Replica::Asked)
    }

    /// Every segment that is left, from a random one on: first those with room in own spans, then
    /// the one with the most space at the pool.
    fn try_every_segment(
        &mut self,
        size_bytes: u64,
        fit: Fit,
        placed: &[RangeHandle],
        effects: &mut Vec<ShardEffect>,
    ) -> Replica {
        let count = self.segments.placeable().len();
        let start = self.dice.below(count);
        let mut best: Option<(u64, SegmentIndex)> = None;
        let mut requested = false;
        for step in 0..count {
            let index = self.segments.placeable()[(start + step) % count];
            if !self.usable(index, size_bytes, placed)
                || fit == Fit::Well && !self.suits(index, size_bytes)
            {
                continue;
            }
            if self.ledger.ranges().can_fit(index, size_bytes)
                && let Some(range) = self.allocate(index, size_bytes)
            {
                return Replica::Found(range);
            }
            let segment = self.segments.at(index);
            requested |= segment.span_requested_bytes.is_some();
            if !segment.dry_for(size_bytes)
                && best.is_none_or(|(space_bytes, _)| segment.space_bytes > space_bytes)
            {
                best = Some((segment.space_bytes, index));
            }
        }
        match best {
            Some((_, index)) if self.ask_for_span(index, size_bytes, effects) => Replica::Asked,
            _ if requested => Replica::Asked,
            _ => Replica::Nowhere,
        }
    }

    /// Whether a segment could take another replica of an object of this size.
    fn usable(&self, index: SegmentIndex, size_bytes: u64, placed: &[RangeHandle]) -> bool {
        let segment = self.segments.at(index);
        segment.placeable
            && segment.capacity_bytes >= size_bytes
            && placed.iter().all(|range| self.ledger.ranges().segment(*range) != index)
    }

    /// Whether an object of this size leaves a segment below its watermark. One that nearly fills the
    /// segment should go to a larger one if there is room: here it would be the next to be evicted.
    fn suits(&self, index: SegmentIndex, size_bytes: u64) -> bool {
        size_bytes <= self.segments.at(index).capacity_bytes / 8 * 7
    }

    fn allocate(&mut self, index: SegmentIndex, size_bytes: u64) -> Option<RangeHandle> {
        let range = self.ledger.ranges_mut().allocate(index, size_bytes, NO_OWNER)?;
        let length_bytes = self.ledger.ranges().length_bytes(range);
        let segment = self.segments.at_mut(index);
        segment.space_bytes = segment.space_bytes.saturating_sub(length_bytes);
        self.segments.mark_changed(index);
        Some(range)
    }

    /// Frees a range that no object has got.
    fn free_unused(&mut self, range: RangeHandle) {
        let length_bytes = self.ledger.ranges().length_bytes(range);
        let index = self.ledger.ranges().segment(range);
        self.ledger.ranges_mut().free(range);
        self.segments.at_mut(index).space_bytes += length_bytes;
    }

    /// Asks the pool for a span, unless it has just said that it has none. Whether an answer is to
    /// come.
    fn ask_for_span(
        &mut self,
        index: SegmentIndex,
        size_bytes: u64,
        effects: &mut Vec<ShardEffect>,
    ) -> bool {
        let segment = self.segments.at_mut(index);
        if segment.dry_for(size_bytes) {
            return false;
        }
        if segment.span_requested_bytes.is_none() {
            segment.span_requested_bytes = Some(size_bytes);
            effects.push(ShardEffect::Report(ShardReport::SpanRequest {
                mount: segment.mount,
                size_bytes,
            }));
        }
        true
    }

    /// Nothing has room: evicts the oldest objects of the shard if that is likely to help, else asks
    /// the pool to vacate a window somewhere.
    fn make_room(
        &mut self,
        now: Moment,
        wanted: &Wanted<'_>,
        placed: &mut Placed,
        effects: &mut Vec<ShardEffect>,
    ) -> Placement {
        if let Some(range) = self.evict_for(now, wanted.size_bytes) {
            placed.push(range);
            return Placement::Placed;
        }
        if let Some(refusal) = self.parked.no_room(now, wanted.size_bytes) {
            return Placement::Refused(refusal);
        }
        if !self.parked.room_requested() {
            let number = self.parked.request_room(wanted.size_bytes);
            self.report_usage(super::state::Urgency::Any, effects);
            effects.push(ShardEffect::Report(ShardReport::RoomRequest {
                number,
                size_bytes: wanted.size_bytes,
                excluded: Vec::<SegmentSlot>::new(),
            }));
        }
        Placement::Wait
    }

    /// Evicts the oldest objects of the segment where the shard has most of them, until an object of
    /// this size fits, and allocates it. Gives up when twice its size is gone: then the holes are
    /// in the wrong places, and a vacated window costs less.
    fn evict_for(&mut self, now: Moment, size_bytes: u64) -> Option<RangeHandle> {
        let objects = self.ledger.objects().len() as u64;
        let index = self.segments.placeable().iter().copied().max_by_key(|index| {
            let ranges = self.ledger.ranges();
            ranges.listed_bytes(*index, Recency::Idle)
                + ranges.listed_bytes(*index, Recency::Reused)
        })?;
        let allocated_bytes = self.ledger.ranges().allocated_bytes(index);
        if size_bytes > self.segments.at(index).capacity_bytes
            || objects == 0
            || size_bytes / SIMILAR_SIZE > self.typical_object_bytes()
            || allocated_bytes == 0
        {
            return None;
        }
        let mut evicted_bytes = 0;
        while evicted_bytes <= size_bytes.saturating_mul(2) {
            evicted_bytes += self.evict_next(now, index)?;
            if self.ledger.ranges().can_fit(index, size_bytes)
                && let Some(range) = self.allocate(index, size_bytes)
            {
                return Some(range);
            }
        }
        None
    }

    /// The mean size of an object of this shard.
    fn typical_object_bytes(&self) -> u64 {
        let allocated_bytes: u64 = self
            .segments
            .placeable()
            .iter()
            .map(|index| self.ledger.ranges().allocated_bytes(*index))
            .sum();
        allocated_bytes / (self.ledger.objects().len() as u64).max(1)
    }

    /// Takes the pages that a span request has brought.
    pub(super) fn take_span(&mut self, mount: Mount, run: PageRun) {
        if let Some(segment) = self.segments.of_mount(mount) {
            segment.span_requested_bytes = None;
            segment.joined = false;
        }
        self.take_pages(mount, run);
    }

    /// Takes pages that belong to the shard from now on.
    pub(super) fn take_pages(&mut self, mount: Mount, run: PageRun) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        segment.dry_from_bytes = None;
        if !segment.readable {
            return;
        }
        let index = segment.index();
        self.ledger.ranges_mut().grant(index, run);
        self.segments.note_grant(index);
        self.room_made = true;
    }

    /// The pool has no span there. It is asked once more after the shard has returned what it has
    /// free itself, since that may adjoin what is free in the pool.
    pub(super) fn take_denial(&mut self, mount: Mount, effects: &mut Vec<ShardEffect>) {
        self.room_made = true;
        let Some(segment) = self.segments.of_mount(mount) else { return };
        let Some(size_bytes) = segment.span_requested_bytes.take() else { return };
        let again = !segment.joined && segment.placeable && segment.space_bytes >= size_bytes;
        segment.joined = false;
        if again {
            let index = segment.index();
            let runs = self.ledger.ranges_mut().take_free_pages(index, u32::MAX, 1);
            if !runs.is_empty() {
                self.segments.mark_changed(index);
                let segment = self.segments.at_mut(index);
                segment.joined = true;
                segment.span_requested_bytes = Some(size_bytes);
                let returned = ShardReport::Returned { mount, runs, answer: false };
                effects.push(ShardEffect::Report(returned));
                let request = ShardReport::SpanRequest { mount, size_bytes };
                effects.push(ShardEffect::Report(request));
                return;
            }
        }
        let segment = self.segments.at_mut(SegmentIndex(mount.slot.0));
        segment.dry_from_bytes = segment.dry_from_bytes.into_iter().chain([size_bytes]).min();
    }

    /// What the shard itself knows of the space, for a refusal that the pool was not asked about.
    pub(super) fn own_space(&self) -> NoSpace {
        let mut space = NoSpace::default();
        for segment in self.segments.all().filter(|segment| segment.readable) {
            let usage = self.usage(segment);
            space.free_bytes += usage.free_bytes;
            space.largest_free_run_bytes =
                space.largest_free_run_bytes.max(usage.largest_free_run_bytes);
            space.leased_bytes += usage.leased_bytes;
            space.pinned_bytes += usage.pinned_bytes;
            space.held_bytes += usage.held_bytes;
        }
        space
    }
}

/// The owner of a range between its allocation and its object's reservation.
const NO_OWNER: u32 = u32::MAX;

/// When to try again while a mounted segment waits for something that has no known end.
const RETRY_UNPLACEABLE_MS: u32 = 1000;

/// No client sleeps for longer on a hint, and another store may come sooner.
const RETRY_RESTING_MS_MAX: u64 = 10_000;

/// Evicting by age makes room for an object at most this many times as large as a typical one. For a
/// larger one the holes would rarely adjoin.
const SIMILAR_SIZE: u64 = 2;
