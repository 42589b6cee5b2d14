//! Which shard holds a key.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The number of a shard, from zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u16);

/// The hash of a key under the seed of a [`Route`]: the upper half chooses the shard, the lower half
/// is the tag in the shard's index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// The tag in the shard's index.
    pub fn tag(self) -> u32 {
        self.0 as u32
    }
}

/// How keys are spread over shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    secrets: RapidSecrets,
    shards: u16,
}

impl Route {
    /// A route over so many shards, at least one. The seed is random for each master and kept
    /// across a handoff. Keys come from clients: without a seed a peer could choose keys that all
    /// fall together.
    pub fn new(seed: u64, shards: u16) -> Route {
        Route { secrets: RapidSecrets::seed(seed), shards: shards.max(1) }
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The hash of a key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(rapidhash_v3_seeded(key, &self.secrets))
    }

    /// The shard that holds keys of this hash.
    pub fn shard(&self, hash: KeyHash) -> ShardId {
        // Multiplying the upper half and taking the carry spreads evenly over any number of shards
        // without a division.
        ShardId((((hash.0 >> 32) * u64::from(self.shards)) >> 32) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly_over_any_number_of_shards() {
        for shards in [1, 2, 3, 5, 8] {
            let route = Route::new(7, shards);
            let mut keys_by_shard = vec![0_u32; usize::from(shards)];
            for number in 0..20_000_u32 {
                let hash = route.hash(format!("block-{number:08x}-rank0").as_bytes());
                keys_by_shard[usize::from(route.shard(hash).0)] += 1;
            }
            let fair = 20_000 / u32::from(shards);
            for keys in keys_by_shard {
                assert!(keys.abs_diff(fair) < fair / 10, "{keys} keys, a fair share is {fair}");
            }
        }
    }

    #[test]
    fn another_seed_spreads_keys_otherwise() {
        let one = Route::new(1, 8);
        let other = Route::new(2, 8);
        let moved = (0..1000_u32)
            .map(|number| number.to_le_bytes())
            .filter(|key| one.shard(one.hash(key)) != other.shard(other.hash(key)))
            .count();
        assert!(moved > 800, "only {moved} of 1000 keys moved");
    }
}
