//! The identities that messages carry.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A client process: random for each process, so a restarted client is another client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u128);

/// A mounted segment: random for each mount, so memory that is mounted anew is another segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u128);

/// A master process: random for each start. What one incarnation handed out means nothing to
/// another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// The fence of one put: the incarnation that granted it, and its number there. No two puts of one
/// incarnation share a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PutToken {
    /// The master that granted the put.
    pub incarnation: Incarnation,
    /// The number of the put in that master.
    pub sequence: u64,
}

/// A set of segments in eight bytes, whatever the order in which they came: equal sets have equal
/// digests, and two sets that differ have the same one once in 2^64 times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentsDigest(pub u64);

impl SegmentsDigest {
    /// The digest with a segment that was not in the set.
    #[must_use]
    pub fn with(self, segment: SegmentId) -> SegmentsDigest {
        SegmentsDigest(self.0.wrapping_add(spread(segment)))
    }

    /// The digest without a segment that was in the set.
    #[must_use]
    pub fn without(self, segment: SegmentId) -> SegmentsDigest {
        SegmentsDigest(self.0.wrapping_sub(spread(segment)))
    }
}

impl FromIterator<SegmentId> for SegmentsDigest {
    /// Each segment comes once.
    fn from_iter<I: IntoIterator<Item = SegmentId>>(segments: I) -> SegmentsDigest {
        segments.into_iter().fold(SegmentsDigest::default(), SegmentsDigest::with)
    }
}

/// What an id adds to a digest. Ids need not be random: each half is mixed before anything is added.
fn spread(segment: SegmentId) -> u64 {
    let (high, low) = ((segment.0 >> 64) as u64, segment.0 as u64);
    mix(mix(high) ^ low)
}

/// The finaliser of SplitMix64: every input has an output of its own.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Incarnation {
    /// Stands for some master whose identity the peer cannot tell. No master has it.
    pub const UNNAMED: Incarnation = Incarnation(0);
}

macro_rules! hexadecimal {
    ($name:ident, $digits:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!("{:0", $digits, "x}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

hexadecimal!(ClientId, "32");
hexadecimal!(SegmentId, "32");
hexadecimal!(Incarnation, "16");
hexadecimal!(SegmentsDigest, "16");

/// On the wire these are 16 bytes in the order of their hexadecimal form: they are random, so a
/// varint would be longer, and not every language has integers of this width.
macro_rules! sixteen_bytes {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.to_be_bytes().serialize(serializer)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <[u8; 16]>::deserialize(deserializer).map(|bytes| $name(u128::from_be_bytes(bytes)))
            }
        }
    };
}

sixteen_bytes!(ClientId);
sixteen_bytes!(SegmentId);
