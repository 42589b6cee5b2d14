//! Puts and upserts: start, end, revoke.
//!
//! A writer is known by the id of its client alone. There is no number of the put either, so a start
//! that is repeated is refused like anybody else's until the discard timeout is over.

use std::sync::atomic::Ordering;

use mooring_actors::core::Reach;
use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest};
use mooring_proto::error::Refusal;
use mooring_proto::message::object::PutStartGrant;
use mooring_proto::mooncake::{
    BatchPutEnd, BatchPutRevoke, BatchPutStart, BatchUpsertEnd, BatchUpsertRevoke,
    BatchUpsertStart, Descriptor, Each, ErrorCode, Expected, ObjectMeta, PutEnd, PutRevoke,
    PutStart, ReplicaStatus, ReplicaType, ReplicateConfig, Request, Str, UpsertEnd, UpsertRevoke,
    UpsertStart, Uuid,
};

use super::errors::{item, whole};
use super::keys;
use super::placement::{Placement, Preferred};
use super::places::{Placed, Places};
use super::router::Scope;
use crate::frontend::calls::each_item;
use crate::frontend::split::split;

/// What a start does to an object that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Put,
    Upsert,
}

/// Starts of one client with one configuration.
struct Starts<'a> {
    mode: Mode,
    client: Uuid,
    keys: &'a [Str<'a>],
    lengths: &'a [u64],
    config: &'a ReplicateConfig<'a>,
}

pub(super) async fn put_start(scope: &Scope<'_>, call: &PutStart<'_>) -> Vec<u8> {
    let PutStart { client, key, slice_length, config, .. } = call;
    let (keys, lengths) = ([*key], [*slice_length]);
    let starts =
        Starts { mode: Mode::Put, client: *client, keys: &keys, lengths: &lengths, config };
    reply_start::<PutStart<'_>>(scope, &starts).await
}

pub(super) async fn upsert_start(scope: &Scope<'_>, call: &UpsertStart<'_>) -> Vec<u8> {
    let UpsertStart { client, key, slice_length, config, .. } = call;
    let (keys, lengths) = ([*key], [*slice_length]);
    let starts =
        Starts { mode: Mode::Upsert, client: *client, keys: &keys, lengths: &lengths, config };
    reply_start::<UpsertStart<'_>>(scope, &starts).await
}

pub(super) async fn put_start_batch(scope: &Scope<'_>, call: &BatchPutStart<'_>) -> Vec<u8> {
    let BatchPutStart { client, keys, slice_lengths: lengths, config, .. } = call;
    let starts = Starts { mode: Mode::Put, client: *client, keys, lengths, config };
    reply_starts::<BatchPutStart<'_>>(scope, &starts).await
}

pub(super) async fn upsert_start_batch(scope: &Scope<'_>, call: &BatchUpsertStart<'_>) -> Vec<u8> {
    let BatchUpsertStart { client, keys, slice_lengths: lengths, config, .. } = call;
    let starts = Starts { mode: Mode::Upsert, client: *client, keys, lengths, config };
    reply_starts::<BatchUpsertStart<'_>>(scope, &starts).await
}

async fn reply_start<R: Request>(scope: &Scope<'_>, starts: &Starts<'_>) -> Vec<u8> {
    let grants = started(scope, starts).await;
    let places = places(scope, &grants).await;
    let (descriptors, answers) = described(&places, starts, &grants);
    let answer = match &answers[..] {
        [Ok(range)] => Ok(&descriptors[range.clone()]),
        [Err(code)] => Err(*code),
        _ => Err(ErrorCode::INTERNAL_ERROR),
    };
    scope.reply::<R, _, _>(&answer)
}

async fn reply_starts<R: Request>(scope: &Scope<'_>, starts: &Starts<'_>) -> Vec<u8> {
    let grants = started(scope, starts).await;
    let places = places(scope, &grants).await;
    let (descriptors, answers) = described(&places, starts, &grants);
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    let items = answers.iter().map(|answer| match answer {
        Ok(range) => Ok(&descriptors[range.clone()]),
        Err(code) => Err(*code),
    });
    scope.reply_items::<R, _>(answers.len(), failed, &Each(items))
}

async fn places(scope: &Scope<'_>, grants: &[Expected<PutStartGrant>]) -> Places {
    let ranges = grants.iter().flatten().flat_map(|grant| &grant.replicas);
    Places::for_all(scope.ask().core, ranges).await
}

