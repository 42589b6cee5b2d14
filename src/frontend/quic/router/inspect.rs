//! What concerns all shards: totals, lists, remove all.

use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_proto::WireError;
use mooring_proto::message::inspect::{
    ListClientsReply, ListClientsRequest, ListKeysRequest, ListSegmentsReply, ListSegmentsRequest,
    StatsRequest,
};
use mooring_proto::message::object::RemoveAllRequest;

use super::{Scope, reply};
use crate::frontend::bulk::{self, unavailable, wrong_answer};
use crate::frontend::stats::Snapshot;

pub(super) async fn remove_all(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let RemoveAllRequest { force } = scope.decode()?;
    let sum = bulk::remove_all(scope.ask(), force).await?;
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

pub(super) async fn list_keys(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ListKeysRequest { cursor, limit } = scope.decode()?;
    let page = bulk::list_keys(&scope.context.core, scope.deadline, cursor, limit, false).await?;
    Ok(reply::<ListKeysRequest>(&page))
}
