//! Reads the file of one shard.

use std::fs::File;
use std::io::{ErrorKind, Read};

use mooring_actors::handoff::{RangePlace, RangeRecord, ShardRecord};
use mooring_proto::Incarnation;

use super::ReadError;
use super::bytes::Cursor;
use super::chunks::add_chunk;
use super::deadline::Deadline;
use super::format::{
    CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, PREAMBLE_BYTES, SHARD_HEADER_BYTES, SHARD_MAGIC,
    check_preamble,
};
use super::manifest::ShardFile;
use super::record::{Body, Parsed, RecordFault, decode};

/// Gives the records of one file, in order of place. A chunk is checked before its first record
/// is given, the file as a whole before its end is: what was read must not be used before
/// [`next`](Self::next) has given `None`. It allocates one buffer, at its start; keys are borrowed
/// from it.
#[derive(Debug)]
pub(crate) struct ShardFileReader<R: Read = File> {
    input: R,
    name: String,
    deadline: Deadline,
    /// What the manifest says of the file.
    expected: ShardFile,
    /// What was found so far.
    found: ShardFile,
    /// The payload of the chunk.
    chunk: Vec<u8>,
    position: usize,
    records_left: u32,
    chunks: u32,
    last: Option<RangePlace>,
    before: Option<RangePlace>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Reading,
    Ended,
    Failed(ReadError),
}

