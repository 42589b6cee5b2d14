//! The admin pages over HTTP: whether the process lives and serves, and its metrics. They know no
//! authentication, and grant no lease.

mod exposition;
mod metrics;
mod readiness;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::json;

use crate::frontend::Context;
use crate::frontend::quic::{Listener, Probe};
use readiness::Readiness;

/// What the pages show.
pub(crate) struct Admin {
    context: Arc<Context>,
    listener: Arc<Listener>,
    readiness: Readiness,
}

impl Admin {
    /// The pages of a process that serves.
    pub(crate) fn new(context: Arc<Context>, listener: Arc<Listener>, probe: Probe) -> Arc<Admin> {
        let readiness = Readiness::new(context.clone(), probe);
        Arc::new(Admin { context, listener, readiness })
    }
}

/// Serves the pages until the process ends. Must be called inside a tokio runtime.
///
/// # Errors
/// If the socket is of no use.
pub(crate) fn start(socket: TcpListener, admin: Arc<Admin>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let pages = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/version", get(version))
        .with_state(admin);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(socket, pages).await {
            tracing::error!(%error, "the admin pages are gone");
        }
    });
    Ok(())
}

/// The process lives: it answers this.
async fn health(State(admin): State<Arc<Admin>>) -> Response {
    let state = if admin.context.stage.is_draining() { "draining" } else { "serving" };
    Json(json!({ "status": "live", "state": state })).into_response()
}

/// Requests are answered, by the port and by every shard.
async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    match admin.readiness.check().await {
        Ok(()) => Json(json!({ "ready": true })).into_response(),
        Err(reason) => {
            let body = Json(json!({ "ready": false, "reason": reason }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

async fn metrics_page(State(admin): State<Arc<Admin>>) -> Response {
    match metrics::page(&admin.context, &admin.listener).await {
        Ok(text) => ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

async fn version() -> Response {
    let body = json!({ "name": "mooring", "version": env!("CARGO_PKG_VERSION") });
    Json(body).into_response()
}
