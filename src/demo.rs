//! `mooring demo`: the five-minute proof.
//!
//! Starts a master and stores as processes of their own, replays a trace of an inference service on
//! them over real QUIC, and compares every byte that it reads with what was put.

mod cluster;
mod content;
mod figures;
mod generated;
mod lru;
mod replay;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use mooring_proto::client::{Client, ClientConfig, ClientTls};
use tokio::signal::unix::{SignalKind, signal};

use self::cluster::{Cluster, ClusterPlan};
use self::figures::Figures;
use self::trace::TraceRequest;
use crate::command::units::ByteSize;
use crate::command::{self, CommandError};
use crate::tls;

/// Run a whole system on this machine and replay a trace of an inference engine on it
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// The trace: JSON lines with timestamp (ms) and hash_ids, the chain of block ids of a request.
    /// By default a generated trace of conversations
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Replay only the first requests of the trace
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// The size of a block, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    block_bytes: ByteSize,

    /// The memory of all stores together, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pool_bytes: ByteSize,

    /// How many stores share the memory, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    stores: u32,

    /// How many times faster than it was recorded the trace is replayed, or `max` for as fast as it
    /// goes. Leases are shortened alike, down to 100 ms
    #[arg(long, value_name = "FACTOR", default_value = "max")]
    speed: Speed,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,

    /// Keep the logs of the processes in this directory; by default they are kept only after a
    /// failure
    #[arg(long, value_name = "DIR")]
    keep_logs: Option<PathBuf>,

    /// Write the trace that is replayed to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
}

/// How time passes in a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Each request follows the one before at once.
    Max,
    /// So many times faster than it was recorded.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        match text.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Speed::Times(factor)),
            _ => Err("allowed is `max` or a number above 0".to_owned()),
        }
    }
}

impl Speed {
    /// The lease of a real service, shortened as the trace is. Without that a replay of an hour in
    /// seconds would find the whole pool leased.
    fn lease_ttl(self) -> Duration {
        match self {
            Speed::Max => LEASE_TTL_MIN,
            Speed::Times(factor) => {
                // Clamped first: a duration has no room for every quotient.
                let lease_s = (LEASE_TTL.as_secs_f64() / factor).min(LEASE_TTL.as_secs_f64());
                Duration::from_secs_f64(lease_s).max(LEASE_TTL_MIN)
            }
        }
    }
}

/// Runs the demo and prints its result.
///
/// # Errors
/// A trace or sizes that make no sense, or a process or request that failed. Wrong bytes are not an
/// error but the exit code 1.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode, CommandError> {
    let requests = match &args.trace {
        Some(path) => trace::read(path, args.limit.unwrap_or(usize::MAX))?,
        None => generated::trace().into_iter().take(args.limit.unwrap_or(usize::MAX)).collect(),
    };
    if let Some(path) = &args.write_trace {
        trace::write(path, &requests)?;
    }
    let plan = plan(args)?;
    let figures = command::block_on(async {
        let mut terminate = signal(SignalKind::terminate())
            .map_err(|error| CommandError::failed("cannot listen to signals", error))?;
        // However it ends, the cluster is dropped and its processes with it.
        tokio::select! {
            outcome = perform(args, &plan, &requests) => outcome,
            _ = tokio::signal::ctrl_c() => Err(CommandError::Failed("interrupted".to_owned())),
            _ = terminate.recv() => Err(CommandError::Failed("terminated".to_owned())),
        }
    })?;
    if args.json {
        let json = serde_json::to_string(&figures);
        println!("{}", json.map_err(|error| CommandError::failed("cannot print", error))?);
    } else {
        print!("{}", figures.table());
    }
    Ok(if figures.are_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(args: &DemoArgs) -> Result<ClusterPlan, CommandError> {
    let share = args.pool_bytes.0 / u64::from(args.stores);
    let store_bytes = share / PAGE_BYTES * PAGE_BYTES;
    if args.block_bytes.0 == 0 || store_bytes < args.block_bytes.0 {
        let text = format!(
            "--block-bytes {}: each of the {} stores has {store_bytes} bytes for blocks",
            args.block_bytes, args.stores
        );
        return Err(CommandError::Arguments(text));
    }
    Ok(ClusterPlan {
        stores: args.stores,
        store_bytes,
        lease_ttl: args.speed.lease_ttl(),
        watermark_ratio: WATERMARK_RATIO,
        logs: args.keep_logs.clone(),
    })
}

async fn perform(
    args: &DemoArgs,
    plan: &ClusterPlan,
    requests: &[TraceRequest],
) -> Result<Figures, CommandError> {
    let mut cluster = Cluster::start(plan).await?;
    let outcome = replay_on(&cluster, args, plan, requests).await;
    match &outcome {
        Ok(figures) if figures.are_right() => {}
        _ => eprintln!("the logs of the processes are in {}", cluster.keep_logs().display()),
    }
    cluster.stop().await;
    outcome
}

async fn replay_on(
    cluster: &Cluster,
    args: &DemoArgs,
    plan: &ClusterPlan,
    requests: &[TraceRequest],
) -> Result<Figures, CommandError> {
    let pin = tls::parse_fingerprint(cluster.fingerprint())
        .ok_or_else(|| CommandError::Failed("the master has no fingerprint".to_owned()))?;
    let mut config = ClientConfig::new(cluster.address(), ClientTls::pinned(pin));
    config.name = "demo".to_owned();
    let client = Client::connect(config).await?;
    let block_bytes = usize::try_from(args.block_bytes.0)
        .map_err(|error| CommandError::Arguments(format!("--block-bytes: {error}")))?;
    let started = Instant::now();
    let counts = replay::replay(&client, requests, block_bytes, args.speed).await?;
    let elapsed = started.elapsed();
    let stats = client.stats().await?;
    client.close().await;
    let pool_bytes = (plan.store_bytes * u64::from(plan.stores)) as f64;
    let capacity_blocks = (pool_bytes * WATERMARK_RATIO) as u64 / args.block_bytes.0;
    let lru_hits = lru::hits(requests, capacity_blocks);
    Ok(Figures::new(&counts, &stats, lru_hits, elapsed))
}

/// The lease of a service in real time.
const LEASE_TTL: Duration = Duration::from_secs(10);

/// Far longer than the read of one request's blocks takes, and at full speed what is leased is
/// still a small part of the pool.
const LEASE_TTL_MIN: Duration = Duration::from_millis(100);

/// The master's own default, named here because the comparison with exact LRU depends on it.
const WATERMARK_RATIO: f64 = 0.9;

/// Segments of whole pages of the master's usual size can be filled to their end.
const PAGE_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_max_or_a_number_above_zero() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2.5".parse(), Ok(Speed::Times(2.5)));
        for text in ["0", "-1", "inf", "NaN", "fast", ""] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }

    #[test]
    fn leases_are_shortened_with_time_within_their_bounds() {
        let lease_ms = |speed: Speed| speed.lease_ttl().as_millis();
        assert_eq!(lease_ms(Speed::Times(1.0)), 10_000);
        assert_eq!(lease_ms(Speed::Times(10.0)), 1_000);
        assert_eq!(lease_ms(Speed::Times(1e9)), 100);
        assert_eq!(lease_ms(Speed::Times(1e-9)), 10_000);
        assert_eq!(lease_ms(Speed::Max), 100);
    }
}
