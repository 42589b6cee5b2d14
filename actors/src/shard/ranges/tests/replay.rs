//! Large and small objects mixed, as training traces show them.

use std::ops::ControlFlow;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::super::{RangeHandle, RangeState, Ranges, SegmentIndex};
use super::MIB;
use crate::pages::PageRun;

const SEGMENTS: u16 = 8;
const SEGMENT_BYTES: u64 = 64 * MIB;
const PAGE_BYTES: u32 = 64 << 10;
const STEPS: usize = 200;

// R13
#[test]
fn a_large_put_is_refused_only_if_no_free_range_is_as_large() {
    for seed in 0..4 {
        replay(seed);
    }
}

fn replay(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut ranges = Ranges::new();
    let whole = PageRun::new(0, (SEGMENT_BYTES / u64::from(PAGE_BYTES)) as u32);
    for segment in 0..SEGMENTS {
        ranges.open_segment(SegmentIndex(segment), PAGE_BYTES);
        ranges.grant(SegmentIndex(segment), whole);
    }
    let mut due: Vec<Vec<RangeHandle>> = vec![Vec::new(); STEPS + 4];
    for step in 0..STEPS {
        let mut leaving = std::mem::take(&mut due[step]);
        leaving.shuffle(&mut rng);
        leaving.into_iter().for_each(|range| ranges.free(range));

        let large = (0..3).map(|_| rng.random_range(21 * MIB / 2..=62 * MIB / 5));
        let mut sizes: Vec<u64> = large.collect();
        sizes.extend((0..31).map(|_| rng.random_range(256..=10 << 10)));
        sizes.shuffle(&mut rng);
        for size_bytes in sizes {
            let first = rng.random_range(0..SEGMENTS);
            let tried = (0..SEGMENTS).map(|further| SegmentIndex((first + further) % SEGMENTS));
            let placed = tried.clone().find_map(|segment| ranges.allocate(segment, size_bytes, 0));
            match placed {
                Some(range) => due[step + rng.random_range(1..=3)].push(range),
                None => {
                    let largest = tried.map(|segment| largest_by_walk(&ranges, segment)).max();
                    assert!(largest < Some(size_bytes), "{size_bytes} fits into {largest:?}");
                }
            }
        }
        ranges.check().unwrap();
        let segments = (0..SEGMENTS).map(SegmentIndex);
        let used_bytes: u64 = segments.map(|segment| ranges.allocated_bytes(segment)).sum();
        assert!(used_bytes <= u64::from(SEGMENTS) * SEGMENT_BYTES * 6 / 10);
    }
    due.into_iter().flatten().for_each(|range| ranges.free(range));
    for segment in (0..SEGMENTS).map(SegmentIndex) {
        assert!(ranges.allocate(segment, SEGMENT_BYTES, 0).is_some(), "all space is one again");
    }
}

fn largest_by_walk(ranges: &Ranges, segment: SegmentIndex) -> u64 {
    let mut largest = 0;
    ranges.walk_window(segment, PageRun::new(0, u32::MAX), None, |range, state| {
        if state == RangeState::Free {
            largest = ranges.length_bytes(range).max(largest);
        }
        ControlFlow::Continue(())
    });
    largest
}
