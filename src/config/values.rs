//! The values that flags take, from text.

use std::net::Ipv6Addr;
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

/// As [`seconds`], or 0 for never.
///
/// # Errors
/// As [`seconds`].
pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

/// How long a client may be silent: as [`seconds`], but at least one second.
///
/// # Errors
/// As [`seconds`], and says what is allowed for less than a second.
pub(crate) fn client_ttl(text: &str) -> Result<Duration, String> {
    let too_short = || {
        Err("allowed is a whole number of seconds, or one with the unit ms, s, m, h or d; from 1s to \
             365d"
            .to_owned())
    };
    if text.trim() == "0" {
        return too_short();
    }
    match seconds(text)? {
        ttl if ttl < CLIENT_TTL_MIN => too_short(),
        ttl => Ok(ttl),
    }
}

/// How often something is looked at: as [`seconds`], but at least 100 ms.
///
/// # Errors
/// As [`seconds`], and says what is allowed for less.
pub(crate) fn refresh_interval(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        interval if interval < REFRESH_MIN => Err("allowed is at least 100ms".to_owned()),
        interval => Ok(interval),
    }
}

/// Where a peer is, as `host:port` or `[ipv6]:port`; the text as it was given.
///
/// # Errors
/// Says what is allowed, for no host, no port or port 0.
pub(crate) fn host_and_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    if parts.is_some_and(|(host, port)| is_host(host) && is_port(port)) {
        return Ok(text.to_owned());
    }
    Err("allowed is HOST:PORT or [IPV6]:PORT with a port from 1 to 65535".to_owned())
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

/// A share of all, from none to all.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("allowed is a number from 0 to 1".to_owned()),
    }
}

fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.chars().all(|letter| letter.is_alphanumeric() || "-._".contains(letter))
        }
    }
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|digit| digit.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0)
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

/// A client pings five times in it; less would be lost in the pauses of any machine.
const CLIENT_TTL_MIN: Duration = Duration::from_secs(1);

/// Nobody reads faster, and each look asks every shard.
const REFRESH_MIN: Duration = Duration::from_millis(100);

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
        assert_eq!(seconds_or_none("0"), Ok(Duration::ZERO));
        assert_eq!(seconds_or_none("2"), Ok(Duration::from_secs(2)));
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
    fn a_client_may_be_silent_for_a_second_at_least() {
        assert_eq!(client_ttl("1"), Ok(Duration::from_secs(1)));
        assert_eq!(client_ttl("1000ms"), Ok(Duration::from_secs(1)));
        for text in ["1ms", "999ms", "0"] {
            assert!(client_ttl(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_look_comes_no_more_often_than_ten_times_a_second() {
        assert_eq!(refresh_interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(refresh_interval("100ms"), Ok(Duration::from_millis(100)));
        assert!(refresh_interval("99ms").is_err());
    }

    #[test]
    fn a_peer_has_a_host_and_a_port() {
        for text in ["localhost:1", "127.0.0.1:65535", "[::1]:50051", "a-b.c_d:7"] {
            assert_eq!(host_and_port(text), Ok(text.to_owned()));
        }
        let wrong = ["", ":", "foo", "foo:", ":1", "127.0.0.1:0", "foo:99999", "foo:+1", "foo:1x"];
        let hosts = ["::1:5", "[foo]:1", "[]:1", "quic://foo:1", "foo :1", "a@b:1"];
        for text in wrong.into_iter().chain(hosts) {
            let error = host_and_port(text).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn ratios_keep_their_bounds() {
        assert_eq!(watermark_ratio("1"), Ok(1.0));
        assert_eq!(eviction_ratio("0"), Ok(0.0));
        assert_eq!((ratio("0"), ratio("1")), (Ok(0.0), Ok(1.0)));
        for text in ["0", "1.01", "-0.1", "NaN", "inf", "x", ""] {
            assert!(watermark_ratio(text).is_err(), "{text}");
        }
        for text in ["1", "1.01", "-0.1", "NaN", "inf", "x", ""] {
            assert!(eviction_ratio(text).is_err(), "{text}");
            assert!(text == "1" || ratio(text).is_err(), "{text}");
        }
    }
}
