//! Lists of blocks in the order in which they came; a block is in one of them at most.

use std::collections::{BTreeMap, HashMap};

/// So many lists.
pub(super) struct Lists<const N: usize> {
    places: HashMap<u64, (usize, u64)>,
    in_order: [BTreeMap<u64, u64>; N],
    pushed: u64,
}

impl<const N: usize> Lists<N> {
    pub(super) fn new() -> Lists<N> {
        let in_order = std::array::from_fn(|_| BTreeMap::new());
        Lists { places: HashMap::new(), in_order, pushed: 0 }
    }

    /// In which list a block is.
    pub(super) fn place(&self, block: u64) -> Option<usize> {
        self.places.get(&block).map(|(list, _)| *list)
    }

    /// How many blocks are in a list.
    pub(super) fn len(&self, list: usize) -> usize {
        self.in_order[list].len()
    }

    /// The block that came first to a list.
    pub(super) fn oldest(&self, list: usize) -> Option<u64> {
        self.in_order[list].first_key_value().map(|(_, block)| *block)
    }

    /// Moves a block to the end of a list, from wherever it is.
    pub(super) fn push(&mut self, list: usize, block: u64) {
        self.remove(block);
        self.pushed += 1;
        self.places.insert(block, (list, self.pushed));
        self.in_order[list].insert(self.pushed, block);
    }

    /// Takes a block out of its list, if it is in one.
    pub(super) fn remove(&mut self, block: u64) {
        if let Some((list, number)) = self.places.remove(&block) {
            self.in_order[list].remove(&number);
        }
    }
}
