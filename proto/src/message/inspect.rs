//! What an operator asks: totals and lists. None of it grants a lease.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::bounded::out_of_range;
use super::segment::SegmentEntry;
use super::{Kind, Request};
use crate::error::WireError;
use crate::identity::ClientId;
use crate::limits::BATCH_KEYS_MAX;

/// Asks for the totals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsRequest {}

/// The totals of the master.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatsReply {
    /// Objects of all shards, readable or being written.
    pub objects: u64,
    /// Bytes in ranges of objects.
    pub allocated_bytes: u64,
    /// Bytes of all mounted segments.
    pub capacity_bytes: u64,
    /// Bytes in ranges that are held.
    pub held_bytes: u64,
    /// Mounted segments.
    pub segments: u64,
    /// Clients that are active or suspected.
    pub clients: u64,
    /// Objects that eviction has removed since the start.
    pub evicted_objects: u64,
    /// Bytes that eviction has freed since the start.
    pub evicted_bytes: u64,
    /// Items of put starts that were refused for want of space since the start.
    pub put_refused: u64,
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// Since the process started.
    pub uptime_ms: u64,
    /// One for each shard.
    pub shards: Vec<ShardStats>,
}

/// The totals of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardStats {
    /// Objects, readable or being written.
    pub objects: u64,
    /// Bytes in ranges of objects.
    pub allocated_bytes: u64,
    /// Messages that wait in its mailbox.
    pub queue: u64,
}

impl Request for StatsRequest {
    const KIND: Kind = Kind::Stats;
    type Reply = StatsReply;
}

/// Asks for the mounted segments with their use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSegmentsRequest {}

/// The state of a mounted segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentState {
    /// Objects are placed and read.
    Open,
    /// Mounted, but nothing is placed there yet: readers of a former master may still read.
    Quarantined,
    /// Nothing new is placed; what is there stays readable until the deadline.
    Draining,
    /// Unreadable; what is there is being swept.
    Leaving,
    /// Handed over by a former master; neither placed on nor read until its owner mounts the same
    /// memory again.
    Pending,
}

/// A mounted segment with its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentUse {
    /// Its row of the segment table.
    pub entry: SegmentEntry,
    /// Its state.
    pub state: SegmentState,
    /// Bytes in ranges of objects.
    pub allocated_bytes: u64,
    /// Bytes in ranges that are held.
    pub held_bytes: u64,
    /// What is left of a drain's or a quarantine's time, or of the time in which the owner of a
    /// pending segment must come back.
    pub time_left_ms: Option<u64>,
}

/// The mounted segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSegmentsReply {
    /// In the order of their slots.
    pub segments: Vec<SegmentUse>,
}

impl Request for ListSegmentsRequest {
    const KIND: Kind = Kind::ListSegments;
    type Reply = ListSegmentsReply;
}

/// Asks for the clients that ping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListClientsRequest {}

/// How alive a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientState {
    /// It pings.
    Active,
    /// It has been silent for the client TTL and was asked again.
    Suspected,
}

/// A client that pings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientEntry {
    /// Who.
    pub client: ClientId,
    /// The name that it gave at hello.
    pub name: String,
    /// Its state.
    pub state: ClientState,
    /// Since its last ping.
    pub silent_ms: u64,
    /// Segments that it has mounted.
    pub segments: u32,
}

/// The clients that ping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListClientsReply {
    /// In the order of their ids.
    pub clients: Vec<ClientEntry>,
}

impl Request for ListClientsRequest {
    const KIND: Kind = Kind::ListClients;
    type Reply = ListClientsReply;
}

/// Asks for one page of the readable keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListKeysRequest {
    /// Where the page before ended; zero for the first one.
    pub cursor: u64,
    /// At most this many keys, 1 to 65,536. Long keys end a page earlier, so that the reply stays
    /// below the limit of a frame.
    pub limit: u32,
}

/// A readable key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// The key.
    pub key: ByteBuf,
    /// The size of its object.
    pub size_bytes: u64,
}

/// One page of keys, in no particular order. Keys that are put or removed between pages may be
/// missing or listed twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListKeysReply {
    /// The keys.
    pub keys: Vec<KeyEntry>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<u64>,
}

impl Request for ListKeysRequest {
    const KIND: Kind = Kind::ListKeys;
    type Reply = ListKeysReply;

    fn check(&self) -> Result<(), WireError> {
        if !(1..=BATCH_KEYS_MAX).contains(&(self.limit as usize)) {
            return Err(out_of_range("limit", self.limit.into(), 1, BATCH_KEYS_MAX as u64));
        }
        Ok(())
    }
}
