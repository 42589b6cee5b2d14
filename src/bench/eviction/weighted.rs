//! What was used again may be idle for so many times as long as what was used once.

use mooring_actors::Moment;
use mooring_actors::shard::Trial;

use super::policy::Policy;

/// The model that the master's trials are made of.
pub(super) struct Weighted(Trial);

impl Weighted {
    pub(super) fn new(weight: u64, blocks: u64) -> Weighted {
        Weighted(Trial::new(weight, blocks))
    }
}

impl Policy for Weighted {
    fn note_use(&mut self, now: Moment, block: u64) -> bool {
        self.0.note_use(now, block, 1)
    }
}
