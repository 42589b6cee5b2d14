//! Vacating windows of pages for large objects, and giving free pages back.

use std::ops::ControlFlow;

use super::message::ShardEffect;
use super::objects::ObjectState;
use super::ranges::{RangeHandle, RangeState, SegmentIndex};
use super::remove::Sweep;
use super::state::Shard;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{ChunkCost, Mount, ShardReport};

/// A job of the pool in a window of pages, done in slices in the order of offset.
#[derive(Debug)]
pub(super) struct WindowJob {
    mount: Mount,
    /// The pages that are left to look at; the run at work is the last.
    runs: Vec<PageRun>,
    /// Ranges of the run at work that begin below are done.
    from_bytes: u64,
    task: Task,
}

#[derive(Debug)]
enum Task {
    /// Sum up what it would cost to vacate each chunk.
    Survey { survey: u64, window: PageRun, chunk_pages: u32, chunks: Vec<ChunkCost> },
    /// Evict what may go, and return the pages.
    Vacate { job: u64 },
}

impl WindowJob {
    pub(super) fn survey(survey: u64, mount: Mount, window: PageRun, chunk_pages: u32) -> Self {
        let chunk_pages = chunk_pages.max(1);
        let chunks = vec![ChunkCost::default(); window.pages.div_ceil(chunk_pages) as usize];
        let task = Task::Survey { survey, window, chunk_pages, chunks };
        WindowJob { mount, runs: vec![window], from_bytes: 0, task }
    }

    pub(super) fn vacate(job: u64, mount: Mount, mut runs: Vec<PageRun>) -> Self {
        runs.reverse();
        WindowJob { mount, runs, from_bytes: 0, task: Task::Vacate { job } }
    }
}

impl Shard {
    /// One slice of a job in a window; the answer follows the last one.
    pub(super) fn work_in_window(
        &mut self,
        now: Moment,
        mut job: WindowJob,
        effects: &mut Vec<ShardEffect>,
    ) {
        let segment = self.segments.of_mount(job.mount).filter(|segment| segment.readable);
        let Some(segment) = segment else { return job.answer(effects) };
        let (index, page_bytes) = (segment.index(), u64::from(segment.page_bytes));
        let Some(run) = job.runs.last().copied() else { return job.answer(effects) };
        let first_page = run.first_page.max((job.from_bytes / page_bytes) as u32);
        let rest = PageRun::between(first_page, run.end());
        let (ranges, next_bytes) = self.ranges_in(index, rest, job.from_bytes);
        match &mut job.task {
            Task::Survey { window, chunk_pages, chunks, .. } => {
                let grid = Grid {
                    start_bytes: u64::from(window.first_page) * page_bytes,
                    chunk_bytes: u64::from(*chunk_pages) * page_bytes,
                };
                for (range, state) in ranges {
                    self.add_cost(now, range, state, &grid, chunks);
                }
            }
            Task::Vacate { .. } => {
                for (range, state) in ranges {
                    match state {
                        RangeState::Used if self.evictable(now, range) => {
                            self.evict(now, range);
                        }
                        // The page comes with a later job, when its home has freed it.
                        RangeState::Foreign => self.ask_to_evict(range),
                        _ => {}
                    }
                }
                let end = next_bytes.map_or(run.end(), |next| (next / page_bytes) as u32);
                let done = PageRun::between(first_page, end);
                let runs = self.ledger.ranges_mut().take_pages(index, done);
                self.segments.mark_changed(index);
                if !runs.is_empty() {
                    let returned = ShardReport::Returned { mount: job.mount, runs, answer: false };
                    effects.push(ShardEffect::Report(returned));
                }
            }
        }
        job.from_bytes = next_bytes.unwrap_or(0);
        if next_bytes.is_none() {
            job.runs.pop();
        }
        if job.runs.is_empty() {
            job.answer(effects)
        } else {
            self.sweeps.push_back(Sweep::Window(job))
        }
    }

    /// The next ranges of a window, and where those begin that are one slice too many.
    fn ranges_in(
        &self,
        index: SegmentIndex,
        window: PageRun,
        from_bytes: u64,
    ) -> (Vec<(RangeHandle, RangeState)>, Option<u64>) {
        let mut found = Vec::new();
        let mut next_bytes = None;
        self.ledger.ranges().walk_window(index, window, None, |range, state| {
            let offset_bytes = self.ledger.ranges().offset_bytes(range);
            if offset_bytes < from_bytes || state == RangeState::Free {
                return ControlFlow::Continue(());
            }
            if found.len() == RANGES_MAX {
                next_bytes = Some(offset_bytes);
                return ControlFlow::Break(());
            }
            found.push((range, state));
            ControlFlow::Continue(())
        });
        (found, next_bytes)
    }

