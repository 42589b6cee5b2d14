//! How many files and connections the process may have open, and who gets how many of them.
//!
//! A process without a descriptor left can accept nobody, not even a probe, and write no snapshot. So
//! clients, who may be many, get what the others leave.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::command::CommandError;

/// What each listener may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Connections of clients of Mooncake.
    pub(crate) mooncake: usize,
    /// Connections to the admin pages, and as many to the metadata store. Each may have twice as many
    /// for a moment, while those that have to leave do so.
    pub(crate) pages: usize,
}

impl Shares {
    /// Shares out what this process may have open, after it has raised that to what is allowed.
    pub(crate) fn of_process() -> Shares {
        Shares::of(raise())
    }

    fn of(open_max: u64) -> Shares {
        let open_max = usize::try_from(open_max).unwrap_or(usize::MAX);
        let own = (open_max / 8).clamp(OWN_MIN, OWN_MAX);
        let beside = open_max.saturating_sub(own);
        let pages = (open_max / 16).min(beside / 8).clamp(PAGES_MIN, PAGES_MAX);
        let left = open_max.saturating_sub(own).saturating_sub(4 * pages);
        Shares { mooncake: left.clamp(1, MOONCAKE_MAX), pages }
    }
}

/// Checks that so many more files can be opened. What is short of them later fails wherever it happens
/// to be, and where a library opens them, with a panic.
///
/// # Errors
/// A failure that names the limit.
pub(crate) fn require(files: usize) -> Result<(), CommandError> {
    if open_at_once(files).is_ok() {
        return Ok(());
    }
    let open_max = raise();
    open_at_once(files).map_err(|(opened, error)| {
        CommandError::Failed(format!(
            "too few files may be open: the limit is {open_max} (`ulimit -n`), {files} more are needed \
             and {opened} can be opened: {error}"
        ))
    })
}

/// Opens so many and closes them again; else says how many could be opened.
fn open_at_once(files: usize) -> Result<(), (usize, io::Error)> {
    let mut open: Vec<OwnedFd> = Vec::with_capacity(files);
    while open.len() < files {
        match io::stderr().as_fd().try_clone_to_owned() {
            Ok(file) => open.push(file),
            Err(error) => return Err((open.len(), error)),
        }
    }
    Ok(())
}

/// Raises the limit as far as the system lets this process; gives what it is then.
fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Each client keeps up to a hundred connections, so this is room for some hundred busy clients.
pub(crate) const MOONCAKE_MAX: usize = 32_768;

/// Many times the probes and scrapers of one process.
const PAGES_MAX: usize = 256;

/// Whoever asks gets the place of who has had no answer for longest, so that a probe comes through.
const PAGES_MIN: usize = 1;

/// Sockets of ports, the log, the lock, threads' wake-ups, files of a snapshot that are written or read
/// side by side.
const OWN_MAX: usize = 256;

/// Of a master with one shard, at rest and while it is probed, without a snapshot.
const OWN_MIN: usize = 27;

/// What a master opens beside the three that every process has.
pub(crate) const MASTER_FILES_MIN: usize = OWN_MIN - 3;

/// What every other command opens: a runtime, with its wake-ups and its ear for signals, and a socket.
pub(crate) const COMMAND_FILES_MIN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left_and_never_all() {
        for open_max in [0, 16, 24, 32, 48, 64, 128, 256, 1024, 4096, 65_536, 1 << 20, u64::MAX] {
            let shares = Shares::of(open_max);
            assert!((1..=MOONCAKE_MAX).contains(&shares.mooncake), "{open_max}: {shares:?}");
            assert!((PAGES_MIN..=PAGES_MAX).contains(&shares.pages), "{open_max}: {shares:?}");
            if open_max >= 32 {
                let used = shares.mooncake + 4 * shares.pages + OWN_MIN;
                assert!(used as u64 <= open_max, "{open_max}: {shares:?}");
            }
        }
        assert_eq!(Shares::of(1024), Shares { mooncake: 640, pages: 64 });
        assert_eq!(Shares::of(1 << 20), Shares { mooncake: MOONCAKE_MAX, pages: PAGES_MAX });
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let allowed = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise(), allowed.unwrap_or(u64::MAX));
    }
}
