//! What the pool hears and what it says.
//!
//! A shard and the pool never wait for each other: a shard reports, the pool orders, and each goes
//! on with what it has. The traffic is bounded: a shard has at most one span request for each
//! segment and one room request outstanding, and answers each order once.

use mooring_proto::error::{NoSpace, WireError};
use mooring_proto::message::inspect::SegmentUse;
use mooring_proto::message::segment::{MountGrant, MountRequest, SegmentEntry};
use mooring_proto::{ClientId, SegmentId, SegmentsDigest};

use crate::moment::Moment;
use crate::pages::PageRun;
use crate::request::RequestId;
use crate::route::ShardId;

/// The place of a segment in the pool's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SegmentSlot(pub u16);

/// The number of a mount in its slot. A slot that is used again has a higher generation, so a
/// message about the mount before matches nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Generation(pub u32);

/// One mount of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mount {
    /// Its slot.
    pub slot: SegmentSlot,
    /// Its generation in that slot.
    pub generation: Generation,
}

/// One message to the pool.
#[derive(Debug)]
pub enum PoolMessage {
    /// Something that a caller waits for.
    Request {
        /// The ticket of the answer.
        id: RequestId,
        /// What is asked.
        request: PoolRequest,
    },
    /// What a shard reports.
    Shard {
        /// Which shard.
        shard: ShardId,
        /// What.
        report: ShardReport,
    },
    /// A client is offline: its segments go.
    ClientLost(ClientId),
    /// The clients actor is at rest: this is the last that it says.
    ClientsQuiesced,
    /// Time has passed.
    Tick,
}

/// What a caller asks of the pool.
#[derive(Clone, Debug)]
pub enum PoolRequest {
    /// Mount a segment.
    Mount {
        /// The owner.
        client: ClientId,
        /// The memory.
        mount: MountRequest,
    },
    /// Mount all segments of a client again, all or nothing.
    Remount {
        /// The owner.
        client: ClientId,
        /// The memory.
        mounts: Vec<MountRequest>,
    },
    /// Take a segment away, at once or after a grace.
    Unmount {
        /// Who asks: the owner, or `None` for an administrator.
        client: Option<ClientId>,
        /// Which.
        segment: SegmentId,
        /// Zero for at once.
        grace_ms: u64,
    },
    /// The segment table.
    Table,
    /// The mounted segments with their use.
    Uses,
    /// The mounted segments with all that an operator may want to know of them.
    Inspect,
    /// The totals of the pool.
    Totals,
}

/// The answer to a [`PoolRequest`].
#[derive(Debug, PartialEq)]
pub enum PoolReply {
    /// To `Mount`; the segment takes objects, or will after its quarantine.
    Mounted(Result<MountGrant, WireError>),
    /// To `Remount`, in the order of the request.
    Remounted(Result<Vec<MountGrant>, WireError>),
    /// To `Unmount`: what is left of the grace.
    Unmounted(Result<u64, WireError>),
    /// To `Table`.
    Table {
        /// Changes with each mount and unmount.
        epoch: u64,
        /// The rows in the order of their slots.
        segments: Vec<SegmentEntry>,
    },
    /// To `Uses`.
    Uses(Vec<SegmentUse>),
    /// To `Inspect`, in the order of the slots.
    Inspected(Vec<SegmentDetail>),
    /// To `Totals`.
    Totals(PoolTotals),
}

/// A mounted segment as the pool sees it. What shards hold of it is as of their last reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentDetail {
    /// Its row with its use.
    pub usage: SegmentUse,
    /// Bytes in ranges that are leased.
    pub leased_bytes: u64,
    /// Bytes in ranges of hard-pinned objects.
    pub pinned_bytes: u64,
    /// Bytes of pages that belong to no shard.
    pub free_page_bytes: u64,
    /// Free bytes in spans of shards.
    pub free_span_bytes: u64,
    /// At least this many free bytes are in one run.
    pub largest_free_run_bytes: u64,
    /// Runs of pages that belong to shards.
    pub spans: u64,
    /// Bytes that shards were ordered to evict and have not yet reported.
    pub eviction_debt_bytes: u64,
}

