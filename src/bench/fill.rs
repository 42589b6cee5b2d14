//! `mooring bench fill`: puts a number of objects into segments that have no memory behind them.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use mooring_proto::client::Client;
use mooring_proto::message::inspect::StatsReply;
use mooring_proto::message::object::{PutItem, PutOptions, PutStartItem};
use mooring_proto::message::segment::Segment;
use serde_bytes::Bytes;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::keys::KeyMaker;
use super::segments::{fake_segments, unmount};
use super::sizes;
use crate::command::connect::ClientArgs;
use crate::command::table::{pairs, printable};
use crate::command::units::{ByteSize, human_bytes};
use crate::command::{self, CommandError, progress};
use crate::output;

/// Put objects into segments without memory behind them, and measure rate and resident memory
#[derive(Args, Clone, Debug)]
pub(crate) struct FillArgs {
    /// How many objects to put
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u64,

    /// The length of a key
    #[arg(long, value_name = "BYTES", default_value_t = 96)]
    key_bytes: usize,

    /// The size of an object, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "262144")]
    value_bytes: ByteSize,

    /// Keys in one request, 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// Segments to mount
    #[arg(long, value_name = "N", default_value_t = 12)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    segments: u32,

    /// The size of each segment
    #[arg(long, value_name = "SIZE", default_value = "675GiB")]
    segment_bytes: ByteSize,

    /// Connections that put
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,

    /// Batches under way on each connection
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    in_flight: u32,

    /// Another seed makes other keys
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Keep the segments mounted after the fill, until the process is interrupted
    #[arg(long)]
    hold: bool,

    #[command(flatten)]
    client: ClientArgs,
}

/// Fills and prints the figures.
///
/// # Errors
/// Sizes that the protocol does not allow, and what the master refused as a whole. Refused items
/// are counted instead; the exit code is 1 if all of them were.
pub(crate) fn run(args: &FillArgs) -> Result<ExitCode, CommandError> {
    let maker = KeyMaker::new(args.seed, args.key_bytes).map_err(CommandError::Arguments)?;
    sizes::check(args.value_bytes, args.key_bytes, args.batch).map_err(CommandError::Arguments)?;
    command::block_on(fill(args, maker))
}

async fn fill(args: &FillArgs, maker: KeyMaker) -> Result<ExitCode, CommandError> {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| CommandError::failed("cannot listen to signals", error))?;
    let owner = args.client.connect().await?;
    let segments = fake_segments(args.segments, args.segment_bytes.0);
    // However it ends, nothing of it stays mounted.
    let outcome = tokio::select! {
        outcome = fill_segments(args, maker, &owner, &segments) => outcome,
        _ = tokio::signal::ctrl_c() => Err(CommandError::Failed("interrupted".to_owned())),
        _ = terminate.recv() => Err(CommandError::Failed("terminated".to_owned())),
    };
    let outcome = match outcome {
        Ok(code) if args.hold => {
            output::note("holding the segments; interrupt to unmount them");
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            Ok(code)
        }
        outcome => outcome,
    };
    let unmounted = tokio::time::timeout(UNMOUNT_TIMEOUT, unmount(&owner, &segments)).await;
    let left = "segments stay mounted until the master misses this process";
    match unmounted {
        Ok(Ok(())) => {}
        Ok(Err(error)) => output::note(format_args!("{left}: {}", printable(&error.to_string()))),
        Err(_) => output::note(format_args!("{left}: no answer in time")),
    }
    owner.close().await;
    outcome
}

