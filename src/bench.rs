//! `mooring bench`: measures a master.

mod fill;
mod keys;
mod segments;
mod sizes;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::fill::FillArgs;
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
    /// Put objects into segments without memory behind them: index, allocator and protocol at work
    Fill(FillArgs),
}

/// Measures and prints the figures.
///
/// # Errors
/// What the master refused as a whole; refused items are counted instead.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, CommandError> {
    match &args.what {
        What::Fill(args) => fill::run(args),
    }
}
