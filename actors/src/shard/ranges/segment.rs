//! The ranges of one segment: allocating, freeing, holding, and the totals.

use std::collections::BTreeMap;

use super::bins::Bins;
use super::landmarks::Landmarks;
use super::laying::Laying;
use super::node::{Node, NodeState};
use super::recency::RecencyList;
use super::slab::Slab;
use super::{GRANULE_BYTES, RangeHandle, Recency, SegmentIndex};

/// What a shard owns of one segment. The nodes themselves are in the shard's slab.
pub(super) struct SegmentRanges {
    pub(super) index: SegmentIndex,
    pub(super) page_granules: u64,
    /// The spans by their first granule. No two of them touch.
    pub(super) spans: BTreeMap<u64, Span>,
    pub(super) bins: Bins,
    pub(super) landmarks: Landmarks,
    pub(super) lists: [RecencyList; Recency::ALL.len()],
    pub(super) owned: u64,
    /// In own spans.
    pub(super) used: u64,
    pub(super) held: u64,
    pub(super) foreign: u64,
    /// How many ranges these three are.
    pub(super) occupied_ranges: u64,
    pub(super) alien_ranges: u64,
    pub(super) alien: u64,
    /// Aliens that are in no recency list.
    pub(super) unlisted_aliens: RecencyList,
    /// While the ranges of the segment are being laid down.
    pub(super) laying: Option<Laying>,
    /// No occupied range of `spans` begins below this granule. Searches raise it, so that a sweep
    /// doesn't look at swept spans again.
    pub(super) occupied_from: u64,
}

/// A chain of nodes.
#[derive(Copy, Clone)]
pub(super) struct Span {
    pub(super) first: RangeHandle,
    /// The end node, which begins where the span ends.
    pub(super) end: RangeHandle,
}

