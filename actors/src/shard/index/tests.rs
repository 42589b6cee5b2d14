use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What the index should hold: tags with their handles.
type Model = BTreeMap<u32, BTreeSet<u32>>;

impl Index {
    /// Recounts everything that is counted as it goes, and looks each slot up.
    fn check(&self) {
        let mut live = 0;
        let mut slots = 0;
        for number in 0..self.pages {
            let page = self.page(number);
            live += page.live();
            slots += page.slots();
            assert_eq!(page.live(), page.iter().count());
            for slot in page.iter() {
                assert_eq!(self.page_of(slot.tag), number);
                assert!(self.find(slot.tag, |handle| handle == slot.handle).is_some());
            }
        }
        assert_eq!((live, slots), (self.len, self.slots));
        assert!(self.round.is_power_of_two());
        assert!(self.round <= self.pages && self.pages < 2 * self.round);
        assert_eq!(self.groups.iter().map(Vec::len).sum::<usize>(), self.pages);
    }

    fn handles(&self, tag: u32) -> BTreeSet<u32> {
        let mut handles = BTreeSet::new();
        let found = self.find(tag, |handle| {
            assert!(handles.insert(handle.0), "a handle is offered once");
            false
        });
        assert_eq!(found, None);
        handles
    }
}

fn handle(raw: u32) -> ObjectHandle {
    ObjectHandle(raw)
}

/// Numbers that look random and are not.
fn scatter(number: u32) -> u32 {
    let mut mixed = u64::from(number) + 0x9E37_79B9;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x045D_9F3B_045D_9F3B);
    }
    (mixed >> 24) as u32
}

#[derive(Clone, Debug)]
enum Step {
    Insert { tag: u32 },
    InsertMany { count: u32, mask: u32 },
    Remove { pick: usize },
    RemoveMany { count: usize },
    RemoveMissing { tag: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![any::<u32>(), 0..8_u32].prop_map(|tag| Step::Insert { tag }),
        2 => (1..600_u32, prop_oneof![Just(u32::MAX), Just(0xF00F), Just(0xFFFF_0000)])
            .prop_map(|(count, mask)| Step::InsertMany { count, mask }),
        3 => any::<usize>().prop_map(|pick| Step::Remove { pick }),
        1 => (1..900_usize).prop_map(|count| Step::RemoveMany { count }),
        1 => any::<u32>().prop_map(|tag| Step::RemoveMissing { tag }),
    ]
}

/// The index beside its model; every operation is done on both and compared.
struct Pair {
    index: Index,
    model: Model,
    entries: Vec<(u32, u32)>,
    next: u32,
}

impl Pair {
    fn insert(&mut self, tag: u32) {
        self.index.insert(tag, handle(self.next));
        self.model.entry(tag).or_default().insert(self.next);
        self.entries.push((tag, self.next));
        self.next += 1;
        self.compare(tag);
    }

    fn remove(&mut self, pick: usize) {
        if self.entries.is_empty() {
            return;
        }
        let (tag, raw) = self.entries.swap_remove(pick % self.entries.len());
        assert!(self.index.remove(tag, handle(raw)));
        assert!(!self.index.remove(tag, handle(raw)), "it is there once");
        self.model.entry(tag).or_default().remove(&raw);
        self.compare(tag);
    }

    fn compare(&self, tag: u32) {
        assert_eq!(self.index.len(), self.entries.len());
        let expected = self.model.get(&tag).cloned().unwrap_or_default();
        assert_eq!(self.index.probe(tag).is_some(), !expected.is_empty());
        assert_eq!(self.index.handles(tag), expected);
    }

