//! One node of the slab: a free, used, held or foreign stretch of a span, the end of a span, or an
//! alien range.

use super::{RangeHandle, RangeState, Recency, SegmentIndex};

/// A stretch of a span, linked to its physical neighbours.
///
/// Its length isn't stored: a stretch reaches to where the next node begins, and an end node closes
/// every span. An alien range is in no span; it has no neighbours, and its length stands in their
/// place.
#[derive(Copy, Clone)]
pub(super) struct Node {
    /// Segment, state and offset: 16, 5 and 43 bits from the top.
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
    Foreign = 4,
    Used = 8,
    UsedIdle = 9,
    UsedReused = 10,
    UsedSoftPinned = 11,
    UsedLeased = 12,
    // An alien is a used range with one bit more.
    Alien = 24,
    AlienIdle = 25,
    AlienReused = 26,
    AlienSoftPinned = 27,
    AlienLeased = 28,
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

    /// An alien range of `granules` that is in no list yet.
    pub(super) fn alien(segment: SegmentIndex, granule: u64, granules: u64) -> Node {
        Node {
            prev: RangeHandle((granules >> u32::BITS) as u32),
            next: RangeHandle(granules as u32),
            ..Node::new(segment, NodeState::Alien, granule)
        }
    }

    /// The length of an alien range, in granules.
    pub(super) const fn alien_granules(&self) -> u64 {
        (self.prev.0 as u64) << u32::BITS | self.next.0 as u64
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
            4 => NodeState::Foreign,
            8 => NodeState::Used,
            9 => NodeState::UsedIdle,
            10 => NodeState::UsedReused,
            11 => NodeState::UsedSoftPinned,
            12 => NodeState::UsedLeased,
            24 => NodeState::Alien,
            25 => NodeState::AlienIdle,
            26 => NodeState::AlienReused,
            27 => NodeState::AlienSoftPinned,
            28 => NodeState::AlienLeased,
            _ => NodeState::Vacant,
        }
    }

    /// The state of a used or alien range after it has moved to a recency list, or out of any.
    pub(super) const fn moved_to(self, listed: Option<Recency>) -> NodeState {
        let own = match listed {
            None => NodeState::Used,
            Some(Recency::Idle) => NodeState::UsedIdle,
            Some(Recency::Reused) => NodeState::UsedReused,
            Some(Recency::SoftPinned) => NodeState::UsedSoftPinned,
            Some(Recency::Leased) => NodeState::UsedLeased,
        };
        let alien_bit = NodeState::Used as u8 ^ NodeState::Alien as u8;
        if self.is_alien() { NodeState::from_bits(own as u8 | alien_bit) } else { own }
    }

    pub(super) const fn listed(self) -> Option<Recency> {
        match self {
            NodeState::UsedIdle | NodeState::AlienIdle => Some(Recency::Idle),
            NodeState::UsedReused | NodeState::AlienReused => Some(Recency::Reused),
            NodeState::UsedSoftPinned | NodeState::AlienSoftPinned => Some(Recency::SoftPinned),
            NodeState::UsedLeased | NodeState::AlienLeased => Some(Recency::Leased),
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
            | NodeState::UsedReused
            | NodeState::UsedSoftPinned
            | NodeState::UsedLeased
            | NodeState::Alien
            | NodeState::AlienIdle
            | NodeState::AlienReused
            | NodeState::AlienSoftPinned
            | NodeState::AlienLeased => Some(RangeState::Used),
            NodeState::Foreign => Some(RangeState::Foreign),
        }
    }

    /// Whether the stretch is used, held or foreign.
    pub(super) const fn is_occupied(self) -> bool {
        matches!(
            self.range_state(),
            Some(RangeState::Used | RangeState::Held | RangeState::Foreign)
        )
    }

    /// Whether an object of this shard lies there.
    pub(super) const fn is_used(self) -> bool {
        matches!(self.range_state(), Some(RangeState::Used))
    }

    /// Whether it is an object's range in a span of another shard.
    pub(super) const fn is_alien(self) -> bool {
        matches!(
            self,
            NodeState::Alien
                | NodeState::AlienIdle
                | NodeState::AlienReused
                | NodeState::AlienSoftPinned
                | NodeState::AlienLeased
        )
    }
}

const SEGMENT_SHIFT: u32 = 48;
const STATE_SHIFT: u32 = 43;
const STATE_MASK: u64 = 0x1f;
/// 2^43 granules of 64 bytes are 512 TiB, twice what a run of pages can reach.
const OFFSET_MASK: u64 = (1 << STATE_SHIFT) - 1;
