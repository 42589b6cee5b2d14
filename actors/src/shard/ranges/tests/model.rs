//! The same operations on the ranges and on a naive model of them: sets of pages and maps of
//! intervals. Everything that can be observed is compared after each operation.

mod segment;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proptest::prelude::*;
use proptest::sample::Index;

use self::segment::{ModelRange, ModelSegment, runs};
use super::super::{
    GRANULE_BYTES, LayError, RangeHandle, RangeState, Ranges, Recency, SegmentIndex,
};
use crate::pages::PageRun;

/// Page size and number of pages: within one block of landmarks, over several, over two leaves.
const SHAPES: [(u32, u32); 3] = [(4 << 10, 64), (16 << 10, 512), (64 << 10, 2048)];

#[derive(Clone, Debug)]
enum Operation {
    Grant { segment: usize, run: (Index, Index) },
    Allocate { segment: usize, size_bytes: u64, owner: u32 },
    AllocateLargest { segment: usize },
    Free { pick: Index },
    Hold { pick: Index, owner: u32 },
    PushNewest { pick: Index, recency: Recency },
    PushRestored { pick: Index, recency: Recency },
    Unlist { pick: Index },
    Rename { pick: Index, owner: u32, sibling: u32 },
    TakeFreePages { segment: usize, pages_wanted: u32, run_pages_min: u32 },
    TakePages { segment: usize, run: (Index, Index) },
    Sweep { segment: usize, ranges: usize },
    Walk { segment: usize, run: (Index, Index) },
    Reopen { segment: usize },
    Restore { segment: usize, pieces: Vec<Piece> },
    Alien { segment: usize, at: Index, size_bytes: u64, owner: u32 },
}

/// A range to lay down, and what happens to it at once.
#[derive(Clone, Debug)]
struct Piece {
    gap_bytes: u64,
    size_bytes: u64,
    state: RangeState,
    owner: u32,
    fate: Fate,
}

#[derive(Clone, Debug)]
enum Fate {
    Stays,
    Listed(Recency),
    Freed,
}

