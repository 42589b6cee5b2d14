//! Batches of keys.

use mooring_actors::core::Reach;
use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest};
use mooring_proto::message::Kind;
use mooring_proto::message::object::{
    ExistReply, ExistRequest, GetReply, GetRequest, ItemsReply, MatchPrefixReply,
    MatchPrefixRequest, PutEndRequest, PutItem, PutRevokeRequest, PutStartReply, PutStartRequest,
    RemoveRequest, ValidateRequest,
};
use mooring_proto::{ErrorCode, WireError};
use serde_bytes::Bytes;

use super::{Scope, reply};
use crate::frontend::calls::{Ask, each_bit, each_item};
use crate::frontend::split::{Part, split};

pub(super) async fn put_start(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let PutStartRequest { options, items } = scope.decode()?;
    if scope.context.core.table().is_reached_otherwise(Reach::Quic) {
        let text =
            "the memory of this master is reached by Mooncake's transfer engine, not over QUIC";
        let refusal = WireError::new(ErrorCode::NoSegment, text);
        scope.context.counters.kind(Kind::PutStart).batch.refused(items.len());
        return Err(refusal);
    }
    let parts = split(scope.route(), scope.body, items.iter().map(|item| item.key.as_ref()));
    let answers = each_item(
        scope.ask(),
        items.len(),
        parts,
        |part, batch| ShardRequest::PutStart {
            client: scope.client,
            options: options.clone(),
            extras: None,
            batch,
            puts: part.pick(|position| PutRequest {
                size_bytes: items[position].size_bytes,
                put_id: items[position].put_id,
            }),
        },
        |answer| match answer {
            ShardReply::Started(items) => Some(items),
            _ => None,
        },
    )
    .await;
    let items = scope.counted(Kind::PutStart, items.len(), answers)?;
    let core = &scope.context.core;
    Ok(reply::<PutStartRequest<'_>>(&PutStartReply {
        incarnation: core.incarnation(),
        segment_epoch: core.table().epoch,
        discard_timeout_ms: core.settings().put_discard_timeout_ms,
        items,
    }))
}

pub(super) async fn put_end(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let PutEndRequest { incarnation, items } = scope.decode()?;
    let parts = scope.split_puts(&items);
    let answers = each_item(
        scope.ask(),
        items.len(),
        parts,
        |part, batch| {
            let sequences = sequences_of(part, &items);
            ShardRequest::PutEnd { incarnation, batch, sequences }
        },
        done,
    )
    .await;
    let items = scope.counted(Kind::PutEnd, items.len(), answers)?;
    Ok(reply::<PutEndRequest<'_>>(&ItemsReply { items }))
}

pub(super) async fn put_revoke(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let PutRevokeRequest { incarnation, no_write_in_flight, items } = scope.decode()?;
    let parts = scope.split_puts(&items);
    let answers = each_item(
        scope.ask(),
        items.len(),
        parts,
        |part, batch| {
            let sequences = sequences_of(part, &items);
            ShardRequest::PutRevoke { incarnation, no_write_in_flight, batch, sequences }
        },
        done,
    )
    .await;
    let items = scope.counted(Kind::PutRevoke, items.len(), answers)?;
    Ok(reply::<PutRevokeRequest<'_>>(&ItemsReply { items }))
}

pub(super) async fn validate(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ValidateRequest { incarnation, items } = scope.decode()?;
    let parts = scope.split_puts(&items);
    let answers = each_item(
        scope.ask(),
        items.len(),
        parts,
        |part, batch| {
            let sequences = sequences_of(part, &items);
            ShardRequest::Validate { incarnation, batch, sequences }
        },
        done,
    )
    .await;
    let items = scope.counted(Kind::Validate, items.len(), answers)?;
    Ok(reply::<ValidateRequest<'_>>(&ItemsReply { items }))
}

pub(super) async fn remove(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let RemoveRequest { force, keys } = scope.decode()?;
    let parts = scope.split_keys(&keys);
    let request = |_: &Part, batch| ShardRequest::Remove { force, batch };
    let answers = each_item(scope.ask(), keys.len(), parts, request, done).await;
    let items = scope.counted(Kind::Remove, keys.len(), answers)?;
    Ok(reply::<RemoveRequest<'_>>(&ItemsReply { items }))
}

pub(super) async fn get(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let GetRequest { keys } = scope.decode()?;
    let parts = scope.split_keys(&keys);
    let answers = each_item(
        scope.ask(),
        keys.len(),
        parts,
        |_, batch| ShardRequest::Get { batch },
        |answer| match answer {
            ShardReply::Located(items) => Some(items),
            _ => None,
        },
    )
    .await;
    let items = scope.counted(Kind::Get, keys.len(), answers)?;
    let core = &scope.context.core;
    Ok(reply::<GetRequest<'_>>(&GetReply {
        incarnation: core.incarnation(),
        segment_epoch: core.table().epoch,
        lease_ttl_ms: core.settings().lease_ttl_ms,
        items,
    }))
}

pub(super) async fn exist(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ExistRequest { lease, keys } = scope.decode()?;
    let readable = readable(scope, Kind::Exist, lease, &keys).await?;
    Ok(reply::<ExistRequest<'_>>(&ExistReply::pack(readable.into_iter())))
}

pub(super) async fn match_prefix(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let MatchPrefixRequest { lease, keys } = scope.decode()?;
    let readable = readable(scope, Kind::MatchPrefix, lease, &keys).await?;
    let matched = readable.iter().take_while(|readable| **readable).count();
    // A batch has at most 65,536 keys.
    Ok(reply::<MatchPrefixRequest<'_>>(&MatchPrefixReply { matched: matched as u32 }))
}

/// Which keys are readable. One that is not is an answer like any other.
async fn readable(
    scope: &Scope<'_>,
    kind: Kind,
    lease: bool,
    keys: &[&Bytes],
) -> Result<Vec<bool>, WireError> {
    let parts = scope.split_keys(keys);
    let request = |_: &Part, batch| ShardRequest::Exist { lease, batch };
    let readable = each_bit(scope.ask(), keys.len(), parts, request).await;
    let counters = &scope.context.counters.kind(kind).batch;
    match &readable {
        Ok(_) => counters.answered(keys.len(), 0),
        Err(_) => counters.refused(keys.len()),
    }
    readable
}

impl Scope<'_> {
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask { core: &self.context.core, deadline: self.deadline, trail: self.trail }
    }

    fn route(&self) -> mooring_actors::Route {
        self.context.core.route()
    }

    fn split_keys(&self, keys: &[&Bytes]) -> Vec<Part> {
        split(self.route(), self.body, keys.iter().map(|key| key.as_ref()))
    }

    fn split_puts(&self, items: &[PutItem<'_>]) -> Vec<Part> {
        split(self.route(), self.body, items.iter().map(|item| item.key.as_ref()))
    }
}

fn sequences_of(part: &Part, items: &[PutItem<'_>]) -> Vec<u64> {
    part.pick(|position| items[position].sequence)
}

fn done(answer: ShardReply) -> Option<Vec<Result<(), mooring_proto::Refusal>>> {
    match answer {
        ShardReply::Done(items) => Some(items),
        _ => None,
    }
}
