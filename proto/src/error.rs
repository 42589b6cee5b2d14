//! Errors as they travel: a code that programs act on and a text that people read.

use serde::{Deserialize, Serialize};

/// Declares the codes once: number on the wire, name, text.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a request, or one item of a batch, was refused.
        ///
        /// The numbers are the wire format and never change; new ones are only added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl ErrorCode {
            /// Every code, in the order of their numbers.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code with this number on the wire, or `None` for a number of a later version.
            pub fn from_number(number: u16) -> Option<ErrorCode> {
                match number {
                    $($number => Some(ErrorCode::$name),)*
                    _ => None,
                }
            }

            /// What the code means, in one clause.
            pub fn text(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)*
                }
            }

            /// The name of the code, as documents and metrics write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => stringify!($name),)*
                }
            }
        }
    };
}

error_codes! {
    /// The frame or its body cannot be read.
    Malformed = 1, "the request cannot be decoded";
    /// No common protocol version.
    UnsupportedVersion = 2, "no protocol version in common";
    /// A message kind that this version does not have.
    UnknownKind = 3, "unknown message kind";
    /// A frame, batch, list or name above its limit.
    TooLarge = 4, "a limit of the protocol is exceeded";
    /// The first request of a connection must be a hello.
    HelloRequired = 5, "the first request of a connection must be a hello";
    /// The master has no room for the request now; retry after the hint.
    Overloaded = 6, "the master is overloaded";
    /// The master is leaving; reconnect.
    Restarting = 7, "the master is restarting";
    /// A fault of the master.
    Internal = 8, "internal error of the master";
    /// The request was not answered within the deadline that it carried.
    DeadlineExceeded = 9, "the deadline of the request has passed";
    /// The peer may not do this.
    Forbidden = 10, "not permitted for this peer";
    /// The master is not serving yet.
    NotReady = 11, "the master is not serving yet";

    /// An empty or too long key.
    InvalidKey = 20, "the key is empty or too long";
    /// A size of zero or above the largest object.
    InvalidSize = 21, "the size is zero or above the limit";
    /// A field is out of its range; the text names it.
    InvalidArgument = 22, "a field is out of its range";

    /// No such object.
    NotFound = 30, "no such object";
    /// The key has a readable object.
    AlreadyExists = 31, "the key already has a readable object";
    /// Another put of the key is under way; retry after the hint.
    PutInProgress = 32, "another put of the key is under way";
    /// No room, although everything that may be evicted was considered.
    NoSpace = 33, "no space";
    /// No segment is mounted that could take the object.
    NoSegment = 34, "no segment is mounted that takes objects";
    /// The object is larger than any mounted segment.
    LargerThanSegments = 35, "the object is larger than any mounted segment";
    /// The token is of another put than the current one.
    StaleToken = 36, "the token is of another put";
    /// The object is leased to a reader.
    Leased = 37, "the object is leased to a reader";
    /// The put is complete and cannot be revoked.
    PutComplete = 38, "the put is already complete";
    /// The object exists but its put is not complete.
    NotReadable = 39, "the put of the object is not complete";
    /// The object is another one than the token names, or gone.
    Changed = 40, "the object has changed";
    /// The key is written, or was, by another client than the one that asks.
    NotWriter = 41, "the key belongs to another writer";

    /// No such segment.
    SegmentNotFound = 50, "no such segment";
    /// The segment is known with another identity.
    SegmentConflict = 51, "the segment is mounted with another identity";
    /// The memory overlaps that of a mounted segment of the same client.
    SegmentOverlap = 52, "the memory overlaps a mounted segment";
    /// Only the owner of a segment may do this.
    NotOwner = 53, "the segment belongs to another client";
    /// A field of the segment is out of its range; the text names it.
    InvalidSegment = 54, "a field of the segment is out of its range";
    /// The segment is being unmounted.
    SegmentLeaving = 55, "the segment is being unmounted";
    /// The master does not know this client's segments; remount them.
    NeedRemount = 56, "the client must remount its segments";

    /// A store does not hold this range under this mount.
    WrongMount = 70, "the range is of another mount";
    /// A range outside of its segment.
    OutOfRange = 71, "the range is outside of the segment";
    /// The bytes do not match their checksum.
    ChecksumMismatch = 72, "the checksum does not match the bytes";
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(*self as u16)
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    /// A number of a later version reads as [`ErrorCode::Internal`]: the reader learns that the
    /// request was refused, which is all that it could act on.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u16::deserialize(deserializer)?;
        Ok(ErrorCode::from_number(number).unwrap_or(ErrorCode::Internal))
    }
}

/// Where the space is, when a put found none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NoSpace {
    /// Free bytes of all segments, whether usable for this size or not.
    pub free_bytes: u64,
    /// The largest contiguous free run that was seen.
    pub largest_free_run_bytes: u64,
    /// Bytes that readers hold by leases.
    pub leased_bytes: u64,
    /// Bytes of hard-pinned objects.
    pub pinned_bytes: u64,
    /// Bytes of unfinished puts, of holds, and of memory that rests after a start.
    pub held_bytes: u64,
}

/// Why one item of a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub code: ErrorCode,
    /// When to try again, in milliseconds from now; absent if trying again is of no use.
    pub retry_after_ms: Option<u32>,
    /// Only with [`ErrorCode::NoSpace`]: what holds the space.
    pub no_space: Option<Box<NoSpace>>,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, retry_after_ms: None, no_space: None }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.code.text())?;
        if self.code == ErrorCode::NoSegment && self.retry_after_ms.is_some() {
            formatter.write_str(NOT_YET)?;
        }
        if let Some(space) = &self.no_space {
            write!(
                formatter,
                ": free {} bytes, largest free run {}, leased {}, pinned {}, held {}",
                space.free_bytes,
                space.largest_free_run_bytes,
                space.leased_bytes,
                space.pinned_bytes,
                space.held_bytes
            )?;
        }
        if let Some(retry_after_ms) = self.retry_after_ms {
            write!(formatter, "; try again in {retry_after_ms} ms")?;
        }
        Ok(())
    }
}

/// Why there may be segments and none that takes objects.
const NOT_YET: &str = " yet: memory that was mounted with another master rests for one lease, or its \
                       store is not back";

impl std::error::Error for Refusal {}

/// Why a whole request was refused: the body of a reply whose status is not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {text}", code.text())]
pub struct WireError {
    /// The reason.
    pub code: ErrorCode,
    /// What exactly, for people: names the field and the bound.
    pub text: String,
    /// When to try again, in milliseconds from now; absent if trying again is of no use.
    pub retry_after_ms: Option<u32>,
}

impl WireError {
    /// An error without a retry hint.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> WireError {
        WireError { code, text: text.into(), retry_after_ms: None }
    }

    /// The same error with a retry hint in milliseconds.
    #[must_use]
    pub fn retry_after_ms(mut self, retry_after_ms: u32) -> WireError {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }
}
