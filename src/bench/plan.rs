//! What a run will do, once flags and presets are put together.

use mooring_proto::limits::SEGMENT_BYTES_MAX;

use super::args::{Operation, Preset, RunArgs, Transport};
use super::keys::KeyMaker;
use super::sizes;
use crate::command::units::ByteSize;

/// The whole of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) maker: KeyMaker,
    /// Keys that are put before the measurement.
    pub(super) fill: u64,
    /// Keys that there are then.
    pub(super) keys: u64,
    pub(super) segments: u32,
    /// What is measured; all lanes at once.
    pub(super) lanes: Vec<LanePlan>,
}

/// Requests of one kind, from connections of their own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LanePlan {
    pub(super) operation: Operation,
    pub(super) batch: u32,
    pub(super) connections: u32,
    pub(super) in_flight: u32,
    /// Keys per second of an open loop.
    pub(super) rate: Option<f64>,
}

impl LanePlan {
    /// Whether the lane ends by itself when all of its keys were named.
    pub(super) fn ends(&self) -> bool {
        matches!(self.operation, Operation::Fill | Operation::Remove)
    }
}

impl Plan {
    /// Checks the flags, and puts those of the preset in the place of the ones that are not given.
    ///
    /// # Errors
    /// Names the flag and what is allowed.
    pub(super) fn new(args: &RunArgs) -> Result<Plan, String> {
        let published = args.preset == Some(Preset::Published);
        if args.compare.len() == 1 || args.compare.len() > 2 {
            return Err(format!("--compare: two commands, not {}", args.compare.len()));
        }
        let maker = KeyMaker::new(args.seed, args.key_bytes)?;
        let segments = match args.segments {
            _ if args.no_fill => 0,
            Some(segments) => segments,
            None if published => 16,
            None => 12,
        };
        let lanes = lanes(args);
        for lane in &lanes {
            sizes::check(args.value_bytes, args.key_bytes, lane.batch)?;
            check_operation(args, lane.operation)?;
        }
        if args.segment_bytes.0 > SEGMENT_BYTES_MAX {
            let max = ByteSize(SEGMENT_BYTES_MAX);
            return Err(format!("--segment-bytes {}: at most {max}", args.segment_bytes));
        }
        let room = u128::from(args.segment_bytes.0) * u128::from(segments);
        let room = u64::try_from(room / u128::from(args.value_bytes.0)).unwrap_or(u64::MAX);
        let keys = match args.keys {
            Some(keys) => keys,
            None if args.preset == Some(Preset::Production) => room / 100 * FULL_PERCENT,
            None => KEYS,
        };
        let fills = lanes.iter().any(|lane| needs_keys(lane.operation)) && !args.no_fill;
        let all = lanes.iter().all(|lane| lane.operation == Operation::Fill);
        if (fills || all) && segments > 0 && keys > room {
            return Err(format!(
                "--keys {keys}: {segments} segments of {} have room for {room} objects of {}",
                args.segment_bytes, args.value_bytes
            ));
        }
        Ok(Plan { maker, fill: if fills { keys } else { 0 }, keys, segments, lanes })
    }
}

fn lanes(args: &RunArgs) -> Vec<LanePlan> {
    let published = args.preset == Some(Preset::Published);
    let usual = |operation, batch, rate: Option<u64>| LanePlan {
        operation,
        batch: args.batch.unwrap_or(if published { 4096 } else { batch }),
        connections: args.connections.unwrap_or(if published { 8 } else { 1 }),
        in_flight: args.in_flight.unwrap_or(4),
        rate: args.rate.or(rate).map(|rate| rate as f64),
    };
    match args.preset {
        Some(Preset::Production) => {
            let production = |operation, batch, rate: u64| LanePlan {
                // An open loop needs room for what comes due while it waits for a slow answer.
                in_flight: args.in_flight.unwrap_or(PRODUCTION_IN_FLIGHT),
                rate: Some(rate as f64),
                ..usual(operation, batch, None)
            };
            vec![production(Operation::Put, 64, 9_300), production(Operation::Get, 128, 64_000)]
        }
        _ => vec![usual(args.operation, 128, None)],
    }
}

fn check_operation(args: &RunArgs, operation: Operation) -> Result<(), String> {
    if operation == Operation::MatchPrefix && args.transport == Transport::Mooncake {
        return Err("--operation match-prefix: Mooncake has no such function".to_owned());
    }
    Ok(())
}

/// Whether the operation works on keys that are there.
fn needs_keys(operation: Operation) -> bool {
    !matches!(operation, Operation::Put | Operation::Fill)
}

const KEYS: u64 = 1_000_000;

/// How full the cell in production is.
const FULL_PERCENT: u64 = 88;

const PRODUCTION_IN_FLIGHT: u32 = 32;

#[cfg(test)]
mod tests;
