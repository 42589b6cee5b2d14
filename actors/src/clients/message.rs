//! What the clients actor hears and what it says.

use mooring_proto::message::inspect::ClientEntry;
use mooring_proto::{ClientId, SegmentsDigest};

use crate::request::RequestId;

/// One message to the clients actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientsMessage {
    /// A client has opened a connection.
    Hello {
        /// Who.
        client: ClientId,
        /// Its name, for people.
        name: String,
    },
    /// A client lives.
    Ping {
        /// The ticket of the answer.
        id: RequestId,
        /// Who.
        client: ClientId,
        /// How many segments it believes to have mounted.
        mounted_segments: u32,
        /// Which of them it keeps, or `None` if it says nothing of that.
        kept: Option<SegmentsDigest>,
    },
    /// The last connection of a client has closed. A client without segments is forgotten; one with
    /// segments may come back, and is judged like any other.
    Goodbye {
        /// Who.
        client: ClientId,
    },
    /// The segments that a client has mounted have changed.
    Mounted {
        /// Whose.
        client: ClientId,
        /// How many there are now. More than before is a sign of life, fewer is not: segments may
        /// go by the hand of an administrator.
        segments: u32,
        /// Which of them it keeps, as far as is known here. If it says otherwise, an answer to it got
        /// lost: it does not know of one that is mounted, or believes in one that is not.
        kept: SegmentsDigest,
    },
    /// A client has mounted all its segments again.
    Remounted {
        /// Who.
        client: ClientId,
        /// How many there are now.
        segments: u32,
    },
    /// Time has passed.
    Tick,
    /// Which clients there are.
    List {
        /// The ticket of the answer.
        id: RequestId,
    },
    /// Whether judging stops, as in a drain. Pings are answered all the same, and the time until
    /// it goes on counts for nobody.
    FreezeJudgement(bool),
    /// Come to rest before a handoff: nobody is judged any more. Pings are answered and mounts are
    /// noted all the same.
    Quiesce,
}

/// What follows from a message. The shell carries it out in order: `Offline` must be on its way
/// before the next ping is answered, or the pool could take a remount before the loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientsEffect {
    /// Answer a ping.
    ReplyPing {
        /// Which.
        id: RequestId,
        /// Its segments are not known here, or are others than those that are: it must list all that
        /// it has, to be mounted again.
        need_remount: bool,
        /// The client TTL.
        ttl_ms: u64,
    },
    /// Ask a suspected client to ping at once.
    AskAttention {
        /// Whom.
        client: ClientId,
        /// For how long it has been silent.
        silent_ms: u64,
    },
    /// The client is taken for dead: its segments go.
    Offline {
        /// Who.
        client: ClientId,
        /// How many segments go with it.
        segments: u32,
    },
    /// The client has left and held nothing.
    Left {
        /// Who.
        client: ClientId,
    },
    /// Answer a list.
    ReplyList {
        /// Which.
        id: RequestId,
        /// The clients in the order of their ids. Their silence doesn't count the master's own
        /// pauses.
        clients: Vec<ClientEntry>,
    },
    /// The actor is at rest: no client is judged any more, and this is the last that the pool and the
    /// shards hear.
    Quiesced,
}

/// Gauges of now and counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Clients that ping.
    pub active: u64,
    /// Clients that have been silent for a TTL and were asked.
    pub suspected: u64,
    /// Clients that went offline.
    pub offline_total: u64,
    /// Times that most clients fell silent together and got a grace.
    pub graces_total: u64,
    /// Times that the master itself hung.
    pub stalls_total: u64,
    /// For how long it did.
    pub stalled_ms_total: u64,
}
