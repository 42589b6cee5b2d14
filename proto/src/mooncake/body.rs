//! A whole body: the code of its type, a byte about its form, perhaps the literal, then the value.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | the code of the type; its low bit says that the next byte follows |
//! | 1 | the form: bits 0 and 1 the width of a total length, bit 2 a literal, bits 3 and 4 the width of counts |
//! | 0, 2, 4, 8 | the total length, of peers whose messages have appended members |
//! | any | the literal and a zero byte |
//! | rest | the value, and what is appended to it |

use super::fault::{Cause, Fault, TypeMismatch};
use super::literal::Literal;
use super::pack::{Pack, Reader, Shape, Unpack, Width, Writer};
use super::readable::readable_type;

/// Whether a body that is written carries the literal of its type. Peers accept both; those built
/// without `NDEBUG`, as all released ones are, send it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Only the code: half the size of a small reply.
    #[default]
    Plain,
    /// The code and the literal, as released peers write it; helps tools that watch the network.
    WithLiteral,
}

/// The low bit of the code: a byte about the form follows.
const FORM_FOLLOWS: u32 = 1;

/// The bits of that byte that give the width of the total length.
const TOTAL_LENGTH_BITS: u8 = 0b11;

/// The bit of that byte that says that the literal follows.
const LITERAL_FOLLOWS: u8 = 0b100;

/// Where the two bits for the width of counts begin.
const WIDTH_SHIFT: u8 = 3;

/// Writes a value as a whole body to the end of `out`, with counts as narrow as they can be. The
/// arguments of a function without parameters are no bytes at all.
pub fn append_body<T: Pack + ?Sized>(out: &mut Vec<u8>, value: &T, form: Form) {
    let literal = const { &T::LITERAL };
    if literal.as_bytes().is_empty() {
        return;
    }
    let start = out.len();
    let mut width = Width::One;
    loop {
        append_prefix(out, literal, T::CODE, form, width);
        let mut writer = Writer::new(out, width);
        value.pack(&mut writer);
        match writer.wider() {
            // Mostly the first count is the largest, so that little was written in vain.
            Some(wider) => width = wider,
            None => return,
        }
        out.truncate(start);
    }
}

fn append_prefix(out: &mut Vec<u8>, literal: &Literal, code: u32, form: Form, width: Width) {
    let mut about = width.bits() << WIDTH_SHIFT;
    if form == Form::WithLiteral {
        about |= LITERAL_FOLLOWS;
    }
    if about == 0 {
        out.extend_from_slice(&code.to_le_bytes());
        return;
    }
    out.extend_from_slice(&(code | FORM_FOLLOWS).to_le_bytes());
    out.push(about);
    if form == Form::WithLiteral {
        out.extend_from_slice(literal.as_bytes());
        out.push(0);
    }
}

/// Reads the value of a body. What follows the value is not looked at: members that a later release
/// appended are there.
///
/// # Errors
/// A [`Fault`]: another type, or bytes that are no value of this one.
pub fn decode_body<'a, T: Unpack<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    T::unpack(&mut open_body(body, const { &T::LITERAL }, T::CODE)?)
}

/// The code that a body names, or `None` if it is too short for one.
pub fn type_code_of(body: &[u8]) -> Option<u32> {
    body.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) & !FORM_FOLLOWS)
}

/// The type that a body names, spelled out, if it carries its literal and that can be read.
pub fn readable_type_of(body: &[u8]) -> Option<String> {
    let literal = split_prefix(body).ok()?.literal?;
    readable_type(literal)
}

fn open_body<'a>(body: &'a [u8], literal: &Literal, code: u32) -> Result<Reader<'a>, Fault> {
    if literal.as_bytes().is_empty() {
        return Ok(Reader::new(&[], Width::One));
    }
    let received = type_code_of(body);
    if received.is_some_and(|received| received != code) {
        return Err(type_mismatch(body, readable(literal)));
    }
    let prefix = split_prefix(body)?;
    if prefix.literal.is_some_and(|received| received != literal.as_bytes()) {
        return Err(type_mismatch(body, readable(literal)));
    }
    Ok(Reader::new(prefix.rest, prefix.width))
}

/// The fault of a body of another type than `expected`.
pub(super) fn type_mismatch(body: &[u8], expected: String) -> Fault {
    let Some(received_code) = type_code_of(body) else {
        return Cause::Short { needed: CODE_BYTES, left: body.len() }.into();
    };
    let received = readable_type_of(body);
    Cause::Type(Box::new(TypeMismatch { expected, received_code, received })).into()
}

/// A literal of this protocol, spelled out.
pub(super) fn readable(literal: &Literal) -> String {
    match literal.as_bytes() {
        [] => "nothing".to_owned(),
        bytes => readable_type(bytes).unwrap_or_else(|| format!("{bytes:02x?}")),
    }
}

/// Bytes of the code.
const CODE_BYTES: u64 = 4;

/// What stands before the value.
struct Prefix<'a> {
    literal: Option<&'a [u8]>,
    width: Width,
    rest: &'a [u8],
}

fn split_prefix(body: &[u8]) -> Result<Prefix<'_>, Fault> {
    let mut reader = Reader::new(body, Width::One);
    let code = u32::from_le_bytes(reader.array()?);
    if code & FORM_FOLLOWS == 0 {
        return Ok(Prefix { literal: None, width: Width::One, rest: reader.rest() });
    }
    let [about] = reader.array()?;
    let total_length_bytes = match about & TOTAL_LENGTH_BITS {
        0 => 0,
        bits => Width::from_bits(bits).bytes(),
    };
    reader.bytes(total_length_bytes)?;
    let mut literal = None;
    if about & LITERAL_FOLLOWS != 0 {
        let rest = reader.rest();
        let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        literal = Some(reader.bytes(length)?);
        reader.bytes(1)?;
    }
    Ok(Prefix { literal, width: Width::from_bits(about >> WIDTH_SHIFT), rest: reader.rest() })
}

/// Shape of a type, by its code alone; for tables.
pub(super) const fn code_of<T: Shape>() -> Option<u32> {
    if T::LITERAL.as_bytes().is_empty() { None } else { Some(T::CODE) }
}
