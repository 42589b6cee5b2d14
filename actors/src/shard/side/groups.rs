//! Groups: objects that are refreshed and evicted together.
//!
//! A group is a name and its members in this shard. Other shards may have further ones.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::moment::Moment;
use crate::shard::objects::{Column, ObjectHandle};

/// The number of a group among those that a shard knows. After its last member is gone, another
/// group may get it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::shard) struct GroupId(u32);

/// Groups with at least one member.
#[derive(Debug)]
pub(in crate::shard) struct Groups {
    by_name: HashMap<Arc<[u8]>, GroupId>,
    groups: Vec<Group>,
    free: Vec<GroupId>,
    places: Column<Place>,
    /// Members of all groups.
    members: usize,
    /// Groups whose members are walked over, one slice after the other.
    walks: VecDeque<(GroupId, Errand)>,
}

#[derive(Debug)]
struct Group {
    name: Arc<[u8]>,
    members: Vec<ObjectHandle>,
    /// Until when at least one member is leased, here or elsewhere.
    leased_until: Moment,
    /// When the members were refreshed last.
    refreshed: Option<Moment>,
    refresh: Walk,
    eviction: Walk,
}

/// How many members a walk has still to visit; it goes from the last one to the first, so that a
/// member that leaves meanwhile makes it skip none. `None` if there is no walk.
type Walk = Option<usize>;

/// Where a member stands.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    group: GroupId,
    position: u32,
}

/// What a walk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Errand {
    /// The members get a lease.
    Refresh,
    /// The members go.
    Evict,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups {
            by_name: HashMap::new(),
            groups: Vec::new(),
            free: Vec::new(),
            places: Column::new(),
            members: 0,
            walks: VecDeque::new(),
        }
    }

    /// Whether no object has a group.
    #[inline]
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// The group of this name, if it has a member here.
    pub(in crate::shard) fn find(&self, name: &[u8]) -> Option<GroupId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn find_or_add(&mut self, name: &[u8]) -> GroupId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let name: Arc<[u8]> = name.into();
        let group = Group {
            name: name.clone(),
            members: Vec::new(),
            leased_until: Moment::default(),
            refreshed: None,
            refresh: None,
            eviction: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.groups[id.0 as usize] = group;
                id
            }
            None => {
                // A shard has fewer than 2^31 objects, and each group has one of them.
                self.groups.push(group);
                GroupId(self.groups.len() as u32 - 1)
            }
        };
        self.by_name.insert(name, id);
        id
    }

    /// Makes an object without a group a member.
    pub(super) fn join(&mut self, id: GroupId, object: ObjectHandle) {
        let members = &mut self.groups[id.0 as usize].members;
        self.places.add(object, Place { group: id, position: members.len() as u32 });
        members.push(object);
        self.members += 1;
    }

    /// A member leaves; with its last one the group is forgotten.
    pub(super) fn leave(&mut self, object: ObjectHandle) {
        let Place { group: id, position } = self.places.remove(object);
        let group = &mut self.groups[id.0 as usize];
        group.members.swap_remove(position as usize);
        if let Some(moved) = group.members.get(position as usize) {
            self.places.of_mut(*moved).position = position;
        }
        self.members -= 1;
        if group.members.is_empty() {
            group.members = Vec::new();
            let name = std::mem::take(&mut group.name);
            self.by_name.remove(&name);
            self.walks.retain(|(walked, _)| *walked != id);
            self.free.push(id);
        }
    }

    /// The group of a member.
    pub(super) fn of(&self, member: ObjectHandle) -> GroupId {
        self.places.of(member).group
    }

    pub(in crate::shard) fn name(&self, id: GroupId) -> &Arc<[u8]> {
        &self.groups[id.0 as usize].name
    }

    /// Until when some member is leased.
    pub(in crate::shard) fn leased_until(&self, id: GroupId) -> Moment {
        self.groups[id.0 as usize].leased_until
    }

    /// Some member is leased until then. Says whether the members were last refreshed so long ago
    /// that they shall be again; that is then under way.
    pub(in crate::shard) fn lease(
        &mut self,
        id: GroupId,
        now: Moment,
        until: Moment,
        pause_ms: u64,
    ) -> bool {
        let group = &mut self.groups[id.0 as usize];
        group.leased_until = group.leased_until.max(until);
        let due = group.refreshed.is_none_or(|refreshed| now.since_ms(refreshed) >= pause_ms);
        if due {
            group.refreshed = Some(now);
            self.begin(id, Errand::Refresh);
        }
        due
    }

    /// Begins a walk over all members, unless one is under way. Says whether none was.
    pub(in crate::shard) fn begin(&mut self, id: GroupId, errand: Errand) -> bool {
        let group = &mut self.groups[id.0 as usize];
        let members = group.members.len();
        let walk = group.walk(errand);
        if walk.is_some() {
            return false;
        }
        *walk = Some(members);
        self.walks.push_back((id, errand));
        true
    }

    /// The walk whose turn it is.
    pub(in crate::shard) fn walk(&self) -> Option<(GroupId, Errand)> {
        self.walks.front().copied()
    }

    /// The next member of the walk whose turn it is; the walk ends behind the last one.
    pub(in crate::shard) fn step(&mut self) -> Option<ObjectHandle> {
        let (id, errand) = self.walk()?;
        let group = &mut self.groups[id.0 as usize];
        let members = group.members.len();
        let left = group.walk(errand).unwrap_or(0).min(members);
        if left == 0 {
            self.end();
            return None;
        }
        *group.walk(errand) = Some(left - 1);
        Some(group.members[left - 1])
    }

    /// Ends the walk whose turn it is.
    pub(in crate::shard) fn end(&mut self) {
        if let Some((id, errand)) = self.walks.pop_front() {
            *self.groups[id.0 as usize].walk(errand) = None;
        }
    }

    /// Bytes of heap memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places.memory_bytes()
            + self.groups.capacity() * size_of::<Group>()
            + self.by_name.capacity() * size_of::<(Arc<[u8]>, GroupId)>()
            // A list of members has at most twice the places that it needs.
            + self.members * 2 * size_of::<ObjectHandle>()
    }
}

