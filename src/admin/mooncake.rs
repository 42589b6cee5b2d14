//! The pages of Mooncake's master, with its paths, parameters and shapes, so that what people and
//! engines ask there is answered here. None of them grants a lease.

mod batch;
mod jobs;
mod keys;
mod problem;
mod role;
mod segments;
mod summary;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};

use super::{Admin, Serving};
use problem::Problem;
pub(super) use role::{health, stage};
pub(super) use summary::{Window, line as summary_line};

/// All pages but those that every master has.
pub(super) fn pages() -> Router<Arc<Admin>> {
    Router::new()
        .route("/role", get(role::role))
        .route("/ha_status", get(role::ha_status))
        .route("/leader", get(role::leader))
        .route("/kv_events/status", get(role::kv_events))
        .route("/metrics/summary", get(summary::page))
        .route("/get_all_keys", get(keys::all))
        .route("/query_key", get(batch::one))
        .route("/batch_query_keys", get(batch::many))
        .route("/get_all_segments", get(segments::names))
        .route("/query_segment", get(segments::one))
        .route("/get_segments_detail", get(segments::all))
        .route("/api/v1/segments/status", get(segments::status))
        .route("/api/v1/remove_all", post(keys::remove_all))
        .route("/api/v1/drain_jobs", post(jobs::create))
        .route("/api/v1/drain_jobs/query", get(jobs::find))
        .route("/api/v1/drain_jobs/cancel", post(jobs::find))
        .route(
            "/api/v1/tenant_quotas",
            get(jobs::quotas).put(jobs::set_quota).delete(jobs::remove_quota),
        )
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
}

/// For paths and methods that nobody knows.
async fn nothing() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "404 Not Found")
}

/// The process, if it serves.
fn serving(admin: &Admin) -> Result<&Serving, Problem> {
    admin.serving.get().ok_or(Problem::not_active())
}
