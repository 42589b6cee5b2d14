//! One chunk: records one after another, each a header and a key.

use super::{CHUNK_BYTES, UNIT_BYTES};

/// Consecutive records, and how much of them is holes.
pub(super) struct Chunk {
    bytes: Vec<u8>,
    dead_bytes: u32,
    /// Changes when the borders between records may change, or holes must stay holes.
    generation: u32,
}

/// What a record's first four bytes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// A key, and whose.
    Live { owner: u32 },
    /// A hole, and how long its key was.
    Dead { length: usize },
}

/// Bytes of a record for a key of this length.
#[inline]
pub(super) const fn record_bytes(key_length: usize) -> usize {
    HEADER_BYTES + key_length.next_multiple_of(UNIT_BYTES)
}

impl Chunk {
    /// A chunk without memory.
    pub(super) fn vacant() -> Chunk {
        Chunk { bytes: Vec::new(), dead_bytes: 0, generation: 0 }
    }

    /// Gets the memory of the whole chunk.
    pub(super) fn allocate(&mut self) {
        self.bytes.reserve_exact(CHUNK_BYTES);
    }

    /// Returns the memory.
    pub(super) fn give_back(&mut self) {
        self.bytes = Vec::new();
        self.dead_bytes = 0;
        self.start_generation();
    }

    /// Forgets all records and keeps the memory.
    pub(super) fn start_over(&mut self) {
        self.bytes.clear();
        self.dead_bytes = 0;
        self.start_generation();
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn start_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// All records.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of holes.
    pub(super) fn dead_bytes(&self) -> usize {
        self.dead_bytes as usize
    }

    /// Whether there is nothing but holes.
    pub(super) fn is_dead(&self) -> bool {
        self.dead_bytes() == self.bytes.len()
    }

    pub(super) fn has_room(&self, size: usize) -> bool {
        self.bytes.len() + size <= CHUNK_BYTES
    }

    /// Adds a record at the end and returns where it begins.
    pub(super) fn append(&mut self, owner: u32, key: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&Header::Live { owner }.encode());
        self.bytes.extend_from_slice(key);
        self.bytes.resize(at + record_bytes(key.len()), 0);
        at
    }

    /// Adds a record as it stands elsewhere.
    pub(super) fn append_record(&mut self, record: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(record);
        at
    }

    /// Puts a key into a hole of its size.
    pub(super) fn fill(&mut self, at: usize, owner: u32, key: &[u8]) {
        debug_assert!(matches!(
            self.header(at),
            Header::Dead { length } if record_bytes(length) == record_bytes(key.len())
        ));
        self.set_header(at, Header::Live { owner });
        let first = at + HEADER_BYTES;
        self.bytes[first..first + key.len()].copy_from_slice(key);
        self.dead_bytes -= record_bytes(key.len()) as u32;
    }

    /// Makes a record a hole.
    pub(super) fn bury(&mut self, at: usize, length: usize) {
        self.set_header(at, Header::Dead { length });
        self.dead_bytes += record_bytes(length) as u32;
    }

    pub(super) fn header(&self, at: usize) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&self.bytes[at..at + HEADER_BYTES]);
        Header::decode(bytes)
    }

    pub(super) fn set_header(&mut self, at: usize, header: Header) {
        self.bytes[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
    }
}

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        match self {
            Header::Live { owner } => {
                debug_assert!(owner & DEAD == 0, "handles leave the top bit");
                owner.to_le_bytes()
            }
            Header::Dead { length } => (DEAD | length as u32).to_le_bytes(),
        }
    }

    fn decode(bytes: [u8; HEADER_BYTES]) -> Header {
        let word = u32::from_le_bytes(bytes);
        if word & DEAD == 0 {
            Header::Live { owner: word }
        } else {
            Header::Dead { length: (word & !DEAD) as usize }
        }
    }
}

/// A header is one unit.
pub(super) const HEADER_BYTES: usize = UNIT_BYTES;

const DEAD: u32 = 1 << 31;