async fn fill_segments(
    args: &FillArgs,
    maker: KeyMaker,
    owner: &Client,
    segments: &[Segment],
) -> Result<ExitCode, CommandError> {
    for segment in segments {
        owner.mount(segment.clone(), None).await?;
    }
    let work = Arc::new(Work::new(args, maker));
    let started = Instant::now();
    put_all(args, &work).await?;
    let elapsed = started.elapsed();
    let stats = owner.stats().await?;
    report(args, &work, elapsed, &stats)?;
    let all_refused = args.keys > 0 && work.refused.load(Ordering::Relaxed) == args.keys;
    Ok(if all_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is to be done, and how far it is.
struct Work {
    maker: KeyMaker,
    keys: u64,
    batch: u64,
    value_bytes: u64,
    next: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
}

impl Work {
    fn new(args: &FillArgs, maker: KeyMaker) -> Work {
        Work {
            maker,
            keys: args.keys,
            batch: u64::from(args.batch),
            value_bytes: args.value_bytes.0,
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The numbers of the next batch; empty when there is nothing left.
    fn take(&self) -> Range<u64> {
        let start = self.next.fetch_add(self.batch, Ordering::Relaxed).min(self.keys);
        start..start.saturating_add(self.batch).min(self.keys)
    }

    fn count(&self, keys: u64, refused: u64) {
        self.done.fetch_add(keys, Ordering::Relaxed);
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }
}

async fn put_all(args: &FillArgs, work: &Arc<Work>) -> Result<(), CommandError> {
    let mut workers = JoinSet::new();
    for _ in 0..args.connections {
        let client = args.client.connect().await?;
        for _ in 0..args.in_flight {
            workers.spawn(put_batches(client.clone(), Arc::clone(work)));
        }
    }
    let bar = progress::count_bar(args.keys, "filling");
    let mut told = Instant::now();
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                Some(Ok(outcome)) => outcome?,
                Some(Err(error)) => return Err(CommandError::failed("a worker ended", error)),
                None => break,
            },
            _ = tick.tick() => {
                let done = work.done.load(Ordering::Relaxed);
                bar.set_position(done);
                if bar.is_hidden() && told.elapsed() >= TELL_EVERY {
                    output::note(format_args!("filling: {done} of {} keys", args.keys));
                    told = Instant::now();
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

async fn put_batches(client: Client, work: Arc<Work>) -> Result<(), CommandError> {
    loop {
        let numbers = work.take();
        if numbers.is_empty() {
            return Ok(());
        }
        let keys = numbers.end - numbers.start;
        let refused = put_batch(&client, &work, numbers).await?;
        work.count(keys, refused);
    }
}

/// Starts and ends the puts of a batch; gives how many were refused.
async fn put_batch(client: &Client, work: &Work, numbers: Range<u64>) -> Result<u64, CommandError> {
    let count = numbers.end - numbers.start;
    let mut bytes = Vec::new();
    numbers.for_each(|number| work.maker.append(number, &mut bytes));
    let key_bytes = bytes.len() / usize::try_from(count).unwrap_or(usize::MAX);
    let keys = bytes.chunks_exact(key_bytes).map(Bytes::new);
    let item =
        |key| PutStartItem { key, size_bytes: work.value_bytes, put_id: client.next_put_id() };
    let items: Vec<PutStartItem<'_>> = keys.map(item).collect();
    let started = client.put_start(&PutOptions::default(), &items).await?;
    let ends: Vec<PutItem<'_>> = items
        .iter()
        .zip(&started.items)
        .filter_map(|(item, granted)| {
            let grant = granted.as_ref().ok()?;
            Some(PutItem { key: item.key, sequence: grant.sequence })
        })
        .collect();
    let ended = client.put_end(started.incarnation, &ends).await?;
    let done = ended.iter().filter(|answer| answer.is_ok()).count() as u64;
    Ok(count - done)
}

fn report(
    args: &FillArgs,
    work: &Work,
    elapsed: Duration,
    stats: &StatsReply,
) -> Result<(), CommandError> {
    let elapsed_s = elapsed.as_secs_f64();
    let refused = work.refused.load(Ordering::Relaxed);
    let keys_per_s = (args.keys - refused) as f64 / elapsed_s;
    let bytes_per_object = stats.resident_bytes as f64 / stats.objects.max(1) as f64;
    if args.client.json {
        let figures = json!({
            "keys": args.keys,
            "refused": refused,
            "elapsed_s": elapsed_s,
            "keys_per_s": keys_per_s,
            "resident_bytes": stats.resident_bytes,
            "objects": stats.objects,
            "bytes_per_object": bytes_per_object,
        });
        output::print_line(figures)?;
        return Ok(());
    }
    let table = pairs(&[
        ("keys", args.keys.to_string()),
        ("refused", refused.to_string()),
        ("elapsed", format!("{elapsed_s:.2} s")),
        ("keys per second", format!("{keys_per_s:.0}")),
        ("resident", human_bytes(stats.resident_bytes)),
        ("objects", stats.objects.to_string()),
        ("bytes per object", format!("{bytes_per_object:.1}")),
    ]);
    output::print(table)?;
    Ok(())
}

/// Longer than the unmount of as many segments as there can be takes.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(10);

const TICK: Duration = Duration::from_millis(200);

/// How often a log is told of the progress when nobody watches a bar.
const TELL_EVERY: Duration = Duration::from_secs(5);
