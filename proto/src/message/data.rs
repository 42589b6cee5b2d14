//! The data plane: ranges of a store's memory. The bytes follow the frame on the same stream, so
//! that neither end copies them through the codec.

use serde::{Deserialize, Serialize};

use super::bounded::out_of_range;
use super::{Kind, Request};
use crate::error::WireError;
use crate::identity::{Incarnation, SegmentId};
use crate::limits::RANGE_BYTES_MAX;

/// A range under one mount. A store refuses a range of any mount but the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedRange {
    /// Which segment.
    pub segment: SegmentId,
    /// The generation that the master mounted it with.
    pub generation: u32,
    /// The incarnation of that master.
    pub incarnation: Incarnation,
    /// The first byte, counted from the start of the segment.
    pub offset_bytes: u64,
    /// 1 byte to 8 MiB.
    pub length_bytes: u32,
}

/// Reads a range. The bytes follow the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRangeRequest {
    /// What to read.
    pub range: MountedRange,
}

/// Precedes the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRangeReply {
    /// How many bytes follow; the length of the range.
    pub length_bytes: u32,
    /// CRC-32C of the bytes that follow.
    pub crc32c: u32,
}

impl Request for ReadRangeRequest {
    const KIND: Kind = Kind::ReadRange;
    type Reply = ReadRangeReply;

    fn check(&self) -> Result<(), WireError> {
        check_range(&self.range)
    }
}

/// Writes a range. The bytes follow the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRangeRequest {
    /// Where to write.
    pub range: MountedRange,
    /// CRC-32C of the bytes that follow.
    pub crc32c: u32,
}

/// The bytes are in memory and matched their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRangeReply {}

impl Request for WriteRangeRequest {
    const KIND: Kind = Kind::WriteRange;
    type Reply = WriteRangeReply;

    fn check(&self) -> Result<(), WireError> {
        check_range(&self.range)
    }
}

fn check_range(range: &MountedRange) -> Result<(), WireError> {
    let length_bytes = range.length_bytes as usize;
    if !(1..=RANGE_BYTES_MAX).contains(&length_bytes) {
        let (length_bytes, max) = (length_bytes as u64, RANGE_BYTES_MAX as u64);
        return Err(out_of_range("range.length_bytes", length_bytes, 1, max));
    }
    Ok(())
}
