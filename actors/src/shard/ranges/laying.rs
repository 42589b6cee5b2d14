//! Laying down the ranges of a segment in order of offset: how an earlier master's come back.
//!
//! What is laid down makes the spans: they are the pages that the ranges touch, and what the ranges
//! leave of those pages is free. While it goes on, the chain of the topmost span closes with an end
//! node where the last range ends, be it inside a page. That node becomes the next range, or the
//! gap below it, so a range costs one new node and never a search.
//!
//! Leased ranges come in order of offset and are listed in order of use. So while a segment is laid,
//! there is a list for each rank, and at the end these are joined.

use super::node::NodeState;
use super::recency::RecencyList;
use super::segment::{PAGE_BYTES_MAX, SegmentRanges, Span};
use super::slab::Slab;
use super::{GRANULE_BYTES, RangeHandle, RangeState, Ranges, Recency, SegmentIndex, granules_for};
use crate::pages::PageRun;

/// Why a range can't be laid down. Nothing has changed then.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum LayError {
    /// It begins in the range before.
    #[error("the range at {offset_bytes} overlaps the one before")]
    Overlap {
        /// Where the range begins.
        offset_bytes: u64,
    },
    /// It begins below the range before.
    #[error("the range at {offset_bytes} begins below the one before")]
    OutOfOrder {
        /// Where the range begins.
        offset_bytes: u64,
    },
    /// It isn't wholly inside the whole pages of the segment.
    #[error("the range at {offset_bytes} reaches out of its segment")]
    Outside {
        /// Where the range begins.
        offset_bytes: u64,
    },
    /// It begins where no range can.
    #[error("the range at {offset_bytes} begins inside a granule")]
    Misaligned {
        /// Where the range begins.
        offset_bytes: u64,
    },
}

/// How far the ranges of a segment have been laid down.
pub(super) struct Laying {
    /// Where the last whole page of the segment ends, in granules.
    limit: u64,
    /// Where the last range begins.
    last_start: u64,
    open: Option<OpenSpan>,
    /// Leased ranges by their rank.
    ranked: Vec<RecencyList>,
}

/// The topmost span, which isn't among the others yet.
#[derive(Copy, Clone)]
struct OpenSpan {
    start: u64,
    first: RangeHandle,
    /// The end node, which begins where the last range ends.
    end: RangeHandle,
}

/// A range to lay down, in granules.
#[derive(Copy, Clone)]
struct Laid {
    start: u64,
    length: u64,
    state: NodeState,
    owner: u32,
}

impl Ranges {
    /// Begins to lay down the ranges of an open segment that has no span yet and `capacity_bytes`,
    /// of which only whole pages count.
    ///
    /// Until [`Ranges::end_laying`], no pages may come or go, and walks and searches by place don't
    /// come to the topmost span. What was laid down may be freed, held and moved in recency lists.
    ///
    /// Panics if the segment isn't open, has spans or is being laid already.
    pub(crate) fn begin_laying(&mut self, segment: SegmentIndex, capacity_bytes: u64) {
        let (own, _) = self.parts(segment);
        assert!(own.spans.is_empty(), "ranges are laid down only in a segment without spans");
        assert!(own.laying.is_none(), "the ranges of a segment are laid down once");
        let page_bytes = own.page_granules * GRANULE_BYTES;
        let pages = (capacity_bytes / page_bytes).min(u64::from(u32::MAX));
        let limit = pages * own.page_granules;
        own.laying = Some(Laying { limit, last_start: 0, open: None, ranked: Vec::new() });
    }

