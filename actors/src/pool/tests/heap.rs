//! The page heap against an array with one entry for each page.

use proptest::prelude::*;

use super::super::heap::{PageHeap, PageOwner, page_bytes};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::route::ShardId;

const SHARDS: u16 = 3;

#[derive(Debug, Clone)]
enum Operation {
    Grant { shard: u16, pages: u32 },
    TakeBack { shard: u16, nth: usize, skip: u32, pages: u32 },
    Reserve(PageRun),
    Release(PageRun),
    Withhold { window: PageRun, until_ms: u64 },
    Expire { now_ms: u64 },
}

fn operations(pages: u32) -> impl Strategy<Value = Vec<Operation>> {
    let window = (0..pages, 1..=pages)
        .prop_map(move |(from, length)| PageRun::between(from, (from + length).min(pages)));
    let operation = prop_oneof![
        6 => (0..SHARDS, 1..=pages / 8).prop_map(|(shard, pages)| Operation::Grant { shard, pages }),
        6 => (0..SHARDS, any::<usize>(), 0..4_u32, 1..pages).prop_map(
            |(shard, nth, skip, pages)| Operation::TakeBack { shard, nth, skip, pages }
        ),
        1 => window.clone().prop_map(Operation::Reserve),
        2 => window.clone().prop_map(Operation::Release),
        1 => (window, 0..100_u64)
            .prop_map(|(window, until_ms)| Operation::Withhold { window, until_ms }),
        1 => (0..100_u64).prop_map(|now_ms| Operation::Expire { now_ms }),
    ];
    prop::collection::vec(operation, 1..120)
}

fn reassign(model: &mut [PageOwner], window: PageRun, change: impl Fn(PageOwner) -> PageOwner) {
    for page in &mut model[window.first_page as usize..window.end() as usize] {
        *page = change(*page);
    }
}

fn runs_of(model: &[PageOwner], owner: PageOwner) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for (page, _) in model.iter().enumerate().filter(|(_, other)| **other == owner) {
        match runs.last_mut() {
            Some(run) if run.end() == page as u32 => run.pages += 1,
            _ => runs.push(PageRun::new(page as u32, 1)),
        }
    }
    runs
}

