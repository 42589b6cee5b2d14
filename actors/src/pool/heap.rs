//! The page heap of one segment: who owns each run of pages.
//!
//! A segment can have a billion pages, so nothing is kept for each page. One ordered map of runs
//! covers the segment without gap or overlap, neighbours of one owner are one run, and so every
//! page has exactly one owner by construction.

use std::collections::{BTreeMap, BTreeSet};

use crate::invariant::Invariant;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::route::ShardId;

/// Who owns a run of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageOwner {
    /// The pool; free to be granted.
    Pool,
    /// The pool, for a window that is being vacated; not granted to anyone else.
    Reserved,
    /// The pool, but somebody may still write or read here until then.
    Withheld {
        /// The end of it.
        until: Moment,
    },
    /// A shard.
    Shard(ShardId),
}

/// The pages of one segment.
#[derive(Debug)]
pub(super) struct PageHeap {
    pages: u32,
    /// By first page: how many pages, and whose.
    runs: BTreeMap<u32, (u32, PageOwner)>,
    /// The runs of `Pool` as (pages, first page).
    free_by_length: BTreeSet<(u32, u32)>,
    /// The runs of `Withheld` as (until, first page).
    withheld: BTreeSet<(Moment, u32)>,
    free_pages: u32,
    /// By shard: pages that it owns.
    shard_pages: Vec<u32>,
    /// By shard: where its last grant ended.
    last_grant_end: Vec<u32>,
}

impl PageHeap {
    /// A heap of this many free pages, at least one, for this many shards.
    pub(super) fn new(pages: u32, shards: u16) -> PageHeap {
        let mut heap = PageHeap {
            pages,
            runs: BTreeMap::new(),
            free_by_length: BTreeSet::new(),
            withheld: BTreeSet::new(),
            free_pages: 0,
            shard_pages: vec![0; usize::from(shards)],
            last_grant_end: vec![0; usize::from(shards)],
        };
        heap.insert(PageRun::new(0, pages), PageOwner::Pool);
        heap
    }

    /// All pages.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages that can be granted.
    pub(super) fn free_pages(&self) -> u32 {
        self.free_pages
    }

    /// Pages in the longest run that can be granted.
    pub(super) fn longest_free_pages(&self) -> u32 {
        self.free_by_length.last().map_or(0, |&(pages, _)| pages)
    }

    /// Runs of pages that belong to shards; those that are being vacated count with them.
    pub(super) fn spans(&self) -> u64 {
        (self.runs.len() - self.free_by_length.len() - self.withheld.len()) as u64
    }

    /// Pages of one shard.
    pub(super) fn shard_pages(&self, shard: ShardId) -> u32 {
        self.shard_pages[usize::from(shard.0)]
    }

    /// Gives a shard one run of at least `pages_min` pages, or nothing if no run is that long.
    ///
    /// The run is a fixed part of what is free, shared by all shards: large while the segment is
    /// empty, down to the bare need when it is nearly full.
    pub(super) fn grant(&mut self, shard: ShardId, pages_min: u32) -> Option<PageRun> {
        let longest = self.longest_free_pages();
        if longest < pages_min {
            return None;
        }
        let shards = self.shard_pages.len() as u32;
        let wanted = (self.free_pages / (GRANTS_PER_SHARD * shards)).clamp(pages_min, longest);
        let free = self
            .free_after_last_grant(shard)
            .filter(|free| free.pages >= pages_min)
            .or_else(|| self.best_fit(wanted))?;
        let run = PageRun::new(free.first_page, free.pages.min(wanted));
        self.give(shard, run);
        Some(run)
    }

    /// Gives a shard exactly this run, which belongs to the pool.
    pub(super) fn give(&mut self, shard: ShardId, run: PageRun) {
        self.assign(run, PageOwner::Shard(shard));
        self.last_grant_end[usize::from(shard.0)] = run.end();
    }

    /// Gives a shard exactly this run, if the segment has it and every page of it is free.
    pub(super) fn claim(&mut self, shard: ShardId, run: PageRun) -> bool {
        let inside = run.first_page.checked_add(run.pages).is_some_and(|end| end <= self.pages);
        let free = inside
            && self
                .run_at(run.first_page)
                .is_some_and(|(free, owner)| owner == PageOwner::Pool && free.contains(run));
        if free {
            self.give(shard, run);
        }
        free
    }

