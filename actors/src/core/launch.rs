//! Starting the actors: lanes first, then each actor where it belongs.

use std::sync::Arc;
use std::thread::Builder;

use kameo::actor::{ActorRef, PreparedActor, Spawn};
use tokio::sync::{broadcast, mpsc, watch};

use super::backlog::Backlog;
use super::{Core, CoreConfig, CoreState, Layout, SegmentTable, Shared};
use crate::beside::{Refused, begin};
use crate::clients::ClientCounts;
use crate::clients::actor::{ClientsActor, ClientsArgs};
use crate::clock::Clock;
use crate::pool::actor::{PoolActor, PoolArgs};
use crate::route::ShardId;
use crate::shard::actor::{ShardActor, ShardArgs};
use crate::shell::Lanes;

pub(super) fn launch(config: CoreConfig, state: CoreState) -> Core {
    let clock = Clock::start();
    let (shard_lanes, shard_controls): (Vec<_>, Vec<_>) =
        (0..config.route.shards()).map(|_| mpsc::unbounded_channel()).unzip();
    let (pool_lane, pool_control) = mpsc::unbounded_channel();
    let (clients_lane, clients_control) = mpsc::unbounded_channel();
    let lanes = Lanes {
        shards: shard_lanes,
        pool: pool_lane,
        clients: clients_lane,
        lost_for: Arc::default(),
    };
    let (attention, _) = broadcast::channel(ATTENTION_BACKLOG);

    let backlogs: Vec<_> = (0..config.route.shards())
        .map(|_| Arc::new(Backlog::new(config.mailbox_requests)))
        .collect();
    let shards = shard_controls
        .into_iter()
        .zip(state.shards)
        .zip(&backlogs)
        .zip(0..)
        .map(|(((control, shard), backlog), number)| {
            let id = ShardId(number);
            let args = ShardArgs {
                shard,
                id,
                clock,
                lanes: lanes.clone(),
                control,
                backlog: backlog.clone(),
                on_fault: config.on_fault,
                on_job: config.on_job,
                thread: config.thread,
            };
            let prepared =
                ShardActor::prepare_with_mailbox(kameo::mailbox::bounded(config.mailbox_requests));
            match config.layout {
                Layout::Tasks => run_as_task(prepared, args),
                Layout::Threads => {
                    run_on_thread(prepared, args, &format!("shard-{number}"), config.thread)
                }
            }
        })
        .collect();

    let table = SegmentTable { epoch: state.pool.epoch(), segments: state.pool.table() };
    let (table_sender, table) = watch::channel(Arc::new(table));
    let pool = run_as_task(
        PoolActor::prepare_with_mailbox(kameo::mailbox::bounded(CALLS_WAITING)),
        PoolArgs {
            pool: state.pool,
            clock,
            lanes: lanes.clone(),
            control: pool_control,
            table: table_sender,
            on_fault: config.on_fault,
        },
    );

    let (counts_sender, client_counts) = watch::channel(ClientCounts::default());
    let tick_period_ms = config.clients().tick_period_ms;
    // On a thread of its own whatever the layout: a busy index must never expire a living client.
    let clients = run_on_thread(
        ClientsActor::prepare_with_mailbox(kameo::mailbox::bounded(PINGS_WAITING)),
        ClientsArgs {
            clients: state.clients,
            clock,
            lanes: lanes.clone(),
            control: clients_control,
            attention: attention.clone(),
            counts: counts_sender,
            tick_period_ms,
            on_fault: config.on_fault,
        },
        "clients",
        config.thread,
    );

    let shared = Shared {
        config,
        clock,
        lanes,
        shards,
        backlogs,
        pool,
        clients,
        table,
        client_counts,
        attention,
    };
    Core { shared: Arc::new(shared) }
}

fn run_as_task<A: kameo::Actor>(prepared: PreparedActor<A>, args: A::Args) -> ActorRef<A> {
    let actor = prepared.actor_ref().clone();
    prepared.spawn(args);
    actor
}

/// If the system refuses the thread, the actor is a task like others: it may have to wait for them, and
/// what was restored is served all the same.
fn run_on_thread<A: kameo::Actor>(
    prepared: PreparedActor<A>,
    args: A::Args,
    name: &str,
    thread: fn() -> Builder,
) -> ActorRef<A>
where
    A::Args: 'static,
{
    let actor = prepared.actor_ref().clone();
    let begun = begin(thread().name(name.to_owned()), (prepared, args), |(prepared, args)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without I/O needs nothing that could be missing");
        // What the actor returns is its state. It is forgotten, not dropped: dropping an index
        // takes seconds, and the process ends when its actors do.
        std::mem::forget(runtime.block_on(prepared.run(args)));
    });
    if let Err(Refused { work: (prepared, args), error }) = begun {
        tracing::warn!(actor = name, %error, "no thread for an actor: it shares one with others");
        prepared.spawn(args);
    }
    actor
}

/// Calls that may wait at the pool: mounts and questions, not the data path.
const CALLS_WAITING: usize = 4096;

/// Pings that may wait: one of each of the most clients that a master is thought for.
const PINGS_WAITING: usize = 65_536;

/// Suspicions that a slow front end may lag behind.
const ATTENTION_BACKLOG: usize = 1024;
