//! The values that messages are made of: numbers, strings, lists, choices.

use std::fmt;

use super::fault::Fault;
use super::literal::{self, Literal};
use super::pack::{Pack, Reader, Shape, Unpack, Writer};

/// Numbers go in little-endian, in their natural size.
macro_rules! numbers {
    ($($number:ty = $literal:ident;)*) => {
        $(
            impl Shape for $number {
                const LITERAL: Literal = Literal::EMPTY.byte(literal::$literal);
                const BYTES_MIN: usize = size_of::<$number>();
            }

            impl Pack for $number {
                fn pack(&self, out: &mut Writer<'_>) {
                    out.bytes(&self.to_le_bytes());
                }
            }

            impl<'a> Unpack<'a> for $number {
                fn unpack(input: &mut Reader<'a>) -> Result<$number, Fault> {
                    Ok(<$number>::from_le_bytes(input.array()?))
                }
            }
        )*
    };
}

numbers! {
    i8 = INT8;
    u8 = UINT8;
    i16 = INT16;
    u16 = UINT16;
    i32 = INT32;
    u32 = UINT32;
    i64 = INT64;
    u64 = UINT64;
    f32 = FLOAT;
    f64 = DOUBLE;
}

impl Shape for bool {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::BOOL);
    const BYTES_MIN: usize = 1;
}

impl Pack for bool {
    fn pack(&self, out: &mut Writer<'_>) {
        out.bytes(&[u8::from(*self)]);
    }
}

impl<'a> Unpack<'a> for bool {
    fn unpack(input: &mut Reader<'a>) -> Result<bool, Fault> {
        input.flag()
    }
}

impl Shape for () {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::VOID);
    const BYTES_MIN: usize = 0;
}

impl Pack for () {
    fn pack(&self, _out: &mut Writer<'_>) {}
}

impl<'a> Unpack<'a> for () {
    fn unpack(_input: &mut Reader<'a>) -> Result<(), Fault> {
        Ok(())
    }
}

/// A string of the protocol: bytes, in any encoding. Keys are such strings, and so are names.
///
/// It borrows from the frame that it was read from. It is shown as text, with a replacement
/// character for what is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str<'a>(pub &'a [u8]);

impl fmt::Display for Str<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&String::from_utf8_lossy(self.0), out)
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.0), out)
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Str<'a> {
        Str(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Str<'a> {
    fn from(bytes: &'a [u8]) -> Str<'a> {
        Str(bytes)
    }
}

impl Shape for Str<'_> {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::STRING).byte(literal::CHAR);
    const BYTES_MIN: usize = 1;
}

impl Pack for Str<'_> {
    fn pack(&self, out: &mut Writer<'_>) {
        if out.count(self.0.len()) {
            out.bytes(self.0);
        }
    }
}

impl<'a> Unpack<'a> for Str<'a> {
    fn unpack(input: &mut Reader<'a>) -> Result<Str<'a>, Fault> {
        let length = input.count(1)?;
        Ok(Str(input.bytes(length)?))
    }
}

impl<T: Shape + ?Sized> Shape for &T {
    const LITERAL: Literal = T::LITERAL;
    const BYTES_MIN: usize = T::BYTES_MIN;
}

impl<T: Pack + ?Sized> Pack for &T {
    fn pack(&self, out: &mut Writer<'_>) {
        T::pack(self, out);
    }
}

impl<T: Shape> Shape for [T] {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::VECTOR).then(T::LITERAL);
    const BYTES_MIN: usize = 1;
}

impl<T: Pack> Pack for [T] {
    fn pack(&self, out: &mut Writer<'_>) {
        out.list(self.iter());
    }
}

impl<T: Shape> Shape for Vec<T> {
    const LITERAL: Literal = <[T]>::LITERAL;
    const BYTES_MIN: usize = 1;
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, out: &mut Writer<'_>) {
        self.as_slice().pack(out);
    }
}

impl<'a, T: Unpack<'a>> Unpack<'a> for Vec<T> {
    fn unpack(input: &mut Reader<'a>) -> Result<Vec<T>, Fault> {
        input.list()
    }
}

/// A list that is written from an iterator, so that a reply to a batch need not be collected first.
///
/// The iterator is cloned for each writing, and must give the same items each time.
#[derive(Clone, Copy, Debug)]
pub struct Each<I>(pub I);

impl<I: Iterator<Item: Shape>> Shape for Each<I> {
    const LITERAL: Literal = <[I::Item]>::LITERAL;
    const BYTES_MIN: usize = 1;
}

