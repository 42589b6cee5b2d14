//! Why a step in the directory was not done.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::handoff::ReadError;

/// Why the directory was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// Another process holds it.
    #[error(
        "another master{holder} holds the handoff directory {}, after {} s of waiting",
        path.display(), waited.as_secs()
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// The process, if it is known, as a part of the sentence.
        holder: String,
        /// For how long this start has waited.
        waited: Duration,
    },
    /// It cannot be made, or its lock cannot.
    #[error("the handoff directory {} is of no use: {source}; {}", path.display(), way_out(source))]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What a person can do about a directory of no use.
fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "something that is no directory has this name: move it away, or name another directory \
             with --handoff-dir"
        }
        io::ErrorKind::PermissionDenied => {
            "let the user of the master write there, or name another directory with --handoff-dir"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount it so that it can be written to, or name another directory with --handoff-dir"
        }
        // Not the system's word, but that of whoever has looked at what there is.
        io::ErrorKind::InvalidInput if source.raw_os_error().is_none() => {
            "remove that, or name another directory with --handoff-dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
        _ => "make it a directory on a local disk, or name another one with --handoff-dir",
    }
}

/// Why a step in the directory was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryError {
    /// The system refuses.
    #[error("cannot {attempt} in the handoff directory {}: {source}", path.display())]
    Io {
        /// What was attempted.
        attempt: String,
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no such directory any more.
    #[error("{}", gone(.0))]
    Gone(PathBuf),
    /// The directory is not this master's any more.
    #[error("the handoff directory is not this master's: {0}")]
    NotOwner(String),
    /// The step does not follow those before it.
    #[error("cannot {0} at this stage of a handoff")]
    OutOfTurn(&'static str),
}

/// Why there is no claimed snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// It is unknown whether it is claimed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// It is claimed, and of no use.
    #[error(transparent)]
    Read(#[from] ReadError),
}

pub(super) fn gone(path: &Path) -> String {
    format!(
        "the handoff directory {} was removed or renamed while the master served; the next start makes \
         it again",
        path.display()
    )
}
