//! Room for large objects.

use mooring_proto::error::NoSpace;

use super::fake_shard::Content;
use super::*;

/// A bench whose only segment, of 1,024 pages, is full of old objects of one page each.
fn full_bench(shards: u16) -> (Bench, Mount) {
    let mut bench = Bench::new(shards);
    let mount = bench.mounted(1, 64 * MIB);
    bench.fill_pages(mount);
    let old = Content { bytes: PAGE, ..Content::default() };
    fill_all(&mut bench, mount, old);
    (bench, mount)
}

/// Fills every page of every shard and reports it.
fn fill_all(bench: &mut Bench, mount: Mount, content: Content) {
    for shard in 0..bench.shards.len() {
        let pages = bench.shards[shard].own_pages(mount);
        for &page in &pages {
            bench.shards[shard].fill(mount, page, content);
        }
        let bytes = pages.len() as u64 * PAGE;
        let leased_bytes = if content.blocked_until.is_some() { bytes } else { 0 };
        let usage = SegmentUsage { leased_bytes, ..usage(mount, bytes) };
        bench.report(shard as u16, ShardReport::Usage(vec![usage]));
    }
    bench.orders.clear();
}

fn set(bench: &mut Bench, mount: Mount, page: u32, content: Content) {
    let owner = bench.shards.iter_mut().find(|shard| shard.own_pages(mount).contains(&page));
    owner.unwrap().fill(mount, page, content);
}

fn surveys(orders: &[(u16, PoolOrder)]) -> usize {
    sent(orders, |order| matches!(order, PoolOrder::Survey { .. }).then_some(())).len()
}

fn vacates(orders: &[(u16, PoolOrder)]) -> Vec<(u16, u64)> {
    sent(orders, |order| match order {
        PoolOrder::Vacate { job, .. } => Some(*job),
        _ => None,
    })
}

#[test]
fn a_window_is_vacated_by_its_owners_and_granted_whole() {
    let (mut bench, mount) = full_bench(4);
    let orders = bench.room(2, 1, 12 * MIB);
    assert_eq!(rooms(&orders).len(), 1);
    let (shard, run) = rooms(&orders)[0];
    assert_eq!((shard, run.pages), (2, 192));
    assert!(surveys(&orders) >= 4);
    assert_eq!(bench.totals().windows_vacated, 1);
    let runs = bench.pool.shard_runs(mount, ShardId(2));
    assert!(runs.iter().any(|own| own.contains(run)));
}

#[test]
fn large_objects_find_room_as_long_as_anything_may_go() {
    let (mut bench, mount) = full_bench(3);
    for number in 1..=5 {
        let orders = bench.room(0, number, 12 * MIB);
        let run = rooms(&orders)[0].1;
        let kept = Content {
            bytes: PAGE,
            blocked_until: Some(Moment::from_ms(u64::MAX)),
            ..Content::default()
        };
        for page in run.first_page..run.end() {
            bench.shards[0].fill(mount, page, kept);
        }
    }
    // 5 × 192 of 1,024 pages are taken by what may not go.
    assert_eq!(refusals(&bench.room(0, 6, 12 * MIB)).len(), 1);
    assert_eq!(rooms(&bench.room(0, 7, 2 * MIB)).len(), 1);
}

#[test]
fn the_cheapest_window_is_chosen() {
    let (mut bench, mount) = full_bench(2);
    for page in 500..600 {
        set(&mut bench, mount, page, Content { bytes: 100, ..Content::default() });
    }
    let run = rooms(&bench.room(0, 1, 4 * MIB))[0].1;
    assert!(run.first_page >= 500 && run.end() <= 600, "{run:?}");
}

#[test]
fn old_data_goes_before_data_in_use() {
    let (mut bench, mount) = full_bench(2);
    let now = bench.now;
    for page in 0..1_024 {
        let hot = !(600..800).contains(&page);
        let newest_access = if hot { now } else { Moment::from_ms(0) };
        // The old pages hold twice as much, so they would lose by bytes alone.
        let bytes = if hot { PAGE / 2 } else { PAGE };
        set(&mut bench, mount, page, Content { bytes, newest_access, blocked_until: None });
    }
    let run = rooms(&bench.room(1, 1, 4 * MIB))[0].1;
    assert!(run.first_page >= 600 && run.end() <= 800, "{run:?}");
}

#[test]
fn free_pages_in_spans_of_others_cost_nothing() {
    let (mut bench, mount) = full_bench(2);
    let old = Content { bytes: PAGE, ..Content::default() };
    bench.shards.iter_mut().for_each(|shard| {
        let pages = shard.pages.get_mut(&mount).unwrap();
        pages.iter_mut().for_each(|(&page, content)| {
            *content = if (300..420).contains(&page) { None } else { Some(old) };
        });
    });
    let run = rooms(&bench.room(0, 1, 6 * MIB))[0].1;
    assert!(run.first_page >= 300 && run.end() <= 420, "{run:?}");
    let full: usize =
        bench.shards.iter().map(|shard| shard.pages[&mount].values().flatten().count()).sum();
    assert_eq!(full, 1_024 - 120, "nothing was evicted");
}

