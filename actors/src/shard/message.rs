//! What a shard hears and what it says.

use std::sync::Arc;

use bytes::Bytes;
use mooring_proto::error::Refusal;
use mooring_proto::limits::KEY_BYTES_MAX;
use mooring_proto::message::inspect::KeyEntry;
use mooring_proto::message::object::{Located, PutOptions, PutStartGrant};
use mooring_proto::message::replicas::Replicas;
use mooring_proto::{ClientId, Incarnation};

use super::ranges::RangeHandle;
use crate::invariant::Violation;
use crate::moment::Moment;
use crate::pool::message::{Mount, PoolOrder, ShardReport};
use crate::request::RequestId;
use crate::route::{KeyHash, ShardId};

/// One message to a shard.
#[derive(Debug)]
pub enum ShardMessage {
    /// Something that a caller waits for.
    Request {
        /// The ticket of the answer.
        id: RequestId,
        /// When the caller stops waiting. Puts that are parked for space are refused by then.
        deadline: Option<Moment>,
        /// What is asked.
        request: ShardRequest,
    },
    /// An order or an answer of the pool.
    Pool(PoolOrder),
    /// A client is offline: its parked puts are refused. Its unfinished puts stay until their
    /// timeouts, since it may still be writing.
    ClientLost(ClientId),
    /// The next slice of the long jobs.
    Continue,
    /// Time has passed.
    Tick,
    /// What another shard says.
    Peer(PeerMessage),
    /// Come to rest: answer what waits and change nothing from here on.
    Quiesce {
        /// Whether an export follows. Without one nobody asks what is in use on lost segments, and
        /// looking for it takes the longer the more they hold.
        hands_over: bool,
    },
}

/// What one shard tells another: about ranges of its objects that lie in the other's spans, and about
/// groups of which the other may have members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// To the owner of the span: the object of this range is gone.
    FreeForeign {
        /// The segment.
        mount: Mount,
        /// Where the range begins.
        offset_bytes: u64,
        /// The put of the object. A range of any other put is not meant.
        sequence: u64,
        /// Until when somebody may still read the range.
        held_until: Option<Moment>,
    },
    /// To the home of the object: its range is in the way of a larger one; evict it if it may go.
    EvictAlien {
        /// The range as its home knows it.
        alien: RangeHandle,
        /// The put of the object. A range of any other put is not meant.
        sequence: u64,
    },
    /// A member of a group was leased just now. At most one such hint for each group in half a lease.
    GroupLeased {
        /// Which group.
        name: Arc<[u8]>,
    },
    /// A member of a group was evicted, so the others may go too unless somebody leases one.
    GroupEvicted {
        /// Which group.
        name: Arc<[u8]>,
    },
    /// The sender has come to rest: this is the last that it says.
    Quiesced,
}

/// One key of a batch: where it stands in the frame that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef {
    /// Of the key, under the route of the master.
    pub hash: KeyHash,
    /// The first byte of the key in the frame.
    pub at: u32,
    /// How many bytes it has. May be above the limit of a key: the shard refuses it.
    pub length: u32,
}

/// The keys of a batch that fall to one shard. They stay in the frame that they came in.
#[derive(Clone, Debug, Default)]
pub struct KeyBatch {
    /// The bytes that hold the keys.
    pub frame: Bytes,
    /// Where they stand, in the order of the request.
    pub keys: Vec<KeyRef>,
}

impl KeyBatch {
    /// The bytes of one key.
    pub fn key(&self, index: usize) -> &[u8] {
        let key = self.keys[index];
        &self.frame[key.at as usize..(key.at + key.length) as usize]
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// One object to reserve space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutRequest {
    /// Its size.
    pub size_bytes: u64,
    /// The client's number of the put.
    pub put_id: u64,
}

/// What some writers say of their objects beyond the options that every put has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutExtras {
    /// What kind of data the objects are. The core keeps it and acts on nothing of it.
    pub data_type: u8,
    /// What becomes of the soft pin of an object that an upsert replaces. A put has nothing to
    /// replace, and goes by the time that its options name.
    pub soft_pin: SoftPinAction,
    /// The group of each key, 1 to [`GROUP_BYTES_MAX`] bytes; an empty name is none. No names at all
    /// leave objects ungrouped, and let an upsert keep the group of what it replaces.
    pub groups: Vec<Box<[u8]>>,
}

/// The longest name of a group: as long as a key may be.
pub const GROUP_BYTES_MAX: usize = KEY_BYTES_MAX;

/// What becomes of a soft pin when an object is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftPinAction {
    /// What is left of it goes on when the new object becomes readable. The time that the options
    /// name is not looked at.
    #[default]
    Preserve,
    /// It begins anew when the new object becomes readable, for the time that the options name.
    Enable,
    /// It ends.
    Disable,
}