    /// Lays down the next range, used, held or foreign, in no recency list. Its length is rounded
    /// up to a granule of 64 bytes. Takes constant time, but for the first range of a new span.
    ///
    /// Panics unless the segment is between [`Ranges::begin_laying`] and [`Ranges::end_laying`], or
    /// if the state is free.
    ///
    /// # Errors
    /// When the range doesn't begin at a granule, or not at or above the end of the one before, or
    /// ends outside of the segment. Nothing has changed then, and others may follow; to give the
    /// segment up, close it.
    pub(crate) fn lay(
        &mut self,
        segment: SegmentIndex,
        offset_bytes: u64,
        length_bytes: u64,
        state: RangeState,
        owner: u32,
    ) -> Result<RangeHandle, LayError> {
        let state = match state {
            RangeState::Used => NodeState::Used,
            RangeState::Held => NodeState::Held,
            RangeState::Foreign => NodeState::Foreign,
            RangeState::Free => panic!("free space is what other ranges leave"),
        };
        if !offset_bytes.is_multiple_of(GRANULE_BYTES) {
            return Err(LayError::Misaligned { offset_bytes });
        }
        let (start, length) = (offset_bytes / GRANULE_BYTES, granules_for(length_bytes));
        let (own, nodes) = self.parts(segment);
        own.lay(nodes, Laid { start, length, state, owner })
    }

    /// Lists a used range, laid or alien, as leased: older than all of a lower rank, and newer than
    /// those of its rank that were listed before. Until [`Ranges::end_laying`] it is in no list that
    /// can be seen, and may not be freed, held or listed otherwise. Memory is taken for each rank up
    /// to the highest.
    ///
    /// Panics unless the segment is being laid.
    pub(crate) fn lease_laid(&mut self, range: RangeHandle, rank: usize) {
        let (own, nodes) = self.parts_of(range);
        own.lease_laid(nodes, range, rank);
    }

    /// Ends the laying down. Returns the pages of all spans: as few runs as possible, in order.
    ///
    /// Panics unless it has begun.
    pub(crate) fn end_laying(&mut self, segment: SegmentIndex) -> Vec<PageRun> {
        let (own, nodes) = self.parts(segment);
        own.end_laying(nodes)
    }
}

impl Laying {
    /// The first node of the topmost span.
    pub(super) fn first(&self) -> Option<RangeHandle> {
        self.open.map(|span| span.first)
    }

    /// The lists of leased ranges.
    pub(super) fn ranked(&self) -> &[RecencyList] {
        &self.ranked
    }
}

impl SegmentRanges {
    fn lay(&mut self, nodes: &mut Slab, laid: Laid) -> Result<RangeHandle, LayError> {
        let Some(laying) = &mut self.laying else { panic!("no ranges are being laid down") };
        let offset_bytes = laid.start * GRANULE_BYTES;
        let end = laid.start + laid.length;
        let reached = laying.open.map(|span| nodes[span.end].granule());
        if laid.start < laying.last_start {
            return Err(LayError::OutOfOrder { offset_bytes });
        }
        if reached.is_some_and(|reached| laid.start < reached) {
            return Err(LayError::Overlap { offset_bytes });
        }
        if end > laying.limit {
            return Err(LayError::Outside { offset_bytes });
        }
        laying.last_start = laid.start;
        let open = laying.open;

        let page_start = self.page_floor(laid.start);
        let below = open.zip(reached).filter(|(_, reached)| page_start <= self.page_ceil(*reached));
        let (span, range, owned_to) = match below {
            Some((span, reached)) => {
                (span, self.extend(nodes, span, laid.start), self.page_ceil(reached))
            }
            None => {
                self.close_span(nodes, open);
                let (first, range) = self.begin_span(nodes, page_start, laid.start);
                (OpenSpan { start: page_start, first, end: range }, range, page_start)
            }
        };
        self.owned += self.page_ceil(end) - owned_to;
        let end = self.insert_node(nodes, NodeState::End, end);
        nodes.link(range, end);
        if let Some(laying) = &mut self.laying {
            laying.open = Some(OpenSpan { end, ..span });
        }
        self.occupy(nodes, range, laid);
        Ok(range)
    }

