//! Empties the directory for an operator, or ends a refusal in it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory::{DirectoryError, HandoffDirectory, OpenError};
use super::durable::is_leftover;
use super::found::is_missing;
use super::lock::LOCK_NAME;
use super::notes::{LAST_SHUTDOWN_NAME, POISON_NAME, REFUSED_NAME, SERVING_NAME};
use super::{CLAIMED_NAME, READY_NAME};

/// Removes every snapshot, note and leftover; gives their names. What else stands in the directory
/// stays. The next start is then an ordinary one.
///
/// # Errors
/// When there is no such directory, it is none of a handoff, a master holds it, or something cannot
/// be removed.
pub(crate) fn clear(path: &Path) -> Result<Vec<String>, ClearError> {
    match contents(path)? {
        Contents::Records => Ok(HandoffDirectory::open(path, Duration::ZERO)?.clear()?),
        Contents::Nothing => Ok(Vec::new()),
        Contents::Foreign(name) => Err(ClearError::Foreign { path: path.to_owned(), name }),
    }
}

/// Removes a recorded refusal and nothing else; gives whether there was one. A start then decides anew
/// by all rules, so this is as safe as a start that comes late: a snapshot that is too old by then, or
/// not of the master that used the directory last, is still not restored.
///
/// # Errors
/// As [`clear`].
pub(crate) fn clear_refusal(path: &Path) -> Result<bool, ClearError> {
    if let Contents::Foreign(name) = contents(path)? {
        return Err(ClearError::Foreign { path: path.to_owned(), name });
    }
    if is_missing(&path.join(REFUSED_NAME)) {
        return Ok(false);
    }
    Ok(HandoffDirectory::open(path, Duration::ZERO)?.clear_refusal()?)
}

/// What stands in a directory, before anything in it is touched.
enum Contents {
    /// Something that a start would read or delete.
    Records,
    /// Nothing, or only the lock.
    Nothing,
    /// Nothing of a handoff, and this.
    Foreign(String),
}

fn contents(path: &Path) -> Result<Contents, ClearError> {
    let missing = |source| ClearError::Missing { path: path.to_owned(), source };
    let mut has_lock = false;
    let mut other = None;
    for entry in std::fs::read_dir(path).map_err(missing)? {
        let name = entry.map_err(missing)?.file_name();
        let name = name.to_string_lossy();
        if RECORDS.contains(&name.as_ref()) || is_leftover(&name) {
            return Ok(Contents::Records);
        }
        match name == LOCK_NAME {
            true => has_lock = true,
            false => other = Some(name.into_owned()),
        }
    }
    Ok(match other {
        Some(name) if !has_lock => Contents::Foreign(name),
        _ => Contents::Nothing,
    })
}

const RECORDS: [&str; 6] =
    [READY_NAME, CLAIMED_NAME, SERVING_NAME, LAST_SHUTDOWN_NAME, POISON_NAME, REFUSED_NAME];

/// Why the directory was not cleared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClearError {
    /// It cannot be read.
    #[error("cannot read the directory {}: {source}", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It holds other things.
    #[error(
        "{} is no handoff directory: it has `{name}` in it, and nothing that a master leaves there",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// One of the other things.
        name: String,
    },
    /// A master holds it, or it cannot be locked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something cannot be removed.
    #[error(transparent)]
    Remove(#[from] DirectoryError),
}
