//! One survey: what it would cost to vacate each part of a window, and where it is cheapest.

use std::collections::BTreeSet;

use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::ChunkCost;
use crate::route::ShardId;

/// The sums over all shards for the chunks of a surveyed region.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) number: u64,
    /// The pages that are surveyed.
    pub(super) region: PageRun,
    pub(super) chunk_pages: u32,
    /// Who has not answered yet.
    pub(super) awaiting: BTreeSet<ShardId>,
    chunks: Vec<ChunkSum>,
    /// When the first thing that can't move now may move, of those with an end.
    earliest_unblocked: Option<Moment>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ChunkSum {
    cost: u64,
    blocked: bool,
}

impl Survey {
    /// A survey of a region with nothing found yet.
    pub(super) fn new(number: u64, region: PageRun, chunk_pages: u32) -> Survey {
        let chunks = region.pages.div_ceil(chunk_pages) as usize;
        Survey {
            number,
            region,
            chunk_pages,
            awaiting: BTreeSet::new(),
            chunks: vec![ChunkSum::default(); chunks],
            earliest_unblocked: None,
        }
    }

    /// When the first thing that can't move now may move.
    pub(super) fn earliest_unblocked(&self) -> Option<Moment> {
        self.earliest_unblocked
    }

    /// Adds what one shard found.
    pub(super) fn add(&mut self, now: Moment, found: &[ChunkCost]) {
        for (chunk, found) in self.chunks.iter_mut().zip(found) {
            chunk.cost = chunk.cost.saturating_add(weighed_cost(now, found));
            if let Some(until) = found.blocked_until.filter(|&until| until > now) {
                chunk.blocked = true;
                note_unblocked(&mut self.earliest_unblocked, until);
            }
        }
    }

    /// Pages in the region can't be used before that moment.
    pub(super) fn block_until(&mut self, run: PageRun, until: Moment) {
        self.block(run);
        note_unblocked(&mut self.earliest_unblocked, until);
    }

    /// Pages in the region can't be used.
    pub(super) fn block(&mut self, run: PageRun) {
        self.each_chunk_of(run, |chunk, _| chunk.blocked = true);
    }

    /// Pages in the region are free by now.
    pub(super) fn clear(&mut self, run: PageRun) {
        self.each_chunk_of(run, |chunk, whole| {
            if whole {
                chunk.cost = 0;
            }
        });
    }

    /// The cheapest window of at least `pages` pages in which nothing is blocked. It is made up to
    /// `pages_wanted` long while that costs nothing that is dearer than the window itself.
    pub(super) fn cheapest(&self, pages: u32, pages_wanted: u32) -> Option<PageRun> {
        let (first, cost) = self.cheapest_start(pages)?;
        let first_page = self.region.first_page + first as u32 * self.chunk_pages;
        let mut window = PageRun::new(first_page, pages);
        let chunks = pages.div_ceil(self.chunk_pages) as usize;
        let dearest = cost.div_ceil(chunks as u64);
        for chunk in &self.chunks[first + chunks..] {
            if window.pages >= pages_wanted || chunk.blocked || chunk.cost > dearest {
                break;
            }
            let end = (window.end() + self.chunk_pages).min(self.region.end());
            window = PageRun::between(first_page, end);
        }
        Some(window)
    }

    /// The first chunk of the cheapest window, and its cost.
    fn cheapest_start(&self, pages: u32) -> Option<(usize, u64)> {
        let spare = self.region.pages.checked_sub(pages)?;
        let starts = (spare / self.chunk_pages) as usize + 1;
        let length = pages.div_ceil(self.chunk_pages) as usize;
        let mut blocked = 0;
        let mut cost: u64 = 0;
        let mut best: Option<(usize, u64)> = None;
        for (index, chunk) in self.chunks.iter().enumerate() {
            blocked += usize::from(chunk.blocked);
            cost = cost.saturating_add(chunk.cost);
            if let Some(gone) = index.checked_sub(length) {
                blocked -= usize::from(self.chunks[gone].blocked);
                cost = cost.saturating_sub(self.chunks[gone].cost);
            }
            let Some(start) = (index + 1).checked_sub(length) else { continue };
            if start < starts && blocked == 0 && best.is_none_or(|(_, least)| cost < least) {
                best = Some((start, cost));
            }
        }
        best
    }

    /// Visits the chunks that a run touches; with whether the run covers all of the chunk.
    fn each_chunk_of(&mut self, run: PageRun, mut visit: impl FnMut(&mut ChunkSum, bool)) {
        let Some(run) = run.intersection(self.region) else { return };
        let origin = self.region.first_page;
        let first = (run.first_page - origin) / self.chunk_pages;
        let last = (run.end() - 1 - origin) / self.chunk_pages;
        for index in first..=last {
            let start = origin + index * self.chunk_pages;
            let end = (start + self.chunk_pages).min(self.region.end());
            visit(&mut self.chunks[index as usize], run.contains(PageRun::between(start, end)));
        }
    }
}

fn note_unblocked(earliest: &mut Option<Moment>, until: Moment) {
    if until.as_ms() < u64::MAX && earliest.is_none_or(|earlier| until < earlier) {
        *earliest = Some(until);
    }
}

/// The bytes to evict, weighed by how lately they were used: just now counts nine times, a second
/// ago five times, and an hour ago once.
fn weighed_cost(now: Moment, found: &ChunkCost) -> u64 {
    let age_ms = u128::from(now.since_ms(found.newest_access));
    let bytes = u128::from(found.evict_bytes);
    let extra = bytes * u128::from(FRESH_WEIGHT) * FRESH_MS / (FRESH_MS + age_ms);
    u64::try_from(bytes + extra).unwrap_or(u64::MAX)
}

/// How many times dearer than old bytes those are that were used just now: a window that readers
/// are at work in is chosen only if every other one is far larger.
const FRESH_WEIGHT: u64 = 8;

/// The age at which half of that is left.
const FRESH_MS: u128 = 1_000;
