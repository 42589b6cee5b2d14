//! Span requests, pages given back, and the space summary.

use super::fake_shard::Content;
use super::*;

#[test]
fn every_page_of_a_segment_can_be_granted() {
    let mut bench = Bench::new(8);
    let mount = bench.mounted(1, 64 * MIB);
    bench.fill_pages(mount);
    let granted: usize = bench.shards.iter().map(|shard| shard.own_pages(mount).len()).sum();
    assert_eq!(granted, 1_024);
    assert_eq!(bench.span(0, mount, 1), None);
    assert_eq!(bench.take_orders(), [(0, PoolOrder::Deny { mount })]);
}

#[test]
fn a_span_is_never_shorter_than_the_object() {
    let mut bench = Bench::new(8);
    let mount = bench.mounted(1, 64 * MIB);
    assert_eq!(bench.span(0, mount, 12 * MIB + 1).unwrap().pages, 193);
    assert_eq!(bench.span(0, mount, 64 * MIB), None);
    assert_eq!(bench.span(0, mount, u64::MAX), None);
    assert_eq!(bench.take_orders(), [(0, PoolOrder::Deny { mount })]);
}

#[test]
fn three_thousand_small_segments_serve_eight_shards_without_waste() {
    let mut bench = Bench::new(8);
    let segments: Vec<Segment> = (1..=3_000).map(|number| segment(number, 128 << 10)).collect();
    bench.remount(ALICE, &segments).unwrap();
    bench.orders.clear();
    for number in 1..=3_000_u64 {
        let mount = bench.pool.mount_of(SegmentId(number.into())).unwrap();
        for shard in 0..8 {
            let message = PoolMessage::Shard {
                shard: ShardId(shard),
                report: ShardReport::SpanRequest { mount, size_bytes: 6_000 },
            };
            // Without the check of everything after each message, which is quadratic here.
            let mut effects = Vec::new();
            bench.pool.apply(bench.now, message, &mut effects);
            let [PoolEffect::Order { order: PoolOrder::Grant { run, .. }, .. }] = &effects[..]
            else {
                panic!("{effects:?}")
            };
            assert_eq!(run.pages, 2, "two pages of 4 KiB for 6,000 bytes and none more");
        }
    }
    bench.pool.check().unwrap();
    assert_eq!(bench.totals().free_page_bytes, 3_000 * (32 - 8 * 2) * 4_096);
}

#[test]
fn free_pages_of_other_shards_are_collected_for_a_request() {
    let mut bench = Bench::new(3);
    let mount = bench.mounted(1, 16 * MIB);
    bench.fill_pages(mount);
    for shard in [1, 2] {
        let pages = bench.shards[usize::from(shard)].own_pages(mount).len() as u64;
        let free = SegmentUsage { free_bytes: pages * PAGE, ..usage(mount, 0) };
        bench.report(shard, ShardReport::Usage(vec![free]));
    }
    bench.answering = false;
    assert_eq!(bench.span(0, mount, MIB), None);
    let asked = sent(&bench.take_orders(), |order| match order {
        PoolOrder::GiveBack { pages, .. } => Some(*pages),
        _ => None,
    });
    assert_eq!(asked.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [1, 2]);
    assert!(asked.iter().all(|(_, pages)| *pages >= 16));
    // Another request on the same segment waits with it instead of asking again.
    bench.report(1, ShardReport::SpanRequest { mount, size_bytes: 1 });
    assert_eq!(bench.take_orders(), []);
    for shard in [1, 2] {
        assert_eq!(bench.take_orders(), []);
        let order = PoolOrder::GiveBack { mount, pages: 64, run_pages_min: 2 };
        let reports = bench.shards[usize::from(shard)].answer(bench.now, &order);
        reports.into_iter().for_each(|report| bench.report(shard, report));
    }
    let grants = sent(&bench.take_orders(), |order| match order {
        PoolOrder::Grant { run, .. } => Some(run.pages),
        _ => None,
    });
    assert_eq!(grants.len(), 2);
    assert!(grants[0].0 == 0 && grants[0].1 >= 16, "{grants:?}");
}

