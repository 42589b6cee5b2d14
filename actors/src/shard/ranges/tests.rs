mod aliens;
mod laying;
mod model;
mod replay;

use std::ops::ControlFlow;

use super::{GRANULE_BYTES, RangeHandle, RangeState, Ranges, Recency, SegmentIndex};
use crate::pages::PageRun;

const SEGMENT: SegmentIndex = SegmentIndex(3);
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

#[test]
fn an_exact_fit_takes_the_range_whole() {
    let mut ranges = with_spans(&[PageRun::new(0, 1)]);
    let whole = allocate(&mut ranges, PAGE);
    assert_eq!(ranges.length_bytes(whole), PAGE);
    assert_eq!(ranges.free_bytes(SEGMENT), 0);
    assert_eq!(layout(&ranges), [(0, PAGE, RangeState::Used)]);
}

#[test]
fn a_request_is_rounded_up_to_a_granule_and_the_rest_stays_free() {
    let mut ranges = with_spans(&[PageRun::new(0, 1)]);
    let small = allocate(&mut ranges, 65);
    assert_eq!(ranges.length_bytes(small), 128);
    assert_eq!(ranges.allocated_bytes(SEGMENT), 128);
    assert_eq!(layout(&ranges), [(0, 128, RangeState::Used), (128, PAGE - 128, RangeState::Free)]);
    let least = allocate(&mut ranges, 0);
    assert_eq!(ranges.length_bytes(least), GRANULE_BYTES);
}

#[test]
fn a_freed_range_merges_with_both_neighbours() {
    let mut ranges = with_spans(&[PageRun::new(0, 1)]);
    let [below, middle, above, last] = [1024; 4].map(|size| allocate(&mut ranges, size));
    ranges.free(below);
    ranges.free(above);
    let used =
        |range: RangeHandle, ranges: &Ranges| (ranges.offset_bytes(range), 1024, RangeState::Used);
    assert_eq!(
        layout(&ranges),
        [
            (0, 1024, RangeState::Free),
            used(middle, &ranges),
            (2048, 1024, RangeState::Free),
            used(last, &ranges),
        ]
    );
    ranges.free(middle);
    assert_eq!(layout(&ranges), [(0, 3072, RangeState::Free), used(last, &ranges)]);
    ranges.free(last);
    assert_eq!(layout(&ranges), [(0, PAGE, RangeState::Free)]);
}

#[test]
fn the_tightest_of_the_free_ranges_of_one_bin_is_taken() {
    let mut ranges = with_spans(&[PageRun::new(0, 4)]);
    // Sizes of 64 to 71 granules share a bin.
    let sizes = [70, 66, 68];
    let holes = sizes.map(|granules| {
        let hole = allocate(&mut ranges, granules * GRANULE_BYTES);
        allocate(&mut ranges, 1);
        (hole, ranges.offset_bytes(hole))
    });
    for (hole, _) in holes {
        ranges.free(hole);
    }
    let taken = allocate(&mut ranges, 65 * GRANULE_BYTES);
    assert_eq!(ranges.offset_bytes(taken), holes[1].1);
}

#[test]
fn a_fit_deep_in_a_bin_is_found_before_a_request_is_refused() {
    let mut ranges = with_spans(&[PageRun::new(0, 64)]);
    let fits = allocate(&mut ranges, 67 * GRANULE_BYTES);
    allocate(&mut ranges, 1);
    let short: Vec<_> = (0..40)
        .map(|_| {
            let short = allocate(&mut ranges, 65 * GRANULE_BYTES);
            allocate(&mut ranges, 1);
            short
        })
        .collect();
    while ranges.allocate(SEGMENT, 1, 0).is_some() {}
    ranges.free(fits);
    for range in short {
        ranges.free(range);
    }
    assert_eq!(ranges.largest_free_bytes(SEGMENT), 67 * GRANULE_BYTES);
    assert!(ranges.can_fit(SEGMENT, 66 * GRANULE_BYTES));
    allocate(&mut ranges, 66 * GRANULE_BYTES);
    assert!(!ranges.can_fit(SEGMENT, 66 * GRANULE_BYTES));
}

#[test]
fn a_size_beyond_any_segment_is_refused() {
    let mut ranges = with_spans(&[PageRun::new(0, 16)]);
    for size_bytes in [16 * PAGE + 1, 1 << 50, u64::MAX - 1, u64::MAX] {
        assert!(!ranges.can_fit(SEGMENT, size_bytes));
        assert_eq!(ranges.allocate(SEGMENT, size_bytes, 0), None);
    }
    assert_eq!(ranges.allocate(SegmentIndex(9), 1, 0), None, "that segment isn't open");
    assert_eq!(ranges.free_bytes(SEGMENT), 16 * PAGE);
}

