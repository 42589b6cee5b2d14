use super::super::{GRANULE_BYTES, LayError, RangeHandle, RangeState, Ranges, Recency};
use super::{MIB, PAGE, SEGMENT, SegmentIndex, allocate, layout, list};
use crate::pages::PageRun;

const CAPACITY: u64 = 64 * PAGE;

#[test]
fn the_spans_are_the_pages_that_ranges_touch() {
    let mut ranges = being_laid();
    for (offset, length) in [
        // Two that touch, and one that shares their page.
        (PAGE + 128, 64),
        (PAGE + 192, 1000),
        (2 * PAGE - 64, 64),
        // Begins on the page after, so the spans merge.
        (2 * PAGE + 640, 64),
        // Leaves a page out, and reaches over three.
        (5 * PAGE - 64, 2 * PAGE),
        // Begins and ends with a page.
        (10 * PAGE, PAGE),
    ] {
        lay(&mut ranges, offset, length, RangeState::Used);
    }
    assert_eq!(
        ranges.end_laying(SEGMENT),
        [PageRun::new(1, 2), PageRun::new(4, 3), PageRun::new(10, 1)]
    );
    let (free, used) = (RangeState::Free, RangeState::Used);
    assert_eq!(
        layout(&ranges),
        [
            (PAGE, 128, free),
            (PAGE + 128, 64, used),
            (PAGE + 192, 1024, used),
            (PAGE + 1216, PAGE - 1280, free),
            (2 * PAGE - 64, 64, used),
            (2 * PAGE, 640, free),
            (2 * PAGE + 640, 64, used),
            (2 * PAGE + 704, PAGE - 704, free),
            (4 * PAGE, PAGE - 64, free),
            (5 * PAGE - 64, 2 * PAGE, used),
            (7 * PAGE - 64, 64, free),
            (10 * PAGE, PAGE, used),
        ]
    );
    assert_eq!(ranges.capacity_bytes(SEGMENT), 6 * PAGE);
}

#[test]
fn one_range_can_take_the_whole_segment() {
    let mut ranges = being_laid();
    let whole = lay(&mut ranges, 0, CAPACITY, RangeState::Used);
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, 64)]);
    assert_eq!(layout(&ranges), [(0, CAPACITY, RangeState::Used)]);
    ranges.free(whole);
    allocate(&mut ranges, CAPACITY);
}

#[test]
fn a_segment_can_be_laid_without_any_range() {
    let mut ranges = being_laid();
    assert_eq!(ranges.end_laying(SEGMENT), []);
    assert_eq!(layout(&ranges), []);
    ranges.grant(SEGMENT, PageRun::new(7, 1));
    assert_eq!(layout(&ranges), [(7 * PAGE, PAGE, RangeState::Free)]);
}

#[test]
fn gaps_between_laid_ranges_are_free_for_others() {
    let mut ranges = being_laid();
    lay(&mut ranges, 0, 1024, RangeState::Used);
    lay(&mut ranges, 3072, 1024, RangeState::Held);
    ranges.end_laying(SEGMENT);
    assert_eq!(ranges.largest_free_bytes(SEGMENT), 2048);
    let between = allocate(&mut ranges, 2048);
    assert_eq!(ranges.offset_bytes(between), 1024);
    assert_eq!(ranges.free_bytes(SEGMENT), 0);
}

#[test]
fn laid_ranges_keep_state_owner_and_length() {
    let mut ranges = being_laid();
    for (page, state) in (0..).zip([RangeState::Used, RangeState::Held, RangeState::Foreign]) {
        let owner = page as u32 + 70;
        let range = ranges.lay(SEGMENT, page * PAGE, 1000, state, owner).unwrap();
        assert_eq!((ranges.state(range), ranges.owner(range)), (state, owner));
        assert_eq!((ranges.offset_bytes(range), ranges.length_bytes(range)), (page * PAGE, 1024));
        assert_eq!((ranges.sibling(range), ranges.listed(range)), (RangeHandle::NONE, None));
    }
    ranges.end_laying(SEGMENT);
    ranges.check().unwrap();
    assert_eq!(ranges.allocated_bytes(SEGMENT), 1024);
    assert_eq!(ranges.held_bytes(SEGMENT), 1024);
    assert_eq!(ranges.foreign_bytes(SEGMENT), 1024);
    assert_eq!(ranges.free_bytes(SEGMENT), 3 * (PAGE - 1024));
}

#[test]
fn a_range_enters_a_recency_list_as_soon_as_it_is_laid() {
    let mut ranges = being_laid();
    let laid = [0, 4096, 8192].map(|offset| {
        let range = lay(&mut ranges, offset, 100, RangeState::Used);
        ranges.push_newest(range, Recency::Leased);
        range
    });
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Leased), 3 * 128);
    ranges.end_laying(SEGMENT);
    ranges.check().unwrap();
    assert_eq!(list(&ranges, Recency::Leased), laid);
}

