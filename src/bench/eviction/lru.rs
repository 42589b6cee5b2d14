//! Least recently used.

use mooring_actors::Moment;

use super::policy::Policy;
use crate::demo::lru::Lru;

/// The exact one that the demo compares with.
pub(super) struct Exact(Lru);

impl Exact {
    pub(super) fn new(blocks: u64) -> Exact {
        Exact(Lru::new(blocks))
    }
}

impl Policy for Exact {
    fn note_use(&mut self, _now: Moment, block: u64) -> bool {
        self.0.hits(&[block]) == 1
    }
}
