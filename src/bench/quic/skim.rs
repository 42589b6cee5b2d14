//! Replies as a generator reads them: counted, without a list for each key.
//!
//! The types have the shape of the messages on the wire; a test holds them against those.

use std::fmt;
use std::marker::PhantomData;

use mooring_proto::message::object::RangeDescriptor;
use mooring_proto::{ErrorCode, Incarnation, Refusal};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::super::tally::Answer;

/// A reply to puts that begin.
#[derive(Deserialize)]
pub(super) struct PutStartSkim {
    pub(super) incarnation: Incarnation,
    _segment_epoch: u64,
    _discard_timeout_ms: u64,
    pub(super) items: Sequences,
}

/// A reply to gets.
#[derive(Deserialize)]
pub(super) struct GetSkim {
    _incarnation: Incarnation,
    _segment_epoch: u64,
    _lease_ttl_ms: u64,
    pub(super) items: Counted<LocatedSkim>,
}

/// A reply to puts that end, or to removes.
#[derive(Deserialize)]
pub(super) struct ItemsSkim {
    pub(super) items: Counted<()>,
}

#[derive(Deserialize)]
struct GrantSkim {
    sequence: u64,
    _replicas: Passed<RangeDescriptor>,
}

/// A place that is not looked at.
#[derive(Deserialize)]
pub(super) struct LocatedSkim {
    _size_bytes: u64,
    _sequence: u64,
    _replicas: Passed<RangeDescriptor>,
}

/// The sequence of each put that was granted.
pub(super) struct Sequences(pub(super) Vec<Option<u64>>);

/// How many items were answered in which way.
pub(super) struct Counted<T> {
    pub(super) done: u64,
    missing: u64,
    refused: u64,
    items: PhantomData<T>,
}

impl<T> Counted<T> {
    /// Of so many requests.
    pub(super) fn answer(&self, requests: u64) -> Answer {
        Answer { done: self.done, missing: self.missing, refused: self.refused, requests }
    }
}

/// A list that is only passed over.
struct Passed<T>(PhantomData<T>);

/// Folds a list, item by item.
struct Fold<A, F, T>(A, F, PhantomData<T>);

impl<'de, A, F: FnMut(&mut A, T), T: Deserialize<'de>> Visitor<'de> for Fold<A, F, T> {
    type Value = A;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut list: S) -> Result<A, S::Error> {
        while let Some(item) = list.next_element()? {
            (self.1)(&mut self.0, item);
        }
        Ok(self.0)
    }
}

impl<'de> Deserialize<'de> for Sequences {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sequences, D::Error> {
        let push = |all: &mut Vec<Option<u64>>, item: Result<GrantSkim, Refusal>| {
            all.push(item.ok().map(|grant| grant.sequence));
        };
        deserializer.deserialize_seq(Fold(Vec::new(), push, PhantomData)).map(Sequences)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Counted<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counted<T>, D::Error> {
        let count = |counted: &mut Counted<T>, item: Result<T, Refusal>| match item {
            Ok(_) => counted.done += 1,
            Err(refusal) if refusal.code == ErrorCode::NotFound => counted.missing += 1,
            Err(_) => counted.refused += 1,
        };
        let none = Counted { done: 0, missing: 0, refused: 0, items: PhantomData };
        deserializer.deserialize_seq(Fold(none, count, PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Passed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Passed<T>, D::Error> {
        deserializer.deserialize_seq(Fold((), |_: &mut (), _: T| {}, PhantomData))?;
        Ok(Passed(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use mooring_proto::frame::{self, REPLY_HEADER_BYTES};
    use mooring_proto::message::Kind;
    use mooring_proto::message::object::{
        GetReply, ItemsReply, Located, PutStartGrant, PutStartReply,
    };
    use serde::Serialize;

    use super::*;

    const RANGE: RangeDescriptor =
        RangeDescriptor { slot: 3, generation: 300, offset_bytes: 1 << 40 };

    fn reread<T: for<'a> Deserialize<'a>>(reply: &impl Serialize) -> T {
        let frame = frame::encode_reply(Kind::Get, Ok(reply));
        frame::decode_body(&frame[REPLY_HEADER_BYTES..]).unwrap()
    }

    #[test]
    fn the_sequences_of_granted_puts_are_read_in_place() {
        let grant = |sequence| Ok(PutStartGrant { sequence, replicas: vec![RANGE; 2].into() });
        let reply = PutStartReply {
            incarnation: Incarnation(77),
            segment_epoch: 1000,
            discard_timeout_ms: 30_000,
            items: vec![grant(9), Err(ErrorCode::AlreadyExists.into()), grant(1 << 50)],
        };
        let skim: PutStartSkim = reread(&reply);
        assert_eq!(skim.incarnation, Incarnation(77));
        assert_eq!(skim.items.0, [Some(9), None, Some(1 << 50)]);
    }

    #[test]
    fn gets_are_counted_as_found_missing_and_refused() {
        let located = Located { size_bytes: 5000, sequence: 9, replicas: vec![RANGE; 3].into() };
        let reply = GetReply {
            incarnation: Incarnation(77),
            segment_epoch: 1,
            lease_ttl_ms: 10_000,
            items: vec![
                Ok(located.clone()),
                Err(ErrorCode::NotFound.into()),
                Ok(located),
                Err(ErrorCode::NotReadable.into()),
            ],
        };
        let skim: GetSkim = reread(&reply);
        let expected = Answer { done: 2, missing: 1, refused: 1, requests: 1 };
        assert_eq!(skim.items.answer(1), expected);
    }

    #[test]
    fn ends_and_removes_are_counted() {
        let reply = ItemsReply { items: vec![Ok(()), Err(ErrorCode::Leased.into()), Ok(())] };
        let skim: ItemsSkim = reread(&reply);
        assert_eq!(skim.items.answer(1), Answer { done: 2, missing: 0, refused: 1, requests: 1 });
    }
}
