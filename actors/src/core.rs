//! All actors together: how they are started, and the handle by which front ends reach them.

mod backlog;
mod launch;
mod reshape;
mod rest;
mod state;
mod sync;

use std::future::Future;
use std::sync::Arc;
use std::thread::Builder;

use kameo::actor::ActorRef;
use mooring_proto::message::inspect::ClientEntry;
use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::{ClientId, Incarnation, SegmentsDigest};
use tokio::sync::{broadcast, oneshot, watch};

pub(crate) use self::backlog::Backlog;
pub use self::reshape::Reshape;
pub use self::state::CoreState;
use crate::clients::actor::{ClientsActor, ListCall, PingCall};
use crate::clients::{ClientCounts, ClientsMessage};
use crate::clock::Clock;
use crate::moment::Moment;
use crate::pool::actor::{PoolActor, PoolCall};
use crate::pool::message::{PoolReply, PoolRequest, PoolTotals};
use crate::route::{Route, ShardId};
use crate::shard::actor::{ShardActor, ShardCall};
use crate::shard::message::{ShardReply, ShardRequest, ShardTotals};
use crate::shard::{AllocationStrategy, EvictionPolicy, JobReport};
pub use crate::shell::CallError;
use crate::shell::{Lanes, call_error};
use crate::watch::Watch;

/// What an operator sets for the actors.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long a get or a true exist protects an object, in milliseconds.
    pub lease_ttl_ms: u64,
    /// A client that is silent for this long is suspected, and for twice as long offline.
    pub client_ttl_ms: u64,
    /// After this time another start may take the key of an unfinished put over.
    pub put_discard_timeout_ms: u64,
    /// For this long after its start, the ranges of a put may be written to; above the discard
    /// timeout.
    pub put_release_timeout_ms: u64,
    /// Eviction starts when more than this part of a segment is used; above 0, up to 1.
    pub eviction_high_watermark_ratio: f64,
    /// Eviction goes this far below the watermark, as a part of the segment.
    pub eviction_ratio: f64,
    /// A restored segment whose owner has not come back after this time, counted from serving, is
    /// dropped; `None` leaves it to the liveness of its owner.
    pub pending_timeout_ms: Option<u64>,
    /// Which segment a put tries first.
    pub allocation_strategy: AllocationStrategy,
    /// In which order idle objects go.
    pub eviction_policy: EvictionPolicy,
}

impl Default for Settings {
    /// The defaults of the existing master, which operators know.
    fn default() -> Settings {
        Settings {
            lease_ttl_ms: 10_000,
            client_ttl_ms: 10_000,
            put_discard_timeout_ms: 30_000,
            put_release_timeout_ms: 600_000,
            eviction_high_watermark_ratio: 0.90,
            eviction_ratio: 0.05,
            pending_timeout_ms: None,
            allocation_strategy: AllocationStrategy::default(),
            eviction_policy: EvictionPolicy::default(),
        }
    }
}

/// Where the actors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Shards are tasks of the runtime that starts them: nothing is woken across threads. For few
    /// cores.
    Tasks,
    /// Each shard has a thread of its own.
    Threads,
}

/// Everything that the actors are started with.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// How keys are spread, and over how many shards.
    pub route: Route,
    /// The identity of this master process.
    pub incarnation: Incarnation,
    /// What an operator sets.
    pub settings: Settings,
    /// Where the shards run.
    pub layout: Layout,
    /// How many requests may wait at one shard. Beyond it callers are refused at once.
    pub mailbox_requests: usize,
    /// What to do when an actor panics; gets the actor's name. It must end the process: the state
    /// of the core is not to be trusted then.
    pub on_fault: fn(&str),
    /// Who is told of each long job of a shard when it has ended; with `None` nobody follows them.
    pub on_job: Option<fn(JobReport)>,
    /// Makes the threads of actors and exports. What gets none from the system runs without.
    pub thread: fn() -> Builder,
}

impl CoreConfig {
    /// The defaults for a number of shards, with a seed for the route and an identity, both random.
    pub fn new(shards: u16, seed: u64, incarnation: Incarnation) -> CoreConfig {
        CoreConfig {
            route: Route::new(seed, shards),
            incarnation,
            settings: Settings::default(),
            layout: Layout::Tasks,
            mailbox_requests: 1024,
            on_fault: |_| std::process::abort(),
            on_job: None,
            thread: Builder::new,
        }
    }
}

/// The segment table as of one epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentTable {
    /// Changes with each mount and unmount.
    pub epoch: u64,
    /// The rows in the order of their slots.
    pub segments: Vec<SegmentEntry>,
}

