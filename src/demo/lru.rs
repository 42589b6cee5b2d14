//! Exact least-recently-used over blocks: what a cache of this size could have found.

use std::collections::{BTreeMap, HashMap};

/// A cache with room for so many blocks, which holds blocks in the order of their use.
#[derive(Debug, Default)]
pub(crate) struct Lru {
    capacity_blocks: u64,
    now: u64,
    used_at: HashMap<u64, u64>,
    in_order: BTreeMap<u64, u64>,
}

impl Lru {
    /// An empty one.
    pub(crate) fn new(capacity_blocks: u64) -> Lru {
        Lru { capacity_blocks, ..Lru::default() }
    }

    /// References of a request that are found, when the request reads and then holds the blocks of
    /// its chain in their order.
    pub(crate) fn hits(&mut self, blocks: &[u64]) -> u64 {
        blocks.iter().filter(|block| self.refer(**block)).count() as u64
    }

    /// Whether the block is there; afterwards it is the latest one.
    fn refer(&mut self, block: u64) -> bool {
        self.now += 1;
        let before = self.used_at.insert(block, self.now);
        if let Some(before) = before {
            self.in_order.remove(&before);
        }
        self.in_order.insert(self.now, block);
        if self.used_at.len() as u64 > self.capacity_blocks
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.used_at.remove(&oldest);
        }
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(capacity_blocks: u64, chains: &[&[u64]]) -> u64 {
        let mut cache = Lru::new(capacity_blocks);
        chains.iter().map(|chain| cache.hits(chain)).sum()
    }

    #[test]
    fn an_endless_cache_misses_each_block_once() {
        assert_eq!(hits(100, &[&[1, 2, 3], &[1, 2, 4], &[1, 2, 3]]), 5);
    }

    #[test]
    fn the_block_that_was_not_used_for_longest_goes_first() {
        // Room for two: 1 is used again before 3 comes, so 2 goes.
        assert_eq!(hits(2, &[&[1], &[2], &[1], &[3], &[1], &[2]]), 2);
    }

    #[test]
    fn a_cache_without_room_finds_nothing() {
        assert_eq!(hits(0, &[&[1], &[1]]), 0);
    }
}
