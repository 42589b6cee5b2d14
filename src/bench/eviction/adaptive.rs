//! The policy of the master: weighted, with the weight that its trials choose.

use mooring_actors::Moment;
use mooring_actors::route::KeyHash;
use mooring_actors::shard::{Trial, Trials};

use super::policy::Policy;
use crate::bench::mix;

/// The cache of one shard, and the trials on a sample of its keys.
pub(super) struct Adaptive {
    cache: Trial,
    trials: Trials,
    blocks: u64,
    uses: u64,
}

impl Adaptive {
    pub(super) fn new(blocks: u64) -> Adaptive {
        Adaptive { cache: Trial::new(1, blocks), trials: Trials::new(), blocks, uses: 0 }
    }
}

impl Policy for Adaptive {
    fn note_use(&mut self, now: Moment, block: u64) -> bool {
        self.uses += 1;
        self.trials.note_use(now, KeyHash(mix(block)), 1);
        // A master tells its trials on a tick.
        if self.uses.is_multiple_of(USES_PER_TICK) && self.cache.len() as u64 == self.blocks {
            self.trials.note_full(self.cache.len(), self.blocks);
            self.cache.set_weight(self.trials.weight());
        }
        self.cache.note_use(now, block, 1)
    }
}

const USES_PER_TICK: u64 = 64;
