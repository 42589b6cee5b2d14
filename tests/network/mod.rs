//! The real listener, the real stores and the real client over QUIC, on a network that fails them.
//!
//! All of it runs in one thread on a paused clock: packets are lost, doubled, damaged and delayed,
//! overtake each other, wait behind slow links, are too large for the path, and hosts are cut off, all
//! of it as a seed says. Every call must end in time with an answer or an error that a network can
//! cause; what was put with success must be readable, byte by byte; and when the network is fair again
//! every client puts within seconds, and nothing is kept of what was given up.
//!
//! The one actor with a thread of its own, which judges whether clients live, has the time of the
//! machine: within a test it misses nobody. What becomes of those who are missed is simulated in
//! `tests/sim`. Its answers to pings come a little sooner or later among what else happens at the same
//! moment, so that a seed repeats its plan and mostly its packets, but some seeds part from their
//! former run after some thousands of packets. The two numbers `packets` and `answers` of an outcome
//! tell whether a run was the same.
//!
//! `MOORING_NETWORK_SEEDS` is how many seeds are run, or which (`100..200`), and
//! `MOORING_NETWORK_TRACE=1` prints every packet.

mod cluster;
mod load;
mod plan;
mod shares;
mod stillness;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use mooring_proto::client::Client;
use mooring_proto::message::object::GetReply;
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;

use cluster::Cluster;
use load::{Book, Worker};
use plan::{Canary, Plan};
use stillness::Stillness;
use wire::{Fates, Weather};

#[test]
fn whatever_the_network_does_answers_are_right_and_nothing_is_kept_when_it_is_over() {
    let mut failed = Vec::new();
    for seed in seeds() {
        let began = std::time::Instant::now();
        match run(&Plan::new(seed)) {
            Ok(outcome) => println!("seed {seed}: {outcome:?} in {:?}", began.elapsed()),
            Err(fault) => {
                eprintln!("seed {seed}: {fault}\n{:?}", Plan::new(seed));
                eprintln!(
                    "repeat it: MOORING_NETWORK_SEEDS={seed}..{} cargo test --bin mooring \
                     whatever_the_network -- --nocapture",
                    seed + 1
                );
                failed.push(seed);
            }
        }
    }
    assert!(failed.is_empty(), "failed seeds: {failed:?}");
}

#[test]
fn faults_that_are_planted_are_noticed() {
    for (canary, kind) in [
        (Canary::OtherBytes, "readable: "),
        (Canary::LostObject, "readable: "),
        (Canary::StayingClient, "leak: "),
    ] {
        let fault = run(&Plan { canary: Some(canary), ..Plan::new(0) }).err();
        assert!(fault.as_ref().is_some_and(|it| it.starts_with(kind)), "{canary:?}: {fault:?}");
    }
}

/// How a run went.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    virtual_ms: u128,
    fates: Fates,
    /// The longest that a client took to put again.
    recovered: Duration,
    packets: u64,
    answers: u64,
    tally: Vec<(String, u64)>,
}

fn run(plan: &Plan) -> Result<Outcome, String> {
    with_paused_clock(plan.seed, async |stillness| play(plan, &stillness).await)
}

/// Plays something on a clock of its own, which moves when nothing is left to do at its time.
fn with_paused_clock<T>(
    seed: u64,
    play: impl AsyncFnOnce(Stillness) -> Result<T, String>,
) -> Result<T, String> {
    let stillness = Stillness::default();
    let watching = stillness.clone();
    mooring_proto::client::seed_thread(seed);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || watching.before_park())
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let whole = tokio::time::timeout(RUN_WITHIN, play(stillness));
        whole.await.unwrap_or_else(|_| Err(format!("liveness: no end after {RUN_WITHIN:?}")))
    })
}

/// The whole of a run.
async fn play(plan: &Plan, stillness: &Stillness) -> Result<Outcome, String> {
    let cluster = Cluster::start(plan, stillness).await?;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let began = Instant::now();
    let book: Book = Arc::default();
    let (mut workers, mut fresh) = (Vec::new(), Vec::new());
    for number in 0..plan.clients {
        let client = cluster.client(number).await?;
        let other = number + FRESH;
        fresh.push(Worker::new(client.clone(), other, plan, book.clone(), began));
        workers.push(Worker::new(client, number, plan, book.clone(), began));
    }
    let (recovered, workers) = bad_times(plan, &cluster, workers, fresh).await?;
    let stays = plant(plan, &cluster, &book).await?;
    let last = good_times(workers).await?;
    check_places(&cluster, &last, &book).await?;
    last.close().await;
    drop(last);
    nothing_is_left(&cluster, tasks).await?;
    drop(stays);
    let book = book.lock().map_err(|error| error.to_string())?;
    Ok(Outcome {
        virtual_ms: began.elapsed().as_millis(),
        fates: cluster.network.fates(),
        recovered,
        packets: cluster.network.digest(),
        answers: book.digest(),
        tally: book.tally.clone().into_iter().collect(),
    })
}

/// Plants the fault of the plan, if it has one; gives a client that must not stay.
async fn plant(plan: &Plan, cluster: &Cluster, book: &Book) -> Result<Option<Client>, String> {
    let Some(canary) = plan.canary else { return Ok(None) };
    let client = cluster.client(2 * FRESH).await?;
    let key = book.lock().map_err(|error| error.to_string())?.any_answered();
    let key = key.ok_or("nothing was put")?;
    match canary {
        Canary::OtherBytes => book.lock().map_err(|error| error.to_string())?.spoil(&key),
        Canary::LostObject => {
            client.remove(&[&key], true).await.map_err(|error| error.to_string())?;
        }
        Canary::StayingClient => return Ok(Some(client)),
    }
    client.close().await;
    Ok(None)
}

