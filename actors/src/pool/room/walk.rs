//! The way a search takes through a segment: regions of bounded size, from a hand on and around.

use crate::pages::PageRun;

/// Gives the regions of a segment in which windows are looked for.
#[derive(Debug)]
pub(super) struct Walk {
    /// Pages of the segment.
    pages: u32,
    /// Pages of a window.
    need: u32,
    chunk_pages: u32,
    /// Where it started.
    hand: u32,
    /// Where the next region starts.
    cursor: u32,
    /// It has come to the end of the segment and gone on from the start.
    wrapped: bool,
    /// How long the next region is.
    region_pages: u32,
    /// How many more regions there may be.
    regions_left: u32,
}

impl Walk {
    /// A walk that starts at `hand` and looks for windows of `need` pages, at least one and at
    /// most all, in at most `regions_max` regions.
    pub(super) fn new(pages: u32, need: u32, hand: u32, regions_max: u32) -> Walk {
        let chunk_pages = (need / CHUNKS_PER_WINDOW).max(1);
        let hand = if hand > pages - need { 0 } else { hand };
        Walk {
            pages,
            need,
            chunk_pages,
            hand,
            cursor: hand,
            wrapped: false,
            region_pages: need.saturating_mul(WINDOWS_PER_REGION).max(REGION_PAGES_MIN),
            regions_left: regions_max,
        }
    }

    /// How many pages a chunk has.
    pub(super) fn chunk_pages(&self) -> u32 {
        self.chunk_pages
    }

    /// The next region; every window that starts at one of its chunks is in one region. Regions
    /// get longer as the search goes on without success.
    pub(super) fn next_region(&mut self) -> Option<PageRun> {
        if self.regions_left == 0 {
            return None;
        }
        // Windows that start below the hand may reach beyond it.
        let mut end =
            if self.wrapped { (self.hand + self.need - 1).min(self.pages) } else { self.pages };
        if self.cursor > end || end - self.cursor < self.need {
            if self.wrapped || self.hand == 0 {
                return None;
            }
            self.wrapped = true;
            self.cursor = 0;
            end = (self.hand + self.need - 1).min(self.pages);
        }
        self.regions_left -= 1;
        let longest = CHUNKS_MAX.saturating_mul(self.chunk_pages).max(self.need);
        let pages = self.region_pages.min(longest).min(end - self.cursor);
        let region = PageRun::new(self.cursor, pages);
        let starts = (pages - self.need) / self.chunk_pages + 1;
        self.cursor += starts * self.chunk_pages;
        self.region_pages = self.region_pages.saturating_mul(2);
        Some(region)
    }
}

/// A window is placed to an eighth of its length: finer would find little more and cost each shard
/// a longer answer.
const CHUNKS_PER_WINDOW: u32 = 8;

/// Enough windows side by side that a cheap one is among them.
const WINDOWS_PER_REGION: u32 = 16;

/// 64 MiB with large pages: less is not worth a round of messages.
const REGION_PAGES_MIN: u32 = 1_024;

/// Bounds the work of one survey and the length of its answer.
const CHUNKS_MAX: u32 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_offers_every_chunk_that_a_window_can_start_at() {
        for (pages, need, hand) in
            [(50_000, 24, 31_000), (10, 10, 3), (3_000, 700, 2_999), (1, 1, 0)]
        {
            let mut walk = Walk::new(pages, need, hand, u32::MAX);
            let mut starts = vec![false; pages as usize];
            while let Some(region) = walk.next_region() {
                assert!(region.pages >= need && region.end() <= pages, "{region:?}");
                let mut start = region.first_page;
                while start + need <= region.end() {
                    starts[start as usize] = true;
                    start += walk.chunk_pages();
                }
            }
            let chunk_pages = walk.chunk_pages() as usize;
            let gap =
                starts[..=(pages - need) as usize].split(|&start| start).map(<[bool]>::len).max();
            assert!(gap < Some(chunk_pages), "a gap of {gap:?} with chunks of {chunk_pages}");
        }
    }

    #[test]
    fn a_walk_ends_after_its_last_region() {
        let mut walk = Walk::new(100_000, 1, 0, 2);
        assert!(walk.next_region().is_some());
        assert!(walk.next_region().is_some());
        assert_eq!(walk.next_region(), None);
    }
}
