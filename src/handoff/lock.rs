//! The lock of the directory: one master at a time.
//!
//! It is a `flock` of the file `lock`, so it ends with the process that holds it, however that ends.
//! It protects as long as the file is the same one: a master that starts after someone has replaced
//! or removed it locks another file. The holder finds that out by [`Lock::is_in_place`].

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::regular_file;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process holds it, until after the wait. Its id is only as true as the file.
    Held {
        /// The process that says so in the file.
        process: Option<u32>,
    },
    /// The file cannot be made or locked.
    Io(io::Error),
}

impl Lock {
    /// Takes the lock; waits for whoever holds it, since in a roll the next master may start before
    /// the one before has left.
    pub(super) fn take(directory: &Path, wait: Duration) -> Result<Lock, LockError> {
        let mut waited = Duration::ZERO;
        Lock::take_with(directory, |holder| {
            if waited >= wait {
                return false;
            }
            if waited.as_millis().is_multiple_of(TELL_EVERY.as_millis()) {
                tracing::info!(
                    handoff_startup = "waiting_for_lock",
                    directory = %directory.display(),
                    held_by_pid = holder,
                    waited_s = waited.as_secs(),
                    wait_s = wait.as_secs(),
                    "another master holds the handoff directory"
                );
            }
            std::thread::sleep(RETRY_EVERY);
            waited += RETRY_EVERY;
            true
        })
    }

    /// As [`take`](Self::take), where `pause` tells after some time whether to try again.
    pub(super) fn take_with(
        directory: &Path,
        mut pause: impl FnMut(Option<u32>) -> bool,
    ) -> Result<Lock, LockError> {
        let path = directory.join(LOCK_NAME);
        loop {
            let mut file = open(&path).map_err(LockError::Io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let lock = Lock { file, path: path.clone() };
                    // Whoever held it may have been waited for in vain: the file was replaced.
                    if lock.is_in_place().map_err(LockError::Io)? {
                        lock.sign();
                        return Ok(lock);
                    }
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = signature(&mut file);
                    if !pause(holder) {
                        return Err(LockError::Held { process: holder });
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LockError::Io(error.into())),
            }
        }
    }

    /// The process that holds the lock of a directory, by what the system lists; none if nobody does,
    /// or the system does not tell. It neither takes nor tries the lock, so it is in nobody's way.
    pub(super) fn holder(directory: &Path) -> Option<u32> {
        let path = directory.join(LOCK_NAME);
        let found = std::fs::metadata(&path).ok()?;
        let signed = regular_file::open(&path).ok().and_then(|mut file| signature(&mut file));
        let listed = std::fs::read_to_string("/proc/locks").ok()?;
        listed.lines().find_map(|line| holder_in(line, found.dev(), found.ino(), signed))
    }

    /// Whether the file of this name is still the one that is locked.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves the id of the process in the file, for people.
    fn sign(&self) {
        let mut file = &self.file;
        let signed = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        if let Err(error) = signed {
            tracing::debug!(%error, "the lock does not name its process");
        }
    }
}

/// The process that holds the directory of a master, if there is one and the system tells. It is in
/// nobody's way.
pub(crate) fn holder(directory: &Path) -> Option<u32> {
    Lock::holder(directory)
}

/// The process in a line of `/proc/locks`, if it holds this file. File systems with volumes list
/// another device than the file has; then the process must be the one that has signed it.
fn holder_in(line: &str, device: u64, inode: u64, signed: Option<u32>) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // A line with an arrow is of a process that waits.
    let &[_, "FLOCK", _, "WRITE", process, file, ..] = words.as_slice() else { return None };
    let process = process.parse().ok()?;
    let mut parts = file.split(':');
    let major = u32::from_str_radix(parts.next()?, 16).ok()?;
    let minor = u32::from_str_radix(parts.next()?, 16).ok()?;
    let is_file = parts.next()?.parse() == Ok(inode);
    let is_device = rustix::fs::makedev(major, minor) == device;
    (is_file && (is_device || signed == Some(process))).then_some(process)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    regular_file::open_with(&mut options, path)
        .map_err(|error| io::Error::new(error.kind(), format!("{LOCK_NAME}: {error}")))
}

fn signature(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The name of the file.
pub(super) const LOCK_NAME: &str = "lock";

/// Often enough that a roll does not become longer by it.
const RETRY_EVERY: Duration = Duration::from_millis(50);

const TELL_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_master_is_refused_and_told_who_holds_the_lock() {
        let scratch = tempfile::tempdir().unwrap();
        let _first = Lock::take(scratch.path(), Duration::ZERO).unwrap();
        let Err(LockError::Held { process }) = Lock::take(scratch.path(), Duration::ZERO) else {
            panic!("two masters hold one lock");
        };
        assert_eq!(process, Some(std::process::id()));
    }

    #[test]
    fn a_roll_that_overlaps_waits_until_the_other_has_left() {
        let scratch = tempfile::tempdir().unwrap();
        let mut first = Some(Lock::take(scratch.path(), Duration::ZERO).unwrap());
        let mut tries = 0;
        let second = Lock::take_with(scratch.path(), |_| {
            tries += 1;
            if tries == 3 {
                first = None;
            }
            tries < 10
        });
        assert!(second.is_ok());
        assert_eq!(tries, 3);
    }

    #[test]
    fn whoever_holds_the_lock_is_known_without_trying_it() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(Lock::holder(scratch.path()), None);
        let lock = Lock::take(scratch.path(), Duration::ZERO).unwrap();
        assert_eq!(Lock::holder(scratch.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(Lock::holder(scratch.path()), None);
    }

    #[test]
    fn a_line_of_another_file_or_of_a_process_that_waits_names_nobody() {
        let device = rustix::fs::makedev(0xfe, 1);
        let holder = |line, signed| holder_in(line, device, 77, signed);
        let line = "1: FLOCK  ADVISORY  WRITE 23536 fe:01:77 0 EOF";
        assert_eq!(holder(line, None), Some(23536));
        let other_device = "1: FLOCK  ADVISORY  WRITE 23536 00:2a:77 0 EOF";
        assert_eq!(holder(other_device, Some(1)), None);
        assert_eq!(holder(other_device, Some(23536)), Some(23536));
        let others = [
            "1: FLOCK  ADVISORY  WRITE 23536 fe:01:78 0 EOF",
            "1: -> FLOCK  ADVISORY  WRITE 23536 fe:01:77 0 EOF",
            "1: POSIX  ADVISORY  WRITE 23536 fe:01:77 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 23536",
            "",
        ];
        for line in others {
            assert_eq!(holder(line, Some(23536)), None, "{line}");
        }
    }

    #[test]
    fn a_wait_that_was_for_a_replaced_file_begins_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(LOCK_NAME);
        let _old = Lock::take(scratch.path(), Duration::ZERO).unwrap();
        let lock = Lock::take_with(scratch.path(), |_| {
            std::fs::remove_file(&path).unwrap();
            true
        });
        assert!(lock.unwrap().is_in_place().unwrap());
    }

    #[test]
    fn the_holder_notices_that_its_file_was_replaced_or_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(LOCK_NAME);
        let lock = Lock::take(scratch.path(), Duration::ZERO).unwrap();
        assert!(lock.is_in_place().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.is_in_place().unwrap());
        std::fs::write(&path, "").unwrap();
        assert!(!lock.is_in_place().unwrap());
    }
}
