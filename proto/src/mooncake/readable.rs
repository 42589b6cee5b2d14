//! A literal as a person reads it: what a peer of another release meant to send.

use std::fmt::Write;

use super::literal::*;

/// Spells a literal, such as `{pair of u64, string}` for the bytes of a peer. `None` if the bytes
/// are not one whole literal, nest deeper than 32, or are longer than 1 KiB.
pub fn readable_type(literal: &[u8]) -> Option<String> {
    if literal.len() > READABLE_BYTES_MAX {
        return None;
    }
    let mut text = String::new();
    let rest = node(literal, &mut text, DEPTH_MAX)?;
    rest.is_empty().then_some(text)
}

/// Literals are about a hundred bytes; this is a peer's whim that is not worth a log line.
const READABLE_BYTES_MAX: usize = 1024;

/// Types of the protocol nest five deep.
const DEPTH_MAX: usize = 32;

/// Digits of a number are offset by one, and those that end it by this.
const LAST_DIGIT: u8 = 129;

fn node<'a>(literal: &'a [u8], text: &mut String, depth: usize) -> Option<&'a [u8]> {
    let depth = depth.checked_sub(1)?;
    let (&kind, rest) = literal.split_first()?;
    if let Some(name) = plain_name(kind) {
        text.push_str(name);
        return Some(rest);
    }
    match kind {
        STRING => match rest.split_first()? {
            (&CHAR, rest) => {
                text.push_str("string");
                Some(rest)
            }
            _ => wrapped("string", 1, rest, text, depth),
        },
        SET => wrapped("set", 1, rest, text, depth),
        VECTOR => wrapped("vector", 1, rest, text, depth),
        OPTIONAL => wrapped("optional", 1, rest, text, depth),
        MAP => wrapped("map", 2, rest, text, depth),
        EXPECTED => wrapped("expected", 2, rest, text, depth),
        ARRAY => {
            text.push('[');
            let (size, rest) = number(node(rest, text, depth)?)?;
            write!(text, "; {size}]").ok()?;
            Some(rest)
        }
        VARIANT => members("variant<", ">", rest, text, depth),
        STRUCT => members("{", "}", rest, text, depth),
        _ => None,
    }
}

fn plain_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        INT32 => "i32",
        UINT32 => "u32",
        INT64 => "i64",
        UINT64 => "u64",
        INT8 => "i8",
        UINT8 => "u8",
        INT16 => "i16",
        UINT16 => "u16",
        BOOL => "bool",
        CHAR => "char",
        FLOAT => "f32",
        DOUBLE => "f64",
        VOID => "void",
        _ => return None,
    })
}

/// A type with a fixed number of types in angle brackets.
fn wrapped<'a>(
    name: &str,
    parts: usize,
    mut rest: &'a [u8],
    text: &mut String,
    depth: usize,
) -> Option<&'a [u8]> {
    text.push_str(name);
    for part in 0..parts {
        text.push_str(if part == 0 { "<" } else { "," });
        rest = node(rest, text, depth)?;
    }
    text.push('>');
    Some(rest)
}

/// A list of types up to its end mark. A plain struct also has its alignment, twice.
fn members<'a>(
    open: &str,
    close: &str,
    mut rest: &'a [u8],
    text: &mut String,
    depth: usize,
) -> Option<&'a [u8]> {
    text.push_str(open);
    let mut first = true;
    loop {
        match rest {
            [END, after @ ..] => {
                text.push_str(close);
                return Some(after);
            }
            [END_WITH_ID, after @ ..] => {
                let (id, after) = number(after)?;
                write!(text, "{close}#{id}").ok()?;
                return Some(after);
            }
            // Bytes of alignments are also marks of types; two equal ones before an end are neither
            // a type nor the start of one.
            [one, two, END, after @ ..] if one == two && *one > LAST_DIGIT && !first => {
                write!(text, "{close}@{}", one - LAST_DIGIT).ok()?;
                return Some(after);
            }
            _ => {
                if !first {
                    text.push_str(", ");
                }
                first = false;
                rest = node(rest, text, depth)?;
            }
        }
    }
}

/// A number in digits of base 127, the least significant first.
fn number(mut rest: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut weight) = (0_u64, 1_u64);
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        let last = byte >= LAST_DIGIT;
        let digit = byte.checked_sub(if last { LAST_DIGIT } else { 1 })?;
        value = value.checked_add(weight.checked_mul(u64::from(digit))?)?;
        if last {
            return Some((value, rest));
        }
        weight = weight.checked_mul(127)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_reads_as_the_type_that_it_spells() {
        let cases: &[(&[u8], &str)] = &[
            (&[STRING, CHAR], "string"),
            (&[STRUCT, STRING, CHAR, STRING, CHAR, END], "{string, string}"),
            (&[STRUCT, UINT64, UINT64, EIGHT, EIGHT, END], "{u64, u64}@8"),
            (&[EXPECTED, VOID, INT32], "expected<void,i32>"),
            (&[EXPECTED, MAP, STRING, CHAR, BOOL, INT32], "expected<map<string,bool>,i32>"),
            (&[VARIANT, INT8, SET, UINT16, END], "variant<i8, set<u16>>"),
            (&[ARRAY, DOUBLE, 0x01 + 3, 0x81 + 1], "[f64; 130]"),
            (&[STRUCT, FLOAT, END_WITH_ID, 0x81 + 7], "{f32}#7"),
        ];
        for (literal, text) in cases {
            assert_eq!(readable_type(literal).as_deref(), Some(*text));
        }
    }

    #[test]
    fn what_is_no_literal_has_no_reading() {
        let deep = [VECTOR; 1024];
        let cases: &[&[u8]] = &[
            &[],
            &[STRING],
            &[VECTOR],
            &[STRUCT, BOOL],
            &[0x7f],
            &[BOOL, BOOL],
            &deep,
            &[STRUCT; 2000],
        ];
        for literal in cases {
            assert_eq!(readable_type(literal), None);
        }
    }
}