/// How readers and writers reach memory. A master holds only one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over QUIC.
    Quic,
    /// By Mooncake's transfer engine.
    TransferEngine,
}

impl SegmentTable {
    /// Whether there are segments, and clients that reach memory this way cannot use them.
    pub fn is_reached_otherwise(&self, reach: Reach) -> bool {
        let by_engine = |row: &SegmentEntry| row.segment.transfer_engine.is_some();
        self.segments.first().is_some_and(|row| by_engine(row) != (reach == Reach::TransferEngine))
    }
}

/// A suspected client that should be asked to ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionNeeded {
    /// Whom to ask.
    pub client: ClientId,
    /// For how long it has been silent.
    pub silent_ms: u64,
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingAnswer {
    /// The client must mount all its segments again.
    pub need_remount: bool,
    /// The client TTL.
    pub client_ttl_ms: u64,
}

/// The handle of all actors. Clones are cheap.
#[derive(Clone)]
pub struct Core {
    shared: Arc<Shared>,
}

struct Shared {
    config: CoreConfig,
    clock: Clock,
    lanes: Lanes,
    shards: Vec<ActorRef<ShardActor>>,
    /// One for each shard.
    backlogs: Vec<Arc<Backlog>>,
    pool: ActorRef<PoolActor>,
    clients: ActorRef<ClientsActor>,
    table: watch::Receiver<Arc<SegmentTable>>,
    client_counts: watch::Receiver<ClientCounts>,
    attention: broadcast::Sender<AttentionNeeded>,
}

impl Core {
    /// Starts all actors, empty. Must be called inside a tokio runtime. The time of the actors
    /// begins now.
    pub fn start(config: CoreConfig) -> Core {
        let state = CoreState::empty(&config);
        launch::launch(config, state)
    }

    /// Starts all actors with what the master before has handed over. Must be called inside a tokio
    /// runtime. The time of the actors begins now, and with it all that was left of leases, holds
    /// and deadlines: call it at the moment of serving.
    pub fn start_restored(config: CoreConfig, state: CoreState) -> Core {
        launch::launch(config, state)
    }

    /// How keys are spread over shards.
    pub fn route(&self) -> Route {
        self.shared.config.route
    }

    /// The identity of this master process.
    pub fn incarnation(&self) -> Incarnation {
        self.shared.config.incarnation
    }

    /// What the operator has set.
    pub fn settings(&self) -> &Settings {
        &self.shared.config.settings
    }

    /// Now, as the actors see it.
    pub fn now(&self) -> Moment {
        self.shared.clock.now()
    }

    /// Asks a shard. The request is on its way when this returns; the future waits for the answer.
    /// Puts that have to wait for space are refused by the deadline.
    ///
    /// # Errors
    /// At once when the shard's mailbox is full or the shard has stopped; later when it stops
    /// without an answer.
    pub fn shard(
        &self,
        shard: ShardId,
        deadline: Option<Moment>,
        request: ShardRequest,
    ) -> Result<impl Future<Output = Result<ShardReply, CallError>> + Send + use<>, CallError> {
        self.shard_watched(shard, deadline, request, None)
    }

    /// [`Core::shard`] for a request that may be followed.
    ///
    /// # Errors
    /// As [`Core::shard`].
    pub fn shard_watched(
        &self,
        shard: ShardId,
        deadline: Option<Moment>,
        request: ShardRequest,
        watch: Option<Arc<Watch>>,
    ) -> Result<impl Future<Output = Result<ShardReply, CallError>> + Send + use<>, CallError> {
        let (reply, answer) = oneshot::channel();
        let backlog = &self.shared.backlogs[usize::from(shard.0)];
        backlog.note_sent(self.now());
        self.shared.shards[usize::from(shard.0)]
            .tell(ShardCall { request: (deadline, request), reply, watch })
            .try_send()
            .map_err(|error| {
                backlog.note_refused();
                call_error(&error)
            })?;
        Ok(async move {
            match answer.await {
                Ok(ShardReply::Restarting) | Err(_) => Err(CallError::Gone),
                Ok(reply) => Ok(reply),
            }
        })
    }

    /// Asks the pool.
    ///
    /// # Errors
    /// When the pool's mailbox is full or the pool has stopped.
    pub async fn pool(&self, request: PoolRequest) -> Result<PoolReply, CallError> {
        self.pool_watched(request, None).await
    }