impl Group {
    fn walk(&mut self, errand: Errand) -> &mut Walk {
        match errand {
            Errand::Refresh => &mut self.refresh,
            Errand::Evict => &mut self.eviction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_meets_every_member_that_stays_whoever_leaves_meanwhile() {
        let mut groups = Groups::new();
        let id = groups.find_or_add(b"g");
        let members: Vec<ObjectHandle> = (0..10).map(ObjectHandle).collect();
        for member in &members {
            groups.join(id, *member);
        }
        assert!(groups.begin(id, Errand::Evict));
        let mut met = Vec::new();
        while let Some(member) = groups.step() {
            met.push(member);
            if member == members[7] {
                for leaving in [9, 7, 0] {
                    groups.leave(members[leaving]);
                }
            }
        }
        for member in &members[1..9] {
            assert!(met.contains(member), "{member:?}");
        }
        assert_eq!(groups.walk(), None);
    }

    #[test]
    fn a_group_goes_with_its_last_member_and_with_its_walks() {
        let mut groups = Groups::new();
        let id = groups.find_or_add(b"g");
        groups.join(id, ObjectHandle(3));
        assert!(groups.lease(id, Moment::from_ms(5), Moment::from_ms(15), 5));
        assert!(!groups.lease(id, Moment::from_ms(9), Moment::from_ms(19), 5), "too soon");
        assert_eq!(groups.leased_until(id), Moment::from_ms(19));
        groups.leave(ObjectHandle(3));
        assert!(groups.is_empty() && groups.walk().is_none() && groups.find(b"g").is_none());
        let other = groups.find_or_add(b"h");
        assert_eq!((other, groups.leased_until(other)), (id, Moment::default()));
    }
}
