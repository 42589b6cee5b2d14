//! Memory that clients offer, and the table of it.

use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_proto::WireError;
use mooring_proto::message::segment::{
    MountRequest, RemountReply, RemountRequest, SegmentTableReply, SegmentTableRequest,
    UnmountReply, UnmountRequest,
};

use super::{Scope, reply};
use crate::frontend::bulk::{unavailable, wrong_answer};
use crate::frontend::mounts::check_room;

pub(super) async fn mount(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let mount: MountRequest = scope.decode()?;
    let offered = std::iter::once(mount.segment.segment);
    check_room(&scope.context.core.table(), scope.client, offered)?;
    match scope.pool(PoolRequest::Mount { client: scope.client, mount }).await? {
        PoolReply::Mounted(outcome) => Ok(reply::<MountRequest>(&outcome?)),
        _ => Err(wrong_answer()),
    }
}

pub(super) async fn remount(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let RemountRequest { segments } = scope.decode()?;
    let offered = segments.iter().map(|mount| mount.segment.segment);
    check_room(&scope.context.core.table(), scope.client, offered)?;
    let request = PoolRequest::Remount { client: scope.client, mounts: segments };
    match scope.pool(request).await? {
        PoolReply::Remounted(outcome) => {
            Ok(reply::<RemountRequest>(&RemountReply { grants: outcome? }))
        }
        _ => Err(wrong_answer()),
    }
}

pub(super) async fn unmount(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let UnmountRequest { segment, grace_ms } = scope.decode()?;
    let request = PoolRequest::Unmount { client: Some(scope.client), segment, grace_ms };
    match scope.pool(request).await? {
        PoolReply::Unmounted(outcome) => {
            Ok(reply::<UnmountRequest>(&UnmountReply { grace_left_ms: outcome? }))
        }
        _ => Err(wrong_answer()),
    }
}

pub(super) fn table(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let SegmentTableRequest { known } = scope.decode()?;
    let incarnation = scope.context.core.incarnation();
    let table = scope.context.core.table();
    let current = known == Some((incarnation, table.epoch));
    let segments = (!current).then(|| table.segments.clone());
    let epoch = table.epoch;
    Ok(reply::<SegmentTableRequest>(&SegmentTableReply { incarnation, epoch, segments }))
}

impl Scope<'_> {
    pub(super) async fn pool(&self, request: PoolRequest) -> Result<PoolReply, WireError> {
        self.ask().pool(request).await.map_err(unavailable)
    }
}
