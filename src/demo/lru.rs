//! Exact least-recently-used over blocks: what a cache of this size could have found.

use std::collections::{BTreeMap, HashMap};

use super::trace::TraceRequest;

/// References of the requests that a cache with room for so many blocks finds, when each request
/// reads and then holds the blocks of its chain in their order.
pub(crate) fn hits(requests: &[TraceRequest], capacity_blocks: u64) -> u64 {
    let mut cache = Cache { capacity_blocks, ..Cache::default() };
    let references = requests.iter().flat_map(|request| &request.hash_ids);
    references.filter(|block| cache.refer(**block)).count() as u64
}

#[derive(Default)]
struct Cache {
    capacity_blocks: u64,
    now: u64,
    used_at: HashMap<u64, u64>,
    in_order: BTreeMap<u64, u64>,
}

impl Cache {
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

    fn requests(chains: &[&[u64]]) -> Vec<TraceRequest> {
        let request =
            |chain: &&[u64]| TraceRequest { hash_ids: chain.to_vec(), ..TraceRequest::default() };
        chains.iter().map(request).collect()
    }

    #[test]
    fn an_endless_cache_misses_each_block_once() {
        let requests = requests(&[&[1, 2, 3], &[1, 2, 4], &[1, 2, 3]]);
        assert_eq!(hits(&requests, 100), 5);
    }

    #[test]
    fn the_block_that_was_not_used_for_longest_goes_first() {
        // Room for two: 1 is used again before 3 comes, so 2 goes.
        let requests = requests(&[&[1], &[2], &[1], &[3], &[1], &[2]]);
        assert_eq!(hits(&requests, 2), 2);
    }

    #[test]
    fn a_cache_without_room_finds_nothing() {
        assert_eq!(hits(&requests(&[&[1], &[1]]), 0), 0);
    }
}
