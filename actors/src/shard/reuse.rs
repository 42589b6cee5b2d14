//! What a shard learns of reuse: which of two idle objects is likelier to be read again.
//!
//! Most blocks of a cache are never read after they were put; a block that was read once is often
//! read again. So idle objects are in two lists, those never read and those that were, and the next
//! victim is the oldest of one of them. Which of the two depends on a *weight*: a reused object may
//! be idle for so many times as long as one that was never read before it goes first. With a weight
//! of one that is least-recently-used.
//!
//! No weight suits every load. [`Trials`] replay a sample of the keys on small models, one for each
//! weight, and the weight whose model would have found most is the shard's. What was evicted and is
//! put again was missed by somebody, so it counts as reused; [`Ghosts`] remember it in two bytes.

mod ghosts;
#[cfg(test)]
mod tests;
mod trial;
mod trials;

use self::ghosts::Ghosts;
pub use self::trial::Trial;
pub use self::trials::Trials;
use crate::moment::Moment;
use crate::route::KeyHash;

/// In which order idle objects go. Leases and pins come before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// What was read again stays longer than what never was, by as much as pays on the load at hand.
    #[default]
    Adaptive,
    /// What was used least recently goes first.
    Lru,
}

/// Whether something that was never reused goes before something that was, after idle times in
/// milliseconds.
pub(super) fn idle_goes_first(idle_ms: u64, reused_idle_ms: u64, weight: u64) -> bool {
    // Within one millisecond a weight would count for nothing.
    idle_ms.saturating_add(1).saturating_mul(weight) > reused_idle_ms
}

/// What a shard has learnt.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    learnt: Option<Learnt>,
}

#[derive(Debug, Default)]
struct Learnt {
    trials: Trials,
    ghosts: Ghosts,
}

impl Reuse {
    pub(super) fn new(policy: EvictionPolicy) -> Reuse {
        Reuse { learnt: (policy == EvictionPolicy::Adaptive).then(Learnt::default) }
    }

    /// For how many times as long a reused object may be idle before it goes first.
    pub(super) fn weight(&self) -> u64 {
        self.learnt.as_ref().map_or(1, |learnt| learnt.trials.weight())
    }

    /// Somebody wanted a key: read it for the first time in a lease, or missed it and puts it.
    #[inline]
    pub(super) fn note_use(&mut self, now: Moment, hash: KeyHash, size_bytes: u64) {
        if let Some(learnt) = &mut self.learnt {
            learnt.trials.note_use(now, hash, size_bytes);
        }
    }

    /// An object was evicted from a shard of so many.
    pub(super) fn note_evicted(&mut self, hash: KeyHash, objects: usize) {
        if let Some(learnt) = &mut self.learnt {
            learnt.ghosts.add(hash, objects);
        }
    }

    /// An object is gone for another reason.
    pub(super) fn note_removed(&mut self, hash: KeyHash) {
        if let Some(learnt) = &mut self.learnt {
            learnt.trials.note_removed(hash);
        }
    }

    /// Whether a key that is put was evicted not long ago. It is forgotten then.
    pub(super) fn was_evicted(&mut self, hash: KeyHash) -> bool {
        self.learnt.as_mut().is_some_and(|learnt| learnt.ghosts.take(hash))
    }

    /// Brings nearer what [`Reuse::was_evicted`] will look at.
    pub(super) fn prefetch(&self, hash: KeyHash) {
        if let Some(learnt) = &self.learnt {
            learnt.ghosts.prefetch(hash);
        }
    }

    /// The shard has had to evict, and so many objects of so many bytes in all have room.
    pub(super) fn note_full(&mut self, objects: usize, allocated_bytes: u64) {
        if let Some(learnt) = &mut self.learnt {
            learnt.trials.note_full(objects, allocated_bytes);
        }
    }

    /// Bytes of memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.learnt
            .as_ref()
            .map_or(0, |learnt| learnt.trials.memory_bytes() + learnt.ghosts.memory_bytes())
    }
}
