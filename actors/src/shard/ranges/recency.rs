//! The recency lists of a segment: used ranges in order of use, linked through their nodes.

use super::node::NodeState;
use super::segment::SegmentRanges;
use super::slab::Slab;
use super::{RangeHandle, Recency};

/// The ends of one list, and how much is in it.
pub(super) struct RecencyList {
    pub(super) oldest: RangeHandle,
    pub(super) newest: RangeHandle,
    pub(super) granules: u64,
}

impl RecencyList {
    pub(super) const EMPTY: RecencyList =
        RecencyList { oldest: RangeHandle::NONE, newest: RangeHandle::NONE, granules: 0 };

    fn push(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let newest = std::mem::replace(&mut self.newest, range);
        let node = &mut nodes[range];
        node.list_prev = newest;
        node.list_next = RangeHandle::NONE;
        match newest.some() {
            Some(newest) => nodes[newest].list_next = range,
            None => self.oldest = range,
        }
    }

    fn remove(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let node = &mut nodes[range];
        let older = std::mem::replace(&mut node.list_prev, RangeHandle::NONE);
        let newer = std::mem::replace(&mut node.list_next, RangeHandle::NONE);
        match older.some() {
            Some(older) => nodes[older].list_next = newer,
            None => self.oldest = newer,
        }
        match newer.some() {
            Some(newer) => nodes[newer].list_prev = older,
            None => self.newest = older,
        }
    }
}

impl SegmentRanges {
    pub(super) fn push_newest(&mut self, nodes: &mut Slab, range: RangeHandle, recency: Recency) {
        assert!(nodes[range].state() != NodeState::Held, "a held range isn't used by anyone");
        if nodes[range].state().listed() == Some(recency) {
            // The usual case, a hot object read again: its length isn't needed, so the node of its
            // neighbour needn't be loaded.
            let list = self.list_mut(recency);
            if list.newest != range {
                list.remove(nodes, range);
                list.push(nodes, range);
            }
            return;
        }
        self.unlist(nodes, range);
        let length = nodes.length(range);
        let list = self.list_mut(recency);
        list.push(nodes, range);
        list.granules += length;
        nodes[range].set_state(NodeState::used(Some(recency)));
    }

    pub(super) fn unlist(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let Some(recency) = nodes[range].state().listed() else { return };
        let length = nodes.length(range);
        let list = self.list_mut(recency);
        list.remove(nodes, range);
        list.granules -= length;
        nodes[range].set_state(NodeState::used(None));
    }

    pub(super) fn oldest(&self, recency: Recency) -> Option<RangeHandle> {
        self.list(recency).oldest.some()
    }

    pub(super) fn listed_granules(&self, recency: Recency) -> u64 {
        self.list(recency).granules
    }

    pub(super) fn list(&self, recency: Recency) -> &RecencyList {
        &self.lists[recency as usize]
    }

    fn list_mut(&mut self, recency: Recency) -> &mut RecencyList {
        &mut self.lists[recency as usize]
    }
}
