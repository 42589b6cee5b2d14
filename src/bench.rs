//! `mooring bench`: measures a master.

mod args;
mod choice;
mod compare;
mod eviction;
mod fill;
mod floor;
mod generator;
mod keys;
mod lane;
mod mooncake;
mod owner;
mod plan;
mod process;
mod quic;
mod report;
mod run;
mod schedule;
mod segments;
mod sizes;
mod tally;
mod wire;
mod worker;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::args::RunArgs;
use self::eviction::EvictionArgs;
use self::fill::FillArgs;
use self::floor::FloorArgs;
pub(crate) use self::keys::mix;
use crate::command::CommandError;

/// Measure a master
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Load a master, and measure rate, latency and what the master uses (this is the default)
    Run(Box<RunArgs>),
    /// Put objects into segments without memory behind them: index, allocator and protocol at work
    Fill(Box<FillArgs>),
    /// Answer what `run` asks for with invented places: what the transport takes alone
    Floor(FloorArgs),
    /// Replay traces on models of caches: which share of the blocks each policy of eviction finds
    Eviction(EvictionArgs),
}

/// Measures and prints the figures.
///
/// # Errors
/// What the master refused as a whole; refused items are counted instead.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, CommandError> {
    match &args.what {
        What::Run(args) => run::run(args),
        What::Fill(args) => fill::run(args),
        What::Floor(args) => floor::run(args),
        What::Eviction(args) => eviction::run(args),
    }
}
