//! The keys of blocks, and the bytes that follow from them.

use crate::bench::mix;

/// The key of a block, in the shape that engines use.
pub(crate) fn key_of(block: u64) -> Vec<u8> {
    let (high, low) = (mix(block), mix(!block));
    format!("demo/chat-70b@{block:016x}{high:016x}{low:016x}_0_k").into_bytes()
}

/// Bytes that only this key has: a peer that reads any other range, an older object or a torn write
/// finds other ones.
pub(crate) fn block_bytes(key: &[u8], length_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length_bytes + WORD_BYTES);
    let mut words = Words::of(key);
    while bytes.len() < length_bytes {
        bytes.extend_from_slice(&words.next().to_le_bytes());
    }
    bytes.truncate(length_bytes);
    bytes
}

/// How many bytes are not those of the key; missing and surplus ones count.
pub(crate) fn wrong_bytes(key: &[u8], length_bytes: usize, found: &[u8]) -> u64 {
    let compared = found.len().min(length_bytes);
    let mut words = Words::of(key);
    let mut wrong = found.len().abs_diff(length_bytes) as u64;
    for chunk in found[..compared].chunks(WORD_BYTES) {
        let expected = words.next().to_le_bytes();
        if chunk != &expected[..chunk.len()] {
            wrong += chunk.iter().zip(expected).filter(|(is, should)| *is != should).count() as u64;
        }
    }
    wrong
}

/// An endless sequence of words that follows from a key.
struct Words(u64);

impl Words {
    fn of(key: &[u8]) -> Words {
        let fold = |seed: u64, chunk: &[u8]| {
            let mut word = [0; WORD_BYTES];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(seed ^ u64::from_le_bytes(word))
        };
        Words(key.chunks(WORD_BYTES).fold(key.len() as u64, fold))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

const WORD_BYTES: usize = 8;

/// Odd, so that the sequence takes every value before it repeats.
const STEP: u64 = 0xd1b5_4a32_d192_ed03;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_makes_is_right_for_it_alone() {
        let (one, two) = (key_of(1), key_of(2));
        for length in [1, 7, 8, 1000] {
            let bytes = block_bytes(&one, length);
            assert_eq!(bytes.len(), length);
            assert_eq!(wrong_bytes(&one, length, &bytes), 0);
        }
        assert!(wrong_bytes(&two, 1000, &block_bytes(&one, 1000)) > 900);
    }

    #[test]
    fn each_changed_missing_or_surplus_byte_is_counted() {
        let key = key_of(1);
        let mut bytes = block_bytes(&key, 100);
        bytes[13] ^= 1;
        bytes[99] ^= 0x80;
        assert_eq!(wrong_bytes(&key, 100, &bytes), 2);
        assert_eq!(wrong_bytes(&key, 100, &bytes[..90]), 1 + 10);
        assert_eq!(wrong_bytes(&key, 90, &bytes), 1 + 10);
    }
}
