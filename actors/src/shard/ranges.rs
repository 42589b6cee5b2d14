//! The bytes of a shard: its spans in every segment, the ranges in them, and their recency.
//!
//! The pool grants spans, which are runs of pages; a shard places its objects in them as ranges.
//! Free, used and held stretches of a span are nodes of one chain in order of offset, and all nodes
//! of the shard lie in one slab, 32 bytes each. Allocating, freeing and moving in a recency list
//! take constant time.
//!
//! After a restart the ranges of an earlier master are laid down in order, and those make the
//! spans. If the number of shards has changed, an object's range may lie in a span of another
//! shard: it is a foreign range there, and an alien one in the shard of the object.
//!
//! A wrong handle, a range freed twice or overlapping spans are mistakes of this program, never of
//! a peer, so they panic.

mod alien;
mod bins;
mod check;
mod landmarks;
mod laying;
mod node;
mod recency;
mod segment;
mod slab;
mod spans;
mod survey;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::ops::ControlFlow;

use crate::pages::PageRun;
use crate::shard::prefetch::prefetch;

pub(crate) use self::laying::LayError;
use self::segment::SegmentRanges;
use self::slab::Slab;
pub(crate) use self::survey::Passed;

/// All spans and ranges of one shard.
pub(crate) struct Ranges {
    nodes: Slab,
    segments: Vec<Option<Box<SegmentRanges>>>,
}

/// A range of bytes in a segment. It stays the same until the range is freed, and is then used
/// again for another.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct RangeHandle(pub(crate) u32);

/// The slot of a segment in the pool's table.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SegmentIndex(pub(crate) u16);

/// What a stretch of a span is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum RangeState {
    /// Nobody's.
    Free,
    /// An object's of this shard.
    Used,
    /// Nobody may touch it until its hold ends.
    Held,
    /// An object's that another shard has. It is in no recency list here.
    Foreign,
}

/// The recency lists of a segment. A used range is in one of them, or in none.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Recency {
    /// May be evicted, and was never read since it was put.
    Idle,
    /// May be evicted, and was read since it was put, or had been before.
    Reused,
    /// May be evicted when neither of these is left.
    SoftPinned,
    /// May not be evicted before its lease ends.
    Leased,
}

impl Ranges {
    /// A shard without any segment.
    pub(crate) const fn new() -> Ranges {
        Ranges { nodes: Slab::new(), segments: Vec::new() }
    }

    /// Makes a segment known, without a span. Its pages have `page_bytes`, a power of two from 4 KiB
    /// to 64 KiB.
    ///
    /// Panics if the segment is open.
    pub(crate) fn open_segment(&mut self, segment: SegmentIndex, page_bytes: u32) {
        let slot = usize::from(segment.0);
        if self.segments.len() <= slot {
            self.segments.resize_with(slot + 1, || None);
        }
        assert!(self.segments[slot].is_none(), "a segment is opened once");
        self.segments[slot] = Some(Box::new(SegmentRanges::new(segment, page_bytes)));
    }

    /// Forgets a segment with its spans and every range that is left on it, alien ones too, also
    /// while its ranges are being laid down. Takes time for each range that is left.
    ///
    /// Panics if the segment isn't open.
    pub(crate) fn close_segment(&mut self, segment: SegmentIndex) {
        let closed = self.segments.get_mut(usize::from(segment.0)).and_then(Option::take);
        let Some(closed) = closed else { panic!("only an open segment is closed") };
        closed.release_nodes(&mut self.nodes);
    }

    /// Adds pages from the pool. They merge with own spans that they touch.
    ///
    /// Panics if the segment isn't open or is being laid, the run is empty or a page of it is owned
    /// already.
    pub(crate) fn grant(&mut self, segment: SegmentIndex, run: PageRun) {
        let (own, nodes) = self.parts(segment);
        own.grant(nodes, run);
    }

    /// Takes a range of at least `size_bytes`, rounded up to a granule of 64 bytes, and in no
    /// recency list. Nothing if no free range is large enough or the segment isn't open.
    pub(crate) fn allocate(
        &mut self,
        segment: SegmentIndex,
        size_bytes: u64,
        owner: u32,
    ) -> Option<RangeHandle> {
        let (own, nodes) = self.open_parts(segment)?;
        own.allocate(nodes, granules_for(size_bytes), owner)
    }

