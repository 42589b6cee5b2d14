//! What a client asks before and beside its work.

use mooring_proto::mooncake::{
    ClientStatus, Expected, FetchTasks, GetFsdir, GetStorageConfig, GetStorageConfigResponse, Ping,
    PingResponse, ServiceReady, Str, TaskAssignment,
};

use super::errors::whole;
use super::keys;
use super::router::Scope;
use crate::frontend::bulk::unavailable;

/// The version that clients of every release from 0.3.8 to 0.3.14 insist on.
const STORE_VERSION: &str = "2.0.0";

pub(super) fn service_ready(scope: &Scope<'_>) -> Vec<u8> {
    scope.reply::<ServiceReady, _, _>(&Expected::Ok(Str::from(STORE_VERSION)))
}

/// There is no tier on disk: an empty directory says so.
pub(super) fn get_storage_config(scope: &Scope<'_>) -> Vec<u8> {
    let config = GetStorageConfigResponse {
        fsdir: Str::default(),
        enable_disk_eviction: true,
        quota_bytes: 0,
    };
    scope.reply::<GetStorageConfig, _, _>(&Expected::Ok(config))
}

pub(super) fn get_fsdir(scope: &Scope<'_>) -> Vec<u8> {
    scope.reply::<GetFsdir, _, _>(&Expected::Ok(Str::default()))
}

/// OK only for a client that has mounted all its segments again with this master. Of a client that has
/// mounted nothing at all no notice is taken: it counts from its remount, as with the existing master.
pub(super) async fn ping(scope: &Scope<'_>, call: &Ping) -> Vec<u8> {
    let client = keys::client(call.client);
    let clients = &scope.shared.clients;
    let segments = clients.segments_of(client);
    let core = scope.ask().core;
    if segments.is_none() && !core.table().segments.iter().any(|row| row.client == client) {
        return scope.reply::<Ping, _, _>(&Expected::Ok(pong(ClientStatus::NEED_REMOUNT)));
    }
    let answer = core.ping(client, segments.unwrap_or(0), None).await;
    let answer = answer.map_err(|error| whole(unavailable(error))).map(|answer| {
        let known = segments.is_some() && !answer.need_remount;
        if !known {
            clients.forget(client);
        }
        pong(if known { ClientStatus::OK } else { ClientStatus::NEED_REMOUNT })
    });
    scope.reply::<Ping, _, _>(&answer)
}

fn pong(client_status: ClientStatus) -> PingResponse {
    PingResponse { view_version_id: 0, client_status }
}

/// This master orders no copies and moves. Clients ask every second, and an error would cost them
/// their connection.
pub(super) fn fetch_tasks(scope: &Scope<'_>) -> Vec<u8> {
    scope.reply::<FetchTasks, _, _>(&Expected::Ok(Vec::<TaskAssignment<'_>>::new()))
}
