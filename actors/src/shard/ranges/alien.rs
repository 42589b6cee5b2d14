//! Alien ranges: where an object of this shard lies in a span of another one.
//!
//! Which shard an object belongs to depends on how many there are, so after a restart with another
//! number of them, the shard that has the object and the one whose span holds its range may differ.
//! The span's owner has the range as a foreign one, among its neighbours. The object's shard has an
//! alien one: a node of its own that is in no span and yet has an owner, a sibling and a recency.

use super::laying::{GRANULE_MAX, LayError};
use super::node::Node;
use super::segment::SegmentRanges;
use super::slab::Slab;
use super::{GRANULE_BYTES, RangeHandle, Ranges, Recency, SegmentIndex, granules_for};

impl Ranges {
    /// Makes an alien range of an open segment: a used one, in no recency list, that lies in a span
    /// of another shard. Its length is rounded up to a granule of 64 bytes.
    ///
    /// It counts as allocated, and as listed when it is in a list, but it is no part of the
    /// capacity. Freeing it forgets it here; the owner of the span must be told to free its foreign
    /// range. Sweeps and walks by place don't come to it.
    ///
    /// Panics if the segment isn't open.
    ///
    /// # Errors
    /// When no range can lie there. Whether it overlaps another one shows only where it is laid.
    pub(crate) fn alien(
        &mut self,
        segment: SegmentIndex,
        offset_bytes: u64,
        length_bytes: u64,
        owner: u32,
    ) -> Result<RangeHandle, LayError> {
        if !offset_bytes.is_multiple_of(GRANULE_BYTES) {
            return Err(LayError::Misaligned { offset_bytes });
        }
        let (granule, granules) = (offset_bytes / GRANULE_BYTES, granules_for(length_bytes));
        if granule + granules > GRANULE_MAX {
            return Err(LayError::Outside { offset_bytes });
        }
        let (own, nodes) = self.parts(segment);
        Ok(own.insert_alien(nodes, granule, granules, owner))
    }

    /// Whether a range is an alien one.
    pub(crate) fn is_alien(&self, range: RangeHandle) -> bool {
        self.nodes[range].state().is_alien()
    }

    /// An alien range of the segment.
    ///
    /// Takes constant time when no own used range is in a recency list any more, and so for a
    /// sweep that frees those first. Else it may go past them.
    pub(crate) fn first_alien(&self, segment: SegmentIndex) -> Option<RangeHandle> {
        self.aliens(segment).next()
    }

    /// The alien ranges of the segment, in no order. Takes time for each range in a recency list,
    /// unless there is no alien.
    pub(crate) fn aliens(&self, segment: SegmentIndex) -> impl Iterator<Item = RangeHandle> {
        self.open(segment).into_iter().flat_map(|own| own.aliens(&self.nodes))
    }

    /// Bytes of alien ranges.
    pub(crate) fn alien_bytes(&self, segment: SegmentIndex) -> u64 {
        self.total(segment, SegmentRanges::alien_granules)
    }
}

impl SegmentRanges {
    /// Releases the nodes of all aliens; only for a segment that is about to go, since the lists
    /// are not kept up.
    pub(super) fn release_aliens(&self, nodes: &mut Slab) {
        // Collected first, because a released node doesn't lead to the next one.
        let aliens: Vec<_> = self.aliens(nodes).collect();
        for alien in aliens {
            nodes.release(alien);
        }
    }

    pub(super) fn free_alien(&mut self, nodes: &mut Slab, range: RangeHandle) {
        self.detach(nodes, range);
        self.alien -= nodes.length(range);
        self.alien_ranges -= 1;
        nodes.release(range);
    }

    fn insert_alien(
        &mut self,
        nodes: &mut Slab,
        granule: u64,
        granules: u64,
        owner: u32,
    ) -> RangeHandle {
        let range = nodes.insert(Node::alien(self.index, granule, granules));
        nodes[range].owner = owner;
        self.attach(nodes, range, None);
        self.alien += granules;
        self.alien_ranges += 1;
        range
    }

    fn aliens<'a>(&'a self, nodes: &'a Slab) -> impl Iterator<Item = RangeHandle> + 'a {
        let recencies = Recency::ALL.map(|recency| self.list(recency));
        let ranked = self.laying.iter().flat_map(|laying| laying.ranked());
        let lists = std::iter::once(&self.unlisted_aliens).chain(recencies).chain(ranked);
        // Most segments have none, and their lists may be long.
        let lists = lists.take(if self.alien_ranges == 0 { 0 } else { usize::MAX });
        lists
            .flat_map(|list| {
                std::iter::successors(list.oldest.some(), |range| nodes[*range].list_next.some())
            })
            .filter(|range| nodes[*range].state().is_alien())
    }
}
