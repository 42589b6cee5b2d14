//! What only some objects have: a known writer, a checksum, a data type.
//!
//! It stands beside the records, so that objects without it cost nothing. A bit in the record says
//! whether there is any.

mod writers;

use mooring_proto::ClientId;

use self::writers::{WriterId, Writers};
use super::ledger::Ledger;
use super::objects::{Column, ObjectHandle};

/// The side data of all objects.
#[derive(Debug)]
pub(super) struct Side {
    entries: Column<Entry>,
    writers: Writers,
}

/// The side data of one object, 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    checksum: u64,
    writer: WriterId,
    data_type: u8,
    has_checksum: bool,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Side {
    pub(super) fn new() -> Side {
        Side { entries: Column::new(), writers: Writers::default() }
    }

    /// Forgets what an object had.
    pub(super) fn remove(&mut self, object: ObjectHandle) {
        let entry = self.entries.remove(object);
        self.writers.release(entry.writer);
    }

    /// Bytes of heap memory, in constant time.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.writers.memory_bytes()
    }
}

impl Ledger {
    /// Remembers who wrote an object, and its checksum.
    pub(super) fn note_writer(
        &mut self,
        object: ObjectHandle,
        client: ClientId,
        checksum: Option<u64>,
    ) {
        let side = self.side_of_mut(object);
        let writer = side.writers.intern(client);
        let entry = side.entries.of_mut(object);
        let before = std::mem::replace(&mut entry.writer, writer);
        entry.checksum = checksum.unwrap_or_default();
        entry.has_checksum = checksum.is_some();
        side.writers.release(before);
    }

    /// Remembers what kind of data an object is.
    pub(super) fn note_data_type(&mut self, object: ObjectHandle, data_type: u8) {
        if data_type != 0 || self.objects().has_side(object) {
            self.side_of_mut(object).entries.of_mut(object).data_type = data_type;
        }
    }

    /// Who wrote an object, if that is known.
    pub(super) fn writer(&self, object: ObjectHandle) -> Option<ClientId> {
        self.entry(object).and_then(|entry| self.side().writers.client(entry.writer))
    }

    /// The checksum of an object, if it has one.
    pub(super) fn checksum(&self, object: ObjectHandle) -> Option<u64> {
        self.entry(object).filter(|entry| entry.has_checksum).map(|entry| entry.checksum)
    }

    /// What kind of data an object is; zero if unknown.
    pub(super) fn data_type(&self, object: ObjectHandle) -> u8 {
        self.entry(object).map_or(0, |entry| entry.data_type)
    }

    fn entry(&self, object: ObjectHandle) -> Option<&Entry> {
        self.objects().has_side(object).then(|| self.side().entries.of(object))
    }

    /// The side data, in which the object has an entry.
    fn side_of_mut(&mut self, object: ObjectHandle) -> &mut Side {
        if self.mark_side(object) {
            self.side_mut().entries.add(object, Entry::default());
        }
        self.side_mut()
    }
}