    /// [`Core::pool`] for a request that may be followed.
    ///
    /// # Errors
    /// As [`Core::pool`].
    pub async fn pool_watched(
        &self,
        request: PoolRequest,
        watch: Option<Arc<Watch>>,
    ) -> Result<PoolReply, CallError> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .pool
            .tell(PoolCall { request, reply, watch })
            .try_send()
            .map_err(|error| call_error(&error))?;
        answer.await.map_err(|_| CallError::Gone)
    }

    /// Tells that a client has opened a connection.
    pub fn hello(&self, client: ClientId, name: &str) {
        // The lane closes only when the process ends.
        let name = name.to_owned();
        let _ = self.shared.lanes.clients.send(ClientsMessage::Hello { client, name });
    }

    /// Tells that the last connection of a client has closed.
    pub fn goodbye(&self, client: ClientId) {
        let _ = self.shared.lanes.clients.send(ClientsMessage::Goodbye { client });
    }

    /// Tells that a client lives, and asks how it stands. Without `kept`, as from a client of Mooncake,
    /// nobody compares which segments it has. Shares no thread with shard work.
    ///
    /// # Errors
    /// When the mailbox is full or the actor has stopped.
    pub async fn ping(
        &self,
        client: ClientId,
        mounted_segments: u32,
        kept: Option<SegmentsDigest>,
    ) -> Result<PingAnswer, CallError> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .clients
            .tell(PingCall { request: (client, mounted_segments, kept), reply, watch: None })
            .try_send()
            .map_err(|error| call_error(&error))?;
        answer.await.map_err(|_| CallError::Gone)
    }

    /// The clients that ping, in the order of their ids.
    ///
    /// # Errors
    /// When the mailbox is full or the actor has stopped.
    pub async fn list_clients(&self) -> Result<Vec<ClientEntry>, CallError> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .clients
            .tell(ListCall { request: (), reply, watch: None })
            .try_send()
            .map_err(|error| call_error(&error))?;
        answer.await.map_err(|_| CallError::Gone)
    }

    /// The current segment table.
    pub fn table(&self) -> Arc<SegmentTable> {
        self.shared.table.borrow().clone()
    }

    /// Suspected clients, as they become it.
    pub fn attention(&self) -> broadcast::Receiver<AttentionNeeded> {
        self.shared.attention.subscribe()
    }

    /// How many clients there are in which state, and what became of others.
    pub fn client_counts(&self) -> ClientCounts {
        *self.shared.client_counts.borrow()
    }

    /// How many requests wait at each shard.
    pub fn queue_lengths(&self) -> Vec<u64> {
        let free = |shard: &ActorRef<ShardActor>| shard.mailbox_sender().capacity().unwrap_or(0);
        let bound = self.shared.config.mailbox_requests;
        self.shared.shards.iter().map(|shard| bound.saturating_sub(free(shard)) as u64).collect()
    }

    /// For how long the oldest request waits at each shard, in milliseconds. Asks nobody, so that it
    /// tells of a shard that hangs.
    pub fn oldest_waiting_ms(&self) -> Vec<u64> {
        let now = self.now();
        self.shared.backlogs.iter().map(|backlog| backlog.oldest_ms(now)).collect()
    }

    /// How many requests each shard's mailbox had no place for since the start.
    pub fn mailbox_refusals(&self) -> Vec<u64> {
        self.shared.backlogs.iter().map(|backlog| backlog.refused()).collect()
    }

    /// Makes a shard hang for good, for tests of what has to notice that.
    #[cfg(debug_assertions)]
    pub fn hang(&self, shard: ShardId) {
        if let Some(shard) = self.shared.shards.get(usize::from(shard.0)) {
            let _ = shard.tell(crate::shard::actor::Hang).try_send();
        }
    }

    /// The totals of every shard, in their order, and of the pool.
    ///
    /// # Errors
    /// When an actor does not take the question or has stopped.
    pub async fn totals(&self) -> Result<(Vec<ShardTotals>, PoolTotals), CallError> {
        let mut answers = Vec::with_capacity(self.shared.shards.len());
        for shard in 0..self.shared.config.route.shards() {
            answers.push(self.shard(ShardId(shard), None, ShardRequest::Totals)?);
        }
        let mut shards = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer.await? {
                ShardReply::Totals(totals) => shards.push(*totals),
                other => unreachable!("totals are answered with totals, not {other:?}"),
            }
        }
        match self.pool(PoolRequest::Totals).await? {
            PoolReply::Totals(totals) => Ok((shards, totals)),
            other => unreachable!("totals are answered with totals, not {other:?}"),
        }
    }
}