    fn compare_all(&self) {
        self.index.check();
        for tag in self.model.keys() {
            self.compare(*tag);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_holds_what_a_naive_map_holds(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair =
            Pair { index: Index::new(), model: Model::new(), entries: Vec::new(), next: 0 };
        for step in steps {
            match step {
                Step::Insert { tag } => pair.insert(tag),
                Step::InsertMany { count, mask } => {
                    for _ in 0..count {
                        pair.insert(scatter(pair.next) & mask);
                    }
                }
                Step::Remove { pick } => pair.remove(pick),
                Step::RemoveMany { count } => {
                    for number in 0..count {
                        pair.remove(scatter(number as u32) as usize);
                    }
                }
                Step::RemoveMissing { tag } => {
                    prop_assert!(!pair.index.remove(tag, handle(pair.next)));
                }
            }
            pair.compare_all();
        }
    }
}

#[test]
fn growth_moves_at_most_one_page_for_each_insertion() {
    let mut index = Index::new();
    let mut moved_total = 0;
    for number in 0..200_000 {
        index.insert(scatter(number), handle(number));
        assert!(index.moved <= 2048, "{} slots moved at object {number}", index.moved);
        moved_total += index.moved;
    }
    assert!(moved_total < 200_000 * 8, "{moved_total} slots moved for 200000 objects");
    index.check();
}

#[test]
fn shrinking_moves_at_most_two_halves_of_a_page_for_each_removal() {
    let mut index = filled(200_000);
    for number in 0..200_000 {
        assert!(index.remove(scatter(number), handle(number)));
        assert!(index.moved <= 2048, "{} slots moved at object {number}", index.moved);
    }
    index.check();
    assert_eq!(index.len(), 0);
}

#[test]
fn an_object_costs_about_ten_bytes_at_any_size() {
    let mut index = Index::new();
    for number in 0..300_000 {
        index.insert(scatter(number), handle(number));
        if number >= 20_000 && number % 1000 == 0 {
            let each = index.memory_bytes() as f64 / index.len() as f64;
            assert!(each < 11.7, "{each:.2} bytes for each of {number} objects");
        }
    }
}

#[test]
fn memory_comes_back_when_objects_go() {
    let mut index = filled(200_000);
    let full_bytes = index.memory_bytes();
    for number in 0..100_000 {
        index.remove(scatter(number), handle(number));
    }
    let half_bytes = index.memory_bytes();
    assert!(half_bytes * 10 < full_bytes * 7, "{half_bytes} of {full_bytes} bytes are left");
    for number in 100_000..200_000 {
        index.remove(scatter(number), handle(number));
    }
    assert_eq!(index.slots, Index::new().slots);
    assert_eq!(index.pages, 1);
}

#[test]
fn a_size_that_goes_up_and_down_moves_nothing_each_time() {
    let mut index = filled(50_000);
    let mut moved = 0;
    for round in 0..50_u32 {
        for number in 0..200 {
            index.insert(scatter(50_000 + number), handle(50_000 + number));
            moved += index.moved;
        }
        for number in 0..200 {
            index.remove(scatter(50_000 + number), handle(50_000 + number));
            moved += index.moved;
        }
        if round == 0 {
            moved = 0;
        }
    }
    assert_eq!(moved, 0);
}

#[test]
fn equal_tags_stay_apart_and_end() {
    let mut index = Index::new();
    for number in 0..6000 {
        index.insert(0xDEAD_BEEF, handle(number));
    }
    for number in 0..2000 {
        index.insert(scatter(number), handle(10_000 + number));
    }
    index.check();
    assert_eq!(index.handles(0xDEAD_BEEF).len(), 6000);
    for number in 0..6000 {
        assert!(index.remove(0xDEAD_BEEF, handle(number)));
    }
    assert_eq!(index.probe(0xDEAD_BEEF), None);
    for number in 0..2000 {
        assert_eq!(index.probe(scatter(number)), Some(handle(10_000 + number)));
    }
    index.check();
}

#[test]
fn tags_that_share_their_page_bits_only_enlarge_their_own_page() {
    let mut index = filled(10_000);
    for number in 0..5000_u32 {
        index.insert(number << 16, handle(100_000 + number));
    }
    index.check();
    for number in 0..5000_u32 {
        assert!(index.handles(number << 16).contains(&(100_000 + number)));
    }
}

#[test]
fn prefetching_any_tag_changes_nothing() {
    let index = filled(3000);
    for number in 0..6000 {
        index.prefetch(scatter(number));
    }
    index.check();
}

fn filled(objects: u32) -> Index {
    let mut index = Index::new();
    for number in 0..objects {
        index.insert(scatter(number), handle(number));
    }
    index
}

mod bulk;
