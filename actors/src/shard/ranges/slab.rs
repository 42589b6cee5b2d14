//! The slab of all nodes of a shard: it grows by chunks and never moves a node.

use std::ops::{Index, IndexMut};

use super::RangeHandle;
use super::node::{Node, NodeState};

/// Nodes by handle. Released handles are used again, the latest first, because their nodes are the
/// likeliest to be in the processor's cache.
pub(super) struct Slab {
    chunks: Vec<Box<[Node; CHUNK_NODES]>>,
    /// Handles below this have been handed out at least once.
    fresh: u32,
    /// The latest released node; the others follow through `next`.
    vacant: RangeHandle,
    live: u32,
}

impl Slab {
    pub(super) const fn new() -> Slab {
        Slab { chunks: Vec::new(), fresh: 0, vacant: RangeHandle::NONE, live: 0 }
    }

    /// How many nodes are in use.
    pub(super) const fn live(&self) -> u32 {
        self.live
    }

    /// Bytes of memory that the nodes take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Node; CHUNK_NODES]>()
    }

    /// Stores `node` and returns its handle.
    ///
    /// Panics at 2^32 − 1 nodes, which would take 128 GiB.
    #[inline]
    pub(super) fn insert(&mut self, node: Node) -> RangeHandle {
        self.live += 1;
        let handle = self.vacant;
        if handle.is_none() {
            return self.insert_fresh(node);
        }
        self.vacant = self[handle].next;
        self[handle] = node;
        handle
    }

    /// Makes the handle of a node free for another.
    pub(super) fn release(&mut self, handle: RangeHandle) {
        debug_assert!(self[handle].state() != NodeState::Vacant, "a node is released once");
        let next = std::mem::replace(&mut self.vacant, handle);
        let node = &mut self[handle];
        *node = Node::VACANT;
        node.next = next;
        self.live -= 1;
    }

    /// Makes two nodes physical neighbours.
    pub(super) fn link(&mut self, below: RangeHandle, above: RangeHandle) {
        self[below].next = above;
        self[above].prev = below;
    }

    /// Length of a node in granules. An end node has none.
    pub(super) fn length(&self, handle: RangeHandle) -> u64 {
        let node = &self[handle];
        if node.state().is_alien() {
            return node.alien_granules();
        }
        self[node.next].granule() - node.granule()
    }

    #[inline]
    fn insert_fresh(&mut self, node: Node) -> RangeHandle {
        let handle = RangeHandle(self.fresh);
        assert!(!handle.is_none(), "the slab of ranges is full");
        if self.fresh as usize == self.chunks.len() * CHUNK_NODES {
            self.chunks.push(vacant_chunk());
        }
        self.fresh += 1;
        self[handle] = node;
        handle
    }
}

impl Index<RangeHandle> for Slab {
    type Output = Node;

    fn index(&self, handle: RangeHandle) -> &Node {
        let index = handle.0 as usize;
        &self.chunks[index / CHUNK_NODES][index % CHUNK_NODES]
    }
}

impl IndexMut<RangeHandle> for Slab {
    fn index_mut(&mut self, handle: RangeHandle) -> &mut Node {
        let index = handle.0 as usize;
        &mut self.chunks[index / CHUNK_NODES][index % CHUNK_NODES]
    }
}

/// A chunk that was built on the heap, because it is too large for the stack of a debug build.
fn vacant_chunk() -> Box<[Node; CHUNK_NODES]> {
    let Ok(chunk) = vec![Node::VACANT; CHUNK_NODES].into_boxed_slice().try_into() else {
        unreachable!("the vector has the length of a chunk")
    };
    chunk
}

/// 128 KiB, which is a size class of jemalloc, so nothing is wasted.
const CHUNK_NODES: usize = 4096;
