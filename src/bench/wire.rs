//! One way to the master, whatever the protocol.

use super::mooncake::MooncakeWire;
use super::quic::QuicWire;
use super::tally::{Answer, Call};

/// The keys of one request, one behind the other in one buffer.
#[derive(Debug)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    key_bytes: usize,
}

impl Keys {
    /// No keys yet; all will have this length.
    pub(super) fn new(key_bytes: usize) -> Keys {
        Keys { bytes: Vec::new(), key_bytes }
    }

    /// Empties the buffer, to append the next keys to.
    pub(super) fn restart(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        &mut self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.key_bytes
    }

    pub(super) fn iter(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes.chunks_exact(self.key_bytes)
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WireFault {
    /// The master refused it as a whole; the next one may be granted.
    Refused(String),
    /// The connection is of no more use.
    Lost(String),
}

impl WireFault {
    pub(super) fn lost(what: impl std::fmt::Display) -> WireFault {
        WireFault::Lost(what.to_string())
    }

    pub(super) fn text(&self) -> &str {
        match self {
            WireFault::Refused(text) | WireFault::Lost(text) => text,
        }
    }
}

/// Sends one request after the other.
///
/// A request is prepared before it is due, so that the making of it is in no latency.
#[derive(Debug)]
pub(super) enum Wire {
    Quic(QuicWire),
    Mooncake(MooncakeWire),
}

impl Wire {
    /// Encodes the next request.
    pub(super) fn prepare(&mut self, call: Call, keys: &Keys) -> Result<(), WireFault> {
        match self {
            Wire::Quic(wire) => wire.prepare(call, keys),
            Wire::Mooncake(wire) => wire.prepare(call, keys),
        }
    }

    /// Sends what was prepared for these keys, and reads the answer; a put also ends.
    pub(super) async fn perform(&mut self, call: Call, keys: &Keys) -> Result<Answer, WireFault> {
        match self {
            Wire::Quic(wire) => wire.perform(call, keys).await,
            Wire::Mooncake(wire) => wire.perform(call, keys).await,
        }
    }
}
