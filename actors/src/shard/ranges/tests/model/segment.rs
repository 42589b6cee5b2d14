//! A naive model of one segment: a set of pages, and maps of intervals.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::{RangeHandle, RangeState, Recency};
use crate::pages::PageRun;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelRange {
    pub(super) length_bytes: u64,
    pub(super) handle: RangeHandle,
    pub(super) state: RangeState,
    pub(super) owner: u32,
    pub(super) sibling: RangeHandle,
    pub(super) is_alien: bool,
}

#[derive(Default)]
pub(super) struct ModelSegment {
    pub(super) page_bytes: u64,
    pub(super) pages: BTreeSet<u32>,
    /// By offset.
    pub(super) ranges: BTreeMap<u64, ModelRange>,
    pub(super) aliens: BTreeMap<u64, ModelRange>,
    /// Oldest first.
    pub(super) lists: [Vec<RangeHandle>; Recency::ALL.len()],
    /// How many at the front of each list were restored.
    pub(super) restored: [usize; Recency::ALL.len()],
}

impl ModelRange {
    /// An own range without a sibling.
    pub(super) fn new(
        length_bytes: u64,
        handle: RangeHandle,
        state: RangeState,
        owner: u32,
    ) -> ModelRange {
        let (sibling, is_alien) = (RangeHandle::NONE, false);
        ModelRange { length_bytes, handle, state, owner, sibling, is_alien }
    }
}

impl ModelSegment {
    pub(super) fn new(page_bytes: u32) -> ModelSegment {
        ModelSegment { page_bytes: u64::from(page_bytes), ..ModelSegment::default() }
    }

    /// Own and alien ranges with their offsets.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &ModelRange)> {
        self.ranges.iter().chain(&self.aliens).map(|(offset, range)| (*offset, range))
    }

    /// The ranges among which one that is alien, or not, is kept.
    pub(super) fn kept(&mut self, is_alien: bool) -> &mut BTreeMap<u64, ModelRange> {
        if is_alien { &mut self.aliens } else { &mut self.ranges }
    }

    /// Adds the pages that a stretch touches.
    pub(super) fn touch(&mut self, offset_bytes: u64, length_bytes: u64) {
        let first = offset_bytes / self.page_bytes;
        let end = (offset_bytes + length_bytes).div_ceil(self.page_bytes);
        self.pages.extend((first..end).map(|page| page as u32));
    }

    /// Start and length of each free stretch, in bytes, in order.
    pub(super) fn free(&self) -> Vec<(u64, u64)> {
        let mut stretches = Vec::new();
        for span in runs(self.pages.iter().copied()) {
            let mut start = u64::from(span.first_page) * self.page_bytes;
            let end = u64::from(span.end()) * self.page_bytes;
            for (offset, range) in self.ranges.range(start..end) {
                stretches.push((start, offset - start));
                start = offset + range.length_bytes;
            }
            stretches.push((start, end - start));
        }
        stretches.retain(|(_, length)| *length > 0);
        stretches
    }

    pub(super) fn largest_free(&self) -> u64 {
        self.free().into_iter().map(|(_, length)| length).max().unwrap_or(0)
    }

    /// The pages that are wholly free.
    pub(super) fn free_pages(&self) -> impl Iterator<Item = u32> + use<> {
        let page_bytes = self.page_bytes;
        self.free().into_iter().flat_map(move |(start, length)| {
            (start.div_ceil(page_bytes)..(start + length) / page_bytes).map(|page| page as u32)
        })
    }

    pub(super) fn give(&mut self, given: &[PageRun]) {
        self.pages.retain(|page| !given.iter().any(|run| run.contains_page(*page)));
    }

    pub(super) fn unlist(&mut self, handle: RangeHandle) {
        for (list, restored) in self.lists.iter_mut().zip(&mut self.restored) {
            *restored -= usize::from(list[..*restored].contains(&handle));
            list.retain(|listed| *listed != handle);
        }
    }

    pub(super) fn bytes_in(&self, state: RangeState) -> u64 {
        let ranges = self.ranges.values().filter(|range| range.state == state);
        ranges.map(|range| range.length_bytes).sum()
    }
}

/// Ascending pages as maximal runs.
pub(super) fn runs(pages: impl Iterator<Item = u32>) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(last) if last.end() == page => last.pages += 1,
            _ => runs.push(PageRun::new(page, 1)),
        }
    }
    runs
}
