use super::super::{LayError, RangeHandle, RangeState, Ranges, Recency};
use super::{PAGE, SEGMENT, SegmentIndex, allocate, layout, list, with_spans};
use crate::pages::PageRun;

#[test]
fn foreign_bytes_are_neither_allocated_nor_held_nor_free() {
    let (mut ranges, foreign) = with_foreign();
    assert_eq!(ranges.foreign_bytes(SEGMENT), PAGE);
    assert_eq!(ranges.allocated_bytes(SEGMENT), 0);
    assert_eq!(ranges.held_bytes(SEGMENT), 0);
    assert_eq!(ranges.free_bytes(SEGMENT), PAGE);
    assert_eq!(ranges.first_in(SEGMENT), Some(foreign));
    assert_eq!(ranges.take_pages(SEGMENT, PageRun::new(0, 9)), []);
    ranges.free(foreign);
    assert_eq!(ranges.foreign_bytes(SEGMENT), 0);
    assert_eq!(layout(&ranges), [(0, 2 * PAGE, RangeState::Free)]);
}

#[test]
fn a_foreign_range_can_be_held() {
    let (mut ranges, foreign) = with_foreign();
    ranges.hold(foreign, 9);
    assert_eq!((ranges.state(foreign), ranges.owner(foreign)), (RangeState::Held, 9));
    assert_eq!((ranges.foreign_bytes(SEGMENT), ranges.held_bytes(SEGMENT)), (0, PAGE));
    ranges.check().unwrap();
    ranges.free(foreign);
    assert_eq!(layout(&ranges), [(0, 2 * PAGE, RangeState::Free)]);
}

#[test]
#[should_panic(expected = "only what an object of this shard uses has a recency")]
fn a_foreign_range_has_no_recency() {
    let (mut ranges, foreign) = with_foreign();
    ranges.push_newest(foreign, Recency::Idle);
}

#[test]
fn alien_bytes_are_allocated_and_listed_outside_of_all_spans() {
    let mut ranges = with_spans(&[PageRun::new(0, 2)]);
    let own = allocate(&mut ranges, PAGE);
    ranges.push_newest(own, Recency::Idle);
    let before = layout(&ranges);
    let alien = ranges.alien(SEGMENT, 8 * PAGE, 1000, 7).unwrap();
    ranges.push_newest(alien, Recency::Idle);
    assert_eq!([own, alien].map(|range| ranges.is_alien(range)), [false, true]);
    assert_eq!((ranges.state(alien), ranges.owner(alien)), (RangeState::Used, 7));
    assert_eq!((ranges.offset_bytes(alien), ranges.length_bytes(alien)), (8 * PAGE, 1024));
    assert_eq!(ranges.segment(alien), SEGMENT);
    assert_eq!(list(&ranges, Recency::Idle), [own, alien]);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::Idle), PAGE + 1024);
    assert_eq!(ranges.allocated_bytes(SEGMENT), PAGE + 1024);
    assert_eq!(ranges.alien_bytes(SEGMENT), 1024);
    assert_eq!(ranges.capacity_bytes(SEGMENT), 2 * PAGE);
    assert_eq!(ranges.free_bytes(SEGMENT), PAGE);
    assert_eq!(layout(&ranges), before, "no walk comes to it");
    assert_eq!(ranges.find_at(SEGMENT, 8 * PAGE), None);
    ranges.free(alien);
    assert_eq!(list(&ranges, Recency::Idle), [own]);
    assert_eq!(layout(&ranges), before);
}

#[test]
fn an_alien_moves_between_recency_lists_like_any_used_range() {
    let mut ranges = with_spans(&[PageRun::new(0, 2)]);
    let own = allocate(&mut ranges, PAGE);
    let alien = ranges.alien(SEGMENT, 8 * PAGE, PAGE, 0).unwrap();
    for recency in Recency::ALL {
        ranges.push_newest(alien, recency);
        ranges.push_newest(own, recency);
        ranges.push_newest(alien, recency);
        assert_eq!(list(&ranges, recency), [own, alien]);
        assert_eq!(ranges.listed(alien), Some(recency));
        ranges.check().unwrap();
    }
    ranges.unlist(alien);
    assert_eq!(ranges.listed(alien), None);
    assert!(ranges.is_alien(alien));
    assert_eq!(list(&ranges, Recency::Leased), [own]);
    ranges.set_sibling(alien, own);
    ranges.set_owner(alien, 3);
    assert_eq!((ranges.sibling(alien), ranges.owner(alien)), (own, 3));
    ranges.check().unwrap();
}

#[test]
#[should_panic(expected = "an alien range is held in its span")]
fn an_alien_range_is_not_held() {
    let mut ranges = with_spans(&[]);
    let alien = ranges.alien(SEGMENT, 0, 1, 0).unwrap();
    ranges.hold(alien, 0);
}

