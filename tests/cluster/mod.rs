//! All actors in one thread, without runtime or clock: messages are delivered in order, time moves
//! only when a test steps it, and the invariants are checked after every message.

#![allow(
    clippy::enum_variant_names,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a helper of several test programs, each of which uses its own part"
)]

mod asking;
pub mod handoff;
pub mod maps;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mooring_actors::clients::{Clients, ClientsConfig, ClientsEffect, ClientsMessage};
use mooring_actors::core::Settings;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::{
    Generation, Mount, PoolEffect, PoolMessage, PoolReply, PoolRequest, SegmentSlot,
};
use mooring_actors::pool::{Pool, PoolConfig};
use mooring_actors::shard::check::{Purpose, Stretch};
use mooring_actors::shard::config::ShardConfig;
use mooring_actors::shard::message::{
    KeyBatch, KeyRef, PutRequest, ShardEffect, ShardMessage, ShardReply, ShardRequest, ShardTotals,
};
use mooring_actors::shard::state::Shard;
use mooring_actors::{Moment, RequestId, Route, ShardId};
use mooring_proto::error::{ErrorCode, Refusal, WireError};
use mooring_proto::message::object::{Located, PutOptions, PutStartGrant, RangeDescriptor};
use mooring_proto::message::segment::{MountGrant, MountRequest, Segment, SegmentEntry};
use mooring_proto::{ClientId, Incarnation, SegmentId};

use self::maps::HashMap;

/// The identity of the master in tests.
pub const INCARNATION: Incarnation = Incarnation(0x000a_11ce);

/// The identity of the master after a restart.
pub const INCARNATION_AFTER: Incarnation = Incarnation(0x0b0b);

/// A message on its way.
#[derive(Debug)]
pub enum Envelope {
    ToShard(ShardId, ShardMessage),
    ToPool(PoolMessage),
    ToClients(ClientsMessage),
}

/// An answer that has come.
#[derive(Debug)]
pub enum Answer {
    Shard(ShardReply),
    Pool(PoolReply),
    Ping { need_remount: bool },
}

/// A whole master in one thread.
pub struct Cluster {
    pub now: Moment,
    pub route: Route,
    pub shards: Vec<Shard>,
    pub pool: Pool,
    pub clients: Clients,
    pub settings: Settings,
    /// Messages on their way, in the order in which they are delivered.
    pub queue: VecDeque<Envelope>,
    pub answers: HashMap<RequestId, Answer>,
    pub attentions: Vec<ClientId>,
    pub offline: Vec<ClientId>,
    /// Clients that ping each second while time advances; all that have mounted something.
    pub pinging: BTreeMap<ClientId, u32>,
    pub shards_at_rest: usize,
    pub incarnation: Incarnation,
    /// Segments that the master before has handed over, as they are mounted here.
    pub handed_over: Vec<SegmentEntry>,
    /// Requests that have no answer yet.
    pub open: BTreeMap<RequestId, Moment>,
    /// Check everything after every message. Off only where a test has too many objects for it.
    pub checked: bool,
    next_request: u64,
    next_put: u64,
}

impl Cluster {
    /// A master with so many shards and the default settings.
    pub fn new(shards: u16) -> Cluster {
        Cluster::with(shards, Settings::default())
    }

    pub fn with(shards: u16, settings: Settings) -> Cluster {
        Cluster::of(INCARNATION, shards, settings)
    }

