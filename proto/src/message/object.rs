//! Batches of keys: put, get, exist, match prefix, validate, remove.
//!
//! Answers are positional: one for each key, in the order of the request; no item affects another.

use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use super::bounded::{check_count, out_of_range};
use super::replicas::Replicas;
use super::{Kind, Request, bounded};
use crate::error::{Refusal, WireError};
use crate::identity::{Incarnation, SegmentId};
use crate::limits::{BATCH_KEYS_MAX, PREFERRED_SEGMENTS_MAX, REPLICAS_MAX};

/// A range of bytes of a segment: where one replica of an object lies. Its length is the size of
/// the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RangeDescriptor {
    /// The slot of the segment in the segment table.
    pub slot: u32,
    /// The generation of that slot.
    pub generation: u32,
    /// The first byte, counted from the start of the segment.
    pub offset_bytes: u64,
}

/// What a put asks for, the same for all items of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOptions {
    /// How many replicas, 1 to 8, each on another segment. As many as fit are granted, at least one.
    pub replicas: u8,
    /// Where to place the first ones, if there is space; at most 16.
    pub preferred_segments: Vec<SegmentId>,
    /// Never evict the object.
    pub hard_pin: bool,
    /// Evict the object only after all unpinned ones, for this long after it becomes readable. A
    /// hard pin covers it.
    pub soft_pin_ttl_ms: Option<u64>,
}

impl Default for PutOptions {
    fn default() -> PutOptions {
        PutOptions {
            replicas: 1,
            preferred_segments: Vec::new(),
            hard_pin: false,
            soft_pin_ttl_ms: None,
        }
    }
}

/// One object to reserve space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutStartItem<'a> {
    /// 1 to 4,096 bytes.
    #[serde(borrow)]
    pub key: &'a Bytes,
    /// 1 byte to 1 TiB.
    pub size_bytes: u64,
    /// Chosen by the client, another one for each put. A start that is repeated with the same id is
    /// answered with the same reservation.
    pub put_id: u64,
}

/// Reserves space for objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutStartRequest<'a> {
    /// For all items.
    pub options: PutOptions,
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub items: Vec<PutStartItem<'a>>,
}

/// A reservation: write the bytes to each replica, then end the put with the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutStartGrant {
    /// The number in the put's token; the incarnation stands in the reply.
    pub sequence: u64,
    /// Where to write; fewer than asked for if no more segments had room.
    pub replicas: Replicas,
}

/// The reservations, in the order of the items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutStartReply {
    /// The incarnation of all tokens below.
    pub incarnation: Incarnation,
    /// The epoch of the segment table that the slots refer to.
    pub segment_epoch: u64,
    /// After this time another put may take a key over.
    pub discard_timeout_ms: u64,
    /// One for each item.
    pub items: Vec<Result<PutStartGrant, Refusal>>,
}

impl Request for PutStartRequest<'_> {
    const KIND: Kind = Kind::PutStart;
    type Reply = PutStartReply;

    fn check(&self) -> Result<(), WireError> {
        let replicas = usize::from(self.options.replicas);
        if !(1..=REPLICAS_MAX).contains(&replicas) {
            return Err(out_of_range("options.replicas", replicas as u64, 1, REPLICAS_MAX as u64));
        }
        let preferred = self.options.preferred_segments.len();
        check_count("options.preferred_segments", preferred, PREFERRED_SEGMENTS_MAX)?;
        check_count("items", self.items.len(), BATCH_KEYS_MAX)
    }
}

/// One put to end or to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutItem<'a> {
    /// The key of the put.
    #[serde(borrow)]
    pub key: &'a Bytes,
    /// The number in the put's token.
    pub sequence: u64,
}

/// Makes objects readable. Repeating it is a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutEndRequest<'a> {
    /// The incarnation of all tokens below.
    pub incarnation: Incarnation,
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub items: Vec<PutItem<'a>>,
}

/// One answer for each item, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsReply {
    /// Done, or why not.
    pub items: Vec<Result<(), Refusal>>,
}

impl Request for PutEndRequest<'_> {
    const KIND: Kind = Kind::PutEnd;
    type Reply = ItemsReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("items", self.items.len(), BATCH_KEYS_MAX)
    }
}

/// Gives reservations up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRevokeRequest<'a> {
    /// The incarnation of all tokens below.
    pub incarnation: Incarnation,
    /// The writer states that no write into the ranges is in flight, so they are free at once;
    /// otherwise they are held until the release timeout.
    pub no_write_in_flight: bool,
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub items: Vec<PutItem<'a>>,
}

impl Request for PutRevokeRequest<'_> {
    const KIND: Kind = Kind::PutRevoke;
    type Reply = ItemsReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("items", self.items.len(), BATCH_KEYS_MAX)
    }
}

