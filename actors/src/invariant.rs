//! The invariants of Mooring: an id, a sentence, and the places that check them.

use std::fmt;

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

impl Invariant {
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

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant.id(), self.fault)
    }
}
