//! `/debug/hang`: parts of the process hang for good, for tests of what has to notice that. Only in
//! builds for development.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use mooring_actors::ShardId;

use super::{Admin, query};

/// With `shard=N` that shard hangs, with `ports` all threads that serve the ports.
pub(super) async fn hang(State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery) -> StatusCode {
    let Some(serving) = admin.serving.get() else { return StatusCode::SERVICE_UNAVAILABLE };
    let query = query.as_deref();
    if let Some(shard) = query::text(query, "shard").and_then(|text| text.parse().ok()) {
        serving.context.core.hang(ShardId(shard));
    }
    if query::raw(query, "ports").is_some() {
        // One that hangs already may keep another one to itself.
        for _ in 0..serving.ports.metrics().num_workers() * 4 {
            serving.ports.spawn(async {
                loop {
                    std::thread::park();
                }
            });
        }
    }
    StatusCode::OK
}