#[test]
fn leased_ranges_are_listed_by_rank_and_within_one_in_the_order_of_their_listing() {
    let mut ranges = being_laid();
    let first = lay(&mut ranges, 0, 4096, RangeState::Used);
    ranges.lease_laid(first, 2);
    let alien = ranges.alien(SEGMENT, 30 * PAGE, 1000, 0).unwrap();
    ranges.lease_laid(alien, 7);
    let laid = [(4096, 7), (8192, 0), (12288, 2)].map(|(offset, rank)| {
        let range = lay(&mut ranges, offset, 100, RangeState::Used);
        ranges.lease_laid(range, rank);
        range
    });
    let unlisted = lay(&mut ranges, 16384, 100, RangeState::Used);
    assert_eq!(ranges.oldest(SEGMENT, Recency::Leased), None, "they are listed at the end");
    ranges.end_laying(SEGMENT);
    ranges.check().unwrap();
    assert_eq!(list(&ranges, Recency::Leased), [alien, laid[0], first, laid[2], laid[1]]);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Leased), 1024 + 4096 + 3 * 128);
    assert_eq!(ranges.listed(unlisted), None);
    ranges.push_newest(first, Recency::Idle);
    ranges.free(alien);
    ranges.check().unwrap();
}

#[test]
fn a_segment_that_is_given_up_halfway_leaves_no_leased_range() {
    let mut ranges = being_laid();
    let own = lay(&mut ranges, 0, 100, RangeState::Used);
    let alien = ranges.alien(SEGMENT, 20 * PAGE, 100, 0).unwrap();
    ranges.alien(SEGMENT, 21 * PAGE, 100, 0).unwrap();
    ranges.lease_laid(own, 1);
    ranges.lease_laid(alien, 1);
    ranges.close_segment(SEGMENT);
    assert_eq!(ranges.nodes.live(), 0);
    ranges.check().unwrap();
}

#[test]
fn a_range_that_does_not_fit_is_refused_and_the_next_one_is_not() {
    let mut ranges = being_laid();
    let outside = |offset_bytes| LayError::Outside { offset_bytes };
    let overlap = |offset_bytes| LayError::Overlap { offset_bytes };
    let out_of_order = |offset_bytes| LayError::OutOfOrder { offset_bytes };
    let misaligned = |offset_bytes| LayError::Misaligned { offset_bytes };
    refuse(&mut ranges, CAPACITY, 1, outside);
    refuse(&mut ranges, CAPACITY - 64, 65, outside);
    refuse(&mut ranges, 0, CAPACITY + 1, outside);
    refuse(&mut ranges, 1, 1, misaligned);
    refuse(&mut ranges, u64::MAX, u64::MAX, misaligned);
    refuse(&mut ranges, u64::MAX - 63, u64::MAX, outside);
    refuse(&mut ranges, 64, u64::MAX, outside);
    lay(&mut ranges, 1024, 1024, RangeState::Used);
    refuse(&mut ranges, 1024, 1024, overlap);
    refuse(&mut ranges, 1984, 64, overlap);
    refuse(&mut ranges, 960, 64, out_of_order);
    refuse(&mut ranges, 0, 1024, out_of_order);
    refuse(&mut ranges, 2049, 1, misaligned);
    lay(&mut ranges, 2048, 1024, RangeState::Used);
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, 1)]);
    let used = |offset| (offset, 1024, RangeState::Used);
    let free = |offset| (offset, 1024, RangeState::Free);
    assert_eq!(layout(&ranges), [free(0), used(1024), used(2048), free(3072)]);
}

#[test]
fn a_last_page_that_is_not_whole_is_outside() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.begin_laying(SEGMENT, 2 * PAGE - 1);
    let laid = ranges.lay(SEGMENT, PAGE, 64, RangeState::Used, 0);
    assert_eq!(laid, Err(LayError::Outside { offset_bytes: PAGE }));
    lay(&mut ranges, PAGE - 64, 64, RangeState::Used);
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, 1)]);
}

#[test]
fn pages_beyond_those_that_have_a_number_are_outside() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, 1 << 16);
    ranges.begin_laying(SEGMENT, u64::MAX);
    let end_bytes = u64::from(u32::MAX) << 16;
    let laid = ranges.lay(SEGMENT, end_bytes - 64, 65, RangeState::Used, 0);
    assert_eq!(laid, Err(LayError::Outside { offset_bytes: end_bytes - 64 }));
    lay(&mut ranges, 0, end_bytes, RangeState::Held);
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, u32::MAX)]);
    assert_eq!(ranges.held_bytes(SEGMENT), end_bytes);
    ranges.check().unwrap();
}

#[test]
fn a_segment_that_is_given_up_halfway_leaves_nothing() {
    let mut ranges = being_laid();
    lay(&mut ranges, 0, 100, RangeState::Used);
    lay(&mut ranges, 10 * PAGE + 64, 100, RangeState::Foreign);
    let listed = lay(&mut ranges, 11 * PAGE, 100, RangeState::Used);
    ranges.push_newest(listed, Recency::Idle);
    ranges.alien(SEGMENT, 20 * PAGE, 100, 0).unwrap();
    assert!(ranges.lay(SEGMENT, 0, 100, RangeState::Used, 0).is_err());
    ranges.close_segment(SEGMENT);
    assert_eq!(ranges.nodes.live(), 0);
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.begin_laying(SEGMENT, CAPACITY);
    ranges.close_segment(SEGMENT);
    ranges.check().unwrap();
}

