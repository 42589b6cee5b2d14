//! Which chunk has the most holes.

use super::DEAD_RANKS;

/// Chunks by rank. A chunk without a rank isn't listed; its rank is zero.
pub(super) struct DeadOrder {
    by_rank: [Vec<u32>; DEAD_RANKS + 1],
    /// For each chunk its rank, and its place among those of the rank.
    entries: Vec<Entry>,
    /// No chunk has a rank above this one.
    highest: usize,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    rank: u32,
    place: u32,
}

impl DeadOrder {
    pub(super) fn new() -> DeadOrder {
        DeadOrder {
            by_rank: [const { Vec::new() }; DEAD_RANKS + 1],
            entries: Vec::new(),
            highest: 0,
        }
    }

    /// Gives a chunk a rank, at most [`DEAD_RANKS`].
    pub(super) fn set(&mut self, chunk: usize, rank: usize) {
        if chunk >= self.entries.len() {
            self.entries.resize(chunk + 1, Entry::default());
        }
        let Entry { rank: old, place } = self.entries[chunk];
        if old as usize == rank {
            return;
        }
        if old > 0 {
            let others = &mut self.by_rank[old as usize];
            others.swap_remove(place as usize);
            if let Some(moved) = others.get(place as usize) {
                self.entries[*moved as usize].place = place;
            }
        }
        if rank > 0 {
            self.by_rank[rank].push(chunk as u32);
            let place = self.by_rank[rank].len() as u32 - 1;
            self.entries[chunk] = Entry { rank: rank as u32, place };
        } else {
            self.entries[chunk] = Entry::default();
        }
        self.highest = self.highest.max(rank);
        while self.highest > 0 && self.by_rank[self.highest].is_empty() {
            self.highest -= 1;
        }
    }

    /// A chunk of the highest rank.
    pub(super) fn deadest(&self) -> Option<usize> {
        self.by_rank[self.highest].last().map(|chunk| *chunk as usize)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let listed: usize = self.by_rank.iter().map(Vec::capacity).sum();
        listed * size_of::<u32>() + self.entries.capacity() * size_of::<Entry>()
    }
}
