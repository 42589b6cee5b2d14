//! What only some objects have: a known writer, a checksum, a data type, a group.
//!
//! It stands beside the records, so that objects without it cost nothing. A bit in the record says
//! whether there is any.

mod groups;
mod writers;

use std::sync::Arc;

use mooring_proto::ClientId;

use self::groups::Groups;
pub(super) use self::groups::{Errand, GroupId};
use self::writers::{WriterId, Writers};
use super::ledger::Ledger;
use super::objects::{Column, ObjectHandle};
use crate::handoff::SideRecord;

/// The side data of all objects.
#[derive(Debug)]
pub(super) struct Side {
    entries: Column<Entry>,
    writers: Writers,
    groups: Groups,
}

/// The side data of one object, 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    checksum: u64,
    writer: WriterId,
    data_type: u8,
    has_checksum: bool,
    grouped: bool,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Side {
    pub(super) fn new() -> Side {
        Side { entries: Column::new(), writers: Writers::default(), groups: Groups::new() }
    }

    /// Forgets what an object had.
    pub(super) fn remove(&mut self, object: ObjectHandle) {
        let entry = self.entries.remove(object);
        self.writers.release(entry.writer);
        if entry.grouped {
            self.groups.leave(object);
        }
    }

    /// Bytes of heap memory, in constant time.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.writers.memory_bytes() + self.groups.memory_bytes()
    }
}

impl Ledger {
    /// Remembers who wrote an object.
    pub(super) fn note_writer(&mut self, object: ObjectHandle, client: ClientId) {
        let side = self.side_of_mut(object);
        let writer = side.writers.intern(client);
        let entry = side.entries.of_mut(object);
        let before = std::mem::replace(&mut entry.writer, writer);
        side.writers.release(before);
    }

    /// Remembers the checksum of an object.
    pub(super) fn note_checksum(&mut self, object: ObjectHandle, checksum: u64) {
        let entry = self.side_of_mut(object).entries.of_mut(object);
        entry.checksum = checksum;
        entry.has_checksum = true;
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

    /// Makes an object that has no group a member of one.
    pub(super) fn join_group(&mut self, object: ObjectHandle, name: &[u8]) {
        let side = self.side_of_mut(object);
        side.entries.of_mut(object).grouped = true;
        let group = side.groups.find_or_add(name);
        side.groups.join(group, object);
    }

    /// The group of an object, if it has one.
    #[inline]
    pub(super) fn group(&self, object: ObjectHandle) -> Option<GroupId> {
        let groups = &self.side().groups;
        if groups.is_empty() {
            return None;
        }
        self.entry(object).filter(|entry| entry.grouped).map(|_| groups.of(object))
    }

    /// The name of the group of an object, if it has one.
    pub(super) fn group_name(&self, object: ObjectHandle) -> Option<Arc<[u8]>> {
        self.group(object).map(|group| self.groups().name(group).clone())
    }

    /// What the next master is told of an object.
    #[inline]
    pub(super) fn side_record(&self, object: ObjectHandle) -> SideRecord<'_> {
        if self.objects().has_side(object) {
            self.gather_side(object)
        } else {
            SideRecord::default()
        }
    }

    fn gather_side(&self, object: ObjectHandle) -> SideRecord<'_> {
        SideRecord {
            writer: self.writer(object),
            checksum: self.checksum(object),
            data_type: self.data_type(object),
            group: self.group(object).map_or(b"", |group| self.groups().name(group)),
        }
    }

    /// Takes over what the master before has told of an object.
    #[inline]
    pub(super) fn restore_side(&mut self, object: ObjectHandle, record: &SideRecord<'_>) {
        if !record.is_empty() {
            self.note_side(object, record);
        }
    }

    fn note_side(&mut self, object: ObjectHandle, record: &SideRecord<'_>) {
        self.note_data_type(object, record.data_type);
        if let Some(writer) = record.writer {
            self.note_writer(object, writer);
        }
        if let Some(checksum) = record.checksum {
            self.note_checksum(object, checksum);
        }
        if !record.group.is_empty() {
            self.join_group(object, record.group);
        }
    }

    /// All groups.
    pub(super) fn groups(&self) -> &Groups {
        &self.side().groups
    }

    /// All groups, to change.
    pub(super) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.side_mut().groups
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
