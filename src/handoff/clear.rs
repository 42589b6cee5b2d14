//! Empties the directory for an operator.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory::{DirectoryError, HandoffDirectory, OpenError};

/// Removes every snapshot, note and leftover; gives their names. What else stands in the directory
/// stays. The next start is then an ordinary one.
///
/// # Errors
/// When there is no such directory, a master holds it, or something cannot be removed.
pub(crate) fn clear(path: &Path) -> Result<Vec<String>, ClearError> {
    let missing = |source| ClearError::Missing { path: path.to_owned(), source };
    std::fs::read_dir(path).map_err(missing)?;
    Ok(HandoffDirectory::open(path, Duration::ZERO)?.clear()?)
}

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
    /// A master holds it, or it cannot be locked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something cannot be removed.
    #[error(transparent)]
    Remove(#[from] DirectoryError),
}
