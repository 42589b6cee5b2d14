//! The values that flags take, from text.

use std::time::Duration;

/// A duration: a whole number with `ms`, `s`, `m`, `h` or `d`; a plain number is milliseconds.
///
/// # Errors
/// Says what is allowed, for no duration, zero, and more than a year.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    duration(text, "milliseconds", 1)
}

/// A duration: a whole number with `ms`, `s`, `m`, `h` or `d`; a plain number is seconds.
///
/// # Errors
/// As [`milliseconds`].
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    duration(text, "seconds", 1000)
}

/// A share of the capacity above zero, up to all of it.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn watermark_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err("allowed is a number above 0 and up to 1".to_owned()),
    }
}

/// A share of the capacity from zero, but not all of it.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn eviction_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..1.0).contains(&ratio) => Ok(ratio),
        _ => Err("allowed is a number from 0 and below 1".to_owned()),
    }
}

fn duration(text: &str, plain_name: &str, plain_ms: u64) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "" => Some(plain_ms),
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let total_ms = unit_ms.and_then(|unit_ms| number.parse::<u64>().ok()?.checked_mul(unit_ms));
    match total_ms {
        Some(total_ms) if (1..=DURATION_MAX_MS).contains(&total_ms) => {
            Ok(Duration::from_millis(total_ms))
        }
        _ => Err(format!(
            "allowed is a whole number of {plain_name}, or one with the unit ms, s, m, h or d; \
             from 1ms to 365d"
        )),
    }
}

/// Longer ones are mistakes of the unit, and sums of several must not overflow.
const DURATION_MAX_MS: u64 = 365 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_has_the_unit_of_the_flag() {
        assert_eq!(milliseconds("250"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("250"), Ok(Duration::from_secs(250)));
    }

    #[test]
    fn a_unit_overrides_that_of_the_flag() {
        let texts = [("7ms", 7), ("5s", 5_000), ("30m", 1_800_000), ("1h", 3_600_000)];
        for (text, ms) in texts {
            assert_eq!(milliseconds(text), Ok(Duration::from_millis(ms)), "{text}");
            assert_eq!(seconds(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(seconds("1d"), Ok(Duration::from_secs(86_400)));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_what_is_allowed() {
        for text in ["", "s", "0", "0ms", "-1", "1.5s", "5 s", "5x", "366d", "99999999999999999999"]
        {
            let error = seconds(text).unwrap_err();
            assert!(error.contains("whole number of seconds"), "{text}: {error}");
        }
    }

    #[test]
    fn ratios_keep_their_bounds() {
        assert_eq!(watermark_ratio("1"), Ok(1.0));
        assert_eq!(eviction_ratio("0"), Ok(0.0));
        for text in ["0", "1.01", "-0.1", "NaN", "inf", "x", ""] {
            assert!(watermark_ratio(text).is_err(), "{text}");
        }
        for text in ["1", "1.01", "-0.1", "NaN", "inf", "x", ""] {
            assert!(eviction_ratio(text).is_err(), "{text}");
        }
    }
}