struct Pair {
    ranges: Ranges,
    model: Vec<ModelSegment>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn ranges_behave_like_the_naive_model(
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        let mut pair = Pair::new();
        for operation in operations {
            pair.apply(operation);
            pair.compare();
        }
        pair.clear();
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let segment = || 0..SHAPES.len();
    let run = || any::<(Index, Index)>();
    let pick = any::<Index>;
    prop_oneof![
        3 => (segment(), run()).prop_map(|(segment, run)| Operation::Grant { segment, run }),
        12 => (segment(), size_bytes(), any::<u32>()).prop_map(|(segment, size_bytes, owner)| {
            Operation::Allocate { segment, size_bytes, owner }
        }),
        1 => segment().prop_map(|segment| Operation::AllocateLargest { segment }),
        7 => pick().prop_map(|pick| Operation::Free { pick }),
        1 => (pick(), any::<u32>()).prop_map(|(pick, owner)| Operation::Hold { pick, owner }),
        6 => (pick(), recency())
            .prop_map(|(pick, recency)| Operation::PushNewest { pick, recency }),
        3 => (pick(), recency())
            .prop_map(|(pick, recency)| Operation::PushRestored { pick, recency }),
        1 => pick().prop_map(|pick| Operation::Unlist { pick }),
        1 => (pick(), any::<u32>(), any::<u32>()).prop_map(|(pick, owner, sibling)| {
            Operation::Rename { pick, owner, sibling }
        }),
        2 => (segment(), 0..200_u32, 0..20_u32).prop_map(|(segment, pages_wanted, run_pages_min)| {
            Operation::TakeFreePages { segment, pages_wanted, run_pages_min }
        }),
        2 => (segment(), run()).prop_map(|(segment, run)| Operation::TakePages { segment, run }),
        1 => (segment(), 0..10_usize)
            .prop_map(|(segment, ranges)| Operation::Sweep { segment, ranges }),
        3 => (segment(), run()).prop_map(|(segment, run)| Operation::Walk { segment, run }),
        1 => segment().prop_map(|segment| Operation::Reopen { segment }),
        2 => (segment(), proptest::collection::vec(piece(), 0..24))
            .prop_map(|(segment, pieces)| Operation::Restore { segment, pieces }),
        3 => (segment(), pick(), size_bytes(), any::<u32>()).prop_map(
            |(segment, at, size_bytes, owner)| Operation::Alien { segment, at, size_bytes, owner }
        ),
    ]
}

/// Gaps from none over less than a page to many pages.
fn piece() -> impl Strategy<Value = Piece> {
    let gap_bytes = prop_oneof![
        2 => Just(0),
        3 => (0..=12_u32).prop_flat_map(|bits| 0..=1_u64 << bits),
    ];
    let state =
        prop_oneof![Just(RangeState::Used), Just(RangeState::Held), Just(RangeState::Foreign),];
    let fate = prop_oneof![
        4 => Just(Fate::Stays),
        2 => recency().prop_map(Fate::Listed),
        1 => Just(Fate::Freed),
    ];
    (gap_bytes, size_bytes(), state, any::<u32>(), fate).prop_map(
        |(gap_granules, size_bytes, state, owner, fate)| {
            let gap_bytes = gap_granules * GRANULE_BYTES;
            Piece { gap_bytes, size_bytes, state, owner, fate }
        },
    )
}

/// Every order of magnitude up to 4 MiB alike.
fn size_bytes() -> impl Strategy<Value = u64> {
    (0..=22_u32).prop_flat_map(|bits| (1 << bits) / 2..=1_u64 << bits)
}

fn recency() -> impl Strategy<Value = Recency> {
    proptest::sample::select(Recency::ALL.to_vec())
}

fn index(segment: usize) -> SegmentIndex {
    SegmentIndex(segment as u16 * 7)
}

impl Pair {
    /// Every segment begins with a span in the middle.
    fn new() -> Pair {
        let mut pair = Pair { ranges: Ranges::new(), model: Vec::new() };
        for (segment, (page_bytes, pages)) in SHAPES.into_iter().enumerate() {
            pair.ranges.open_segment(index(segment), page_bytes);
            pair.model.push(ModelSegment::new(page_bytes));
            pair.grant(segment, PageRun::new(pages / 4, pages / 2));
        }
        pair
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Grant { segment, run } => self.grant(segment, run_of(segment, run)),
            Operation::Allocate { segment, size_bytes, owner } => {
                self.allocate(segment, size_bytes, owner);
            }
            Operation::AllocateLargest { segment } => {
                let size_bytes = self.model[segment].largest_free();
                self.allocate(segment, size_bytes.max(1), 0);
            }
            Operation::Free { pick } => {
                if let Some((segment, is_alien, offset)) = self.pick(pick, |_| true) {
                    self.free(segment, is_alien, offset);
                }
            }
            Operation::TakeFreePages { segment, pages_wanted, run_pages_min } => {
                self.take_free_pages(segment, pages_wanted, run_pages_min);
            }
            Operation::TakePages { segment, run } => {
                let window = run_of(segment, run);
                let given = self.ranges.take_pages(index(segment), window);
                let model = &mut self.model[segment];
                let wholly_free = model.free_pages();
                let expected = runs(wholly_free.filter(|page| window.contains_page(*page)));
                assert_eq!(given, expected);
                model.give(&given);
            }
            Operation::Sweep { segment, ranges } => {
                for _ in 0..ranges {
                    let Some(range) = self.ranges.first_in(index(segment)) else { break };
                    let offset = self.ranges.offset_bytes(range);
                    self.free(segment, false, offset);
                }
            }
            Operation::Walk { segment, run } => self.compare_walk(segment, run_of(segment, run)),
            Operation::Reopen { segment } => self.reopen(segment),
            Operation::Restore { segment, pieces } => self.restore(segment, pieces),
            Operation::Alien { segment, at, size_bytes, owner } => {
                self.alien(segment, at, size_bytes, owner);
            }
            Operation::Hold { .. }
            | Operation::PushNewest { .. }
            | Operation::PushRestored { .. }
            | Operation::Unlist { .. }
            | Operation::Rename { .. } => self.apply_to_range(operation),
        }
    }

