//! The keys of a run, and batches of them.

use std::collections::BTreeMap;

use mooring_actors::ShardId;
use mooring_actors::shard::message::KeyBatch;
use rand::Rng;

use crate::world::World;

impl World {
    /// Some keys; the same one may come twice, and a tenth of all keys comes half of the time.
    pub(crate) fn draw_keys(&mut self, count_max: usize) -> Vec<u32> {
        let count = self.dice.random_range(1..=count_max);
        (0..count)
            .map(|_| {
                let hot = self.dice.random_bool(0.5);
                let keys = if hot { (self.plan.keys / 10).max(1) } else { self.plan.keys };
                self.dice.random_range(0..keys)
            })
            .collect()
    }

    /// Some keys, to each shard its own.
    pub(crate) fn draw_batches(&mut self, count_max: usize) -> BTreeMap<ShardId, Vec<u32>> {
        let mut batches: BTreeMap<ShardId, Vec<u32>> = BTreeMap::new();
        for key in self.draw_keys(count_max) {
            batches.entry(self.shard_of(key)).or_default().push(key);
        }
        batches
    }

    /// The shard of a key.
    pub(crate) fn shard_of(&self, key: u32) -> ShardId {
        self.cluster.shard_of(&key_bytes(key))
    }

    /// The batch of some keys.
    pub(crate) fn batch(&self, keys: &[u32]) -> KeyBatch {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key_bytes(*key)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.cluster.batch(&keys)
    }
}

/// The key with these bytes.
pub(crate) fn key_number(bytes: &[u8]) -> u32 {
    let digits = std::str::from_utf8(&bytes[6..10]).expect("every key was made by this model");
    u32::from_str_radix(digits, 16).expect("every key was made by this model")
}

/// The bytes of a key: from 10 to 70 of them, and now and then many more.
pub(crate) fn key_bytes(key: u32) -> Vec<u8> {
    let mut bytes = format!("block-{key:04x}").into_bytes();
    let longer = if key.is_multiple_of(97) { 2_000 } else { 0 };
    bytes.extend_from_slice(&FILLING[..(key as usize * 37) % 60 + longer]);
    bytes
}

/// What the longest key is filled up with.
const FILLING: [u8; 2_060] = [b'.'; 2_060];