#[test]
fn spans_that_touch_merge_whichever_comes_first() {
    for order in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 0, 2]] {
        let mut ranges = with_spans(&[]);
        for part in order {
            ranges.grant(SEGMENT, PageRun::new(10 + part * 2, 2));
            ranges.check().unwrap();
        }
        assert_eq!(layout(&ranges), [(10 * PAGE, 6 * PAGE, RangeState::Free)]);
        assert_eq!(ranges.capacity_bytes(SEGMENT), 6 * PAGE);
        allocate(&mut ranges, 6 * PAGE);
    }
}

#[test]
fn a_granted_span_joins_used_neighbours_without_moving_them() {
    let mut ranges = with_spans(&[PageRun::new(0, 1), PageRun::new(2, 1)]);
    let [low, high] = [PAGE; 2].map(|size| allocate(&mut ranges, size));
    let offsets = [low, high].map(|range| ranges.offset_bytes(range));
    ranges.grant(SEGMENT, PageRun::new(1, 1));
    assert_eq!([low, high].map(|range| ranges.offset_bytes(range)), offsets);
    ranges.free(low);
    ranges.free(high);
    assert_eq!(layout(&ranges), [(0, 3 * PAGE, RangeState::Free)]);
}

#[test]
#[should_panic(expected = "no-overlap: ")]
fn a_page_that_is_owned_already_is_not_granted_again() {
    let mut ranges = with_spans(&[PageRun::new(4, 4)]);
    ranges.grant(SEGMENT, PageRun::new(2, 3));
}

#[test]
fn giving_inner_pages_back_cuts_the_span_in_two() {
    let mut ranges = with_spans(&[PageRun::new(0, 8)]);
    let low = allocate(&mut ranges, PAGE / 2);
    let given = ranges.take_pages(SEGMENT, PageRun::new(2, 3));
    ranges.check().unwrap();
    assert_eq!(given, [PageRun::new(2, 3)]);
    assert_eq!(ranges.capacity_bytes(SEGMENT), 5 * PAGE);
    let lower = (PAGE / 2, 2 * PAGE - PAGE / 2, RangeState::Free);
    let upper = (5 * PAGE, 3 * PAGE, RangeState::Free);
    assert_eq!(layout(&ranges), [(0, PAGE / 2, RangeState::Used), lower, upper]);
    ranges.free(low);
    assert_eq!(layout(&ranges), [(0, 2 * PAGE, RangeState::Free), upper]);
    ranges.grant(SEGMENT, PageRun::new(2, 3));
    assert_eq!(layout(&ranges), [(0, 8 * PAGE, RangeState::Free)]);
}

#[test]
fn only_wholly_free_pages_of_a_window_are_given_back() {
    let mut ranges = with_spans(&[PageRun::new(0, 8)]);
    let blocks = [PAGE / 2; 16].map(|size| allocate(&mut ranges, size));
    for block in [0, 1, 3, 4, 5, 8, 9, 10, 11, 12] {
        ranges.free(blocks[block]);
    }
    let given = ranges.take_pages(SEGMENT, PageRun::new(1, 4));
    ranges.check().unwrap();
    assert_eq!(given, [PageRun::new(2, 1), PageRun::new(4, 1)]);
    assert_eq!(
        ranges.take_pages(SEGMENT, PageRun::new(0, 8)),
        [PageRun::new(0, 1), PageRun::new(5, 1)]
    );
    ranges.check().unwrap();
}

#[test]
fn the_largest_free_ranges_are_given_back_first() {
    let mut ranges = with_spans(&[PageRun::new(0, 2), PageRun::new(10, 40), PageRun::new(100, 9)]);
    assert_eq!(
        ranges.take_free_pages(SEGMENT, 41, 4),
        [
            PageRun::new(10, 40),
            // One is missing, but a run below four is of no use.
            PageRun::new(100, 4)
        ]
    );
    assert_eq!(ranges.take_free_pages(SEGMENT, 100, 4), [PageRun::new(104, 5)]);
    assert_eq!(ranges.take_free_pages(SEGMENT, 100, 4), []);
    assert_eq!(ranges.take_free_pages(SEGMENT, 100, 0), [PageRun::new(0, 2)]);
    ranges.check().unwrap();
    assert_eq!(ranges.capacity_bytes(SEGMENT), 0);
    assert_eq!(ranges.nodes.live(), 0);
}

