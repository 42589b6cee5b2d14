//! The admin pages over HTTP: whether the process lives and serves, and its metrics. They know no
//! authentication, and grant no lease.

pub(crate) mod connections;
mod exposition;
pub(crate) mod guard;
mod handoff;
#[cfg(debug_assertions)]
mod hang;
mod inspection;
mod log_level;
mod metrics;
mod mooncake;
mod progress;
pub(crate) mod query;
mod readiness;
mod status;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use mooring_proto::message::session::{VERSION, VERSION_MIN};
use serde_json::json;
use tokio::time::MissedTickBehavior;

pub(crate) use self::exposition::{BOUNDS_LOG2_US, Family, FamilyKind, Labels, Number, Samples};
pub(crate) use self::handoff::{HandoffReport, RestoreProgress, RestoreReport};
use self::mooncake::stage;
pub(crate) use self::progress::{Progress, StartState};
use crate::frontend::Context;
use crate::frontend::quic::{Listener, Probe};
use connections::{Connections, Peer};
use readiness::{Readiness, Ready};

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
    /// What serves the ports.
    #[cfg(debug_assertions)]
    ports: tokio::runtime::Handle,
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

    /// Shows a process that serves from now on. Must be called inside the runtime that serves the
    /// ports.
    pub(crate) fn serve(
        &self,
        context: Arc<Context>,
        quic: Option<(Arc<Listener>, Probe)>,
        mooncake: Option<SocketAddr>,
    ) {
        let (listener, probe) = quic.unzip();
        let readiness = Readiness::new(context.clone(), probe, mooncake);
        // A process begins to serve once.
        let _ = self.serving.set(Serving {
            context,
            listener,
            readiness,
            #[cfg(debug_assertions)]
            ports: tokio::runtime::Handle::current(),
        });
    }

    /// All figures as of now, those of the metrics page.
    pub(crate) async fn families(&self) -> Vec<Family> {
        metrics::families(self).await
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

/// Serves the pages until the process ends, on a thread of their own: they tell how the process is
/// while everything else is busy or hangs.
///
/// # Errors
/// If the socket is of no use, or there is no thread.
pub(crate) fn start(
    socket: TcpListener,
    admin: Arc<Admin>,
    connections_max: usize,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(socket)?
    };
    // Behind the others: whoever asks for thousands of pages keeps out nobody who asks for these.
    let slow = Router::new()
        .merge(mooncake::pages())
        .route("/metrics", get(metrics_page))
        .route("/status", get(status::page))
        .route_layer(from_fn_with_state(guard::turns(), guard::take_turns));
    let pages = slow
        .route("/health", get(mooncake::health))
        .route("/ready", get(ready))
        .route("/version", get(version))
        .route("/log_level", get(log_level::get).put(log_level::put).delete(log_level::delete));
    #[cfg(debug_assertions)]
    let pages = pages.route("/debug/hang", axum::routing::post(hang::hang));
    let pages = pages
        .layer(from_fn(guard::refuse_foreign_changes))
        .with_state(admin)
        .into_make_service_with_connect_info::<Peer>();
    let serve = async move {
        if let Err(error) = axum::serve(Connections::new(socket, connections_max), pages).await {
            tracing::error!(%error, "the admin pages are gone");
        }
    };
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || runtime.block_on(serve))?;
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
        Some(serving) => serving.readiness.check().await,
        None => Err(admin.progress().why_not_ready()),
    };
    match outcome {
        Ok(Ready { segments_pending: 0 }) => Json(json!({ "ready": true })).into_response(),
        Ok(Ready { segments_pending }) => {
            Json(json!({ "ready": true, "segments_pending": segments_pending })).into_response()
        }
        Err(reason) => {
            let body = Json(json!({ "ready": false, "reason": reason }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

async fn metrics_page(State(admin): State<Arc<Admin>>) -> Response {
    let text = exposition::text(&metrics::families(&admin).await);
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}

/// The release, and which versions of the protocol it speaks.
async fn version() -> Response {
    let body = json!({
        "name": "mooring",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": { "min": VERSION_MIN, "max": VERSION },
    });
    Json(body).into_response()
}