    /// Adds what it costs to vacate a range to the chunks that it touches.
    fn add_cost(
        &self,
        now: Moment,
        range: RangeHandle,
        state: RangeState,
        grid: &Grid,
        chunks: &mut [ChunkCost],
    ) {
        let cost = match state {
            RangeState::Free => return,
            RangeState::Used => self.eviction_cost(now, range),
            RangeState::Held => ChunkCost {
                blocked_until: Some(self.ledger.held_until(range)),
                ..ChunkCost::default()
            },
            // Whether it may go is known at the home of its object only.
            RangeState::Foreign => ChunkCost {
                evict_bytes: self.ledger.ranges().length_bytes(range),
                ..ChunkCost::default()
            },
        };
        let offset_bytes = self.ledger.ranges().offset_bytes(range);
        let end_bytes = offset_bytes + self.ledger.ranges().length_bytes(range);
        let first = offset_bytes.saturating_sub(grid.start_bytes) / grid.chunk_bytes;
        let last = (end_bytes - 1 - grid.start_bytes) / grid.chunk_bytes;
        let last = (last as usize).min(chunks.len() - 1);
        for chunk in &mut chunks[first as usize..=last] {
            chunk.evict_bytes += cost.evict_bytes;
            chunk.newest_access = chunk.newest_access.max(cost.newest_access);
            chunk.blocked_until = chunk.blocked_until.max(cost.blocked_until);
        }
    }

    fn eviction_cost(&self, now: Moment, range: RangeHandle) -> ChunkCost {
        let object = self.ledger.owner(range);
        let objects = self.ledger.objects();
        let blocked_until = match self.put_of(object) {
            Some(put) => Some(put.started.after_ms(self.config.put_release_timeout_ms)),
            None if objects.flags(object).hard_pin => Some(Moment::from_ms(u64::MAX)),
            None => Some(self.stays_until(object)).filter(|until| *until > now),
        };
        let length_bytes = self.ledger.ranges().length_bytes(range);
        let weight = if objects.flags(object).soft_pin { SOFT_PIN_WEIGHT } else { 1 };
        ChunkCost {
            evict_bytes: length_bytes.saturating_mul(weight),
            newest_access: objects.lease_until(object),
            blocked_until,
        }
    }

    pub(super) fn evictable(&self, now: Moment, range: RangeHandle) -> bool {
        let object = self.ledger.owner(range);
        let objects = self.ledger.objects();
        objects.state(object) == ObjectState::Readable
            && !objects.flags(object).hard_pin
            && self.stays_until(object) <= now
    }

    /// Returns free pages that the pool asks for.
    pub(super) fn give_back(
        &mut self,
        mount: Mount,
        pages: u32,
        run_pages_min: u32,
        effects: &mut Vec<ShardEffect>,
    ) {
        let mut runs = Vec::new();
        if let Some(segment) = self.segments.of_mount(mount).filter(|segment| segment.readable) {
            let index = segment.index();
            runs = self.ledger.ranges_mut().take_free_pages(index, pages, run_pages_min);
            self.segments.mark_changed(index);
        }
        effects.push(ShardEffect::Report(ShardReport::Returned { mount, runs, answer: true }));
    }

    /// Returns free pages that the shard is not likely to need soon.
    pub(super) fn return_spare_pages(&mut self, effects: &mut Vec<ShardEffect>) {
        for position in 0..self.segments.changed().len() {
            let index = self.segments.changed()[position];
            let segment = self.segments.at(index);
            if !segment.readable {
                continue;
            }
            let (mount, page_bytes) = (segment.mount, u64::from(segment.page_bytes));
            let ranges = self.ledger.ranges();
            let reserve_bytes =
                (ranges.allocated_bytes(index) / 2).max(segment.capacity_bytes / RESERVE_SHARE);
            let spare_bytes = ranges.free_bytes(index).saturating_sub(reserve_bytes);
            let pages = u32::try_from(spare_bytes / page_bytes).unwrap_or(u32::MAX);
            if pages < SPARE_RUN_PAGES_MIN {
                continue;
            }
            let runs = self.ledger.ranges_mut().take_free_pages(index, pages, SPARE_RUN_PAGES_MIN);
            if !runs.is_empty() {
                effects.push(ShardEffect::Report(ShardReport::Returned {
                    mount,
                    runs,
                    answer: false,
                }));
            }
        }
    }
}

impl WindowJob {
    fn answer(self, effects: &mut Vec<ShardEffect>) {
        let report = match self.task {
            Task::Survey { survey, chunks, .. } => ShardReport::Surveyed { survey, chunks },
            Task::Vacate { job } => ShardReport::Vacated { job, runs: Vec::new() },
        };
        effects.push(ShardEffect::Report(report));
    }
}

/// The chunks of a surveyed window.
struct Grid {
    start_bytes: u64,
    chunk_bytes: u64,
}

/// Ranges that one slice looks at or evicts: about 100 µs of work.
const RANGES_MAX: usize = 256;

/// A softly pinned byte costs as much as so many others: more than the pool makes a byte dearer that
/// was used just now, so a window of unpinned objects is always cheaper than one of pinned ones.
const SOFT_PIN_WEIGHT: u64 = 16;

/// A shard keeps free space of this share of a segment even if it uses little of it: less than the
/// first span that the pool grants, so that spans do not go to and fro.
const RESERVE_SHARE: u64 = 8;

/// Shorter runs stay with the shard, which can fill them as well as anyone.
const SPARE_RUN_PAGES_MIN: u32 = 16;