/// The totals of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolTotals {
    /// Mounted segments, pending ones included.
    pub segments: u64,
    /// Segments that the former master has handed over and whose owners have not come back yet.
    pub segments_pending: u64,
    /// Pending segments that have opened since the start.
    pub segments_confirmed: u64,
    /// Pending segments that were lost since the start.
    pub segments_dropped: u64,
    /// Bytes of all mounted segments, pending ones included.
    pub capacity_bytes: u64,
    /// Bytes of pages that belong to no shard.
    pub free_page_bytes: u64,
    /// Bytes that shards were ordered to evict and have not yet reported.
    pub eviction_debt_bytes: u64,
    /// Windows that were vacated for a large request.
    pub windows_vacated: u64,
}

/// What a shard tells the pool.
#[derive(Debug, Clone, PartialEq)]
pub enum ShardReport {
    /// The shard wants pages of this segment.
    SpanRequest {
        /// Which.
        mount: Mount,
        /// The object that needs them.
        size_bytes: u64,
    },
    /// No segment has a span for this object: make room somewhere. At most one is outstanding.
    RoomRequest {
        /// The number of the request in this shard.
        number: u64,
        /// The object that needs it.
        size_bytes: u64,
        /// Segments that are of no use: they hold a replica already.
        excluded: Vec<SegmentSlot>,
    },
    /// The parked put is gone; the room is not needed any more.
    RoomCancelled {
        /// The number of the request in this shard.
        number: u64,
    },
    /// Pages that belong to the pool again: the answer to `GiveBack`, or of the shard's own accord.
    Returned {
        /// Of which segment.
        mount: Mount,
        /// The pages; may be none in an answer.
        runs: Vec<PageRun>,
        /// Whether this answers a `GiveBack`.
        answer: bool,
    },
    /// What the shard holds of each segment on which that changed.
    Usage(Vec<SegmentUsage>),
    /// The answer to `Survey`.
    Surveyed {
        /// The number of the survey.
        survey: u64,
        /// One for each chunk of the surveyed window, in order.
        chunks: Vec<ChunkCost>,
    },
    /// The answer to `Vacate`: pages that belong to the pool now, beside those that were `Returned`
    /// before. If they are not the whole window, something in it got a lease meanwhile.
    Vacated {
        /// The number of the job.
        job: u64,
        /// The pages.
        runs: Vec<PageRun>,
    },
    /// The shard hands out no descriptor of this mount any more.
    Confirmed {
        /// Which.
        mount: Mount,
    },
    /// The shard has forgotten everything on this mount.
    Swept {
        /// Which.
        mount: Mount,
        /// Ranges that someone may still write or read.
        remnants: Vec<Remnant>,
    },
    /// The shard is at rest: this is the last that it says.
    Quiesced,
}

/// What a shard holds of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentUsage {
    /// Which.
    pub mount: Mount,
    /// Bytes in ranges of objects.
    pub allocated_bytes: u64,
    /// Bytes in ranges that are held or of unfinished puts.
    pub held_bytes: u64,
    /// Bytes in ranges that are leased.
    pub leased_bytes: u64,
    /// Bytes in ranges of hard-pinned objects.
    pub pinned_bytes: u64,
    /// Free bytes in the shard's spans.
    pub free_bytes: u64,
    /// At least this much of it is in one run.
    pub largest_free_run_bytes: u64,
    /// All bytes that eviction has freed since the mount. Never falls, so a late report can't make
    /// an order count twice.
    pub evicted_total_bytes: u64,
}

/// What it would cost to vacate one chunk of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkCost {
    /// Bytes of objects that would be evicted; those of softly pinned ones count several times.
    pub evict_bytes: u64,
    /// The last access to any of them; the start of time if there is none.
    pub newest_access: Moment,
    /// Until when something in it may not move: a lease or a hold; the end of time for a hard pin.
    pub blocked_until: Option<Moment>,
}

/// A range that outlives the loss of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remnant {
    /// Counted from the start of the segment.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Until when it may be written or read.
    pub until: Moment,
}