    /// Takes a run back from a shard.
    ///
    /// # Panics
    /// If the shard does not own every page of it. Two owners of one page end in wrong bytes, so
    /// the process must not go on.
    pub(super) fn take_back(&mut self, shard: ShardId, run: PageRun) {
        if run.is_empty() {
            return;
        }
        let owned = self
            .run_at(run.first_page)
            .is_some_and(|(owned, owner)| owner == PageOwner::Shard(shard) && owned.contains(run));
        if !owned {
            let fault = format!("{shard:?} returned {run:?}, which it does not own");
            Invariant::OneOwner.violated(fault).end();
        }
        self.assign(run, PageOwner::Pool);
    }

    /// Keeps free pages of a window for a room job. Pages of other owners stay as they are.
    pub(super) fn reserve(&mut self, window: PageRun) {
        self.reassign(window, PageOwner::Pool, PageOwner::Reserved);
    }

    /// Ends the reservation of a window.
    pub(super) fn release(&mut self, window: PageRun) {
        self.reassign(window, PageOwner::Reserved, PageOwner::Pool);
    }

    /// Keeps pages of the pool from being granted until then. Pages that are withheld for longer
    /// already stay so, and pages of shards stay theirs.
    pub(super) fn withhold(&mut self, window: PageRun, until: Moment) {
        for (run, owner) in self.runs_in(window) {
            let shorter = match owner {
                PageOwner::Pool => true,
                PageOwner::Withheld { until: earlier } => earlier < until,
                PageOwner::Reserved | PageOwner::Shard(_) => false,
            };
            if shorter {
                self.assign(run, PageOwner::Withheld { until });
            }
        }
    }

