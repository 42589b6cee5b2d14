//! How values are written and read.
//!
//! [`Shape`] says what a type looks like on the wire, [`Pack`] writes a value of it, [`Unpack`]
//! reads one. A value has no tags: both ends know its shape.

use super::fault::{Cause, Fault};
use super::literal::Literal;

/// Most items of one list of a request or reply. Peers send some thousands at once; without a limit
/// a frame of empty strings would take sixteen times its size in memory.
pub const LIST_ITEMS_MAX: usize = 1 << 20;

/// A type as the protocol sees it.
pub trait Shape {
    /// Its literal.
    const LITERAL: Literal;

    /// Its code, with a low bit of zero.
    const CODE: u32 = Self::LITERAL.code();

    /// Fewest bytes that a value takes. A list takes memory only for items that its bytes can hold.
    const BYTES_MIN: usize;
}

/// A type whose values can be written.
pub trait Pack: Shape {
    /// Writes the value behind what `out` has.
    ///
    /// If a count does not fit, the whole body is written again with wider counts. So this may be
    /// called more than once, and writes the same each time.
    fn pack(&self, out: &mut Writer<'_>);
}

/// A type whose values can be read. Strings borrow from the bytes that were read.
pub trait Unpack<'a>: Shape + Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// A [`Fault`] if the bytes are not such a value.
    fn unpack(input: &mut Reader<'a>) -> Result<Self, Fault>;
}

/// How many bytes each count of a body takes. One body has one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Counts up to 255.
    One,
    /// Counts up to 65,535.
    Two,
    /// Counts up to 2^32 - 1.
    Four,
    /// All counts.
    Eight,
}

impl Width {
    /// The narrowest that has room for `count`.
    pub const fn of(count: usize) -> Width {
        match count as u64 {
            0..0x100 => Width::One,
            0x100..0x1_0000 => Width::Two,
            0x1_0000..0x1_0000_0000 => Width::Four,
            _ => Width::Eight,
        }
    }

    /// From the two bits that name it in a body.
    pub(super) const fn from_bits(bits: u8) -> Width {
        match bits & 3 {
            0 => Width::One,
            1 => Width::Two,
            2 => Width::Four,
            _ => Width::Eight,
        }
    }

    /// The two bits that name it in a body.
    pub(super) const fn bits(self) -> u8 {
        self as u8
    }

    pub(super) const fn bytes(self) -> usize {
        1 << self.bits()
    }
}

/// Writes values to the end of a buffer.
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    width: Width,
    /// The width that the first count that did not fit needs.
    wider: Option<Width>,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, width: Width) -> Writer<'o> {
        Writer { out, width, wider: None }
    }

    /// The width that is needed, if what was written is of no use because it was narrower.
    pub(super) fn wider(&self) -> Option<Width> {
        self.wider
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a count. False if it does not fit; then what follows need not be written.
    pub fn count(&mut self, count: usize) -> bool {
        let needed = Width::of(count);
        if needed > self.width {
            self.wider = self.wider.max(Some(needed));
        }
        if self.wider.is_some() {
            return false;
        }
        let bytes = (count as u64).to_le_bytes();
        match self.width {
            Width::One => self.out.push(bytes[0]),
            width => self.out.extend_from_slice(&bytes[..width.bytes()]),
        }
        true
    }

    /// Writes a count and as many items, up to the first that does not fit.
    pub fn list<T: Pack>(&mut self, items: impl ExactSizeIterator<Item = T>) {
        if !self.count(items.len()) {
            return;
        }
        for item in items {
            item.pack(self);
            if self.wider.is_some() {
                return;
            }
        }
    }
}

/// Reads values from the front of a body.
pub struct Reader<'a> {
    rest: &'a [u8],
    width: Width,
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8], width: Width) -> Reader<'a> {
        Reader { rest, width }
    }

    /// What was not taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `length` bytes.
    ///
    /// # Errors
    /// `Short` if there are fewer.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(Cause::Short { needed: length as u64, left: self.rest.len() }.into()),
        }
    }

    /// Takes the next `N` bytes.
    ///
    /// # Errors
    /// `Short` if there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(Cause::Short { needed: N as u64, left: self.rest.len() }.into()),
        }
    }

    /// Takes a byte that is zero or one.
    ///
    /// # Errors
    /// `Short`, or `Flag` for another byte.
    pub fn flag(&mut self) -> Result<bool, Fault> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(Cause::Flag { byte }.into()),
        }
    }

    /// Takes the count of a string or list whose items take at least `item_bytes_min` each.
    ///
    /// # Errors
    /// `Short` if the rest of the body cannot hold so many, however small they are.
    #[inline]
    pub fn count(&mut self, item_bytes_min: usize) -> Result<usize, Fault> {
        let count = match self.width {
            Width::One => u64::from(self.array::<1>()?[0]),
            Width::Two => u64::from(u16::from_le_bytes(self.array()?)),
            Width::Four => u64::from(u32::from_le_bytes(self.array()?)),
            Width::Eight => u64::from_le_bytes(self.array()?),
        };
        let needed = count.saturating_mul(item_bytes_min.max(1) as u64);
        if needed > self.rest.len() as u64 {
            return Err(Cause::Short { needed, left: self.rest.len() }.into());
        }
        Ok(count as usize)
    }

    /// Reads a count and as many items.
    ///
    /// # Errors
    /// `Short` as [`Reader::count`], before memory is taken; `List` for more than
    /// [`LIST_ITEMS_MAX`]; and what the items are refused for.
    pub fn list<T: Unpack<'a>>(&mut self) -> Result<Vec<T>, Fault> {
        let count = self.count(T::BYTES_MIN)?;
        if count > LIST_ITEMS_MAX {
            return Err(Cause::List { count }.into());
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(T::unpack(self)?);
        }
        Ok(items)
    }
}
