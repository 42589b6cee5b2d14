//! The codes with which a connection is closed or a stream is reset.
//!
//! A close can overtake a reply that is still under way, so whoever closes repeats in the reason
//! what the last reply says.

/// The peer is done; nothing is wrong.
pub const NORMAL: u32 = 0;

/// The master or store is leaving. Reconnect with back-off; the next process may be up already.
pub const RESTARTING: u32 = 1;

/// No protocol version in common; the reason names the versions of both ends. Reconnecting is of no
/// use.
pub const VERSION: u32 = 2;

/// No room for another connection or request. Reconnect with back-off.
pub const OVERLOADED: u32 = 3;

/// The peer broke the protocol: a frame that cannot be read, or a request before the hello.
pub const PROTOCOL: u32 = 4;

/// The peer's certificate or address does not permit it to be here. Reconnecting is of no use.
pub const FORBIDDEN: u32 = 5;

/// Something did not come in time: the hello, the rest of a request, or the reading of a reply.
pub const TIMEOUT: u32 = 6;

/// The name of a code, as logs and metrics write it; `unknown` for one of a later version.
pub fn name_of(code: u64) -> &'static str {
    NAMES.iter().find(|(known, _)| u64::from(*known) == code).map_or("unknown", |(_, name)| name)
}

const NAMES: [(u32, &str); 7] = [
    (NORMAL, "normal"),
    (RESTARTING, "restarting"),
    (VERSION, "version"),
    (OVERLOADED, "overloaded"),
    (PROTOCOL, "protocol"),
    (FORBIDDEN, "forbidden"),
    (TIMEOUT, "timeout"),
];
