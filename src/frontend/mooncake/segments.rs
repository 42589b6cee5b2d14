//! Memory that clients mount.

use std::collections::{BTreeMap, BTreeSet};

use mooring_actors::core::Reach;
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_proto::message::inspect::{SegmentState, SegmentUse};
use mooring_proto::message::segment::{MountRequest, Segment as Memory, TransferEngine};
use mooring_proto::mooncake::{
    BatchQueryIp, ErrorCode, Expected, GracefulUnmountSegment, Map, MountSegment,
    QuerySegmentStatus, QuerySegmentStatusById, ReMountSegment, Segment, SegmentStatus, Str,
    UnmountSegment, Uuid,
};
use mooring_proto::{ErrorCode as Refused, Incarnation, WireError};

use super::errors::whole;
use super::keys;
use super::router::Scope;
use crate::frontend::bulk::{unavailable, wrong_answer};
use crate::frontend::mounts::check_room;

/// Fresh memory, unless its client has unmounted some of another master: it may mount the same bytes
/// again under another id, and readers of before may still hold descriptors of them. The client counts
/// only after it has mounted everything again.
pub(super) async fn mount(scope: &Scope<'_>, call: &MountSegment<'_>) -> Vec<u8> {
    let client = keys::client(call.client);
    let answer = async {
        let elsewhere = scope.shared.clients.may_come_from_elsewhere(client, scope.ask().core);
        let mounted_with = elsewhere.then_some(Incarnation::UNNAMED);
        let mount = MountRequest { segment: memory(&call.segment)?, mounted_with };
        let id = mount.segment.segment;
        let table = scope.ask().core.table();
        let known = table.segments.iter().any(|row| row.segment.segment == id);
        check_room(&table, client, std::iter::once(id)).map_err(|error| told(scope, error))?;
        match pool(scope, PoolRequest::Mount { client, mount }).await? {
            PoolReply::Mounted(outcome) => {
                outcome.map(|_| ()).map_err(|error| told(scope, error))?
            }
            _ => return Err(whole(wrong_answer())),
        }
        if !known {
            return Ok(());
        }
        // One that leaves gracefully is mounted still to the core, and leaves all the same.
        match status_of(scope, |used| used.entry.segment.segment == id).await {
            Ok(SegmentStatus::GRACEFULLY_UNMOUNTING) => {
                Err(ErrorCode::UNAVAILABLE_IN_CURRENT_STATUS)
            }
            _ => Ok(()),
        }
    };
    let answer: Expected<()> = answer.await;
    if answer.is_ok() {
        scope.shared.clients.mounted(client);
    }
    scope.reply::<MountSegment<'_>, _, _>(&answer)
}

/// All memory of the client. What this master does not know was mounted with another one, and may
/// still be read by its word.
pub(super) async fn remount(scope: &Scope<'_>, call: &ReMountSegment<'_>) -> Vec<u8> {
    let client = keys::client(call.client);
    let answer = async {
        let again = |segment| {
            let mounted_with = Some(Incarnation::UNNAMED);
            Ok(MountRequest { segment: memory(segment)?, mounted_with })
        };
        let mounts: Vec<_> = call.segments.iter().map(again).collect::<Expected<_>>()?;
        let offered = mounts.iter().map(|mount| mount.segment.segment);
        check_room(&scope.ask().core.table(), client, offered)
            .map_err(|error| told(scope, error))?;
        match pool(scope, PoolRequest::Remount { client, mounts }).await? {
            PoolReply::Remounted(outcome) => {
                outcome.map(|_| ()).map_err(|error| told(scope, error))
            }
            _ => Err(whole(wrong_answer())),
        }
    };
    let answer: Expected<()> = answer.await;
    if answer.is_ok() {
        // A list may name one of them several times.
        let ids: BTreeSet<_> =
            call.segments.iter().map(|segment| keys::segment(segment.id)).collect();
        let segments = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        scope.shared.clients.prune(scope.ask().core).await;
        scope.shared.clients.remounted(client, segments);
    }
    scope.reply::<ReMountSegment<'_>, _, _>(&answer)
}

/// A segment that is not there is unmounted already.
pub(super) async fn unmount(scope: &Scope<'_>, call: &UnmountSegment) -> Vec<u8> {
    let answer = match take_away(scope, call.segment, call.client, 0).await {
        Err(ErrorCode::SEGMENT_NOT_FOUND) => {
            scope.shared.clients.was_elsewhere(keys::client(call.client), scope.ask().core);
            Ok(())
        }
        answer => answer,
    };
    scope.reply::<UnmountSegment, _, _>(&answer)
}

pub(super) async fn unmount_gracefully(
    scope: &Scope<'_>,
    call: &GracefulUnmountSegment,
) -> Vec<u8> {
    let answer = take_away(scope, call.segment, call.client, call.grace_ms).await;
    let answer = answer.map_err(|code| match code {
        ErrorCode::SEGMENT_NOT_FOUND | ErrorCode::ILLEGAL_CLIENT => {
            none_of_its_own(scope, call.client)
        }
        code => code,
    });
    scope.reply::<GracefulUnmountSegment, _, _>(&answer)
}

