//! Which segments a room request could be met on, and its two answers.

use super::{Candidate, RoomWanted, room};
use crate::moment::Moment;
use crate::pool::Pool;
use crate::pool::message::{PoolEffect, PoolOrder};
use crate::pool::segment::{MountedSegment, Phase};

impl Pool {
    /// Grants free pages of any candidate, if there are enough in one run.
    pub(super) fn grant_free(
        &mut self,
        wanted: &RoomWanted,
        effects: &mut Vec<PoolEffect>,
    ) -> bool {
        let fits = |segment: &&MountedSegment| {
            let pages = segment.pages_for(wanted.size_bytes);
            pages.is_some_and(|pages| pages <= segment.heap.longest_free_pages())
        };
        let best = self
            .eligible(wanted)
            .filter(fits)
            .max_by_key(|segment| segment.bytes(segment.heap.free_pages()))
            .map(|segment| segment.mount);
        let Some(segment) = best.and_then(|mount| self.segments.open(mount)) else { return false };
        let Some(pages) = segment.pages_for(wanted.size_bytes) else { return false };
        let Some(run) = segment.heap.grant(wanted.shard, pages) else { return false };
        let mount = segment.mount;
        self.space.changed(mount.slot);
        effects.push(room(wanted, mount, run));
        true
    }

    /// The segments that can take the object, the one with the most free bytes last: a window there
    /// costs the least. Nearly everything can be evicted nearly everywhere, so that would not tell
    /// one from another.
    pub(super) fn candidates(&self, wanted: &RoomWanted) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = self
            .eligible(wanted)
            .map(|segment| Candidate {
                mount: segment.mount,
                promise_bytes: segment.promise_bytes(),
                free_bytes: segment.space().free_bytes,
            })
            .collect();
        candidates.sort_by_key(|candidate| (candidate.free_bytes, candidate.promise_bytes));
        candidates
    }

    /// Open segments that are large enough and not excluded.
    fn eligible<'a>(
        &'a self,
        wanted: &'a RoomWanted,
    ) -> impl Iterator<Item = &'a MountedSegment> + 'a {
        let slots = self.segments.placeable().iter();
        let segments = slots.filter_map(|&slot| self.segments.at(slot));
        segments.filter(|segment| {
            !wanted.excluded.contains(&segment.mount.slot)
                && segment.pages_for(wanted.size_bytes).is_some()
        })
    }

    /// Says that there is no room, what holds the space, and when to try again.
    pub(super) fn refuse(
        &self,
        now: Moment,
        wanted: &RoomWanted,
        earliest_unblocked: Option<Moment>,
        effects: &mut Vec<PoolEffect>,
    ) {
        let order = PoolOrder::NoRoom {
            number: wanted.number,
            space: self.no_space(),
            retry_after_ms: self.retry_after_ms(now, wanted, earliest_unblocked),
        };
        effects.push(PoolEffect::Order { shard: wanted.shard, order });
    }

    fn retry_after_ms(
        &self,
        now: Moment,
        wanted: &RoomWanted,
        earliest_unblocked: Option<Moment>,
    ) -> Option<u32> {
        // A segment in quarantine or pending will take objects; one that drains never will.
        let rests = self.segments.iter().filter(|segment| {
            !wanted.excluded.contains(&segment.mount.slot)
                && segment.pages_for(wanted.size_bytes).is_some()
        });
        let opens = rests.filter_map(|segment| match segment.phase {
            Phase::Quarantined { until } => Some(until),
            // Its owner may come back at any time; nothing tells when.
            Phase::Pending(pending) if pending.drains_until.is_none() => {
                Some(now.after_ms(RETRY_MS_PENDING))
            }
            Phase::Open | Phase::Draining { .. } | Phase::Pending(_) | Phase::Leaving => None,
        });
        let has_room_beside_pins =
            self.eligible(wanted).any(|segment| fits_beside_pins(segment, wanted.size_bytes));
        let unblocked = earliest_unblocked.filter(|_| has_room_beside_pins);
        let earliest = opens.chain(unblocked).min();
        match earliest {
            Some(at) => {
                let left_ms = at.since_ms(now).clamp(RETRY_MS_MIN, RETRY_MS_MAX);
                Some(u32::try_from(left_ms).unwrap_or(u32::MAX))
            }
            None => self
                .eligible(wanted)
                .any(|segment| may_have_room_later(segment, wanted.size_bytes))
                .then_some(RETRY_MS_UNKNOWN),
        }
    }
}

/// Whether an object could have room on a segment once nothing but hard pins is in its way. Those end
/// only by a removal.
fn fits_beside_pins(segment: &MountedSegment, size_bytes: u64) -> bool {
    segment.capacity_bytes().saturating_sub(segment.used.pinned_bytes) >= size_bytes
}

/// Whether time alone may make that room: something is in the way that has no hard pin. With no pin at
/// all there is, also if the last reports know of nothing: what lay there may have gone while its
/// pages were asked for, as what is at home in another shard does.
fn may_have_room_later(segment: &MountedSegment, size_bytes: u64) -> bool {
    let used = &segment.used;
    let moves = used.pinned_bytes == 0
        || used.allocated_bytes + used.held_bytes > used.pinned_bytes
        || segment.heap.next_expiry().is_some();
    moves && fits_beside_pins(segment, size_bytes)
}

/// Trying again sooner would only meet the same leases.
const RETRY_MS_MIN: u64 = 10;

/// No client sleeps for longer on a hint. A removal or another store may make room sooner, so what ends
/// later still, as the hold of an unfinished put may, is worth another try by then.
const RETRY_MS_MAX: u64 = 10_000;

/// A store that lives is back about as soon.
const RETRY_MS_PENDING: u64 = 1_000;

/// When nothing tells a time: evictions and sweeps under way take about so long.
const RETRY_MS_UNKNOWN: u32 = 50;