#[test]
fn a_shard_with_nothing_but_leases_gets_room_from_the_others() {
    let (mut bench, mount) = full_bench(2);
    let until = bench.now.after_ms(10_000);
    let leased = Content { bytes: PAGE, newest_access: bench.now, blocked_until: Some(until) };
    for page in bench.shards[0].own_pages(mount) {
        bench.shards[0].fill(mount, page, leased);
    }
    let run = rooms(&bench.room(0, 1, 1_000))[0].1;
    assert_eq!(run.pages, 4, "a little more than the need, so that not every put is a job");
}

#[test]
fn leased_windows_are_left_alone_and_the_refusal_says_until_when() {
    let (mut bench, mount) = full_bench(2);
    let until = bench.now.after_ms(300);
    let leased = Content { bytes: PAGE, newest_access: bench.now, blocked_until: Some(until) };
    fill_all(&mut bench, mount, leased);
    let orders = bench.room(0, 1, MIB);
    assert_eq!(refusals(&orders), [(0, Some(300))]);
    assert_eq!(vacates(&orders), []);
    let PoolOrder::NoRoom { space, .. } = &orders.last().unwrap().1 else { panic!() };
    let expected = NoSpace { leased_bytes: 64 * MIB, ..NoSpace::default() };
    assert_eq!(*space, expected);
    bench.wait_ms(300);
    assert_eq!(rooms(&bench.room(0, 2, MIB)).len(), 1, "a block in the past is none");
}

#[test]
fn a_lease_that_came_meanwhile_sends_the_job_to_the_next_window() {
    let (mut bench, _) = full_bench(1);
    for shard in &mut bench.shards {
        shard.surprises = vec![3, 250];
    }
    let orders = bench.room(0, 1, 12 * MIB);
    let run = rooms(&orders)[0].1;
    assert!(!run.contains_page(3) && !run.contains_page(250), "{run:?}");
    let jobs: std::collections::BTreeSet<u64> =
        vacates(&orders).into_iter().map(|(_, job)| job).collect();
    assert!(jobs.len() >= 2, "{jobs:?}");
}

#[test]
fn a_reserved_window_is_given_to_nobody_else() {
    let (mut bench, mount) = full_bench(2);
    bench.answering = false;
    let mut orders = bench.room(0, 1, 32 * MIB);
    let mut slow_runs = Vec::new();
    // Shard 1 answers the survey and its part of the window; shard 0 is slow with the window.
    for _ in 0..2 {
        for (shard, order) in std::mem::take(&mut orders) {
            if let (0, PoolOrder::Vacate { runs, .. }) = (shard, &order) {
                slow_runs.clone_from(runs);
                continue;
            }
            for report in bench.shards[usize::from(shard)].answer(bench.now, &order) {
                bench.report(shard, report);
            }
        }
        orders = bench.take_orders();
    }
    assert_eq!(bench.pool.free_pages(mount), 0);
    assert_eq!(bench.span(1, mount, 1), None);
    // A page that comes back of the shard's own accord is kept too if it is in the window.
    let page = slow_runs[0].first_page;
    bench.shards[0].pages.get_mut(&mount).unwrap().remove(&page);
    let runs = vec![PageRun::new(page, 1)];
    bench.report(0, ShardReport::Returned { mount, runs, answer: false });
    assert_eq!(bench.pool.free_pages(mount), 0);
}

#[test]
fn requests_that_can_never_fit_are_refused_at_once_and_evict_nothing() {
    let (mut bench, _) = full_bench(2);
    for number in 0..100 {
        let orders = bench.room(0, number, 128 * MIB);
        assert_eq!(refusals(&orders), [(0, None)]);
        assert_eq!(orders.len(), 1, "no survey, no vacate, no eviction");
    }
    let all = bench.pool.mount_of(SegmentId(1)).unwrap().slot;
    bench.report(1, ShardReport::RoomRequest { number: 1, size_bytes: MIB, excluded: vec![all] });
    assert_eq!(refusals(&bench.take_orders()), [(1, None)]);
    let mut empty = Bench::new(1);
    assert_eq!(refusals(&empty.room(0, 1, 1)), [(0, None)]);
}

