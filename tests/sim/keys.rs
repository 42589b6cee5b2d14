//! The keys of a run, and batches of them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use mooring_actors::ShardId;
use mooring_actors::route::KeyHash;
use mooring_actors::shard::message::{KeyBatch, KeyRef};
use rand::Rng;

use crate::cluster::maps::HashMap;
use crate::world::World;

/// The keys that were named so far, each with its hash, which is the same with every master.
#[derive(Debug, Default)]
pub(crate) struct KeyBook {
    known: RefCell<HashMap<u32, (Vec<u8>, KeyHash)>>,
}

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
        self.with_key(key, |_, hash| self.cluster.route.shard(hash))
    }

    /// The batch of some keys.
    pub(crate) fn batch(&self, keys: &[u32]) -> KeyBatch {
        let mut frame = Vec::with_capacity(64 * keys.len());
        let mut refs = Vec::with_capacity(keys.len());
        for key in keys {
            self.with_key(*key, |bytes, hash| {
                let (at, length) = (frame.len() as u32, bytes.len() as u32);
                refs.push(KeyRef { hash, at, length });
                frame.extend_from_slice(bytes);
            });
        }
        KeyBatch { frame: Bytes::from(frame), keys: refs }
    }

    /// Does something with the bytes of a key and their hash.
    fn with_key<T>(&self, key: u32, act: impl FnOnce(&[u8], KeyHash) -> T) -> T {
        let mut known = self.key_book.known.borrow_mut();
        let (bytes, hash) = known.entry(key).or_insert_with(|| {
            let bytes = key_bytes(key);
            let hash = self.cluster.route.hash(&bytes);
            (bytes, hash)
        });
        act(bytes, *hash)
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
