//! The invariants of a shard, for tests and simulation.

use std::ops::ControlFlow;

use super::objects::ObjectState;
use super::ranges::RangeState;
use super::state::Shard;
use crate::invariant::{Invariant, Violation};
use crate::pages::PageRun;
use crate::pool::message::Mount;

/// A stretch of a segment that a shard owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first byte, counted from the start of the segment.
    pub offset_bytes: u64,
    /// How many bytes.
    pub length_bytes: u64,
    /// What it is used for.
    pub purpose: Purpose,
}

/// What a stretch of a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing.
    Free,
    /// A readable object.
    Readable,
    /// An object that is being written.
    Writing,
    /// Held.
    Held,
    /// An object of another shard.
    Foreign,
}

impl Shard {
    /// Everything that the shard owns on a mount, in order of offset.
    pub fn stretches(&self, mount: Mount) -> Vec<Stretch> {
        let known = self.segments.all().find(|segment| segment.mount == mount);
        let Some(segment) = known else { return Vec::new() };
        let pages = segment.capacity_bytes / u64::from(segment.page_bytes);
        let whole = PageRun::new(0, u32::try_from(pages).unwrap_or(u32::MAX));
        let mut stretches = Vec::new();
        let ranges = self.ledger.ranges();
        ranges.walk_window(segment.index(), whole, None, |range, state| {
            let purpose = match state {
                RangeState::Free => Purpose::Free,
                RangeState::Held => Purpose::Held,
                RangeState::Foreign => Purpose::Foreign,
                RangeState::Used => match self.ledger.objects().state(self.ledger.owner(range)) {
                    ObjectState::Writing => Purpose::Writing,
                    ObjectState::Readable => Purpose::Readable,
                },
            };
            stretches.push(Stretch {
                offset_bytes: ranges.offset_bytes(range),
                length_bytes: ranges.length_bytes(range),
                purpose,
            });
            ControlFlow::Continue(())
        });
        stretches
    }

    /// Bytes of the spans that the shard owns on a mount.
    pub fn span_bytes(&self, mount: Mount) -> u64 {
        let known = self.segments.all().find(|segment| segment.mount == mount);
        known.map_or(0, |segment| self.ledger.ranges().capacity_bytes(segment.index()))
    }

    /// Checks the structures of the shard against each other and its gauges against what it holds.
    /// Takes time for each object.
    ///
    /// # Errors
    /// The first violation that is found.
    pub fn check(&self) -> Result<(), Violation> {
        self.ledger.check().map_err(|fault| Invariant::OneOwner.violated(fault))?;
        for segment in self.segments.all() {
            let stretches = self.stretches(segment.mount);
            let bytes = |purpose| -> u64 {
                let of_purpose = stretches.iter().filter(|stretch| stretch.purpose == purpose);
                of_purpose.map(|stretch| stretch.length_bytes).sum()
            };
            let usage = self.usage(segment);
            let ranges = self.ledger.ranges();
            // Alien ranges lie in another shard's spans, and are not among the stretches.
            let alien_bytes = ranges.alien_bytes(segment.index());
            let gauges = [
                ("readable", usage.allocated_bytes - alien_bytes, bytes(Purpose::Readable)),
                ("unfinished", segment.unfinished_bytes, bytes(Purpose::Writing)),
                ("held", usage.held_bytes - segment.unfinished_bytes, bytes(Purpose::Held)),
                ("foreign", ranges.foreign_bytes(segment.index()), bytes(Purpose::Foreign)),
                ("free", usage.free_bytes, bytes(Purpose::Free)),
            ];
            for (name, gauge_bytes, held_bytes) in gauges {
                if gauge_bytes != held_bytes {
                    return Err(Invariant::Conservation.violated(format!(
                        "{name} gauge of {:?} is {gauge_bytes}, the ranges have {held_bytes}",
                        segment.mount
                    )));
                }
            }
        }
        let (mut cursor, mut writing) = (0, 0);
        while let Some(object) = self.ledger.objects().next_from(cursor) {
            cursor = object.0 + 1;
            let is_writing = self.ledger.objects().state(object) == ObjectState::Writing;
            writing += usize::from(is_writing);
        }
        if writing != self.unfinished.len() {
            return Err(Invariant::Conservation.violated(format!(
                "{} unfinished puts, {writing} objects are being written",
                self.unfinished.len()
            )));
        }
        Ok(())
    }
}
