//! The admin pages over HTTP: whether the process lives and serves, and its metrics. They know no
//! authentication, and grant no lease.

pub(crate) mod connections;
mod exposition;
mod handoff;
mod inspection;
mod metrics;
mod mooncake;
mod progress;
pub(crate) mod query;
mod readiness;
mod status;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use serde_json::json;
use tokio::time::MissedTickBehavior;

pub(crate) use self::handoff::{HandoffReport, RestoreReport};
use self::mooncake::stage;
pub(crate) use self::progress::{Progress, StartState};
use crate::frontend::Context;
use crate::frontend::quic::{Listener, Probe};
use connections::Connections;
use readiness::Readiness;

/// What the pages show.
pub(crate) struct Admin {
    started: Instant,
    progress: Mutex<Progress>,
    serving: OnceLock<Serving>,
    window: mooncake::Window,
}

/// A process that serves, or has begun to leave.
struct Serving {
    context: Arc<Context>,
    /// `None` without QUIC.
    listener: Option<Arc<Listener>>,
    readiness: Readiness,
}

impl Serving {
    /// Restored segments whose owners have not come back yet; zero if the pool has no room for the
    /// question.
    async fn segments_pending(&self) -> u64 {
        match self.context.core.pool(PoolRequest::Totals).await {
            Ok(PoolReply::Totals(totals)) => totals.segments_pending,
            _ => 0,
        }
    }
}

impl Admin {
    /// The pages of a process that starts.
    pub(crate) fn new() -> Arc<Admin> {
        Arc::new(Admin {
            started: Instant::now(),
            progress: Mutex::default(),
            serving: OnceLock::new(),
            window: mooncake::Window::new(),
        })
    }

    /// Notes how far the start has come.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
    }

    /// Shows a process that serves from now on.
    pub(crate) fn serve(&self, context: Arc<Context>, quic: Option<(Arc<Listener>, Probe)>) {
        let (listener, probe) = quic.unzip();
        let readiness = Readiness::new(context.clone(), probe);
        // A process begins to serve once.
        let _ = self.serving.set(Serving { context, listener, readiness });
    }

    /// Why requests are not answered yet, in one line for people.
    pub(crate) fn why_not_ready(&self) -> String {
        self.progress().why_not_ready()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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
        .merge(mooncake::pages())
        .route("/health", get(mooncake::health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/status", get(status::page))
        .route("/version", get(version))
        .with_state(admin);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(Connections::new(socket), pages).await {
            tracing::error!(%error, "the admin pages are gone");
        }
    });
    Ok(())
}

/// Logs the summary this often, until the process ends. Must be called inside a tokio runtime.
pub(crate) fn log_summary(admin: Arc<Admin>, interval: Duration) {
    tokio::spawn(async move {
        // Its rates are those between two lines, whoever asks for the page meanwhile.
        let window = mooncake::Window::new();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // An actor without room for the question has better things to do; the next line tells.
            if let Ok(summary) = mooncake::summary_line(&admin, &window).await {
                tracing::info!(summary, "master metrics");
            }
        }
    });
}

/// Requests are answered, by the port and by every shard. How many restored segments are pending is
/// told beside it, while there are any: their objects are misses, which is no reason not to be asked.
async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    let outcome = match admin.serving.get() {
        Some(serving) => match serving.readiness.check().await {
            Ok(()) => Ok(serving.segments_pending().await),
            Err(reason) => Err(reason),
        },
        None => Err(admin.progress().why_not_ready()),
    };
    match outcome {
        Ok(0) => Json(json!({ "ready": true })).into_response(),
        Ok(pending) => Json(json!({ "ready": true, "segments_pending": pending })).into_response(),
        Err(reason) => {
            let body = Json(json!({ "ready": false, "reason": reason }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

async fn metrics_page(State(admin): State<Arc<Admin>>) -> Response {
    let text = metrics::page(&admin).await;
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}

async fn version() -> Response {
    let body = json!({ "name": "mooring", "version": env!("CARGO_PKG_VERSION") });
    Json(body).into_response()
}
