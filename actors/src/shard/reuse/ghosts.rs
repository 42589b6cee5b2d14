//! Keys that were evicted not long ago, in two bytes each.

use crate::route::KeyHash;
use crate::shard::prefetch::prefetch;

/// About as many evicted keys as there are objects, by a fingerprint of 16 bits. In a row, the oldest
/// one makes room.
///
/// A key is taken for another one once in some thousand times; then a new object stays longer than
/// it should, and nothing else happens.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    rows: Vec<Row>,
}

/// Where the next one goes, and the fingerprints.
type Row = [u16; 1 + ROW];

impl Ghosts {
    /// Remembers a key of a shard of so many objects. When there are far more or far fewer of them
    /// than there were, all others are forgotten.
    pub(super) fn add(&mut self, hash: KeyHash, objects: usize) {
        let wanted = objects / ROW + 1;
        if wanted > self.rows.len().saturating_mul(2) || wanted < self.rows.len() / 4 {
            // A few more, so that the usual ups and downs change nothing.
            self.rows = vec![[0; 1 + ROW]; wanted + wanted / 4];
        }
        let place = self.place(hash);
        let [next, fingerprints @ ..] = &mut self.rows[place];
        fingerprints[usize::from(*next)] = fingerprint(hash);
        *next = (*next + 1) % ROW as u16;
    }

    /// Whether a key is among them. It is forgotten.
    pub(super) fn take(&mut self, hash: KeyHash) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        let place = self.place(hash);
        let [_, fingerprints @ ..] = &mut self.rows[place];
        let found = fingerprints.iter_mut().find(|other| **other == fingerprint(hash));
        found.map(|other| *other = 0).is_some()
    }

    /// Brings the row of a key nearer.
    pub(super) fn prefetch(&self, hash: KeyHash) {
        if let Some(row) = self.rows.get(self.place(hash)) {
            prefetch(row);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
    }

    fn place(&self, hash: KeyHash) -> usize {
        // All but the lowest 16 bits, which are the fingerprint; the uppermost say little within a
        // shard, and a multiplication mixes them with those between.
        let mixed = (hash.0 >> u16::BITS).wrapping_mul(MIX);
        ((u128::from(mixed) * self.rows.len() as u128) >> u64::BITS) as usize
    }
}

/// Never zero, which is an empty place.
fn fingerprint(hash: KeyHash) -> u16 {
    (hash.0 as u16).max(1)
}

/// Fingerprints of a row, which has 32 bytes.
const ROW: usize = 15;

/// An odd number with as many ones as zeros, from the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
