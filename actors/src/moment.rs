//! Monotonic time.

/// A point in monotonic time, in milliseconds since the process started. The shells stamp it; wall
/// time never enters a decision, so a step of the system clock changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Moment {
    ms: u64,
}

impl Moment {
    /// The moment this many milliseconds after the start.
    pub fn from_ms(ms: u64) -> Moment {
        Moment { ms }
    }

    /// Milliseconds since the start.
    pub fn as_ms(self) -> u64 {
        self.ms
    }

    /// The moment this many milliseconds later; the end of time if there is none.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Moment {
        Moment { ms: self.ms.saturating_add(ms) }
    }

    /// How long ago the earlier moment was, in milliseconds; zero if it is not earlier.
    pub fn since_ms(self, earlier: Moment) -> u64 {
        self.ms.saturating_sub(earlier.ms)
    }
}
