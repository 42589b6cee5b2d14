//! A snapshot that is being written.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mooring_actors::handoff::ExportError;
use mooring_proto::Incarnation;

use super::deadline::Deadline;
use super::directory::Held;
use super::format::MANIFEST_BYTES_MAX;
use super::found::is_missing;
use super::manifest::{MANIFEST_NAME, Manifest, ShardFile};
use super::memory::Admission;
use super::reason::{Cause, Reason};
use super::writer::{Finished, ShardFileWriter};
use super::{READY_NAME, durable};

/// How a snapshot is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportOptions {
    /// How many shards there are; the snapshot has the file of each.
    pub(crate) shards: u32,
    /// When it must be published.
    pub(crate) deadline: Deadline,
    /// Whether the files are synced, so that the snapshot survives a failure of the machine. Without
    /// it such a failure leads to a snapshot that is found to be damaged.
    pub(crate) durable: bool,
    /// What the next master will have for it; none if that is not to be checked.
    pub(crate) admission: Option<Admission>,
    /// The wall clock, in milliseconds since 1970.
    pub(crate) now_wall_ms: u64,
}

/// A snapshot that is being written. Nobody reads it before [`publish`](Self::publish) has
/// returned; if this is dropped before, the next start deletes it.
#[derive(Debug)]
pub(crate) struct Export {
    held: Arc<Held>,
    path: PathBuf,
    incarnation: Incarnation,
    options: ExportOptions,
    /// By index.
    files: Mutex<Vec<Option<Finished>>>,
}

/// A snapshot that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// Bytes of all its files.
    pub(crate) bytes: u64,
    /// Objects in it.
    pub(crate) objects: u64,
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no snapshot: {cause}")]
pub(crate) struct ExportFailure {
    /// The reason, to be recorded.
    pub(crate) cause: Cause,
}

impl ExportFailure {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> ExportFailure {
        ExportFailure { cause: Cause::new(reason, detail) }
    }
}

impl From<ExportError> for ExportFailure {
    fn from(error: ExportError) -> ExportFailure {
        let reason = match error {
            ExportError::Deadline => Reason::Deadline,
            ExportError::Write(_) | ExportError::Incomplete(_) | ExportError::Gone => {
                Reason::WriteFailed
            }
        };
        ExportFailure::new(reason, error.to_string())
    }
}

impl Export {
    pub(super) fn begin(
        held: Arc<Held>,
        incarnation: Incarnation,
        options: ExportOptions,
    ) -> Result<Export, ExportFailure> {
        let path = held.path().join(durable::temporary_name());
        // Keys say what was asked of a model: they are for the user of the master alone.
        durable::attempt()
            .and_then(|()| fs::DirBuilder::new().mode(0o700).create(&path))
            .map_err(|error| write_failed(format_args!("make {}", path.display()), &error))?;
        durable::step("make the snapshot");
        let files = Mutex::new(vec![None; options.shards as usize]);
        Ok(Export { held, path, incarnation, options, files })
    }