    /// Lets the chain of the topmost span reach to `start`: the node that is to begin there.
    fn extend(&mut self, nodes: &mut Slab, span: OpenSpan, start: u64) -> RangeHandle {
        if nodes[span.end].granule() == start {
            return span.end;
        }
        let range = self.insert_node(nodes, NodeState::End, start);
        nodes.link(span.end, range);
        nodes[span.end].set_state(NodeState::Free);
        self.settle_free(nodes, span.end);
        range
    }

    /// Begins the chain of a new span: its first node, and the node that is to begin at `start`.
    fn begin_span(
        &mut self,
        nodes: &mut Slab,
        page_start: u64,
        start: u64,
    ) -> (RangeHandle, RangeHandle) {
        if page_start == start {
            let range = self.insert_node(nodes, NodeState::End, start);
            return (range, range);
        }
        let gap = self.insert_node(nodes, NodeState::Free, page_start);
        let range = self.insert_node(nodes, NodeState::End, start);
        nodes.link(gap, range);
        self.bins.insert(nodes, gap, start - page_start);
        (gap, range)
    }

    fn occupy(&mut self, nodes: &mut Slab, range: RangeHandle, laid: Laid) {
        let node = &mut nodes[range];
        node.set_state(laid.state);
        node.owner = laid.owner;
        let total = match laid.state {
            NodeState::Held => &mut self.held,
            NodeState::Foreign => &mut self.foreign,
            _ => &mut self.used,
        };
        *total += laid.length;
        self.occupied_ranges += 1;
    }

    fn lease_laid(&mut self, nodes: &mut Slab, range: RangeHandle, rank: usize) {
        let state = nodes[range].state();
        debug_assert!(state.is_used() && state.listed().is_none(), "a range is listed once");
        if state.is_alien() {
            self.detach(nodes, range);
        }
        let length = nodes.length(range);
        let Some(laying) = &mut self.laying else { panic!("no ranges are being laid down") };
        if laying.ranked.len() <= rank {
            laying.ranked.resize_with(rank + 1, || RecencyList::EMPTY);
        }
        nodes[range].set_state(state.moved_to(Some(Recency::Leased)));
        laying.ranked[rank].add(nodes, range, length);
    }

    fn end_laying(&mut self, nodes: &mut Slab) -> Vec<PageRun> {
        let Some(laying) = self.laying.take() else { panic!("no ranges are being laid down") };
        for ranked in laying.ranked.into_iter().rev() {
            self.list_mut(Recency::Leased).append(nodes, ranked);
        }
        self.close_span(nodes, laying.open);
        // Page numbers fit, because no range reaches above the limit.
        let page = |granule: u64| (granule / self.page_granules) as u32;
        let spans = self.spans.iter();
        spans
            .map(|(start, s)| PageRun::between(page(*start), page(nodes[s.end].granule())))
            .collect()
    }

    /// Lets a span end with a page, and puts it among the others.
    fn close_span(&mut self, nodes: &mut Slab, open: Option<OpenSpan>) {
        let Some(OpenSpan { start, first, end }) = open else { return };
        let page_end = self.page_ceil(nodes[end].granule());
        let end = self.extend(nodes, OpenSpan { start, first, end }, page_end);
        self.spans.insert(start, Span { first, end });
        self.occupied_from = start.min(self.occupied_from);
    }

    /// Where the page of a granule begins. Page sizes are powers of two, and a division would cost
    /// as much as the rest of a range.
    fn page_floor(&self, granule: u64) -> u64 {
        granule & !(self.page_granules - 1)
    }

    /// Where the first page begins that begins at a granule or above.
    fn page_ceil(&self, granule: u64) -> u64 {
        self.page_floor(granule + self.page_granules - 1)
    }
}

/// Beyond the largest run of the largest pages: no range ends above it.
pub(super) const GRANULE_MAX: u64 = u32::MAX as u64 * PAGE_BYTES_MAX as u64 / GRANULE_BYTES;
