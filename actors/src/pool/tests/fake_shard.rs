//! A shard that knows only whole pages: each is free or full of one object.

use std::collections::BTreeMap;
use std::mem;

use super::super::message::*;
use crate::moment::Moment;
use crate::pages::PageRun;

/// What lies in a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) newest_access: Moment,
    pub(super) blocked_until: Option<Moment>,
}

/// The pages of a shard, and what it does when it is asked.
#[derive(Debug, Default)]
pub(super) struct FakeShard {
    pub(super) pages: BTreeMap<Mount, BTreeMap<u32, Option<Content>>>,
    /// What outlives the next loss.
    pub(super) remnants: Vec<Remnant>,
    /// It confirms a loss but does not come to an end with sweeping.
    pub(super) slow_sweep: bool,
    /// Pages that get a lease between survey and vacate.
    pub(super) surprises: Vec<u32>,
}

impl FakeShard {
    /// Puts something into a page of its own.
    pub(super) fn fill(&mut self, mount: Mount, page: u32, content: Content) {
        *self.pages.get_mut(&mount).unwrap().get_mut(&page).unwrap() = Some(content);
    }

    /// The pages of a mount, in order.
    pub(super) fn own_pages(&self, mount: Mount) -> Vec<u32> {
        self.pages.get(&mount).map(|pages| pages.keys().copied().collect()).unwrap_or_default()
    }

    /// Takes over what an order grants.
    pub(super) fn own(&mut self, order: &PoolOrder) {
        if let PoolOrder::Grant { mount, run } | PoolOrder::Room { mount, run, .. } = order {
            let pages = self.pages.entry(*mount).or_default();
            for page in run.first_page..run.end() {
                assert!(pages.insert(page, None).is_none(), "page {page} was granted twice");
            }
        }
    }

    /// What the shard answers to an order.
    pub(super) fn answer(&mut self, now: Moment, order: &PoolOrder) -> Vec<ShardReport> {
        match order {
            PoolOrder::SegmentLost { mount } => {
                self.pages.remove(mount);
                let mut reports = vec![ShardReport::Confirmed { mount: *mount }];
                if !self.slow_sweep {
                    let remnants = mem::take(&mut self.remnants);
                    reports.push(ShardReport::Swept { mount: *mount, remnants });
                }
                reports
            }
            PoolOrder::GiveBack { mount, pages, .. } => {
                let runs = self.give_back(*mount, *pages);
                vec![ShardReport::Returned { mount: *mount, runs, answer: true }]
            }
            PoolOrder::Survey { survey, mount, window, chunk_pages } => {
                let chunks = self.survey(*mount, *window, *chunk_pages);
                vec![ShardReport::Surveyed { survey: *survey, chunks }]
            }
            PoolOrder::Vacate { job, mount, runs } => {
                let runs = self.vacate(now, *mount, runs);
                vec![ShardReport::Vacated { job: *job, runs }]
            }
            _ => Vec::new(),
        }
    }

    fn give_back(&mut self, mount: Mount, pages_max: u32) -> Vec<PageRun> {
        let Some(pages) = self.pages.get_mut(&mount) else { return Vec::new() };
        let free: Vec<u32> = pages
            .iter()
            .filter(|(_, content)| content.is_none())
            .map(|(&page, _)| page)
            .take(pages_max as usize)
            .collect();
        pages.retain(|page, _| !free.contains(page));
        free.into_iter().map(|page| PageRun::new(page, 1)).collect()
    }

    fn survey(&self, mount: Mount, window: PageRun, chunk_pages: u32) -> Vec<ChunkCost> {
        let mut chunks = vec![ChunkCost::default(); window.pages.div_ceil(chunk_pages) as usize];
        let Some(pages) = self.pages.get(&mount) else { return chunks };
        for (&page, content) in pages.range(window.first_page..window.end()) {
            let Some(content) = content else { continue };
            let chunk = &mut chunks[((page - window.first_page) / chunk_pages) as usize];
            chunk.blocked_until = chunk.blocked_until.max(content.blocked_until);
            chunk.evict_bytes += content.bytes;
            chunk.newest_access = chunk.newest_access.max(content.newest_access);
        }
        chunks
    }

    fn vacate(&mut self, now: Moment, mount: Mount, runs: &[PageRun]) -> Vec<PageRun> {
        let Some(pages) = self.pages.get_mut(&mount) else { return Vec::new() };
        let mut vacated = Vec::new();
        for page in runs.iter().flat_map(|run| run.first_page..run.end()) {
            // It may have been returned while the order was on its way.
            let Some(&content) = pages.get(&page) else { continue };
            let blocked = content.is_some_and(|content| content.blocked_until > Some(now));
            if !blocked && !self.surprises.contains(&page) {
                pages.remove(&page);
                vacated.push(PageRun::new(page, 1));
            }
        }
        vacated
    }
}
