//! The messages, one file for each concern.
//!
//! Each request type names its kind and its reply through [`Request`], so that neither end can pair
//! a request with a wrong reply.

mod bounded;
pub mod data;
pub mod inspect;
pub mod object;
pub mod replicas;
pub mod segment;
pub mod session;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::WireError;

/// Declares the kinds once, so that no list of them can fall behind.
macro_rules! kinds {
    ($($name:ident = $number:literal,)*) => {
        /// What a frame carries. The numbers are the wire format and never change; new ones are
        /// only added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each kind is documented at its request type")]
        pub enum Kind {
            $($name = $number,)*
        }

        impl Kind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];

            /// The kind with this number on the wire, or `None` for a number of a later version.
            pub fn from_number(number: u16) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    Hello = 1,
    Ping = 2,
    Mount = 3,
    Remount = 4,
    Unmount = 5,
    SegmentTable = 6,
    PutStart = 16,
    PutEnd = 17,
    PutRevoke = 18,
    Get = 19,
    Exist = 20,
    Remove = 21,
    RemoveAll = 22,
    MatchPrefix = 23,
    Validate = 24,
    Stats = 32,
    ListSegments = 33,
    ListClients = 34,
    ListKeys = 35,
    Attention = 48,
    ReadRange = 64,
    WriteRange = 65,
}

/// A request: its kind on the wire and the type of its reply.
pub trait Request: Serialize {
    /// The kind that the frame carries.
    const KIND: Kind;
    /// What a granted request is answered with.
    type Reply: Serialize + DeserializeOwned;

    /// Whether the request keeps the limits that concern it as a whole: the length of its lists and
    /// names, and fields that are not of one item. What is wrong with a single item of a batch (an
    /// empty or too long key, a size of zero) is left to whoever answers that item.
    ///
    /// # Errors
    /// `TooLarge` or `InvalidArgument`; the text names the field and the bound.
    fn check(&self) -> Result<(), WireError> {
        Ok(())
    }
}