#[test]
fn what_was_laid_can_be_freed_before_the_end() {
    let mut ranges = being_laid();
    let first = lay(&mut ranges, 0, 1024, RangeState::Used);
    lay(&mut ranges, 1024, 1024, RangeState::Used);
    let last = lay(&mut ranges, 2048, 1024, RangeState::Held);
    ranges.free(first);
    ranges.free(last);
    lay(&mut ranges, 3584, 512, RangeState::Used);
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, 1)]);
    assert_eq!(
        layout(&ranges),
        [
            (0, 1024, RangeState::Free),
            (1024, 1024, RangeState::Used),
            (2048, 1536, RangeState::Free),
            (3584, 512, RangeState::Used),
        ]
    );
}

#[test]
fn segments_can_be_laid_in_turns() {
    let mut ranges = being_laid();
    let other = SegmentIndex(0);
    ranges.open_segment(other, 1 << 16);
    ranges.begin_laying(other, MIB);
    for step in 0..8 {
        lay(&mut ranges, step * PAGE, 100, RangeState::Used);
        ranges.lay(other, step << 17, 100, RangeState::Used, 0).unwrap();
    }
    assert_eq!(ranges.end_laying(SEGMENT), [PageRun::new(0, 8)]);
    let every_other: Vec<_> = (0..8).map(|step| PageRun::new(step * 2, 1)).collect();
    assert_eq!(ranges.end_laying(other), every_other);
    ranges.check().unwrap();
}

#[test]
fn laid_spans_grow_shrink_and_are_swept_like_others() {
    let mut ranges = being_laid();
    for page in [4, 5, 9] {
        lay(&mut ranges, page * PAGE + 64, 64, RangeState::Used);
    }
    ranges.end_laying(SEGMENT);
    ranges.grant(SEGMENT, PageRun::new(6, 3));
    ranges.check().unwrap();
    assert_eq!(ranges.take_pages(SEGMENT, PageRun::new(0, 64)), [PageRun::new(6, 3)]);
    let mut swept = Vec::new();
    while let Some(range) = ranges.first_in(SEGMENT) {
        swept.push(ranges.offset_bytes(range) / PAGE);
        ranges.free(range);
    }
    assert_eq!(swept, [4, 5, 9]);
    assert_eq!(ranges.take_free_pages(SEGMENT, 64, 1).len(), 2);
    assert_eq!(ranges.nodes.live(), 0);
    ranges.check().unwrap();
}

#[test]
fn a_range_is_found_by_the_offset_at_which_it_begins() {
    let mut ranges = being_laid();
    let used = lay(&mut ranges, 64, 128, RangeState::Used);
    let held = lay(&mut ranges, 192, 64, RangeState::Held);
    let foreign = lay(&mut ranges, 30 * PAGE, 2 * PAGE, RangeState::Foreign);
    ranges.end_laying(SEGMENT);
    let found = [64, 192, 30 * PAGE].map(|offset| ranges.find_at(SEGMENT, offset));
    assert_eq!(found, [Some(used), Some(held), Some(foreign)]);
    for offset_bytes in [0, 65, 128, 256, PAGE, 31 * PAGE, 32 * PAGE, 1 << 50, u64::MAX - 63] {
        assert_eq!(ranges.find_at(SEGMENT, offset_bytes), None, "{offset_bytes}");
    }
    assert_eq!(ranges.find_at(SegmentIndex(9), 64), None, "that segment isn't open");
}

#[test]
#[should_panic(expected = "no pages come while ranges are laid down")]
fn no_pages_are_granted_while_ranges_are_laid_down() {
    being_laid().grant(SEGMENT, PageRun::new(0, 1));
}

#[test]
#[should_panic(expected = "only in a segment without spans")]
fn a_segment_with_spans_is_not_laid() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.grant(SEGMENT, PageRun::new(0, 1));
    ranges.begin_laying(SEGMENT, CAPACITY);
}

fn refuse(ranges: &mut Ranges, offset_bytes: u64, length: u64, expected: fn(u64) -> LayError) {
    let laid = ranges.lay(SEGMENT, offset_bytes, length, RangeState::Used, 0);
    assert_eq!(laid, Err(expected(offset_bytes)));
}

fn being_laid() -> Ranges {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.begin_laying(SEGMENT, CAPACITY);
    ranges
}

fn lay(ranges: &mut Ranges, offset: u64, length: u64, state: RangeState) -> RangeHandle {
    let laid = ranges.lay(SEGMENT, offset, length, state, 0).unwrap();
    assert_eq!(ranges.length_bytes(laid), length.next_multiple_of(GRANULE_BYTES));
    laid
}
