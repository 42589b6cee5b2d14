//! What concerns all shards, whoever asks for it.

use std::time::Duration;

use mooring_actors::core::{CallError, Core};
use mooring_actors::shard::message::{ShardReply, ShardRequest};
use mooring_actors::{Moment, ShardId};
use mooring_proto::message::inspect::ListKeysReply;
use mooring_proto::message::object::RemoveAllReply;
use mooring_proto::{ErrorCode, WireError};

use super::calls::Ask;

/// Removes every complete object; leased ones too if it is forced.
///
/// # Errors
/// If an actor does not take the request; some shards may have removed theirs then.
pub(crate) async fn remove_all(ask: Ask<'_>, force: bool) -> Result<RemoveAllReply, WireError> {
    let mut sent = Vec::new();
    for shard in 0..ask.core.route().shards() {
        let mut tries = 0;
        // Once one shard removes, the others have to: a client does not repeat this request.
        let answer = loop {
            match ask.shard(ShardId(shard), 0, ShardRequest::RemoveAll { force }) {
                Ok(answer) => break answer,
                Err(CallError::Overloaded { retry_after_ms }) if tries < REMOVE_ALL_TRIES => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(retry_after_ms.into())).await;
                }
                Err(error) => return Err(unavailable(error)),
            }
        };
        sent.push(answer);
    }
    let mut sum = RemoveAllReply::default();
    for answer in sent {
        match answer.await.map_err(unavailable)? {
            ShardReply::Removed { removed, kept } => {
                sum.removed += removed;
                sum.kept += kept;
            }
            _ => return Err(wrong_answer()),
        }
    }
    Ok(sum)
}

/// A page of the readable keys of one shard, with `hidden` also of those that wait for the owners of
/// their segments; an empty one that is not the last is passed over.
///
/// # Errors
/// If the cursor is not where a page ended, or an actor does not take the request.
pub(crate) async fn list_keys(
    core: &Core,
    deadline: Option<Moment>,
    cursor: u64,
    limit: u32,
    hidden: bool,
) -> Result<ListKeysReply, WireError> {
    let shards = u64::from(core.route().shards());
    let mut place = Cursor::of(cursor);
    loop {
        let shard = u16::try_from(place.shard).ok().filter(|_| place.shard < shards);
        let Some(shard) = shard else {
            let text = format!("cursor: {cursor} is not where a page ended");
            return Err(WireError::new(ErrorCode::InvalidArgument, text));
        };
        let request = ShardRequest::ListKeys { cursor: place.within, limit, hidden };
        let answer = core.shard(ShardId(shard), deadline, request);
        let ShardReply::Keys { keys, next } =
            answer.map_err(unavailable)?.await.map_err(unavailable)?
        else {
            return Err(wrong_answer());
        };
        let next = place.next(next, shards);
        match next {
            Some(further) if keys.is_empty() => place = further,
            _ => return Ok(ListKeysReply { keys, next: next.map(Cursor::number) }),
        }
    }
}

/// What a whole request is refused with when an actor does not take it.
pub(crate) fn unavailable(error: CallError) -> WireError {
    match error {
        CallError::Overloaded { retry_after_ms } => {
            WireError::new(ErrorCode::Overloaded, "an actor has no room for the request")
                .retry_after_ms(retry_after_ms)
        }
        CallError::Gone => WireError::new(ErrorCode::Restarting, "the master is leaving"),
    }
}

/// An actor that answers with something else is a fault of the process.
pub(crate) fn wrong_answer() -> WireError {
    WireError::new(ErrorCode::Internal, "an answer of the core does not fit the question")
}

/// Where a page of keys starts: in which shard, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    shard: u64,
    within: u32,
}

impl Cursor {
    fn of(number: u64) -> Cursor {
        // The lower half is the cursor of the shard.
        Cursor { shard: number >> 32, within: number as u32 }
    }

    fn number(self) -> u64 {
        self.shard << 32 | u64::from(self.within)
    }

    /// Where the page after this one starts, if it ends there in its shard.
    fn next(self, within: Option<u32>, shards: u64) -> Option<Cursor> {
        match within {
            Some(within) => Some(Cursor { shard: self.shard, within }),
            None if self.shard + 1 < shards => Some(Cursor { shard: self.shard + 1, within: 0 }),
            None => None,
        }
    }
}

/// With hints of some milliseconds, this is long enough for a full mailbox to be emptied.
const REMOVE_ALL_TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_way_over_the_wire() {
        let cursor = Cursor { shard: 7, within: u32::MAX };
        assert_eq!(Cursor::of(cursor.number()), cursor);
        assert_eq!(Cursor::of(0), Cursor { shard: 0, within: 0 });
    }

    #[test]
    fn pages_go_through_one_shard_after_the_other() {
        let first = Cursor::of(0);
        assert_eq!(first.next(Some(9), 2), Some(Cursor { shard: 0, within: 9 }));
        assert_eq!(first.next(None, 2), Some(Cursor { shard: 1, within: 0 }));
        assert_eq!(first.next(None, 1), None);
    }
}
