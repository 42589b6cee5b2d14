//! Asking the master, and what was asked, kept until the answer.

use mooring_actors::clients::ClientsMessage;
use mooring_actors::pool::message::{PoolMessage, PoolRequest};
use mooring_actors::shard::message::{ShardMessage, ShardRequest};
use mooring_actors::{Moment, RequestId, ShardId};
use mooring_proto::{ClientId, SegmentId, SegmentsDigest};
use rand::Rng;

use crate::cluster::Envelope;
use crate::event::Event;
use crate::world::World;

/// One put of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PutAsked {
    pub(crate) key: u32,
    pub(crate) size_bytes: u64,
    pub(crate) client: ClientId,
    pub(crate) put_id: u64,
    /// The number of its group.
    pub(crate) group: Option<u32>,
}

/// A request that waits for its answer. Pairs are a key and the number of a put.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Start {
        puts: Vec<PutAsked>,
        hard_pin: bool,
        replicas: u8,
        /// It replaces what the key has.
        upsert: bool,
    },
    End {
        put_id: u64,
        puts: Vec<(u32, u64)>,
    },
    Revoke {
        put_id: u64,
        puts: Vec<(u32, u64)>,
        quiet: bool,
    },
    /// What a writer without tokens says of its put.
    EndByWriter {
        put: PutAsked,
    },
    RevokeByWriter {
        put: PutAsked,
    },
    RemoveByWriter {
        keys: Vec<u32>,
        client: ClientId,
    },
    Get {
        keys: Vec<u32>,
        sent: Moment,
        client: usize,
    },
    Exist {
        keys: Vec<u32>,
        lease: bool,
    },
    /// With whether the bytes were right that the reader wants to use.
    Validate {
        puts: Vec<(u32, u64)>,
        intact: bool,
    },
    Remove {
        keys: Vec<u32>,
        force: bool,
    },
    RemoveAll {
        force: bool,
    },
    /// Something whose answer only has to come.
    Other,
    Remount {
        store: usize,
        process: ClientId,
        segments: Vec<SegmentId>,
    },
    Mount {
        store: usize,
        process: ClientId,
        segment: SegmentId,
    },
    Unmount {
        store: usize,
        process: ClientId,
        segment: SegmentId,
        grace_ms: u64,
    },
    Ping {
        store: Option<usize>,
        process: ClientId,
    },
}

impl World {
    /// Sends a request to a shard.
    pub(crate) fn ask_shard(
        &mut self,
        from: ClientId,
        shard: ShardId,
        request: ShardRequest,
        asked: Asked,
    ) -> RequestId {
        let deadline = self.dice.random_bool(0.1).then(|| self.cluster.now.after_ms(500));
        let id = self.cluster.ticket();
        let message = ShardMessage::Request { id, deadline, request };
        self.ask(from, id, Envelope::ToShard(shard, message), asked);
        id
    }

    /// Sends a request to the pool.
    pub(crate) fn ask_pool(&mut self, from: ClientId, request: PoolRequest, asked: Asked) {
        let id = self.cluster.ticket();
        self.ask(from, id, Envelope::ToPool(PoolMessage::Request { id, request }), asked);
    }

    /// Sends a ping.
    pub(crate) fn ping(
        &mut self,
        from: ClientId,
        mounted_segments: u32,
        kept: Option<SegmentsDigest>,
        store: Option<usize>,
    ) {
        let id = self.cluster.ticket();
        let ping = ClientsMessage::Ping { id, client: from, mounted_segments, kept };
        let asked = Asked::Ping { store, process: from };
        self.ask(from, id, Envelope::ToClients(ping), asked);
    }

    fn ask(&mut self, from: ClientId, id: RequestId, envelope: Envelope, asked: Asked) {
        if self.is_taken() {
            self.send(from, id, envelope, asked);
        } else {
            self.cluster.open.remove(&id);
            self.refused.insert(id, asked);
            let delay_ms = self.draw_delay();
            self.at(delay_ms, Event::Refused(id));
        }
    }
}
