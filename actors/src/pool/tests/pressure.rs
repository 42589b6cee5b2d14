//! Eviction orders.

use super::*;

/// A segment of 1,000 pages: a page is a thousandth.
const CAPACITY: u64 = 1_000 * PAGE;

fn bench_of(shards: u16) -> (Bench, Mount) {
    let mut bench = Bench::new(shards);
    let mount = bench.mounted(1, CAPACITY);
    (bench, mount)
}

/// Reports one shard's use and gives the eviction orders that follow.
fn report(bench: &mut Bench, shard: u16, usage: SegmentUsage) -> Vec<(u16, u64)> {
    bench.orders.clear();
    bench.report(shard, ShardReport::Usage(vec![usage]));
    evictions(&bench.take_orders())
}

#[test]
fn eviction_starts_above_the_high_watermark_and_goes_below_it() {
    let (mut bench, mount) = bench_of(1);
    assert_eq!(report(&mut bench, 0, usage(mount, 900 * PAGE)), []);
    assert_eq!(report(&mut bench, 0, usage(mount, 910 * PAGE)), [(0, 60 * PAGE)]);
    assert_eq!(bench.totals().eviction_debt_bytes, 60 * PAGE);
}

// R26
#[test]
fn a_stale_report_does_not_double_an_order() {
    let (mut bench, mount) = bench_of(1);
    assert_eq!(report(&mut bench, 0, usage(mount, 910 * PAGE)), [(0, 60 * PAGE)]);
    assert_eq!(report(&mut bench, 0, usage(mount, 910 * PAGE)), []);
    let half = SegmentUsage { evicted_total_bytes: 30 * PAGE, ..usage(mount, 880 * PAGE) };
    assert_eq!(report(&mut bench, 0, half), []);
    assert_eq!(bench.totals().eviction_debt_bytes, 30 * PAGE);
    let paid = SegmentUsage { evicted_total_bytes: 60 * PAGE, ..usage(mount, 850 * PAGE) };
    assert_eq!(report(&mut bench, 0, paid), []);
    assert_eq!(bench.totals().eviction_debt_bytes, 0);
    let full = SegmentUsage { evicted_total_bytes: 60 * PAGE, ..usage(mount, 920 * PAGE) };
    assert_eq!(report(&mut bench, 0, full), [(0, 130 * PAGE)], "60 evicted and 70 more");
}

#[test]
fn holds_count_as_used_and_are_not_asked_for() {
    let (mut bench, mount) = bench_of(1);
    let held = SegmentUsage { held_bytes: 880 * PAGE, ..usage(mount, 40 * PAGE) };
    assert_eq!(report(&mut bench, 0, held), [(0, 40 * PAGE)], "all that can go");
}

#[test]
fn an_order_is_shared_by_what_each_shard_can_evict() {
    let (mut bench, mount) = bench_of(3);
    let leased = SegmentUsage { leased_bytes: 300 * PAGE, ..usage(mount, 300 * PAGE) };
    assert_eq!(report(&mut bench, 0, leased), []);
    assert_eq!(report(&mut bench, 1, usage(mount, 400 * PAGE)), []);
    let pinned = SegmentUsage { pinned_bytes: 20 * PAGE, ..usage(mount, 220 * PAGE) };
    assert_eq!(report(&mut bench, 2, pinned), [(1, 70 * PAGE * 2 / 3 + 1), (2, 70 * PAGE / 3 + 1)]);
}

#[test]
fn nothing_is_ordered_when_nothing_can_be_evicted() {
    let (mut bench, mount) = bench_of(2);
    let leased = SegmentUsage { leased_bytes: 500 * PAGE, ..usage(mount, 500 * PAGE) };
    let pinned = SegmentUsage { pinned_bytes: 490 * PAGE, ..usage(mount, 490 * PAGE) };
    assert_eq!(report(&mut bench, 0, leased), []);
    assert_eq!(report(&mut bench, 1, pinned), []);
    assert_eq!(bench.totals().eviction_debt_bytes, 0);
}

