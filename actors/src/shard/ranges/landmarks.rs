//! Where the chain of nodes can be entered in the middle of a long span.

mod region;

use self::region::{Branch, Leaf, Region};
use super::RangeHandle;
use super::slab::Slab;

/// For each block of a segment, the first node that begins in it. End nodes count.
///
/// A tree of regions, each of them allocated with its first landmark: a segment costs by what lies in
/// it, however large it is.
pub(super) struct Landmarks {
    /// One for each [`Top::BLOCKS`] blocks.
    regions: Vec<Option<Box<Top>>>,
    /// Of all regions.
    region_bytes: usize,
}

/// 256 GiB of a segment.
type Top = Branch<Branch<Leaf>>;

impl Landmarks {
    pub(super) const fn new() -> Landmarks {
        Landmarks { regions: Vec::new(), region_bytes: 0 }
    }

    /// Takes note of a new node that begins at `granule`.
    pub(super) fn note(&mut self, nodes: &Slab, handle: RangeHandle, granule: u64) {
        let block = block_of(granule);
        let landmark = self.in_block(block);
        if landmark.is_none_or(|landmark| granule < nodes[landmark].granule()) {
            self.set(block, handle);
        }
    }

    /// Forgets a node that began at `granule`. `successor` is the next node above it and where that
    /// begins; it is asked for only if the node was a landmark.
    pub(super) fn forget(
        &mut self,
        handle: RangeHandle,
        granule: u64,
        successor: impl FnOnce() -> Option<(RangeHandle, u64)>,
    ) {
        let block = block_of(granule);
        if self.in_block(block) != Some(handle) {
            return;
        }
        let next = successor().filter(|(_, next_granule)| block_of(*next_granule) == block);
        self.set(block, next.map_or(RangeHandle::NONE, |(next, _)| next));
    }

    /// The first node that begins in the block of `granule`.
    pub(super) fn at(&self, granule: u64) -> Option<RangeHandle> {
        self.in_block(block_of(granule))
    }

    /// The last landmark in the blocks after that of `first` and before that of `granule`.
    pub(super) fn last_between(&self, first: u64, granule: u64) -> Option<RangeHandle> {
        let last_block = block_of(granule).checked_sub(1)?;
        let (top, mut block) = position(last_block);
        for index in (0..=top.min(self.regions.len().checked_sub(1)?)).rev() {
            if index < top {
                block = Top::BLOCKS - 1;
            }
            let found = self.regions[index].as_ref().and_then(|region| region.last_up_to(block));
            if let Some((found, handle)) = found {
                let found = index as u64 * Top::BLOCKS + found;
                return (found > block_of(first)).then_some(handle);
            }
        }
        None
    }

    /// Frees the memory for blocks of a stretch that has been given back.
    pub(super) fn release(&mut self, first: u64, end: u64) {
        let ((first_top, first), (last_top, last)) =
            (position(block_of(first)), position(block_of(end)));
        let concerned = self.regions.iter_mut().enumerate().take(last_top + 1).skip(first_top);
        for (index, place) in concerned {
            let from = if index == first_top { first } else { 0 };
            let to = if index == last_top { last } else { Top::BLOCKS - 1 };
            region::release(place, from, to, &mut self.region_bytes);
        }
    }

    /// All landmarks, each with its block's number, in order of blocks.
    pub(super) fn all(&self) -> Vec<(u64, RangeHandle)> {
        let mut all = Vec::new();
        for (index, region) in self.regions.iter().enumerate() {
            if let Some(region) = region {
                region.gather(index as u64 * Top::BLOCKS, &mut all);
            }
        }
        all
    }

    /// Bytes of heap memory, in constant time.
    pub(super) fn memory_bytes(&self) -> usize {
        self.region_bytes + self.regions.capacity() * size_of::<Option<Box<Top>>>()
    }

    fn in_block(&self, block: u64) -> Option<RangeHandle> {
        let (top, block) = position(block);
        self.regions.get(top)?.as_ref()?.at(block).some()
    }

    fn set(&mut self, block: u64, handle: RangeHandle) {
        let (top, block) = position(block);
        if self.regions.len() <= top {
            self.regions.resize_with(top + 1, || None);
        }
        region::set(&mut self.regions[top], block, handle, &mut self.region_bytes);
    }
}

/// The number of the block in which `granule` lies.
pub(super) const fn block_of(granule: u64) -> u64 {
    granule >> BLOCK_SHIFT
}

const fn position(block: u64) -> (usize, u64) {
    ((block / Top::BLOCKS) as usize, block % Top::BLOCKS)
}

/// 1 MiB of 64-byte granules: a few objects of the usual size lie in it, so that a landmark saves a
/// walk and yet costs little for each object.
const BLOCK_SHIFT: u32 = 14;

/// The length of a block.
pub(super) const BLOCK_GRANULES: u64 = 1 << BLOCK_SHIFT;
