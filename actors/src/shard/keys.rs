//! The bytes of a shard's keys.
//!
//! Keys are appended to chunks of 256 KiB. A removed key leaves a hole of its own size. A key of
//! just that size may take the hole's place, so a shard whose keys are all of one length needs
//! nothing more. When lengths drift the holes stay, and once they make up an eighth of all bytes
//! the chunks with the most holes are cleaned: the keys that live are appended elsewhere, their
//! objects learn the new addresses, and the chunk's memory goes back. So memory follows the bytes
//! of the living keys whatever their lengths were before.

mod chunk;
mod holes;
mod order;

use std::fmt;

use super::prefetch::prefetch;
use chunk::{Chunk, HEADER_BYTES, Header, record_bytes};
use holes::{Hole, Holes};
use order::DeadOrder;

/// Where a key is stored. Good until the key is removed or [`KeyOwners::key_moved`] says another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct KeyAddress(u32);

impl KeyAddress {
    /// The address that was stored as a plain number.
    pub(crate) fn from_raw(raw: u32) -> KeyAddress {
        KeyAddress(raw)
    }

    /// The address as a plain number.
    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    fn of(chunk: usize, at: usize) -> KeyAddress {
        KeyAddress((chunk * CHUNK_UNITS + at / UNIT_BYTES) as u32)
    }

    fn chunk(self) -> usize {
        self.0 as usize / CHUNK_UNITS
    }

    /// The first byte of the record in its chunk.
    fn at(self) -> usize {
        self.0 as usize % CHUNK_UNITS * UNIT_BYTES
    }
}

/// The shard has no room for another key: its living keys take 16 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key arena of the shard is full")]
pub(crate) struct KeysFull;

/// Those that keys belong to, as cleaning needs them: keys know their owners by number only.
pub(crate) trait KeyOwners {
    /// The bytes of the owner's key.
    fn key_length(&self, owner: u32) -> usize;
    /// The owner's key is stored here from now on.
    fn key_moved(&mut self, owner: u32, to: KeyAddress);
}

/// The arena of keys.
pub(crate) struct Keys {
    chunks: Vec<Chunk>,
    /// Numbers of chunks without memory.
    vacant: Vec<u32>,
    /// The chunk that keys are appended to.
    open: Option<usize>,
    /// The chunk that is being cleaned, and the first byte of the record where to go on.
    cleaning: Option<(usize, usize)>,
    /// All other chunks with enough holes to be cleaned.
    order: DeadOrder,
    holes: Holes,
    used_bytes: usize,
    dead_bytes: usize,
    chunks_max: usize,
}

impl Keys {
    /// An arena without keys.
    pub(crate) fn new() -> Keys {
        Keys {
            chunks: Vec::new(),
            vacant: Vec::new(),
            open: None,
            cleaning: None,
            order: DeadOrder::new(),
            holes: Holes::new(),
            used_bytes: 0,
            dead_bytes: 0,
            chunks_max: CHUNKS_MAX,
        }
    }

    /// Stores a key of 1 to 65,535 bytes for an owner below 2^31. Nothing changes if it is refused.
    pub(crate) fn push(&mut self, owner: u32, key: &[u8]) -> Result<KeyAddress, KeysFull> {
        debug_assert!(!key.is_empty() && key.len() <= usize::from(u16::MAX));
        let size = record_bytes(key.len());
        if let Some(address) = self.fill_hole(owner, key, size) {
            return Ok(address);
        }
        // One chunk is left to cleaning, which would otherwise have nowhere to begin.
        let number = self.open_chunk_with(size, self.chunks_max - 1)?;
        let at = self.chunks[number].append(owner, key);
        self.used_bytes += size;
        Ok(KeyAddress::of(number, at))
    }

    /// The bytes of a key, given its length.
    #[inline]
    pub(crate) fn bytes(&self, address: KeyAddress, length: usize) -> &[u8] {
        let first = address.at() + HEADER_BYTES;
        &self.chunks[address.chunk()].bytes()[first..first + length]
    }

