//! The primitive values of the format: varints, fixed little-endian integers, and lengths.

/// Bytes that are read from the front. A value that is not whole is `None`; nothing panics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Reads from the first of these bytes on.
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, position: 0 }
    }

    /// Reads on from a place inside.
    #[inline]
    pub(super) fn at(bytes: &'a [u8], position: usize) -> Cursor<'a> {
        Cursor { bytes, position: position.min(bytes.len()) }
    }

    /// How many bytes were read.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Whether everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// That many bytes.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    /// An array.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    #[inline]
    pub(super) fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    /// Two bytes.
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub(super) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// An integer of seven bits a byte, the lowest first.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        // Most stand among other bytes and have at most eight: all of them are looked at together.
        let Some(bytes) = self.bytes.get(self.position..).and_then(|left| left.first_chunk())
        else {
            return self.varint_by_bytes();
        };
        let word = u64::from_le_bytes(*bytes);
        let lasts = !word & 0x8080_8080_8080_8080;
        if lasts == 0 {
            return self.varint_by_bytes();
        }
        self.position += lasts.trailing_zeros() as usize / 8 + 1;
        // Everything up to the top bit of the last byte.
        let own = word & (lasts ^ (lasts - 1));
        // Sevens beside each other become fourteens, those 28, and those 56.
        let sevens = own & 0x7f7f_7f7f_7f7f_7f7f;
        let fourteens = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
        let halves = fourteens & 0x0000_3fff_0000_3fff | (fourteens & 0x3fff_0000_3fff_0000) >> 2;
        Some(halves & 0x0fff_ffff | (halves & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// As [`varint`](Self::varint), also near the end and for the longest ones.
    fn varint_by_bytes(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    /// A varint that counts bytes or things in memory.
    #[inline]
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// A varint of at most 32 bits.
    #[inline]
    pub(super) fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// Text after its length.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// A value that may be missing.
    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// A list after its length. Each item takes at least one byte, so that a length cannot claim
    /// more memory than the bytes that are there.
    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let length = self.length().filter(|length| *length <= self.left())?;
        (0..length).map(|_| read(self)).collect()
    }
}

/// Appends an integer as seven bits a byte, the lowest first.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends text after its length.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Appends a value that may be missing.
pub(super) fn put_optional<T>(
    bytes: &mut Vec<u8>,
    value: Option<T>,
    put: impl FnOnce(&mut Vec<u8>, T),
) {
    bytes.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(bytes, value);
    }
}

/// Appends a list after its length.
pub(super) fn put_list<T>(bytes: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(bytes, items.len() as u64);
    items.iter().for_each(|item| put(bytes, item));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_varint_reads_back(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Some(value));
            prop_assert!(cursor.is_empty());
            prop_assert_eq!(Cursor::new(&bytes[..bytes.len() - 1]).varint(), None);
            // Whatever follows it.
            let end = bytes.len();
            for after in [0x00, 0x7f, 0x80, 0xff] {
                bytes.truncate(end);
                bytes.resize(end + 9, after);
                let mut cursor = Cursor::new(&bytes);
                prop_assert_eq!(cursor.varint(), Some(value));
                prop_assert_eq!(cursor.position(), end);
            }
        }
    }

    #[test]
    fn a_varint_that_no_integer_has_is_none() {
        assert_eq!(Cursor::new(&[0xff; 10]).varint(), None);
        assert_eq!(Cursor::new(&[0x80; 11]).varint(), None);
        let mut highest = [0xff; 10];
        highest[9] = 1;
        assert_eq!(Cursor::new(&highest).varint(), Some(u64::MAX));
    }

    #[test]
    fn a_length_cannot_claim_more_than_is_there() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(Cursor::new(&bytes).list(|cursor| cursor.u8()), None);
        assert_eq!(Cursor::new(&bytes).text(), None);
    }
}
