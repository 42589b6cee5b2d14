//! Removal: some keys, all of them, or those of a lost segment.

use std::ops::ControlFlow;

use mooring_proto::SegmentId;
use mooring_proto::error::{ErrorCode, Refusal};

use super::ahead::{LookAhead, Moves};
use super::message::{KeyBatch, ShardEffect, ShardReply};
use super::objects::{ObjectHandle, ObjectState};
use super::ranges::{RangeHandle, RangeState, SegmentIndex};
use super::state::Shard;
use super::vacate::WindowJob;
use crate::moment::Moment;
use crate::pool::message::{Mount, ShardReport};
use crate::request::RequestId;

/// A long job, done in slices.
#[derive(Debug)]
pub(super) enum Sweep {
    /// Every object.
    All { id: RequestId, force: bool, cursor: u32, removed: u64, kept: u64 },
    /// Everything on a lost segment.
    Segment(SegmentIndex),
    /// What lies in a window of pages.
    Window(WindowJob),
}

impl Sweep {
    pub(super) fn all(id: RequestId, force: bool) -> Sweep {
        Sweep::All { id, force, cursor: 0, removed: 0, kept: 0 }
    }
}

impl Shard {
    /// Removes the objects of a batch.
    pub(super) fn remove(
        &mut self,
        now: Moment,
        force: bool,
        batch: &KeyBatch,
    ) -> Vec<Result<(), Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::Out);
        for index in 0..batch.len() {
            ahead.advance(&self.ledger, index);
            let answer = match self.ledger.find(batch.keys[index].hash, batch.key(index)) {
                Some(object) => self.remove_object(now, force, object),
                None => Err(ErrorCode::NotFound.into()),
            };
            answers.push(answer);
        }
        answers
    }

    pub(super) fn remove_object(
        &mut self,
        now: Moment,
        force: bool,
        object: ObjectHandle,
    ) -> Result<(), Refusal> {
        if self.ledger.objects().state(object) == ObjectState::Writing {
            return Err(ErrorCode::NotReadable.into());
        }
        let leased_until = self.ledger.objects().lease_until(object);
        if !self.reachable(object) {
            self.erase(now, object, Some(leased_until));
            return Err(ErrorCode::NotFound.into());
        }
        if !force {
            self.removable(now, object)?;
        }
        self.erase(now, object, Some(leased_until));
        self.counters.removed += 1;
        Ok(())
    }

    /// Takes a mounted segment.
    pub(super) fn mount(
        &mut self,
        mount: Mount,
        segment: SegmentId,
        capacity_bytes: u64,
        page_bytes: u32,
    ) {
        self.segments.mount(mount, segment, capacity_bytes, page_bytes);
        self.ledger.ranges_mut().open_segment(SegmentIndex(mount.slot.0), page_bytes);
    }

    /// Whether an object may be removed without force: nobody leases it.
    pub(super) fn removable(&self, now: Moment, object: ObjectHandle) -> Result<(), Refusal> {
        let leased_until = self.stays_until(object);
        if leased_until <= now {
            return Ok(());
        }
        let retry_after_ms = u32::try_from(leased_until.since_ms(now)).ok();
        Err(Refusal { retry_after_ms, ..ErrorCode::Leased.into() })
    }

    /// Makes everything on a segment unreadable at once and begins to sweep it.
    pub(super) fn lose(&mut self, mount: Mount, effects: &mut Vec<ShardEffect>) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        if segment.lost {
            return;
        }
        let index = segment.index();
        self.segments.lose(index);
        self.sweeps.push_back(Sweep::Segment(index));
        self.room_made = true;
        effects.push(ShardEffect::Report(ShardReport::Confirmed { mount }));
    }

    /// One slice of the first long job.
    pub(super) fn sweep_slice(&mut self, now: Moment, effects: &mut Vec<ShardEffect>) {
        match self.sweeps.pop_front() {
            None => {}
            Some(Sweep::All { id, force, cursor, removed, kept }) => {
                self.sweep_all_slice(now, id, force, cursor, removed, kept, effects);
            }
            Some(Sweep::Segment(index)) => self.sweep_segment_slice(now, index, effects),
            Some(Sweep::Window(job)) => self.work_in_window(now, job, effects),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one sweep")]
    fn sweep_all_slice(
        &mut self,
        now: Moment,
        id: RequestId,
        force: bool,
        mut cursor: u32,
        mut removed: u64,
        mut kept: u64,
        effects: &mut Vec<ShardEffect>,
    ) {
        for _ in 0..SWEPT_MAX / SWEPT_AHEAD {
            let objects = self.objects_from(cursor);
            if objects.is_empty() {
                let reply = ShardReply::Removed { removed, kept };
                effects.push(ShardEffect::Reply { id, reply });
                return;
            }
            for object in objects {
                cursor = object.0 + 1;
                match self.remove_object(now, force, object) {
                    Ok(()) => removed += 1,
                    Err(refusal) if refusal.code == ErrorCode::NotFound => {}
                    Err(_) => kept += 1,
                }
            }
        }
        // Behind the other sweeps, so that none waits for the whole of another one.
        self.sweeps.push_back(Sweep::All { id, force, cursor, removed, kept });
    }

    /// The next objects from a place on, with what their removal touches on its way into the cache.
    fn objects_from(&self, mut cursor: u32) -> Vec<ObjectHandle> {
        let mut found = Vec::with_capacity(SWEPT_AHEAD);
        while found.len() < SWEPT_AHEAD
            && let Some(object) = self.ledger.objects().next_from(cursor)
        {
            cursor = object.0 + 1;
            self.ledger.prefetch_object(object);
            found.push(object);
        }
        let first = |object: &ObjectHandle| self.ledger.first_range(*object);
        self.look_at_replicas(&found.iter().map(first).collect::<Vec<_>>());
        found
    }

    /// The next ranges of a lost segment, with what their end touches on its way into the cache.
    fn ranges_to_sweep(&mut self, index: SegmentIndex) -> Vec<RangeHandle> {
        let ranges = self.ledger.ranges_mut();
        let Some(first) = ranges.first_in(index) else {
            return ranges.first_alien(index).into_iter().collect();
        };
        let mut found = Vec::with_capacity(SWEPT_AHEAD);
        let mut used = Vec::with_capacity(SWEPT_AHEAD);
        self.walk_from(index, Some(first), |range, state| {
            match state {
                RangeState::Free => return ControlFlow::Continue(()),
                RangeState::Used => used.push(range),
                RangeState::Held | RangeState::Foreign => {}
            }
            found.push(range);
            if found.len() < SWEPT_AHEAD {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        self.look_at_replicas(&used);
        found
    }

    fn sweep_segment_slice(
        &mut self,
        now: Moment,
        index: SegmentIndex,
        effects: &mut Vec<ShardEffect>,
    ) {
        let mut budget = SWEPT_MAX;
        while budget > 0 {
            let ranges = self.ranges_to_sweep(index);
            if ranges.is_empty() {
                let mount = self.segments.at(index).mount;
                self.ledger.ranges_mut().close_segment(index);
                let remnants = self.segments.forget(index);
                effects.push(ShardEffect::Report(ShardReport::Swept { mount, remnants }));
                return;
            }
            budget = budget.saturating_sub(ranges.len());
            ranges.into_iter().for_each(|range| self.sweep_range(now, range));
        }
        self.sweeps.push_back(Sweep::Segment(index));
    }

    fn sweep_range(&mut self, now: Moment, range: RangeHandle) {
        match self.ledger.ranges().state(range) {
            RangeState::Held => {
                self.ledger.release_lost_hold(&mut self.segments, range);
                return;
            }
            // Who may still read it is known at the home of its object, which sweeps it too.
            RangeState::Foreign => {
                self.ledger.abroad_mut().forget_home(range);
                self.ledger.ranges_mut().free(range);
                return;
            }
            RangeState::Used | RangeState::Free => {}
        }
        let object = self.ledger.owner(range);
        let in_use_until = match self.put_of(object) {
            Some(put) => put.started.after_ms(self.config.put_release_timeout_ms),
            None => self.ledger.objects().lease_until(object),
        };
        if self.erase_replica(now, range, Some(in_use_until)) {
            self.counters.lost_objects += 1;
        }
    }
}

/// Objects or ranges that one slice of a sweep removes: about 100 µs of work.
const SWEPT_MAX: usize = 128;

/// Of them, those that are looked ahead at once: enough for their misses of the cache to overlap.
const SWEPT_AHEAD: usize = 32;