    /// Removes a key, given its length.
    pub(crate) fn remove(&mut self, address: KeyAddress, length: usize) {
        let number = address.chunk();
        let size = record_bytes(length);
        self.bury(number, address.at(), length);
        if self.chunks[number].is_dead() {
            self.release(number);
        } else if self.cleaning.is_none_or(|(cleaned, _)| cleaned != number) {
            let generation = self.chunks[number].generation();
            self.holes.add(size, Hole { address, generation });
            self.rank(number);
        }
    }

    /// Asks the processor for a key, given its length; of a long one for the beginning, after which it
    /// goes on by itself.
    #[inline]
    pub(crate) fn prefetch(&self, address: KeyAddress, length: usize) {
        if let Some(chunk) = self.chunks.get(address.chunk()) {
            let first = address.at();
            let last = first + HEADER_BYTES + length.min(LINES_ASKED_FOR * CACHE_LINE_BYTES) - 1;
            let lines = (first..last).step_by(CACHE_LINE_BYTES).chain([last]);
            for byte in lines.filter_map(|at| chunk.bytes().get(at)) {
                prefetch(byte);
            }
        }
    }

    /// Whether holes take so much that cleaning should keep step with the removals: a step of at
    /// least sixteen times the removed bytes does.
    pub(crate) fn needs_cleaning(&self) -> bool {
        self.holes_exceed(PRESSING_PART, 2 * CHUNK_BYTES)
    }

    /// Whether cleaning is worth the time of an idle shard.
    pub(crate) fn worth_cleaning(&self) -> bool {
        self.holes_exceed(IDLE_PART, CHUNK_BYTES)
    }

    /// Cleans the chunks with the most holes, passing about this many bytes of them at most. Does
    /// nothing if there are hardly any holes.
    pub(crate) fn clean_step(&mut self, budget_bytes: usize, owners: &mut impl KeyOwners) {
        let mut passed = 0;
        while passed < budget_bytes {
            let Some((number, at)) = self.cleaning.or_else(|| self.begin_cleaning()) else {
                return;
            };
            let Some(size) = self.clean_record(number, at, owners) else { return };
            passed += size;
            if self.chunks[number].is_dead() {
                self.release(number);
            } else {
                self.cleaning = Some((number, at + size));
            }
        }
    }

