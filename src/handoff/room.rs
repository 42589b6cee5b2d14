//! Room on the disk for a note that must not fail to be written later.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::durable::{self, is_leftover};
use super::notes::{LAST_SHUTDOWN_NAME, SERVING_NAME};

/// A file under a name that nobody reads, as large as any note of a start. Its blocks are there
/// already, so a disk that is full by the time of the note does not keep it out. It goes when this is
/// dropped, unless it has become a note.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
}

impl Room {
    /// Makes it. On a disk that is full, what no start reads is deleted first.
    ///
    /// # Errors
    /// When the directory cannot be written to, or what stands in place of the note of a master that
    /// serves cannot be replaced.
    pub(super) fn make(directory: &Path) -> io::Result<Room> {
        if fs::symlink_metadata(directory.join(SERVING_NAME)).is_ok_and(|found| found.is_dir()) {
            let fault = format!("{SERVING_NAME} is a directory and no regular file");
            return Err(io::Error::new(ErrorKind::InvalidInput, fault));
        }
        // The note repeats that of the master before.
        let repeated = fs::symlink_metadata(directory.join(LAST_SHUTDOWN_NAME));
        let repeated_bytes = repeated.map_or(0, |found| found.len()).min(REPEATED_BYTES_MAX);
        let content = vec![b' '; NOTE_BYTES + usize::try_from(repeated_bytes).unwrap_or(0)];
        Room::with(directory, &content).or_else(|error| {
            if delete_leftovers(directory)? == 0 {
                return Err(error);
            }
            Room::with(directory, &content)
        })
    }

    fn with(directory: &Path, content: &[u8]) -> io::Result<Room> {
        // It is dropped, and so deleted, if it does not get its content.
        let room = Room { path: directory.join(durable::temporary_name()) };
        durable::write_new(&room.path, content)?;
        durable::sync_directory(directory)?;
        Ok(room)
    }

    /// Becomes a file of this name with this content. When it returns, that lasts; until then a
    /// reader finds the former content or the new one.
    ///
    /// # Errors
    /// When a step fails.
    pub(super) fn become_file(
        self,
        directory: &Path,
        name: &str,
        content: &[u8],
    ) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
        file.sync_all()?;
        durable::step("write into the room");
        durable::rename(directory, &self.path, name)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // It is not there any more if it has become a note; else the next start would delete it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Deletes what no start reads; gives how much there was.
fn delete_leftovers(directory: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_leftover) {
            durable::delete(&entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Several times what a note says by itself; with that of the master before it mostly fits a block.
const NOTE_BYTES: usize = 2048;

/// Many times the note of a master.
const REPEATED_BYTES_MAX: u64 = 1 << 16;
