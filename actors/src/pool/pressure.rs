//! Pressure: when a segment is used above the watermark, the shards are ordered to evict.
//!
//! Orders are absolute: evict until your own count of evicted bytes reaches this. What a shard has
//! been ordered and has not yet reported is its debt, and debt counts as freed already, so a late
//! report doubles nothing.

use super::Pool;
use super::message::{PoolEffect, PoolOrder, SegmentSlot, SegmentUsage};
use super::segment::{MountedSegment, Phase, Share};
use crate::route::ShardId;

/// Where eviction starts and where it stops, as parts of a segment's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watermarks {
    high_ratio: f64,
    low_ratio: f64,
}

impl Watermarks {
    /// Eviction above `high_ratio`, down to `evict_ratio` below it.
    pub(super) fn new(high_ratio: f64, evict_ratio: f64) -> Watermarks {
        let high_ratio = high_ratio.clamp(0.0, 1.0);
        Watermarks { high_ratio, low_ratio: (high_ratio - evict_ratio).max(0.0) }
    }
}

impl Pool {
    /// Takes over what a shard reports, and orders what follows.
    pub(super) fn report_usage(
        &mut self,
        shard: ShardId,
        usages: &[SegmentUsage],
        effects: &mut Vec<PoolEffect>,
    ) {
        for usage in usages {
            let Some(segment) = self.segments.mounted(usage.mount) else { continue };
            segment.report(shard, usage);
            self.space.changed(usage.mount.slot);
            self.relieve(usage.mount.slot, effects);
        }
    }

    /// Brings the eviction orders of a segment in line with its use.
    pub(super) fn relieve(&mut self, slot: SegmentSlot, effects: &mut Vec<PoolEffect>) {
        let marks = self.watermarks;
        let Some(segment) = self.segments.at_mut(slot) else { return };
        let before: Vec<u64> =
            segment.shares.iter().map(|share| share.ordered_total_bytes).collect();
        if segment.phase == Phase::Open {
            settle_debt(segment, marks);
        } else {
            // Nothing is placed here, so nothing has to make room.
            segment.shares.iter_mut().for_each(|share| owe(share, 0));
        }
        let mount = segment.mount;
        for (index, (share, before)) in segment.shares.iter().zip(before).enumerate() {
            if share.ordered_total_bytes != before {
                let evicted_total_bytes = share.ordered_total_bytes;
                let order = PoolOrder::Evict { mount, evicted_total_bytes };
                effects.push(PoolEffect::Order { shard: ShardId(index as u16), order });
            }
        }
    }
}

/// Makes the shards owe what has to go, no more than they can pay and no more than is needed.
fn settle_debt(segment: &mut MountedSegment, marks: Watermarks) {
    let capacity_bytes = segment.capacity_bytes();
    let high_bytes = (capacity_bytes as f64 * marks.high_ratio) as u64;
    let low_bytes = (capacity_bytes as f64 * marks.low_ratio) as u64;
    let used_bytes = segment.used.allocated_bytes + segment.used.held_bytes;
    let owed_bytes: u64 = segment.shares.iter().map(Share::debt_bytes).sum();
    // What a shard can't pay, since it is leased meanwhile, is forgotten; others pay it below.
    for share in &mut segment.shares {
        owe(share, share.debt_bytes().min(share.evictable_bytes()));
    }
    let debt_bytes: u64 = segment.shares.iter().map(Share::debt_bytes).sum();
    let excess_bytes = used_bytes.saturating_sub(low_bytes);
    if used_bytes.saturating_sub(debt_bytes) > high_bytes || debt_bytes < owed_bytes {
        raise_debt(&mut segment.shares, excess_bytes.saturating_sub(debt_bytes));
    } else if debt_bytes > excess_bytes + capacity_bytes / DEBT_SLACK_PART || excess_bytes == 0 {
        lower_debt(&mut segment.shares, debt_bytes, excess_bytes);
    }
}

/// Shares more debt among the shards by what each could still evict.
fn raise_debt(shares: &mut [Share], more_bytes: u64) {
    let spare = |share: &Share| share.evictable_bytes().saturating_sub(share.debt_bytes());
    let spare_bytes: u64 = shares.iter().map(spare).sum();
    if spare_bytes == 0 {
        return;
    }
    for share in shares {
        let part = part_of(more_bytes, spare(share), spare_bytes).min(spare(share));
        owe(share, share.debt_bytes() + part);
    }
}

/// Lets every shard off the same part of its debt: objects were removed otherwise.
fn lower_debt(shares: &mut [Share], debt_bytes: u64, needed_bytes: u64) {
    if debt_bytes == 0 {
        return;
    }
    for share in shares {
        owe(share, part_of(needed_bytes, share.debt_bytes(), debt_bytes).min(share.debt_bytes()));
    }
}

fn owe(share: &mut Share, debt_bytes: u64) {
    share.ordered_total_bytes = share.evicted_total_bytes + debt_bytes;
}

/// `amount × weight / whole`, rounded up.
fn part_of(amount: u64, weight: u64, whole: u64) -> u64 {
    let part = (u128::from(amount) * u128::from(weight)).div_ceil(u128::from(whole));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Orders are taken back only when this part of the segment too much was ordered: less does no
/// harm, and each correction is a message.
const DEBT_SLACK_PART: u64 = 512;
