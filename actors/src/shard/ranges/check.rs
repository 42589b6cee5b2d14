//! A full check of a segment's structures against each other, for tests and simulations.

use super::landmarks::block_of;
use super::node::NodeState;
use super::segment::{SegmentRanges, Span};
use super::slab::Slab;
use super::{RangeHandle, RangeState, Recency};

/// What a walk over all chains of a segment counts.
#[derive(Default)]
struct Tally {
    nodes: u64,
    free_ranges: u64,
    owned: u64,
    used: u64,
    held: u64,
    foreign: u64,
    occupied_ranges: u64,
    aliens: u64,
    alien: u64,
    listed: [u64; Recency::ALL.len()],
    listed_ranges: [u64; Recency::ALL.len()],
    landmarks: Vec<(u64, RangeHandle)>,
}

impl SegmentRanges {
    /// Says how many nodes the segment has.
    pub(super) fn check(&self, nodes: &Slab) -> Result<u64, String> {
        ensure(self.laying.is_none(), || "ranges are still being laid down".to_owned())?;
        let mut tally = Tally::default();
        let mut covered = None;
        for (start, span) in &self.spans {
            ensure(covered.is_none_or(|end| end < *start), || {
                format!("the span at {start} touches or overlaps the one below")
            })?;
            self.check_span(nodes, *start, *span, &mut tally)?;
            covered = Some(nodes[span.end].granule());
        }
        self.check_bins(nodes, tally.free_ranges)?;
        self.check_list(nodes, None, &mut tally)?;
        for recency in Recency::ALL {
            self.check_list(nodes, Some(recency), &mut tally)?;
        }
        self.check_totals(&tally)?;
        ensure(self.landmarks.all() == tally.landmarks, || {
            "landmarks differ from the first node of each block".to_owned()
        })?;
        Ok(tally.nodes + tally.aliens)
    }

    fn check_span(
        &self,
        nodes: &Slab,
        start: u64,
        span: Span,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let mut before = RangeHandle::NONE;
        let mut handle = span.first;
        let pages_are_whole = |granule: u64| granule.is_multiple_of(self.page_granules);
        ensure(nodes[handle].granule() == start && pages_are_whole(start), || {
            format!("the span at {start} begins elsewhere or inside a page")
        })?;
        loop {
            let node = &nodes[handle];
            let granule = node.granule();
            tally.nodes += 1;
            if tally.landmarks.last().is_none_or(|(block, _)| *block < block_of(granule)) {
                tally.landmarks.push((block_of(granule), handle));
            }
            ensure(node.prev == before && node.segment() == self.index, || {
                format!("the node at {granule} is linked wrongly")
            })?;
            if node.state() == NodeState::End {
                break;
            }
            ensure(!node.next.is_none() && nodes[node.next].granule() > granule, || {
                format!("the range at {granule} has no length")
            })?;
            self.check_range(nodes, handle, before, tally)?;
            before = handle;
            handle = node.next;
        }
        let end = nodes[handle].granule();
        tally.owned += end - start;
        ensure(handle == span.end && nodes[handle].next.is_none() && pages_are_whole(end), || {
            format!("the span at {start} ends wrongly at {end}")
        })
    }

    fn check_range(
        &self,
        nodes: &Slab,
        handle: RangeHandle,
        before: RangeHandle,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let state = nodes[handle].state();
        let granule = nodes[handle].granule();
        let length = nodes.length(handle);
        if state.is_occupied() {
            tally.occupied_ranges += 1;
            ensure(granule >= self.occupied_from, || {
                format!("a sweep would overlook the range at {granule}")
            })?;
        }
        match state.range_state() {
            None => return Err(format!("the node at {granule} is {state:?}")),
            Some(_) if state.is_alien() => {
                return Err(format!("the range at {granule} of a span is alien"));
            }
            Some(RangeState::Held) => tally.held += length,
            Some(RangeState::Foreign) => tally.foreign += length,
            Some(RangeState::Used) => {
                tally.used += length;
                if let Some(recency) = state.listed() {
                    tally.listed[recency as usize] += length;
                    tally.listed_ranges[recency as usize] += 1;
                }
            }
            Some(RangeState::Free) => {
                tally.free_ranges += 1;
                ensure(before.is_none() || nodes[before].state() != NodeState::Free, || {
                    format!("the free range at {granule} touches a free one")
                })?;
            }
        }
        let is_linked = !nodes[handle].list_prev.is_none() || !nodes[handle].list_next.is_none();
        let may_be_linked = state == NodeState::Free || state.listed().is_some();
        ensure(may_be_linked || !is_linked, || {
            format!("the {state:?} range at {granule} is in a list")
        })
    }

    fn check_totals(&self, tally: &Tally) -> Result<(), String> {
        let totals = [
            ("owned", self.owned, tally.owned),
            ("used", self.used, tally.used),
            ("held", self.held, tally.held),
            ("foreign", self.foreign, tally.foreign),
            ("occupied ranges", self.occupied_ranges, tally.occupied_ranges),
            ("aliens", self.alien_ranges, tally.aliens),
            ("alien", self.alien, tally.alien),
        ];
        for (name, kept, counted) in totals {
            ensure(kept == counted, || format!("{name}: {kept} kept, {counted} counted"))?;
        }
        Ok(())
    }

    fn check_bins(&self, nodes: &Slab, free_ranges: u64) -> Result<(), String> {
        ensure(self.bins.bitmap_is_right(), || "the bitmap of bins is wrong".to_owned())?;
        let mut binned = 0;
        for (first, last, ranges) in self.bins.contents(nodes) {
            let mut before = RangeHandle::NONE;
            for handle in ranges {
                binned += 1;
                let node = &nodes[handle];
                let fits = node.state() == NodeState::Free
                    && node.segment() == self.index
                    && (first..=last).contains(&nodes.length(handle));
                ensure(fits && node.list_prev == before && binned <= free_ranges, || {
                    format!("the range at {} is wrong in bin {first}..={last}", node.granule())
                })?;
                before = handle;
            }
        }
        ensure(binned == free_ranges, || format!("{free_ranges} free ranges, {binned} in bins"))
    }

    /// Checks a recency list, or the list of the aliens that are in none, and counts its aliens.
    fn check_list(
        &self,
        nodes: &Slab,
        recency: Option<Recency>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let (list, own_ranges, own_granules) = match recency {
            Some(recency) => {
                let (ranges, granules) = (tally.listed_ranges, tally.listed);
                (self.list(recency), ranges[recency as usize], granules[recency as usize])
            }
            None => (&self.unlisted_aliens, 0, 0),
        };
        let alien_before = tally.alien;
        let mut own = 0;
        let mut before = RangeHandle::NONE;
        let mut rest = list.oldest;
        while !rest.is_none() {
            let node = &nodes[rest];
            let state = node.state();
            let belongs = state.is_used()
                && state.listed() == recency
                && node.segment() == self.index
                && node.list_prev == before;
            // Without a bound a list in a circle would never end.
            ensure(belongs && own <= own_ranges && tally.aliens <= self.alien_ranges, || {
                format!("the range at {} is wrong in list {recency:?}", node.granule())
            })?;
            if state.is_alien() {
                tally.aliens += 1;
                tally.alien += node.alien_granules();
            } else {
                own += 1;
            }
            before = rest;
            rest = node.list_next;
        }
        let counted = own_granules + tally.alien - alien_before;
        ensure(list.newest == before && own == own_ranges && list.granules == counted, || {
            let kept = list.granules;
            format!("list {recency:?}: {own} of {own_ranges} ranges, {kept} of {counted} granules")
        })
    }
}

fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
