//! What one master hands to the next: the records, and the rules that both ends share.
//!
//! Everything here is plain data without a format: the process writes and reads it. Times are what
//! was left of them when the master came to rest, and they begin anew when the next one serves. Free
//! space is not among the records: it is what objects and holds leave.
//!
//! The ranges of one shard come in order of segment and offset, each once, so that the next master
//! can lay them down one after the other and finds every overlap on the way.

use mooring_proto::message::segment::Segment;
use mooring_proto::{ClientId, Incarnation, SegmentId};

use crate::pool::message::{Generation, Mount, SegmentSlot};

/// A mounted segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Its owner.
    pub client: ClientId,
    /// Its full identity.
    pub segment: Segment,
    /// Its place in the table.
    pub slot: u16,
    /// Its generation there.
    pub generation: u32,
    /// The master that its owner has mounted it with: this one, or an earlier one if the owner has
    /// not come back yet.
    pub mounted_with: Incarnation,
    /// What is left of a drain.
    pub drain_left_ms: Option<u64>,
    /// What is left of a quarantine.
    pub quarantine_left_ms: Option<u64>,
}

impl SegmentRecord {
    /// The mount that the master before knew it by.
    pub fn mount(&self) -> Mount {
        Mount { slot: SegmentSlot(self.slot), generation: Generation(self.generation) }
    }
}

/// Memory that is not mounted but may still be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemnantRecord {
    /// Where the memory is.
    pub endpoint: String,
    /// The address of its first byte there.
    pub address: u64,
    /// How many bytes.
    pub length_bytes: u64,
    /// For how long still.
    pub left_ms: u64,
    /// Whether nothing of memory that overlaps it is placeable for that long, instead of just these
    /// bytes.
    pub whole: bool,
}

/// What the pool hands over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolRecord {
    /// Segments that are not lost, in the order of their slots.
    pub segments: Vec<SegmentRecord>,
    /// Memory that may still be in use.
    pub remnants: Vec<RemnantRecord>,
    /// The highest generation that any slot has had.
    pub generation_max: u32,
    /// The epoch of the segment table.
    pub epoch: u64,
}

/// A client that was not offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// Who.
    pub client: ClientId,
    /// For people.
    pub name: String,
    /// Segments that it has mounted.
    pub segments: u32,
}

/// Where a range lies: the place of its segment in [`PoolRecord::segments`], and the offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangePlace {
    /// The place of the segment in the list.
    pub segment: u32,
    /// The first byte, counted from the start of the segment.
    pub offset_bytes: u64,
}

/// One range of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRecord<'a> {
    /// A readable object, at the first of its replicas in order. The number of such a record in its
    /// file, from zero, is the object's ordinal.
    Object(ObjectRecord<'a>),
    /// Another replica of an object that stands earlier in the same file.
    Replica {
        /// Where.
        place: RangePlace,
        /// The ordinal of the object.
        ordinal: u64,
    },
    /// A range that nobody may be given yet: a hold, or an unfinished put.
    Hold {
        /// Where.
        place: RangePlace,
        /// How many bytes.
        length_bytes: u64,
        /// For how long still.
        left_ms: u64,
    },
}

/// A readable object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRecord<'a> {
    /// Where its first replica lies.
    pub place: RangePlace,
    /// How many replicas it has in this file, at least one.
    pub replicas: u8,
    /// Its key.
    pub key: &'a [u8],
    /// Its size.
    pub size_bytes: u64,
    /// The number of the put that wrote it.
    pub sequence: u64,
    /// What is left of its lease; zero if none.
    pub lease_left_ms: u64,
    /// For how long nobody has accessed it. Keeps the order of eviction across the handoff.
    pub idle_ms: u64,
    /// It was read since it was put, or its key had been before.
    pub reused: bool,
    /// It is never evicted.
    pub hard_pin: bool,
    /// What is left of its soft pin.
    pub soft_pin_left_ms: Option<u64>,
    /// What only some objects have.
    pub side: SideRecord<'a>,
}

/// What only some objects have. A reader that does not know it may leave it out: nothing wrong is
/// read without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRecord<'a> {
    /// Who wrote it, if its put was not ended by a token.
    pub writer: Option<ClientId>,
    /// The checksum that its writer has named.
    pub checksum: Option<u64>,
    /// What kind of data it is; zero if unknown.
    pub data_type: u8,
    /// The name of its group; empty if it has none.
    pub group: &'a [u8],
}

impl SideRecord<'_> {
    /// Whether it says nothing. Asked field by field, as here, that costs next to nothing; a comparison
    /// with an empty one waits for the record to be in memory.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let SideRecord { writer, checksum, data_type, group } = self;
        writer.is_none() && checksum.is_none() && *data_type == 0 && group.is_empty()
    }
}

impl RangeRecord<'_> {
    /// Where the range lies.
    pub fn place(&self) -> RangePlace {
        match self {
            RangeRecord::Object(object) => object.place,
            RangeRecord::Replica { place, .. } | RangeRecord::Hold { place, .. } => *place,
        }
    }
}

/// A segment as the next master mounts it: pending, until its owner proves that it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredSegment {
    /// Its new mount.
    pub mount: Mount,
    /// Its id.
    pub segment: SegmentId,
    /// The bytes of its whole pages.
    pub capacity_bytes: u64,
    /// The bytes of one page.
    pub page_bytes: u32,
}

/// What a shard hands over besides its ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardRecord {
    /// Objects in the file.
    pub objects: u64,
    /// Held ranges in the file.
    pub holds: u64,
    /// Ranges in the file that lie in spans of other shards: none unless the number of shards has
    /// changed before. With any, the files must be restored together.
    pub aliens: u64,
    /// The next number of a put; the next master goes on above it.
    pub next_sequence: u64,
}

/// Takes the records of a shard, in their order.
pub trait RecordSink: Send {
    /// Takes one record.
    ///
    /// # Errors
    /// When it cannot be kept, or when the time for it is over. The export ends there.
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError>;

    /// Takes the end: all records have come, and what they took must be kept for good.
    ///
    /// # Errors
    /// When it cannot be kept, or when the time for it is over.
    fn finish(&mut self, record: &ShardRecord) -> Result<(), ExportError>;
}

/// Why an export ended early. What it wrote must not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The records could not be written.
    #[error("cannot write the handoff: {0}")]
    Write(String),
    /// Not all that a shard has was found.
    #[error("the index is not whole, please report it: {0}")]
    Incomplete(String),
    /// The deadline has passed.
    #[error("the deadline of the handoff has passed")]
    Deadline,
    /// The actor has stopped.
    #[error("an actor stopped before it was exported")]
    Gone,
}

/// Why records cannot be restored. Nothing of them may be used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Two ranges overlap, or a range lies outside of its segment or out of order.
    #[error("no-overlap: {0}")]
    Overlap(String),
    /// A key stands twice, or has a length that no key has.
    #[error("a key is not sound: {0}")]
    Key(String),
    /// A record names something that is not there.
    #[error("a record does not fit the others: {0}")]
    Dangling(String),
    /// The key arena of a shard cannot hold the keys.
    #[error("the keys do not fit one shard")]
    KeysFull,
}
