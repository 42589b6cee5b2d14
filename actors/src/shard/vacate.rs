//! Vacating windows of pages for large objects, and giving free pages back.

use std::ops::ControlFlow;

use super::message::ShardEffect;
use super::objects::ObjectState;
use super::ranges::{RangeHandle, RangeState};
use super::state::Shard;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{ChunkCost, Mount, ShardReport};

impl Shard {
    /// What it would cost to vacate each chunk of a window.
    pub(super) fn survey(
        &mut self,
        now: Moment,
        mount: Mount,
        window: PageRun,
        chunk_pages: u32,
    ) -> Vec<ChunkCost> {
        let chunk_pages = chunk_pages.max(1);
        let mut chunks = vec![ChunkCost::default(); window.pages.div_ceil(chunk_pages) as usize];
        let Some(segment) = self.segments.of_mount(mount) else { return chunks };
        let (index, page_bytes) = (segment.index(), u64::from(segment.page_bytes));
        let window_start_bytes = u64::from(window.first_page) * page_bytes;
        let chunk_bytes = u64::from(chunk_pages) * page_bytes;
        self.ledger.ranges().walk_window(index, window, None, |range, state| {
            let cost = match state {
                RangeState::Free => return ControlFlow::Continue(()),
                RangeState::Used => self.eviction_cost(now, range),
                RangeState::Held => ChunkCost {
                    blocked_until: Some(self.ledger.held_until(range)),
                    ..ChunkCost::default()
                },
            };
            let offset_bytes = self.ledger.ranges().offset_bytes(range);
            let end_bytes = offset_bytes + self.ledger.ranges().length_bytes(range);
            let first = offset_bytes.saturating_sub(window_start_bytes) / chunk_bytes;
            let last = (end_bytes - 1 - window_start_bytes) / chunk_bytes;
            let last = (last as usize).min(chunks.len() - 1);
            for chunk in &mut chunks[first as usize..=last] {
                chunk.evict_bytes += cost.evict_bytes;
                chunk.newest_access = chunk.newest_access.max(cost.newest_access);
                chunk.blocked_until = chunk.blocked_until.max(cost.blocked_until);
            }
            ControlFlow::Continue(())
        });
        chunks
    }

    fn eviction_cost(&self, now: Moment, range: RangeHandle) -> ChunkCost {
        let object = self.ledger.owner(range);
        let objects = self.ledger.objects();
        let blocked_until = match self.unfinished.of(object) {
            Some(put) => Some(put.started.after_ms(self.config.put_release_timeout_ms)),
            None if objects.flags(object).hard_pin => Some(Moment::from_ms(u64::MAX)),
            None => Some(objects.lease_until(object)).filter(|until| *until > now),
        };
        ChunkCost {
            evict_bytes: self.ledger.ranges().length_bytes(range),
            newest_access: objects.lease_until(object),
            blocked_until,
        }
    }

    /// Evicts what lies in the pages and may go, and takes the pages that are free then out of the
    /// shard's spans.
    pub(super) fn vacate(&mut self, now: Moment, mount: Mount, runs: &[PageRun]) -> Vec<PageRun> {
        let Some(segment) = self.segments.of_mount(mount).filter(|segment| segment.readable) else {
            return Vec::new();
        };
        let index = segment.index();
        let mut returned = Vec::new();
        for run in runs {
            let mut victims = Vec::new();
            self.ledger.ranges().walk_window(index, *run, None, |range, state| {
                if state == RangeState::Used && self.evictable(now, range) {
                    victims.push(range);
                }
                ControlFlow::Continue(())
            });
            for victim in victims {
                self.evict(now, victim);
            }
            returned.extend(self.ledger.ranges_mut().take_pages(index, *run));
        }
        self.segments.mark_changed(index);
        returned
    }

    fn evictable(&self, now: Moment, range: RangeHandle) -> bool {
        let object = self.ledger.owner(range);
        let objects = self.ledger.objects();
        objects.state(object) == ObjectState::Readable
            && !objects.flags(object).hard_pin
            && objects.lease_until(object) <= now
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

/// A shard keeps free space of this share of a segment even if it uses little of it: less than the
/// first span that the pool grants, so that spans do not go to and fro.
const RESERVE_SHARE: u64 = 8;

/// Shorter runs stay with the shard, which can fill them as well as anyone.
const SPARE_RUN_PAGES_MIN: u32 = 16;
