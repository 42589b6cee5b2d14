//! A snapshot that was claimed, or that is only looked at.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::ReadError;
use super::deadline::Deadline;
use super::found::load_manifest;
use super::manifest::{Manifest, ShardFile};
use super::merge::MergedReader;
use super::reader::ShardFileReader;
use crate::regular_file;

/// A snapshot on the disk, whose manifest is sound. Its files are checked as they are read.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    path: PathBuf,
    manifest: Manifest,
}

impl Snapshot {
    /// Opens the snapshot in a directory.
    ///
    /// # Errors
    /// When the manifest is not sound, or a file has another length.
    pub(super) fn open(path: &Path) -> Result<Snapshot, ReadError> {
        Ok(Snapshot { path: path.to_owned(), manifest: load_manifest(path)? })
    }

    /// Everything but the ranges.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads the file of one shard of the master that wrote it. Files can be read side by side.
    ///
    /// # Errors
    /// When there is none, or it is not the one that was written.
    pub(crate) fn shard(
        &self,
        index: usize,
        deadline: Deadline,
    ) -> Result<ShardFileReader, ReadError> {
        let Some(file) = self.manifest.shards.get(index) else {
            return Err(ReadError::corrupt("the manifest", format_args!("has no file {index}")));
        };
        let name = ShardFile::name_of(file.index);
        let input = regular_file::open(&self.path.join(&name))
            .map_err(|error| ReadError::io(&name, &error))?;
        ShardFileReader::new(input, file, self.manifest.incarnation, deadline)
    }

    /// Reads all files as one, in order of place.
    ///
    /// # Errors
    /// As [`shard`](Self::shard).
    pub(crate) fn merged(&self, deadline: Deadline) -> Result<MergedReader<File>, ReadError> {
        let readers = (0..self.manifest.shards.len()).map(|index| self.shard(index, deadline));
        MergedReader::new(readers.collect::<Result<_, _>>()?)
    }

    /// Reads everything, and finds whether it is what was written.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn verify(&self) -> Result<(), ReadError> {
        for index in 0..self.manifest.shards.len() {
            let mut shard = self.shard(index, Deadline::NEVER)?;
            while shard.next()?.is_some() {}
        }
        Ok(())
    }
}