/// What a shard knows of a readable object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its length.
    pub size_bytes: u64,
    /// The number of the put that wrote it.
    pub sequence: u64,
    /// Its replicas on mounted segments, at least one.
    pub replicas: Replicas,
    /// The checksum that its writer has named, if any. The core never looks at the bytes.
    pub checksum: Option<u64>,
    /// What kind of data it is; zero if its writer has not said.
    pub data_type: u8,
    /// Who wrote it; `None` if its put was ended by a token.
    pub writer: Option<ClientId>,
    /// Its group.
    pub group: Option<Box<[u8]>>,
    /// What is left of its lease, with the one that this very answer gives; zero if none.
    pub lease_left_ms: u64,
    /// It is never evicted.
    pub hard_pin: bool,
    /// What is left of its soft pin.
    pub soft_pin_left_ms: Option<u64>,
}

/// What a caller asks of a shard. Lists run parallel to the keys of the batch.
#[derive(Clone, Debug)]
pub enum ShardRequest {
    /// Reserve space. A writer without put ids gives each start another number, so that no start of
    /// its own is taken for a repeated one: it is refused like that of another client.
    PutStart {
        /// Who writes.
        client: ClientId,
        /// For all keys.
        options: PutOptions,
        /// For all keys; `None` if there is nothing to say.
        extras: Option<Box<PutExtras>>,
        /// The keys.
        batch: KeyBatch,
        /// One for each key.
        puts: Vec<PutRequest>,
    },
    /// Reserve space and replace what the key has. Until space is granted nothing changes. Then an
    /// unfinished put of another client is given up, its ranges held until its release timeout, and
    /// a readable object vanishes, its ranges held until its lease ends; so there is nothing to read
    /// until the end, and nothing is left if the upsert is revoked. A hard pin of either lasts. Put
    /// ids say nothing here: over an unfinished put of its own a client is refused with
    /// `PutInProgress` until the discard timeout, since one end could not be told from the other. A
    /// start that waits for space holds its key: while it does, an upsert is refused so too.
    UpsertStart {
        /// Who writes.
        client: ClientId,
        /// For all keys.
        options: PutOptions,
        /// For all keys; `None` if there is nothing to say.
        extras: Option<Box<PutExtras>>,
        /// The keys.
        batch: KeyBatch,
        /// One for each key.
        puts: Vec<PutRequest>,
    },
    /// Make objects readable.
    PutEnd {
        /// Of all tokens.
        incarnation: Incarnation,
        /// The keys.
        batch: KeyBatch,
        /// One for each key.
        sequences: Vec<u64>,
    },
    /// Give reservations up.
    PutRevoke {
        /// Of all tokens.
        incarnation: Incarnation,
        /// The writer states that it writes no more.
        no_write_in_flight: bool,
        /// The keys.
        batch: KeyBatch,
        /// One for each key.
        sequences: Vec<u64>,
    },
    /// Make objects readable whose writer has no tokens: the unfinished put of each key, if it is
    /// the client's. Repeating it is a success and changes nothing. A late end of a put that another
    /// client has taken over is refused with `NotWriter`; one that the same client has started anew
    /// cannot be told from the end of the newer put, and ends that.
    EndByWriter {
        /// Who has written.
        client: ClientId,
        /// The keys.
        batch: KeyBatch,
        /// One for each key, if the writer has named it.
        checksums: Vec<Option<u64>>,
    },
    /// Give reservations up whose writer has no tokens. Such a writer cannot state that no write is
    /// in flight, so the ranges are held until the release timeout. A complete put of the client is
    /// refused with `PutComplete`, what belongs to another client with `NotWriter`.
    RevokeByWriter {
        /// Who has written.
        client: ClientId,
        /// The keys.
        batch: KeyBatch,
    },
    /// Locate objects, lease them, and tell all that is known of them.
    GetDetailed {
        /// The keys.
        batch: KeyBatch,
    },
    /// The same without a lease, and without counting as a get.
    Peek {
        /// The keys.
        batch: KeyBatch,
    },
    /// Locate objects and lease them.
    Get {
        /// The keys.
        batch: KeyBatch,
    },
    /// Which keys are readable.
    Exist {
        /// Whether those that are get a lease.
        lease: bool,
        /// The keys.
        batch: KeyBatch,
    },
    /// Whether objects are still those of the given puts.
    Validate {
        /// Of all tokens.
        incarnation: Incarnation,
        /// The keys.
        batch: KeyBatch,
        /// One for each key.
        sequences: Vec<u64>,
    },
    /// Remove objects.
    Remove {
        /// Leased ones too.
        force: bool,
        /// The keys.
        batch: KeyBatch,
    },
    /// Remove complete objects that a client has written and nobody leases. Objects whose put was
    /// ended by a token have no known writer and stay.
    RemoveByWriter {
        /// Who has written them; anybody else's are refused with `NotWriter`.
        client: ClientId,
        /// Only the replicas on these mounts, and objects with their last one; `None` for all. An
        /// object without a replica there is refused with `NotFound`.
        mounts: Option<Vec<Mount>>,
        /// The keys.
        batch: KeyBatch,
    },
    /// Remove every complete object, in slices.
    RemoveAll {
        /// Leased ones too.
        force: bool,
    },
    /// One page of readable keys.
    ListKeys {
        /// Where to go on; zero for the first page.
        cursor: u32,
        /// At most this many.
        limit: u32,
        /// Those too that cannot be read because the owners of their segments have not come back yet:
        /// a removal of all that match must find them, or they come back.
        hidden: bool,
    },
    /// The totals of the shard.
    Totals,
    /// Nothing: proves that the shard answers.
    Probe,
}