#[test]
fn debt_that_a_shard_can_not_pay_goes_to_one_that_can() {
    let (mut bench, mount) = bench_of(2);
    report(&mut bench, 0, usage(mount, 470 * PAGE));
    let first = report(&mut bench, 1, usage(mount, 470 * PAGE));
    assert_eq!(first, [(0, 45 * PAGE), (1, 45 * PAGE)]);
    let leased = SegmentUsage { leased_bytes: 470 * PAGE, ..usage(mount, 470 * PAGE) };
    assert_eq!(report(&mut bench, 0, leased), [(0, 0), (1, 90 * PAGE)]);
}

#[test]
fn an_order_that_removals_made_needless_is_taken_back() {
    let (mut bench, mount) = bench_of(2);
    report(&mut bench, 0, usage(mount, 470 * PAGE));
    report(&mut bench, 1, usage(mount, 470 * PAGE));
    let evicted = SegmentUsage { evicted_total_bytes: 5 * PAGE, ..usage(mount, 400 * PAGE) };
    let fewer = report(&mut bench, 0, evicted);
    assert_eq!(fewer, [(0, 5 * PAGE + 40 * PAGE * 20 / 85 + 1), (1, 45 * PAGE * 20 / 85 + 1)]);
    let removed = SegmentUsage { evicted_total_bytes: 7 * PAGE, ..usage(mount, 100 * PAGE) };
    assert_eq!(report(&mut bench, 0, removed), [(0, 7 * PAGE), (1, 0)], "stop where you are");
    assert_eq!(bench.totals().eviction_debt_bytes, 0);
}

#[test]
fn each_segment_has_its_own_pressure() {
    let (mut bench, mount) = bench_of(1);
    let other = bench.mounted(2, CAPACITY);
    assert_eq!(report(&mut bench, 0, usage(other, 100 * PAGE)), []);
    bench.orders.clear();
    bench.report(0, ShardReport::Usage(vec![usage(mount, 950 * PAGE)]));
    let order = PoolOrder::Evict { mount, evicted_total_bytes: 100 * PAGE };
    assert_eq!(bench.take_orders(), [(0, order)]);
}

#[test]
fn a_draining_segment_evicts_nothing() {
    let (mut bench, mount) = bench_of(1);
    report(&mut bench, 0, usage(mount, 950 * PAGE));
    bench.unmount(None, 1, 60_000);
    assert_eq!(evictions(&bench.take_orders()), [(0, 0)], "the order is taken back");
    assert_eq!(report(&mut bench, 0, usage(mount, 990 * PAGE)), []);
}

#[test]
fn eviction_brings_a_segment_to_the_low_mark_and_never_far_below() {
    let (mut bench, mount) = bench_of(4);
    let mut shares = [usage(mount, 0); 4];
    let mut ordered = [0_u64; 4];
    let mut state = 1_u64;
    for round in 0..4_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let shard = (state >> 33) as usize % 4;
        let used: u64 = shares.iter().map(|share| share.allocated_bytes).sum();
        let share = &mut shares[shard];
        if used < CAPACITY {
            share.allocated_bytes += PAGE.min(CAPACITY - used);
        }
        // Eviction in slices, as far as it was ordered.
        let owed = ordered[shard].saturating_sub(share.evicted_total_bytes);
        let slice = owed.min(3 * PAGE).min(share.allocated_bytes);
        share.allocated_bytes -= slice;
        share.evicted_total_bytes += slice;
        let share = *share;
        for (to, total) in report(&mut bench, shard as u16, share) {
            ordered[usize::from(to)] = total;
        }
        if round > 1_500 {
            assert!(used >= 845 * PAGE, "{} pages in round {round}", used / PAGE);
            assert!(used <= 905 * PAGE, "{} pages in round {round}", used / PAGE);
        }
    }
    assert!(shares.iter().all(|share| share.evicted_total_bytes > 0));
}