#[test]
fn objects_of_one_size_fill_a_span_completely() {
    let rounded = 470_000_u64.next_multiple_of(GRANULE_BYTES);
    let pages = 1 << 15;
    let fitting = u64::from(pages) * PAGE / rounded;
    let mut ranges = with_spans(&[PageRun::new(0, pages)]);
    let mut objects = Vec::new();
    while let Some(range) = ranges.allocate(SEGMENT, 470_000, 0) {
        objects.push(range);
    }
    assert_eq!(objects.len() as u64, fitting);
    // Holes in any pattern take the same number again.
    for round in 2..5 {
        let (freed, kept): (Vec<_>, Vec<_>) =
            objects.iter().enumerate().partition(|(index, _)| index % round == 0);
        for (_, range) in freed {
            ranges.free(*range);
        }
        objects = kept.into_iter().map(|(_, range)| *range).collect();
        while let Some(range) = ranges.allocate(SEGMENT, 470_000, 0) {
            objects.push(range);
        }
        assert_eq!(objects.len() as u64, fitting);
    }
    ranges.check().unwrap();
}

#[test]
fn recency_lists_run_from_the_oldest_to_the_newest() {
    let mut ranges = with_spans(&[PageRun::new(0, 8)]);
    let [a, b, c] = [PAGE; 3].map(|size| allocate(&mut ranges, size));
    for range in [a, b, c] {
        assert_eq!(ranges.listed(range), None);
        ranges.push_newest(range, Recency::Idle);
    }
    assert_eq!(list(&ranges, Recency::Idle), [a, b, c]);
    ranges.push_newest(a, Recency::Idle);
    ranges.push_newest(b, Recency::Leased);
    assert_eq!(list(&ranges, Recency::Idle), [c, a]);
    assert_eq!(list(&ranges, Recency::Leased), [b]);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Idle), 2 * PAGE);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Leased), PAGE);
    ranges.free(c);
    ranges.hold(a, 77);
    assert_eq!(list(&ranges, Recency::Idle), []);
    assert_eq!((ranges.state(a), ranges.owner(a)), (RangeState::Held, 77));
    ranges.unlist(b);
    assert_eq!(ranges.listed(b), None);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Leased), 0);
    ranges.check().unwrap();
}

#[test]
fn what_was_restored_is_older_than_what_was_put_since() {
    let mut ranges = with_spans(&[PageRun::new(0, 8)]);
    let [put, a, b, c, d] = [PAGE; 5].map(|size| allocate(&mut ranges, size));
    ranges.push_newest(put, Recency::Idle);
    for range in [a, b, c] {
        ranges.push_newest(range, Recency::Leased);
        ranges.push_restored(range, Recency::Idle);
    }
    assert_eq!(list(&ranges, Recency::Idle), [a, b, c, put]);
    ranges.free(c);
    ranges.push_newest(a, Recency::Idle);
    ranges.push_restored(d, Recency::Idle);
    assert_eq!(list(&ranges, Recency::Idle), [b, d, put, a]);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Idle), 4 * PAGE);
    ranges.check().unwrap();
}

#[test]
fn held_bytes_are_neither_allocated_nor_free() {
    let mut ranges = with_spans(&[PageRun::new(0, 4)]);
    let held = allocate(&mut ranges, PAGE);
    ranges.hold(held, 5);
    assert_eq!(ranges.allocated_bytes(SEGMENT), 0);
    assert_eq!(ranges.held_bytes(SEGMENT), PAGE);
    assert_eq!(ranges.free_bytes(SEGMENT), 3 * PAGE);
    assert_eq!(ranges.take_free_pages(SEGMENT, 4, 1), [PageRun::new(1, 3)]);
    ranges.free(held);
    assert_eq!(ranges.held_bytes(SEGMENT), 0);
    assert_eq!(ranges.free_bytes(SEGMENT), PAGE);
}

#[test]
fn a_sweep_comes_to_every_occupied_range_once() {
    let mut ranges = with_spans(&[]);
    for span in 0..100 {
        ranges.grant(SEGMENT, PageRun::new(span * 3, 2));
    }
    let mut occupied = 0;
    while ranges.allocate(SEGMENT, 1000, 0).is_some() {
        occupied += 1;
    }
    let mut swept = 0;
    while let Some(range) = ranges.first_in(SEGMENT) {
        ranges.free(range);
        swept += 1;
    }
    assert_eq!(swept, occupied);
    assert_eq!(ranges.free_bytes(SEGMENT), 200 * PAGE);
    let late = allocate(&mut ranges, 1);
    assert_eq!(ranges.first_in(SEGMENT), Some(late));
    ranges.check().unwrap();
}

#[test]
fn a_closed_segment_leaves_no_node_and_may_open_again() {
    let mut ranges = with_spans(&[PageRun::new(0, 4), PageRun::new(6, 1)]);
    let kept = allocate(&mut ranges, 100);
    ranges.hold(kept, 1);
    let other = SegmentIndex(0);
    ranges.open_segment(other, 1 << 16);
    ranges.grant(other, PageRun::new(0, 1));
    ranges.close_segment(SEGMENT);
    assert_eq!(ranges.nodes.live(), 2, "a free range and an end are left on the other segment");
    assert_eq!(ranges.capacity_bytes(SEGMENT), 0);
    ranges.open_segment(SEGMENT, 4096);
    ranges.grant(SEGMENT, PageRun::new(3, 1));
    assert_eq!(layout(&ranges), [(3 * PAGE, PAGE, RangeState::Free)]);
    ranges.check().unwrap();
}