    fn apply_to_range(&mut self, operation: Operation) {
        let (pick, eligible): (_, fn(&ModelRange) -> bool) = match operation {
            Operation::Hold { pick, .. } => {
                (pick, |range| !range.is_alien && range.state != RangeState::Held)
            }
            Operation::PushNewest { pick, .. } | Operation::PushRestored { pick, .. } => {
                (pick, |range| range.state == RangeState::Used)
            }
            Operation::Unlist { pick } | Operation::Rename { pick, .. } => (pick, |_| true),
            _ => return,
        };
        let Some((segment, is_alien, offset)) = self.pick(pick, eligible) else { return };
        let segment = &mut self.model[segment];
        let Some(range) = segment.kept(is_alien).get_mut(&offset) else { return };
        let handle = range.handle;
        match operation {
            Operation::Hold { owner, .. } => {
                self.ranges.hold(handle, owner);
                range.state = RangeState::Held;
                range.owner = owner;
                segment.unlist(handle);
            }
            Operation::PushNewest { recency, .. } => {
                self.ranges.push_newest(handle, recency);
                segment.unlist(handle);
                segment.lists[recency as usize].push(handle);
            }
            Operation::PushRestored { recency, .. } => {
                self.ranges.push_restored(handle, recency);
                segment.unlist(handle);
                let restored = &mut segment.restored[recency as usize];
                segment.lists[recency as usize].insert(*restored, handle);
                *restored += 1;
            }
            Operation::Rename { owner, sibling, .. } => {
                self.ranges.set_owner(handle, owner);
                self.ranges.set_sibling(handle, RangeHandle(sibling));
                range.owner = owner;
                range.sibling = RangeHandle(sibling);
            }
            _ => {
                self.ranges.unlist(handle);
                segment.unlist(handle);
            }
        }
    }

    fn reopen(&mut self, segment: usize) {
        self.ranges.close_segment(index(segment));
        self.ranges.open_segment(index(segment), SHAPES[segment].0);
        self.model[segment] = ModelSegment::new(SHAPES[segment].0);
    }

    /// Opens the segment anew with ranges that are laid down.
    fn restore(&mut self, segment: usize, pieces: Vec<Piece>) {
        self.reopen(segment);
        let (page_bytes, pages) = SHAPES[segment];
        let capacity_bytes = u64::from(page_bytes) * u64::from(pages);
        // A last page that isn't whole can't be used.
        self.ranges.begin_laying(index(segment), capacity_bytes + u64::from(page_bytes) - 1);
        let mut reached = 0;
        for Piece { gap_bytes, size_bytes, state, owner, fate } in pieces {
            let offset_bytes = reached + gap_bytes;
            let length_bytes = rounded(size_bytes);
            let laid = self.ranges.lay(index(segment), offset_bytes, size_bytes, state, owner);
            if offset_bytes + length_bytes > capacity_bytes {
                assert_eq!(laid, Err(LayError::Outside { offset_bytes }));
                continue;
            }
            let handle = laid.expect("the range fits");
            let model = &mut self.model[segment];
            model.touch(offset_bytes, length_bytes);
            let range = ModelRange::new(length_bytes, handle, state, owner);
            model.ranges.insert(offset_bytes, range);
            reached = offset_bytes + length_bytes;
            match fate {
                Fate::Listed(recency) if state == RangeState::Used => {
                    self.ranges.push_newest(handle, recency);
                    model.lists[recency as usize].push(handle);
                }
                Fate::Freed => self.free(segment, false, offset_bytes),
                _ => {}
            }
        }
        let spans = self.ranges.end_laying(index(segment));
        assert_eq!(spans, runs(self.model[segment].pages.iter().copied()));
    }

    fn alien(&mut self, segment: usize, at: Index, size_bytes: u64, owner: u32) {
        let offset_bytes = at.index(1 << 16) as u64 * GRANULE_BYTES;
        if self.model[segment].aliens.contains_key(&offset_bytes) {
            return;
        }
        let made = self.ranges.alien(index(segment), offset_bytes, size_bytes, owner);
        let handle = made.expect("the place is one for ranges");
        let range = ModelRange::new(rounded(size_bytes), handle, RangeState::Used, owner);
        let range = ModelRange { is_alien: true, ..range };
        self.model[segment].aliens.insert(offset_bytes, range);
    }

    /// Grants the parts of a run that aren't owned yet.
    fn grant(&mut self, segment: usize, run: PageRun) {
        let model = &mut self.model[segment];
        let missing = (run.first_page..run.end()).filter(|page| !model.pages.contains(page));
        for part in runs(missing) {
            self.ranges.grant(index(segment), part);
            model.pages.extend(part.first_page..part.end());
        }
    }

