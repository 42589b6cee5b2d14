//! Ranges of memory that nobody may be given, because someone may still write or read them.
//!
//! They are kept by address and not by mount: the same memory may be mounted again in other pieces
//! while a writer from before is still at work.

use mooring_actors::Moment;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::Mount;
use mooring_actors::shard::check::{Purpose, Stretch};

use crate::cluster::maps::HashMap;
use crate::store::Place;

/// The guarded ranges of all memories.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    by_memory: Vec<Vec<Guard>>,
}

/// One guarded range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The first moment at which it may be given to somebody else.
    pub(crate) until: Moment,
    pub(crate) sequence: u64,
    /// The mount under which it was handed out.
    pub(crate) mount: Mount,
    /// A writer's guard ends with its put, a reader's only with time.
    pub(crate) of_writer: bool,
}

impl Guards {
    /// Guards a range, or guards it for longer.
    pub(crate) fn add(&mut self, memory: usize, guard: Guard) {
        if self.by_memory.len() <= memory {
            self.by_memory.resize_with(memory + 1, Vec::new);
        }
        let guards = &mut self.by_memory[memory];
        let same = guards.iter_mut().find(|other| {
            (other.from, other.sequence, other.mount, other.of_writer)
                == (guard.from, guard.sequence, guard.mount, guard.of_writer)
        });
        match same {
            Some(same) => same.until = same.until.max(guard.until),
            None => guards.push(guard),
        }
    }

    /// The writer of a put is done.
    pub(crate) fn end_writing(&mut self, sequence: u64) {
        for guards in &mut self.by_memory {
            guards.retain(|guard| !(guard.of_writer && guard.sequence == sequence));
        }
    }

    /// The segments are mounted otherwise with another master, in the same memory.
    pub(crate) fn mounted_again(&mut self, mounts: &HashMap<Mount, Mount>) {
        for guard in self.by_memory.iter_mut().flatten() {
            guard.mount = mounts.get(&guard.mount).copied().unwrap_or(guard.mount);
        }
    }

    /// The process that the memory belonged to has ended, and with it all access.
    pub(crate) fn clear(&mut self, memory: usize) {
        if let Some(guards) = self.by_memory.get_mut(memory) {
            guards.clear();
        }
    }

    /// A master has ended and nobody knows its descriptors any more. Stores that check each access
    /// refuse them, and elsewhere writers are stopped.
    pub(crate) fn end_of_master(&mut self, checks: impl Fn(usize) -> bool) {
        for (memory, guards) in self.by_memory.iter_mut().enumerate() {
            guards.retain(|guard| !guard.of_writer && !checks(memory));
        }
    }

    /// Forgets what is over.
    pub(crate) fn forget_ended(&mut self, now: Moment) {
        for guards in &mut self.by_memory {
            guards.retain(|guard| guard.until > now);
        }
    }

    /// A range may be granted only if nobody else still has it.
    pub(crate) fn check_grant(
        &self,
        now: Moment,
        memory: usize,
        (from, to): (u64, u64),
        sequence: u64,
    ) -> Result<(), Violation> {
        let in_the_way = self.of(memory).find(|guard| {
            guard.until > now && guard.from < to && from < guard.to && guard.sequence != sequence
        });
        match in_the_way {
            None => Ok(()),
            Some(guard) => Err(Invariant::Lease.violated(format!(
                "put {sequence:#x} was granted {from:#x}..{to:#x} of memory {memory} under {guard:?}"
            ))),
        }
    }

    /// What the shards own of a mounted segment must leave every guarded range alone: not free, and
    /// not owned at all if it was handed out under a mount before.
    pub(crate) fn check_mount(
        &self,
        now: Moment,
        mount: Mount,
        place: &Place,
        stretches: &[Stretch],
    ) -> Result<(), Violation> {
        for guard in self.of(place.memory).filter(|guard| guard.until > now) {
            // They stand in order of offset.
            let end = |stretch: &Stretch| place.base + stretch.offset_bytes + stretch.length_bytes;
            let first = stretches.partition_point(|stretch| end(stretch) <= guard.from);
            for stretch in &stretches[first..] {
                let from = place.base + stretch.offset_bytes;
                let to = end(stretch);
                if guard.to <= from {
                    break;
                }
                let in_place = guard.mount == mount
                    && stretch.purpose != Purpose::Free
                    && from == guard.from
                    && guard.to <= to;
                if !in_place {
                    return Err(Invariant::Lease.violated(format!(
                        "{stretch:?} of {mount:?} at {from:#x} lies under {guard:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn of(&self, memory: usize) -> impl Iterator<Item = &Guard> {
        self.by_memory.get(memory).into_iter().flatten()
    }
}
