//! `mooring demo`: the five-minute proof.
//!
//! Starts a master and stores as processes of their own, replays a trace of an inference service on
//! them over real QUIC, and compares every byte that it reads with what was put.

mod admin_page;
mod cluster;
mod content;
mod figures;
mod generated;
pub(crate) mod lru;
mod oracle;
mod perform;
mod replay;
mod roll;
mod rounds;
pub(crate) mod trace;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use self::cluster::ClusterPlan;
use self::perform::DemoPlan;
use self::roll::RollPlan;
use crate::command::units::ByteSize;
use crate::command::{self, CommandError};
use crate::config::seconds;
use crate::output;

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

    /// How many shards share the index of the master, 1 to 64; by default as many as a master takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: Option<u16>,

    /// How many times faster than it was recorded the trace is replayed, or `max` for as fast as it
    /// goes. Leases are shortened alike, down to 100 ms
    #[arg(long, value_name = "FACTOR", default_value = "max")]
    speed: Speed,

    /// Restart the master by handoff at this interval while the replay goes on, with a side workload
    /// of puts, overwrites and removes whose every answer is checked; a plain number is seconds,
    /// else with the unit ms, s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    restart_every: Option<Duration>,

    /// Stop after so many restarts and one more interval; until then the trace is repeated with
    /// other blocks. By default restarts go on until the end of the trace
    #[arg(long, value_name = "N")]
    restarts: Option<u64>,

    /// Where the handoff directory of the master is made, for example on /dev/shm; by default beside
    /// the logs
    #[arg(long, value_name = "DIR")]
    handoff_dir: Option<PathBuf>,

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
            Ok(factor) if SPEEDS.contains(&factor) => Ok(Speed::Times(factor)),
            _ => Err("allowed is `max` or a number from 1e-6 to 1e9".to_owned()),
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
    if requests.iter().all(|request| request.hash_ids.is_empty()) {
        return Err(CommandError::Arguments("the trace has no request with blocks".to_owned()));
    }
    let plan = plan(args)?;
    if let Some(path) = &args.write_trace {
        trace::write(path, &requests)?;
    }
    let figures = command::block_on(async {
        let mut terminate = signal(SignalKind::terminate())
            .map_err(|error| CommandError::failed("cannot listen to signals", error))?;
        // However it ends, the cluster is dropped and its processes with it.
        tokio::select! {
            outcome = perform::perform(&plan, &requests) => outcome,
            _ = tokio::signal::ctrl_c() => Err(CommandError::Failed("interrupted".to_owned())),
            _ = terminate.recv() => Err(CommandError::Failed("terminated".to_owned())),
        }
    })?;
    if args.json {
        let json = serde_json::to_string(&figures);
        output::print_line(json.map_err(|error| CommandError::failed("cannot print", error))?)?;
    } else {
        output::print(figures.table())?;
    }
    Ok(if figures.are_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(args: &DemoArgs) -> Result<DemoPlan, CommandError> {
    let wrong = |text: String| Err(CommandError::Arguments(text));
    let share = args.pool_bytes.0 / u64::from(args.stores);
    let store_bytes = share / PAGE_BYTES * PAGE_BYTES;
    if args.block_bytes.0 == 0 {
        return wrong("--block-bytes 0: a block has at least one byte".into());
    }
    if store_bytes == 0 {
        return wrong(format!(
            "--pool-bytes {}: each of the {} stores needs at least {PAGE_BYTES} bytes of it",
            args.pool_bytes, args.stores
        ));
    }
    if store_bytes < args.block_bytes.0 {
        return wrong(format!(
            "--block-bytes {}: each of the {} stores has {store_bytes} bytes for blocks",
            args.block_bytes, args.stores
        ));
    }
    if store_bytes * u64::from(args.stores) / BLOCKS_MIN < args.block_bytes.0 {
        return wrong(format!(
            "--block-bytes {}: a pool of --pool-bytes {} must have room for {BLOCKS_MIN} blocks",
            args.block_bytes, args.pool_bytes
        ));
    }
    let block_bytes = usize::try_from(args.block_bytes.0)
        .map_err(|error| CommandError::Arguments(format!("--block-bytes: {error}")))?;
    let roll = match args.restart_every {
        Some(every) if every < RESTART_EVERY_MIN => {
            return wrong(format!("--restart-every {every:?}: at least {RESTART_EVERY_MIN:?}"));
        }
        Some(every) => Some(RollPlan { every, restarts: args.restarts }),
        None if args.restarts.is_some() => return wrong("--restarts needs --restart-every".into()),
        None if args.handoff_dir.is_some() => {
            return wrong("--handoff-dir needs --restart-every".into());
        }
        None => None,
    };
    let cluster = ClusterPlan {
        stores: args.stores,
        store_bytes,
        shards: args.shards,
        lease_ttl: args.speed.lease_ttl(),
        watermark_ratio: WATERMARK_RATIO,
        logs: args.keep_logs.clone(),
        restarts: roll.is_some(),
        handoffs: args.handoff_dir.clone(),
    };
    Ok(DemoPlan { cluster, roll, block_bytes, speed: args.speed })
}

/// Slower, the first requests would take days; faster is `max`.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e9;

/// In a pool of fewer blocks hardly one could be evicted while another one is read and put.
const BLOCKS_MIN: u64 = 3;

/// The lease of a service in real time.
const LEASE_TTL: Duration = Duration::from_secs(10);

/// Far longer than the read of one request's blocks takes, and at full speed what is leased is
/// still a small part of the pool.
const LEASE_TTL_MIN: Duration = Duration::from_millis(100);

/// The master's own default, named here because the comparison with exact LRU depends on it.
const WATERMARK_RATIO: f64 = 0.9;

/// Shorter than that a master would hardly serve between two restarts.
const RESTART_EVERY_MIN: Duration = Duration::from_millis(100);

/// Segments of whole pages of the master's usual size can be filled to their end.
const PAGE_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_max_or_a_number_within_bounds() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2.5".parse(), Ok(Speed::Times(2.5)));
        for text in ["0", "-1", "1e-300", "1e300", "inf", "NaN", "fast", ""] {
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
