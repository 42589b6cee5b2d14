//! The invariants of Mooring: an id, a sentence, and the places that check them.
//!
//! Tests and the simulator check all of them after each step. A master in production checks what costs
//! next to nothing. What it finds broken is counted and logged as an error, once for each invariant.
//! Where ranges overlap or a page has two owners, no answer can be trusted any more: the actor panics,
//! and the process ends without a snapshot.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! invariants {
    ($($name:ident, $id:literal, $sentence:literal;)*) => {
        /// What must hold after every step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            /// Every invariant.
            pub const ALL: &'static [Invariant] = &[$(Invariant::$name,)*];

            /// The id by which tests, logs and documents name it.
            pub fn id(self) -> &'static str {
                match self { $(Invariant::$name => $id,)* }
            }

            /// What must hold.
            pub fn sentence(self) -> &'static str {
                match self { $(Invariant::$name => $sentence,)* }
            }
        }
    };
}

invariants! {
    NoOverlap, "no-overlap", "Live, unfinished, pending and held ranges of a segment are disjoint and inside it; ranges and free space are its capacity.";
    Conservation, "conservation", "Gauges equal what the actors hold; none is negative; all return to zero.";
    OneOwner, "one-owner", "Every page belongs to one span of one shard, or to the pool.";
    Lease, "lease", "No leased range is freed, rewritten or handed out.";
    Readable, "readable", "A descriptor leads to the bytes of the put that made the current object, or to an error.";
    Answered, "answered", "Every accepted request gets exactly one answer, also in drain.";
    ClaimedOnce, "claimed-once", "A handoff is restored at most once.";
}

/// By invariant: how often this process has found it broken.
static BROKEN: [AtomicU64; Invariant::ALL.len()] =
    [const { AtomicU64::new(0) }; Invariant::ALL.len()];

impl Invariant {
    /// How often this process has found it broken.
    pub fn broken_total(self) -> u64 {
        BROKEN[self as usize].load(Ordering::Relaxed)
    }

    /// Says that it does not hold, and why.
    pub fn violated(self, fault: impl Into<String>) -> Violation {
        Violation { invariant: self, fault: fault.into() }
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was found.
    pub fault: String,
}

impl Violation {
    /// Counts it, and logs the first of its invariant. For shells: what decides only says it.
    pub(crate) fn note(&self) {
        let before = BROKEN[self.invariant as usize].fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            let (invariant, fault) = (self.invariant.id(), self.fault.as_str());
            tracing::error!(invariant, fault, "an invariant is broken, please report it");
        }
    }

    /// Ends the actor, and with it the process: what it knows is not to be trusted any more.
    ///
    /// # Panics
    /// Always.
    pub(crate) fn end(&self) -> ! {
        self.note();
        panic!("{self}");
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant.id(), self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_broken_is_counted_by_its_invariant() {
        // No other test of this program breaks this one.
        assert_eq!(Invariant::ClaimedOnce.broken_total(), 0);
        Invariant::ClaimedOnce.violated("twice").note();
        Invariant::ClaimedOnce.violated("and again").note();
        assert_eq!(Invariant::ClaimedOnce.broken_total(), 2);
    }

    #[test]
    fn a_broken_invariant_that_nothing_can_be_trusted_after_names_itself_in_the_panic() {
        let panic = std::panic::catch_unwind(|| Invariant::NoOverlap.violated("here").end());
        let text = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*text, "no-overlap: here");
        assert!(Invariant::NoOverlap.broken_total() >= 1);
    }
}
