//! Hello and ping: who speaks, in which version, and that it lives.

use serde::{Deserialize, Serialize};

use super::bounded::check_length;
use super::{Kind, Request};
use crate::error::{ErrorCode, WireError};
use crate::identity::{ClientId, Incarnation, SegmentsDigest};
use crate::limits::NAME_BYTES_MAX;

/// The highest version of the messages that this crate speaks. Versions count within the ALPN
/// `mooring/1`, which fixes what comes before a version is agreed: frame, codec, hello and errors.
pub const VERSION: u16 = 1;

/// The lowest version of the messages that this crate speaks.
pub const VERSION_MIN: u16 = 1;

/// The ALPN of the master's QUIC port.
pub const ALPN_MASTER: &[u8] = b"mooring/1";

/// The ALPN of a store's data plane.
pub const ALPN_STORE: &[u8] = b"mooring-store/1";

/// The first request of each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloRequest {
    /// Who connects; several connections of one process use the same id.
    pub client: ClientId,
    /// A name for people, at most 255 bytes; need not be unique.
    pub name: String,
    /// The lowest version that the client speaks.
    pub version_min: u16,
    /// The highest version that the client speaks.
    pub version_max: u16,
    /// Bits of optional features that the client can use; unknown bits are ignored.
    pub features: u64,
}

impl HelloRequest {
    /// The highest version that both this client and this crate speak.
    ///
    /// # Errors
    /// `UnsupportedVersion` if there is none; the text names the versions of both ends.
    pub fn negotiate(&self) -> Result<u16, WireError> {
        let highest = self.version_max.min(VERSION);
        if highest >= self.version_min.max(VERSION_MIN) {
            return Ok(highest);
        }
        let text = format!(
            "the client speaks {} to {}, the master {VERSION_MIN} to {VERSION}",
            self.version_min, self.version_max
        );
        Err(WireError::new(ErrorCode::UnsupportedVersion, text))
    }
}

/// What the master grants to a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// The version that both speak from here on.
    pub version: u16,
    /// The features that both have.
    pub features: u64,
    /// The master process that answers.
    pub incarnation: Incarnation,
    /// The release of the master, for people.
    pub server: String,
    /// A client that is silent for this long is suspected, and for twice as long offline.
    pub client_ttl_ms: u64,
    /// How long a read lease lasts from the moment that the master grants it.
    pub lease_ttl_ms: u64,
    /// The epoch of the segment table.
    pub segment_epoch: u64,
}

impl Request for HelloRequest {
    const KIND: Kind = Kind::Hello;
    type Reply = HelloReply;

    fn check(&self) -> Result<(), WireError> {
        check_length("name", self.name.len(), NAME_BYTES_MAX)
    }
}

/// Says that the client lives. Sent every fifth of the client TTL, and at once when asked by an
/// [`Attention`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingRequest {
    /// How many segments the client believes to have mounted.
    pub mounted_segments: u32,
    /// Of these, those that it keeps: it has not asked for their end, and they are reached without a
    /// transfer engine.
    pub kept: SegmentsDigest,
}

/// What the client must know about itself and the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingReply {
    /// The master process that answers.
    pub incarnation: Incarnation,
    /// The master does not know this client's segments, or knows others than the client keeps: it must
    /// remount all of them.
    pub need_remount: bool,
    /// The epoch of the segment table.
    pub segment_epoch: u64,
    /// The current client TTL.
    pub client_ttl_ms: u64,
}

impl Request for PingRequest {
    const KIND: Kind = Kind::Ping;
    type Reply = PingReply;
}

/// Sent by the master on a stream of one direction when a client is suspected: it should ping now.
/// It comes in the frame of a request without trace, and nobody answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// How long the client has been silent.
    pub silent_ms: u64,
}
