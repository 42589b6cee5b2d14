//! When a part of a handoff must be over.

use std::time::Instant;

/// A point in time, or none. It is looked at once a chunk, so that it is missed by about a
/// millisecond at most, and by what one call of the system takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Never.
    pub(crate) const NEVER: Deadline = Deadline(None);

    /// At this time.
    pub(crate) fn at(time: Instant) -> Deadline {
        Deadline(Some(time))
    }

    /// Whether it is over.
    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|time| Instant::now() >= time)
    }
}