/// What the pool tells a shard.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolOrder {
    /// A segment is mounted.
    SegmentMounted {
        /// Its mount.
        mount: Mount,
        /// Its id, for preferences.
        segment: SegmentId,
        /// The bytes of its whole pages.
        capacity_bytes: u64,
        /// The bytes of one page.
        page_bytes: u32,
        /// Until when it is in quarantine; without one objects may be placed on it already. Said in
        /// the same order, so that no put slips in between.
        rests_until: Option<Moment>,
    },
    /// The owner of a pending segment has come back with the same memory: what was restored on it is
    /// readable from now on.
    SegmentOpened {
        /// Which.
        mount: Mount,
        /// Whether objects may be placed on it: not in quarantine, not while draining. Said in the
        /// same order, so that no put slips in between.
        placeable: bool,
    },
    /// Whether objects may be placed on a segment: not in quarantine, not while draining.
    SegmentPlaceable {
        /// Which.
        mount: Mount,
        /// Whether.
        placeable: bool,
    },
    /// A segment is gone: unreadable from now on. Answered by `Confirmed` at once and by `Swept`
    /// when its last object is forgotten.
    SegmentLost {
        /// Which.
        mount: Mount,
    },
    /// How much room there is on the placeable segments on which that has changed.
    Space(Vec<SegmentSpace>),
    /// Pages that belong to the shard now: the answer to `SpanRequest`.
    Grant {
        /// Of which segment.
        mount: Mount,
        /// The pages.
        run: PageRun,
    },
    /// No pages: the answer to `SpanRequest`.
    Deny {
        /// Of which segment.
        mount: Mount,
    },
    /// Pages that were vacated for the shard: the answer to `RoomRequest`.
    Room {
        /// The number of the request in this shard.
        number: u64,
        /// Of which segment.
        mount: Mount,
        /// The pages.
        run: PageRun,
    },
    /// No room can be made: the answer to `RoomRequest`.
    NoRoom {
        /// The number of the request in this shard.
        number: u64,
        /// What holds the space.
        space: NoSpace,
        /// When to try again; `None` if that would change nothing: it can never fit, or all that
        /// is in its way has a hard pin.
        retry_after_ms: Option<u32>,
    },
    /// Evict the oldest objects of a segment until `evicted_total_bytes` reaches this. A later order
    /// supersedes an earlier one.
    Evict {
        /// Of which segment.
        mount: Mount,
        /// The total to reach.
        evicted_total_bytes: u64,
    },
    /// Return wholly free pages. Answered by `Returned`, with none if there are none.
    GiveBack {
        /// Of which segment.
        mount: Mount,
        /// At most about this many pages.
        pages: u32,
        /// Only runs of at least this many pages.
        run_pages_min: u32,
    },
    /// What it would cost to vacate each chunk of a window. Answered by `Surveyed`.
    Survey {
        /// The number of the survey.
        survey: u64,
        /// Of which segment.
        mount: Mount,
        /// The window; pages in it that are not the shard's cost the shard nothing.
        window: PageRun,
        /// How many pages a chunk has; the last one may have fewer.
        chunk_pages: u32,
    },
    /// Evict what lies in these pages and return them, as it goes by `Returned`; answered by
    /// `Vacated` at the end. Nothing is evicted that is leased, pinned, held or being written.
    Vacate {
        /// The number of the job.
        job: u64,
        /// Of which segment.
        mount: Mount,
        /// The pages, all of them the shard's.
        runs: Vec<PageRun>,
    },
    /// The pool is at rest: this is the last that it says. It comes after `ShardReport::Quiesced` of
    /// every shard.
    Quiesced,
}

/// How much room a placeable segment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSpace {
    /// Which.
    pub mount: Mount,
    /// Free bytes: pages of the pool, and free space in spans of all shards.
    pub free_bytes: u64,
    /// The largest run of free pages of the pool, in bytes.
    pub largest_free_run_bytes: u64,
}

/// What follows from a message. The shell carries it out in order.
#[derive(Debug, PartialEq)]
pub enum PoolEffect {
    /// Answer a request.
    Reply {
        /// Which.
        id: RequestId,
        /// With what.
        reply: PoolReply,
    },
    /// Tell one shard.
    Order {
        /// Which shard.
        shard: ShardId,
        /// What.
        order: PoolOrder,
    },
    /// The segment table has changed.
    TableChanged {
        /// The new epoch.
        epoch: u64,
    },
    /// Which segments a client has mounted now.
    ClientSegments {
        /// Which client.
        client: ClientId,
        /// How many, pending ones included.
        segments: u32,
        /// Those of them that it keeps.
        kept: SegmentsDigest,
    },
    /// A segment goes because its owner, which lives, has it no more: it lists all that it has without
    /// it.
    Unlisted {
        /// Whose it was.
        client: ClientId,
        /// Which.
        segment: SegmentId,
    },
    /// The pool is at rest: it changes nothing any more, and no message to it or from it is under
    /// way once this and what stands before it is carried out.
    AtRest,
}