    /// Bytes of heap memory, in constant time.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.chunks.len() - self.vacant.len()) * CHUNK_BYTES
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.order.memory_bytes()
            + self.holes.memory_bytes()
    }

    /// Bytes that the living keys take, with their headers.
    #[cfg(test)]
    pub(crate) fn live_bytes(&self) -> usize {
        self.used_bytes - self.dead_bytes
    }

    fn holes_exceed(&self, part: usize, bytes: usize) -> bool {
        let cleanable = self.cleaning.is_some() || self.order.deadest().is_some();
        cleanable && self.dead_bytes > bytes && self.dead_bytes * part > self.used_bytes
    }

    /// Stores a key in a hole of its size, if one is known.
    fn fill_hole(&mut self, owner: u32, key: &[u8], size: usize) -> Option<KeyAddress> {
        for _ in 0..STALE_HOLES_PER_PUSH {
            let Hole { address, generation } = self.holes.take(size)?;
            let number = address.chunk();
            let chunk = &mut self.chunks[number];
            // Within one generation records keep their places, so the hole is one still.
            if chunk.generation() == generation {
                chunk.fill(address.at(), owner, key);
                self.dead_bytes -= size;
                self.rank(number);
                return Some(address);
            }
        }
        None
    }

    /// The open chunk, or a new one if that has no room.
    fn open_chunk_with(&mut self, size: usize, chunks_max: usize) -> Result<usize, KeysFull> {
        if let Some(number) = self.open.filter(|number| self.chunks[*number].has_room(size)) {
            return Ok(number);
        }
        if self.chunks.len() - self.vacant.len() >= chunks_max {
            return Err(KeysFull);
        }
        let number = match self.vacant.pop() {
            Some(number) => number as usize,
            None => {
                self.chunks.push(Chunk::vacant());
                self.chunks.len() - 1
            }
        };
        self.chunks[number].allocate();
        if let Some(closed) = self.open.replace(number) {
            self.rank(closed);
        }
        Ok(number)
    }

    /// Turns the key of a record into a hole.
    fn bury(&mut self, number: usize, at: usize, length: usize) {
        let chunk = &mut self.chunks[number];
        debug_assert!(matches!(chunk.header(at), Header::Live { .. }), "a key is removed once");
        chunk.bury(at, length);
        self.dead_bytes += record_bytes(length);
    }

    /// Returns the memory of a chunk without living keys; the open one starts over instead.
    fn release(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        self.used_bytes -= chunk.bytes().len();
        self.dead_bytes -= chunk.dead_bytes();
        if self.open == Some(number) {
            chunk.start_over();
            return;
        }
        chunk.give_back();
        self.vacant.push(number as u32);
        self.order.set(number, 0);
        if self.cleaning.is_some_and(|(cleaned, _)| cleaned == number) {
            self.cleaning = None;
        }
    }

    /// Keeps the order of cleaning in step with the holes of a chunk.
    fn rank(&mut self, number: usize) {
        if self.open != Some(number) {
            self.order.set(number, self.chunks[number].dead_bytes() * DEAD_RANKS / CHUNK_BYTES);
        }
    }

    fn begin_cleaning(&mut self) -> Option<(usize, usize)> {
        let number = self.order.deadest()?;
        self.order.set(number, 0);
        // Its holes are not for reuse any more.
        self.chunks[number].start_generation();
        self.cleaning = Some((number, 0));
        self.cleaning
    }

    /// Moves the key of a record elsewhere, if it lives. Returns the bytes of the record; `None`
    /// if there is no room to move it to.
    fn clean_record(
        &mut self,
        number: usize,
        at: usize,
        owners: &mut impl KeyOwners,
    ) -> Option<usize> {
        let owner = match self.chunks[number].header(at) {
            Header::Live { owner } => owner,
            Header::Dead { length } => return Some(record_bytes(length)),
        };
        let length = owners.key_length(owner);
        let size = record_bytes(length);
        let to = self.open_chunk_with(size, self.chunks_max).ok()?;
        let [old, new] = self.chunks.get_disjoint_mut([number, to]).ok()?;
        let new_at = new.append_record(&old.bytes()[at..at + size]);
        self.used_bytes += size;
        self.bury(number, at, length);
        owners.key_moved(owner, KeyAddress::of(to, new_at));
        Some(size)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Keys")
            .field("used_bytes", &self.used_bytes)
            .field("dead_bytes", &self.dead_bytes)
            .finish_non_exhaustive()
    }
}

/// Addresses count in these units: a key wastes at most three bytes, and 32 bits reach 16 GiB.
const UNIT_BYTES: usize = 4;

/// A size class of the allocator, and small enough that cleaning one needs little spare memory.
const CHUNK_BYTES: usize = 256 * 1024;

const CHUNK_UNITS: usize = CHUNK_BYTES / UNIT_BYTES;

/// As many as addresses can tell apart.
const CHUNKS_MAX: usize = (1 << 32) / CHUNK_UNITS;

/// Holes are pressing above an eighth of all bytes: memory stays within 8/7 of the living keys,
/// and a chunk to be cleaned has an eighth of holes at least, so at most seven bytes are moved for
/// each that comes free.
const PRESSING_PART: usize = 8;

/// An idle shard goes on to a sixty-fourth, so that memory after a time of churn is what it was
/// before.
const IDLE_PART: usize = 64;

/// How finely chunks are told apart by their holes. Those with less than one rank are not cleaned.
const DEAD_RANKS: usize = 64;

/// Holes that cleaning has taken away are found out when they are tried; one push tries a few.
const STALE_HOLES_PER_PUSH: usize = 8;

const CACHE_LINE_BYTES: usize = 64;

/// From there on the processor sees for itself that lines follow one another.
const LINES_ASKED_FOR: usize = 4;

#[cfg(test)]
mod tests;