    /// Whether [`Ranges::allocate`] would find room for `size_bytes`.
    pub(crate) fn can_fit(&self, segment: SegmentIndex, size_bytes: u64) -> bool {
        self.open(segment).is_some_and(|own| own.can_fit(&self.nodes, granules_for(size_bytes)))
    }

    /// Gives a used, held or foreign range back. It leaves its recency list and merges with free
    /// neighbours. An alien range is just forgotten.
    pub(crate) fn free(&mut self, range: RangeHandle) {
        let (own, nodes) = self.parts_of(range);
        own.free(nodes, range);
    }

    /// Turns a used or foreign range into a held one of `owner`. It leaves its recency list.
    ///
    /// Panics if the range is held already, or alien: the owner of its span can hold it.
    pub(crate) fn hold(&mut self, range: RangeHandle, owner: u32) {
        let (own, nodes) = self.parts_of(range);
        own.hold(nodes, range, owner);
    }

    /// Moves a used range to the newest end of a recency list, from whatever list it is in.
    pub(crate) fn push_newest(&mut self, range: RangeHandle, recency: Recency) {
        let (own, nodes) = self.parts_of(range);
        own.push_newest(nodes, range, recency);
    }

    /// Moves a used range that nobody has accessed since a restart to a recency list: newer than
    /// those of its kind that came before, older than all others.
    pub(crate) fn push_restored(&mut self, range: RangeHandle, recency: Recency) {
        let (own, nodes) = self.parts_of(range);
        own.push_restored(nodes, range, recency);
    }

    /// Takes a range out of the recency list that it is in, if any.
    #[cfg(test)]
    pub(crate) fn unlist(&mut self, range: RangeHandle) {
        let (own, nodes) = self.parts_of(range);
        own.unlist(nodes, range);
    }

    /// The recency list that a range is in.
    pub(crate) fn listed(&self, range: RangeHandle) -> Option<Recency> {
        self.nodes[range].state().listed()
    }

    /// The range at the oldest end of a recency list.
    pub(crate) fn oldest(&self, segment: SegmentIndex, recency: Recency) -> Option<RangeHandle> {
        self.open(segment)?.oldest(recency)
    }

    /// The next range towards the newest end of the list that a range is in.
    pub(crate) fn newer(&self, range: RangeHandle) -> Option<RangeHandle> {
        let node = &self.nodes[range];
        debug_assert!(node.state().is_used(), "only used ranges are in recency lists");
        node.list_next.some()
    }

    /// What a range is.
    pub(crate) fn state(&self, range: RangeHandle) -> RangeState {
        let state = self.nodes[range].state().range_state();
        debug_assert!(state.is_some(), "a handle names a range");
        state.unwrap_or(RangeState::Free)
    }

    /// The number that the owner of a used, held or foreign range gave it.
    pub(crate) fn owner(&self, range: RangeHandle) -> u32 {
        self.occupied(range).owner
    }

    /// Gives a used, held or foreign range another owner.
    pub(crate) fn set_owner(&mut self, range: RangeHandle, owner: u32) {
        debug_assert!(self.nodes[range].state().is_occupied(), "only occupied ranges have owners");
        self.nodes[range].owner = owner;
    }

    /// The range that was set as the next one of the same object; [`RangeHandle::NONE`] at first.
    pub(crate) fn sibling(&self, range: RangeHandle) -> RangeHandle {
        self.occupied(range).sibling
    }

    /// Sets the next range of the same object.
    pub(crate) fn set_sibling(&mut self, range: RangeHandle, sibling: RangeHandle) {
        debug_assert!(
            self.nodes[range].state().is_occupied(),
            "only occupied ranges have siblings"
        );
        self.nodes[range].sibling = sibling;
    }

    /// The segment that a range is in.
    pub(crate) fn segment(&self, range: RangeHandle) -> SegmentIndex {
        self.nodes[range].segment()
    }

    /// Where a range begins in its segment.
    pub(crate) fn offset_bytes(&self, range: RangeHandle) -> u64 {
        self.nodes[range].granule() * GRANULE_BYTES
    }

    /// Length of a range: what was asked for, rounded up to a granule of 64 bytes.
    pub(crate) fn length_bytes(&self, range: RangeHandle) -> u64 {
        self.nodes.length(range) * GRANULE_BYTES
    }

    /// Hints to the processor that a range is about to be looked at.
    pub(crate) fn prefetch(&self, range: RangeHandle) {
        prefetch(&self.nodes[range]);
    }