#[test]
fn a_refusal_says_when_to_try_again_if_what_was_in_the_way_is_gone_by_then() {
    let (mut bench, mount) = full_bench(1);
    // The pages come back later, as those do whose ranges are at home in another shard.
    bench.shards[0].surprises = (0..1_024).collect();
    bench.report(0, ShardReport::Usage(vec![usage(mount, 0)]));
    assert_eq!(refusals(&bench.room(0, 1, 64 * MIB)), [(0, Some(50))]);
}

#[test]
fn room_that_is_free_by_now_is_granted_at_once() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 64 * MIB);
    let orders = bench.room(1, 1, 12 * MIB);
    assert_eq!(rooms(&orders).len(), 1);
    assert_eq!(orders.len(), 1);
    assert_eq!(bench.totals().windows_vacated, 0);
}

#[test]
fn requests_wait_their_turn() {
    let (mut bench, _) = full_bench(3);
    bench.answering = false;
    let first = bench.room(0, 1, 4 * MIB);
    assert_eq!(surveys(&first), 3);
    assert_eq!(bench.room(1, 1, 4 * MIB), []);
    assert_eq!(bench.room(2, 1, 4 * MIB), []);
    bench.answering = true;
    for (shard, order) in first {
        for report in bench.shards[usize::from(shard)].answer(bench.now, &order) {
            bench.report(shard, report);
        }
    }
    let served: Vec<u16> =
        rooms(&bench.take_orders()).into_iter().map(|(shard, _)| shard).collect();
    assert_eq!(served, [0, 1, 2]);
}

#[test]
fn a_cancelled_request_is_not_answered_and_its_pages_return_to_the_heap() {
    let (mut bench, mount) = full_bench(2);
    bench.answering = false;
    let surveyed = bench.room(0, 1, 4 * MIB);
    bench.room(1, 5, 4 * MIB);
    bench.report(1, ShardReport::RoomCancelled { number: 5 });
    for (shard, order) in surveyed {
        for report in bench.shards[usize::from(shard)].answer(bench.now, &order) {
            bench.report(shard, report);
        }
    }
    let vacate = bench.take_orders();
    assert!(!vacates(&vacate).is_empty());
    bench.report(0, ShardReport::RoomCancelled { number: 1 });
    for (shard, order) in vacate {
        for report in bench.shards[usize::from(shard)].answer(bench.now, &order) {
            bench.report(shard, report);
        }
    }
    assert_eq!(bench.take_orders(), []);
    assert_eq!(bench.pool.free_pages(mount), 64);
}

#[test]
fn a_job_that_is_cancelled_while_it_surveys_makes_way_for_the_next() {
    let (mut bench, _) = full_bench(2);
    bench.answering = false;
    bench.room(0, 1, 4 * MIB);
    bench.room(1, 9, 4 * MIB);
    bench.answering = true;
    bench.report(0, ShardReport::RoomCancelled { number: 1 });
    let served = rooms(&bench.take_orders());
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].0, 1);
}

#[test]
fn a_job_goes_on_elsewhere_when_its_segment_is_lost() {
    let (mut bench, first) = full_bench(2);
    bench
        .mount(BOB, Segment { endpoint: "10.0.0.2:1".to_owned(), ..segment(2, 32 * MIB) })
        .unwrap();
    let second = bench.pool.mount_of(SegmentId(2)).unwrap();
    bench.fill_pages(second);
    fill_all(&mut bench, second, Content { bytes: PAGE, ..Content::default() });
    bench.answering = false;
    let orders = bench.room(0, 1, 4 * MIB);
    assert!(orders.iter().all(|(_, order)| match order {
        PoolOrder::Survey { mount, .. } => *mount == first,
        _ => false,
    }));
    bench.answering = true;
    bench.send(PoolMessage::ClientLost(ALICE));
    let found = sent(&bench.take_orders(), |order| match order {
        PoolOrder::Room { mount, .. } => Some(*mount),
        _ => None,
    });
    assert_eq!(found, [(0, second)]);
}

#[test]
fn a_job_ends_with_a_refusal_when_the_last_segment_is_lost() {
    let (mut bench, _) = full_bench(2);
    bench.answering = false;
    bench.room(0, 1, 4 * MIB);
    bench.send(PoolMessage::ClientLost(ALICE));
    assert_eq!(refusals(&bench.take_orders()), [(0, None)]);
}

#[test]
fn a_withheld_page_blocks_a_window() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 64 * MIB);
    let until = bench.now.after_ms(400);
    bench.shards[0].remnants =
        (0..16).map(|n| Remnant { offset_bytes: n * 4 * MIB, length_bytes: 1, until }).collect();
    bench.send(PoolMessage::ClientLost(ALICE));
    bench.mounted(1, 64 * MIB);
    assert_eq!(refusals(&bench.room(0, 1, 8 * MIB)), [(0, Some(400))]);
    bench.wait_ms(400);
    assert_eq!(rooms(&bench.room(0, 2, 8 * MIB)).len(), 1);
}
