//! What the pool hands to the next master, and how it begins with what it was handed.

use mooring_proto::error::WireError;

use super::Pool;
use super::config::PoolConfig;
use super::heap::PageOwner;
use super::message::{Generation, Mount, SegmentSlot};
use super::mounting::check_fields;
use super::segment::{MountedSegment, Pending, Phase};
use crate::handoff::{PoolRecord, RemnantRecord, RestoreError, RestoredSegment, SegmentRecord};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::route::ShardId;

impl Pool {
    /// What the next master has to know. The pool should be at rest.
    ///
    /// Pages that are withheld are not named as such: the ranges that they are withheld for are
    /// remembered for the same time, and stand among the remnants.
    pub fn export(&self, now: Moment) -> PoolRecord {
        let mounted = self.segments.iter().filter(|segment| segment.is_mounted());
        let mut remnants = self.remnants.export(now);
        let unswept = self.segments.iter().filter(|segment| !segment.is_mounted());
        remnants.extend(unswept.map(|segment| self.unswept_remnant(now, segment)));
        remnants.sort_by(|one, other| {
            let place = |record: &RemnantRecord| (record.address, record.length_bytes);
            (one.whole, &one.endpoint, place(one)).cmp(&(
                other.whole,
                &other.endpoint,
                place(other),
            ))
        });
        PoolRecord {
            segments: mounted.map(|segment| self.export_segment(now, segment)).collect(),
            remnants,
            generation_max: self.segments.generation_max(),
            epoch: self.epoch,
        }
    }

    fn export_segment(&self, now: Moment, segment: &MountedSegment) -> SegmentRecord {
        let (drains_until, rests_until) = match segment.phase {
            Phase::Draining { until } => (Some(until), None),
            Phase::Quarantined { until } => (None, Some(until)),
            Phase::Pending(pending) => (pending.drains_until, pending.rests_until),
            Phase::Open | Phase::Leaving => (None, None),
        };
        let left_ms = |until: Moment| until.since_ms(now);
        SegmentRecord {
            client: segment.client,
            segment: segment.identity.clone(),
            slot: segment.mount.slot.0,
            generation: segment.mount.generation.0,
            mounted_with: segment
                .pending()
                .map_or(self.config.incarnation, |pending| pending.mounted_with),
            drain_left_ms: drains_until.map(left_ms),
            quarantine_left_ms: rests_until.map(left_ms).filter(|&left_ms| left_ms > 0),
        }
    }

    /// A segment was lost when some shard had nothing to say any more. What may still be in use there
    /// is not known, so all of it rests for as long as anything is held, be it from before.
    fn unswept_remnant(&self, now: Moment, segment: &MountedSegment) -> RemnantRecord {
        let longest_ms = self.config.put_release_timeout_ms.max(self.config.lease_ttl_ms);
        RemnantRecord {
            endpoint: segment.identity.endpoint.clone(),
            address: segment.identity.base,
            length_bytes: segment.identity.size_bytes,
            left_ms: longest_ms.max(self.handed_over_until.since_ms(now)),
            whole: true,
        }
    }

    /// The segments of a record as the next master mounts them, in the same order.
    ///
    /// Each keeps its slot, and all have the generation above any that was handed out in any slot.
    /// So a generation differs from every former one of its slot, of this master and of those before
    /// it, even for a peer that doesn't look at the incarnation.
    ///
    /// # Errors
    /// When a segment is not sound, or does not fit another one.
    pub fn restored_segments(record: &PoolRecord) -> Result<Vec<RestoredSegment>, RestoreError> {
        let generation = record.generation_max.checked_add(1);
        let generation = generation.ok_or_else(|| dangling("the generations are used up"))?;
        let mut slots = None;
        let mut segments = Vec::with_capacity(record.segments.len());
        for known in &record.segments {
            check_fields(&known.segment).map_err(unsound)?;
            if slots >= Some(known.slot) {
                return Err(dangling(&format!("slot {} is out of order", known.slot)));
            }
            slots = Some(known.slot);
            if known.generation > record.generation_max {
                let fault = format!("slot {}: generation {}", known.slot, known.generation);
                return Err(dangling(&fault));
            }
            let slot = SegmentSlot(known.slot);
            let page_bytes = super::heap::page_bytes(known.segment.size_bytes);
            let pages = known.segment.size_bytes / u64::from(page_bytes);
            segments.push(RestoredSegment {
                mount: Mount { slot, generation: Generation(generation) },
                segment: known.segment.segment,
                capacity_bytes: pages * u64::from(page_bytes),
                page_bytes,
            });
        }
        Ok(segments)
    }

