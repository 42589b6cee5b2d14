//! Ranges that outlive the loss of their segment.
//!
//! When a segment goes, somebody may still write or read parts of its memory. They are remembered
//! by their addresses behind the endpoint, because the same memory may come back under another
//! segment id, by another client and with other bounds.

use std::collections::{BTreeMap, BTreeSet};

use mooring_proto::message::segment::Segment;

use super::message::Remnant;
use crate::handoff::{RemnantRecord, RestoreError};
use crate::moment::Moment;

/// What may still be written or read behind each endpoint.
#[derive(Debug)]
pub(super) struct Remnants {
    /// By endpoint and address: the end of the range, and until when.
    ranges: BTreeMap<String, BTreeMap<u64, (u64, Moment)>>,
    /// The same in the order in which they end.
    expiries: BTreeSet<(Moment, String, u64)>,
    /// By endpoint: memory of which everything counts as such a range.
    whole: BTreeMap<String, Vec<WholeMemory>>,
    ranges_max: usize,
}

/// What is remembered of the memory of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remembered {
    /// Ranges, counted from the start of the segment.
    pub(super) ranges: Vec<Remnant>,
    /// Until when the whole of it rests.
    pub(super) whole_until: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct WholeMemory {
    from: u64,
    to: u64,
    until: Moment,
}

impl Remnants {
    /// Nothing remembered yet.
    pub(super) fn new() -> Remnants {
        Remnants::with_limit(RANGES_MAX)
    }

    /// The same with another bound on the number of ranges.
    pub(super) fn with_limit(ranges_max: usize) -> Remnants {
        Remnants {
            ranges: BTreeMap::new(),
            expiries: BTreeSet::new(),
            whole: BTreeMap::new(),
            ranges_max,
        }
    }

    /// Remembers what is left of a lost segment.
    pub(super) fn remember(&mut self, now: Moment, memory: &Segment, remnants: &[Remnant]) {
        // What is over may have been handed out since, in other pieces: ranges have to stay disjoint.
        self.forget_expired(now);
        let alive = || remnants.iter().filter(|remnant| remnant.until > now);
        if self.expiries.len() + alive().count() > self.ranges_max {
            if let Some(until) = alive().map(|remnant| remnant.until).max() {
                self.remember_whole(memory, until);
            }
            return;
        }
        for remnant in alive() {
            let from = memory.base.saturating_add(remnant.offset_bytes);
            let to = from.saturating_add(remnant.length_bytes);
            let ranges = self.ranges.entry(memory.endpoint.clone()).or_default();
            let (mut known_to, mut known_until) = (to, remnant.until);
            if let Some((old_to, old_until)) = ranges.remove(&from) {
                self.expiries.remove(&(old_until, memory.endpoint.clone(), from));
                known_to = known_to.max(old_to);
                known_until = known_until.max(old_until);
            }
            ranges.insert(from, (known_to, known_until));
            self.expiries.insert((known_until, memory.endpoint.clone(), from));
        }
    }

    /// Remembers that the whole memory of a lost segment has to rest.
    pub(super) fn remember_whole(&mut self, memory: &Segment, until: Moment) {
        let (from, to) = (memory.base, memory.base.saturating_add(memory.size_bytes));
        let known = self.whole.entry(memory.endpoint.clone()).or_default();
        match known.iter_mut().find(|whole| (whole.from, whole.to) == (from, to)) {
            Some(whole) => whole.until = whole.until.max(until),
            None => known.push(WholeMemory { from, to, until }),
        }
    }

    /// Everything that is not over, in no order.
    pub(super) fn export(&self, now: Moment) -> Vec<RemnantRecord> {
        let record = |endpoint: &String, from, to, until: Moment, whole| RemnantRecord {
            endpoint: endpoint.clone(),
            address: from,
            length_bytes: to - from,
            left_ms: until.since_ms(now),
            whole,
        };
        let ranges = self.ranges.iter().flat_map(|(endpoint, ranges)| {
            let range = |(&from, &(to, until))| record(endpoint, from, to, until, false);
            ranges.iter().map(range)
        });
        let whole = self.whole.iter().flat_map(|(endpoint, known)| {
            known.iter().map(|whole| record(endpoint, whole.from, whole.to, whole.until, true))
        });
        ranges.chain(whole).filter(|record| record.left_ms > 0).collect()
    }

    /// Remembers what a former master has handed over, from the start of time on.
    ///
    /// # Errors
    /// When a record is none of memory, ranges overlap, or there are too many of them.
    pub(super) fn restore(&mut self, records: &[RemnantRecord]) -> Result<(), RestoreError> {
        for record in records.iter().filter(|record| record.left_ms > 0) {
            let RemnantRecord { endpoint, address, length_bytes, .. } = record;
            let fault = || format!("a remnant of {length_bytes} bytes at {endpoint}, {address}");
            let from = *address;
            let to = from.checked_add(*length_bytes).filter(|&to| to > from);
            let to = to.ok_or_else(|| RestoreError::Dangling(fault()))?;
            let until = Moment::from_ms(record.left_ms);
            if record.whole {
                let known = self.whole.entry(endpoint.clone()).or_default();
                known.push(WholeMemory { from, to, until });
                continue;
            }
            let ranges = self.ranges.entry(endpoint.clone()).or_default();
            if ranges.range(..to).next_back().is_some_and(|(_, &(end, _))| end > from) {
                return Err(RestoreError::Overlap(fault()));
            }
            ranges.insert(from, (to, until));
            self.expiries.insert((until, endpoint.clone(), from));
            if self.expiries.len() > self.ranges_max {
                let fault = format!("more than {} remnants", self.ranges_max);
                return Err(RestoreError::Dangling(fault));
            }
        }
        Ok(())
    }

    /// What is remembered of memory that is mounted now; call `forget_expired` before. It stays
    /// remembered, since the new mount may be lost before the time is over.
    pub(super) fn recall(&self, memory: &Segment) -> Remembered {
        let (base, end) = (memory.base, memory.base + memory.size_bytes);
        let mut remembered = Remembered::default();
        if let Some(known) = self.whole.get(&memory.endpoint) {
            remembered.whole_until = known
                .iter()
                .filter(|whole| whole.from < end && base < whole.to)
                .map(|whole| whole.until)
                .max();
        }
        let Some(ranges) = self.ranges.get(&memory.endpoint) else { return remembered };
        // No range is handed out again before its time, so those that are left are disjoint, and
        // walking back ends at the first one that lies wholly below.
        for (&from, &(to, until)) in ranges.range(..end).rev() {
            if to <= base {
                break;
            }
            let from = from.max(base);
            remembered.ranges.push(Remnant {
                offset_bytes: from - base,
                length_bytes: to.min(end) - from,
                until,
            });
        }
        remembered
    }

    /// Forgets what is over.
    pub(super) fn forget_expired(&mut self, now: Moment) {
        while self.expiries.first().is_some_and(|(until, ..)| *until <= now) {
            let Some((_, endpoint, from)) = self.expiries.pop_first() else { return };
            if let Some(ranges) = self.ranges.get_mut(&endpoint) {
                ranges.remove(&from);
                if ranges.is_empty() {
                    self.ranges.remove(&endpoint);
                }
            }
        }
        self.whole.retain(|_, known| {
            known.retain(|whole| whole.until > now);
            !known.is_empty()
        });
    }

    /// How many ranges are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.expiries.len()
    }
}

/// A range takes about 150 bytes here, so this bounds them to some 40 MB. Beyond it the whole
/// memory rests, which is as safe and costs room for one lease or hold.
const RANGES_MAX: usize = 1 << 18;
