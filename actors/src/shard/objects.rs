//! The records of a shard's objects: 32 bytes each, by handle.
//!
//! Records stand in chunks and never move, so a handle is good for the life of its object. A new
//! object takes a place in the lowest chunk that has one: objects stay together at the bottom, and
//! chunks further up become empty and go back to the allocator.

mod column;
mod record;

use std::fmt;

use super::idle::IdleClass;
use super::keys::{KeyAddress, KeyOwners};
use super::prefetch::prefetch;
use crate::moment::Moment;

pub(crate) use column::Column;
use record::ObjectRecord;
pub(crate) use record::{Object, ObjectFlags, ObjectState};

/// The number of an object's record. After the object is removed, another one may get it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ObjectHandle(pub(crate) u32);

impl ObjectHandle {
    /// No object.
    pub(crate) const NONE: ObjectHandle = ObjectHandle(u32::MAX);

    fn of(chunk: usize, place: usize) -> ObjectHandle {
        ObjectHandle((chunk * CHUNK_RECORDS + place) as u32)
    }

    fn chunk(self) -> usize {
        self.0 as usize / CHUNK_RECORDS
    }

    fn place(self) -> usize {
        self.0 as usize % CHUNK_RECORDS
    }
}

/// All objects of a shard.
pub(crate) struct Objects {
    chunks: Vec<Chunk>,
    /// One bit for each chunk that has a place for another record.
    with_room: Vec<u64>,
    /// No word of `with_room` before this one has a bit.
    first_word: usize,
    /// Chunks that hold memory.
    allocated: usize,
    /// A chunk that holds memory and no object: one is kept for the next object.
    spare: Option<usize>,
    len: usize,
}

/// Consecutive records. Free ones form a list, the latest first, since that is the likeliest to be
/// in the processor's cache.
struct Chunk {
    records: Vec<ObjectRecord>,
    free_head: u16,
    live: u16,
}

impl Objects {
    /// No objects.
    pub(crate) fn new() -> Objects {
        Objects {
            chunks: Vec::new(),
            with_room: Vec::new(),
            first_word: 0,
            allocated: 0,
            spare: None,
            len: 0,
        }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Stores an object.
    ///
    /// # Panics
    ///
    /// With 2^31 objects, before which the arena of keys is full; and with a size of
    /// 2^48 bytes, which no segment can hold, so that such a put is refused before.
    pub(crate) fn insert(&mut self, object: Object) -> ObjectHandle {
        let number = self.chunk_with_room();
        assert!(number < CHUNKS_MAX, "a shard holds at most 2^31 objects");
        if number == self.chunks.len() {
            self.add_chunk();
        }
        let chunk = &mut self.chunks[number];
        if chunk.records.capacity() == 0 {
            chunk.records.reserve_exact(CHUNK_RECORDS);
            self.allocated += 1;
        }
        let place = chunk.insert(object);
        if chunk.is_full() {
            self.with_room[number / 64] &= !(1 << (number % 64));
            self.find_first_word();
        }
        if self.spare == Some(number) {
            self.spare = None;
        }
        self.len += 1;
        ObjectHandle::of(number, place)
    }

    /// Removes an object and returns what it was.
    pub(crate) fn remove(&mut self, handle: ObjectHandle) -> Object {
        let number = handle.chunk();
        let chunk = &mut self.chunks[number];
        let object = chunk.remove(handle.place());
        self.with_room[number / 64] |= 1 << (number % 64);
        self.first_word = self.first_word.min(number / 64);
        self.len -= 1;
        if self.chunks[number].live == 0 {
            self.keep_one_spare(number);
        }
        object
    }

    /// Whether a handle has an object now.
    #[inline]
    pub(crate) fn live(&self, handle: ObjectHandle) -> bool {
        self.chunks
            .get(handle.chunk())
            .and_then(|chunk| chunk.records.get(handle.place()))
            .is_some_and(|record| !record.is_free())
    }

    /// The first object whose handle is at least `cursor`. A walk goes on from the handle's number
    /// plus one; it meets every object that stays for the whole walk. A call passes at most one
    /// chunk of records.
    pub(crate) fn next_from(&self, cursor: u32) -> Option<ObjectHandle> {
        let start = ObjectHandle(cursor);
        let mut place = start.place();
        for (number, chunk) in self.chunks.iter().enumerate().skip(start.chunk()) {
            if chunk.live > 0 {
                let found = chunk.records.iter().skip(place).position(|record| !record.is_free());
                if let Some(further) = found {
                    return Some(ObjectHandle::of(number, place + further));
                }
            }
            place = 0;
        }
        None
    }

    /// Asks the processor for the record of an object.
    #[inline]
    pub(crate) fn prefetch(&self, handle: ObjectHandle) {
        if let Some(record) =
            self.chunks.get(handle.chunk()).and_then(|chunk| chunk.records.get(handle.place()))
        {
            prefetch(record);
        }
    }

    /// Bytes of heap memory, in constant time.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.allocated * CHUNK_RECORDS * size_of::<ObjectRecord>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.with_room.capacity() * size_of::<u64>()
    }