#[test]
fn the_longest_range_can_be_alien() {
    let mut ranges = with_spans(&[]);
    // 2^42 granules less a page: more than 32 bits can count.
    let length_bytes = u64::from(u32::MAX) << 16;
    let alien = ranges.alien(SEGMENT, 0, length_bytes, 0).unwrap();
    ranges.push_newest(alien, Recency::SoftPinned);
    assert_eq!(ranges.length_bytes(alien), length_bytes);
    assert_eq!(ranges.listed_bytes(SEGMENT, Recency::SoftPinned), length_bytes);
    ranges.check().unwrap();
}

#[test]
fn an_alien_range_lies_where_a_range_can() {
    let mut ranges = with_spans(&[]);
    let mut alien = |offset, length| ranges.alien(SEGMENT, offset, length, 0).unwrap_err();
    assert_eq!(alien(1, 64), LayError::Misaligned { offset_bytes: 1 });
    for (offset_bytes, length_bytes) in
        [(0, u64::MAX), (1 << 48, 1), (u64::MAX - 63, 1), (u64::MAX - 63, u64::MAX)]
    {
        assert_eq!(alien(offset_bytes, length_bytes), LayError::Outside { offset_bytes });
    }
    assert_eq!(ranges.nodes.live(), 0);
}

#[test]
fn a_sweep_comes_to_own_ranges_and_then_to_every_alien() {
    let mut ranges = with_spans(&[PageRun::new(0, 8)]);
    for index in 0..32 {
        let own = allocate(&mut ranges, PAGE / 8);
        let alien = ranges.alien(SEGMENT, (100 + index) * PAGE, 64, 0).unwrap();
        if let Some(recency) = Recency::ALL.get(index as usize % 4) {
            ranges.push_newest(own, *recency);
            ranges.push_newest(alien, *recency);
        }
    }
    assert_eq!(ranges.aliens(SEGMENT).count(), 32);
    let mut own = 0;
    while let Some(range) = ranges.first_in(SEGMENT) {
        assert!(!ranges.is_alien(range));
        ranges.free(range);
        own += 1;
    }
    let mut alien = 0;
    while let Some(range) = ranges.first_alien(SEGMENT) {
        assert!(ranges.is_alien(range));
        ranges.free(range);
        alien += 1;
    }
    assert_eq!((own, alien), (32, 32));
    assert_eq!(ranges.alien_bytes(SEGMENT), 0);
    assert_eq!(layout(&ranges), [(0, 8 * PAGE, RangeState::Free)]);
}

#[test]
fn closing_a_segment_forgets_its_aliens_and_no_others() {
    let mut ranges = with_spans(&[PageRun::new(0, 1)]);
    let own = allocate(&mut ranges, 64);
    ranges.push_newest(own, Recency::Idle);
    let other = SegmentIndex(0);
    ranges.open_segment(other, 1 << 16);
    let kept = ranges.alien(other, 0, 64, 0).unwrap();
    for listed in [false, true] {
        let alien = ranges.alien(SEGMENT, 0, 64, 0).unwrap();
        if listed {
            ranges.push_newest(alien, Recency::Idle);
        }
    }
    ranges.close_segment(SEGMENT);
    assert_eq!(ranges.nodes.live(), 1);
    assert_eq!(ranges.first_alien(SEGMENT), None);
    assert_eq!(ranges.first_alien(other), Some(kept));
    ranges.check().unwrap();
}

#[test]
fn own_foreign_held_and_free_bytes_are_the_capacity() {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.begin_laying(SEGMENT, 64 * PAGE);
    let states = [RangeState::Used, RangeState::Held, RangeState::Foreign];
    let mut laid = Vec::new();
    for (index, state) in (0..).zip(states.into_iter().cycle().take(30)) {
        let length_bytes = 64 * (index % 7 + 1);
        laid.push(ranges.lay(SEGMENT, index * 42 * 64, length_bytes, state, 0).unwrap());
        ranges.alien(SEGMENT, index * 64, length_bytes, 0).unwrap();
        assert_eq!(parts_bytes(&ranges), ranges.capacity_bytes(SEGMENT));
    }
    ranges.end_laying(SEGMENT);
    for (index, range) in laid.into_iter().enumerate() {
        if index % 2 == 0 && ranges.state(range) != RangeState::Held {
            ranges.hold(range, 0);
        } else {
            ranges.free(range);
        }
        ranges.check().unwrap();
        assert_eq!(parts_bytes(&ranges), ranges.capacity_bytes(SEGMENT));
    }
}

fn parts_bytes(ranges: &Ranges) -> u64 {
    ranges.allocated_bytes(SEGMENT) - ranges.alien_bytes(SEGMENT)
        + ranges.foreign_bytes(SEGMENT)
        + ranges.held_bytes(SEGMENT)
        + ranges.free_bytes(SEGMENT)
}

/// A segment with two pages, of which a foreign range takes the inner halves.
fn with_foreign() -> (Ranges, RangeHandle) {
    let mut ranges = Ranges::new();
    ranges.open_segment(SEGMENT, PAGE as u32);
    ranges.begin_laying(SEGMENT, 64 * PAGE);
    let foreign = ranges.lay(SEGMENT, PAGE / 2, PAGE, RangeState::Foreign, 0).unwrap();
    ranges.end_laying(SEGMENT);
    (ranges, foreign)
}