/// Why a client cannot take a segment away by and by that it has not mounted. The existing master tells
/// clients with other segments from those without any.
fn none_of_its_own(scope: &Scope<'_>, client: Uuid) -> ErrorCode {
    let client = keys::client(client);
    match scope.ask().core.table().segments.iter().any(|row| row.client == client) {
        true => ErrorCode::INVALID_PARAMS,
        false => ErrorCode::SEGMENT_NOT_FOUND,
    }
}

async fn take_away(scope: &Scope<'_>, segment: Uuid, client: Uuid, grace_ms: u64) -> Expected<()> {
    let client = Some(keys::client(client));
    let segment = keys::segment(segment);
    match pool(scope, PoolRequest::Unmount { client, segment, grace_ms }).await? {
        PoolReply::Unmounted(Ok(_)) => Ok(()),
        PoolReply::Unmounted(Err(error)) if error.code == Refused::NotOwner => {
            Err(ErrorCode::ILLEGAL_CLIENT)
        }
        PoolReply::Unmounted(Err(error)) => Err(whole(error)),
        _ => Err(whole(wrong_answer())),
    }
}

/// Of several segments with one name the first in the table speaks, as in the existing master.
pub(super) async fn status(scope: &Scope<'_>, call: &QuerySegmentStatus<'_>) -> Vec<u8> {
    let has_name = |segment: &Memory| {
        segment.transfer_engine.as_ref().is_some_and(|it| it.name.as_bytes() == call.name.0)
    };
    let answer = status_of(scope, |used| has_name(&used.entry.segment)).await;
    scope.reply::<QuerySegmentStatus<'_>, _, _>(&answer)
}

pub(super) async fn status_by_id(scope: &Scope<'_>, call: &QuerySegmentStatusById) -> Vec<u8> {
    let id = keys::segment(call.segment);
    let answer = status_of(scope, |used| used.entry.segment.segment == id).await;
    scope.reply::<QuerySegmentStatusById, _, _>(&answer)
}

async fn status_of(
    scope: &Scope<'_>,
    wanted: impl Fn(&SegmentUse) -> bool,
) -> Expected<SegmentStatus> {
    match pool(scope, PoolRequest::Uses).await? {
        PoolReply::Uses(uses) => {
            let found = uses.iter().find(|used| wanted(used));
            let found = found.and_then(|used| match used.state {
                SegmentState::Open | SegmentState::Quarantined => Some(SegmentStatus::OK),
                SegmentState::Draining => Some(SegmentStatus::GRACEFULLY_UNMOUNTING),
                SegmentState::Leaving => Some(SegmentStatus::UNMOUNTING),
                // Its owner has not come back yet, so for this protocol it is not there.
                SegmentState::Pending => None,
            });
            found.ok_or(ErrorCode::SEGMENT_NOT_FOUND)
        }
        _ => Err(whole(wrong_answer())),
    }
}

/// The hosts of the endpoints of each client's segments, each once. Clients without segments are
/// left out.
pub(super) fn query_ip(scope: &Scope<'_>, call: &BatchQueryIp) -> Vec<u8> {
    let table = scope.ask().core.table();
    let mut by_client: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for row in &table.segments {
        let host = Some(keys::host_of(&row.segment.endpoint)).filter(|host| !host.is_empty());
        by_client.entry(row.client).or_default().extend(host);
    }
    let mut hosts = Vec::new();
    for id in &call.clients {
        // Each is told once, however often it is asked for.
        if let Some(own) = by_client.remove(&keys::client(*id)) {
            hosts.push((*id, own.into_iter().map(Str::from).collect::<Vec<_>>()));
        }
    }
    let missing = call.clients.len() - hosts.len();
    scope.reply_items::<BatchQueryIp, _>(call.clients.len(), missing, &Expected::Ok(Map(hosts)))
}

/// The identity of a segment. Its texts go into descriptors as they are, so they have to be texts.
fn memory(segment: &Segment<'_>) -> Expected<Memory> {
    let text = |field: &str, text: Str<'_>| {
        String::from_utf8(text.0.to_vec()).map_err(|_| {
            tracing::debug!(segment = ?segment.id, field, "a text of a segment is not UTF-8");
            ErrorCode::INVALID_PARAMS
        })
    };
    Ok(Memory {
        segment: keys::segment(segment.id),
        base: segment.base,
        size_bytes: segment.size,
        endpoint: text("te_endpoint", segment.te_endpoint)?,
        certificate_sha256: None,
        transfer_engine: Some(TransferEngine {
            name: text("name", segment.name)?,
            protocol: text("protocol", segment.protocol)?,
            host: text("host_id", segment.host_id)?,
        }),
    })
}

async fn pool(scope: &Scope<'_>, request: PoolRequest) -> Expected<PoolReply> {
    scope.ask().pool(request).await.map_err(|error| whole(unavailable(error)))
}

/// A refusal of memory, of which the operator hears if there is memory of the other kind.
fn told(scope: &Scope<'_>, error: WireError) -> ErrorCode {
    if scope.ask().core.table().is_reached_otherwise(Reach::TransferEngine) {
        scope.shared.context.mooncake.tell_other_fleet();
    }
    whole(error)
}
