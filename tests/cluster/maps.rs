//! Maps with a cheap hash that is the same in each run. Nobody sends keys here to make them collide.

use std::hash::{BuildHasherDefault, Hasher};

/// A map; `default` makes an empty one.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Numbers>>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Numbers>>;

/// The hash of a few numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Odd, so that nothing is multiplied away.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // A product has its best bits on top, and a map takes some from below.
        self.0.rotate_left(26)
    }
}
