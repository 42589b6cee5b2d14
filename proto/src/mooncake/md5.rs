//! MD5, at compile time.
//!
//! The protocol names functions and types by the first bytes of an MD5 sum. Nothing secret hangs on
//! it. It is written here because it has to be constant: ids and codes are then numbers that the
//! compiler knows, and none is computed while serving.

/// The first four bytes of the MD5 sum of `bytes`, as a big-endian number: what the protocol takes
/// for an id.
pub(super) const fn md5_prefix(bytes: &[u8]) -> u32 {
    let mut state = INITIAL;
    let mut block = 0;
    while block < block_count(bytes.len()) {
        state = compress(state, &block_at(bytes, block));
        block += 1;
    }
    // The sum is the state in little-endian bytes, of which the first four are read as big-endian.
    state[0].swap_bytes()
}

/// Blocks of 64 bytes with the padding: at least one byte and the length in eight.
const fn block_count(message_bytes: usize) -> usize {
    (message_bytes + 1 + 8).div_ceil(64)
}

const fn block_at(bytes: &[u8], block: usize) -> [u32; 16] {
    let mut words = [0; 16];
    let mut at = 0;
    while at < 64 {
        words[at / 4] |= (padded_byte(bytes, block * 64 + at) as u32) << (8 * (at % 4));
        at += 1;
    }
    words
}

/// The byte at a position of the message with its padding.
const fn padded_byte(bytes: &[u8], at: usize) -> u8 {
    let length_at = block_count(bytes.len()) * 64 - 8;
    if at < bytes.len() {
        bytes[at]
    } else if at == bytes.len() {
        0x80
    } else if at >= length_at {
        (bytes.len() as u64 * 8).to_le_bytes()[at - length_at]
    } else {
        0
    }
}

const fn compress(state: [u32; 4], words: &[u32; 16]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    let mut step = 0;
    while step < 64 {
        let (mixed, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(SINES[step]).wrapping_add(words[word % 16]);
        let rotated = sum.rotate_left(ROTATIONS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
        step += 1;
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
    ]
}

/// The state before the first block, RFC 1321 §3.3.
const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// How far each step rotates, by round.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The integer part of 2^32 times the absolute sine of 1 to 64.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

#[cfg(test)]
mod tests {
    use super::md5_prefix;

    #[test]
    fn the_sums_of_rfc_1321_come_out() {
        assert_eq!(md5_prefix(b""), 0xd41d_8cd9);
        assert_eq!(md5_prefix(b"abc"), 0x9001_5098);
        let digits = b"1234567890".repeat(8);
        assert_eq!(md5_prefix(&digits), 0x57ed_f4a2);
    }

    #[test]
    fn a_message_may_end_anywhere_in_a_block() {
        // Computed by another implementation: sums of 55, 56, 63, 64 and 65 times the letter a.
        let sums = [
            (55, 0xef1772b6),
            (56, 0x3b0c8ac7),
            (63, 0xb06521f3),
            (64, 0x014842d4),
            (65, 0xc743a45e),
        ];
        for (length, sum) in sums {
            assert_eq!(md5_prefix(&vec![b'a'; length]), sum, "{length} bytes");
        }
    }
}