    /// A master with this identity.
    fn of(incarnation: Incarnation, shards: u16, settings: Settings) -> Cluster {
        let route = Route::new(0x5eed, shards);
        let shard = |number| {
            Shard::new(ShardConfig {
                lease_ttl_ms: settings.lease_ttl_ms,
                put_discard_timeout_ms: settings.put_discard_timeout_ms,
                put_release_timeout_ms: settings.put_release_timeout_ms,
                allocation_strategy: settings.allocation_strategy,
                eviction_policy: settings.eviction_policy,
                ..ShardConfig::new(ShardId(number), route, incarnation)
            })
        };
        let pool = Pool::new(PoolConfig {
            lease_ttl_ms: settings.lease_ttl_ms,
            client_ttl_ms: settings.client_ttl_ms,
            put_release_timeout_ms: settings.put_release_timeout_ms,
            eviction_high_watermark_ratio: settings.eviction_high_watermark_ratio,
            eviction_ratio: settings.eviction_ratio,
            ..PoolConfig::new(shards, incarnation)
        });
        let clients = Clients::new(ClientsConfig {
            client_ttl_ms: settings.client_ttl_ms,
            // As the process has it; it ticks more often here.
            tick_period_ms: (settings.client_ttl_ms / 20).clamp(1, 1000),
        });
        Cluster {
            now: Moment::from_ms(1_000),
            route,
            shards: (0..shards).map(shard).collect(),
            pool,
            clients,
            settings,
            queue: VecDeque::new(),
            answers: HashMap::default(),
            attentions: Vec::new(),
            offline: Vec::new(),
            pinging: BTreeMap::new(),
            shards_at_rest: 0,
            incarnation,
            handed_over: Vec::new(),
            open: BTreeMap::new(),
            checked: true,
            next_request: 0,
            next_put: 0,
        }
    }

    /// A ticket for a request.
    pub fn ticket(&mut self) -> RequestId {
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.open.insert(id, self.now);
        id
    }

    /// Sends a request to a shard without waiting.
    pub fn send_shard(&mut self, shard: ShardId, request: ShardRequest) -> RequestId {
        let id = self.ticket();
        let message = ShardMessage::Request { id, deadline: None, request };
        self.queue.push_back(Envelope::ToShard(shard, message));
        id
    }

    /// Sends a request to the pool without waiting.
    pub fn send_pool(&mut self, request: PoolRequest) -> RequestId {
        let id = self.ticket();
        self.queue.push_back(Envelope::ToPool(PoolMessage::Request { id, request }));
        id
    }

    /// Delivers the message at this place of the queue.
    pub fn deliver(&mut self, place: usize) {
        let Some(envelope) = self.queue.remove(place) else { return };
        match envelope {
            Envelope::ToShard(shard, message) => {
                let mut effects = Vec::new();
                self.shards[usize::from(shard.0)].apply(self.now, message, &mut effects);
                for effect in effects {
                    self.take_shard_effect(shard, effect);
                }
            }
            Envelope::ToPool(message) => {
                let mut effects = Vec::new();
                self.pool.apply(self.now, message, &mut effects);
                for effect in effects {
                    self.take_pool_effect(effect);
                }
            }
            Envelope::ToClients(message) => {
                let mut effects = Vec::new();
                self.clients.apply(self.now, message, &mut effects);
                for effect in effects {
                    self.take_clients_effect(effect);
                }
            }
        }
        if self.checked {
            self.check().unwrap_or_else(|violation| panic!("after a message: {violation}"));
        }
    }

    fn answer(&mut self, id: RequestId, answer: Answer) {
        assert!(self.open.remove(&id).is_some(), "answered: {id:?} was answered twice");
        self.answers.insert(id, answer);
    }

    fn take_shard_effect(&mut self, shard: ShardId, effect: ShardEffect) {
        match effect {
            ShardEffect::Reply { id, reply } => self.answer(id, Answer::Shard(reply)),
            ShardEffect::Report(report) => {
                self.queue.push_back(Envelope::ToPool(PoolMessage::Shard { shard, report }));
            }
            ShardEffect::Continue => {
                self.queue.push_back(Envelope::ToShard(shard, ShardMessage::Continue));
            }
            ShardEffect::AtRest => self.shards_at_rest += 1,
            ShardEffect::Broken(violation) => panic!("{violation}"),
            ShardEffect::Tell { shard, message } => {
                self.queue.push_back(Envelope::ToShard(shard, ShardMessage::Peer(message)));
            }
        }
    }

    fn take_pool_effect(&mut self, effect: PoolEffect) {
        match effect {
            PoolEffect::Reply { id, reply } => self.answer(id, Answer::Pool(reply)),
            PoolEffect::Order { shard, order } => {
                self.queue.push_back(Envelope::ToShard(shard, ShardMessage::Pool(order)));
            }
            PoolEffect::TableChanged { .. } | PoolEffect::Unlisted { .. } | PoolEffect::AtRest => {}
            PoolEffect::ClientSegments { client, segments, kept } => {
                let mounted = ClientsMessage::Mounted { client, segments, kept };
                self.queue.push_back(Envelope::ToClients(mounted));
            }
        }
    }