    fn allocate(&mut self, segment: usize, size_bytes: u64, owner: u32) {
        let model = &mut self.model[segment];
        let length_bytes = rounded(size_bytes);
        let fits = length_bytes <= model.largest_free();
        assert_eq!(self.ranges.can_fit(index(segment), size_bytes), fits);
        let placed = self.ranges.allocate(index(segment), size_bytes, owner);
        assert_eq!(placed.is_some(), fits);
        let Some(handle) = placed else { return };
        let offset = self.ranges.offset_bytes(handle);
        let is_free = |(start, length): &(u64, u64)| {
            *start <= offset && offset + length_bytes <= start + length
        };
        assert!(model.free().iter().any(is_free), "placed at {offset}, which isn't free");
        let range = ModelRange::new(length_bytes, handle, RangeState::Used, owner);
        model.ranges.insert(offset, range);
    }

    fn free(&mut self, segment: usize, is_alien: bool, offset: u64) {
        let model = &mut self.model[segment];
        let range = model.kept(is_alien).remove(&offset).expect("the model has the range");
        model.unlist(range.handle);
        self.ranges.free(range.handle);
    }

    fn take_free_pages(&mut self, segment: usize, pages_wanted: u32, run_pages_min: u32) {
        let given = self.ranges.take_free_pages(index(segment), pages_wanted, run_pages_min);
        let model = &mut self.model[segment];
        let run_pages_min = run_pages_min.max(1);
        let wholly_free: BTreeSet<u32> = model.free_pages().collect();
        for run in &given {
            assert!(run.pages >= run_pages_min);
            assert!((run.first_page..run.end()).all(|page| wholly_free.contains(&page)));
        }
        model.give(&given);
        let pages: u32 = given.iter().map(|run| run.pages).sum();
        if let Some(last) = given.last() {
            let before = pages - last.pages;
            assert!(before < pages_wanted, "the last run wasn't needed");
            assert!(last.pages <= (pages_wanted - before).max(run_pages_min));
        }
        if pages < pages_wanted {
            let left = runs(model.free_pages());
            assert!(left.iter().all(|run| run.pages < run_pages_min), "{left:?} is left");
        }
    }

    /// A range of the model for which `eligible` holds, if there is one.
    fn pick(
        &self,
        pick: Index,
        eligible: impl Fn(&ModelRange) -> bool,
    ) -> Option<(usize, bool, u64)> {
        let segments = self.model.iter().enumerate();
        let candidates: Vec<_> = segments
            .flat_map(|(segment, model)| {
                let ranges = model.all().filter(|(_, range)| eligible(range));
                ranges.map(move |(offset, range)| (segment, range.is_alien, offset))
            })
            .collect();
        (!candidates.is_empty()).then(|| *pick.get(&candidates))
    }

    fn compare(&mut self) {
        self.ranges.check().unwrap();
        for (segment, (_, pages)) in SHAPES.into_iter().enumerate() {
            self.compare_totals(segment);
            self.compare_ranges(segment);
            self.compare_walk(segment, PageRun::new(0, pages));
            self.compare_survey(segment);
        }
    }

    fn compare_totals(&self, segment: usize) {
        let (at, model, ranges) = (index(segment), &self.model[segment], &self.ranges);
        let used = model.bytes_in(RangeState::Used);
        let held = model.bytes_in(RangeState::Held);
        let capacity = model.pages.len() as u64 * model.page_bytes;
        assert_eq!(ranges.capacity_bytes(at), capacity);
        let foreign = model.bytes_in(RangeState::Foreign);
        let alien = model.aliens.values().map(|range| range.length_bytes).sum();
        assert_eq!(ranges.allocated_bytes(at), used + alien);
        assert_eq!(ranges.alien_bytes(at), alien);
        assert_eq!(ranges.held_bytes(at), held);
        assert_eq!(ranges.foreign_bytes(at), foreign);
        assert_eq!(ranges.free_bytes(at), capacity - used - held - foreign);
        let largest = model.largest_free();
        assert_eq!(ranges.largest_free_bytes(at), largest);
        assert_eq!(ranges.can_fit(at, largest), largest > 0);
        assert!(!ranges.can_fit(at, largest + 1));
        for recency in Recency::ALL {
            let list = &model.lists[recency as usize];
            let found: Vec<_> =
                std::iter::successors(ranges.oldest(at, recency), |range| ranges.newer(*range))
                    .collect();
            assert_eq!(&found, list);
            let bytes: u64 = list.iter().map(|range| ranges.length_bytes(*range)).sum();
            assert_eq!(ranges.listed_bytes(at, recency), bytes);
        }
    }