impl SegmentRanges {
    pub(super) fn new(index: SegmentIndex, page_bytes: u32) -> SegmentRanges {
        assert!(
            page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes),
            "a page has 4 KiB to 64 KiB"
        );
        SegmentRanges {
            index,
            page_granules: u64::from(page_bytes) / GRANULE_BYTES,
            spans: BTreeMap::new(),
            bins: Bins::new(),
            landmarks: Landmarks::new(),
            lists: [RecencyList::EMPTY; Recency::ALL.len()],
            owned: 0,
            used: 0,
            held: 0,
            foreign: 0,
            occupied_ranges: 0,
            alien_ranges: 0,
            alien: 0,
            unlisted_aliens: RecencyList::EMPTY,
            laying: None,
            occupied_from: u64::MAX,
        }
    }

    /// Releases every node of the segment.
    pub(super) fn release_nodes(self, nodes: &mut Slab) {
        self.release_aliens(nodes);
        let laid = self.laying.and_then(|laying| laying.first());
        for first in self.spans.values().map(|span| span.first).chain(laid) {
            let mut rest = first;
            while !rest.is_none() {
                let next = nodes[rest].next;
                nodes.release(rest);
                rest = next;
            }
        }
    }

    pub(super) fn allocate(
        &mut self,
        nodes: &mut Slab,
        granules: u64,
        owner: u32,
    ) -> Option<RangeHandle> {
        let range = self.bins.find(nodes, granules)?;
        let length = nodes.length(range);
        self.bins.remove(nodes, range, length);
        if length > granules {
            self.split(nodes, range, granules, length);
        }
        let node = &mut nodes[range];
        node.set_state(NodeState::Used);
        node.owner = owner;
        node.sibling = RangeHandle::NONE;
        self.used += granules;
        self.occupied_ranges += 1;
        self.occupied_from = node.granule().min(self.occupied_from);
        Some(range)
    }

    pub(super) fn can_fit(&self, nodes: &Slab, granules: u64) -> bool {
        self.bins.find(nodes, granules).is_some()
    }

    pub(super) fn free(&mut self, nodes: &mut Slab, range: RangeHandle) {
        if nodes[range].state().is_alien() {
            self.free_alien(nodes, range);
            return;
        }
        self.withdraw(nodes, range);
        self.occupied_ranges -= 1;
        nodes[range].set_state(NodeState::Free);
        self.settle_free(nodes, range);
    }

    pub(super) fn hold(&mut self, nodes: &mut Slab, range: RangeHandle, owner: u32) {
        let state = nodes[range].state();
        assert!(state != NodeState::Held, "only a used or foreign range becomes held");
        assert!(!state.is_alien(), "an alien range is held in its span");
        self.held += self.withdraw(nodes, range);
        let node = &mut nodes[range];
        node.set_state(NodeState::Held);
        node.owner = owner;
    }

    /// Bytes of memory besides the nodes; of the spans, what their entries take at least.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<SegmentRanges>()
            + self.spans.len() * size_of::<(u64, Span)>()
            + self.bins.memory_bytes()
            + self.landmarks.memory_bytes()
    }

    pub(super) fn owned_granules(&self) -> u64 {
        self.owned
    }

    pub(super) fn allocated_granules(&self) -> u64 {
        self.used + self.alien
    }

    pub(super) fn alien_granules(&self) -> u64 {
        self.alien
    }

    pub(super) fn foreign_granules(&self) -> u64 {
        self.foreign
    }

    pub(super) fn held_granules(&self) -> u64 {
        self.held
    }

    pub(super) fn free_granules(&self) -> u64 {
        self.owned - self.used - self.held - self.foreign
    }

    pub(super) fn largest_free_granules(&self, nodes: &Slab) -> u64 {
        self.bins.largest(nodes)
    }

    /// Takes an occupied range of a span out of its list and out of the total of its state. Returns
    /// its length; the caller gives it another state.
    fn withdraw(&mut self, nodes: &mut Slab, range: RangeHandle) -> u64 {
        self.detach(nodes, range);
        let length = nodes.length(range);
        let total = match nodes[range].state() {
            NodeState::Held => &mut self.held,
            NodeState::Foreign => &mut self.foreign,
            _ => &mut self.used,
        };
        *total -= length;
        length
    }

    /// Merges a free node that is in no bin with its free neighbours, and puts what results into its
    /// bin.
    pub(super) fn settle_free(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let mut merged = range;
        let below = nodes[range].prev;
        if !below.is_none() && nodes[below].state() == NodeState::Free {
            self.bins.remove(nodes, below, nodes.length(below));
            self.absorb_next(nodes, below);
            merged = below;
        }
        let above = nodes[merged].next;
        if nodes[above].state() == NodeState::Free {
            self.bins.remove(nodes, above, nodes.length(above));
            self.absorb_next(nodes, merged);
        }
        self.bins.insert(nodes, merged, nodes.length(merged));
    }

    /// Makes a new node, which isn't linked to anything yet.
    pub(super) fn insert_node(
        &mut self,
        nodes: &mut Slab,
        state: NodeState,
        granule: u64,
    ) -> RangeHandle {
        let handle = nodes.insert(Node::new(self.index, state, granule));
        self.landmarks.note(nodes, handle, granule);
        handle
    }

    /// Cuts a node of `length` that is in no bin: what is above `granules` becomes a free node in
    /// its bin.
    fn split(&mut self, nodes: &mut Slab, range: RangeHandle, granules: u64, length: u64) {
        let start = nodes[range].granule();
        let above = nodes[range].next;
        let rest = self.insert_node(nodes, NodeState::Free, start + granules);
        nodes.link(range, rest);
        nodes.link(rest, above);
        self.bins.insert(nodes, rest, length - granules);
    }

    /// Lets a node reach over the next one, which is in no bin and ceases to be.
    fn absorb_next(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let absorbed = nodes[range].next;
        let above = nodes[absorbed].next;
        nodes.link(range, above);
        let granule = nodes[absorbed].granule();
        self.landmarks.forget(absorbed, granule, || Some((above, nodes[above].granule())));
        nodes.release(absorbed);
    }
}

const PAGE_BYTES_MIN: u32 = 4 << 10;
pub(super) const PAGE_BYTES_MAX: u32 = 64 << 10;