/// The descriptors of all grants in one list, and for each start which of them are its own.
fn described<'a>(
    places: &'a Places,
    starts: &Starts<'_>,
    grants: &[Expected<PutStartGrant>],
) -> (Vec<Descriptor<'a>>, Vec<Expected<std::ops::Range<usize>>>) {
    let mut descriptors = Vec::with_capacity(grants.len());
    let answers = grants.iter().enumerate().map(|(index, grant)| {
        let grant = grant.as_ref().map_err(|code| *code)?;
        if !places.tell_all(&grant.replicas) {
            // The pool has no time to say where they are. Nobody ends this put.
            return Err(ErrorCode::NO_AVAILABLE_HANDLE);
        }
        let from = descriptors.len();
        let placed = Placed {
            size_bytes: starts.lengths[index],
            sequence: grant.sequence,
            replicas: &grant.replicas,
        };
        places.describe(placed, ReplicaStatus::PROCESSING, &mut descriptors);
        if descriptors.len() == from {
            // Its segments went between the two looks, and the put with them.
            return Err(ErrorCode::NO_AVAILABLE_HANDLE);
        }
        Ok(from..descriptors.len())
    });
    let answers = answers.collect();
    (descriptors, answers)
}

/// One answer for each key, in their order.
async fn started(scope: &Scope<'_>, starts: &Starts<'_>) -> Vec<Expected<PutStartGrant>> {
    let refuse = |code: ErrorCode| starts.keys.iter().map(|_| Err(code)).collect();
    if starts.lengths.len() != starts.keys.len() {
        return refuse(ErrorCode::INVALID_PARAMS);
    }
    let placement = Placement::of(starts.config, starts.keys.len(), &scope.shared.options);
    let placement = match placement {
        Ok(placement) => placement,
        Err(code) => return refuse(code),
    };
    let core = scope.ask().core;
    let table = core.table();
    if table.is_reached_otherwise(Reach::TransferEngine) {
        scope.shared.context.mooncake.tell_other_fleet();
        return refuse(ErrorCode::NO_AVAILABLE_HANDLE);
    }
    let client = keys::client(starts.client);
    let local_first = scope.shared.options.local_first;
    let preferred = Preferred::of(starts.config, client, &table, local_first);
    if !starts.config.prefer_alloc_in_same_node || starts.keys.len() < 2 {
        return start(scope, starts, &placement, &preferred, 0..starts.keys.len()).await;
    }
    // Where the first one goes, the others try first.
    let mut answers = start(scope, starts, &placement, &preferred, 0..1).await;
    let beside = match answers.first() {
        Some(Ok(grant)) => Preferred::beside(grant, &core.table()).unwrap_or(preferred),
        _ => preferred,
    };
    answers.extend(start(scope, starts, &placement, &beside, 1..starts.keys.len()).await);
    answers
}

async fn start(
    scope: &Scope<'_>,
    starts: &Starts<'_>,
    placement: &Placement,
    preferred: &Preferred,
    range: std::ops::Range<usize>,
) -> Vec<Expected<PutStartGrant>> {
    let (first, keys) = (range.start, &starts.keys[range]);
    let client = keys::client(starts.client);
    let options = placement.options(preferred);
    let route = scope.ask().core.route();
    let parts = split(route, scope.body, keys.iter().map(|key| key.0));
    let answers = each_item(
        scope.ask(),
        keys.len(),
        parts,
        |part, batch| {
            let options = options.clone();
            let extras = placement.extras(|groups| part.pick(|at| groups[first + at].clone()));
            let puts = part.pick(|at| PutRequest {
                size_bytes: starts.lengths[first + at],
                put_id: scope.shared.next_put.fetch_add(1, Ordering::Relaxed),
            });
            match starts.mode {
                Mode::Put => ShardRequest::PutStart { client, options, extras, batch, puts },
                Mode::Upsert => ShardRequest::UpsertStart { client, options, extras, batch, puts },
            }
        },
        |answer| match answer {
            ShardReply::Started(items) => Some(items),
            _ => None,
        },
    );
    match answers.await {
        Ok(items) => items.into_iter().map(|answer| answer.map_err(item)).collect(),
        Err(error) => {
            let code = whole(error);
            keys.iter().map(|_| Err(code)).collect()
        }
    }
}

pub(super) async fn put_end(scope: &Scope<'_>, call: &PutEnd<'_>) -> Vec<u8> {
    let metas = std::slice::from_ref(&call.meta);
    reply_one::<PutEnd<'_>>(scope, ended(scope, call.client, metas, call.replica_type).await)
}

pub(super) async fn upsert_end(scope: &Scope<'_>, call: &UpsertEnd<'_>) -> Vec<u8> {
    let metas = std::slice::from_ref(&call.meta);
    reply_one::<UpsertEnd<'_>>(scope, ended(scope, call.client, metas, call.replica_type).await)
}

