//! Writes the file of one shard.

use std::fs::File;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

use mooring_actors::handoff::{ExportError, RangePlace, RangeRecord, RecordSink, ShardRecord};
use mooring_proto::Incarnation;

use super::chunks::{Chunk, ChunkWriter, Output, write_error};
use super::deadline::Deadline;
use super::format::{CHUNK_BYTES, RECORD_BYTES_MAX, SHARD_MAGIC, preamble};
use super::manifest::ShardFile;
use super::record::encode;

/// Takes the records of one shard and writes them in chunks. It allocates a few buffers, and none for
/// a record. After an error every further call gives the same one, and the file is of no use.
#[derive(Debug)]
pub(crate) struct ShardFileWriter<O: Output = File> {
    chunks: ChunkWriter<O>,
    file: ShardFile,
    deadline: Deadline,
    durable: bool,
    chunk: Chunk,
    /// The place of the record before, also of that in the chunk before.
    last: Option<RangePlace>,
    /// The place of the record before in this chunk.
    before: Option<RangePlace>,
    failure: Option<ExportError>,
    finished: Finished,
    /// Where the bytes went, once the file is finished.
    #[cfg(test)]
    output: Option<O>,
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
        ShardFileWriter::with_thread(output, index, incarnation, deadline, durable, Builder::new())
    }

    /// The same, with this thread to write beside whoever gives the records. If the system refuses it,
    /// they are written by whoever gives them.
    pub(super) fn with_thread(
        output: O,
        index: u32,
        incarnation: Incarnation,
        deadline: Deadline,
        durable: bool,
        thread: Builder,
    ) -> Result<ShardFileWriter<O>, ExportError> {
        let header = header(index, incarnation);
        let name = ShardFile::name_of(index);
        let (chunks, chunk) = ChunkWriter::new(name, output, &header, thread)?;
        Ok(ShardFileWriter {
            chunks,
            file: ShardFile { index, ..ShardFile::default() },
            deadline,
            durable,
            chunk,
            last: None,
            before: None,
            failure: None,
            finished: Finished::default(),
            #[cfg(test)]
            output: None,
        })
    }

    /// Where the file is told once it is finished.
    pub(crate) fn finished(&self) -> Finished {
        self.finished.clone()
    }

    /// Where the bytes went, if the file is finished.
    #[cfg(test)]
    pub(crate) fn into_output(self) -> Option<O> {
        self.output
    }

    fn end(&mut self, record: &ShardRecord) -> Result<(), ExportError> {
        let found = self.file.record;
        if (found.objects, found.holds) != (record.objects, record.holds) {
            return Err(ExportError::Write(format!(
                "{}: the shard has {} objects and {} holds, but gave {} and {}",
                self.name(),
                record.objects,
                record.holds,
                found.objects,
                found.holds
            )));
        }
        self.file.record = *record;
        if self.chunk.records > 0 {
            self.write_chunk()?;
        }
        // The empty one is the end.
        self.write_chunk()?;
        let mut written = self.chunks.end()?;
        if self.durable {
            written.output.sync().map_err(|error| write_error(&self.name(), &error))?;
        }
        self.file.length_bytes = written.length_bytes;
        self.file.checksum = written.checksum;
        // It was not set: after the end there is only failure.
        let _ = self.finished.set(self.file);
        #[cfg(test)]
        {
            self.output = Some(written.output);
        }
        Ok(())
    }

    fn name(&self) -> String {
        ShardFile::name_of(self.file.index)
    }

    fn take(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        self.check(record)?;
        let place = record.place();
        encode(record, self.before.as_ref(), &mut self.chunk.bytes);
        (self.last, self.before) = (Some(place), Some(place));
        self.chunk.records += 1;
        self.file.ranges += 1;
        match record {
            RangeRecord::Object(object) => {
                self.file.record.objects += 1;
                self.file.key_bytes += object.key.len() as u64;
            }
            RangeRecord::Hold { .. } => self.file.record.holds += 1,
            RangeRecord::Replica { .. } => {}
        }
        if self.chunk.payload_bytes() >= CHUNK_BYTES { self.write_chunk() } else { Ok(()) }
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
        Err(ExportError::Write(format!("{}: the record at {place:?} is {fault}", self.name())))
    }

    fn write_chunk(&mut self) -> Result<(), ExportError> {
        if self.deadline.has_passed() {
            return Err(ExportError::Deadline);
        }
        self.before = None;
        self.chunks.exchange(&mut self.chunk)
    }
}

impl<O: Output> RecordSink for ShardFileWriter<O> {
    #[inline]
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        // The outcome is made anew: to pass that of `take` on costs more than an object's varints.
        match self.take(record) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The counts must be those of the records that came. The file can be published after it.
    fn finish(&mut self, record: &ShardRecord) -> Result<(), ExportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = self.end(record);
        let over = || ExportError::Write(format!("{} is finished already", self.name()));
        self.failure = Some(outcome.clone().err().unwrap_or_else(over));
        outcome
    }
}

/// What comes before the chunks.
fn header(index: u32, incarnation: Incarnation) -> Vec<u8> {
    let mut header = preamble(SHARD_MAGIC).to_vec();
    let mut identity = index.to_le_bytes().to_vec();
    identity.extend_from_slice(&incarnation.0.to_le_bytes());
    let checksum = crc32c::crc32c(&identity);
    header.extend_from_slice(&identity);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}
