//! `mooring bench eviction`: what policies of eviction would find of a trace.
//!
//! No master is started. A policy is a model of a cache of blocks of one size; the trace tells which
//! blocks each request needs. A policy that is to be built into the master is tried here first, on
//! loads of several shapes, so that it is not made for one of them.

mod adaptive;
mod arc;
mod clairvoyant;
mod lists;
mod lru;
mod policy;
mod s3_fifo;
mod shapes;
mod table;
#[cfg(test)]
mod tests;
mod two_queues;
mod weighted;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::policy::{Figures, PolicyName, measure};
use self::shapes::Shape;
use crate::command::CommandError;
use crate::demo::trace::{self, TraceRequest};
use crate::output;

/// Replay a trace on models of caches, and tell what each policy of eviction finds
#[derive(Args, Clone, Debug)]
pub(crate) struct EvictionArgs {
    /// A trace: JSON lines with timestamp (ms) and hash_ids, the chain of block ids of a request;
    /// may be given several times. Without one, and without --shape, all generated ones
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,

    /// A generated trace of this shape; may be given several times
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    shape: Vec<Shape>,

    /// Policies, with commas between [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<PolicyName>,

    /// For how many blocks a cache has room; several with commas between
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = SIZES)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=BLOCKS_MAX))]
    blocks: Vec<u64>,

    /// Print JSON lines, one for each trace, policy and size, instead of tables
    #[arg(long)]
    json: bool,
}

/// A trace and what it is called.
struct Named {
    name: String,
    requests: Vec<TraceRequest>,
}

/// Replays and prints.
///
/// # Errors
/// A trace that cannot be read.
pub(super) fn run(args: &EvictionArgs) -> Result<ExitCode, CommandError> {
    let policies = if args.policy.is_empty() { PolicyName::all() } else { args.policy.clone() };
    for trace in traces(args)? {
        let mut rows = Vec::new();
        for policy in &policies {
            let figures: Vec<Figures> = (args.blocks.iter())
                .map(|blocks| measure(*policy, *blocks, &trace.requests))
                .collect();
            rows.push((*policy, figures));
        }
        let reads_on = if args.json {
            output::print(table::json_lines(&trace.name, &args.blocks, &rows)?)?
        } else {
            output::print(table::table(&trace.name, &trace.requests, &args.blocks, &rows))?
        };
        if !reads_on {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn traces(args: &EvictionArgs) -> Result<Vec<Named>, CommandError> {
    let mut traces = Vec::new();
    for path in &args.trace {
        let requests = trace::read(path, usize::MAX)?;
        if requests.iter().all(|request| request.hash_ids.is_empty()) {
            let fault = format!("--trace {}: no request has blocks", path.display());
            return Err(CommandError::Arguments(fault));
        }
        let name = path.file_stem().unwrap_or(path.as_os_str());
        traces.push(Named { name: name.to_string_lossy().into_owned(), requests });
    }
    let shapes = if args.trace.is_empty() && args.shape.is_empty() {
        Shape::all()
    } else {
        args.shape.clone()
    };
    for shape in shapes {
        traces.push(Named { name: shape.name(), requests: shape.trace() });
    }
    Ok(traces)
}

/// From where hardly anything of the usual traces fits to where nearly everything does.
const SIZES: [u64; 4] = [8_192, 16_384, 32_768, 65_536];

/// Far above any trace, and far below what memory holds of it.
const BLOCKS_MAX: u64 = 1 << 32;
