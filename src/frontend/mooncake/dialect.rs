//! Whether a regular expression means the same here as to the existing master.
//!
//! That one takes ECMAScript as the C++ library of GCC reads it, over bytes. The crate `regex` reads most of
//! it in the same way, refuses some of it, and reads a few things otherwise: `[]a]` is a class of two
//! there, and nothing followed by `a]` to the other one. With what removes keys that must not be left to
//! chance, so what is read otherwise, or only here, is refused.

/// Why an expression is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Foreign {
    /// An escape that is a plain letter there and something else here, or the other way round.
    #[error("an escape that is not read in the same way everywhere")]
    Escape,
    /// `(?…` but for a group without a number. Look-around is refused with it.
    #[error("a group with a question mark other than (?:")]
    Group,
    /// A class in a class, an operator on classes, or a bracket at the start of one.
    #[error("a class of characters that is not read in the same way everywhere")]
    Class,
    /// A repetition of what has no width, or without a lower bound.
    #[error("a repetition that is not read in the same way everywhere")]
    Repetition,
    /// A character outside ASCII in a class: a few bytes to the one, one character to the other.
    #[error("a character outside ASCII in a class, or before a repetition")]
    Character,
}

/// Looks through an expression.
///
/// # Errors
/// Why it is refused. What is no expression at all is left to whoever compiles it.
pub(super) fn check(expression: &str) -> Result<(), Foreign> {
    let mut rest = Rest(expression.as_bytes());
    let mut before = Before::Something;
    while let Some(byte) = rest.next() {
        before = match byte {
            b'\\' => escape(&mut rest)?,
            b'[' => {
                class(&mut rest)?;
                Before::Something
            }
            b'(' if rest.take(b"?") && !rest.take(b":") => return Err(Foreign::Group),
            b'^' | b'$' => Before::NoWidth,
            b'*' | b'+' | b'?' | b'{' => {
                match before {
                    Before::NoWidth => return Err(Foreign::Repetition),
                    Before::Character => return Err(Foreign::Character),
                    Before::Something => {}
                }
                if byte == b'{' && !rest.0.first().is_some_and(u8::is_ascii_digit) {
                    return Err(Foreign::Repetition);
                }
                Before::Something
            }
            0x80.. => Before::Character,
            _ => Before::Something,
        };
    }
    Ok(())
}

/// What a repetition would repeat.
#[derive(Clone, Copy)]
enum Before {
    Something,
    NoWidth,
    /// The end of a character of several bytes: the one repeats its last byte, the other all of it.
    Character,
}

/// What is not looked at yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Whether this is next, and then goes past it.
    fn take(&mut self, what: &[u8]) -> bool {
        let found = self.0.strip_prefix(what);
        self.0 = found.unwrap_or(self.0);
        found.is_some()
    }

    /// A number of so many hexadecimal digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let text = std::str::from_utf8(self.0.get(..count)?).ok()?;
        let all = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| all)?;
        self.0 = &self.0[count..];
        Some(number)
    }
}

/// What stands behind a backslash outside of a class.
fn escape(rest: &mut Rest<'_>) -> Result<Before, Foreign> {
    match rest.next() {
        Some(b'b' | b'B') => Ok(Before::NoWidth),
        byte => plain_escape(byte, rest),
    }
}

fn plain_escape(byte: Option<u8>, rest: &mut Rest<'_>) -> Result<Before, Foreign> {
    let known = match byte {
        Some(b'd' | b'D' | b's' | b'S' | b'w' | b'W' | b'f' | b'n' | b'r' | b't' | b'v') => true,
        Some(b'x') => rest.digits(2).is_some(),
        // Above, the one takes a byte and the other a character of two.
        Some(b'u') => rest.digits(4).is_some_and(|number| number < 0x80),
        // These two are edges of words here.
        Some(b'<' | b'>') => false,
        Some(byte) => byte.is_ascii() && !byte.is_ascii_alphanumeric(),
        None => true,
    };
    if known { Ok(Before::Something) } else { Err(Foreign::Escape) }
}

/// A class of characters, to its closing bracket.
fn class(rest: &mut Rest<'_>) -> Result<(), Foreign> {
    let _ = rest.take(b"^");
    if rest.take(b"]") {
        return Err(Foreign::Class);
    }
    while let Some(byte) = rest.next() {
        match byte {
            b']' => return Ok(()),
            b'\\' => match rest.next() {
                Some(b'b') => return Err(Foreign::Escape),
                byte => {
                    plain_escape(byte, rest)?;
                }
            },
            b'[' if !POSIX.iter().any(|name| rest.take(name.as_bytes())) => {
                return Err(Foreign::Class);
            }
            b'&' | b'-' | b'~' if rest.take(&[byte]) => return Err(Foreign::Class),
            0x80.. => return Err(Foreign::Character),
            _ => {}
        }
    }
    Ok(())
}

/// Classes with a name, behind their first bracket, that both know.
const POSIX: [&str; 12] = [
    ":alnum:]",
    ":alpha:]",
    ":blank:]",
    ":cntrl:]",
    ":digit:]",
    ":graph:]",
    ":lower:]",
    ":print:]",
    ":punct:]",
    ":space:]",
    ":upper:]",
    ":xdigit:]",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_write_is_taken() {
        for expression in [
            "^model-[0-9a-f]{8}/layer_\\d+$",
            "(?:a|b)+?c*",
            "[[:alpha:]_-]+\\.bin",
            "[^/\\]]*",
            "\\bword\\b",
            "ключ",
            "a\\/b\\-c\\ d",
            "\\x41\\u0041",
            "x{1,2}{3}",
            "",
        ] {
            assert_eq!(check(expression), Ok(()), "{expression}");
        }
    }

    #[test]
    fn what_is_read_in_two_ways_is_refused() {
        for (expression, why) in [
            ("\\Aa", Foreign::Escape),
            ("a\\z", Foreign::Escape),
            ("\\a", Foreign::Escape),
            ("\\<a", Foreign::Escape),
            ("\\x{41}", Foreign::Escape),
            ("\\x4g", Foreign::Escape),
            ("\\u00e9", Foreign::Escape),
            ("[\\b]", Foreign::Escape),
            ("(a)\\1", Foreign::Escape),
            ("(?i)a", Foreign::Group),
            ("(?=a)a", Foreign::Group),
            ("(?P<n>a)", Foreign::Group),
            ("[]a]", Foreign::Class),
            ("[^]a]", Foreign::Class),
            ("[[a]b]", Foreign::Class),
            ("[[=a=]]", Foreign::Class),
            ("[[:word:]]", Foreign::Class),
            ("[a&&b]", Foreign::Class),
            ("[a--b]", Foreign::Class),
            ("^*", Foreign::Repetition),
            ("\\b+", Foreign::Repetition),
            ("a{,3}", Foreign::Repetition),
            ("[é]", Foreign::Character),
            ("é+", Foreign::Character),
        ] {
            assert_eq!(check(expression), Err(why), "{expression}");
        }
    }
}
