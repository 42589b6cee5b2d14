//! Models of the shard's cache with several weights, on a sample of its keys.

use super::trial::Trial;
use crate::moment::Moment;
use crate::route::KeyHash;

/// The models, what each has found, and the weight that does best.
///
/// A sample of the keys stands for all of them: a model of a fraction of the cache with that fraction
/// of its keys finds about the same share of them.
#[derive(Debug)]
pub struct Trials {
    /// One of 2 to this power of the keys is in the sample.
    thinning: u32,
    /// Just one before the cache has been full: they would all be the same.
    trials: Vec<Trial>,
    /// What each trial has found, in parts of [`FIND`]. It fades.
    found: [u64; WEIGHTS.len()],
    /// The place of the best weight.
    best: usize,
    /// Uses of the sample until the next judgement.
    left: usize,
}

impl Trials {
    /// Without any experience: the weight is one.
    pub fn new() -> Trials {
        Trials {
            thinning: THINNING_MIN,
            trials: vec![Trial::new(WEIGHTS[0], u64::MAX)],
            found: [0; WEIGHTS.len()],
            best: 0,
            left: JUDGED_MIN,
        }
    }

    /// The weight that does best.
    pub fn weight(&self) -> u64 {
        WEIGHTS[self.best]
    }

    /// Somebody wanted a key.
    #[inline]
    pub fn note_use(&mut self, now: Moment, hash: KeyHash, size_bytes: u64) {
        if sampled(hash.0, self.thinning) {
            self.note_sampled(now, hash, size_bytes);
        }
    }

    /// A key has nothing any more, and not for want of room.
    pub fn note_removed(&mut self, hash: KeyHash) {
        if sampled(hash.0, self.thinning) {
            self.trials.iter_mut().for_each(|trial| trial.forget(hash.0));
        }
    }

    /// The cache is full with so many objects of so many bytes in all.
    pub fn note_full(&mut self, objects: usize, allocated_bytes: u64) {
        // What was put and removed without ever filling the cache may have thinned the sample out.
        let thinning = (objects / SAMPLE).max(1).ilog2().max(THINNING_MIN);
        if thinning + 2 <= self.thinning {
            let best = self.best;
            *self = Trials { thinning, best, ..Trials::new() };
        }
        if self.trials.len() == 1 {
            let first = self.trials[0].clone();
            self.trials = vec![first; WEIGHTS.len()];
        }
        let capacity_bytes = allocated_bytes >> self.thinning;
        for (trial, weight) in self.trials.iter_mut().zip(WEIGHTS) {
            trial.set_weight(weight);
            trial.set_capacity_bytes(capacity_bytes);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.trials.iter().map(Trial::memory_bytes).sum()
    }

    fn note_sampled(&mut self, now: Moment, hash: KeyHash, size_bytes: u64) {
        for (trial, found) in self.trials.iter_mut().zip(&mut self.found) {
            if trial.note_use(now, hash.0, size_bytes) {
                *found += FIND;
            }
        }
        if self.trials[0].len() > SAMPLE_MAX {
            self.thin();
        }
        self.left -= 1;
        if self.left == 0 {
            self.judge();
        }
    }

    /// Leaves every other key out from now on.
    fn thin(&mut self) {
        self.thinning += 1;
        for trial in &mut self.trials {
            trial.retain(|key| sampled(key, self.thinning));
            trial.halve_capacity();
        }
    }

    /// Takes the weight that has found most, if it is better than chance explains.
    fn judge(&mut self) {
        self.left = (self.trials[0].len() / JUDGEMENTS).max(JUDGED_MIN);
        if self.trials.len() == 1 {
            self.found = [0; WEIGHTS.len()];
            return;
        }
        let most = (0..WEIGHTS.len()).rev().max_by_key(|place| self.found[*place]);
        let most = most.expect("there are weights");
        // Half the deviation of a count of that size; a find counts as many parts.
        let chance = (self.found[most] / FIND).isqrt() * FIND / 2;
        if self.found[most] > self.found[self.best] + chance.max(FINDS_MIN * FIND) {
            self.best = most;
        }
        for found in &mut self.found {
            *found -= *found / FADING;
        }
    }
}

impl Default for Trials {
    fn default() -> Trials {
        Trials::new()
    }
}

fn sampled(hash: u64, thinning: u32) -> bool {
    hash & ((1 << thinning) - 1) == 0
}

/// From least-recently-used on. The hit rate is flat between neighbours.
const WEIGHTS: [u64; 5] = [1, 2, 4, 16, 64];

/// At most every eighth key is in the sample, so that a use costs some ten nanoseconds.
const THINNING_MIN: u32 = 3;

/// So many keys of a full cache should be in the sample, and at most twice as many are: the trials
/// take two megabytes then.
const SAMPLE: usize = 1024;
const SAMPLE_MAX: usize = 2 * SAMPLE;

/// Judgements while as many are used as the cache holds, and uses before one at least.
const JUDGEMENTS: usize = 8;
const JUDGED_MIN: usize = 64;

/// Half of what was found is forgotten while four times as many are used as the cache holds.
const FADING: u64 = 46;

/// What one find counts, so that a part of it can fade.
const FIND: u64 = 256;

/// A lead of fewer finds says nothing.
const FINDS_MIN: u64 = 16;
