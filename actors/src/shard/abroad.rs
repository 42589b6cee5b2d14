//! Ranges that lie in another shard's span.
//!
//! After a restart with another number of shards, the shard that holds an object by its key and the
//! shard in whose span one of its ranges lies can be two. The span's owner, the host, has a foreign
//! range there that it neither reads nor evicts; the object's home has an alien range without a
//! place in any span of its own. What becomes of the object is decided at home; the host is told
//! when the range is free or held. What is told matches by offset and put number, so that it can
//! come late or twice.

use std::collections::HashMap;

use super::ledger::Ledger;
use super::message::{PeerMessage, ShardEffect};
use super::ranges::{RangeHandle, RangeState, SegmentIndex};
use super::segments::Segments;
use super::side::Errand;
use super::state::Shard;
use crate::moment::Moment;
use crate::pool::message::{Mount, Remnant};
use crate::route::ShardId;

/// What a shard knows of ranges abroad. Empty unless the number of shards has changed.
#[derive(Debug, Default)]
pub(super) struct Abroad {
    /// The homes of foreign ranges in own spans.
    homes: HashMap<RangeHandle, Home>,
    /// The hosts of own alien ranges.
    hosts: HashMap<RangeHandle, ShardId>,
    /// What other shards must be told.
    outbox: Vec<(ShardId, PeerMessage)>,
}

/// Whose a foreign range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) shard: ShardId,
    /// The alien range there.
    pub(super) alien: RangeHandle,
    /// The put of its object.
    pub(super) sequence: u64,
}

impl Abroad {
    pub(super) fn add_home(&mut self, foreign: RangeHandle, home: Home) {
        self.homes.insert(foreign, home);
    }

    pub(super) fn add_host(&mut self, alien: RangeHandle, host: ShardId) {
        self.hosts.insert(alien, host);
    }

    /// Forgets an alien range; its host is told.
    pub(super) fn leave(
        &mut self,
        alien: RangeHandle,
        mount: Mount,
        offset_bytes: u64,
        sequence: u64,
        held_until: Option<Moment>,
    ) {
        let host = self.hosts.remove(&alien).expect("an alien range has its host");
        let left = PeerMessage::FreeForeign { mount, offset_bytes, sequence, held_until };
        self.outbox.push((host, left));
    }

    /// Forgets a foreign range that goes with its segment.
    pub(super) fn forget_home(&mut self, foreign: RangeHandle) {
        self.homes.remove(&foreign);
    }

    pub(super) fn home(&self, foreign: RangeHandle) -> Option<Home> {
        self.homes.get(&foreign).copied()
    }

    fn take_outbox(&mut self) -> Vec<(ShardId, PeerMessage)> {
        std::mem::take(&mut self.outbox)
    }

    pub(super) fn tell(&mut self, shard: ShardId, message: PeerMessage) {
        self.outbox.push((shard, message));
    }
}

impl Ledger {
    /// The object of a foreign range is gone. Whether that freed or held a range.
    pub(super) fn free_foreign(
        &mut self,
        segments: &mut Segments,
        index: SegmentIndex,
        offset_bytes: u64,
        sequence: u64,
        held_until: Option<Moment>,
    ) -> bool {
        let Some(range) = self.ranges().find_at(index, offset_bytes) else { return false };
        let known = self.abroad().home(range).is_some_and(|home| home.sequence == sequence);
        if !known || self.ranges().state(range) != RangeState::Foreign {
            return false;
        }
        self.abroad_mut().forget_home(range);
        match held_until {
            Some(until) if segments.lost(index) => {
                let length_bytes = self.ranges().length_bytes(range);
                segments.note_remnant(index, Remnant { offset_bytes, length_bytes, until });
                self.ranges_mut().free(range);
            }
            Some(until) => self.restore_hold(range, until),
            None => self.ranges_mut().free(range),
        }
        segments.mark_changed(index);
        true
    }
}

impl Shard {
    /// Takes a message of another shard.
    pub(super) fn take_peer_message(&mut self, now: Moment, message: PeerMessage) {
        match message {
            PeerMessage::FreeForeign { mount, offset_bytes, sequence, held_until } => {
                let Some(segment) = self.segments.of_mount(mount) else { return };
                let index = segment.index();
                let held_until = held_until.filter(|until| *until > now);
                let segments = &mut self.segments;
                self.room_made |=
                    self.ledger.free_foreign(segments, index, offset_bytes, sequence, held_until);
            }
            PeerMessage::EvictAlien { alien, sequence } => {
                if self.ledger.ranges().is_alien(alien)
                    && self.ledger.objects().sequence(self.ledger.owner(alien)) == sequence
                    && self.evictable(now, alien)
                {
                    self.evict(now, alien);
                }
            }
            PeerMessage::GroupLeased { name } => self.take_group_hint(now, &name, Errand::Refresh),
            PeerMessage::GroupEvicted { name } => self.take_group_hint(now, &name, Errand::Evict),
            PeerMessage::Quiesced => self.peers_at_rest += 1,
        }
    }

    /// Asks the home of a foreign range to evict its object.
    pub(super) fn ask_to_evict(&mut self, foreign: RangeHandle) {
        if let Some(home) = self.ledger.abroad().home(foreign) {
            let message = PeerMessage::EvictAlien { alien: home.alien, sequence: home.sequence };
            self.ledger.abroad_mut().tell(home.shard, message);
        }
    }

    /// Sends what other shards must be told.
    pub(super) fn tell_peers(&mut self, effects: &mut Vec<ShardEffect>) {
        for (shard, message) in self.ledger.abroad_mut().take_outbox() {
            effects.push(ShardEffect::Tell { shard, message });
        }
    }
}
