//! Starting the actors: lanes first, then each actor where it belongs.

use std::sync::Arc;

use kameo::actor::{ActorRef, PreparedActor, Spawn};
use tokio::sync::{broadcast, mpsc, watch};

use super::{Core, CoreConfig, Layout, SegmentTable, Shared};
use crate::clients::actor::{ClientsActor, ClientsArgs};
use crate::clients::{ClientCounts, Clients, ClientsConfig};
use crate::clock::Clock;
use crate::pool::actor::{PoolActor, PoolArgs};
use crate::pool::{Pool, PoolConfig};
use crate::route::ShardId;
use crate::shard::actor::{ShardActor, ShardArgs};
use crate::shard::config::ShardConfig;
use crate::shard::state::Shard;
use crate::shell::Lanes;

pub(super) fn launch(config: CoreConfig) -> Core {
    let clock = Clock::start();
    let (shard_lanes, shard_controls): (Vec<_>, Vec<_>) =
        (0..config.route.shards()).map(|_| mpsc::unbounded_channel()).unzip();
    let (pool_lane, pool_control) = mpsc::unbounded_channel();
    let (clients_lane, clients_control) = mpsc::unbounded_channel();
    let lanes = Lanes { shards: shard_lanes, pool: pool_lane, clients: clients_lane };
    let (attention, _) = broadcast::channel(ATTENTION_BACKLOG);

    let shards = shard_controls
        .into_iter()
        .zip(0..)
        .map(|(control, number)| {
            let id = ShardId(number);
            let args = ShardArgs {
                shard: Shard::new(shard_config(&config, id)),
                id,
                clock,
                lanes: lanes.clone(),
                control,
                on_fault: config.on_fault,
            };
            let prepared =
                ShardActor::prepare_with_mailbox(kameo::mailbox::bounded(config.mailbox_requests));
            match config.layout {
                Layout::Tasks => run_as_task(prepared, args),
                Layout::Threads => run_on_thread(prepared, args, &format!("shard-{number}")),
            }
        })
        .collect();

    let (table_sender, table) = watch::channel(Arc::new(SegmentTable::default()));
    let pool = run_as_task(
        PoolActor::prepare_with_mailbox(kameo::mailbox::bounded(CALLS_WAITING)),
        PoolArgs {
            pool: Pool::new(pool_config(&config)),
            clock,
            lanes: lanes.clone(),
            control: pool_control,
            table: table_sender,
            on_fault: config.on_fault,
        },
    );

    let (counts_sender, client_counts) = watch::channel(ClientCounts::default());
    let tick_period_ms = (config.settings.client_ttl_ms / TICKS_PER_TTL).clamp(1, 1000);
    let clients_config =
        ClientsConfig { client_ttl_ms: config.settings.client_ttl_ms, tick_period_ms };
    // On a thread of its own whatever the layout: a busy index must never expire a living client.
    let clients = run_on_thread(
        ClientsActor::prepare_with_mailbox(kameo::mailbox::bounded(PINGS_WAITING)),
        ClientsArgs {
            clients: Clients::new(clients_config),
            clock,
            lanes: lanes.clone(),
            control: clients_control,
            attention: attention.clone(),
            counts: counts_sender,
            tick_period_ms,
            on_fault: config.on_fault,
        },
        "clients",
    );

    let shared =
        Shared { config, clock, lanes, shards, pool, clients, table, client_counts, attention };
    Core { shared: Arc::new(shared) }
}

fn shard_config(config: &CoreConfig, id: ShardId) -> ShardConfig {
    ShardConfig {
        lease_ttl_ms: config.settings.lease_ttl_ms,
        put_discard_timeout_ms: config.settings.put_discard_timeout_ms,
        put_release_timeout_ms: config.settings.put_release_timeout_ms,
        ..ShardConfig::new(id, config.route, config.incarnation)
    }
}

fn pool_config(config: &CoreConfig) -> PoolConfig {
    PoolConfig {
        lease_ttl_ms: config.settings.lease_ttl_ms,
        put_release_timeout_ms: config.settings.put_release_timeout_ms,
        eviction_high_watermark_ratio: config.settings.eviction_high_watermark_ratio,
        eviction_ratio: config.settings.eviction_ratio,
        ..PoolConfig::new(config.route.shards(), config.incarnation)
    }
}

fn run_as_task<A: kameo::Actor>(prepared: PreparedActor<A>, args: A::Args) -> ActorRef<A> {
    let actor = prepared.actor_ref().clone();
    prepared.spawn(args);
    actor
}

fn run_on_thread<A: kameo::Actor>(
    prepared: PreparedActor<A>,
    args: A::Args,
    name: &str,
) -> ActorRef<A>
where
    A::Args: 'static,
{
    let actor = prepared.actor_ref().clone();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .expect("a runtime without I/O needs nothing that could be missing");
            // What the actor returns is its state. It is forgotten, not dropped: dropping an index
            // takes seconds, and the process ends when its actors do.
            std::mem::forget(runtime.block_on(prepared.run(args)));
        })
        .expect("a thread can be started when the process starts");
    actor
}

/// Calls that may wait at the pool: mounts and questions, not the data path.
const CALLS_WAITING: usize = 4096;

/// Pings that may wait: one of each of the most clients that a master is thought for.
const PINGS_WAITING: usize = 65_536;

/// Suspicions that a slow front end may lag behind.
const ATTENTION_BACKLOG: usize = 1024;

/// A client is judged this often in one TTL, so that it goes offline at most a twentieth late.
const TICKS_PER_TTL: u64 = 20;
