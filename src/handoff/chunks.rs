//! Puts chunks into the file of a shard, on a thread of its own: checksum and disk take about as long
//! as the encoding does, so the two go on side by side also where there is one shard.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use mooring_actors::beside::begin;
use mooring_actors::handoff::ExportError;

use super::checksum;
use super::format::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES};

/// Where the bytes of a file go.
pub(crate) trait Output: Write + Send + 'static {
    /// Makes what was written durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}

impl Output for std::fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A chunk under way: room for its header, and its payload so far.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The payload is appended to these.
    pub(super) bytes: Vec<u8>,
    /// How many records it has.
    pub(super) records: u32,
}

impl Chunk {
    fn new() -> Chunk {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + CHUNK_BYTES_MAX);
        bytes.resize(CHUNK_HEADER_BYTES, 0);
        Chunk { bytes, records: 0 }
    }

    /// How long its payload is.
    pub(super) fn payload_bytes(&self) -> usize {
        self.bytes.len() - CHUNK_HEADER_BYTES
    }

    fn clear(&mut self) {
        self.bytes.truncate(CHUNK_HEADER_BYTES);
        self.records = 0;
    }
}

/// A file whose chunks are written beside whoever fills them, or by it if the system refuses a thread.
/// If it is dropped before its end, what was handed over is still written, and nobody is told.
#[derive(Debug)]
pub(super) struct ChunkWriter<O> {
    name: String,
    way: Way<O>,
}

#[derive(Debug)]
enum Way<O> {
    Beside(Beside<O>),
    Here(Written<O>),
    /// There is nothing more to come, or it has failed.
    Ended,
}

/// Chunks on their way to the thread that writes them, and back.
#[derive(Debug)]
struct Beside<O> {
    full: SyncSender<Chunk>,
    empty: Receiver<Chunk>,
    /// Chunks that there are, with those under way.
    chunks: usize,
    thread: JoinHandle<io::Result<Written<O>>>,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Written<O> {
    /// Where it went.
    pub(super) output: O,
    /// How long the file is.
    pub(super) length_bytes: u64,
    /// Its checksum.
    pub(super) checksum: u32,
    chunks: u32,
}

impl<O: Output> ChunkWriter<O> {
    /// Begins a file with what comes before its chunks, and gives the first chunk to be filled.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn new(
        name: String,
        mut output: O,
        header: &[u8],
        thread: Builder,
    ) -> Result<(ChunkWriter<O>, Chunk), ExportError> {
        output.write_all(header).map_err(|error| write_error(&name, &error))?;
        let (length_bytes, checksum) = (header.len() as u64, crc32c::crc32c(header));
        let written = Written { output, length_bytes, checksum, chunks: 0 };
        let (full, to_write) = sync_channel(CHUNKS_MAX);
        let (to_fill, empty) = sync_channel(CHUNKS_MAX);
        let thread = thread.name("handoff-write".to_owned());
        let begun = begin(thread, written, move |written| written.write(to_write, &to_fill));
        let way = match begun {
            Ok(thread) => Way::Beside(Beside { full, empty, chunks: 1, thread }),
            Err(refused) => Way::Here(refused.work),
        };
        Ok((ChunkWriter { name, way }, Chunk::new()))
    }

    /// Hands a full chunk over for an empty one, and waits for that while too many are under way.
    ///
    /// # Errors
    /// When this chunk or one before it could not be written.
    pub(super) fn exchange(&mut self, chunk: &mut Chunk) -> Result<(), ExportError> {
        let taken = match &mut self.way {
            Way::Beside(beside) => beside.exchange(chunk),
            Way::Here(written) => match written.write_chunk(chunk) {
                Ok(()) => {
                    chunk.clear();
                    true
                }
                Err(error) => {
                    self.way = Way::Ended;
                    return Err(write_error(&self.name, &error));
                }
            },
            Way::Ended => false,
        };
        if taken { Ok(()) } else { Err(self.end().err().unwrap_or_else(|| self.stopped())) }
    }

    /// Waits until all chunks that were handed over are in the file.
    ///
    /// # Errors
    /// When one could not be written.
    pub(super) fn end(&mut self) -> Result<Written<O>, ExportError> {
        let outcome = match std::mem::replace(&mut self.way, Way::Ended) {
            Way::Beside(beside) => {
                drop(beside.full);
                beside.thread.join().ok()
            }
            Way::Here(written) => Some(Ok(written)),
            Way::Ended => None,
        };
        match outcome {
            Some(Ok(written)) => Ok(written),
            Some(Err(error)) => Err(write_error(&self.name, &error)),
            None => Err(self.stopped()),
        }
    }

    fn stopped(&self) -> ExportError {
        ExportError::Write(format!("{}: its thread has stopped", self.name))
    }
}

impl<O> Beside<O> {
    /// Whether the chunk was taken.
    fn exchange(&mut self, chunk: &mut Chunk) -> bool {
        let another = match self.empty.try_recv() {
            Ok(empty) => Ok(empty),
            Err(TryRecvError::Empty) if self.chunks < CHUNKS_MAX => {
                self.chunks += 1;
                Ok(Chunk::new())
            }
            // A thread that has failed gives none back.
            Err(_) => self.empty.recv(),
        };
        match another {
            Ok(another) => self.full.send(std::mem::replace(chunk, another)).is_ok(),
            Err(_) => false,
        }
    }
}

impl<O: Output> Written<O> {
    fn write(mut self, full: Receiver<Chunk>, empty: &SyncSender<Chunk>) -> io::Result<Written<O>> {
        for mut chunk in full {
            self.write_chunk(&mut chunk)?;
            chunk.clear();
            // At the end nobody takes it.
            let _ = empty.send(chunk);
        }
        Ok(self)
    }

    fn write_chunk(&mut self, chunk: &mut Chunk) -> io::Result<()> {
        let length = u32::try_from(chunk.payload_bytes()).unwrap_or(u32::MAX);
        let Chunk { bytes, records } = chunk;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&records.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.chunks.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        self.output.write_all(bytes)?;

        self.checksum =
            add_chunk(self.checksum, &checksum.to_le_bytes(), checksum, bytes.len() - 4);
        self.length_bytes += bytes.len() as u64;
        self.chunks = self.chunks.wrapping_add(1);
        Ok(())
    }
}

/// The checksum of a file with one more chunk: its first four bytes, which are the checksum of the
/// others, and those. The payload is not looked at again.
pub(super) fn add_chunk(file: u32, first: &[u8; 4], others: u32, others_bytes: usize) -> u32 {
    checksum::of_both(crc32c::crc32c_append(file, first), others, others_bytes)
}

pub(super) fn write_error(name: &str, error: &io::Error) -> ExportError {
    ExportError::Write(format!("{name}: {error}"))
}

/// One is filled, one is written, and one more on either side evens out their pace.
const CHUNKS_MAX: usize = 4;
