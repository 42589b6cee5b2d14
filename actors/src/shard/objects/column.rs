//! What only some objects have, by handle: dense entries in chunks that exist where one is used.

use super::{CHUNK_RECORDS, ObjectHandle};

/// Entries beside the records of objects. A shard whose objects have none pays nothing.
#[derive(Debug)]
pub(crate) struct Column<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks that hold memory.
    allocated: usize,
    /// A chunk that holds memory and no entry: one is kept for the next entry.
    spare: Option<usize>,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Empty, or one for each record of the chunk.
    entries: Vec<T>,
    used: u16,
}

impl<T: Copy + Default> Column<T> {
    /// No entries.
    pub(crate) fn new() -> Column<T> {
        Column { chunks: Vec::new(), allocated: 0, spare: None }
    }

    /// Makes the entry of an object that has none.
    pub(crate) fn add(&mut self, handle: ObjectHandle, entry: T) {
        let number = handle.chunk();
        if number >= self.chunks.len() {
            self.chunks.resize_with(number + 1, || Chunk { entries: Vec::new(), used: 0 });
        }
        let chunk = &mut self.chunks[number];
        if chunk.entries.is_empty() {
            chunk.entries = vec![T::default(); CHUNK_RECORDS];
            self.allocated += 1;
        }
        chunk.entries[handle.place()] = entry;
        chunk.used += 1;
        if self.spare == Some(number) {
            self.spare = None;
        }
    }

    /// Removes the entry of an object that has one.
    pub(crate) fn remove(&mut self, handle: ObjectHandle) -> T {
        let number = handle.chunk();
        let chunk = &mut self.chunks[number];
        chunk.used -= 1;
        let emptied = chunk.used == 0;
        let entry = std::mem::take(&mut chunk.entries[handle.place()]);
        if emptied {
            self.keep_one_spare(number);
        }
        entry
    }

    /// The entry of an object that has one.
    #[inline]
    pub(crate) fn of(&self, handle: ObjectHandle) -> &T {
        &self.chunks[handle.chunk()].entries[handle.place()]
    }

    /// The entry of an object that has one, to change.
    pub(crate) fn of_mut(&mut self, handle: ObjectHandle) -> &mut T {
        &mut self.chunks[handle.chunk()].entries[handle.place()]
    }

    /// Bytes of heap memory, in constant time.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.allocated * CHUNK_RECORDS * size_of::<T>()
            + self.chunks.capacity() * size_of::<Chunk<T>>()
    }

    /// Of two empty chunks the upper one gives its memory back, as with the records.
    fn keep_one_spare(&mut self, emptied: usize) {
        let Some(other) = self.spare.replace(emptied) else { return };
        self.spare = Some(emptied.min(other));
        self.chunks[emptied.max(other)].entries = Vec::new();
        self.allocated -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_objects_and_chunks_without_any_give_their_memory_back() {
        let mut column = Column::new();
        assert_eq!(column.memory_bytes(), 0);
        let handles: Vec<ObjectHandle> =
            (0..4).map(|number| ObjectHandle(number * CHUNK_RECORDS as u32 + 7)).collect();
        for handle in &handles {
            column.add(*handle, u64::from(handle.0));
        }
        *column.of_mut(handles[2]) += 1;
        assert_eq!(*column.of(handles[1]), u64::from(handles[1].0));
        let full_bytes = column.memory_bytes();
        for handle in &handles {
            let expected = u64::from(handle.0) + u64::from(*handle == handles[2]);
            assert_eq!(column.remove(*handle), expected);
        }
        let chunk_bytes = CHUNK_RECORDS * size_of::<u64>();
        assert_eq!(full_bytes - column.memory_bytes(), 3 * chunk_bytes, "one chunk is kept");
        column.add(handles[0], 5);
        assert_eq!(*column.of(handles[0]), 5);
        assert_eq!(full_bytes - column.memory_bytes(), 3 * chunk_bytes, "the spare one is used");
    }
}