impl<I: ExactSizeIterator<Item: Pack> + Clone> Pack for Each<I> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.list(self.0.clone());
    }
}

/// A map, as a list of its entries in the order in which they stand on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V>(pub Vec<(K, V)>);

impl<K: Shape, V: Shape> Shape for Map<K, V> {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::MAP).then(K::LITERAL).then(V::LITERAL);
    const BYTES_MIN: usize = 1;
}

impl<K: Pack, V: Pack> Pack for Map<K, V> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.list(self.0.iter());
    }
}

impl<'a, K: Unpack<'a>, V: Unpack<'a>> Unpack<'a> for Map<K, V> {
    fn unpack(input: &mut Reader<'a>) -> Result<Map<K, V>, Fault> {
        input.list().map(Map)
    }
}

impl<T: Shape> Shape for Option<T> {
    const LITERAL: Literal = Literal::EMPTY.byte(literal::OPTIONAL).then(T::LITERAL);
    const BYTES_MIN: usize = 1;
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Writer<'_>) {
        self.is_some().pack(out);
        if let Some(value) = self {
            value.pack(out);
        }
    }
}

impl<'a, T: Unpack<'a>> Unpack<'a> for Option<T> {
    fn unpack(input: &mut Reader<'a>) -> Result<Option<T>, Fault> {
        input.flag()?.then(|| T::unpack(input)).transpose()
    }
}

impl<T: Shape, E: Shape> Shape for Result<T, E> {
    const LITERAL: Literal =
        Literal::EMPTY.byte(literal::EXPECTED).then(T::LITERAL).then(E::LITERAL);
    const BYTES_MIN: usize =
        1 + if T::BYTES_MIN < E::BYTES_MIN { T::BYTES_MIN } else { E::BYTES_MIN };
}

impl<T: Pack, E: Pack> Pack for Result<T, E> {
    fn pack(&self, out: &mut Writer<'_>) {
        self.is_ok().pack(out);
        match self {
            Ok(value) => value.pack(out),
            Err(error) => error.pack(out),
        }
    }
}

impl<'a, T: Unpack<'a>, E: Unpack<'a>> Unpack<'a> for Result<T, E> {
    fn unpack(input: &mut Reader<'a>) -> Result<Result<T, E>, Fault> {
        Ok(if input.flag()? { Ok(T::unpack(input)?) } else { Err(E::unpack(input)?) })
    }
}

/// Tuples go member by member. A pair of two plain numbers would have padding and an alignment in
/// its literal; the one of the protocol, [`Uuid`], is a type of its own.
macro_rules! tuples {
    ($(($($member:ident $index:tt),*);)*) => {
        $(
            impl<$($member: Shape),*> Shape for ($($member,)*) {
                const LITERAL: Literal = Literal::of_struct(&[$($member::LITERAL),*]);
                const BYTES_MIN: usize = 0 $(+ $member::BYTES_MIN)*;
            }

            impl<$($member: Pack),*> Pack for ($($member,)*) {
                fn pack(&self, out: &mut Writer<'_>) {
                    $(self.$index.pack(out);)*
                }
            }

            impl<'a, $($member: Unpack<'a>),*> Unpack<'a> for ($($member,)*) {
                fn unpack(input: &mut Reader<'a>) -> Result<($($member,)*), Fault> {
                    Ok(($($member::unpack(input)?,)*))
                }
            }
        )*
    };
}

tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
}

/// The id of a client, segment or task.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid {
    /// The half that goes first.
    pub first: u64,
    /// The half that goes second.
    pub second: u64,
}

impl fmt::Debug for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.first, self.second)
    }
}

impl Shape for Uuid {
    const LITERAL: Literal = Literal::EMPTY
        .byte(literal::STRUCT)
        .byte(literal::UINT64)
        .byte(literal::UINT64)
        .byte(literal::EIGHT)
        .byte(literal::EIGHT)
        .byte(literal::END);
    const BYTES_MIN: usize = 16;
}

impl Pack for Uuid {
    fn pack(&self, out: &mut Writer<'_>) {
        self.first.pack(out);
        self.second.pack(out);
    }
}

impl<'a> Unpack<'a> for Uuid {
    fn unpack(input: &mut Reader<'a>) -> Result<Uuid, Fault> {
        Ok(Uuid { first: u64::unpack(input)?, second: u64::unpack(input)? })
    }
}