#[test]
fn a_request_is_refused_when_the_shards_have_too_little_to_give() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 16 * MIB);
    bench.fill_pages(mount);
    let page = bench.shards[1].own_pages(mount)[0];
    let own = bench.shards[1].own_pages(mount);
    for other in own.into_iter().filter(|&other| other != page) {
        bench.shards[1].fill(mount, other, Content::default());
    }
    // Reported as much, but only one page is wholly free.
    let free = SegmentUsage { free_bytes: 4 * MIB, ..usage(mount, 0) };
    bench.report(1, ShardReport::Usage(vec![free]));
    assert_eq!(bench.span(0, mount, MIB), None);
    let orders = bench.take_orders();
    assert!(matches!(orders[0].1, PoolOrder::GiveBack { .. }));
    assert_eq!(orders[1], (0, PoolOrder::Deny { mount }));
    assert_eq!(bench.pool.free_pages(mount), 1);
    // It was just asked: at once refused, and asked again after a rest.
    assert_eq!(bench.span(0, mount, MIB), None);
    assert_eq!(bench.take_orders(), [(0, PoolOrder::Deny { mount })]);
    bench.wait_ms(100);
    bench.span(0, mount, MIB);
    assert!(matches!(bench.take_orders()[0].1, PoolOrder::GiveBack { .. }));
}

#[test]
fn the_space_is_told_at_a_tick_when_it_changed_enough() {
    let mut bench = Bench::new(8);
    let mount = bench.mounted(1, 64 * MIB);
    let told = |bench: &mut Bench| {
        bench.wait_ms(10);
        sent(&bench.take_orders(), |order| match order {
            PoolOrder::Space(spaces) => Some(spaces.clone()),
            _ => None,
        })
    };
    assert_eq!(told(&mut bench), []);
    bench.span(0, mount, 2 * MIB);
    assert_eq!(told(&mut bench), [], "a thirty-second part is not worth a message");
    bench.span(0, mount, 2 * MIB);
    let free_bytes = u64::from(bench.pool.free_pages(mount)) * PAGE;
    let space = SegmentSpace { mount, free_bytes, largest_free_run_bytes: free_bytes };
    let expected: Vec<_> = (0..8).map(|shard| (shard, vec![space])).collect();
    assert_eq!(told(&mut bench), expected);
    let in_spans = SegmentUsage { free_bytes: 20 * MIB, ..usage(mount, 0) };
    bench.report(1, ShardReport::Usage(vec![in_spans]));
    let space = SegmentSpace { free_bytes: free_bytes + 20 * MIB, ..space };
    assert_eq!(told(&mut bench)[0].1, [space]);
    assert_eq!(told(&mut bench), []);
}

#[test]
fn of_many_segments_only_those_are_told_whose_space_has_changed() {
    let mut bench = Bench::new(2);
    let mounts: Vec<Mount> = (1..=500).map(|number| bench.mounted(number, 64 * MIB)).collect();
    let told = |bench: &mut Bench| {
        bench.wait_ms(10);
        let spaces = sent(&bench.take_orders(), |order| match order {
            PoolOrder::Space(spaces) => Some(spaces.clone()),
            _ => None,
        });
        let spaces = spaces.into_iter().filter(|(shard, _)| *shard == 0);
        spaces.flat_map(|(_, spaces)| spaces).map(|space| space.mount).collect::<Vec<_>>()
    };
    told(&mut bench);
    bench.span(0, mounts[17], 8 * MIB);
    bench.span(1, mounts[300], 8 * MIB);
    assert_eq!(told(&mut bench), [mounts[17], mounts[300]]);
    let late = bench.mounted(501, 64 * MIB);
    assert_eq!(told(&mut bench), [late]);
    assert_eq!(told(&mut bench), []);
}

#[test]
fn the_details_of_a_segment_tell_its_spans_and_where_its_free_bytes_are() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 64 * MIB);
    let before = bench.details().remove(0);
    assert_eq!((before.spans, before.free_page_bytes), (0, 64 * MIB));
    assert_eq!(before.largest_free_run_bytes, 64 * MIB);
    let granted: u64 = [0, 1]
        .map(|shard| u64::from(bench.span(shard, mount, MIB).unwrap().pages) * (64 << 10))
        .iter()
        .sum();
    let after = bench.details().remove(0);
    assert_eq!((after.spans, after.free_page_bytes), (2, 64 * MIB - granted));
    assert_eq!(after.eviction_debt_bytes, 0);
    assert_eq!(after.usage, bench.uses().remove(0));
}