    /// Hints to the processor that a range is about to leave the old end of its recency list.
    pub(crate) fn prefetch_newer(&self, range: RangeHandle) {
        if let Some(newer) = self.newer(range) {
            prefetch(&self.nodes[newer]);
        }
    }

    /// Hints to the processor that a range is about to be moved within its recency list.
    pub(crate) fn prefetch_listed_neighbours(&self, range: RangeHandle) {
        let node = &self.nodes[range];
        if node.state().listed().is_some() {
            for neighbour in
                [node.list_prev, node.list_next].into_iter().filter_map(RangeHandle::some)
            {
                prefetch(&self.nodes[neighbour]);
            }
        }
    }

    /// Hints to the processor that a used range is about to be freed.
    pub(crate) fn prefetch_adjoining(&self, range: RangeHandle) {
        let node = &self.nodes[range];
        // An alien has no neighbours; what stands in their place names none.
        if !node.state().is_alien() {
            for neighbour in [node.prev, node.next].into_iter().filter_map(RangeHandle::some) {
                prefetch(&self.nodes[neighbour]);
            }
        }
    }

    /// Bytes of all own spans of a segment: used, held, foreign and free.
    pub(crate) fn capacity_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::owned_granules)
    }

    /// Bytes of used ranges: those in own spans and alien ones, without held and foreign ones.
    pub(crate) fn allocated_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::allocated_granules)
    }

    /// Bytes of foreign ranges.
    pub(crate) fn foreign_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::foreign_granules)
    }

    /// Bytes of held ranges.
    pub(crate) fn held_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::held_granules)
    }

    /// How many ranges a survey of the segment comes to: all of own spans that are not free.
    pub(crate) fn occupied_ranges(&self, segment: SegmentIndex) -> u64 {
        self.open(segment).map_or(0, |own| own.occupied_ranges)
    }

    /// Bytes of own spans that are free.
    pub(crate) fn free_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::free_granules)
    }

    /// Bytes of the ranges in a recency list.
    pub(crate) fn listed_bytes(&self, segment: SegmentIndex, recency: Recency) -> u64 {
        self.total(segment, |own| own.listed_granules(recency))
    }

    /// The largest size that can be allocated.
    ///
    /// That is the largest free range, unless there are more than 64 of about that size: then it is
    /// the largest of 64 of them, and less than an eighth below the largest.
    pub(crate) fn largest_free_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, |own| own.largest_free_granules(&self.nodes))
    }

    /// Gives wholly free pages back, from the largest free ranges first: runs of at least
    /// `run_pages_min` pages, until they are `pages_wanted` pages together.
    ///
    /// The last run is cut to what is still wanted, but not below `run_pages_min`. A call looks at a
    /// bounded number of free ranges, so it may find less than there is. A segment that isn't open
    /// has none.
    pub(crate) fn take_free_pages(
        &mut self,
        segment: SegmentIndex,
        pages_wanted: u32,
        run_pages_min: u32,
    ) -> Vec<PageRun> {
        self.open_parts(segment).map_or_else(Vec::new, |(own, nodes)| {
            own.take_free_pages(nodes, pages_wanted, run_pages_min)
        })
    }

    /// Gives every wholly free page of a window back. The runs are in order and don't touch. A
    /// segment that isn't open has none.
    pub(crate) fn take_pages(&mut self, segment: SegmentIndex, window: PageRun) -> Vec<PageRun> {
        self.open_parts(segment).map_or_else(Vec::new, |(own, nodes)| own.take_pages(nodes, window))
    }

    /// A used, held or foreign range of the segment, in the lowest own span that has one: the first
    /// in that span.
    ///
    /// A caller who frees it and asks again sweeps the own spans in time proportional to their
    /// ranges. Alien ranges are not among them: see [`Ranges::first_alien`].
    pub(crate) fn first_in(&mut self, segment: SegmentIndex) -> Option<RangeHandle> {
        let (own, nodes) = self.open_parts(segment)?;
        own.first_occupied(nodes)
    }

    /// The used, held or foreign range of an own span that begins just there. Walks from the last
    /// MiB that a range begins in, so past few ranges if they are large.
    pub(crate) fn find_at(&self, segment: SegmentIndex, offset_bytes: u64) -> Option<RangeHandle> {
        if !offset_bytes.is_multiple_of(GRANULE_BYTES) {
            return None;
        }
        self.open(segment)?.find_at(&self.nodes, offset_bytes / GRANULE_BYTES)
    }

    /// Visits the ranges of own spans that overlap a window, free ones too, in order of offset,
    /// until `visit` breaks off. It doesn't come to alien ranges.
    ///
    /// With `from` it begins there instead of at the start of the window: an occupied range that an
    /// earlier walk has come to.
    pub(crate) fn walk_window(
        &self,
        segment: SegmentIndex,
        window: PageRun,
        from: Option<RangeHandle>,
        visit: impl FnMut(RangeHandle, RangeState) -> ControlFlow<()>,
    ) {
        if let Some(own) = self.open(segment) {
            own.walk_window(&self.nodes, window, from, visit);
        }
    }

    /// Bytes of heap memory. Takes time for each segment, not for each range.
    pub(crate) fn memory_bytes(&self) -> usize {
        let segments = self.segments.iter().flatten();
        self.nodes.memory_bytes()
            + self.segments.capacity() * size_of::<Option<Box<SegmentRanges>>>()
            + segments.map(|own| own.memory_bytes()).sum::<usize>()
    }

    /// Checks every structure against every other: the first fault that is found. Takes time for
    /// each range.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut live = 0;
        for (slot, own) in self.segments.iter().enumerate() {
            let Some(own) = own else { continue };
            live += own.check(&self.nodes).map_err(|fault| format!("segment {slot}: {fault}"))?;
        }
        if live == u64::from(self.nodes.live()) {
            Ok(())
        } else {
            Err(format!("{} nodes are live, but spans have {live}", self.nodes.live()))
        }
    }

    fn open(&self, segment: SegmentIndex) -> Option<&SegmentRanges> {
        self.segments.get(usize::from(segment.0))?.as_deref()
    }

    fn parts(&mut self, segment: SegmentIndex) -> (&mut SegmentRanges, &mut Slab) {
        let Some(parts) = self.open_parts(segment) else {
            panic!("segment {} isn't open", segment.0)
        };
        parts
    }

    fn open_parts(&mut self, segment: SegmentIndex) -> Option<(&mut SegmentRanges, &mut Slab)> {
        let own = self.segments.get_mut(usize::from(segment.0))?.as_deref_mut()?;
        Some((own, &mut self.nodes))
    }

    fn parts_of(&mut self, range: RangeHandle) -> (&mut SegmentRanges, &mut Slab) {
        let node = &self.nodes[range];
        assert!(node.state().is_occupied(), "only occupied ranges change");
        self.parts(node.segment())
    }

    fn occupied(&self, range: RangeHandle) -> &node::Node {
        let node = &self.nodes[range];
        debug_assert!(node.state().is_occupied(), "free ranges belong to nobody");
        node
    }

    /// A total of a segment in bytes; none of a segment that isn't open.
    fn total(&self, segment: SegmentIndex, granules: impl FnOnce(&SegmentRanges) -> u64) -> u64 {
        self.open(segment).map_or(0, granules) * GRANULE_BYTES
    }
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges::new()
    }
}

