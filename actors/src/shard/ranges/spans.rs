//! Spans come from the pool and go back to it, whole or in part.

use super::RangeHandle;
use super::node::NodeState;
use super::segment::{SegmentRanges, Span};
use super::slab::Slab;
use crate::invariant::Invariant;
use crate::pages::PageRun;

impl SegmentRanges {
    /// Adds a run of pages, and merges it with the spans that it touches.
    pub(super) fn grant(&mut self, nodes: &mut Slab, run: PageRun) {
        assert!(!run.is_empty(), "a granted run has pages");
        assert!(self.laying.is_none(), "no pages come while ranges are laid down");
        let start = u64::from(run.first_page) * self.page_granules;
        let end = u64::from(run.end()) * self.page_granules;
        let below = self.spans.range(..=start).next_back().map(|(first, span)| (*first, *span));
        let below_end = below.map_or(0, |(_, span)| nodes[span.end].granule());
        let above = self.spans.range(start..).next().map(|(first, _)| *first);
        if below_end > start || above.is_some_and(|above| above < end) {
            let fault = format!("{run:?} of segment {} is granted twice", self.index.0);
            Invariant::NoOverlap.violated(fault).end();
        }

        // The end node of a touching span below becomes the free node of the granted pages.
        let (span_start, first, granted) = match below {
            Some((below_start, span)) if below_end == start => {
                nodes[span.end].set_state(NodeState::Free);
                (below_start, span.first, span.end)
            }
            _ => {
                let granted = self.insert_node(nodes, NodeState::Free, start);
                (start, granted, granted)
            }
        };
        let (next, span_end) = match self.spans.remove(&end) {
            Some(span) => (span.first, span.end),
            None => {
                let end_node = self.insert_node(nodes, NodeState::End, end);
                (end_node, end_node)
            }
        };
        nodes.link(granted, next);
        self.spans.insert(span_start, Span { first, end: span_end });
        self.owned += end - start;
        self.settle_free(nodes, granted);
    }

    pub(super) fn take_free_pages(
        &mut self,
        nodes: &mut Slab,
        pages_wanted: u32,
        run_pages_min: u32,
    ) -> Vec<PageRun> {
        let run_pages_min = run_pages_min.max(1);
        let granules_min = u64::from(run_pages_min) * self.page_granules;
        let mut missing = pages_wanted;
        let mut chosen = Vec::new();
        for range in self.bins.largest_first(nodes, granules_min).take(TAKE_RANGES_MAX) {
            if missing == 0 {
                break;
            }
            let whole = self.free_pages(nodes, range);
            if whole.pages < run_pages_min {
                continue;
            }
            let pages = missing.max(run_pages_min).min(whole.pages);
            // The rest of a range at the low end of its span stays in one piece with what is above.
            let is_first = nodes[range].prev.is_none();
            let first_page = if is_first { whole.first_page } else { whole.end() - pages };
            chosen.push((range, PageRun::new(first_page, pages)));
            missing = missing.saturating_sub(pages);
        }
        self.cut_all(nodes, chosen)
    }

    pub(super) fn take_pages(&mut self, nodes: &mut Slab, window: PageRun) -> Vec<PageRun> {
        let mut chosen = Vec::new();
        self.walk_free(nodes, window, |range| {
            if let Some(run) = self.free_pages(nodes, range).intersection(window) {
                chosen.push((range, run));
            }
        });
        self.cut_all(nodes, chosen)
    }

    /// The pages that lie wholly inside a range.
    fn free_pages(&self, nodes: &Slab, range: RangeHandle) -> PageRun {
        let start = nodes[range].granule();
        let end = start + nodes.length(range);
        // Page numbers fit, because runs of pages are the only source of spans.
        PageRun::between(
            start.div_ceil(self.page_granules) as u32,
            (end / self.page_granules) as u32,
        )
    }

    /// Cuts runs out of free ranges, each range named once. Cutting one leaves the others as they
    /// are, since two free ranges never touch.
    fn cut_all(&mut self, nodes: &mut Slab, chosen: Vec<(RangeHandle, PageRun)>) -> Vec<PageRun> {
        assert!(self.laying.is_none(), "no pages go while ranges are laid down");
        for (range, run) in &chosen {
            let start = u64::from(run.first_page) * self.page_granules;
            let end = u64::from(run.end()) * self.page_granules;
            self.cut(nodes, *range, start, end);
        }
        chosen.into_iter().map(|(_, run)| run).collect()
    }

    /// Takes the granules from `start` to `end` out of a free range, and so out of its span, which
    /// falls into the parts below and above.
    fn cut(&mut self, nodes: &mut Slab, range: RangeHandle, start: u64, end: u64) {
        let range_start = nodes[range].granule();
        let above = nodes[range].next;
        let range_end = nodes[above].granule();
        debug_assert!(range_start <= start && start < end && end <= range_end);
        self.bins.remove(nodes, range, range_end - range_start);
        let Some((span_start, span)) =
            self.spans.range(..=range_start).next_back().map(|(first, span)| (*first, *span))
        else {
            unreachable!("every range lies in a span")
        };
        self.spans.remove(&span_start);
        self.owned -= end - start;

        // Upper part: from the rest of the range, else from the next range, else nothing.
        let upper_is_empty = end == range_end && nodes[above].state() == NodeState::End;
        if end < range_end {
            let rest = self.insert_node(nodes, NodeState::Free, end);
            nodes.link(rest, above);
            self.bins.insert(nodes, rest, range_end - end);
            self.spans.insert(end, Span { first: rest, end: span.end });
        } else if !upper_is_empty {
            nodes[above].prev = RangeHandle::NONE;
            self.spans.insert(end, Span { first: above, end: span.end });
        }

        // Lower part: up to the rest of the range, else up to the range before it, else nothing.
        let lower_is_empty = start == span_start;
        if range_start < start {
            let end_node = self.insert_node(nodes, NodeState::End, start);
            nodes.link(range, end_node);
            self.bins.insert(nodes, range, start - range_start);
            self.spans.insert(span_start, Span { first: span.first, end: end_node });
        } else if !lower_is_empty {
            let node = &mut nodes[range];
            node.set_state(NodeState::End);
            node.next = RangeHandle::NONE;
            self.spans.insert(span_start, Span { first: span.first, end: range });
        }

        if lower_is_empty {
            self.remove_outer(nodes, range);
        }
        if upper_is_empty {
            self.remove_outer(nodes, above);
        }
        self.landmarks.release(start, end);
    }

    /// Removes a node that no span has any more.
    fn remove_outer(&mut self, nodes: &mut Slab, handle: RangeHandle) {
        let granule = nodes[handle].granule();
        let spans = &self.spans;
        self.landmarks.forget(handle, granule, || {
            spans.range(granule..).next().map(|(start, span)| (span.first, *start))
        });
        nodes.release(handle);
    }
}

/// Free ranges that one call for pages looks at. Each may be a miss of the cache, and together they
/// must take well under the time of a batch.
const TAKE_RANGES_MAX: usize = 256;