/// The answer to a [`ShardRequest`].
#[derive(Debug, PartialEq)]
pub enum ShardReply {
    /// To `PutStart` and `UpsertStart`, one for each key.
    Started(Vec<Result<PutStartGrant, Refusal>>),
    /// To `PutEnd`, `PutRevoke`, `Validate` and `Remove`, and to what writers without tokens ask, one
    /// for each key.
    Done(Vec<Result<(), Refusal>>),
    /// To `Get`, one for each key.
    Located(Vec<Result<Located, Refusal>>),
    /// To `GetDetailed` and `Peek`, one for each key.
    Described(Vec<Result<Described, Refusal>>),
    /// To `Exist`, one for each key.
    Existing(Vec<bool>),
    /// To `RemoveAll`.
    Removed {
        /// Objects removed.
        removed: u64,
        /// Objects kept, leased or still being written.
        kept: u64,
    },
    /// To `ListKeys`.
    Keys {
        /// The keys.
        keys: Vec<KeyEntry>,
        /// Where the next page starts; `None` after the last one.
        next: Option<u32>,
    },
    /// To `Totals`.
    Totals(Box<ShardTotals>),
    /// To `Probe`.
    Alive,
    /// To anything that was not decided before the shard came to rest.
    Restarting,
}

/// The totals of a shard: gauges of now and counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardTotals {
    /// Objects, readable or being written.
    pub objects: u64,
    /// Unfinished puts.
    pub unfinished: u64,
    /// Bytes in ranges of objects.
    pub allocated_bytes: u64,
    /// Held ranges.
    pub holds: u64,
    /// Bytes in held ranges.
    pub held_bytes: u64,
    /// Free bytes in the shard's own spans.
    pub free_bytes: u64,
    /// Bytes of leased objects.
    pub leased_bytes: u64,
    /// Bytes of hard-pinned objects.
    pub pinned_bytes: u64,
    /// Puts that wait for space.
    pub parked: u64,
    /// Resident bytes of index, keys, objects and ranges.
    pub memory_bytes: u64,
    /// Keys of put starts, and how many of them were granted.
    pub put_starts: u64,
    /// Put starts granted.
    pub put_granted: u64,
    /// Put starts that got fewer replicas than they asked for.
    pub put_short: u64,
    /// Put starts refused for want of space.
    pub put_refused: u64,
    /// Puts completed.
    pub put_ends: u64,
    /// Puts revoked.
    pub put_revokes: u64,
    /// Unfinished puts that another one took over or that timed out.
    pub put_discarded: u64,
    /// Keys of gets.
    pub gets: u64,
    /// Gets that found a readable object.
    pub get_hits: u64,
    /// Keys of exists.
    pub exists: u64,
    /// Objects removed by request.
    pub removed: u64,
    /// Objects removed by eviction.
    pub evicted_objects: u64,
    /// Bytes freed by eviction.
    pub evicted_bytes: u64,
    /// Objects that went with their segment.
    pub lost_objects: u64,
}

/// What follows from a message. The shell carries it out in order.
#[derive(Debug)]
pub enum ShardEffect {
    /// Answer a request.
    Reply {
        /// Which.
        id: RequestId,
        /// With what.
        reply: ShardReply,
    },
    /// Tell the pool.
    Report(ShardReport),
    /// Send [`ShardMessage::Continue`] to this shard, behind what already waits.
    Continue,
    /// Tell another shard.
    Tell {
        /// Which.
        shard: ShardId,
        /// What.
        message: PeerMessage,
    },
    /// The shard and the pool are at rest, and no message between them is under way.
    AtRest,
    /// An invariant was found broken. The shard has done what keeps answers right all the same.
    Broken(Violation),
}