    /// The sink for a shard, to be given to it. Shards can be written side by side.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub(crate) fn shard_writer(&self, index: u32) -> Result<ShardFileWriter, ExportError> {
        let name = ShardFile::name_of(index);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = durable::attempt()
            .and_then(|()| options.open(self.path.join(&name)))
            .map_err(|error| ExportError::Write(format!("cannot make {name}: {error}")))?;
        durable::step("make the file of a shard");
        let (deadline, durable) = (self.options.deadline, self.options.durable);
        let writer = ShardFileWriter::new(file, index, self.incarnation, deadline, durable)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get_mut(index as usize) {
            Some(place) => *place = Some(writer.finished()),
            None => return Err(ExportError::Write(format!("{name} is of no shard"))),
        }
        Ok(writer)
    }

    /// Publishes the snapshot: when this returns, the next start can restore it, and the process must
    /// do nothing any more that would make it wrong. The incarnation and the files of the manifest are
    /// filled in.
    ///
    /// # Errors
    /// Why there is no snapshot. Nothing of it is left that a start would restore.
    pub(crate) fn publish(self, mut manifest: Manifest) -> Result<Published, ExportFailure> {
        manifest.incarnation = self.incarnation;
        let outcome = self.finished_files().and_then(|files| {
            manifest.shards = files;
            let bytes = self.prepare(&manifest)?;
            self.commit()?;
            Ok(bytes)
        });
        match outcome {
            Ok(bytes) => {
                let objects = manifest.totals().objects;
                Ok(Published { bytes, objects })
            }
            Err(failure) => {
                // A full disk must have room for the note about it; but when time is over, the next
                // start has more of it.
                if failure.cause.reason != Reason::Deadline {
                    self.abandon();
                }
                Err(failure)
            }
        }
    }

    /// Deletes what was written so far. Without it the next start does.
    pub(crate) fn abandon(self) {
        if let Err(error) = durable::delete(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "left for the next start");
        }
    }

    /// A shard that is missing would be a loss of holds, not only of entries.
    fn finished_files(&self) -> Result<Vec<ShardFile>, ExportFailure> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = files.iter().zip(0..).map(|(file, index)| {
            file.as_ref().and_then(|file| file.get().copied()).ok_or_else(|| {
                let detail = format!("{} is not finished", ShardFile::name_of(index));
                ExportFailure::new(Reason::WriteFailed, detail)
            })
        });
        finished.collect()
    }

    /// Everything but the name; gives the bytes of all files.
    fn prepare(&self, manifest: &Manifest) -> Result<u64, ExportFailure> {
        let totals = manifest.totals();
        if let Some(admission) = self.options.admission {
            admission
                .check(&totals)
                .map_err(|cause| ExportFailure::new(Reason::SkippedRestoreMemory, cause.detail))?;
        }
        let bytes = manifest.encode();
        if bytes.len() as u64 > MANIFEST_BYTES_MAX {
            let detail = format!("the manifest would have {} bytes", bytes.len());
            return Err(ExportFailure::new(Reason::WriteFailed, detail));
        }
        durable::write_new(&self.path.join(MANIFEST_NAME), &bytes)
            .map_err(|error| write_failed("write the manifest", &error))?;
        durable::sync_directory(&self.path)
            .map_err(|error| write_failed("sync the snapshot", &error))?;
        Ok(totals.file_bytes.saturating_add(bytes.len() as u64))
    }

    /// Gives the snapshot its name.
    fn commit(&self) -> Result<(), ExportFailure> {
        // After the deadline this master has withdrawn its own note, which is not to be taken for that of
        // another one.
        if self.options.deadline.has_passed() {
            return Err(ExportError::Deadline.into());
        }
        self.held.check_or_poison(self.incarnation)?;
        let directory = self.held.path();
        let renamed = durable::rename(directory, &self.path, READY_NAME);
        let has_its_name = is_missing(&self.path) && !is_missing(&directory.join(READY_NAME));
        // Another master may have come between the check and the name.
        let failure = match (renamed, self.held.owns_lock()) {
            (Ok(()), Ok(())) => return Ok(()),
            // A machine that fails now leaves the name or not, as one that fails a moment earlier does.
            (Err(error), Ok(())) if has_its_name => {
                tracing::warn!(%error, "the snapshot has its name, and loses it if the machine fails soon");
                return Ok(());
            }
            (Err(error), _) if !has_its_name => write_failed("publish the snapshot", &error),
            (_, Ok(())) => unreachable!("with its name and the lock it is published"),
            (_, Err(cause)) => {
                self.held.poison(self.incarnation, &cause);
                ExportFailure { cause }
            }
        };
        if has_its_name && let Err(error) = durable::make_void(directory, READY_NAME) {
            tracing::error!(handoff_write = "void_failed", %error, "a snapshot is left");
        }
        Err(failure)
    }
}

fn write_failed(attempt: impl std::fmt::Display, error: &std::io::Error) -> ExportFailure {
    ExportFailure::new(Reason::WriteFailed, format!("cannot {attempt}: {error}"))
}

/// The writers go to other threads.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<ShardFileWriter<File>>();
    is_send::<Export>();
};
