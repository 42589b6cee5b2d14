//! Mounting memory, and the table that turns the slots of descriptors into endpoints.

use serde::{Deserialize, Serialize};

use super::bounded::{check_count, check_length};
use super::{Kind, Request, bounded};
use crate::error::WireError;
use crate::identity::{ClientId, Incarnation, SegmentId};
use crate::limits::{NAME_BYTES_MAX, REMOUNT_SEGMENTS_MAX};

/// A segment as its owner describes it. All fields together are its identity: a remount with any
/// other value is another segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Random for each mount.
    pub segment: SegmentId,
    /// The address of the first byte in the owner's memory; not zero.
    pub base: u64,
    /// From 4 KiB to 64 TiB; `base + size_bytes` must not overflow.
    pub size_bytes: u64,
    /// Where readers and writers reach the memory, at most 255 bytes.
    pub endpoint: String,
    /// The SHA-256 of the certificate that the endpoint shows, for peers that pin instead of
    /// verifying a chain.
    pub certificate_sha256: Option<[u8; 32]>,
    /// Present if the memory is reached by Mooncake's transfer engine and not over QUIC.
    pub transfer_engine: Option<TransferEngine>,
}

/// What readers and writers need besides the endpoint to reach a segment by Mooncake's transfer
/// engine. Each text has at most 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferEngine {
    /// The name of the segment, by which clients prefer it; several may share one.
    pub name: String,
    /// The transport, such as `tcp` or `rdma`.
    pub protocol: String,
    /// The host that the store says it runs on; may be empty.
    pub host: String,
}

/// Offers a segment to the master. Repeating it with the same identity is a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// The memory.
    pub segment: Segment,
    /// The incarnation of the master that this memory was mounted with before, if any. A master of
    /// another incarnation lets one lease time pass before it places objects there, since readers
    /// may still hold descriptors of the former one.
    pub mounted_with: Option<Incarnation>,
}

/// The place of a mounted segment in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountGrant {
    /// The slot that descriptors name.
    pub slot: u32,
    /// The generation of the slot; a store refuses ranges of any other one.
    pub generation: u32,
    /// The master process that mounted it; a store refuses ranges of any other one.
    pub incarnation: Incarnation,
}

impl Request for MountRequest {
    const KIND: Kind = Kind::Mount;
    type Reply = MountGrant;

    fn check(&self) -> Result<(), WireError> {
        check_length("segment.endpoint", self.segment.endpoint.len(), NAME_BYTES_MAX)?;
        let Some(engine) = &self.segment.transfer_engine else { return Ok(()) };
        check_length("segment.transfer_engine.name", engine.name.len(), NAME_BYTES_MAX)?;
        check_length("segment.transfer_engine.protocol", engine.protocol.len(), NAME_BYTES_MAX)?;
        check_length("segment.transfer_engine.host", engine.host.len(), NAME_BYTES_MAX)
    }
}

/// Offers all segments of a client again after [`super::session::PingReply::need_remount`]. All
/// or nothing: an error mounts none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemountRequest {
    /// All segments of the client, at most 4,096; none for a client without memory.
    #[serde(deserialize_with = "bounded::last_list::<REMOUNT_SEGMENTS_MAX, _, _>")]
    pub segments: Vec<MountRequest>,
}

/// The grants, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemountReply {
    /// One for each segment.
    pub grants: Vec<MountGrant>,
}

impl Request for RemountRequest {
    const KIND: Kind = Kind::Remount;
    type Reply = RemountReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("segments", self.segments.len(), REMOUNT_SEGMENTS_MAX)?;
        self.segments.iter().try_for_each(MountRequest::check)
    }
}

/// Takes a segment away. Answered only after no shard hands out descriptors of it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmountRequest {
    /// Which.
    pub segment: SegmentId,
    /// Zero unmounts at once. Otherwise nothing new is placed there from now on, what is there stays
    /// readable for this long, and the answer comes at once. The earliest of several deadlines
    /// holds.
    pub grace_ms: u64,
}

/// The segment is unmounted, or draining until its deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmountReply {
    /// What is left of the grace; zero once unmounted.
    pub grace_left_ms: u64,
}

impl Request for UnmountRequest {
    const KIND: Kind = Kind::Unmount;
    type Reply = UnmountReply;
}

/// Asks for the segment table if it is not the one that the client holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentTableRequest {
    /// The table that the client holds: the master's incarnation and the epoch.
    pub known: Option<(Incarnation, u64)>,
}

/// One row of the segment table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// The slot that descriptors name.
    pub slot: u32,
    /// The generation of the slot.
    pub generation: u32,
    /// Who mounted it.
    pub client: ClientId,
    /// Its identity.
    pub segment: Segment,
}

/// The segment table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentTableReply {
    /// The master process that answers.
    pub incarnation: Incarnation,
    /// The epoch of the table; it changes with each mount and unmount.
    pub epoch: u64,
    /// The whole table, or `None` if the client's is current.
    pub segments: Option<Vec<SegmentEntry>>,
}

impl Request for SegmentTableRequest {
    const KIND: Kind = Kind::SegmentTable;
    type Reply = SegmentTableReply;
}
