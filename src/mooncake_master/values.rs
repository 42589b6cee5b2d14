//! The values of those flags.

use std::net::{IpAddr, ToSocketAddrs};

use super::flags::{Flag, Kind};
use crate::command::CommandError;

/// The value as its kind writes it.
///
/// # Errors
/// Arguments, naming flag and value, if it is not of its kind.
pub(super) fn checked(flag: &Flag, value: &str) -> Result<String, CommandError> {
    let whole = |fits: fn(i128) -> bool| integer(value).filter(|number| fits(*number));
    let text = match flag.kind {
        Kind::Text => Some(value.to_owned()),
        Kind::Switch => switch(value).map(|on| on.to_string()),
        Kind::Real => value.parse::<f64>().ok().map(|number| number.to_string()),
        Kind::Int32 => whole(|it| i32::try_from(it).is_ok()).map(|it| it.to_string()),
        Kind::Int64 => whole(|it| i64::try_from(it).is_ok()).map(|it| it.to_string()),
        Kind::Uint32 => whole(|it| u32::try_from(it).is_ok()).map(|it| it.to_string()),
        Kind::Uint64 => whole(|it| u64::try_from(it).is_ok()).map(|it| it.to_string()),
    };
    text.ok_or_else(|| illegal(flag.name, flag.kind, value))
}

/// The value of a switch that is not in the table.
///
/// # Errors
/// As [`checked`].
pub(super) fn checked_switch(name: &str, value: &str) -> Result<String, CommandError> {
    let text = switch(value).map(|on| on.to_string());
    text.ok_or_else(|| illegal(name, Kind::Switch, value))
}

fn illegal(name: &str, kind: Kind, value: &str) -> CommandError {
    CommandError::Arguments(format!(
        "illegal value '{value}' specified for {} flag '{name}'",
        kind.name()
    ))
}

fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// A whole number, in hexadecimal behind `0x`.
fn integer(value: &str) -> Option<i128> {
    let digits = value.trim_start();
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        // A second sign would be read as one, too.
        Some(hexadecimal) if !hexadecimal.starts_with(['+', '-']) => {
            i128::from_str_radix(hexadecimal, 16).ok()
        }
        Some(_) => None,
        None => digits.parse().ok(),
    }
}

/// A duration in milliseconds: a whole number, of milliseconds if it has no unit `ms`, `s`, `m` or
/// `h` behind it. Blanks do not count, and neither does the case of the unit.
///
/// # Errors
/// Arguments, naming flag and value.
pub(super) fn duration_ms(name: &str, value: &str) -> Result<u64, CommandError> {
    let text = value.trim();
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let total = unit_ms.and_then(|unit_ms| number.parse::<u64>().ok()?.checked_mul(unit_ms));
    total.ok_or_else(|| {
        CommandError::Arguments(format!(
            "--{name}={value}: allowed is a whole number of milliseconds, or one with the unit ms, \
             s, m or h"
        ))
    })
}

/// An address to listen on: an IP address, or the first one that a name has. A port behind it does
/// not count.
///
/// # Errors
/// Arguments, naming flag and value.
pub(super) fn address(name: &str, value: &str) -> Result<IpAddr, CommandError> {
    let plain = value.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let host = match plain {
        Some((inner, _)) => inner,
        // More than one colon is an IPv6 address without a port.
        None => match value.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => value,
        },
    };
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let found = (host, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    found.map(|found| found.ip()).ok_or_else(|| {
        CommandError::Arguments(format!(
            "--{name}={value}: no address of this machine is known by it"
        ))
    })
}

/// A port.
///
/// # Errors
/// Arguments, naming flag and value.
pub(super) fn port(name: &str, value: &str) -> Result<u16, CommandError> {
    value.parse().map_err(|_| {
        CommandError::Arguments(format!("--{name}={value}: allowed is a port from 0 to 65535"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_kind(kind: Kind, value: &str) -> Option<String> {
        let flag = Flag { name: "f", kind, default: "", fate: super::super::flags::Fate::Mapped };
        checked(&flag, value).ok()
    }

    #[test]
    fn numbers_keep_the_bounds_of_their_kind() {
        assert_eq!(of_kind(Kind::Int32, "0x10").unwrap(), "16");
        assert_eq!(of_kind(Kind::Int32, "-1").unwrap(), "-1");
        assert_eq!(of_kind(Kind::Uint64, &u64::MAX.to_string()).unwrap(), u64::MAX.to_string());
        for (kind, value) in [
            (Kind::Int32, "2147483648"),
            (Kind::Uint32, "-1"),
            (Kind::Uint64, "18446744073709551616"),
            (Kind::Int64, "10s"),
            (Kind::Int64, "0x-1"),
            (Kind::Int64, ""),
            (Kind::Real, "half"),
        ] {
            assert_eq!(of_kind(kind, value), None, "{value}");
        }
    }

    #[test]
    fn durations_are_those_of_that_program() {
        for (text, ms) in
            [("10000", 10_000), ("5s", 5_000), (" 5 S", 5_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration_ms("d", text).unwrap(), ms, "{text}");
        }
        for text in ["", "s", "2d", "1.5s", "-1", "5x", "99999999999999999h"] {
            assert!(duration_ms("d", text).unwrap_err().to_string().contains("--d="), "{text}");
        }
    }

    #[test]
    fn an_address_may_have_a_port_that_does_not_count() {
        for (text, ip) in [
            ("0.0.0.0", "0.0.0.0"),
            ("10.0.0.1:50051", "10.0.0.1"),
            ("::", "::"),
            ("[::1]:50051", "::1"),
            ("fe80::1", "fe80::1"),
        ] {
            assert_eq!(address("a", text).unwrap(), ip.parse::<IpAddr>().unwrap(), "{text}");
        }
        assert!(address("a", "localhost").unwrap().is_loopback());
        assert!(address("a", "no host").unwrap_err().to_string().contains("--a="));
    }
}
