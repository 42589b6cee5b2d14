//! What concerns all shards: totals, lists, remove all.

use std::time::Duration;

use mooring_actors::ShardId;
use mooring_actors::core::CallError;
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_actors::shard::message::{ShardReply, ShardRequest};
use mooring_proto::message::inspect::{
    ListClientsReply, ListClientsRequest, ListKeysReply, ListKeysRequest, ListSegmentsReply,
    ListSegmentsRequest, StatsRequest,
};
use mooring_proto::message::object::{RemoveAllReply, RemoveAllRequest};
use mooring_proto::{ErrorCode, WireError};

use super::calls::unavailable;
use super::{Scope, reply, wrong_answer};
use crate::frontend::stats::Snapshot;

pub(super) async fn remove_all(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let RemoveAllRequest { force } = scope.decode()?;
    let mut sent = Vec::new();
    for shard in 0..scope.context.core.route().shards() {
        let mut tries = 0;
        // Once one shard removes, the others have to: a client does not repeat this request.
        let answer = loop {
            let request = ShardRequest::RemoveAll { force };
            match scope.context.core.shard(ShardId(shard), scope.deadline, request) {
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
    Ok(reply::<RemoveAllRequest>(&sum))
}

pub(super) async fn stats(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let StatsRequest {} = scope.decode()?;
    let snapshot = Snapshot::take(scope.context).await.map_err(unavailable)?;
    Ok(reply::<StatsRequest>(&snapshot.reply(scope.context)))
}

pub(super) async fn list_segments(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ListSegmentsRequest {} = scope.decode()?;
    match scope.pool(PoolRequest::Uses).await? {
        PoolReply::Uses(segments) => {
            Ok(reply::<ListSegmentsRequest>(&ListSegmentsReply { segments }))
        }
        _ => Err(wrong_answer()),
    }
}

pub(super) async fn list_clients(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ListClientsRequest {} = scope.decode()?;
    let clients = scope.context.core.list_clients().await.map_err(unavailable)?;
    Ok(reply::<ListClientsRequest>(&ListClientsReply { clients }))
}

/// A page of one shard; an empty one that is not the last is passed over.
pub(super) async fn list_keys(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ListKeysRequest { cursor, limit } = scope.decode()?;
    let shards = u64::from(scope.context.core.route().shards());
    let mut place = Cursor::of(cursor);
    loop {
        let shard = u16::try_from(place.shard).ok().filter(|_| place.shard < shards);
        let Some(shard) = shard else {
            let text = format!("cursor: {cursor} is not where a page ended");
            return Err(WireError::new(ErrorCode::InvalidArgument, text));
        };
        let request = ShardRequest::ListKeys { cursor: place.within, limit };
        let answer = scope.context.core.shard(ShardId(shard), scope.deadline, request);
        let ShardReply::Keys { keys, next } =
            answer.map_err(unavailable)?.await.map_err(unavailable)?
        else {
            return Err(wrong_answer());
        };
        let next = place.next(next, shards);
        match next {
            Some(further) if keys.is_empty() => place = further,
            _ => {
                let next = next.map(Cursor::number);
                return Ok(reply::<ListKeysRequest>(&ListKeysReply { keys, next }));
            }
        }
    }
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
