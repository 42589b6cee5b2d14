use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Keys by owner, as they should be; it also stands for the objects that cleaning asks.
#[derive(Default)]
struct Owners {
    keys: BTreeMap<u32, (KeyAddress, Vec<u8>)>,
    moved: usize,
}

impl KeyOwners for Owners {
    fn key_length(&self, owner: u32) -> usize {
        self.keys[&owner].1.len()
    }

    fn key_moved(&mut self, owner: u32, to: KeyAddress) {
        self.keys.get_mut(&owner).expect("only living keys move").0 = to;
        self.moved += 1;
    }
}

/// The arena beside its model.
struct Pair {
    keys: Keys,
    owners: Owners,
    next: u32,
}

impl Pair {
    fn new() -> Pair {
        Pair { keys: Keys::new(), owners: Owners::default(), next: 0 }
    }

    fn push(&mut self, length: usize) -> u32 {
        let owner = self.next;
        let key: Vec<u8> = (0..length).map(|at| (owner as usize * 31 + at * 7) as u8).collect();
        let address = self.keys.push(owner, &key).expect("there is room");
        self.owners.keys.insert(owner, (address, key));
        self.next += 1;
        owner
    }

    fn remove(&mut self, owner: u32) {
        let (address, key) = self.owners.keys.remove(&owner).expect("it lives");
        self.keys.remove(address, key.len());
    }

    fn remove_some(&mut self, pick: usize) {
        let living = self.owners.keys.len();
        if living > 0 {
            let owner = *self.owners.keys.keys().nth(pick % living).expect("it is below");
            self.remove(owner);
        }
    }

    fn clean(&mut self, budget_bytes: usize) {
        self.keys.clean_step(budget_bytes, &mut self.owners);
    }

    /// Every key is intact and the counters are those of a recount.
    fn compare(&self) {
        let mut live_bytes = 0;
        for (owner, (address, key)) in &self.owners.keys {
            assert_eq!(self.keys.bytes(*address, key.len()), key, "of owner {owner}");
            let header = self.keys.chunks[address.chunk()].header(address.at());
            assert_eq!(header, Header::Live { owner: *owner });
            live_bytes += record_bytes(key.len());
        }
        assert_eq!(self.keys.live_bytes(), live_bytes);
        let used: usize = self.keys.chunks.iter().map(|chunk| chunk.bytes().len()).sum();
        let dead: usize = self.keys.chunks.iter().map(Chunk::dead_bytes).sum();
        assert_eq!((self.keys.used_bytes, self.keys.dead_bytes), (used, dead));
        for number in &self.keys.vacant {
            assert!(self.keys.chunks[*number as usize].bytes().is_empty());
        }
    }
}

/// Numbers that look random and are not.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((self.0 >> 33) as usize) % limit
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { length: usize },
    Remove { pick: usize },
    RemoveMany { count: usize, seed: u64 },
    PushMany { count: usize, length: usize },
    Clean { budget_bytes: usize },
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..200_usize, 2 => Just(96_usize), 1 => 3000..4097_usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => length().prop_map(|length| Step::Push { length }),
        3 => any::<usize>().prop_map(|pick| Step::Remove { pick }),
        2 => (1..900_usize, any::<u64>())
            .prop_map(|(count, seed)| Step::RemoveMany { count, seed }),
        3 => (1..900_usize, length())
            .prop_map(|(count, length)| Step::PushMany { count, length }),
        3 => (1..300_000_usize).prop_map(|budget_bytes| Step::Clean { budget_bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_living_key_stays_intact_whatever_comes_and_goes(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Push { length } => {
                    pair.push(length);
                }
                Step::Remove { pick } => pair.remove_some(pick),
                Step::RemoveMany { count, seed } => {
                    let mut dice = Dice(seed);
                    (0..count).for_each(|_| pair.remove_some(dice.below(1 << 20)));
                }
                Step::PushMany { count, length } => {
                    for _ in 0..count {
                        pair.push(length);
                    }
                }
                Step::Clean { budget_bytes } => pair.clean(budget_bytes),
            }
            pair.compare();
        }
    }
}

#[test]
fn memory_stays_near_the_living_keys_while_lengths_drift() {
    let mut pair = Pair::new();
    let mut dice = Dice(7);
    let mut living: Vec<u32> = (0..60_000).map(|_| pair.push(96)).collect();
    for round in 0..6 {
        let longest = 64 + 16 * round;
        for _ in 0..60_000 {
            let at = dice.below(living.len());
            let removed = std::mem::replace(&mut living[at], u32::MAX);
            pair.remove(removed);
            living[at] = pair.push(40 + dice.below(longest));
            if pair.keys.needs_cleaning() {
                pair.clean(16 * 100);
            }
        }
        let memory = pair.keys.memory_bytes();
        let live = pair.keys.live_bytes();
        assert!(memory * 10 <= live * 13, "{memory} bytes for {live} of living keys");
    }
    pair.compare();
}

