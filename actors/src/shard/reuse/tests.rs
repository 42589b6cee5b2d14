use std::collections::HashMap;

use proptest::prelude::*;

use super::ghosts::Ghosts;
use super::*;

/// Every bit of a number changes half of those of its hash.
fn hash(number: u64) -> KeyHash {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    KeyHash(number ^ number >> 31)
}

/// What a trial does, with a look at everything that there is for each victim.
#[derive(Default)]
struct Naive {
    weight: u64,
    capacity_bytes: u64,
    /// Size, last use as time and number, whether reused.
    held: HashMap<u64, (u64, u64, usize, bool)>,
    /// The oldest first.
    gone: Vec<u64>,
    uses: usize,
}

impl Naive {
    fn note_use(&mut self, now_ms: u64, key: u64, size_bytes: u64) -> bool {
        self.uses += 1;
        let there = self.held.remove(&key).is_some();
        let known = there || self.gone.contains(&key);
        self.gone.retain(|gone| *gone != key);
        self.held.insert(key, (size_bytes, now_ms, self.uses, known));
        while self.held.values().map(|held| held.0).sum::<u64>() > self.capacity_bytes {
            let oldest = |reused: bool| {
                let held = self.held.iter().filter(move |(_, held)| held.3 == reused);
                held.min_by_key(|(_, held)| held.2).map(|(key, held)| (*key, now_ms - held.1))
            };
            let victim = match (oldest(false), oldest(true)) {
                (Some(idle), Some(reused)) if (idle.1 + 1) * self.weight > reused.1 => idle,
                (_, Some(reused)) => reused,
                (idle, None) => idle.expect("something is too much"),
            };
            self.held.remove(&victim.0);
            self.gone.push(victim.0);
            let forgotten = self.gone.len().saturating_sub(self.held.len());
            self.gone.drain(..forgotten);
        }
        there
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_trial_does_what_a_naive_cache_does(
        weight in prop::sample::select(vec![1, 2, 4, 16, 64]),
        capacity_bytes in 1..60_u64,
        uses in prop::collection::vec((0..40_u64, 0..6_u64, 0..5_u64), 1..400),
    ) {
        let mut trial = Trial::new(weight, capacity_bytes);
        let mut naive = Naive { weight, capacity_bytes, ..Naive::default() };
        let mut now_ms = 0;
        for (key, size_bytes, pause_ms) in uses {
            now_ms += pause_ms;
            if size_bytes == 0 {
                naive.held.remove(&key);
                naive.gone.retain(|gone| *gone != key);
                trial.forget(key);
                continue;
            }
            let there = naive.note_use(now_ms, key, size_bytes);
            prop_assert_eq!(trial.note_use(Moment::from_ms(now_ms), key, size_bytes), there);
            prop_assert_eq!(trial.len(), naive.held.len());
            prop_assert!((0..40).all(|key| trial.holds(key) == naive.held.contains_key(&key)));
        }
    }
}

#[test]
fn what_was_evicted_is_known_until_as_many_others_were() {
    let mut ghosts = Ghosts::default();
    assert!(!ghosts.take(hash(1)), "nothing was evicted");
    for number in 0..10_000 {
        ghosts.add(hash(number), 10_000);
    }
    let known = (0..10_000).filter(|number| ghosts.take(hash(*number))).count();
    assert!(known > 9_500, "{known} of the last 10,000 are known");
    let again = (0..10_000).filter(|number| ghosts.take(hash(*number))).count();
    assert!(again < 30, "{again} are known although they were taken");
    for number in 10_000..60_000 {
        ghosts.add(hash(number), 10_000);
    }
    let known = (10_000..20_000).filter(|number| ghosts.take(hash(*number))).count();
    assert!(known < 500, "{known} are known although many were evicted since");
    let never = (100_000..200_000).filter(|number| ghosts.take(hash(*number))).count();
    assert!(never < 100, "{never} of 100,000 are taken for others");
}

#[test]
fn a_ghost_takes_about_two_bytes() {
    let mut ghosts = Ghosts::default();
    ghosts.add(hash(1), 1_000_000);
    assert!(ghosts.memory_bytes() < 2_800_000, "{} bytes for a million", ghosts.memory_bytes());
    ghosts.add(hash(2), 10_000);
    assert!(ghosts.memory_bytes() < 40_000, "the table shrinks with the shard");
}

/// What is wanted of a shard with room for so many objects of one byte, and what the trials make of
/// it after each use.
struct Load {
    trials: Trials,
    objects: usize,
    now_ms: u64,
}

impl Load {
    fn new(objects: usize) -> Load {
        Load { trials: Trials::new(), objects, now_ms: 0 }
    }

    fn want(&mut self, number: u64) {
        self.now_ms += 1;
        self.trials.note_use(Moment::from_ms(self.now_ms), hash(number), 1);
        if self.now_ms.is_multiple_of(1_000) {
            self.trials.note_full(self.objects, self.objects as u64);
        }
    }
}

#[test]
fn where_most_is_wanted_once_what_was_wanted_twice_stays_longer() {
    let mut load = Load::new(20_000);
    assert_eq!(load.trials.weight(), 1, "without experience it is least-recently-used");
    let mut once = 1 << 32;
    for round in 0..400_000_u64 {
        // Of 10 uses, 9 are of keys that never come again, and the others come again after so many
        // that they are gone if all stay for the same time.
        if round.is_multiple_of(10) {
            load.want(round / 10 % 3_000);
        } else {
            once += 1;
            load.want(once);
        }
    }
    assert!(load.trials.weight() > 1);
}

#[test]
fn where_what_was_wanted_twice_is_not_wanted_again_nothing_is_preferred() {
    let mut load = Load::new(20_000);
    for number in 0..400_000_u64 {
        load.want(number);
        // Everything comes back just once, and shortly before it would be gone.
        if let Some(earlier) = number.checked_sub(9_000) {
            load.want(earlier);
        }
    }
    assert_eq!(load.trials.weight(), 1);
}

#[test]
fn the_weight_follows_when_the_load_changes() {
    let mut load = Load::new(20_000);
    let mut once = 1 << 32;
    for round in 0..400_000_u64 {
        if round.is_multiple_of(10) {
            load.want(round / 10 % 3_000);
        } else {
            once += 1;
            load.want(once);
        }
    }
    assert!(load.trials.weight() > 1);
    for number in 1 << 40..(1 << 40) + 600_000_u64 {
        load.want(number);
        load.want(number - 9_000);
    }
    assert_eq!(load.trials.weight(), 1);
}

#[test]
fn the_sample_stays_small_and_serves_a_cache_of_any_size() {
    let mut load = Load::new(1_000_000);
    for number in 0..2_000_000 {
        load.want(number);
    }
    assert!(load.trials.memory_bytes() < 3 << 20, "{} bytes", load.trials.memory_bytes());
    // Much was put and removed before the cache was full, and it is far smaller than that.
    load.trials.note_full(1_000, 1_000);
    load.objects = 1_000;
    for round in 0..200_000_u64 {
        load.want(if round.is_multiple_of(4) { round / 4 % 400 } else { 1 << 33 | round });
    }
    assert!(load.trials.weight() > 1);
}
