//! Spans on demand: pages go to the shards that ask, and come back.

use std::collections::BTreeSet;

use super::Pool;
use super::message::{Mount, PoolEffect, PoolOrder};
use super::segment::MountedSegment;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::route::ShardId;

/// Shards that have free pages were asked for them, and span requests wait for the answers.
#[derive(Debug)]
pub(super) struct Collection {
    /// Who has not answered yet.
    awaiting: BTreeSet<ShardId>,
    /// The requests in the order of their arrival: who, and how many pages.
    waiting: Vec<(ShardId, u32)>,
}

impl Pool {
    /// Answers a span request, at once or when the other shards have given pages back.
    pub(super) fn request_span(
        &mut self,
        now: Moment,
        shard: ShardId,
        mount: Mount,
        size_bytes: u64,
        effects: &mut Vec<PoolEffect>,
    ) {
        let deny = PoolEffect::Order { shard, order: PoolOrder::Deny { mount } };
        let Some(segment) = self.segments.open(mount) else { return effects.push(deny) };
        let Some(pages) = segment.pages_for(size_bytes) else { return effects.push(deny) };
        if let Some(run) = segment.heap.grant(shard, pages) {
            self.space.changed(mount.slot);
            effects.push(PoolEffect::Order { shard, order: PoolOrder::Grant { mount, run } });
        } else if let Some(collection) = &mut segment.collection {
            collection.waiting.push((shard, pages));
        } else {
            let asked = ask_back(segment, now, shard, pages, effects);
            if asked.is_empty() {
                return effects.push(deny);
            }
            segment.collection =
                Some(Collection { awaiting: asked, waiting: vec![(shard, pages)] });
        }
    }

    /// Takes pages back from a shard.
    pub(super) fn take_returned(
        &mut self,
        shard: ShardId,
        mount: Mount,
        runs: &[PageRun],
        answer: bool,
        effects: &mut Vec<PoolEffect>,
    ) {
        let Some(segment) = self.segments.mounted(mount) else { return };
        for &run in runs {
            segment.heap.take_back(shard, run);
        }
        // What comes back in the middle of a window that is being vacated belongs to its job.
        for window in self.rooms.reserved_windows(mount) {
            segment.heap.reserve(window);
        }
        self.space.changed(mount.slot);
        let Some(collection) = &mut segment.collection else { return };
        if answer {
            collection.awaiting.remove(&shard);
            if collection.awaiting.is_empty() {
                self.end_collection(mount, effects);
            }
        }
    }

    /// Answers the span requests that waited for pages: with what there is now, or with a refusal.
    pub(super) fn end_collection(&mut self, mount: Mount, effects: &mut Vec<PoolEffect>) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        let Some(collection) = segment.collection.take() else { return };
        let placeable = segment.phase == super::segment::Phase::Open;
        for (shard, pages) in collection.waiting {
            let run = if placeable { segment.heap.grant(shard, pages) } else { None };
            let order = match run {
                Some(run) => PoolOrder::Grant { mount, run },
                None => PoolOrder::Deny { mount },
            };
            effects.push(PoolEffect::Order { shard, order });
        }
        self.space.changed(mount.slot);
    }
}

/// Asks the other shards for free pages if they have enough to be worth it; returns who was asked.
fn ask_back(
    segment: &mut MountedSegment,
    now: Moment,
    requester: ShardId,
    pages: u32,
    effects: &mut Vec<PoolEffect>,
) -> BTreeSet<ShardId> {
    let mount = segment.mount;
    let page_bytes = u64::from(segment.page_bytes);
    let shards = segment.shares.len() as u32;
    let worth_bytes = segment.bytes(pages).max(segment.capacity_bytes() / COLLECT_PART_MIN);
    let rested = |asked: Option<Moment>| asked.is_none_or(|at| now.since_ms(at) >= COLLECT_REST_MS);
    let others = |index: usize| index != usize::from(requester.0);
    let heap = &segment.heap;
    let ready: Vec<usize> = (0..segment.shares.len())
        .filter(|&index| others(index) && rested(segment.shares[index].asked))
        .filter(|&index| segment.shares[index].free_bytes >= page_bytes)
        .filter(|&index| heap.shard_pages(ShardId(index as u16)) > 0)
        .collect();
    let free_bytes: u64 = ready.iter().map(|&index| segment.shares[index].free_bytes).sum();
    if free_bytes < worth_bytes {
        return BTreeSet::new();
    }
    for &index in &ready {
        let share = &mut segment.shares[index];
        share.asked = Some(now);
        // A part of what it has, so that the shard keeps something for its own next puts and is
        // not asked again for each page.
        let free_pages = u32::try_from(share.free_bytes / page_bytes).unwrap_or(u32::MAX);
        let order = PoolOrder::GiveBack {
            mount,
            pages: pages.max(free_pages / shards.max(2)),
            run_pages_min: (pages / WINDOW_PIECES).max(1),
        };
        effects.push(PoolEffect::Order { shard: ShardId(index as u16), order });
    }
    ready.into_iter().map(|index| ShardId(index as u16)).collect()
}

/// Free space in the spans of others is collected only when it is at least the fiftieth part of
/// the segment: what is left below that is scattered, and each shard needs some to work with.
const COLLECT_PART_MIN: u64 = 50;

/// A shard is not asked again for so long: the reports that tell what it has left need time.
const COLLECT_REST_MS: u64 = 100;

/// Pieces that are shorter than this part of the request hardly add up to it.
const WINDOW_PIECES: u32 = 8;