    /// The lowest chunk with a place; the number of a new one if there is none.
    fn chunk_with_room(&self) -> usize {
        match self.with_room.get(self.first_word) {
            Some(word) if *word != 0 => self.first_word * 64 + word.trailing_zeros() as usize,
            _ => self.chunks.len(),
        }
    }

    fn find_first_word(&mut self) {
        while self.with_room.get(self.first_word) == Some(&0) {
            self.first_word += 1;
        }
    }

    fn add_chunk(&mut self) {
        let number = self.chunks.len();
        self.chunks.push(Chunk { records: Vec::new(), free_head: NO_PLACE, live: 0 });
        if number.is_multiple_of(64) {
            self.with_room.push(0);
        }
        self.with_room[number / 64] |= 1 << (number % 64);
        self.first_word = self.first_word.min(number / 64);
    }

    /// Of two empty chunks the upper one gives its memory back. One stays, so that a shard that
    /// goes back and forth over the border of a chunk doesn't fetch and return it each time.
    fn keep_one_spare(&mut self, emptied: usize) {
        let Some(other) = self.spare.filter(|spare| *spare != emptied) else {
            self.spare = Some(emptied);
            return;
        };
        self.spare = Some(emptied.min(other));
        let returned = &mut self.chunks[emptied.max(other)];
        returned.records = Vec::new();
        returned.free_head = NO_PLACE;
        self.allocated -= 1;
    }
}

/// The fields of the records.
impl Objects {
    /// Where the key of an object is stored.
    #[inline]
    pub(crate) fn key(&self, handle: ObjectHandle) -> KeyAddress {
        self.record(handle).key()
    }

    /// The key of an object is stored here from now on.
    #[inline]
    pub(crate) fn set_key(&mut self, handle: ObjectHandle, key: KeyAddress) {
        self.record_mut(handle).set_key(key);
    }

    /// Bytes of an object's key.
    #[inline]
    pub(crate) fn key_length(&self, handle: ObjectHandle) -> u16 {
        self.record(handle).key_length()
    }

    /// What may be done with an object.
    #[inline]
    pub(crate) fn state(&self, handle: ObjectHandle) -> ObjectState {
        self.record(handle).state()
    }

    /// Changes what may be done with an object.
    #[inline]
    pub(crate) fn set_state(&mut self, handle: ObjectHandle, state: ObjectState) {
        self.record_mut(handle).set_state(state);
    }

    /// The pins of an object.
    #[inline]
    pub(crate) fn flags(&self, handle: ObjectHandle) -> ObjectFlags {
        self.record(handle).flags()
    }

    /// Changes the pins of an object.
    #[inline]
    pub(crate) fn set_flags(&mut self, handle: ObjectHandle, flags: ObjectFlags) {
        self.record_mut(handle).set_flags(flags);
    }

    /// Whether an object has lost a replica since it became readable.
    #[inline]
    pub(crate) fn shrunk(&self, handle: ObjectHandle) -> bool {
        self.record(handle).shrunk()
    }

    /// An object loses a replica while it is readable.
    pub(crate) fn set_shrunk(&mut self, handle: ObjectHandle) {
        self.record_mut(handle).set_shrunk();
    }

    /// Whether an object has side data.
    #[inline]
    pub(crate) fn has_side(&self, handle: ObjectHandle) -> bool {
        self.record(handle).has_side()
    }