impl<R: Read> ShardFileReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// When the file is not the one that the manifest names.
    pub(crate) fn new(
        mut input: R,
        expected: &ShardFile,
        incarnation: Incarnation,
        deadline: Deadline,
    ) -> Result<ShardFileReader<R>, ReadError> {
        let name = ShardFile::name_of(expected.index);
        let mut header = [0; SHARD_HEADER_BYTES];
        input.read_exact(&mut header).map_err(|error| ReadError::io(&name, &error))?;
        check_preamble(&name, &header, SHARD_MAGIC)?;
        check_identity(&name, &header[PREAMBLE_BYTES..], expected.index, incarnation)?;
        let found = ShardFile {
            index: expected.index,
            length_bytes: header.len() as u64,
            checksum: crc32c::crc32c(&header),
            ..ShardFile::default()
        };
        Ok(ShardFileReader {
            input,
            name,
            deadline,
            expected: *expected,
            found,
            chunk: Vec::with_capacity(CHUNK_BYTES_MAX),
            position: 0,
            records_left: 0,
            chunks: 0,
            last: None,
            before: None,
            state: State::Reading,
        })
    }

    /// The next record, `None` once all came and the file is what was written.
    ///
    /// # Errors
    /// When it is not, cannot be read, or the deadline has passed. Every further call gives the same
    /// error.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<RangeRecord<'_>>, ReadError> {
        match self.advance()? {
            Some(parsed) => Ok(Some(parsed.view(&self.chunk))),
            None => Ok(None),
        }
    }

    /// As [`next`](Self::next), without the record: [`view`](Self::view) gives it until the next
    /// call.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Option<Parsed>, ReadError> {
        while self.records_left == 0 {
            if !self.load()? {
                return Ok(None);
            }
        }
        match self.decode_next() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The record that was decoded last.
    #[inline]
    pub(super) fn view(&self, parsed: &Parsed) -> RangeRecord<'_> {
        parsed.view(&self.chunk)
    }

    /// Reads the whole next chunk and gives each of its records with the bytes that they were decoded
    /// from. Says whether there was one.
    ///
    /// # Errors
    /// As [`next`](Self::next), and what `each` says. What was given of this chunk must not be used
    /// then.
    pub(super) fn next_chunk<E: From<ReadError>>(
        &mut self,
        mut each: impl FnMut(&[u8], &Parsed) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.records_left == 0 && !self.load()? {
            return Ok(false);
        }
        while self.records_left > 0 {
            let parsed = self.decode_next().map_err(|error| self.fail(error))?;
            each(&self.chunk, &parsed)?;
        }
        Ok(true)
    }

    #[inline]
    fn decode_next(&mut self) -> Result<Parsed, ReadError> {
        let (parsed, end) = decode(&self.chunk, self.position, self.before)
            .map_err(|fault| self.describe(fault))?;
        if self.last.is_some_and(|last| last >= parsed.place) {
            return Err(self.corrupt("has records out of order"));
        }
        (self.last, self.before) = (Some(parsed.place), Some(parsed.place));
        self.position = end;
        self.records_left -= 1;
        self.found.ranges += 1;
        match parsed.body {
            Body::Object(object) => {
                self.found.record.objects += 1;
                self.found.key_bytes += u64::from(object.key_bytes);
            }
            Body::Hold { .. } => self.found.record.holds += 1,
            Body::Replica { .. } => {}
        }
        Ok(parsed)
    }

    /// Loads the next chunk; whether there is one.
    #[cold]
    fn load(&mut self) -> Result<bool, ReadError> {
        match &self.state {
            State::Reading => {}
            State::Ended => return Ok(false),
            State::Failed(error) => return Err(error.clone()),
        }
        let more = self.load_chunk().map_err(|error| self.fail(error))?;
        if !more {
            self.state = State::Ended;
        }
        Ok(more)
    }

    fn load_chunk(&mut self) -> Result<bool, ReadError> {
        if self.deadline.has_passed() {
            return Err(ReadError::Deadline { name: self.name.clone() });
        }
        if self.position != self.chunk.len() {
            return Err(self.corrupt("has bytes after the last record of a chunk"));
        }
        let mut header = [0; CHUNK_HEADER_BYTES];
        self.read(&mut header)?;
        let mut fields = Cursor::new(&header);
        let (Some(checksum), Some(length), Some(records), Some(number)) =
            (fields.u32(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Err(self.corrupt("has no header of a chunk"));
        };
        if length as usize > CHUNK_BYTES_MAX {
            return Err(self.corrupt(format_args!("has a chunk of {length} bytes")));
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length as usize, 0);
        let outcome = self.read(&mut chunk);
        self.chunk = chunk;
        outcome?;

        let found = crc32c::crc32c_append(crc32c::crc32c(&header[4..]), &self.chunk);
        if found != checksum {
            return Err(self.corrupt(format_args!("is damaged in chunk {}", self.chunks)));
        }
        if number != self.chunks || (records == 0) != (length == 0) {
            return Err(self.corrupt(format_args!("has another chunk in place of {}", self.chunks)));
        }
        let others_bytes = CHUNK_HEADER_BYTES - 4 + self.chunk.len();
        self.found.length_bytes += 4 + others_bytes as u64;
        self.found.checksum =
            add_chunk(self.found.checksum, &checksum.to_le_bytes(), checksum, others_bytes);
        self.chunks = self.chunks.wrapping_add(1);
        (self.position, self.records_left, self.before) = (0, records, None);
        if records == 0 {
            self.check_end()?;
        }
        Ok(records > 0)
    }

    fn check_end(&mut self) -> Result<(), ReadError> {
        loop {
            match self.input.read(&mut [0]) {
                Ok(0) => break,
                Ok(_) => return Err(self.corrupt("has bytes after its end")),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::io(&self.name, &error)),
            }
        }
        // The rest of what the shard said stands in the manifest alone.
        let counted = self.found.record;
        self.found.record =
            ShardRecord { objects: counted.objects, holds: counted.holds, ..self.expected.record };
        if self.found != self.expected {
            return Err(self.corrupt("is not the file that the manifest describes"));
        }
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.input.read_exact(bytes).map_err(|error| ReadError::io(&self.name, &error))
    }

    #[cold]
    fn describe(&self, fault: RecordFault) -> ReadError {
        match fault {
            RecordFault::Malformed => self.corrupt("has a record that is not whole"),
            RecordFault::NotUnderstood(what, number) => {
                ReadError::not_understood(&self.name, format_args!("{what} {number}"))
            }
        }
    }

    #[cold]
    fn corrupt(&self, fault: impl std::fmt::Display) -> ReadError {
        ReadError::corrupt(&self.name, fault)
    }

    #[cold]
    fn fail(&mut self, error: ReadError) -> ReadError {
        self.records_left = 0;
        self.state = State::Failed(error.clone());
        error
    }
}

/// A file of another snapshot, or of another shard, may be whole and is wrong all the same.
fn check_identity(
    name: &str,
    bytes: &[u8],
    index: u32,
    incarnation: Incarnation,
) -> Result<(), ReadError> {
    let mut fields = Cursor::new(bytes);
    let found = (fields.u32(), fields.u64(), fields.u32());
    let checksum = crc32c::crc32c(&bytes[..12]);
    if found.2 != Some(checksum) {
        return Err(ReadError::corrupt(name, "is damaged in its head"));
    }
    if (found.0, found.1) != (Some(index), Some(incarnation.0)) {
        return Err(ReadError::corrupt(name, "belongs to another shard or another snapshot"));
    }
    Ok(())
}
