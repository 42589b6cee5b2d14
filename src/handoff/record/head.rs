//! Writing the numbers that a record begins with.

use mooring_actors::handoff::RangePlace;

use crate::handoff::format::HAS_SEGMENT;

/// Everything of a record but its key and its fields, which is being written.
pub(super) struct Head<'a> {
    bytes: &'a mut [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl<'a> Head<'a> {
    /// Begins with its first byte.
    #[inline]
    pub(super) fn new(bytes: &'a mut [u8; HEAD_BYTES_MAX]) -> Head<'a> {
        Head { bytes, length: 0 }
    }

    /// How long it is so far.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline(always)]
    pub(super) fn varint(&mut self, value: u64) {
        if value < 1 << 7 {
            self.byte(value as u8);
        } else if value < 1 << 14 {
            let value = value as u16;
            self.write((value & 0x7f | 0x80 | (value & 0x3f80) << 1).to_le_bytes(), 2);
        } else if value < 1 << 28 {
            let value = value as u32;
            let sevens = value & 0x7f
                | (value & 0x3f80) << 1
                | (value & 0x001f_c000) << 2
                | (value & 0x0fe0_0000) << 3;
            let has_four = value >= 1 << 21;
            let all_but_last = if has_four { 0x0080_8080 } else { 0x8080 };
            self.write((sevens | all_but_last).to_le_bytes(), 3 + usize::from(has_four));
        } else if value >> 56 == 0 {
            self.middle_varint(value);
        } else {
            self.long_varint(value);
        }
    }

    /// Writes all of these bytes, of which so many count.
    #[inline(always)]
    fn write<const N: usize>(&mut self, bytes: [u8; N], length: usize) {
        self.bytes[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += length;
    }

    /// Of two to eight bytes, all of which are made and written together.
    #[inline]
    fn middle_varint(&mut self, value: u64) {
        let length = value.ilog2() as usize / 7 + 1;
        // 56 bits become two times 28, four times fourteen, and eight times seven.
        let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
        let fourteens = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
        let sevens = fourteens & 0x007f_007f_007f_007f | (fourteens & 0x3f80_3f80_3f80_3f80) << 1;
        let all_but_last = 0x0080_8080_8080_8080 & ((1 << (8 * (length - 1))) - 1);
        self.write((sevens | all_but_last).to_le_bytes(), length);
    }

    #[cold]
    fn long_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    pub(super) fn place(&mut self, bits: u8, place: RangePlace, before: Option<&RangePlace>) {
        match before.filter(|before| before.segment == place.segment) {
            Some(before) => {
                self.byte(bits);
                // The writer refuses what is out of order before it comes here.
                self.varint(place.offset_bytes.saturating_sub(before.offset_bytes));
            }
            None => {
                self.byte(bits | HAS_SEGMENT);
                self.varint(u64::from(place.segment));
                self.varint(place.offset_bytes);
            }
        }
    }
}

/// The bits, the replicas, two varints of 32 bits and six of 64, and what the last of them writes beyond
/// its end.
pub(super) const HEAD_BYTES_MAX: usize = 1 + 1 + 2 * 5 + 6 * 10 + 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::bytes::put_varint;

    #[test]
    fn a_head_has_the_varints_of_the_format() {
        for shift in 0..64 {
            for value in [1 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let (mut room, mut expected) = ([0; HEAD_BYTES_MAX], Vec::new());
                let mut head = Head::new(&mut room);
                for value in [value, 5, value] {
                    head.varint(value);
                    put_varint(&mut expected, value);
                }
                let length = head.length();
                assert_eq!(room[..length], expected, "{value}");
            }
        }
    }
}
