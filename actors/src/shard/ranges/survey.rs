//! Going past all ranges of a segment, as fast as the memory allows.
//!
//! A node tells where the next one is, so a walk waits for the memory at each of them. Several walks,
//! each over a stretch of its own and all of them a step at a time, wait for many nodes at once.

use std::ops::ControlFlow;

use super::landmarks::BLOCK_GRANULES;
use super::node::{Node, NodeState};
use super::segment::SegmentRanges;
use super::slab::Slab;
use super::{GRANULE_BYTES, RangeHandle, RangeState, Ranges, SegmentIndex};
use crate::shard::prefetch::prefetch;

/// An occupied range, and what its node says, so that nobody has to look there again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Which.
    pub(crate) range: RangeHandle,
    /// What it is: used, held or foreign.
    pub(crate) state: RangeState,
    /// The number that its owner gave it.
    pub(crate) owner: u32,
    /// The next range of the same object.
    pub(crate) sibling: RangeHandle,
    /// Where it begins in its segment.
    pub(crate) offset_bytes: u64,
}

impl Ranges {
    /// Visits the occupied ranges of own spans, many at a time, in order of offset, until `visit`
    /// breaks off. It doesn't come to alien ranges.
    pub(crate) fn survey(
        &self,
        segment: SegmentIndex,
        visit: impl FnMut(&[Passed]) -> ControlFlow<()>,
    ) {
        if let Some(own) = self.open(segment) {
            // What `visit` broke off for is its own affair.
            let _ = own.survey(&self.nodes, visit);
        }
    }

    /// An occupied range, an alien one too, as a survey would show it.
    pub(crate) fn passed(&self, range: RangeHandle) -> Passed {
        Passed::new(range, self.state(range), self.occupied(range))
    }
}

impl Passed {
    fn new(range: RangeHandle, state: RangeState, node: &Node) -> Passed {
        Passed {
            range,
            state,
            owner: node.owner,
            sibling: node.sibling,
            offset_bytes: node.granule() * GRANULE_BYTES,
        }
    }
}

impl SegmentRanges {
    fn survey(
        &self,
        nodes: &Slab,
        mut visit: impl FnMut(&[Passed]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (Some((&first, _)), Some((_, last))) =
            (self.spans.first_key_value(), self.spans.last_key_value())
        else {
            return ControlFlow::Continue(());
        };
        let end = nodes[last.end].granule();
        // Stretches are whole blocks, whose first nodes are known.
        let mut start = first - first % BLOCK_GRANULES;
        let mut stretch_granules = BLOCK_GRANULES;
        let mut lanes: [Lane; LANES] = std::array::from_fn(|_| Lane::new());
        while start < end {
            for lane in &mut lanes {
                lane.begin(self, nodes, start, start + stretch_granules);
                start += stretch_granules;
            }
            while lanes.iter_mut().fold(false, |moved, lane| moved | lane.step(self, nodes)) {}
            let mut passed = 0;
            for lane in &mut lanes {
                passed += lane.hand_over(self, nodes, &mut visit)?;
            }
            stretch_granules = if passed < LANES * RANGES_WANTED / 2 {
                (stretch_granules * 2).min(STRETCH_GRANULES_MAX)
            } else if passed > LANES * RANGES_WANTED {
                (stretch_granules / 2).max(BLOCK_GRANULES)
            } else {
                stretch_granules
            };
        }
        ControlFlow::Continue(())
    }

    /// The first node that begins at or above the start of a block.
    fn first_beginning_at(&self, nodes: &Slab, block_start: u64) -> Option<RangeHandle> {
        self.landmarks.at(block_start).or_else(|| {
            let around = self.at_or_after(nodes, block_start)?;
            let begins_below = nodes[around].granule() < block_start;
            if begins_below { self.following(nodes, around) } else { Some(around) }
        })
    }

    fn following(&self, nodes: &Slab, handle: RangeHandle) -> Option<RangeHandle> {
        let node = &nodes[handle];
        match node.state() {
            NodeState::End => self.first_from(node.granule()),
            _ => node.next.some(),
        }
    }
}

/// The walk over one stretch.
struct Lane {
    /// `None` at its end.
    next: Option<RangeHandle>,
    end: u64,
    passed: Vec<Passed>,
}

impl Lane {
    fn new() -> Lane {
        Lane { next: None, end: 0, passed: Vec::with_capacity(RANGES_WANTED) }
    }

    fn begin(&mut self, own: &SegmentRanges, nodes: &Slab, start: u64, end: u64) {
        self.next = own.first_beginning_at(nodes, start);
        self.end = end;
        if let Some(next) = self.next {
            prefetch(&nodes[next]);
        }
    }

