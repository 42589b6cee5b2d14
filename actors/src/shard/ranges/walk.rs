//! Finding ranges by where they lie.

use std::ops::{Bound, ControlFlow};

use super::node::NodeState;
use super::segment::SegmentRanges;
use super::slab::Slab;
use super::{RangeHandle, RangeState};
use crate::pages::PageRun;

impl SegmentRanges {
    pub(super) fn first_occupied(&mut self, nodes: &Slab) -> Option<RangeHandle> {
        let from = self.occupied_from;
        // The span in which that granule lies begins below it.
        let span_start = self.spans.range(..=from).next_back().map_or(from, |(start, _)| *start);
        for span in self.spans.range(span_start..).map(|(_, span)| span) {
            // Two free ranges never touch, so it is the first node or the second.
            let first = span.first;
            let second = nodes[first].next;
            for node in [first, second] {
                if nodes[node].state().is_occupied() {
                    self.occupied_from = nodes[node].granule();
                    return Some(node);
                }
            }
        }
        self.occupied_from = u64::MAX;
        None
    }

    pub(super) fn find_at(&self, nodes: &Slab, granule: u64) -> Option<RangeHandle> {
        let range = self.at_or_after(nodes, granule)?;
        let node = &nodes[range];
        (node.granule() == granule && node.state().is_occupied()).then_some(range)
    }

    pub(super) fn walk_window(
        &self,
        nodes: &Slab,
        window: PageRun,
        from: Option<RangeHandle>,
        mut visit: impl FnMut(RangeHandle, RangeState) -> ControlFlow<()>,
    ) {
        let start = u64::from(window.first_page) * self.page_granules;
        let end = u64::from(window.end()) * self.page_granules;
        debug_assert!(
            from.is_none_or(|range| {
                let node = &nodes[range];
                let is_of_span = node.state().is_occupied() && !node.state().is_alien();
                is_of_span && node.segment() == self.index
            }),
            "a walk goes on at an occupied range of an own span of the same segment"
        );
        let mut rest = from.or_else(|| self.at_or_after(nodes, start));
        while let Some(handle) = rest {
            let node = &nodes[handle];
            if node.granule() >= end {
                return;
            }
            if let Some(state) = node.state().range_state()
                && visit(handle, state).is_break()
            {
                return;
            }
            rest = match node.state() {
                NodeState::End => self.first_from(node.granule()),
                _ => node.next.some(),
            };
        }
    }

    pub(super) fn walk_free(
        &self,
        nodes: &Slab,
        window: PageRun,
        mut visit: impl FnMut(RangeHandle),
    ) {
        self.walk_window(nodes, window, None, |range, state| {
            if state == RangeState::Free {
                visit(range);
            }
            ControlFlow::Continue(())
        });
    }

    /// The range in which a granule lies, else the first one above it.
    pub(super) fn at_or_after(&self, nodes: &Slab, granule: u64) -> Option<RangeHandle> {
        let below = self.spans.range(..=granule).next_back();
        let Some((&span_start, span)) = below.filter(|(_, s)| nodes[s.end].granule() > granule)
        else {
            return self.first_from(granule);
        };
        let mut handle = self.entry(nodes, span_start, granule).unwrap_or(span.first);
        while nodes[nodes[handle].next].granule() <= granule {
            handle = nodes[handle].next;
        }
        Some(handle)
    }

    /// A landmark at or below `granule` in the span that begins at `span_start` and reaches above
    /// `granule`, not far from it in nodes.
    fn entry(&self, nodes: &Slab, span_start: u64, granule: u64) -> Option<RangeHandle> {
        // The first node in the block may belong to a span below, or begin above the granule.
        let reachable = span_start..=granule;
        let near = self.landmarks.at(granule);
        near.filter(|handle| reachable.contains(&nodes[*handle].granule()))
            // Blocks in between lie wholly in the span, so what begins in them is of this span.
            .or_else(|| self.landmarks.last_between(span_start, granule))
    }

    /// The first range of the first span that begins at or after a granule.
    pub(super) fn first_from(&self, granule: u64) -> Option<RangeHandle> {
        let spans = (Bound::Included(granule), Bound::Unbounded);
        self.spans.range(spans).next().map(|(_, span)| span.first)
    }
}
