//! The free ranges of a segment, by size: a good fit in constant time.
//!
//! A bin holds the sizes between two neighbouring steps of an eighth of a power of two, so a range
//! from any higher bin fits, and only the request's own bin has to be looked through. Sizes below
//! 16 granules have a bin each.

use super::RangeHandle;
use super::slab::Slab;

/// Lists of free ranges, one for each class of sizes.
///
/// A segment on which few sizes occur has few levels: levels are allocated on first use.
pub(super) struct Bins {
    /// Bit *n*: level *n* has a bin that isn't empty.
    filled: u64,
    /// Bit *n*: level *n* has heads. The heads of all such levels stand in order.
    allocated: u64,
    heads: Vec<[RangeHandle; BINS_PER_LEVEL]>,
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bin {
    level: u32,
    step: usize,
}

impl Bins {
    pub(super) const fn new() -> Bins {
        Bins { filled: 0, allocated: 0, heads: Vec::new() }
    }

    /// Puts a free range of `granules` into its bin.
    pub(super) fn insert(&mut self, nodes: &mut Slab, handle: RangeHandle, granules: u64) {
        let bin = Bin::of(granules);
        let rank = self.allocate_level(bin.level);
        let head = &mut self.heads[rank][bin.step];
        let second = std::mem::replace(head, handle);
        self.filled |= 1 << bin.level;
        let node = &mut nodes[handle];
        node.list_prev = RangeHandle::NONE;
        node.list_next = second;
        if !second.is_none() {
            nodes[second].list_prev = handle;
        }
    }

    /// Takes a free range out of its bin; `granules` is the length that it was put in with.
    pub(super) fn remove(&mut self, nodes: &mut Slab, handle: RangeHandle, granules: u64) {
        let node = &mut nodes[handle];
        let (before, after) = (node.list_prev, node.list_next);
        node.list_prev = RangeHandle::NONE;
        node.list_next = RangeHandle::NONE;
        if !after.is_none() {
            nodes[after].list_prev = before;
        }
        if !before.is_none() {
            nodes[before].list_next = after;
            return;
        }
        let bin = Bin::of(granules);
        let rank = self.rank(bin.level);
        let level = &mut self.heads[rank];
        debug_assert!(level[bin.step] == handle, "the first of a bin is its head");
        level[bin.step] = after;
        if level.iter().all(|head| head.is_none()) {
            self.filled &= !(1 << bin.level);
        }
    }

    /// A free range of at least `granules`: the least wasteful of the first few in the request's
    /// own bin, else any of the next higher bin, else one from further down the own bin.
    ///
    /// Finds one if and only if `granules` is at most [`Bins::largest`].
    pub(super) fn find(&self, nodes: &Slab, granules: u64) -> Option<RangeHandle> {
        let own = Bin::of(granules);
        let mut best: Option<(u64, RangeHandle)> = None;
        let mut rest = self.head(own);
        for _ in 0..BEST_FIT_NODES {
            if rest.is_none() {
                break;
            }
            let length = nodes.length(rest);
            if length == granules {
                return Some(rest);
            }
            if length > granules && best.is_none_or(|(least, _)| length < least) {
                best = Some((length, rest));
            }
            rest = nodes[rest].list_next;
        }
        if let Some((_, handle)) = best {
            return Some(handle);
        }
        if let Some(bin) = self.next_filled(own) {
            return Some(self.head(bin));
        }
        for _ in BEST_FIT_NODES..LAST_RESORT_NODES {
            if rest.is_none() {
                break;
            }
            if nodes.length(rest) >= granules {
                return Some(rest);
            }
            rest = nodes[rest].list_next;
        }
        None
    }

    /// The largest length among the first ranges of the highest filled bin, in granules; 0 if there
    /// are no free ranges.
    ///
    /// It is the largest of all unless that bin holds more than [`LAST_RESORT_NODES`], and then
    /// falls short by less than an eighth.
    pub(super) fn largest(&self, nodes: &Slab) -> u64 {
        let Some(bin) = self.highest_filled() else { return 0 };
        let lengths = self.ranges_in(nodes, bin).map(|handle| nodes.length(handle));
        lengths.take(LAST_RESORT_NODES).max().unwrap_or(0)
    }

