//! The names of what went wrong, as metrics, logs and scripts know them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a start serves empty or refuses, or why a master left no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// There is no snapshot, and none was to be expected.
    None,
    /// The master before ended without a drain: a crash, or the system killed it.
    Killed,
    /// The master before says that it left a snapshot, and there is none.
    Missing,
    /// The snapshot is older than allowed.
    Stale,
    /// The snapshot is from the future: the clock was set back.
    Clock,
    /// The snapshot has a format, or something in it, that this version does not understand.
    Version,
    /// The snapshot is not what was written, or what it says cannot be.
    Corrupt,
    /// The system refuses to read the snapshot.
    Unreadable,
    /// An earlier start claimed the snapshot and ended before it served.
    AbortedPrevious,
    /// Another master has used the directory, or the snapshot is not of the master that used it
    /// last.
    Poisoned,
    /// The snapshot would not fit the memory.
    Memory,
    /// A deadline has passed: that of the restore, or that of the master before for its snapshot.
    Deadline,
    /// The master before ended while it wrote its snapshot.
    Interrupted,
    /// The master before could not write its snapshot.
    WriteFailed,
    /// The master before wrote no snapshot since the next one would not have the memory for it.
    SkippedRestoreMemory,
    /// The master before was itself not serving yet.
    SkippedProcessing,
    /// The directory was not the master's any more.
    SkippedNotOwner,
    /// Another master had used the directory while the master before held it.
    SkippedPoisoned,
    /// A reason of another version.
    #[serde(other)]
    Unknown,
}

impl Reason {
    /// The name in metrics, logs and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::None => "none",
            Reason::Killed => "killed",
            Reason::Missing => "missing",
            Reason::Stale => "stale",
            Reason::Clock => "clock",
            Reason::Version => "version",
            Reason::Corrupt => "corrupt",
            Reason::Unreadable => "unreadable",
            Reason::AbortedPrevious => "aborted_previous",
            Reason::Poisoned => "poisoned",
            Reason::Memory => "memory",
            Reason::Deadline => "deadline",
            Reason::Interrupted => "interrupted",
            Reason::WriteFailed => "write_failed",
            Reason::SkippedRestoreMemory => "skipped_restore_memory",
            Reason::SkippedProcessing => "skipped_processing",
            Reason::SkippedNotOwner => "skipped_not_owner",
            Reason::SkippedPoisoned => "skipped_poisoned",
            Reason::Unknown => "unknown",
        }
    }

    /// Whether a handoff was expected and cannot be used. Otherwise the start is an ordinary one.
    pub(crate) fn was_expected(self) -> bool {
        !matches!(self, Reason::None | Reason::Killed)
    }

    /// Every reason.
    pub(crate) const ALL: [Reason; 19] = [
        Reason::None,
        Reason::Killed,
        Reason::Missing,
        Reason::Stale,
        Reason::Clock,
        Reason::Version,
        Reason::Corrupt,
        Reason::Unreadable,
        Reason::AbortedPrevious,
        Reason::Poisoned,
        Reason::Memory,
        Reason::Deadline,
        Reason::Interrupted,
        Reason::WriteFailed,
        Reason::SkippedRestoreMemory,
        Reason::SkippedProcessing,
        Reason::SkippedNotOwner,
        Reason::SkippedPoisoned,
        Reason::Unknown,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A reason, and what a person wants to know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The reason.
    pub(crate) reason: Reason,
    /// One sentence.
    pub(crate) detail: String,
}

impl Cause {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Cause {
        Cause { reason, detail: detail.into() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.reason, self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_one_name_everywhere() {
        for reason in Reason::ALL {
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
            assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
        }
        assert_eq!(serde_json::from_str::<Reason>("\"of_tomorrow\"").unwrap(), Reason::Unknown);
    }

    #[test]
    fn only_a_first_start_and_a_crash_are_ordinary() {
        let ordinary: Vec<Reason> =
            Reason::ALL.into_iter().filter(|reason| !reason.was_expected()).collect();
        assert_eq!(ordinary, [Reason::None, Reason::Killed]);
    }
}
