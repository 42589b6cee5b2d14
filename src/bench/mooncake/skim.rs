//! Results of batches as a generator reads them: counted, without a list for each key.

use std::marker::PhantomData;

use mooring_proto::mooncake::{
    Descriptor, ErrorCode, Expected, Fault, GetReplicaListResponse, Literal, Reader, Shape, Unpack,
};

use super::super::tally::Answer;

/// What an item of a batch is, and how it counts.
pub(super) trait Item<'a>: Unpack<'a> {
    /// Whether the master did what was asked, or has no such object; `None` if it refused.
    fn found(&self) -> Option<bool>;
}

/// Nothing but done.
pub(super) type Done = Expected<()>;

/// Whether a key has an object.
pub(super) type Exists = Expected<bool>;

/// Where an object lies.
pub(super) type Located = Expected<GetReplicaListResponse<Passed>>;

/// Where an object may be written.
pub(super) type Started = Expected<Passed>;

impl Item<'_> for Done {
    fn found(&self) -> Option<bool> {
        found(self)
    }
}

impl Item<'_> for Exists {
    fn found(&self) -> Option<bool> {
        self.as_ref().map_or_else(|_| found(self), |exists| Some(*exists))
    }
}

impl Item<'_> for Located {
    fn found(&self) -> Option<bool> {
        found(self)
    }
}

impl Item<'_> for Started {
    fn found(&self) -> Option<bool> {
        found(self)
    }
}

fn found<T>(result: &Expected<T>) -> Option<bool> {
    match result {
        Ok(_) => Some(true),
        Err(ErrorCode::OBJECT_NOT_FOUND) => Some(false),
        Err(_) => None,
    }
}

/// Replicas that are only passed over.
pub(super) struct Passed;

impl Shape for Passed {
    const LITERAL: Literal = <[Descriptor<'static>]>::LITERAL;
    const BYTES_MIN: usize = 1;
}

impl<'a> Unpack<'a> for Passed {
    fn unpack(input: &mut Reader<'a>) -> Result<Passed, Fault> {
        for _ in 0..input.count(Descriptor::BYTES_MIN)? {
            Descriptor::unpack(input)?;
        }
        Ok(Passed)
    }
}

/// How many items were answered in which way.
pub(super) struct Counted<T> {
    answer: Answer,
    items: PhantomData<T>,
}

impl<T> Counted<T> {
    /// Of so many requests.
    pub(super) fn answer(&self, requests: u64) -> Answer {
        Answer { requests, ..self.answer }
    }
}

impl<T: Shape> Shape for Counted<T> {
    const LITERAL: Literal = <[T]>::LITERAL;
    const BYTES_MIN: usize = 1;
}

impl<'a, T: Item<'a>> Unpack<'a> for Counted<T> {
    fn unpack(input: &mut Reader<'a>) -> Result<Counted<T>, Fault> {
        let mut answer = Answer::default();
        for _ in 0..input.count(T::BYTES_MIN)? {
            match T::unpack(input)?.found() {
                Some(true) => answer.done += 1,
                Some(false) => answer.missing += 1,
                None => answer.refused += 1,
            }
        }
        Ok(Counted { answer, items: PhantomData })
    }
}

/// Which items were granted.
pub(super) struct Flags<T> {
    pub(super) flags: Vec<bool>,
    items: PhantomData<T>,
}

impl<T: Shape> Shape for Flags<T> {
    const LITERAL: Literal = <[T]>::LITERAL;
    const BYTES_MIN: usize = 1;
}

impl<'a, T: Item<'a>> Unpack<'a> for Flags<T> {
    fn unpack(input: &mut Reader<'a>) -> Result<Flags<T>, Fault> {
        let count = input.count(T::BYTES_MIN)?;
        let mut flags = Vec::with_capacity(count);
        for _ in 0..count {
            flags.push(T::unpack(input)?.found() == Some(true));
        }
        Ok(Flags { flags, items: PhantomData })
    }
}
