//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: plain, or with a unit such as `KiB`, `MiB`, `GiB`, `TiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let (number, unit) = split_unit(text);
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(format!("unknown unit `{unit}`; allowed are KiB, MiB, GiB, TiB")),
        };
        scale(number, factor).map(ByteSize).ok_or_else(|| {
            format!("`{text}` is not a size; write bytes or a number with a unit, such as 1GiB")
        })
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that leaves a whole number, so that it reads back as the same size.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = BINARY_UNITS
            .iter()
            .rev()
            .find(|(factor, _)| self.0 != 0 && self.0.is_multiple_of(*factor));
        match exact {
            Some((factor, unit)) => write!(formatter, "{}{unit}", self.0 / factor),
            None => write!(formatter, "{}", self.0),
        }
    }
}

/// A size for people, to three digits: `1.50 GiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    match BINARY_UNITS.iter().rev().find(|(factor, _)| bytes >= *factor) {
        Some((factor, unit)) => format!("{:.2} {unit}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// The number times the factor; `None` if that is no whole number of the right size.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(factor),
        Some((whole, fraction)) => {
            let digits = u32::try_from(fraction.len()).ok()?;
            let parts = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
            let divisor = 10_u64.checked_pow(digits)?;
            let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
            (parts % divisor == 0).then_some(())?;
            whole.checked_add(parts / divisor)
        }
    }
}

const BINARY_UNITS: [(u64, &str); 4] =
    [(1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("16KiB", 16 << 10),
            ("256 MiB", 256 << 20),
            ("1gib", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("675G", 675 << 30),
            ("2TB", 2_000_000_000_000),
            ("1_000", 1_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_text() {
        for text in ["", "GiB", "-1", "1.3", "1.1.1KiB", "20000000000TiB", "one"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert!("5 parsecs".parse::<ByteSize>().unwrap_err().contains("parsecs"));
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for bytes in [0, 1, 1023, 1024, 3 << 19, 675 << 30, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
