//! The commands of a client of the master, and what all of them share.
//!
//! Each command is one file with its arguments and a `run` that blocks until it is done.

pub(crate) mod connect;
pub(crate) mod exists;
pub(crate) mod get;
pub(crate) mod handoff;
mod lines;
pub(crate) mod ls;
pub(crate) mod progress;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod units;

use std::fmt::{self, Display};
use std::future::Future;
use std::io;
use std::time::Duration;

use mooring_proto::client::ClientError;
use mooring_proto::limits::KEY_BYTES_MAX;

use crate::telemetry;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The arguments or the configuration make no sense; the text names the argument.
    Arguments(String),
    /// Refused by a peer, or failed on the way.
    Failed(String),
}

impl CommandError {
    /// A failure with what was attempted before its cause.
    pub(crate) fn failed(attempt: impl Display, cause: impl Display) -> CommandError {
        CommandError::Failed(format!("{attempt}: {cause}"))
    }

    /// A port that cannot be bound, with a way out if another process has it.
    pub(crate) fn unbound(attempt: impl Display, flag: &str, error: &io::Error) -> CommandError {
        if error.kind() != io::ErrorKind::AddrInUse {
            return CommandError::failed(attempt, error);
        }
        CommandError::Failed(format!(
            "{attempt}: {error}; another process has this port: end it, or give another one with \
             {flag}, where 0 takes any that is free"
        ))
    }

    /// What the process ends with: 2 for arguments, 1 for the rest.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            CommandError::Arguments(_) => 2,
            CommandError::Failed(_) => 1,
        }
    }
}

impl Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Arguments(text) | CommandError::Failed(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> CommandError {
        // The text may be that of a peer.
        CommandError::Failed(table::printable(&error.to_string()))
    }
}

/// Reads a key from the command line.
pub(crate) fn key(text: &str) -> Result<String, String> {
    match text.len() {
        1..=KEY_BYTES_MAX => Ok(text.to_owned()),
        bytes => Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes, and this one has {bytes}")),
    }
}

/// Runs a command on a runtime of its own. What still runs when it is done is not waited for.
pub(crate) fn block_on<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("cannot start the runtime", error))?;
    let outcome = runtime.block_on(async {
        let outcome = command.await;
        telemetry::flush(FLUSH_TIME).await;
        outcome
    });
    runtime.shutdown_background();
    outcome
}

/// For the spans of a command that is traced; people wait for it. The connection was opened when the
/// command began, so a collector that answers does so within a round trip.
const FLUSH_TIME: Duration = Duration::from_millis(150);
