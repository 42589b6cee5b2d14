//! When a certificate runs out. Of X.509 only the way to that field is read.

/// The end of the validity of a certificate in DER, in seconds since 1970; `None` if it is not where
/// X.509 has it.
pub(super) fn ends_s(certificate: &[u8]) -> Option<i64> {
    let mut outer = Reader(certificate);
    let mut signed = Reader(outer.take(SEQUENCE)?);
    let mut fields = Reader(signed.take(SEQUENCE)?);
    // The version may be left out.
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?;
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    let mut validity = Reader(fields.take(SEQUENCE)?);
    validity.next()?;
    let (tag, text) = validity.next()?;
    match tag {
        UTC_TIME => {
            let year = i64::from(number(text.get(..2)?)?);
            let century = if year < 50 { 2000 } else { 1900 };
            seconds(century + year, text.get(2..)?)
        }
        GENERALIZED_TIME => seconds(i64::from(number(text.get(..4)?)?), text.get(4..)?),
        _ => None,
    }
}

/// DER elements, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next element: its tag and what is in it.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..0x80 => (usize::from(first), rest),
            _ => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                if digits.len() > 4 {
                    return None;
                }
                let fold = |sum, digit: &u8| sum << 8 | usize::from(*digit);
                (digits.iter().fold(0, fold), rest)
            }
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// What is in the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }
}

/// From a year and `MMDDhhmmssZ`.
fn seconds(year: i64, rest: &[u8]) -> Option<i64> {
    if rest.len() != 11 || rest[10] != b'Z' {
        return None;
    }
    let part = |at: usize| number(&rest[at..at + 2]).map(i64::from);
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some(((days * 24 + part(4)?) * 60 + part(6)?) * 60 + part(8)?)
}

/// With years that begin in March a leap day is the last one of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let before_month = (month * 153 + 2) / 5;
    year * 365 + leap_days + before_month + day - 1 - DAYS_TO_MARCH_OF_1970
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// From the 1st of March of the year 0 to the 1st of January of 1970.
const DAYS_TO_MARCH_OF_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_found_in_both_forms_of_time() {
        let cases = [
            (1970, 1, 1, 0),
            (2000, 3, 1, 951_868_800),
            (2024, 2, 29, 1_709_164_800),
            (2026, 12, 1, 1_796_083_200),
            (2049, 12, 31, 2_524_521_600),
            // From 2050 on the year has four digits.
            (2050, 1, 1, 2_524_608_000),
        ];
        for (year, month, day, expected) in cases {
            let found = ends_s(&certificate(year, month, day));
            assert_eq!(found, Some(expected), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn what_is_cut_or_damaged_has_no_end_and_does_no_harm() {
        let whole = certificate(2030, 5, 6);
        for length in 0..whole.len() {
            assert_eq!(ends_s(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len().min(200) {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = ends_s(&damaged);
            }
        }
    }
}
