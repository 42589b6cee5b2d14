//! Messages, codec and client of the Mooring protocol.
//!
//! `PROTOCOL.md` beside this crate is the specification; this crate is its reference
//! implementation. Both ends use the same types, so a message that one end can build is a message
//! that the other can read. The feature `client` adds the client that engines and stores use.

pub mod close;
pub mod error;
pub mod frame;
pub mod identity;
pub mod limits;
pub mod message;
pub mod mooncake;

#[cfg(feature = "client")]
pub mod client;

pub use error::{ErrorCode, NoSpace, Refusal, WireError};
pub use identity::{ClientId, Incarnation, PutToken, SegmentId, SegmentsDigest};
