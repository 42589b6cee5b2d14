//! Members of a group are refreshed and evicted together.
//!
//! The lease of the object that is read is its own and begins at once. With it the whole group is
//! leased: no member goes meanwhile. That the others become newer too, and what other shards have
//! of the group, follows in slices, at most once in half a lease.

use std::sync::Arc;

use super::message::PeerMessage;
use super::objects::{ObjectHandle, ObjectState};
use super::ranges::RangeHandle;
use super::side::{Errand, GroupId};
use super::state::Shard;
use crate::moment::Moment;
use crate::route::{KeyHash, ShardId};

impl Shard {
    /// Leases an object to a reader, and its group with it.
    #[inline]
    pub(super) fn lease(
        &mut self,
        now: Moment,
        object: ObjectHandle,
        hash: KeyHash,
        until: Moment,
    ) {
        // Reads within one lease are one use.
        if self.ledger.objects().lease_until(object) <= now {
            let size_bytes = self.ledger.objects().size_bytes(object);
            self.reuse.note_use(now, hash, size_bytes);
        }
        self.ledger.lease(object, until);
        if let Some(group) = self.ledger.group(object) {
            self.lease_group(now, group, until);
        }
    }

    fn lease_group(&mut self, now: Moment, group: GroupId, until: Moment) {
        let pause_ms = self.config.lease_ttl_ms / 2;
        if self.ledger.groups_mut().lease(group, now, until, pause_ms) {
            let name = self.ledger.groups().name(group).clone();
            self.hint(|| PeerMessage::GroupLeased { name: name.clone() });
        }
    }

    /// Until when an object stays, for a reader of its own or of its group.
    pub(super) fn stays_until(&self, object: ObjectHandle) -> Moment {
        let own = self.ledger.objects().lease_until(object);
        match self.ledger.group(object) {
            Some(group) => own.max(self.ledger.groups().leased_until(group)),
            None => own,
        }
    }

    /// Whether a replica that is up for eviction stays with its group. Its object is leased like the
    /// others then, as it will be when the walk over the group comes to it.
    pub(super) fn spared_with_group(&mut self, now: Moment, range: RangeHandle) -> bool {
        let object = self.ledger.owner(range);
        let until = self.stays_until(object);
        if until > now {
            self.ledger.lease(object, until);
        }
        until > now
    }

    /// A member was evicted: the rest of its group goes too.
    pub(super) fn evict_group(&mut self, group: Option<Arc<[u8]>>) {
        let Some(name) = group else { return };
        // With its last member the group is gone here, but others may have some.
        let known = self.ledger.groups().find(&name);
        let new = known.is_none_or(|id| self.ledger.groups_mut().begin(id, Errand::Evict));
        if new {
            self.hint(|| PeerMessage::GroupEvicted { name: name.clone() });
        }
    }

    /// Takes what another shard says of a group. It is not passed on.
    pub(super) fn take_group_hint(&mut self, now: Moment, name: &[u8], errand: Errand) {
        let Some(group) = self.ledger.groups().find(name) else { return };
        match errand {
            Errand::Refresh => {
                let until = now.after_ms(self.config.lease_ttl_ms);
                self.ledger.groups_mut().lease(group, now, until, 0);
            }
            Errand::Evict => {
                if self.ledger.groups().leased_until(group) <= now {
                    self.ledger.groups_mut().begin(group, Errand::Evict);
                }
            }
        }
    }

    /// One slice of the walks over groups.
    pub(super) fn walk_groups(&mut self, now: Moment) {
        let until = now.after_ms(self.config.lease_ttl_ms);
        for _ in 0..MEMBERS_MAX {
            let Some((group, errand)) = self.ledger.groups().walk() else { return };
            let leased = self.ledger.groups().leased_until(group) > now;
            // An eviction ends where a reader has come, a refresh where the lease is over already.
            if leased != (errand == Errand::Refresh) {
                self.ledger.groups_mut().end();
                continue;
            }
            let Some(member) = self.ledger.groups_mut().step() else { continue };
            match errand {
                Errand::Refresh => {
                    if self.ledger.objects().state(member) == ObjectState::Readable {
                        self.ledger.lease(member, until);
                    }
                }
                Errand::Evict => self.evict_member(now, member),
            }
        }
    }

    fn evict_member(&mut self, now: Moment, member: ObjectHandle) {
        let objects = self.ledger.objects();
        let flags = objects.flags(member);
        let goes = objects.state(member) == ObjectState::Readable
            && objects.lease_until(member) <= now
            && !flags.hard_pin
            && !flags.soft_pin;
        if goes {
            let replicas: Vec<RangeHandle> = self.ledger.replicas(member).collect();
            for range in replicas {
                self.evict_alone(now, range);
            }
        }
    }

    /// Tells all other shards something of a group, unless too much was told since the last tick.
    fn hint(&mut self, message: impl Fn() -> PeerMessage) {
        if self.hints >= HINTS_MAX {
            return;
        }
        self.hints += 1;
        for number in (0..self.config.route.shards()).filter(|n| *n != self.config.shard.0) {
            self.ledger.abroad_mut().tell(ShardId(number), message());
        }
    }
}

/// Members that one slice visits: about 100 µs of work if all of them are evicted.
const MEMBERS_MAX: usize = 128;

/// Hints that a shard gives between two ticks: a tenth of a shard's time at most goes to those of
/// each other one. What is not told is only refreshed or evicted later.
const HINTS_MAX: usize = 1024;