    /// An object has side data from now on, for the rest of its life.
    pub(crate) fn set_side(&mut self, handle: ObjectHandle) {
        self.record_mut(handle).set_side();
    }

    /// Bytes of an object's value.
    #[inline]
    pub(crate) fn size_bytes(&self, handle: ObjectHandle) -> u64 {
        self.record(handle).size_bytes()
    }

    /// Until when an object may be read and so stays.
    #[inline]
    pub(crate) fn lease_until(&self, handle: ObjectHandle) -> Moment {
        self.record(handle).lease_until()
    }

    /// Changes until when an object may be read, since it is being accessed: it is idle only from
    /// there on. What is later than 2^47 ms ends there.
    #[inline]
    pub(crate) fn set_lease_until(&mut self, handle: ObjectHandle, until: Moment) {
        let record = self.record_mut(handle);
        record.set_lease_until(until);
        record.set_idle_class(IdleClass::NONE);
    }

    /// Whether an object was read since it was put, or its key had been before.
    #[inline]
    pub(crate) fn reused(&self, handle: ObjectHandle) -> bool {
        self.record(handle).reused()
    }

    /// Remembers that.
    #[inline]
    pub(crate) fn set_reused(&mut self, handle: ObjectHandle) {
        self.record_mut(handle).set_reused();
    }

    /// For how long an object had been idle at the last restart, if nobody has accessed it since.
    pub(crate) fn idle_class(&self, handle: ObjectHandle) -> IdleClass {
        self.record(handle).idle_class()
    }

    /// Remembers for how long an object had been idle before the restart.
    pub(crate) fn set_idle_class(&mut self, handle: ObjectHandle, class: IdleClass) {
        self.record_mut(handle).set_idle_class(class);
    }

    /// The range of an object's first replica.
    #[inline]
    pub(crate) fn first_range(&self, handle: ObjectHandle) -> u32 {
        self.record(handle).first_range()
    }

    /// Changes the range of an object's first replica.
    #[inline]
    pub(crate) fn set_first_range(&mut self, handle: ObjectHandle, range: u32) {
        self.record_mut(handle).set_first_range(range);
    }

    /// The number of the put that made an object.
    #[inline]
    pub(crate) fn sequence(&self, handle: ObjectHandle) -> u64 {
        self.record(handle).sequence()
    }

    #[inline]
    fn record(&self, handle: ObjectHandle) -> &ObjectRecord {
        let record = &self.chunks[handle.chunk()].records[handle.place()];
        debug_assert!(!record.is_free(), "{handle:?} has no object");
        record
    }

    #[inline]
    fn record_mut(&mut self, handle: ObjectHandle) -> &mut ObjectRecord {
        let record = &mut self.chunks[handle.chunk()].records[handle.place()];
        debug_assert!(!record.is_free(), "{handle:?} has no object");
        record
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Objects").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Chunk {
    fn next_place(&self) -> usize {
        if self.free_head == NO_PLACE { self.records.len() } else { usize::from(self.free_head) }
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == CHUNK_RECORDS
    }

    fn insert(&mut self, object: Object) -> usize {
        let place = self.next_place();
        let record = ObjectRecord::new(object);
        if place == self.records.len() {
            self.records.push(record);
        } else {
            self.free_head = self.records[place].next_free();
            self.records[place] = record;
        }
        self.live += 1;
        place
    }

    fn remove(&mut self, place: usize) -> Object {
        let record = &mut self.records[place];
        assert!(!record.is_free(), "an object is removed once");
        let object = record.object();
        *record = ObjectRecord::free(self.free_head);
        self.free_head = place as u16;
        self.live -= 1;
        object
    }
}

impl KeyOwners for Objects {
    fn key_length(&self, owner: u32) -> usize {
        usize::from(self.record(ObjectHandle(owner)).key_length())
    }

    fn key_moved(&mut self, owner: u32, to: KeyAddress) {
        self.record_mut(ObjectHandle(owner)).set_key(to);
    }
}

/// Records in a chunk: 128 KiB, a size class of the allocator.
const CHUNK_RECORDS: usize = 4096;

/// Handles leave one bit to the headers of keys.
const CHUNKS_MAX: usize = (1 << 31) / CHUNK_RECORDS;

/// The end of a list of free records.
const NO_PLACE: u16 = u16::MAX;

#[cfg(test)]
mod tests;