#[test]
fn a_window_deep_in_a_huge_span_is_found() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, 1 << 16);
    // 512 GiB: the first range covers half of it, the rest is free.
    let pages = 1 << 23;
    ranges.grant(SEGMENT, PageRun::new(5, pages));
    let half = u64::from(pages / 2) << 16;
    let huge = allocate(&mut ranges, half);
    let small = allocate(&mut ranges, 100);
    let offset = |page: u64| page << 16;
    let free = (ranges.offset_bytes(small) + 128, half - 128, RangeState::Free);
    for (window, expected) in [
        (PageRun::new(5 + pages / 4, 10), vec![(offset(5), half, RangeState::Used)]),
        (PageRun::new(5 + pages / 4 * 3, 10), vec![free]),
        (PageRun::new(5 + pages / 2, 1), vec![(offset(5) + half, 128, RangeState::Used), free]),
        (PageRun::new(5 + pages, 10), vec![]),
        (PageRun::new(0, 5), vec![]),
    ] {
        assert_eq!(walk(&ranges, window, None), expected);
    }
    ranges.free(huge);
    ranges.free(small);
    allocate(&mut ranges, 2 * half);
}

#[test]
fn a_window_is_not_looked_for_in_the_span_below() {
    let mut ranges = with_spans(&[PageRun::new(0, 1), PageRun::new(2, 1022)]);
    // Both spans begin in the first MiB, and no range begins in those after it.
    let upper = (2 * PAGE, 1022 * PAGE, RangeState::Free);
    assert_eq!(walk(&ranges, PageRun::new(700, 1), None), [upper]);
    allocate(&mut ranges, 1022 * PAGE);
    let upper = (2 * PAGE, 1022 * PAGE, RangeState::Used);
    assert_eq!(walk(&ranges, PageRun::new(700, 1), None), [upper]);
}

#[test]
fn a_walk_goes_on_where_an_earlier_one_broke_off() {
    let mut ranges = with_spans(&[PageRun::new(0, 2), PageRun::new(3, 2)]);
    while ranges.allocate(SEGMENT, 1024, 0).is_some() {}
    let window = PageRun::new(0, 5);
    let mut stop = None;
    let mut seen = 0;
    ranges.walk_window(SEGMENT, window, None, |range, _| {
        seen += 1;
        stop = Some(range);
        if seen == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let rest = walk(&ranges, window, stop);
    assert_eq!(rest, layout(&ranges)[5..]);
    assert_eq!(rest.len(), 11);
}

#[test]
fn a_million_pairs_of_allocate_and_free_leave_no_trace() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, 1 << 16);
    ranges.grant(SEGMENT, PageRun::new(0, 1 << 14));
    let mut live = std::collections::VecDeque::new();
    for round in 0..1_000_000_u64 {
        // An odd multiplier spreads sizes over 1 byte to 512 KiB.
        let size_bytes = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (512 << 10) + 1;
        live.push_back(allocate(&mut ranges, size_bytes));
        if live.len() > 1000 {
            ranges.free(live.pop_front().unwrap());
        }
    }
    ranges.check().unwrap();
    for range in live {
        ranges.free(range);
    }
    assert_eq!(ranges.nodes.live(), 2);
    assert_eq!(ranges.largest_free_bytes(SEGMENT), 1024 * MIB);
}

fn with_spans(spans: &[PageRun]) -> Ranges {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    for span in spans {
        ranges.grant(SEGMENT, *span);
    }
    ranges
}

fn allocate(ranges: &mut Ranges, size_bytes: u64) -> RangeHandle {
    ranges.allocate(SEGMENT, size_bytes, 0).expect("there is room")
}

/// Offset, length and state of every range in the segment.
fn layout(ranges: &Ranges) -> Vec<(u64, u64, RangeState)> {
    ranges.check().unwrap();
    walk(ranges, PageRun::new(0, 1 << 24), None)
}

fn walk(
    ranges: &Ranges,
    window: PageRun,
    from: Option<RangeHandle>,
) -> Vec<(u64, u64, RangeState)> {
    let mut found = Vec::new();
    ranges.walk_window(SEGMENT, window, from, |range, state| {
        found.push((ranges.offset_bytes(range), ranges.length_bytes(range), state));
        ControlFlow::Continue(())
    });
    found
}

fn list(ranges: &Ranges, recency: Recency) -> Vec<RangeHandle> {
    std::iter::successors(ranges.oldest(SEGMENT, recency), |range| ranges.newer(*range)).collect()
}
