//! What there is in the directory, without changing anything and without the lock.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use mooring_proto::Incarnation;

use super::durable::is_leftover;
use super::format::MANIFEST_BYTES_MAX;
use super::manifest::{MANIFEST_NAME, Manifest, ShardFile};
use super::notes::{
    self, LAST_SHUTDOWN_NAME, Note, POISON_NAME, PoisonNote, REFUSED_NAME, RefusedNote,
    SERVING_NAME, ServingNote, ShutdownNote,
};
use super::{CLAIMED_NAME, READY_NAME, ReadError};
use crate::regular_file;

/// Everything that a directory holds, but the ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// A start has refused, and nobody has cleared that.
    pub(crate) refused: Option<Note<RefusedNote>>,
    /// Another master has used the directory.
    pub(crate) poison: Option<Note<PoisonNote>>,
    /// A snapshot that a start has claimed.
    pub(crate) claimed: Option<SnapshotFound>,
    /// A snapshot that waits for a start.
    pub(crate) ready: Option<SnapshotFound>,
    /// A master serves, or was killed.
    pub(crate) serving: Option<Note<ServingNote>>,
    /// How the last master left.
    pub(crate) last_shutdown: Option<Note<ShutdownNote>>,
    /// Names of what was never finished, or is void and not deleted yet.
    pub(crate) leftovers: Vec<String>,
}

/// A snapshot as far as its manifest and the lengths of its files tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SnapshotFound {
    /// Bytes of all its files.
    pub(crate) bytes: u64,
    /// The format that it says it has.
    pub(crate) format: Option<u32>,
    /// The manifest, if it and the lengths are sound.
    pub(crate) manifest: Result<Manifest, ReadError>,
}

impl SnapshotFound {
    /// The master that made it, if that can be read.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.manifest.as_ref().ok().map(|manifest| manifest.incarnation)
    }
}

/// Looks at a directory. Another process may be changing it: what is renamed away in between counts
/// as missing.
///
/// # Errors
/// When the directory itself cannot be read.
pub(crate) fn look(directory: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(directory)? {
        if let Some(name) = entry?.file_name().to_str().filter(|name| is_leftover(name)) {
            found.leftovers.push(name.to_owned());
        }
    }
    found.leftovers.sort();
    found.refused = notes::read(directory, REFUSED_NAME);
    found.poison = notes::read(directory, POISON_NAME);
    found.serving = notes::read(directory, SERVING_NAME);
    found.last_shutdown = notes::read(directory, LAST_SHUTDOWN_NAME);
    found.claimed = snapshot(&directory.join(CLAIMED_NAME));
    found.ready = snapshot(&directory.join(READY_NAME));
    Ok(found)
}

fn snapshot(path: &Path) -> Option<SnapshotFound> {
    let bytes = match read_manifest(path) {
        Ok(bytes) => bytes,
        Err(_) if is_missing(path) => return None,
        Err(error) => {
            return Some(SnapshotFound { bytes: 0, format: None, manifest: Err(error) });
        }
    };
    let format = Manifest::format_of(&bytes);
    let manifest = Manifest::decode(&bytes)
        .and_then(|manifest| check_lengths(path, &manifest).map(|()| manifest));
    Some(SnapshotFound { bytes: bytes_of_files(path), format, manifest })
}

/// Reads the manifest of a snapshot and checks it and the lengths of the files.
pub(super) fn load_manifest(path: &Path) -> Result<Manifest, ReadError> {
    let manifest = Manifest::decode(&read_manifest(path)?)?;
    check_lengths(path, &manifest)?;
    Ok(manifest)
}

fn read_manifest(path: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |error: io::Error| match error.kind() {
        // The manifest is written before the snapshot gets its name.
        ErrorKind::NotFound => ReadError::corrupt(MANIFEST_NAME, "is missing"),
        _ => ReadError::io(MANIFEST_NAME, &error),
    };
    let file = regular_file::open(&path.join(MANIFEST_NAME)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(ReadError::corrupt(MANIFEST_NAME, "is longer than any manifest"));
    }
    Ok(bytes)
}

/// Finds a file that was cut off or is missing before anything is claimed; the rest is found when it
/// is read.
fn check_lengths(path: &Path, manifest: &Manifest) -> Result<(), ReadError> {
    for file in &manifest.shards {
        let name = ShardFile::name_of(file.index);
        let found = fs::symlink_metadata(path.join(&name))
            .and_then(|found| regular_file::check(found.file_type()).map(|()| found));
        match found {
            Ok(found) if found.len() == file.length_bytes => {}
            Ok(found) => {
                let fault =
                    format_args!("has {} bytes instead of {}", found.len(), file.length_bytes);
                return Err(ReadError::corrupt(&name, fault));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(ReadError::corrupt(&name, "is missing"));
            }
            Err(error) => return Err(ReadError::io(&name, &error)),
        }
    }
    Ok(())
}

fn bytes_of_files(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

pub(super) fn is_missing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}