    /// A pool with the segments of a record, all pending. Time begins anew: what was left of
    /// anything counts from moment zero, at which the master begins to serve. `owned` names by
    /// shard the pages that its restored ranges lie in; all others are free, but for what is
    /// withheld for a remnant.
    ///
    /// # Errors
    /// When the records don't fit each other, or pages have two owners. Nothing of them may be used
    /// then.
    pub fn restore(
        config: PoolConfig,
        record: &PoolRecord,
        owned: Vec<Vec<(SegmentSlot, Vec<PageRun>)>>,
    ) -> Result<Pool, RestoreError> {
        let first_generation = config.first_generation.max(record.generation_max);
        let mut pool = Pool::new(PoolConfig { first_generation, ..config });
        pool.epoch = record.epoch;
        let restored = Pool::restored_segments(record)?;
        for (known, restored) in record.segments.iter().zip(&restored) {
            pool.restore_segment(known, restored.mount)?;
        }
        if owned.len() != usize::from(pool.config.shards) {
            let fault = format!("pages of {} shards, not {}", owned.len(), pool.config.shards);
            return Err(dangling(&fault));
        }
        for (shard, owned) in pool.shards().zip(owned) {
            for (slot, runs) in owned {
                pool.claim(shard, slot, &runs)?;
            }
        }
        pool.remnants.restore(&record.remnants)?;
        for restored in &restored {
            pool.withhold_restored(restored.mount)?;
        }
        Ok(pool)
    }

    fn restore_segment(&mut self, known: &SegmentRecord, mount: Mount) -> Result<(), RestoreError> {
        let id = known.segment.segment;
        if self.segments.by_id(id).is_some() {
            return Err(dangling(&format!("segment {id} stands twice")));
        }
        if let Some(other) = self.segments.overlapping(known.client, &known.segment).next() {
            let fault = format!("the memory of segments {id} and {}", other.identity.segment);
            return Err(RestoreError::Overlap(fault));
        }
        let pending = Pending {
            until: self.config.pending_timeout_ms.map(Moment::from_ms),
            drains_until: known.drain_left_ms.map(Moment::from_ms),
            rests_until: known.quarantine_left_ms.map(Moment::from_ms),
            mounted_with: known.mounted_with,
        };
        self.segments.insert_at(mount, known.client, known.segment.clone());
        self.segments.set_phase(mount.slot, Phase::Pending(pending));
        self.segments.set_given_up(mount.slot, known.drain_left_ms.is_some());
        if let Some(due) = pending.ends() {
            self.timers.insert((due, mount.slot));
        }
        // Told with the first message, so that nobody has segments without being judged.
        self.changed_clients.insert(known.client);
        Ok(())
    }

    fn claim(
        &mut self,
        shard: ShardId,
        slot: SegmentSlot,
        runs: &[PageRun],
    ) -> Result<(), RestoreError> {
        let Some(segment) = self.segments.at_mut(slot) else {
            return Err(dangling(&format!("pages in slot {}, which is empty", slot.0)));
        };
        for &run in runs.iter().filter(|run| !run.is_empty()) {
            if !segment.heap.claim(shard, run) {
                let fault = format!("slot {}: {run:?} of shard {}", slot.0, shard.0);
                return Err(RestoreError::Overlap(fault));
            }
        }
        Ok(())
    }

    /// Withholds the pages of what may still be in use in a restored segment.
    fn withhold_restored(&mut self, mount: Mount) -> Result<(), RestoreError> {
        let Some(segment) = self.segments.of_mount(mount) else { return Ok(()) };
        for remnant in self.remnants.recall(&segment.identity).ranges {
            let window = segment.pages_of(&remnant);
            let runs = segment.heap.runs_in(window);
            if runs.iter().any(|(_, owner)| matches!(owner, PageOwner::Shard(_))) {
                let fault = format!("slot {}: a range in {window:?} rests", mount.slot.0);
                return Err(RestoreError::Overlap(fault));
            }
            segment.heap.withhold(window, remnant.until);
        }
        if let Some(due) = segment.heap.next_expiry() {
            self.timers.insert((due, mount.slot));
        }
        Ok(())
    }
}

fn dangling(fault: &str) -> RestoreError {
    RestoreError::Dangling(fault.to_owned())
}

fn unsound(error: WireError) -> RestoreError {
    RestoreError::Dangling(error.text)
}
