//! The client that engines and stores use.
//!
//! A [`Client`] keeps one connection to the master, opens it again when it is lost, says that it
//! lives, and mounts its segments again when the master asks. Its calls wait out a restart of the
//! master as long as the request timeout allows. [`Client::put`] and [`Client::fetch`] move whole
//! objects; the calls beneath them are public too. Each call belongs to the trace of the span of
//! OpenTelemetry that is active where it is made.
//!
//! ```no_run
//! # async fn example() -> Result<(), mooring_proto::client::ClientError> {
//! use mooring_proto::client::{Client, ClientConfig, ClientTls, PutOptions};
//!
//! let config = ClientConfig::new("master.example:50051", ClientTls::ca("/etc/mooring/ca.pem"));
//! let client = Client::connect(config).await?;
//! client.put("key", "value", &PutOptions::default()).await?;
//! assert_eq!(client.fetch("key").await?.as_deref(), Some(&b"value"[..]));
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod config;
mod data;
mod dial;
mod error;
mod exchange;
mod fetch;
mod link;
mod liveness;
mod mounts;
pub mod packets;
mod put;
mod random;
mod replica;
mod requests;
mod retry;
mod segments;
mod shared;
mod steer;
pub mod tls;
mod trace;
pub mod transport;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

pub use self::config::ClientConfig;
pub use self::error::{ClientError, tls_hint};
pub use self::mounts::Mounts;
#[cfg(feature = "seeded")]
pub use self::random::seeded::seed_thread;
pub use self::requests::Leased;
use self::shared::Shared;
pub use self::tls::ClientTls;
use crate::identity::ClientId;
use crate::message::Request;
pub use crate::message::object::PutOptions;
use crate::message::session::HelloReply;

/// A client of one master. Clones are cheap and share everything; when the last one is dropped,
/// the connection is closed.
///
/// Every call may be dropped before it is done; its request is then reset, and may or may not have
/// been carried out.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// Keep the connection, the pings and the mounts; dropped with the last handle.
    tasks: Mutex<JoinSet<()>>,
}

impl Client {
    /// Connects to the master, and waits for it as long as the request timeout allows. Must be
    /// called within a tokio runtime, which the client uses from then on.
    ///
    /// # Errors
    /// At once for a configuration that cannot work: a field out of its range, unusable
    /// certificates, a peer that is not trusted or does not trust, no common version. Otherwise
    /// [`ClientError::Timeout`] with the last failure.
    pub async fn connect(config: ClientConfig) -> Result<Client, ClientError> {
        config.check()?;
        let shared = Arc::new(Shared::new(config));
        let mut tasks = JoinSet::new();
        let task = shared.clone();
        tasks.spawn(async move { task.link.supervise().await });
        let task = shared.clone();
        tasks.spawn(async move { task.keep_alive().await });
        let task = shared.clone();
        tasks.spawn(async move { task.keep_mounted().await });
        // Made before the wait, so that an abandoned connect leaves no task behind.
        let client = Client { inner: Arc::new(Inner { shared, tasks: Mutex::new(tasks) }) };
        let deadline = client.shared().deadline();
        client.shared().link.session(deadline).await?;
        Ok(client)
    }

    /// One attempt at any request, on one stream, within the request timeout. Waits for a
    /// connection, but retries nothing; prefer the method of the request.
    ///
    /// # Errors
    /// A refusal says that the request was not carried out; other errors leave that open.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Reply, ClientError> {
        let shared = self.shared();
        let span = shared.tracing.begin(R::KIND);
        let outcome = shared.call_once(request, shared.deadline(), span.context()).await;
        let outcome = outcome.map(|(reply, _)| reply).map_err(|failure| failure.error);
        span.end(&outcome);
        outcome
    }

    /// Who this client is to the master.
    pub fn id(&self) -> ClientId {
        self.shared().config.client
    }

    /// What the master said when the current connection was opened: who it is, and its times.
    ///
    /// # Errors
    /// [`ClientError::Timeout`] if there is no connection within the request timeout.
    pub async fn master(&self) -> Result<HelloReply, ClientError> {
        let session = self.shared().link.session(self.shared().deadline()).await?;
        Ok(session.hello.clone())
    }

    /// Sends a ping now instead of when it is due.
    pub fn ping_now(&self) {
        self.shared().link.ping_now.notify_one();
    }

    /// Waits until the client can never reach the master again, and says why: it was closed, or the
    /// master refuses its version or its certificate.
    pub async fn ended(&self) -> ClientError {
        self.shared().link.ended().await
    }

    /// Closes the connections, and fails what still waits. Segments stay mounted until the master
    /// misses the client; [`Client::unmount`] them before if they must not.
    pub async fn close(&self) {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        self.shared().stores.close();
        self.shared().link.close().await;
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}
