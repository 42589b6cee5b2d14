//! Writes the file of one shard.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use mooring_actors::handoff::{ExportError, RangePlace, RangeRecord, RecordSink, ShardRecord};
use mooring_proto::Incarnation;

use super::deadline::Deadline;
use super::format::{
    CHUNK_BYTES, CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, RECORD_BYTES_MAX, SHARD_MAGIC, preamble,
};
use super::manifest::ShardFile;
use super::record::encode;

/// Where the bytes of a file go.
pub(crate) trait Output: Write + Send {
    /// Makes what was written durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}

impl Output for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Takes the records of one shard and writes them in chunks. It allocates one buffer, at its start.
/// After an error every further call gives the same one, and the file is of no use.
#[derive(Debug)]
pub(crate) struct ShardFileWriter<O: Output = File> {
    output: O,
    file: ShardFile,
    name: String,
    deadline: Deadline,
    durable: bool,
    /// The header of the chunk and what its payload is so far.
    chunk: Vec<u8>,
    records: u32,
    chunks: u32,
    /// The place of the record before, also of that in the chunk before.
    last: Option<RangePlace>,
    /// The place of the record before in this chunk.
    before: Option<RangePlace>,
    failure: Option<ExportError>,
    finished: Finished,
}

/// What the file is once it is finished, for whoever has given the writer away.
pub(crate) type Finished = Arc<OnceLock<ShardFile>>;

impl<O: Output> ShardFileWriter<O> {
    /// Begins a file. `index` is its place among the files of the snapshot, which is the place of
    /// its [`ShardFile`] in the manifest. A durable one is synced at its end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn new(
        output: O,
        index: u32,
        incarnation: Incarnation,
        deadline: Deadline,
        durable: bool,
    ) -> Result<ShardFileWriter<O>, ExportError> {
        let mut chunk = Vec::with_capacity(CHUNK_HEADER_BYTES + CHUNK_BYTES_MAX);
        chunk.resize(CHUNK_HEADER_BYTES, 0);
        let mut writer = ShardFileWriter {
            output,
            file: ShardFile { index, ..ShardFile::default() },
            name: ShardFile::name_of(index),
            deadline,
            durable,
            chunk,
            records: 0,
            chunks: 0,
            last: None,
            before: None,
            failure: None,
            finished: Finished::default(),
        };
        writer.write_header(incarnation)?;
        Ok(writer)
    }

    /// Where the file is told once it is finished.
    pub(crate) fn finished(&self) -> Finished {
        self.finished.clone()
    }

    /// Where the bytes went.
    #[cfg(test)]
    pub(crate) fn into_output(self) -> O {
        self.output
    }

    fn end(&mut self, record: &ShardRecord) -> Result<(), ExportError> {
        let found = self.file.record;
        if (found.objects, found.holds) != (record.objects, record.holds) {
            return Err(ExportError::Write(format!(
                "{}: the shard has {} objects and {} holds, but gave {} and {}",
                self.name, record.objects, record.holds, found.objects, found.holds
            )));
        }
        self.file.record = *record;
        if self.records > 0 {
            self.write_chunk()?;
        }
        // The empty one is the end.
        self.write_chunk()?;
        if self.durable {
            self.output.sync().map_err(|error| write_error(&self.name, &error))?;
        }
        // It was not set: after the end there is only failure.
        let _ = self.finished.set(self.file);
        Ok(())
    }

    fn write_header(&mut self, incarnation: Incarnation) -> Result<(), ExportError> {
        let mut header = preamble(SHARD_MAGIC).to_vec();
        let mut identity = self.file.index.to_le_bytes().to_vec();
        identity.extend_from_slice(&incarnation.0.to_le_bytes());
        let checksum = crc32c::crc32c(&identity);
        header.extend_from_slice(&identity);
        header.extend_from_slice(&checksum.to_le_bytes());
        self.output.write_all(&header).map_err(|error| write_error(&self.name, &error))?;
        self.file.length_bytes = header.len() as u64;
        self.file.checksum = crc32c::crc32c(&header);
        Ok(())
    }

    fn take(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        self.check(record)?;
        let place = record.place();
        encode(record, self.before, &mut self.chunk);
        (self.last, self.before) = (Some(place), Some(place));
        self.records += 1;
        self.file.ranges += 1;
        match record {
            RangeRecord::Object(object) => {
                self.file.record.objects += 1;
                self.file.key_bytes += object.key.len() as u64;
            }
            RangeRecord::Hold { .. } => self.file.record.holds += 1,
            RangeRecord::Replica { .. } => {}
        }
        if self.chunk.len() >= CHUNK_HEADER_BYTES + CHUNK_BYTES {
            self.write_chunk()
        } else {
            Ok(())
        }
    }

    /// A shard that gives such records has lost its bearings, so nothing of it may be kept.
    fn check(&self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        let place = record.place();
        let fault = match record {
            _ if self.last.is_some_and(|last| last >= place) => "out of order",
            RangeRecord::Object(object) if object.key.len() > RECORD_BYTES_MAX / 2 => "too long",
            RangeRecord::Object(object) if object.replicas == 0 => "of an object without replicas",
            RangeRecord::Replica { ordinal, .. } if *ordinal >= self.file.record.objects => {
                "of an object that did not come before"
            }
            _ => return Ok(()),
        };
        Err(ExportError::Write(format!("{}: the record at {place:?} is {fault}", self.name)))
    }

    fn write_chunk(&mut self) -> Result<(), ExportError> {
        if self.deadline.has_passed() {
            return Err(ExportError::Deadline);
        }
        let payload_bytes = self.chunk.len() - CHUNK_HEADER_BYTES;
        let length = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
        self.chunk[4..8].copy_from_slice(&length.to_le_bytes());
        self.chunk[8..12].copy_from_slice(&self.records.to_le_bytes());
        self.chunk[12..16].copy_from_slice(&self.chunks.to_le_bytes());
        let checksum = crc32c::crc32c(&self.chunk[4..]);
        self.chunk[..4].copy_from_slice(&checksum.to_le_bytes());
        self.output.write_all(&self.chunk).map_err(|error| write_error(&self.name, &error))?;

        self.file.checksum =
            add_chunk(self.file.checksum, &checksum.to_le_bytes(), checksum, self.chunk.len() - 4);
        self.file.length_bytes += self.chunk.len() as u64;
        self.chunks = self.chunks.wrapping_add(1);
        self.chunk.truncate(CHUNK_HEADER_BYTES);
        (self.records, self.before) = (0, None);
        Ok(())
    }
}

impl<O: Output> RecordSink for ShardFileWriter<O> {
    #[inline]
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.take(record).inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// The counts must be those of the records that came. The file can be published after it.
    fn finish(&mut self, record: &ShardRecord) -> Result<(), ExportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = self.end(record);
        let over = || ExportError::Write(format!("{} is finished already", self.name));
        self.failure = Some(outcome.clone().err().unwrap_or_else(over));
        outcome
    }
}

/// The checksum of a file with one more chunk: its first four bytes, which are the checksum of the
/// others, and those. The payload is not looked at again.
pub(super) fn add_chunk(file: u32, first: &[u8; 4], others: u32, others_bytes: usize) -> u32 {
    crc32c::crc32c_combine(crc32c::crc32c_append(file, first), others, others_bytes)
}

fn write_error(name: &str, error: &io::Error) -> ExportError {
    ExportError::Write(format!("{name}: {error}"))
}
