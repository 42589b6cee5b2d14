//! Where the chain of nodes can be entered in the middle of a long span.

use super::RangeHandle;
use super::slab::Slab;

/// For each block of a segment, the first node that begins in it. End nodes count.
///
/// A sparse table of two levels: regions of the segment without own spans cost a null pointer.
pub(super) struct Landmarks {
    leaves: Vec<Option<Box<Leaf>>>,
}

type Leaf = [RangeHandle; LEAF_BLOCKS];

impl Landmarks {
    pub(super) const fn new() -> Landmarks {
        Landmarks { leaves: Vec::new() }
    }

    /// Takes note of a new node that begins at `granule`.
    pub(super) fn note(&mut self, nodes: &Slab, handle: RangeHandle, granule: u64) {
        let (leaf, slot) = position(block_of(granule));
        if self.leaves.len() <= leaf {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(|| Box::new(EMPTY_LEAF));
        let landmark = &mut leaf[slot];
        if landmark.is_none() || granule < nodes[*landmark].granule() {
            *landmark = handle;
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
        let (leaf, slot) = position(block);
        let Some(Some(leaf)) = self.leaves.get_mut(leaf) else { return };
        if leaf[slot] != handle {
            return;
        }
        leaf[slot] = match successor() {
            Some((next, next_granule)) if block_of(next_granule) == block => next,
            _ => RangeHandle::NONE,
        };
    }

    /// The first node that begins in the block of `granule`.
    pub(super) fn at(&self, granule: u64) -> Option<RangeHandle> {
        self.in_block(block_of(granule))
    }

    /// The last landmark in the blocks after that of `first` and before that of `granule`.
    pub(super) fn last_between(&self, first: u64, granule: u64) -> Option<RangeHandle> {
        let first_block = block_of(first) + 1;
        let mut block = block_of(granule);
        while block > first_block {
            block -= 1;
            let (leaf, slot) = position(block);
            if matches!(self.leaves.get(leaf), None | Some(None)) {
                block -= slot as u64;
            } else if let Some(handle) = self.in_block(block) {
                return Some(handle);
            }
        }
        None
    }

    /// Frees the memory for blocks of a region that has been given back.
    pub(super) fn release(&mut self, first: u64, end: u64) {
        let (first_leaf, _) = position(block_of(first));
        let (last_leaf, _) = position(block_of(end));
        for leaf in self.leaves.iter_mut().take(last_leaf + 1).skip(first_leaf) {
            if leaf.as_ref().is_some_and(|slots| slots.iter().all(|handle| handle.is_none())) {
                *leaf = None;
            }
        }
    }

    /// All landmarks, each with its block's number, in order of blocks.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, RangeHandle)> + '_ {
        let leaves = self.leaves.iter().enumerate();
        leaves.filter_map(|(index, leaf)| Some((index, leaf.as_ref()?))).flat_map(
            |(index, leaf)| {
                let numbers = (index * LEAF_BLOCKS) as u64..;
                numbers.zip(leaf.iter().copied()).filter(|(_, handle)| !handle.is_none())
            },
        )
    }

    fn in_block(&self, block: u64) -> Option<RangeHandle> {
        let (leaf, slot) = position(block);
        let handle = self.leaves.get(leaf)?.as_ref()?[slot];
        (!handle.is_none()).then_some(handle)
    }
}

/// The number of the block in which `granule` lies.
pub(super) const fn block_of(granule: u64) -> u64 {
    granule >> BLOCK_SHIFT
}

const fn position(block: u64) -> (usize, usize) {
    (block as usize / LEAF_BLOCKS, block as usize % LEAF_BLOCKS)
}

/// 1 MiB of 64-byte granules: a few objects of the usual size lie in it, so that a landmark saves a
/// walk and yet costs little for each object.
const BLOCK_SHIFT: u32 = 14;
/// 64 MiB in 256 bytes: small segments stay cheap, and a segment of 1 TiB needs 128 KiB of pointers.
const LEAF_BLOCKS: usize = 64;
const EMPTY_LEAF: Leaf = [RangeHandle::NONE; LEAF_BLOCKS];