/// Asks where objects are, and leases them to the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetRequest<'a> {
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub keys: Vec<&'a Bytes>,
}

/// Where a readable object lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// Its length.
    pub size_bytes: u64,
    /// The number of the put that wrote it; for [`ValidateRequest`].
    pub sequence: u64,
    /// Its replicas, at least one.
    pub replicas: Replicas,
}

/// The places, in the order of the keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetReply {
    /// The incarnation of all sequences below.
    pub incarnation: Incarnation,
    /// The epoch of the segment table that the slots refer to.
    pub segment_epoch: u64,
    /// How long each of the objects is leased at least, from the moment that the master decided.
    /// The reader counts from before it sent the request.
    pub lease_ttl_ms: u64,
    /// One for each key.
    pub items: Vec<Result<Located, Refusal>>,
}

impl Request for GetRequest<'_> {
    const KIND: Kind = Kind::Get;
    type Reply = GetReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("keys", self.keys.len(), BATCH_KEYS_MAX)
    }
}

/// Asks which keys are readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExistRequest<'a> {
    /// Whether those that are get a lease.
    pub lease: bool,
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub keys: Vec<&'a Bytes>,
}

/// One bit for each key, in their order: bit `i % 8` of byte `i / 8`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExistReply {
    /// How many keys the bits answer.
    pub keys: u32,
    /// Set for a readable key.
    #[serde(with = "serde_bytes")]
    pub bits: Vec<u8>,
}

impl ExistReply {
    /// Packs one answer for each key.
    pub fn pack(readable: impl ExactSizeIterator<Item = bool>) -> ExistReply {
        let keys = readable.len();
        let mut bits = vec![0; keys.div_ceil(8)];
        for (index, readable) in readable.enumerate() {
            bits[index / 8] |= u8::from(readable) << (index % 8);
        }
        ExistReply { keys: u32::try_from(keys).expect("a batch has at most 65,536 keys"), bits }
    }

    /// Whether the key at this place is readable; false beyond the last key.
    pub fn readable(&self, index: usize) -> bool {
        index < self.keys as usize
            && self.bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

impl Request for ExistRequest<'_> {
    const KIND: Kind = Kind::Exist;
    type Reply = ExistReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("keys", self.keys.len(), BATCH_KEYS_MAX)
    }
}

/// Asks how many keys of an ordered chain are readable from its front.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchPrefixRequest<'a> {
    /// Whether readable keys of the chain get a lease; keys behind the first unreadable one may get
    /// one too.
    pub lease: bool,
    /// The chain, first block first; at most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub keys: Vec<&'a Bytes>,
}

/// The length of the readable prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchPrefixReply {
    /// How many keys from the front are readable.
    pub matched: u32,
}

impl Request for MatchPrefixRequest<'_> {
    const KIND: Kind = Kind::MatchPrefix;
    type Reply = MatchPrefixReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("keys", self.keys.len(), BATCH_KEYS_MAX)
    }
}

/// Asks whether keys still have the very objects that a reader was told of, without a lease. A
/// reader whose lease ran out before its read ended asks this before it uses the bytes; only an
/// answer to a request that was sent after the read says anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateRequest<'a> {
    /// The incarnation of all sequences below.
    pub incarnation: Incarnation,
    /// The keys and the sequences that came with their places; at most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub items: Vec<PutItem<'a>>,
}

impl Request for ValidateRequest<'_> {
    const KIND: Kind = Kind::Validate;
    type Reply = ItemsReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("items", self.items.len(), BATCH_KEYS_MAX)
    }
}

/// Removes objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveRequest<'a> {
    /// Remove leased objects too: the keys vanish at once and the ranges are held until the leases
    /// end.
    pub force: bool,
    /// At most 65,536.
    #[serde(borrow, deserialize_with = "bounded::last_list::<BATCH_KEYS_MAX, _, _>")]
    pub keys: Vec<&'a Bytes>,
}

impl Request for RemoveRequest<'_> {
    const KIND: Kind = Kind::Remove;
    type Reply = ItemsReply;

    fn check(&self) -> Result<(), WireError> {
        check_count("keys", self.keys.len(), BATCH_KEYS_MAX)
    }
}

/// Removes every object that is complete, and leased ones only with `force`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveAllRequest {
    /// Remove leased objects too.
    pub force: bool,
}

/// How many went and how many stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoveAllReply {
    /// Objects removed.
    pub removed: u64,
    /// Objects kept because they are leased or still being written.
    pub kept: u64,
}

impl Request for RemoveAllRequest {
    const KIND: Kind = Kind::RemoveAll;
    type Reply = RemoveAllReply;
}
