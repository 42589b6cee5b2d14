//! One node of the slab: a free, used or held stretch of a span, or the end of a span.

use super::{RangeHandle, RangeState, Recency, SegmentIndex};

/// A stretch of a span, linked to its physical neighbours.
///
/// Its length isn't stored: a stretch reaches to where the next node begins, and an end node closes
/// every span.
#[derive(Copy, Clone)]
pub(super) struct Node {
    /// Segment, state and offset: 16, 4 and 44 bits from the top.
    packed: u64,
    /// The neighbour below in the same span; none in the first node of a span.
    pub(super) prev: RangeHandle,
    /// The neighbour above in the same span; none in an end node. In a vacant node, the next
    /// vacant one.
    pub(super) next: RangeHandle,
    /// Towards the oldest in a recency list, towards the head in a bin.
    pub(super) list_prev: RangeHandle,
    /// Towards the newest in a recency list, away from the head in a bin.
    pub(super) list_next: RangeHandle,
    pub(super) owner: u32,
    pub(super) sibling: RangeHandle,
}

const _: () = assert!(size_of::<Node>() == 32);

/// What a node is. The recency list of a used range is part of its state, so that it costs nothing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum NodeState {
    Vacant = 0,
    Free = 1,
    End = 2,
    Held = 3,
    Used = 4,
    UsedIdle = 5,
    UsedSoftPinned = 6,
    UsedLeased = 7,
}

impl Node {
    /// A node outside of any span.
    pub(super) const VACANT: Node = Node {
        packed: 0,
        prev: RangeHandle::NONE,
        next: RangeHandle::NONE,
        list_prev: RangeHandle::NONE,
        list_next: RangeHandle::NONE,
        owner: 0,
        sibling: RangeHandle::NONE,
    };

    /// A node that isn't linked to anything yet.
    pub(super) fn new(segment: SegmentIndex, state: NodeState, granule: u64) -> Node {
        debug_assert!(granule <= OFFSET_MASK);
        let packed =
            u64::from(segment.0) << SEGMENT_SHIFT | (state as u64) << STATE_SHIFT | granule;
        Node { packed, ..Node::VACANT }
    }

    pub(super) const fn segment(&self) -> SegmentIndex {
        SegmentIndex((self.packed >> SEGMENT_SHIFT) as u16)
    }

    /// The offset in the segment, in granules.
    pub(super) const fn granule(&self) -> u64 {
        self.packed & OFFSET_MASK
    }

    pub(super) const fn state(&self) -> NodeState {
        NodeState::from_bits((self.packed >> STATE_SHIFT & STATE_MASK) as u8)
    }

    pub(super) fn set_state(&mut self, state: NodeState) {
        self.packed = self.packed & !(STATE_MASK << STATE_SHIFT) | (state as u64) << STATE_SHIFT;
    }
}

impl NodeState {
    const fn from_bits(bits: u8) -> NodeState {
        match bits {
            1 => NodeState::Free,
            2 => NodeState::End,
            3 => NodeState::Held,
            4 => NodeState::Used,
            5 => NodeState::UsedIdle,
            6 => NodeState::UsedSoftPinned,
            7 => NodeState::UsedLeased,
            _ => NodeState::Vacant,
        }
    }

    pub(super) const fn used(listed: Option<Recency>) -> NodeState {
        match listed {
            None => NodeState::Used,
            Some(Recency::Idle) => NodeState::UsedIdle,
            Some(Recency::SoftPinned) => NodeState::UsedSoftPinned,
            Some(Recency::Leased) => NodeState::UsedLeased,
        }
    }

    pub(super) const fn listed(self) -> Option<Recency> {
        match self {
            NodeState::UsedIdle => Some(Recency::Idle),
            NodeState::UsedSoftPinned => Some(Recency::SoftPinned),
            NodeState::UsedLeased => Some(Recency::Leased),
            _ => None,
        }
    }

    /// The state that callers see; none for nodes that they never see.
    pub(super) const fn range_state(self) -> Option<RangeState> {
        match self {
            NodeState::Vacant | NodeState::End => None,
            NodeState::Free => Some(RangeState::Free),
            NodeState::Held => Some(RangeState::Held),
            NodeState::Used
            | NodeState::UsedIdle
            | NodeState::UsedSoftPinned
            | NodeState::UsedLeased => Some(RangeState::Used),
        }
    }

    /// Whether the stretch is used or held.
    pub(super) const fn is_occupied(self) -> bool {
        matches!(self.range_state(), Some(RangeState::Used | RangeState::Held))
    }
}

const SEGMENT_SHIFT: u32 = 48;
const STATE_SHIFT: u32 = 44;
const STATE_MASK: u64 = 0xf;
/// 2^44 granules of 64 bytes are 1 PiB, four times what a run of pages can reach.
const OFFSET_MASK: u64 = (1 << STATE_SHIFT) - 1;
