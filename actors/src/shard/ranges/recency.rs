//! The recency lists of a segment: used ranges in order of use, linked through their nodes.
//!
//! Aliens that are in none of them are in a list of their own, so that every alien can be found.

use super::node::NodeState;
use super::segment::SegmentRanges;
use super::slab::Slab;
use super::{RangeHandle, Recency};

/// The ends of one list, and how much is in it.
pub(super) struct RecencyList {
    pub(super) oldest: RangeHandle,
    pub(super) newest: RangeHandle,
    /// The newest of those that were restored and not accessed since, which are the oldest of all.
    pub(super) restored: RangeHandle,
    pub(super) granules: u64,
}

impl RecencyList {
    pub(super) const EMPTY: RecencyList = RecencyList {
        oldest: RangeHandle::NONE,
        newest: RangeHandle::NONE,
        restored: RangeHandle::NONE,
        granules: 0,
    };

    /// Adds a range of this length that is in no list.
    pub(super) fn add(&mut self, nodes: &mut Slab, range: RangeHandle, granules: u64) {
        self.push(nodes, range);
        self.granules += granules;
    }

    /// Adds all of another list, in its order, as the newest.
    pub(super) fn append(&mut self, nodes: &mut Slab, newer: RecencyList) {
        let Some(first) = newer.oldest.some() else { return };
        nodes[first].list_prev = self.newest;
        match self.newest.some() {
            Some(newest) => nodes[newest].list_next = first,
            None => self.oldest = first,
        }
        self.newest = newer.newest;
        self.granules += newer.granules;
    }

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

    /// Puts a range that is in no list behind the restored ones.
    fn push_restored(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let older = std::mem::replace(&mut self.restored, range);
        let newer = older.some().map_or(self.oldest, |older| nodes[older].list_next);
        nodes[range].list_prev = older;
        nodes[range].list_next = newer;
        match older.some() {
            Some(older) => nodes[older].list_next = range,
            None => self.oldest = range,
        }
        match newer.some() {
            Some(newer) => nodes[newer].list_prev = range,
            None => self.newest = range,
        }
    }

    fn remove(&mut self, nodes: &mut Slab, range: RangeHandle) {
        if self.restored == range {
            self.restored = nodes[range].list_prev;
        }
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
        let state = nodes[range].state();
        assert!(state.is_used(), "only what an object of this shard uses has a recency");
        if state.listed() == Some(recency) {
            // The usual case, a hot object read again: its length isn't needed, so the node of its
            // neighbour needn't be loaded.
            let list = self.list_mut(recency);
            if list.newest != range || list.restored == range {
                list.remove(nodes, range);
                list.push(nodes, range);
            }
            return;
        }
        self.detach(nodes, range);
        self.attach(nodes, range, Some(recency));
    }

    pub(super) fn push_restored(&mut self, nodes: &mut Slab, range: RangeHandle, recency: Recency) {
        let state = nodes[range].state();
        assert!(state.is_used(), "only what an object of this shard uses has a recency");
        self.detach(nodes, range);
        let length = nodes.length(range);
        nodes[range].set_state(state.moved_to(Some(recency)));
        let list = self.list_mut(recency);
        list.push_restored(nodes, range);
        list.granules += length;
    }

    #[cfg(test)]
    pub(super) fn unlist(&mut self, nodes: &mut Slab, range: RangeHandle) {
        if nodes[range].state().listed().is_some() {
            self.detach(nodes, range);
            self.attach(nodes, range, None);
        }
    }

    /// Takes a range out of the list that it is in, if any. Its state stays.
    pub(super) fn detach(&mut self, nodes: &mut Slab, range: RangeHandle) {
        let length = nodes.length(range);
        if let Some(list) = self.list_of(nodes[range].state()) {
            list.remove(nodes, range);
            list.granules -= length;
        }
    }

    /// Gives a used range that is in no list the state of one in a recency list, or in none, and
    /// puts it where that belongs.
    pub(super) fn attach(
        &mut self,
        nodes: &mut Slab,
        range: RangeHandle,
        recency: Option<Recency>,
    ) {
        let length = nodes.length(range);
        let state = nodes[range].state().moved_to(recency);
        nodes[range].set_state(state);
        if let Some(list) = self.list_of(state) {
            list.add(nodes, range, length);
        }
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

    /// The list in which a node of this state is.
    fn list_of(&mut self, state: NodeState) -> Option<&mut RecencyList> {
        match state.listed() {
            Some(recency) => Some(self.list_mut(recency)),
            None => state.is_alien().then_some(&mut self.unlisted_aliens),
        }
    }

    pub(super) fn list_mut(&mut self, recency: Recency) -> &mut RecencyList {
        &mut self.lists[recency as usize]
    }
}