/// Applies one operation to both; the grant's length is the heap's own choice.
fn apply(heap: &mut PageHeap, model: &mut [PageOwner], operation: &Operation) {
    match *operation {
        Operation::Grant { shard, pages } => {
            let longest = runs_of(model, PageOwner::Pool).iter().map(|run| run.pages).max();
            match heap.grant(ShardId(shard), pages) {
                None => assert!(longest < Some(pages), "{pages} pages were there"),
                Some(run) => {
                    assert!(run.pages >= pages, "a grant is never below the need");
                    reassign(model, run, |owner| {
                        assert_eq!(owner, PageOwner::Pool, "only free pages are granted");
                        PageOwner::Shard(ShardId(shard))
                    });
                }
            }
        }
        Operation::TakeBack { shard, nth, skip, pages } => {
            let own = runs_of(model, PageOwner::Shard(ShardId(shard)));
            if own.is_empty() {
                return;
            }
            let run = own[nth % own.len()];
            let from = (run.first_page + skip).min(run.end() - 1);
            let part = PageRun::between(from, (from + pages).min(run.end()));
            heap.take_back(ShardId(shard), part);
            reassign(model, part, |_| PageOwner::Pool);
        }
        Operation::Reserve(window) => {
            heap.reserve(window);
            reassign(model, window, |owner| match owner {
                PageOwner::Pool => PageOwner::Reserved,
                other => other,
            });
        }
        Operation::Release(window) => {
            heap.release(window);
            reassign(model, window, |owner| match owner {
                PageOwner::Reserved => PageOwner::Pool,
                other => other,
            });
        }
        Operation::Withhold { window, until_ms } => {
            let until = Moment::from_ms(until_ms);
            heap.withhold(window, until);
            reassign(model, window, |owner| match owner {
                PageOwner::Pool => PageOwner::Withheld { until },
                PageOwner::Withheld { until: old } => PageOwner::Withheld { until: old.max(until) },
                other => other,
            });
        }
        Operation::Expire { now_ms } => {
            heap.expire(Moment::from_ms(now_ms));
            let all = PageRun::new(0, model.len() as u32);
            reassign(model, all, |owner| match owner {
                PageOwner::Withheld { until } if until.as_ms() <= now_ms => PageOwner::Pool,
                other => other,
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_heap_agrees_with_an_array_of_pages(
        (pages, operations) in (8..200_u32).prop_flat_map(|pages| (Just(pages), operations(pages))),
    ) {
        let mut heap = PageHeap::new(pages, SHARDS);
        let mut model = vec![PageOwner::Pool; pages as usize];
        for operation in &operations {
            apply(&mut heap, &mut model, operation);
            heap.check().unwrap();
            let mut seen = Vec::new();
            for (run, owner) in heap.runs_in(PageRun::new(0, pages)) {
                seen.extend(std::iter::repeat_n(owner, run.pages as usize));
            }
            prop_assert_eq!(&seen, &model);
            let free = runs_of(&model, PageOwner::Pool);
            prop_assert_eq!(heap.free_pages(), free.iter().map(|run| run.pages).sum::<u32>());
            let longest = free.iter().map(|run| run.pages).max().unwrap_or(0);
            prop_assert_eq!(heap.longest_free_pages(), longest);
            let expiry = model.iter().filter_map(|owner| match owner {
                PageOwner::Withheld { until } => Some(*until),
                _ => None,
            });
            prop_assert_eq!(heap.next_expiry(), expiry.min());
            for shard in (0..SHARDS).map(ShardId) {
                let owned = model.iter().filter(|owner| **owner == PageOwner::Shard(shard));
                prop_assert_eq!(heap.shard_pages(shard) as usize, owned.count());
            }
        }
    }
}

#[test]
fn a_window_of_runs_is_cut_to_the_window() {
    let mut heap = PageHeap::new(100, 2);
    heap.give(ShardId(1), PageRun::new(10, 20));
    let runs = heap.runs_in(PageRun::new(15, 20));
    let shard = PageOwner::Shard(ShardId(1));
    assert_eq!(runs, [(PageRun::new(15, 15), shard), (PageRun::new(30, 5), PageOwner::Pool)]);
}

#[test]
fn the_next_grant_continues_the_last_one_if_it_can() {
    let mut heap = PageHeap::new(1_000, 1);
    let first = heap.grant(ShardId(0), 1).unwrap();
    // A hole before it would fit better.
    heap.give(ShardId(0), PageRun::new(900, 10));
    let next = heap.grant(ShardId(0), 1).unwrap();
    assert_eq!(next.first_page, 910, "after {first:?} and the last one");
}

#[test]
fn grants_shrink_as_the_segment_fills_and_reach_the_last_page() {
    let mut heap = PageHeap::new(4_096, 4);
    let mut lengths = Vec::new();
    while let Some(run) = heap.grant(ShardId(lengths.len() as u16 % 4), 1) {
        lengths.push(run.pages);
    }
    assert_eq!(lengths.iter().sum::<u32>(), 4_096);
    assert_eq!(lengths[0], 256, "a sixteenth of the segment");
    assert!(lengths.is_sorted_by(|before, after| before >= after), "{lengths:?}");
    assert_eq!(lengths.last(), Some(&1));
}

#[test]
fn an_object_larger_than_a_span_gets_up_to_the_whole_free_run() {
    let mut heap = PageHeap::new(4_096, 8);
    assert_eq!(heap.grant(ShardId(3), 4_096), Some(PageRun::new(0, 4_096)));
}

#[test]
#[should_panic(expected = "does not own")]
fn a_shard_that_returns_what_it_does_not_own_ends_the_process() {
    let mut heap = PageHeap::new(100, 2);
    heap.give(ShardId(0), PageRun::new(10, 10));
    heap.take_back(ShardId(0), PageRun::new(15, 6));
}

#[test]
fn small_segments_have_small_pages() {
    assert_eq!(page_bytes(4_096), 4_096);
    assert_eq!(page_bytes(1 << 20), 4_096);
    assert_eq!(page_bytes(4 << 20), 16_384);
    assert_eq!(page_bytes((8 << 20) - 1), 16_384, "a power of two");
    assert_eq!(page_bytes(16 << 20), 65_536);
    assert_eq!(page_bytes(64 << 40), 65_536);
}

#[test]
fn the_largest_segment_costs_no_more_than_a_small_one() {
    let mut heap = PageHeap::new(1 << 30, 8);
    let run = heap.grant(ShardId(7), 1).unwrap();
    assert_eq!(run.pages, (1 << 30) / 32);
    heap.take_back(ShardId(7), PageRun::new(run.first_page + 5, 1));
    heap.check().unwrap();
}
