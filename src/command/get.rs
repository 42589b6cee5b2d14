//! `mooring get`: one object to a file, or many as lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mooring_proto::client::{Client, ClientError};
use mooring_proto::message::inspect::{SegmentState, SegmentUse};

use super::connect::ClientArgs;
use super::lines::Batches;
use super::table::printable;
use super::{CommandError, progress};
use crate::output;
use crate::telemetry::TracingArgs;

/// Get one object, or many
#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// The key
    #[arg(value_name = "KEY", value_parser = super::key, required_unless_present = "lines")]
    key: Option<String>,

    /// Get the object of each line of this file (`-` for the standard input), which is its key, and
    /// write a line with key, tab, value for each that is there
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    lines: Option<PathBuf>,

    /// Write here instead of to the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Gets and writes.
///
/// # Errors
/// What could not be read or written; a key without an object is `Failed` with "not found". Keys of
/// lines without an object, or with one that cannot be read, are told, and the exit code is 1.
pub(crate) fn run(args: &GetArgs) -> Result<ExitCode, CommandError> {
    match (&args.lines, &args.key) {
        (Some(path), _) => super::block_on(get_lines(args, path)),
        (None, Some(key)) => super::block_on(get_key(args, key)),
        _ => Err(CommandError::Arguments("KEY or --lines must be given".to_owned())),
    }
}

async fn get_key(args: &GetArgs, key: &str) -> Result<ExitCode, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    // The size is known only to the master, so any might be large enough to be waited for.
    let spinner = progress::transfer_spinner(u64::MAX, "getting");
    let outcome = client.fetch(key).await;
    spinner.finish_and_clear();
    let pending = match &outcome {
        Ok(None) => pending_note(&client).await,
        _ => String::new(),
    };
    client.close().await;
    let failed = |cause: String| CommandError::failed(printable(key), cause);
    let found = outcome.map_err(|error| failed(error.to_string()))?;
    let value = found.ok_or_else(|| failed(format!("not found{pending}")))?;
    let mut output = Output::open(args.output.as_deref())?;
    output.write(&value)?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

async fn get_lines(args: &GetArgs, path: &Path) -> Result<ExitCode, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    let mut batches = Batches::open(path)?;
    let mut output = Output::open(args.output.as_deref())?;
    let (mut missing, mut unread) = (0_u64, 0_u64);
    while output.is_read {
        let keys = batches.next()?;
        if keys.is_empty() {
            break;
        }
        for (key, found) in keys.iter().zip(client.fetch_many(&keys).await) {
            match found {
                Ok(Some(value)) => {
                    output.write(key)?;
                    output.write(b"\t")?;
                    output.write(&value)?;
                    output.write(b"\n")?;
                }
                Ok(None) => {
                    missing += 1;
                    output::note(format_args!("{}: not found", key.escape_ascii()));
                }
                Err(error) if is_of_one_object(&error) => {
                    unread += 1;
                    let error = error.to_string();
                    output::note(format_args!("{}: {}", key.escape_ascii(), printable(&error)));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if missing > 0 {
        let pending = pending_note(&client).await;
        if !pending.is_empty() {
            output::note(format_args!("{missing} keys not found{pending}"));
        }
    }
    client.close().await;
    output.finish()?;
    Ok(if missing + unread == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether others may be read all the same: it is the store of this one that does not answer, say.
fn is_of_one_object(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoReplica { .. } | ClientError::LeaseExpired | ClientError::TooLarge { .. }
    )
}

/// Why an object that is missing may be there soon: after a planned restart nothing on a segment is
/// readable before its store is back. Empty if that is not so, or cannot be learned.
async fn pending_note(client: &Client) -> String {
    let Ok(reply) = client.list_segments().await else { return String::new() };
    let is_pending = |used: &&SegmentUse| used.state == SegmentState::Pending;
    match reply.segments.iter().filter(is_pending).count() {
        0 => String::new(),
        1 => "; 1 segment is pending after a restart, try again when its store is back".to_owned(),
        count => {
            format!(
                "; {count} segments are pending after a restart, try again when their stores are back"
            )
        }
    }
}

/// Where the bytes go.
struct Output {
    writer: Box<dyn Write>,
    /// Of the file; `None` for standard output.
    name: Option<String>,
    /// Somebody takes them.
    is_read: bool,
}

impl Output {
    fn open(path: Option<&Path>) -> Result<Output, CommandError> {
        let Some(path) = path else {
            let writer = Box::new(BufWriter::new(io::stdout()));
            return Ok(Output { writer, name: None, is_read: true });
        };
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| CommandError::failed(&name, error))?;
        Ok(Output { writer: Box::new(BufWriter::new(file)), name: Some(name), is_read: true })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        if self.is_read {
            let written = self.writer.write_all(bytes);
            self.take_outcome(written)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), CommandError> {
        if self.is_read {
            let written = self.writer.flush();
            self.take_outcome(written)?;
        }
        Ok(())
    }

    fn take_outcome(&mut self, written: io::Result<()>) -> Result<(), CommandError> {
        match &self.name {
            Some(name) => written.map_err(|error| CommandError::failed(name, error)),
            None => output::reads_on(written).map(|reads_on| self.is_read = reads_on),
        }
    }
}
