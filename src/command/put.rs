//! `mooring put`: one object from a file, or many from the lines of one.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use mooring_proto::client::{Client, ClientError, PutOptions};
use serde_json::json;

use super::connect::ClientArgs;
use super::lines::{self, Batches};
use super::table::printable;
use super::units::human_bytes;
use super::{CommandError, progress};
use crate::config;
use crate::output;
use crate::telemetry::TracingArgs;

/// Put one object, or many
#[derive(Args, Clone, Debug)]
pub(crate) struct PutArgs {
    /// The key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = super::key, required_unless_present = "lines", requires = "file")]
    key: Option<String>,

    /// The file with the bytes of the object, `-` for the standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Put an object for each line of this file (`-` for the standard input): key, tab, value.
    /// Lines without a tab are refused
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "file"])]
    lines: Option<PathBuf>,

    /// How many replicas, each on another segment, 1 to 8; as many as fit are made
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    replicas: u8,

    /// Never evict the object
    #[arg(long)]
    hard_pin: bool,

    /// Evict the object only after all unpinned ones, for this long; milliseconds, or with a unit
    #[arg(long, value_name = "TIME", value_parser = config::milliseconds)]
    soft_pin_ttl: Option<Duration>,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

impl PutArgs {
    fn options(&self) -> PutOptions {
        PutOptions {
            replicas: self.replicas,
            preferred_segments: Vec::new(),
            hard_pin: self.hard_pin,
            // The flag is at most a year.
            soft_pin_ttl_ms: self.soft_pin_ttl.map(|ttl| ttl.as_millis() as u64),
        }
    }
}

/// Puts and says what was put.
///
/// # Errors
/// An input that cannot be read, and what the master or a store refused. Objects of lines that are
/// refused are counted, and the exit code is 1.
pub(crate) fn run(args: &PutArgs) -> Result<ExitCode, CommandError> {
    match (&args.lines, &args.key, &args.file) {
        (Some(path), _, _) => super::block_on(put_lines(args, path)),
        (None, Some(key), Some(file)) => super::block_on(put_file(args, key, file)),
        _ => Err(CommandError::Arguments("KEY and FILE, or --lines, must be given".to_owned())),
    }
}

async fn put_file(args: &PutArgs, key: &str, file: &Path) -> Result<ExitCode, CommandError> {
    // Connected first: who cannot put is told before a long input is read.
    let client = args.client.connect_traced(&args.tracing).await?;
    let value = read(file)?;
    let size_bytes = value.len() as u64;
    let started = Instant::now();
    let spinner = progress::transfer_spinner(size_bytes, "putting");
    let outcome = client.put(key, value, &args.options()).await;
    spinner.finish_and_clear();
    client.close().await;
    outcome.map_err(|error| CommandError::failed(printable(key), error))?;
    let elapsed_s = started.elapsed().as_secs_f64();
    if args.client.json {
        output::print_line(
            json!({ "key": key, "size_bytes": size_bytes, "elapsed_s": elapsed_s }),
        )?;
    } else {
        let (key, size) = (printable(key), human_bytes(size_bytes));
        output::print_line(format_args!("put {key}: {size} in {elapsed_s:.2} s"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The input, once in memory: its size must be known before there is a place to write it to.
fn read(file: &Path) -> Result<Bytes, CommandError> {
    if file.as_os_str() != "-" {
        let content = std::fs::read(file);
        let content = content.map_err(|error| CommandError::failed(file.display(), error))?;
        return Ok(content.into());
    }
    let mut content = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut content)
        .map_err(|error| CommandError::failed("standard input", error))?;
    Ok(content.into())
}

async fn put_lines(args: &PutArgs, path: &Path) -> Result<ExitCode, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    let mut batches = Batches::open(path)?;
    let options = args.options();
    let mut totals = Totals::default();
    loop {
        let lines = batches.next()?;
        if lines.is_empty() {
            break;
        }
        put_batch(&client, lines, &options, &mut totals).await?;
    }
    client.close().await;
    if args.client.json {
        output::print_line(json!({ "put": totals.put, "refused": totals.refused }))?;
    } else {
        let Totals { put, refused } = totals;
        output::print_line(format_args!("put {put} objects, {refused} refused"))?;
    }
    Ok(if totals.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Default)]
struct Totals {
    put: u64,
    refused: u64,
}

async fn put_batch(
    client: &Client,
    lines: Vec<Vec<u8>>,
    options: &PutOptions,
    totals: &mut Totals,
) -> Result<(), CommandError> {
    let lines: Vec<Bytes> = lines.into_iter().map(Bytes::from).collect();
    let mut objects = Vec::with_capacity(lines.len());
    for line in &lines {
        let (key, value) = lines::split(line).ok_or_else(|| {
            let line = line[..line.len().min(SHOWN_BYTES)].escape_ascii();
            CommandError::Failed(format!("a line has no tab between key and value: {line}"))
        })?;
        objects.push((key, line.slice_ref(value)));
    }
    for objects in rounds(objects) {
        for ((key, _), answer) in objects.iter().zip(client.put_many(&objects, options).await) {
            match answer {
                Ok(()) => totals.put += 1,
                Err(error) if is_of_one_object(&error) => {
                    totals.refused += 1;
                    if totals.refused <= SHOWN_REFUSALS {
                        let text = printable(&error.to_string());
                        output::note(format_args!("{}: {text}", key.escape_ascii()));
                    }
                }
                Err(error) => return Err(CommandError::failed(key.escape_ascii(), error)),
            }
        }
    }
    Ok(())
}

/// Objects with distinct keys, one round after the other: the second put of a key waits for the
/// outcome of the first.
fn rounds(objects: Vec<(&[u8], Bytes)>) -> Vec<Vec<(&[u8], Bytes)>> {
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    let mut rounds: Vec<Vec<(&[u8], Bytes)>> = Vec::new();
    for (key, value) in objects {
        let round = seen.entry(key).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push((key, value));
        *round += 1;
    }
    rounds
}

/// Whether the next object may fare better: it was refused, or its store could not be written.
fn is_of_one_object(error: &ClientError) -> bool {
    error.code().is_some() || matches!(error, ClientError::NoReplica { .. })
}

/// Enough of a line to find it.
const SHOWN_BYTES: usize = 80;

/// More of them say nothing new.
const SHOWN_REFUSALS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_once_in_a_round_and_in_its_order() {
        let object = |key: &'static str, value: &'static str| (key.as_bytes(), Bytes::from(value));
        let rounds = rounds(vec![
            object("a", "1"),
            object("b", "2"),
            object("a", "3"),
            object("a", "4"),
            object("b", "5"),
        ]);
        let expected = vec![
            vec![object("a", "1"), object("b", "2")],
            vec![object("a", "3"), object("b", "5")],
            vec![object("a", "4")],
        ];
        assert_eq!(rounds, expected);
    }
}
