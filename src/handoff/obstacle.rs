//! What would keep a start from using the directory, as far as that can be told without changing
//! anything in it.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::durable::is_leftover;
use super::lock::LOCK_NAME;
use super::notes::SERVING_NAME;
use crate::regular_file;

/// Why a start could not even take the lock; none if it could.
pub(super) fn before_a_look(directory: &Path) -> Option<String> {
    let lock = directory.join(LOCK_NAME);
    if let Ok(found) = fs::symlink_metadata(&lock)
        && let Err(error) = regular_file::check(found.file_type())
    {
        return Some(format!("{LOCK_NAME} {error}"));
    }
    // It says no on a file system that is mounted to be read only, too.
    let allowed = access(directory, Access::WRITE_OK | Access::EXEC_OK);
    allowed.err().map(|error| std::io::Error::from(error).to_string())
}

/// Why a start could not write the note that it serves or refuses; none if it could.
pub(super) fn before_a_note(directory: &Path) -> Option<String> {
    if fs::symlink_metadata(directory.join(SERVING_NAME)).is_ok_and(|found| found.is_dir()) {
        return Some(format!("{SERVING_NAME} is a directory and no regular file"));
    }
    // What cannot be told is not in the way.
    let disk = statvfs(directory).ok()?;
    let blocks = match rustix::process::geteuid().is_root() {
        true => disk.f_bfree,
        false => disk.f_bavail,
    };
    let is_full = blocks == 0 || (disk.f_files > 0 && disk.f_favail == 0);
    (is_full && !has_leftovers(directory)).then(|| "no space is left on its disk".to_owned())
}

/// A start deletes them when it has no room.
fn has_leftovers(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_leftover))
}
