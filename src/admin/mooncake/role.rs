//! What kind of master this is: the only one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Json, Response};
use serde::Serialize;

use super::super::{Admin, StartState};

/// The process lives: it answers this. Beside what Mooncake's master says there is `state`, and
/// `reason` as long as it does not serve.
#[derive(Serialize)]
struct Health {
    status: &'static str,
    role: &'static str,
    ha_state: &'static str,
    service_ready: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
    state: &'static str,
    reason: Option<String>,
}

/// How far the process is.
pub(in crate::admin) struct Stage {
    pub(super) role: &'static str,
    pub(super) ha_state: &'static str,
    pub(super) is_ready: bool,
    pub(in crate::admin) state: &'static str,
    pub(in crate::admin) reason: Option<String>,
}

/// The stage as of now.
pub(in crate::admin) fn stage(admin: &Admin) -> Stage {
    let (state, is_ready) = match admin.serving.get() {
        Some(serving) if serving.context.stage.is_draining() => ("draining", false),
        Some(_) => ("serving", true),
        None => {
            let progress = admin.progress();
            let ha_state = match progress.state {
                StartState::Starting => "starting",
                StartState::Waiting | StartState::Refused => "standby",
                StartState::Restoring => "recovering",
            };
            let (state, reason) = (progress.state.name(), Some(progress.why_not_ready()));
            return Stage { role: "standby", ha_state, is_ready: false, state, reason };
        }
    };
    Stage { role: "leader", ha_state: "serving", is_ready, state, reason: None }
}

pub(in crate::admin) async fn health(State(admin): State<Arc<Admin>>) -> Response {
    let stage = stage(&admin);
    Json(Health {
        status: "ok",
        role: stage.role,
        ha_state: stage.ha_state,
        service_ready: stage.is_ready,
        leader_address: None,
        view_version: None,
        state: stage.state,
        reason: stage.reason,
    })
    .into_response()
}

pub(super) async fn role(State(admin): State<Arc<Admin>>) -> &'static str {
    stage(&admin).role
}

pub(super) async fn ha_status(State(admin): State<Arc<Admin>>) -> &'static str {
    stage(&admin).ha_state
}

#[derive(Serialize)]
struct Leader {
    present: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

/// A master that is alone has not been elected, and that one names none either.
pub(super) async fn leader() -> Response {
    Json(Leader { present: false, leader_address: None, view_version: None }).into_response()
}

#[derive(Default, Serialize)]
struct KvEvents {
    enabled: bool,
    published_batches: u64,
    published_events: u64,
    dropped_events: u64,
    skipped_unparsed_keys: u64,
}

/// No events are published.
pub(super) async fn kv_events() -> Response {
    Json(KvEvents::default()).into_response()
}