    fn compare_ranges(&mut self, segment: usize) {
        let (model, ranges) = (&self.model[segment], &self.ranges);
        for (offset, range) in model.all() {
            let handle = range.handle;
            assert_eq!(ranges.is_alien(handle), range.is_alien);
            assert_eq!(ranges.offset_bytes(handle), offset);
            assert_eq!(ranges.length_bytes(handle), range.length_bytes);
            assert_eq!(ranges.segment(handle), index(segment));
            assert_eq!(ranges.state(handle), range.state);
            assert_eq!(ranges.owner(handle), range.owner);
            assert_eq!(ranges.sibling(handle), range.sibling);
            let in_list = |recency: &Recency| model.lists[*recency as usize].contains(&handle);
            assert_eq!(ranges.listed(handle), Recency::ALL.into_iter().find(in_list));
        }
        for (offset, range) in &model.ranges {
            assert_eq!(ranges.find_at(index(segment), *offset), Some(range.handle));
        }
        for (offset, _) in model.free() {
            assert_eq!(ranges.find_at(index(segment), offset), None);
        }
        let aliens: BTreeSet<_> = ranges.aliens(index(segment)).map(|range| range.0).collect();
        assert_eq!(aliens, model.aliens.values().map(|range| range.handle.0).collect());
        let first_alien = ranges.first_alien(index(segment)).map(|range| range.0);
        assert_eq!(first_alien.is_some(), !aliens.is_empty());
        assert!(first_alien.is_none_or(|range| aliens.contains(&range)));
        let lowest = model.ranges.keys().next().copied();
        let first = self.ranges.first_in(index(segment));
        assert_eq!(first.map(|range| self.ranges.offset_bytes(range)), lowest);
    }

    fn compare_walk(&self, segment: usize, window: PageRun) {
        let model = &self.model[segment];
        let mut expected: Vec<_> = model
            .free()
            .into_iter()
            .map(|(offset, length)| (offset, length, RangeState::Free))
            .chain(model.ranges.iter().map(|(start, r)| (*start, r.length_bytes, r.state)))
            .filter(|(offset, length, _)| {
                *offset < u64::from(window.end()) * model.page_bytes
                    && u64::from(window.first_page) * model.page_bytes < offset + length
            })
            .collect();
        expected.sort_unstable_by_key(|(offset, ..)| *offset);
        let mut found = Vec::new();
        self.ranges.walk_window(index(segment), window, None, |range, state| {
            let ranges = &self.ranges;
            found.push((ranges.offset_bytes(range), ranges.length_bytes(range), state));
            ControlFlow::Continue(())
        });
        assert_eq!(found, expected);
    }

    fn compare_survey(&self, segment: usize) {
        let mut found = Vec::new();
        self.ranges.survey(index(segment), |passed| {
            found.extend(passed.iter().map(|range| (range.offset_bytes, range.state)));
            ControlFlow::Continue(())
        });
        let model = self.model[segment].ranges.iter();
        let expected: Vec<_> = model.map(|(offset, range)| (*offset, range.state)).collect();
        assert_eq!(found, expected);
    }

    /// Frees everything, upon which each segment is as whole as its pages.
    fn clear(&mut self) {
        for (segment, (page_bytes, _)) in SHAPES.into_iter().enumerate() {
            while let Some(range) = self.ranges.first_in(index(segment)) {
                let offset = self.ranges.offset_bytes(range);
                self.free(segment, false, offset);
            }
            while let Some(range) = self.ranges.first_alien(index(segment)) {
                let offset = self.ranges.offset_bytes(range);
                self.free(segment, true, offset);
            }
            for span in runs(self.model[segment].pages.iter().copied()) {
                assert!(self.ranges.can_fit(index(segment), span.bytes(page_bytes)));
            }
        }
        self.compare();
    }
}

fn rounded(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(GRANULE_BYTES).max(GRANULE_BYTES)
}

/// A run of the segment, from two positions; any two, so runs of all lengths occur.
fn run_of(segment: usize, (one, other): (Index, Index)) -> PageRun {
    let pages = SHAPES[segment].1 as usize;
    let (one, other) = (one.index(pages) as u32, other.index(pages) as u32);
    PageRun::between(one.min(other), one.max(other) + 1)
}