    fn take_clients_effect(&mut self, effect: ClientsEffect) {
        match effect {
            ClientsEffect::ReplyPing { id, need_remount, .. } => {
                self.answer(id, Answer::Ping { need_remount });
            }
            ClientsEffect::AskAttention { client, .. } => self.attentions.push(client),
            ClientsEffect::Left { .. } => {}
            ClientsEffect::Offline { client, .. } => {
                self.offline.push(client);
                self.queue.push_back(Envelope::ToPool(PoolMessage::ClientLost(client)));
                for number in 0..self.route.shards() {
                    let lost = ShardMessage::ClientLost(client);
                    self.queue.push_back(Envelope::ToShard(ShardId(number), lost));
                }
            }
            ClientsEffect::ReplyList { .. } => {}
            ClientsEffect::Quiesced => {
                self.queue.push_back(Envelope::ToPool(PoolMessage::ClientsQuiesced));
            }
        }
    }

    /// Delivers messages until none is on its way.
    pub fn settle(&mut self) {
        let mut delivered = 0_u64;
        while !self.queue.is_empty() {
            self.deliver(0);
            delivered += 1;
            assert!(delivered < 10_000_000, "the actors never come to rest");
        }
    }

    /// Lets time pass, with a tick of every actor at each step, and settles after each.
    pub fn advance(&mut self, ms: u64) {
        let until = self.now.after_ms(ms);
        while self.now < until {
            self.now = self.now.after_ms(TICK_MS.min(until.since_ms(self.now)));
            if self.now.as_ms() % PING_PERIOD_MS < TICK_MS {
                self.send_pings();
            }
            self.tick();
            self.settle();
        }
    }

    /// Lets time pass in one leap, with one tick at its end, as if nobody had been awake.
    pub fn leap(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        self.tick();
        self.settle();
    }

    fn send_pings(&mut self) {
        for (client, mounted_segments) in self.pinging.clone() {
            let id = self.ticket();
            // Nobody looks at the answers.
            let ping = ClientsMessage::Ping { id, client, mounted_segments, kept: None };
            self.queue.push_back(Envelope::ToClients(ping));
        }
    }

    /// Puts a tick of every actor on its way.
    pub fn tick(&mut self) {
        self.queue.push_back(Envelope::ToPool(PoolMessage::Tick));
        self.queue.push_back(Envelope::ToClients(ClientsMessage::Tick));
        for number in 0..self.route.shards() {
            self.queue.push_back(Envelope::ToShard(ShardId(number), ShardMessage::Tick));
        }
    }

    /// Checks all invariants that can be checked while messages are under way.
    pub fn check(&self) -> Result<(), Violation> {
        for shard in &self.shards {
            shard.check()?;
        }
        self.pool.check().map_err(|fault| Invariant::OneOwner.violated(fault))?;
        for entry in self.mounted() {
            self.check_segment(mount(entry.slot, entry.generation), entry.segment.size_bytes)?;
        }
        Ok(())
    }

    /// The segments that are not lost: those of the table, and those that are still pending.
    pub fn mounted(&self) -> Vec<SegmentEntry> {
        let mut mounted = self.pool.table();
        for entry in &self.handed_over {
            let is_mounted = self.pool.mount_of(entry.segment.segment)
                == Some(mount(entry.slot, entry.generation));
            if is_mounted && !mounted.iter().any(|other| other.slot == entry.slot) {
                mounted.push(entry.clone());
            }
        }
        mounted
    }

    /// No two shards own the same bytes, and none owns bytes outside of the segment.
    fn check_segment(&self, mount: Mount, size_bytes: u64) -> Result<(), Violation> {
        let mut all: Vec<Stretch> =
            self.shards.iter().flat_map(|shard| shard.stretches(mount)).collect();
        all.sort_by_key(|stretch| stretch.offset_bytes);
        for pair in all.windows(2) {
            if pair[0].offset_bytes + pair[0].length_bytes > pair[1].offset_bytes {
                return Err(Invariant::NoOverlap.violated(format!("{mount:?}: {pair:?}")));
            }
        }
        match all.last() {
            Some(last) if last.offset_bytes + last.length_bytes > size_bytes => {
                Err(Invariant::NoOverlap.violated(format!("{mount:?}: {last:?} is outside")))
            }
            _ => Ok(()),
        }
    }

