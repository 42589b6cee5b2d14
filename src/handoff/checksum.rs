//! The checksum of two parts from the checksums of each.

/// The CRC-32C of bytes that are followed by `second_bytes` others, from that of either part. It takes
/// less than a microsecond, whatever their lengths. That of the crate takes sixty, in which the bytes
/// of a whole chunk could be looked at again.
pub(super) fn of_both(first: u32, second: u32, second_bytes: usize) -> u32 {
    // A checksum is a remainder, and bytes that follow multiply it by x^8 each.
    let mut shifted = first;
    for (bit, power) in POWERS.iter().enumerate() {
        if second_bytes >> bit & 1 != 0 {
            shifted = times(shifted, *power);
        }
    }
    shifted ^ second
}

/// The product of two polynomials, modulo that of the checksum. The highest bit is the coefficient of
/// x^0.
const fn times(one: u32, other: u32) -> u32 {
    let mut product = 0;
    // The other one times a power of x.
    let mut shifted = other;
    let mut exponent = 0;
    while exponent < u32::BITS {
        // Masks, because a branch would be guessed wrong every other time.
        product ^= shifted & mask(one >> (u32::BITS - 1 - exponent));
        shifted = shifted >> 1 ^ POLYNOMIAL & mask(shifted);
        exponent += 1;
    }
    product
}

/// All bits, if the lowest one is set.
const fn mask(bits: u32) -> u32 {
    (bits & 1).wrapping_neg()
}

/// x^8 to the powers of two.
const POWERS: [u32; usize::BITS as usize] = {
    let mut powers = [1 << (u32::BITS - 1 - 8); usize::BITS as usize];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = times(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
};

/// That of CRC-32C without x^32.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_checksum_of_both_is_that_of_all_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            part in 0.0_f64..=1.0,
        ) {
            let (first, second) = bytes.split_at((part * bytes.len() as f64) as usize);
            let found = of_both(crc32c::crc32c(first), crc32c::crc32c(second), second.len());
            prop_assert_eq!(found, crc32c::crc32c(&bytes));
        }

        #[test]
        fn parts_of_any_length_are_put_together_as_the_crate_does_it(
            first: u32, second: u32, length in 0..1_usize << 40,
        ) {
            let expected = crc32c::crc32c_combine(first, second, length);
            prop_assert_eq!(of_both(first, second, length), expected);
        }
    }
}
