//! Type literals: how the protocol spells the shape of a type, and the code that is made of it.
//!
//! One byte for each node of the type, without names, so only shapes matter. Peers compare codes
//! before they read a value; most of them also send the literal itself.

use super::md5::md5_prefix;

pub(super) const INT32: u8 = 0x01;
pub(super) const UINT32: u8 = 0x02;
pub(super) const INT64: u8 = 0x03;
pub(super) const UINT64: u8 = 0x04;
pub(super) const INT8: u8 = 0x05;
pub(super) const UINT8: u8 = 0x06;
pub(super) const INT16: u8 = 0x07;
pub(super) const UINT16: u8 = 0x08;
pub(super) const BOOL: u8 = 0x0b;
pub(super) const CHAR: u8 = 0x0c;
pub(super) const FLOAT: u8 = 0x11;
pub(super) const DOUBLE: u8 = 0x12;
pub(super) const STRING: u8 = 0x80;
pub(super) const ARRAY: u8 = 0x81;
pub(super) const MAP: u8 = 0x82;
pub(super) const SET: u8 = 0x83;
pub(super) const VECTOR: u8 = 0x84;
pub(super) const OPTIONAL: u8 = 0x85;
pub(super) const VARIANT: u8 = 0x86;
pub(super) const EXPECTED: u8 = 0x87;
pub(super) const VOID: u8 = 0xfa;
pub(super) const END_WITH_ID: u8 = 0xfc;
pub(super) const STRUCT: u8 = 0xfd;
pub(super) const END: u8 = 0xff;

/// The number 8 as literals spell it. A plain pair of two `u64` states its alignment with it.
pub(super) const EIGHT: u8 = 0x89;

/// Longest literal, in bytes. The longest of the protocol has about a hundred.
const LITERAL_BYTES_MAX: usize = 160;

/// The literal of a type; constant, and built from the literals of its parts.
#[derive(Clone, Copy)]
pub struct Literal {
    bytes: [u8; LITERAL_BYTES_MAX],
    length: usize,
}

impl Literal {
    /// The literal of nothing: the arguments of a function without parameters.
    pub const EMPTY: Literal = Literal { bytes: [0; LITERAL_BYTES_MAX], length: 0 };

    /// The bytes as they stand on the wire, without the zero byte after them.
    pub const fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.length).0
    }

    /// The code of the type; its low bit is zero, since the wire has a flag there.
    pub const fn code(&self) -> u32 {
        md5_prefix(self.as_bytes()) & !1
    }

    /// A struct or tuple of `members`.
    pub const fn of_struct(members: &[Literal]) -> Literal {
        Literal::EMPTY.byte(STRUCT).all(members).byte(END)
    }

    /// A variant of `kinds`.
    pub const fn of_variant(kinds: &[Literal]) -> Literal {
        Literal::EMPTY.byte(VARIANT).all(kinds).byte(END)
    }

    /// The arguments of a function: nothing, the one type as it is, or a tuple.
    pub const fn of_arguments(parameters: &[Literal]) -> Literal {
        match parameters {
            [] => Literal::EMPTY,
            [one] => *one,
            more => Literal::of_struct(more),
        }
    }

    pub(super) const fn byte(mut self, byte: u8) -> Literal {
        // Past the end this does not compile: literals are made in constants only.
        self.bytes[self.length] = byte;
        self.length += 1;
        self
    }

    pub(super) const fn then(mut self, other: Literal) -> Literal {
        let mut at = 0;
        while at < other.length {
            self = self.byte(other.bytes[at]);
            at += 1;
        }
        self
    }

    const fn all(mut self, others: &[Literal]) -> Literal {
        let mut at = 0;
        while at < others.len() {
            self = self.then(others[at]);
            at += 1;
        }
        self
    }
}