    /// Frees what is withheld no longer.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(&(until, first_page)) = self.withheld.first()
            && until <= now
        {
            let (pages, _) = self.runs[&first_page];
            self.assign(PageRun::new(first_page, pages), PageOwner::Pool);
        }
    }

    /// When `expire` will next free something.
    pub(super) fn next_expiry(&self) -> Option<Moment> {
        self.withheld.first().map(|&(until, _)| until)
    }

    /// The runs in a window with their owners, in order, cut to the window.
    pub(super) fn runs_in(&self, window: PageRun) -> Vec<(PageRun, PageOwner)> {
        let from =
            self.run_at(window.first_page).map_or(window.first_page, |(run, _)| run.first_page);
        self.runs
            .range(from..window.end().max(from))
            .filter_map(|(&first_page, &(pages, owner))| {
                let cut = PageRun::new(first_page, pages).intersection(window)?;
                Some((cut, owner))
            })
            .collect()
    }

    /// The longest part of a window that is reserved.
    pub(super) fn longest_reserved_in(&self, window: PageRun) -> Option<PageRun> {
        self.runs_in(window)
            .into_iter()
            .filter(|&(_, owner)| owner == PageOwner::Reserved)
            .map(|(run, _)| run)
            .max_by_key(|run| run.pages)
    }

    /// Whether the runs cover the segment once and every index and total agrees with them.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut next_page = 0;
        let mut before = None;
        let mut free_pages = 0;
        let mut shard_pages = vec![0; self.shard_pages.len()];
        let mut free_by_length = BTreeSet::new();
        let mut withheld = BTreeSet::new();
        for (&first_page, &(pages, owner)) in &self.runs {
            if first_page != next_page || pages == 0 {
                return Err(format!("the runs have a gap or an overlap at page {first_page}"));
            }
            if before == Some(owner) {
                return Err(format!("two runs of {owner:?} meet unmerged at page {first_page}"));
            }
            match owner {
                PageOwner::Pool => {
                    free_pages += pages;
                    free_by_length.insert((pages, first_page));
                }
                PageOwner::Withheld { until } => {
                    withheld.insert((until, first_page));
                }
                PageOwner::Shard(shard) => shard_pages[usize::from(shard.0)] += pages,
                PageOwner::Reserved => {}
            }
            before = Some(owner);
            next_page = first_page + pages;
        }
        if next_page != self.pages {
            return Err(format!("the runs end at page {next_page} of {}", self.pages));
        }
        if free_pages != self.free_pages || free_by_length != self.free_by_length {
            return Err("the free runs are not those of the index".to_owned());
        }
        if withheld != self.withheld || shard_pages != self.shard_pages {
            return Err("the withheld runs or the shards' totals are wrong".to_owned());
        }
        Ok(())
    }

    /// The free run right after the shard's last grant, so that the two become one span.
    fn free_after_last_grant(&self, shard: ShardId) -> Option<PageRun> {
        let end = self.last_grant_end[usize::from(shard.0)];
        let (own, owner) = self.run_at(end.checked_sub(1)?)?;
        if owner != PageOwner::Shard(shard) {
            return None;
        }
        let (free, owner) = self.run_at(own.end())?;
        (owner == PageOwner::Pool).then_some(free)
    }

    /// The shortest free run of at least this length, else the longest.
    fn best_fit(&self, pages: u32) -> Option<PageRun> {
        let fit = self.free_by_length.range((pages, 0)..).next();
        let &(pages, first_page) = fit.or_else(|| self.free_by_length.last())?;
        Some(PageRun::new(first_page, pages))
    }

    /// The run that contains a page.
    fn run_at(&self, page: u32) -> Option<(PageRun, PageOwner)> {
        let (&first_page, &(pages, owner)) = self.runs.range(..=page).next_back()?;
        let run = PageRun::new(first_page, pages);
        run.contains_page(page).then_some((run, owner))
    }

    fn reassign(&mut self, window: PageRun, from: PageOwner, to: PageOwner) {
        for (run, owner) in self.runs_in(window) {
            if owner == from {
                self.assign(run, to);
            }
        }
    }

    /// Makes `owner` the owner of a run, whoever owned its pages before.
    fn assign(&mut self, run: PageRun, owner: PageOwner) {
        self.cut(run.first_page);
        self.cut(run.end());
        while let Some((&first_page, _)) = self.runs.range(run.first_page..run.end()).next() {
            self.remove(first_page);
        }
        let mut merged = run;
        if let Some((&first_page, &(_, left))) = self.runs.range(..run.first_page).next_back()
            && left == owner
        {
            self.remove(first_page);
            merged = PageRun::between(first_page, merged.end());
        }
        if let Some(&(pages, right)) = self.runs.get(&run.end())
            && right == owner
        {
            self.remove(run.end());
            merged.pages += pages;
        }
        self.insert(merged, owner);
    }

    /// Splits the run that crosses the front of this page.
    fn cut(&mut self, page: u32) {
        if let Some((run, owner)) = self.run_at(page)
            && run.first_page < page
        {
            self.remove(run.first_page);
            self.insert(PageRun::between(run.first_page, page), owner);
            self.insert(PageRun::between(page, run.end()), owner);
        }
    }

    fn insert(&mut self, run: PageRun, owner: PageOwner) {
        self.runs.insert(run.first_page, (run.pages, owner));
        match owner {
            PageOwner::Pool => {
                self.free_by_length.insert((run.pages, run.first_page));
                self.free_pages += run.pages;
            }
            PageOwner::Withheld { until } => {
                self.withheld.insert((until, run.first_page));
            }
            PageOwner::Shard(shard) => self.shard_pages[usize::from(shard.0)] += run.pages,
            PageOwner::Reserved => {}
        }
    }

    fn remove(&mut self, first_page: u32) {
        let Some((pages, owner)) = self.runs.remove(&first_page) else { return };
        match owner {
            PageOwner::Pool => {
                self.free_by_length.remove(&(pages, first_page));
                self.free_pages -= pages;
            }
            PageOwner::Withheld { until } => {
                self.withheld.remove(&(until, first_page));
            }
            PageOwner::Shard(shard) => self.shard_pages[usize::from(shard.0)] -= pages,
            PageOwner::Reserved => {}
        }
    }
}

/// The bytes of one page of a segment: a power of two.
///
/// A small segment has small pages, so that it still has some hundred of them to share among the
/// shards.
pub(super) fn page_bytes(segment_bytes: u64) -> u32 {
    let target = (segment_bytes / PAGES_PER_SEGMENT_MIN).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
    1 << target.ilog2()
}

/// A grant is this many times smaller than a shard's fair part of what is free, so that a shard
/// that is asked more than the others finds pages left, and little lies idle in the spans of one
/// that is asked less.
const GRANTS_PER_SHARD: u32 = 4;

/// Below this many pages a segment gets smaller ones.
const PAGES_PER_SEGMENT_MIN: u64 = 256;

/// The smallest segment is one such page.
const PAGE_BYTES_MIN: u64 = 4 << 10;

/// Small enough that the last page of a span wastes little, large enough that the largest segment
/// has fewer pages than 32 bits count.
const PAGE_BYTES_MAX: u64 = 64 << 10;
