//! Why a snapshot cannot be read.

use std::fmt::Display;
use std::io;

use super::reason::{Cause, Reason};

/// Why a snapshot cannot be read. Nothing of it may be used then, also not what was read before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// The system refuses.
    #[error("cannot read {name}: {source_text}")]
    Io {
        /// Which file.
        name: String,
        /// What the system says.
        source_text: String,
    },
    /// It is not what was written.
    #[error("{name} {fault}")]
    Corrupt {
        /// Which file.
        name: String,
        /// What is wrong.
        fault: String,
    },
    /// It is whole, but of a format that this version does not read.
    #[error("{name} has format {found}, this version reads format {}", super::format::FORMAT)]
    Format {
        /// Which file.
        name: String,
        /// Its format.
        found: u32,
    },
    /// It is whole, but has something that must be understood and is not.
    #[error("{name} has {what}, which this version does not understand")]
    NotUnderstood {
        /// Which file.
        name: String,
        /// What it has.
        what: String,
    },
    /// The deadline has passed.
    #[error("the deadline of the restore has passed at {name}")]
    Deadline {
        /// Which file was being read.
        name: String,
    },
}

impl ReadError {
    pub(super) fn corrupt(name: &str, fault: impl Display) -> ReadError {
        ReadError::Corrupt { name: name.to_owned(), fault: fault.to_string() }
    }

    pub(super) fn not_understood(name: &str, what: impl Display) -> ReadError {
        ReadError::NotUnderstood { name: name.to_owned(), what: what.to_string() }
    }

    /// A file that ends too early is damage, and so is what is no file; everything else is the system's.
    pub(super) fn io(name: &str, error: &io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
                ReadError::corrupt(name, error)
            }
            io::ErrorKind::UnexpectedEof => ReadError::corrupt(name, "is shorter than it was"),
            _ => ReadError::Io { name: name.to_owned(), source_text: error.to_string() },
        }
    }

    /// The reason by which metrics and logs name it.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            ReadError::Io { .. } => Reason::Unreadable,
            ReadError::Corrupt { .. } => Reason::Corrupt,
            ReadError::Format { .. } | ReadError::NotUnderstood { .. } => Reason::Version,
            ReadError::Deadline { .. } => Reason::Deadline,
        }
    }
}

impl From<ReadError> for Cause {
    fn from(error: ReadError) -> Cause {
        Cause::new(error.reason(), error.to_string())
    }
}
