//! Keys in the shape that engines use: the model, the hash of the block, the rank.

/// Makes the keys of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyMaker {
    seed: u64,
    key_bytes: usize,
}

impl KeyMaker {
    /// Keys of exactly this many bytes; another seed makes other keys.
    ///
    /// # Errors
    /// Says what is allowed; short keys would not be distinct.
    pub(crate) fn new(seed: u64, key_bytes: usize) -> Result<KeyMaker, String> {
        let max = mooring_proto::limits::KEY_BYTES_MAX;
        if (KEY_BYTES_MIN..=max).contains(&key_bytes) {
            return Ok(KeyMaker { seed, key_bytes });
        }
        Err(format!("--key-bytes {key_bytes}: allowed are {KEY_BYTES_MIN} to {max}"))
    }

    /// Appends the key with this number.
    ///
    /// The hash is a bijection of the number, so keys of one seed are distinct; the rest of its
    /// digits only fill the length of a real hash.
    pub(crate) fn append(&self, number: u64, keys: &mut Vec<u8>) {
        let end = keys.len() + self.key_bytes;
        let hash = mix(number ^ mix(self.seed));
        // Prefix and suffix only where the key has room for them beside the digits that make it
        // distinct.
        let decorated = self.key_bytes >= PREFIX.len() + SUFFIX.len() + HASH_DIGITS;
        let digits_end = if decorated { end - SUFFIX.len() } else { end };
        if decorated {
            keys.extend_from_slice(PREFIX);
        }
        let mut word = hash;
        while keys.len() < digits_end {
            let digits = hexadecimal(word);
            let missing = (digits_end - keys.len()).min(HASH_DIGITS);
            keys.extend_from_slice(&digits[..missing]);
            word = mix(word);
        }
        if decorated {
            keys.extend_from_slice(SUFFIX);
        }
    }
}

/// The finaliser of a well-known generator: every input has an output of its own.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Sixteen digits at once: making keys is most of what a load generator does by itself.
fn hexadecimal(word: u64) -> [u8; HASH_DIGITS] {
    let mut digits = [0; HASH_DIGITS];
    digits[..8].copy_from_slice(&eight_digits((word >> 32) as u32));
    digits[8..].copy_from_slice(&eight_digits(word as u32));
    digits
}

fn eight_digits(word: u32) -> [u8; 8] {
    // Each nibble to the low half of a byte of its own.
    let spread = u64::from(word);
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Ten plus six carries into the high half: one for each byte that is a letter.
    let letters = (spread + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (spread + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

/// Sixteen digits hold a number of 64 bits.
const HASH_DIGITS: usize = 16;
const KEY_BYTES_MIN: usize = HASH_DIGITS;

const PREFIX: &[u8] = b"meta-llama/Llama-3-70B@";
const SUFFIX: &[u8] = b"_0_k";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(maker: &KeyMaker, number: u64) -> Vec<u8> {
        let mut key = Vec::new();
        maker.append(number, &mut key);
        key
    }

    #[test]
    fn keys_have_their_length_and_are_distinct() {
        for key_bytes in [16, 20, 42, 43, 96, 300] {
            let maker = KeyMaker::new(1, key_bytes).unwrap();
            let keys: HashSet<Vec<u8>> = (0..1000).map(|number| key(&maker, number)).collect();
            assert_eq!(keys.len(), 1000);
            assert!(keys.iter().all(|key| key.len() == key_bytes));
        }
    }

    #[test]
    fn digits_are_those_of_the_number() {
        for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, mix(7)] {
            assert_eq!(hexadecimal(word), format!("{word:016x}").as_bytes());
        }
    }

    #[test]
    fn another_seed_makes_other_keys() {
        let (one, two) = (KeyMaker::new(1, 96).unwrap(), KeyMaker::new(2, 96).unwrap());
        assert_ne!(key(&one, 7), key(&two, 7));
        assert_eq!(key(&one, 7), key(&one, 7));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        assert!(KeyMaker::new(1, 15).is_err());
        assert!(KeyMaker::new(1, 4097).is_err());
    }
}