    /// The keys of a batch as the front end hands them to a shard.
    pub fn batch(&self, keys: &[&[u8]]) -> KeyBatch {
        let mut frame = Vec::new();
        let mut refs = Vec::new();
        for key in keys {
            refs.push(KeyRef {
                hash: self.route.hash(key),
                at: frame.len() as u32,
                length: key.len() as u32,
            });
            frame.extend_from_slice(key);
        }
        KeyBatch { frame: Bytes::from(frame), keys: refs }
    }

    /// The shard that holds a key.
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        self.route.shard(self.route.hash(key))
    }

    /// The answer to a request, which must have come.
    pub fn take_shard_answer(&mut self, id: RequestId) -> ShardReply {
        match self.answers.remove(&id) {
            Some(Answer::Shard(reply)) => reply,
            other => panic!("answered: {id:?} has {other:?}"),
        }
    }

    fn take_pool_answer(&mut self, id: RequestId) -> PoolReply {
        match self.answers.remove(&id) {
            Some(Answer::Pool(reply)) => reply,
            other => panic!("answered: {id:?} has {other:?}"),
        }
    }

    /// The totals of all shards together.
    pub fn totals(&self) -> ShardTotals {
        let mut sum = ShardTotals::default();
        for shard in &self.shards {
            let totals = shard.totals();
            sum.objects += totals.objects;
            sum.unfinished += totals.unfinished;
            sum.allocated_bytes += totals.allocated_bytes;
            sum.holds += totals.holds;
            sum.held_bytes += totals.held_bytes;
            sum.free_bytes += totals.free_bytes;
            sum.leased_bytes += totals.leased_bytes;
            sum.pinned_bytes += totals.pinned_bytes;
            sum.parked += totals.parked;
            sum.put_short += totals.put_short;
            sum.put_refused += totals.put_refused;
            sum.put_discarded += totals.put_discarded;
            sum.evicted_objects += totals.evicted_objects;
            sum.evicted_bytes += totals.evicted_bytes;
            sum.lost_objects += totals.lost_objects;
            sum.removed += totals.removed;
        }
        sum
    }

    /// What lies at a descriptor now.
    pub fn purpose_at(&self, descriptor: RangeDescriptor) -> Option<Purpose> {
        let mount = mount(descriptor.slot, descriptor.generation);
        let stretches = self.shards.iter().flat_map(|shard| shard.stretches(mount));
        stretches
            .into_iter()
            .find(|stretch| {
                (stretch.offset_bytes..stretch.offset_bytes + stretch.length_bytes)
                    .contains(&descriptor.offset_bytes)
            })
            .map(|stretch| stretch.purpose)
    }
}

/// The mount that a descriptor or a row of the table names.
pub fn mount(slot: u32, generation: u32) -> Mount {
    Mount { slot: SegmentSlot(slot as u16), generation: Generation(generation) }
}

/// Memory of a client that no other client has.
pub fn memory(client: ClientId, number: u128, size_bytes: u64) -> MountRequest {
    MountRequest {
        segment: Segment {
            segment: SegmentId(client.0 << 64 | number),
            base: 0x1000_0000_0000 + (number as u64) * (64 << 40) % (1 << 62),
            size_bytes,
            endpoint: format!("store-{:x}:7000", client.0),
            certificate_sha256: None,
            transfer_engine: None,
        },
        mounted_with: None,
    }
}

/// The code of a refusal.
pub fn code<T>(result: Result<T, Refusal>) -> Option<ErrorCode> {
    result.err().map(|refusal| refusal.code)
}

/// How often clients ping, in milliseconds.
const PING_PERIOD_MS: u64 = 1_000;

/// How often the actors tick, in milliseconds.
pub const TICK_MS: u64 = 10;
