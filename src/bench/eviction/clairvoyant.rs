//! What knows the future: it keeps what comes back soonest, and nothing that never does.

use std::collections::{BTreeSet, HashMap, VecDeque};

use mooring_actors::Moment;

use super::policy::Policy;
use crate::demo::trace::TraceRequest;

pub(super) struct Clairvoyant {
    room: usize,
    /// When each block is used, by the number of the reference.
    uses: HashMap<u64, VecDeque<u64>>,
    /// What is there, by its next use.
    held: BTreeSet<(u64, u64)>,
}

impl Clairvoyant {
    pub(super) fn new(blocks: u64, future: &[TraceRequest]) -> Clairvoyant {
        let mut uses: HashMap<u64, VecDeque<u64>> = HashMap::new();
        for (number, block) in (0..).zip(future.iter().flat_map(|request| &request.hash_ids)) {
            uses.entry(*block).or_default().push_back(number);
        }
        Clairvoyant { room: blocks as usize, uses, held: BTreeSet::new() }
    }
}

impl Policy for Clairvoyant {
    fn note_use(&mut self, _now: Moment, block: u64) -> bool {
        let Some(uses) = self.uses.get_mut(&block) else { return false };
        let this = uses.pop_front();
        let there = this.is_some_and(|number| self.held.remove(&(number, block)));
        if let Some(next) = uses.front() {
            self.held.insert((*next, block));
            if self.held.len() > self.room {
                self.held.pop_last();
            }
        }
        there
    }
}