    /// Goes past one node, unless the stretch is over or too much is kept already.
    #[inline]
    fn step(&mut self, own: &SegmentRanges, nodes: &Slab) -> bool {
        let Some(handle) = self.next.filter(|_| self.passed.len() < RANGES_KEPT_MAX) else {
            return false;
        };
        let node = &nodes[handle];
        if node.granule() >= self.end {
            self.next = None;
            return false;
        }
        if let Some(state) = node.state().range_state().filter(|state| *state != RangeState::Free) {
            self.passed.push(Passed::new(handle, state, node));
        }
        self.next = own.following(nodes, handle);
        if let Some(next) = self.next {
            prefetch(&nodes[next]);
        }
        true
    }

    /// Shows what was passed, and the rest of the stretch; gives the number of its ranges.
    fn hand_over(
        &mut self,
        own: &SegmentRanges,
        nodes: &Slab,
        visit: &mut impl FnMut(&[Passed]) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        let mut total = 0;
        loop {
            total += self.passed.len();
            if !self.passed.is_empty() {
                visit(&self.passed)?;
            }
            self.passed.clear();
            if self.next.is_none() {
                return ControlFlow::Continue(total);
            }
            while self.step(own, nodes) {}
        }
    }
}

/// About as many cache lines as a processor can have on their way at once.
const LANES: usize = 10;

/// Ranges in a stretch: enough to make beginning one cheap, few enough for all lanes to stay in the
/// second cache.
const RANGES_WANTED: usize = 512;

/// More are not kept of a stretch in which the ranges are much closer than in those before.
const RANGES_KEPT_MAX: usize = 4 * RANGES_WANTED;

/// An empty stretch grows so far: a sixteenth of the largest segment.
const STRETCH_GRANULES_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PageRun;

    const SEGMENT: SegmentIndex = SegmentIndex(1);
    const PAGE: u64 = 64 << 10;

    fn offsets(ranges: &Ranges) -> Vec<u64> {
        let mut offsets = Vec::new();
        ranges.survey(SEGMENT, |passed| {
            offsets.extend(passed.iter().map(|range| range.offset_bytes));
            ControlFlow::Continue(())
        });
        offsets
    }

    #[test]
    fn a_survey_comes_to_each_range_once_however_close_or_far_they_are() {
        let mut ranges = Ranges::new();
        ranges.open_segment(SEGMENT, PAGE as u32);
        // Room for large ranges that lie far apart, and for small ones that lie as close as they can.
        let runs = [(3, 200_000), (1 << 28, 128), ((1 << 28) + 129, 1), (u32::MAX - 9, 8)];
        for (first_page, pages) in runs {
            ranges.grant(SEGMENT, PageRun::new(first_page, pages));
        }
        let mut expected = Vec::new();
        for size_bytes in [64, 100, PAGE * 32, PAGE * 5, PAGE] {
            for number in 0..30_000 {
                let Some(range) = ranges.allocate(SEGMENT, size_bytes, number) else { break };
                expected.push(ranges.offset_bytes(range));
            }
        }
        expected.sort_unstable();
        assert!(expected.len() > 60_000, "{}", expected.len());
        assert_eq!(offsets(&ranges), expected);
    }

    #[test]
    fn a_survey_ends_where_its_visitor_breaks_off() {
        let mut ranges = Ranges::new();
        ranges.open_segment(SEGMENT, PAGE as u32);
        ranges.grant(SEGMENT, PageRun::new(0, 1000));
        while ranges.allocate(SEGMENT, PAGE / 4, 0).is_some() {}
        let mut visits = 0;
        ranges.survey(SEGMENT, |_| {
            visits += 1;
            ControlFlow::Break(())
        });
        assert_eq!(visits, 1);
        ranges.survey(SegmentIndex(0), |_| panic!("that segment isn't open"));
    }

    #[test]
    fn what_is_passed_is_what_the_range_says_of_itself() {
        let mut ranges = Ranges::new();
        ranges.open_segment(SEGMENT, PAGE as u32);
        ranges.grant(SEGMENT, PageRun::new(7, 1));
        let [used, held, freed] =
            [1, 2, 3].map(|owner| ranges.allocate(SEGMENT, 64, owner).expect("there is room"));
        ranges.set_sibling(used, held);
        ranges.hold(held, 9);
        ranges.free(freed);
        let mut found = Vec::new();
        ranges.survey(SEGMENT, |passed| {
            found.extend_from_slice(passed);
            ControlFlow::Continue(())
        });
        found.sort_unstable_by_key(|passed| passed.owner);
        assert_eq!(found, [ranges.passed(used), ranges.passed(held)]);
        let [first, second] = found[..] else { panic!("two ranges are occupied") };
        assert_eq!((first.state, first.owner, first.sibling), (RangeState::Used, 1, held));
        assert_eq!((second.state, second.owner), (RangeState::Held, 9));
        assert_eq!(first.offset_bytes, ranges.offset_bytes(used));
    }
}