pub(super) async fn put_end_batch(scope: &Scope<'_>, call: &BatchPutEnd<'_>) -> Vec<u8> {
    let answers = ended(scope, call.client, &call.metas, call.replica_type).await;
    reply_all::<BatchPutEnd<'_>>(scope, &answers)
}

pub(super) async fn upsert_end_batch(scope: &Scope<'_>, call: &BatchUpsertEnd<'_>) -> Vec<u8> {
    let answers = ended(scope, call.client, &call.metas, ReplicaType::ALL).await;
    reply_all::<BatchUpsertEnd<'_>>(scope, &answers)
}

async fn ended(
    scope: &Scope<'_>,
    client: Uuid,
    metas: &[ObjectMeta<'_>],
    replica_type: ReplicaType,
) -> Vec<Expected<()>> {
    if !in_memory(replica_type) {
        return metas.iter().map(|_| Ok(())).collect();
    }
    let client = keys::client(client);
    let parts = split(scope.ask().core.route(), scope.body, metas.iter().map(|meta| meta.key.0));
    let request = |part: &crate::frontend::split::Part, batch| {
        let checksums = part.pick(|at| metas[at].object_checksum);
        ShardRequest::EndByWriter { client, batch, checksums }
    };
    let answers = each_item(scope.ask(), metas.len(), parts, request, done).await;
    for_each(metas.len(), answers.map_err(whole))
}

pub(super) async fn put_revoke(scope: &Scope<'_>, call: &PutRevoke<'_>) -> Vec<u8> {
    let answers = revoked(scope, call.client, &[call.key], call.replica_type).await;
    reply_one::<PutRevoke<'_>>(scope, answers)
}

pub(super) async fn upsert_revoke(scope: &Scope<'_>, call: &UpsertRevoke<'_>) -> Vec<u8> {
    let answers = revoked(scope, call.client, &[call.key], call.replica_type).await;
    reply_one::<UpsertRevoke<'_>>(scope, answers)
}

pub(super) async fn put_revoke_batch(scope: &Scope<'_>, call: &BatchPutRevoke<'_>) -> Vec<u8> {
    let answers = revoked(scope, call.client, &call.keys, call.replica_type).await;
    reply_all::<BatchPutRevoke<'_>>(scope, &answers)
}

pub(super) async fn upsert_revoke_batch(
    scope: &Scope<'_>,
    call: &BatchUpsertRevoke<'_>,
) -> Vec<u8> {
    let answers = revoked(scope, call.client, &call.keys, ReplicaType::ALL).await;
    reply_all::<BatchUpsertRevoke<'_>>(scope, &answers)
}

async fn revoked(
    scope: &Scope<'_>,
    client: Uuid,
    keys: &[Str<'_>],
    replica_type: ReplicaType,
) -> Vec<Expected<()>> {
    if !in_memory(replica_type) {
        return keys.iter().map(|_| Ok(())).collect();
    }
    let client = keys::client(client);
    let parts = split(scope.ask().core.route(), scope.body, keys.iter().map(|key| key.0));
    let request = |_: &_, batch| ShardRequest::RevokeByWriter { client, batch };
    let answers = each_item(scope.ask(), keys.len(), parts, request, done).await;
    for_each(keys.len(), answers.map_err(whole))
}

/// Whether replicas in memory are meant. No object has any other, so for the other kinds there is
/// nothing to do, and the existing master answers that with success.
fn in_memory(replica_type: ReplicaType) -> bool {
    matches!(replica_type, ReplicaType::MEMORY | ReplicaType::ALL)
}

pub(super) fn done(answer: ShardReply) -> Option<Vec<Result<(), Refusal>>> {
    match answer {
        ShardReply::Done(items) => Some(items),
        _ => None,
    }
}

/// One answer for each key, also if the whole request was refused.
pub(super) fn for_each(
    keys: usize,
    answers: Expected<Vec<Result<(), Refusal>>>,
) -> Vec<Expected<()>> {
    match answers {
        Ok(answers) => answers.into_iter().map(|answer| answer.map_err(item)).collect(),
        Err(code) => (0..keys).map(|_| Err(code)).collect(),
    }
}

/// The frame with the answers to a batch.
pub(super) fn reply_all<R: Request>(scope: &Scope<'_>, answers: &[Expected<()>]) -> Vec<u8> {
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    scope.reply_items::<R, _>(answers.len(), failed, answers)
}

fn reply_one<R: Request>(scope: &Scope<'_>, answers: Vec<Expected<()>>) -> Vec<u8> {
    let answer = answers.into_iter().next().unwrap_or(Err(ErrorCode::INTERNAL_ERROR));
    scope.reply::<R, _, _>(&answer)
}
