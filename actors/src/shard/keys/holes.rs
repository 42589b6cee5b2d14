//! Holes that a key of the same size may fill.

use super::{KeyAddress, UNIT_BYTES};

/// A hole, and the generation of its chunk in which it is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) address: KeyAddress,
    pub(super) generation: u32,
}

/// Holes by size, the latest first. Not all of them: what doesn't fit here is left to cleaning.
/// Some may be gone when they are taken: cleaning doesn't look for them.
pub(super) struct Holes {
    by_size: Vec<Vec<Hole>>,
    memory_bytes: usize,
}

impl Holes {
    pub(super) fn new() -> Holes {
        Holes { by_size: Vec::new(), memory_bytes: 0 }
    }

    pub(super) fn add(&mut self, size: usize, hole: Hole) {
        let index = size / UNIT_BYTES;
        if index >= self.by_size.len() {
            self.by_size.resize_with(index + 1, Vec::new);
        }
        let holes = &mut self.by_size[index];
        if holes.len() < HOLES_MAX {
            let capacity = holes.capacity();
            holes.push(hole);
            self.memory_bytes += (holes.capacity() - capacity) * size_of::<Hole>();
        }
    }

    pub(super) fn take(&mut self, size: usize) -> Option<Hole> {
        self.by_size.get_mut(size / UNIT_BYTES)?.pop()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes + self.by_size.capacity() * size_of::<Vec<Hole>>()
    }
}

/// Holes remembered of each size, 32 KiB: more than eviction makes between two batches of puts.
const HOLES_MAX: usize = 4096;