    /// The free ranges that may have `granules_min` or more, from the highest bin to the lowest.
    /// The last of them may be a little shorter, because a bin's sizes differ.
    pub(super) fn largest_first<'a>(
        &'a self,
        nodes: &'a Slab,
        granules_min: u64,
    ) -> impl Iterator<Item = RangeHandle> + 'a {
        let lowest = Bin::of(granules_min);
        self.filled_from_highest()
            .take_while(move |bin| *bin >= lowest)
            .flat_map(move |bin| self.ranges_in(nodes, bin))
    }

    /// Every bin that isn't empty: the lengths it is for, as first and last, and its ranges.
    pub(super) fn contents<'a>(
        &'a self,
        nodes: &'a Slab,
    ) -> impl Iterator<Item = (u64, u64, impl Iterator<Item = RangeHandle> + 'a)> + 'a {
        self.filled_from_highest().map(move |bin| {
            let (first, last) = bin.lengths();
            (first, last, self.ranges_in(nodes, bin))
        })
    }

    /// Bytes of heap memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<[RangeHandle; BINS_PER_LEVEL]>()
    }

    /// Whether the bitmap of levels tells exactly which of them are filled.
    pub(super) fn bitmap_is_right(&self) -> bool {
        let filled_by_heads = (0..u64::BITS)
            .filter(|level| self.allocated >> level & 1 == 1)
            .filter(|level| self.heads[self.rank(*level)].iter().any(|head| !head.is_none()))
            .fold(0, |map, level| map | 1 << level);
        filled_by_heads == self.filled && self.heads.len() == self.allocated.count_ones() as usize
    }

    fn ranges_in<'a>(
        &'a self,
        nodes: &'a Slab,
        bin: Bin,
    ) -> impl Iterator<Item = RangeHandle> + 'a {
        let existing = |handle: RangeHandle| (!handle.is_none()).then_some(handle);
        std::iter::successors(existing(self.head(bin)), move |handle| {
            existing(nodes[*handle].list_next)
        })
    }

    fn filled_from_highest(&self) -> impl Iterator<Item = Bin> + '_ {
        (0..u64::BITS)
            .rev()
            .filter(|level| self.filled >> level & 1 == 1)
            .flat_map(|level| (0..BINS_PER_LEVEL).rev().map(move |step| Bin { level, step }))
            .filter(|bin| !self.head(*bin).is_none())
    }

    fn highest_filled(&self) -> Option<Bin> {
        let level = self.filled.checked_ilog2()?;
        let heads = &self.heads[self.rank(level)];
        let step = heads.iter().rposition(|head| !head.is_none())?;
        Some(Bin { level, step })
    }

    /// The lowest filled bin above `bin`.
    fn next_filled(&self, bin: Bin) -> Option<Bin> {
        let Bin { level, step } = bin;
        if self.filled >> level & 1 == 1 {
            let above = &self.heads[self.rank(level)][step + 1..];
            if let Some(further) = above.iter().position(|head| !head.is_none()) {
                return Some(Bin { level, step: step + 1 + further });
            }
        }
        // A request has at most 2^58 granules, so there is always a bit above its level.
        let higher = self.filled & (u64::MAX << (level + 1));
        if higher == 0 {
            return None;
        }
        let level = higher.trailing_zeros();
        let step = self.heads[self.rank(level)].iter().position(|head| !head.is_none())?;
        Some(Bin { level, step })
    }

    fn head(&self, bin: Bin) -> RangeHandle {
        if self.filled >> bin.level & 1 == 0 {
            return RangeHandle::NONE;
        }
        self.heads[self.rank(bin.level)][bin.step]
    }

    /// Where the heads of a level stand, or would stand.
    fn rank(&self, level: u32) -> usize {
        (self.allocated & ((1 << level) - 1)).count_ones() as usize
    }

    fn allocate_level(&mut self, level: u32) -> usize {
        let rank = self.rank(level);
        if self.allocated >> level & 1 == 0 {
            self.heads.insert(rank, [RangeHandle::NONE; BINS_PER_LEVEL]);
            self.allocated |= 1 << level;
        }
        rank
    }
}

impl Bin {
    fn of(granules: u64) -> Bin {
        if granules < BINS_PER_LEVEL as u64 {
            return Bin { level: 0, step: granules as usize };
        }
        let level = granules.ilog2() - STEP_BITS + 1;
        let step = (granules >> (level - 1)) as usize % BINS_PER_LEVEL;
        Bin { level, step }
    }

    /// The first and last length that belong in this bin.
    fn lengths(self) -> (u64, u64) {
        if self.level == 0 {
            return (self.step as u64, self.step as u64);
        }
        let width = 1 << (self.level - 1);
        let first = (BINS_PER_LEVEL + self.step) as u64 * width;
        (first, first + width - 1)
    }
}

const STEP_BITS: u32 = 3;
const BINS_PER_LEVEL: usize = 1 << STEP_BITS;
/// Each node looked at may be a miss of the cache, so a usual allocation looks at few.
const BEST_FIT_NODES: usize = 8;
/// Before a request is refused it is worth looking further. A request for more than a 64th of the
/// segment is never refused in error, because its bin can't hold more ranges than this.
const LAST_RESORT_NODES: usize = 64;