#[test]
fn an_idle_shard_cleans_up_to_nearly_nothing() {
    let mut pair = Pair::new();
    let mut dice = Dice(11);
    let mut living: Vec<u32> = (0..50_000).map(|_| pair.push(96)).collect();
    for _ in 0..25_000 {
        let at = dice.below(living.len());
        pair.remove(living.swap_remove(at));
    }
    let mut steps = 0;
    while pair.keys.worth_cleaning() {
        pair.clean(64 * 1024);
        steps += 1;
        assert!(steps < 1000, "cleaning ends");
    }
    let memory = pair.keys.memory_bytes();
    let live = pair.keys.live_bytes();
    assert!(memory * 100 < live * 125, "{memory} bytes for {live} of living keys");
    pair.compare();
}

#[test]
fn keys_of_one_length_need_no_cleaning() {
    let mut pair = Pair::new();
    let mut dice = Dice(13);
    let mut living: Vec<u32> = (0..20_000).map(|_| pair.push(96)).collect();
    let memory = pair.keys.memory_bytes();
    for _ in 0..100_000 {
        let at = dice.below(living.len());
        pair.remove(living[at]);
        living[at] = pair.push(96 - dice.below(4));
        assert!(!pair.keys.needs_cleaning());
    }
    assert!(pair.keys.memory_bytes() <= memory + 1024);
    assert_eq!(pair.owners.moved, 0);
    pair.compare();
}

#[test]
fn a_wholly_dead_chunk_is_freed_at_once_and_its_number_used_again() {
    let mut pair = Pair::new();
    let living: Vec<u32> = (0..15_000).map(|_| pair.push(96)).collect();
    let chunks = pair.keys.chunks.len();
    let memory = pair.keys.memory_bytes();
    for owner in &living[..7000] {
        pair.remove(*owner);
    }
    let freed = pair.keys.vacant.len();
    assert!(freed >= 2);
    assert!(pair.keys.memory_bytes() < memory - (freed - 1) * CHUNK_BYTES);
    for _ in 0..7000 {
        pair.push(60);
    }
    assert_eq!(pair.keys.chunks.len(), chunks);
    pair.compare();
}

#[test]
fn the_last_key_that_goes_leaves_one_empty_chunk() {
    let mut pair = Pair::new();
    let living: Vec<u32> = (0..9000).map(|_| pair.push(96)).collect();
    for owner in living {
        pair.remove(owner);
    }
    assert_eq!(pair.keys.live_bytes(), 0);
    assert_eq!(pair.keys.used_bytes, 0);
    assert_eq!(pair.keys.chunks.len() - pair.keys.vacant.len(), 1);
    let owner = pair.push(20);
    pair.compare();
    pair.remove(owner);
}

#[test]
fn a_step_of_cleaning_passes_no_more_than_its_budget_and_one_key() {
    let mut pair = Pair::new();
    let living: Vec<u32> = (0..20_000).map(|_| pair.push(96)).collect();
    for pair_of_owners in living.chunks(2) {
        pair.remove(pair_of_owners[0]);
    }
    while pair.keys.needs_cleaning() {
        let before = pair.owners.moved;
        pair.clean(5000);
        assert!((pair.owners.moved - before) * 100 <= 5100);
    }
    pair.compare();
}

#[test]
fn a_key_removed_while_its_chunk_is_being_cleaned_stays_removed() {
    let mut pair = Pair::new();
    let living: Vec<u32> = (0..20_000).map(|_| pair.push(96)).collect();
    for four in living.chunks(4) {
        pair.remove(four[0]);
    }
    pair.clean(100_000);
    let (cleaned, _) = pair.keys.cleaning.expect("a chunk is half cleaned");
    let inside: Vec<u32> = pair
        .owners
        .keys
        .iter()
        .filter(|(_, (address, _))| address.chunk() == cleaned)
        .map(|(owner, _)| *owner)
        .collect();
    assert!(inside.len() > 100);
    for owner in &inside[..50] {
        pair.remove(*owner);
        pair.push(96);
    }
    pair.compare();
    for owner in &inside[50..] {
        pair.remove(*owner);
    }
    assert!(pair.keys.cleaning.is_none(), "the chunk is gone, and cleaning of it with it");
    pair.clean(1_000_000);
    pair.compare();
}

#[test]
fn a_full_arena_refuses_and_recovers_by_cleaning() {
    let mut pair = Pair::new();
    pair.keys.chunks_max = 4;
    let mut living = Vec::new();
    while pair
        .keys
        .push(u32::MAX >> 1, &[1; 96])
        .map(|address| pair.keys.remove(address, 96))
        .is_ok()
    {
        living.push(pair.push(96));
    }
    assert_eq!(pair.keys.chunks.len(), 3);
    pair.compare();
    for four in living.chunks(4) {
        pair.remove(four[0]);
    }
    // Longer ones don't fit into the holes.
    assert_eq!(pair.keys.push(1, &[1; 200]), Err(KeysFull));
    for _ in 0..100 {
        pair.clean(20_000);
    }
    pair.compare();
    pair.push(200);
    pair.compare();
}

#[test]
fn prefetching_any_address_changes_nothing() {
    let mut pair = Pair::new();
    let owner = pair.push(1);
    pair.keys.prefetch(pair.owners.keys[&owner].0, usize::from(u16::MAX));
    pair.keys.prefetch(KeyAddress::from_raw(u32::MAX), 1);
    pair.compare();
}