impl fmt::Debug for Ranges {
    /// Tells how much there is; the ranges themselves would be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments = self.segments.iter().flatten().count();
        f.debug_struct("Ranges")
            .field("segments", &segments)
            .field("nodes", &self.nodes.live())
            .finish_non_exhaustive()
    }
}

impl RangeHandle {
    /// No range.
    pub(crate) const NONE: RangeHandle = RangeHandle(u32::MAX);

    /// Whether this is [`RangeHandle::NONE`].
    pub(crate) const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    /// The handle, unless it is [`RangeHandle::NONE`].
    pub(crate) const fn some(self) -> Option<RangeHandle> {
        if self.is_none() { None } else { Some(self) }
    }
}

impl Recency {
    /// All recency lists of a segment, in their order there.
    pub(crate) const ALL: [Recency; 4] =
        [Recency::Idle, Recency::Reused, Recency::SoftPinned, Recency::Leased];
}

/// Granules for a size. A range is never empty.
const fn granules_for(size_bytes: u64) -> u64 {
    let granules = size_bytes.div_ceil(GRANULE_BYTES);
    if granules == 0 { 1 } else { granules }
}

/// A cache line: an object of 256 bytes wastes nothing, and transfers begin aligned.
const GRANULE_BYTES: u64 = 64;
