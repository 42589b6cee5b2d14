//! What the pool is told of the shard's use.

use super::message::ShardEffect;
use super::ranges::{Recency, SegmentIndex};
use super::segments::ShardSegment;
use super::state::{Shard, Urgency};
use crate::pool::message::{SegmentUsage, ShardReport};

impl Shard {
    /// What the shard holds of a segment.
    pub(super) fn usage(&self, segment: &ShardSegment) -> SegmentUsage {
        let ranges = self.ledger.ranges();
        let index = segment.index();
        SegmentUsage {
            mount: segment.mount,
            allocated_bytes: ranges.allocated_bytes(index) - segment.unfinished_bytes,
            held_bytes: ranges.held_bytes(index) + segment.unfinished_bytes,
            leased_bytes: ranges.listed_bytes(index, Recency::Leased),
            pinned_bytes: segment.pinned_bytes,
            free_bytes: ranges.free_bytes(index),
            largest_free_run_bytes: ranges.largest_free_bytes(index),
            evicted_total_bytes: segment.evicted_total_bytes,
        }
    }

    /// Reports the use of segments where it has changed: with [`Urgency::Large`] only where the last
    /// message changed it by so much that the pool should know before the next tick.
    pub(super) fn report_usage(&mut self, urgency: Urgency, effects: &mut Vec<ShardEffect>) {
        let candidates = match urgency {
            Urgency::Large => self.segments.take_touched(),
            Urgency::Any => self.segments.take_changed(),
        };
        let mut usages = Vec::new();
        for index in candidates {
            if let Some(usage) = self.worth_reporting(index, urgency) {
                usages.push(usage);
                self.segments.at_mut(index).reported = Some(usage);
            }
        }
        if !usages.is_empty() {
            effects.push(ShardEffect::Report(ShardReport::Usage(usages)));
        }
    }

    fn worth_reporting(&self, index: SegmentIndex, urgency: Urgency) -> Option<SegmentUsage> {
        let segment = self.segments.get(index).filter(|segment| segment.readable)?;
        if let (Some(reported), Urgency::Large) = (&segment.reported, urgency) {
            // Of the usage only what decides: this is asked with each request.
            let ranges = self.ledger.ranges();
            let used_bytes = ranges.allocated_bytes(index) + ranges.held_bytes(index);
            let reported_bytes = reported.allocated_bytes + reported.held_bytes;
            let large_bytes = (segment.capacity_bytes / LARGE_SHARE).max(1);
            if used_bytes.abs_diff(reported_bytes) < large_bytes {
                return None;
            }
        }
        let usage = self.usage(segment);
        let known = urgency == Urgency::Any && segment.reported == Some(usage);
        (!known).then_some(usage)
    }
}

/// A change of this share of a segment is reported at once: the watermark is then overshot by at
/// most this share for each shard, and a full pool of 12 large segments still costs only one report
/// in thousands of puts.
const LARGE_SHARE: u64 = 512;