/// Clients work while the plan takes its course. When it has, others put with the same connections at
/// once, whatever the calls before still wait for; gives how long the slowest of them took, and the
/// clients when each call has ended.
async fn bad_times(
    plan: &Plan,
    cluster: &Cluster,
    workers: Vec<Worker>,
    fresh: Vec<Worker>,
) -> Result<(Duration, Vec<Worker>), String> {
    let began = Instant::now();
    let until = began + plan.lasts();
    let running: Vec<_> = workers
        .into_iter()
        .map(|mut worker| tokio::spawn(async move { worker.work(until).await.map(|()| worker) }))
        .collect();
    while began.elapsed() < plan.lasts() {
        cluster.network.set_weather(plan.weather(began.elapsed()));
        cluster.network.cut_off(plan.cut_off(began.elapsed()));
        tokio::time::sleep(STEP).await;
    }
    cluster.network.set_weather(Weather::FAIR);
    cluster.network.cut_off(Default::default());
    let recovering: Vec<_> = fresh
        .into_iter()
        .map(|mut worker| tokio::spawn(async move { worker.recover().await }))
        .collect();
    let mut slowest = Duration::ZERO;
    for recovering in recovering {
        let took = recovering.await.map_err(|error| format!("panic: {error}"))??;
        slowest = slowest.max(took);
    }
    let mut workers = Vec::new();
    for running in running {
        workers.push(running.await.map_err(|error| format!("panic: {error}"))??);
    }
    Ok((slowest, workers))
}

/// Every client reads everything, and all but one go; gives that one.
async fn good_times(mut workers: Vec<Worker>) -> Result<Client, String> {
    for worker in &mut workers {
        worker.read_all().await?;
    }
    let mut clients = workers.into_iter().map(Worker::into_client);
    let last = clients.next().ok_or("a plan has clients")?;
    for client in clients {
        client.close().await;
    }
    Ok(last)
}

/// Every object has the size of what was put, and a place of its own.
async fn check_places(cluster: &Cluster, client: &Client, book: &Book) -> Result<(), String> {
    // Unfinished puts are discarded, and what was held for their writers is free again.
    tokio::time::sleep(RELEASED_AFTER).await;
    let keys = book.lock().map_err(|error| error.to_string())?.keys();
    let mut places = Vec::new();
    for part in keys.chunks(1_000) {
        let GetReply { items, .. } =
            client.get(part).await.map_err(|error| error.to_string())?.reply;
        for (key, found) in part.iter().zip(items) {
            let Ok(found) = found else { continue };
            let lengths = book.lock().map_err(|error| error.to_string())?.lengths(key);
            if !lengths.contains(&(found.size_bytes as usize)) {
                return Err(format!("readable: {key} has {} bytes", found.size_bytes));
            }
            let ranges = found.replicas.iter();
            places.push(ranges.map(|it| (it.slot, it.offset_bytes, found.size_bytes)).collect());
        }
    }
    let objects = places.len() as u64;
    let mut ranges: Vec<(u32, u64, u64)> = places.into_iter().flat_map(|it: Vec<_>| it).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let ((slot, offset, size), next) = (pair[0], pair[1]);
        if slot == next.0 && offset + size > next.1 {
            return Err(format!("no-overlap: {:?} and {next:?}", pair[0]));
        }
    }
    let (shards, _) = cluster.context.core.totals().await.map_err(|error| error.to_string())?;
    let sum = |of: fn(&mooring_actors::shard::message::ShardTotals) -> u64| -> u64 {
        shards.iter().map(of).sum()
    };
    let left = [sum(|it| it.unfinished), sum(|it| it.parked), sum(|it| it.holds)];
    if left != [0; 3] || sum(|it| it.objects) != objects {
        let all = sum(|it| it.objects);
        return Err(format!(
            "conservation: unfinished, parked and held {left:?}, {all} objects of which {objects} are known"
        ));
    }
    Ok(())
}

/// When the clients have gone, nothing of them is left, in the end.
async fn nothing_is_left(cluster: &Cluster, tasks_before: usize) -> Result<(), String> {
    let until = Instant::now() + GONE_WITHIN;
    loop {
        let mut left = cluster.left_over();
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks != tasks_before {
            left.push(format!("{tasks} tasks instead of {tasks_before}"));
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("leak: after {GONE_WITHIN:?} there are {}", left.join(", ")));
        }
        tokio::time::sleep(STEP).await;
    }
}

/// The seeds to run: so many, or from one to before another one.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("MOORING_NETWORK_SEEDS") else { return 0..SEEDS };
    let bounds = match text.split_once("..") {
        None => text.parse().map(|count| 0..count),
        Some((from, to)) => from.parse().and_then(|from| Ok(from..to.parse()?)),
    };
    bounds
        .unwrap_or_else(|_| panic!("MOORING_NETWORK_SEEDS must be a number or two, as in 100..200"))
}

/// As many as a gate has time for.
const SEEDS: u64 = 12;

/// Added to the number of a client for those who put with its connection when the network is fair.
const FRESH: u8 = 100;

/// How often the weather is looked at.
const STEP: Duration = Duration::from_millis(50);

/// Beyond the release timeout of the cluster.
const RELEASED_AFTER: Duration = Duration::from_secs(45);

/// Beyond every idle timeout.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Longer than all that a plan does, with every call that waits as long as it may.
const RUN_WITHIN: Duration = Duration::from_secs(900);
