//! From a name to a connection: every address is tried, side by side, in bounded time.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::{Connection, Endpoint};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::config::ClientConfig;
use super::error::ClientError;
use super::tls::ClientTls;
use super::transport::{self, Endpoints};

/// An open connection with the endpoint that carries it.
#[derive(Clone, Debug)]
pub(super) struct Dialed {
    pub(super) endpoint: Endpoint,
    pub(super) connection: Connection,
}

/// Where to connect, and how.
#[derive(Debug)]
pub(super) struct Dialer {
    /// Host and port.
    target: String,
    tls: ClientTls,
    alpn: &'static [u8],
    within: Duration,
    initial_mtu_bytes: u16,
    endpoints: Endpoints,
    /// Kept over connections, since it holds the tickets that make the next handshake cheap.
    crypto: Mutex<Option<quinn::ClientConfig>>,
}

impl Dialer {
    /// A dialer of this host and port, with this trust and the timeouts and network of a client.
    pub(super) fn new(
        target: String,
        tls: ClientTls,
        alpn: &'static [u8],
        config: &ClientConfig,
    ) -> Dialer {
        Dialer {
            target,
            tls,
            alpn,
            within: Duration::from_millis(config.connect_timeout_ms),
            initial_mtu_bytes: config.initial_mtu_bytes,
            endpoints: config.endpoints.clone(),
            crypto: Mutex::new(None),
        }
    }

    /// Connects to the first address that answers, and greets the peer there. An address counts
    /// only once the greeting succeeded: a peer that wants a certificate refuses only then.
    pub(super) async fn dial<T, G, F>(
        &self,
        idle_timeout: Duration,
        greet: G,
    ) -> Result<T, ClientError>
    where
        T: Send + 'static,
        G: Fn(Dialed) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        self.dial_within(self.within, idle_timeout, greet).await
    }

    /// The same in a third of the time. For a peer that answered before and is away for a moment:
    /// the first packets of an attempt follow each other closely, the later ones do not.
    pub(super) async fn dial_again<T, G, F>(
        &self,
        idle_timeout: Duration,
        greet: G,
    ) -> Result<T, ClientError>
    where
        T: Send + 'static,
        G: Fn(Dialed) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        self.dial_within(self.within / 3, idle_timeout, greet).await
    }

    async fn dial_within<T, G, F>(
        &self,
        within: Duration,
        idle_timeout: Duration,
        greet: G,
    ) -> Result<T, ClientError>
    where
        T: Send + 'static,
        G: Fn(Dialed) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let started = Instant::now();
        let transport = transport::transport_config(self.initial_mtu_bytes, idle_timeout);
        let mut config = self.crypto()?;
        config.transport_config(Arc::new(transport));
        let addresses = tokio::time::timeout(within, resolve(&self.target))
            .await
            .unwrap_or_else(|_| Err(self.unreachable("the name was not resolved in time")))?;
        let server_name: Arc<str> = self.tls.server_name().unwrap_or(host(&self.target)).into();
        let deadline = started + within;
        let outcome = race(addresses, deadline, |address| {
            let (config, server_name, greet) = (config.clone(), server_name.clone(), greet.clone());
            let endpoint = self.endpoints.towards(address);
            async move { greet(handshake(address, endpoint, config, &server_name).await?).await }
        })
        .await;
        let outcome =
            outcome.map_err(|error| error.unwrap_or_else(|| self.unreachable("no answer")));
        if matches!(outcome, Err(ClientError::Tls(_))) {
            // The files may have been renewed; the next attempt reads them again.
            self.reload();
        }
        outcome
    }

    /// Reads the files again before the next attempt.
    pub(super) fn reload(&self) {
        *self.crypto.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn crypto(&self) -> Result<quinn::ClientConfig, ClientError> {
        let mut kept = self.crypto.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(crypto) = &*kept {
            return Ok(crypto.clone());
        }
        let crypto = self.tls.load(self.alpn)?;
        *kept = Some(crypto.clone());
        Ok(crypto)
    }

    fn unreachable(&self, reason: &str) -> ClientError {
        ClientError::Connect { address: self.target.clone(), reason: reason.to_owned() }
    }
}

/// The addresses of a host and port, each once.
async fn resolve(target: &str) -> Result<Vec<SocketAddr>, ClientError> {
    let fault = |reason: String| ClientError::Connect { address: target.to_owned(), reason };
    let found = tokio::net::lookup_host(target).await.map_err(|error| fault(error.to_string()))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(fault("the name has no address".to_owned()));
    }
    Ok(addresses)
}

/// The host of a host and port, without the brackets of an IPv6 address.
fn host(target: &str) -> &str {
    let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

async fn handshake(
    address: SocketAddr,
    endpoint: io::Result<Endpoint>,
    config: quinn::ClientConfig,
    server_name: &str,
) -> Result<Dialed, ClientError> {
    let fault = |reason: String| ClientError::Connect { address: address.to_string(), reason };
    let endpoint = endpoint.map_err(|error| fault(error.to_string()))?;
    let connecting = endpoint
        .connect_with(config, address, server_name)
        .map_err(|error| fault(error.to_string()))?;
    let connection = connecting.await?;
    Ok(Dialed { endpoint, connection })
}

/// The first success among attempts at all addresses, which start one after the other: the next
/// one after a short while, or at once when one fails. Without a success, the most telling error,
/// or `None` if nothing answered until the deadline.
async fn race<T, A, F>(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
    attempt: A,
) -> Result<T, Option<ClientError>>
where
    T: Send + 'static,
    A: Fn(SocketAddr) -> F,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let stagger = stagger(addresses.len(), deadline);
    let mut waiting = VecDeque::from(addresses);
    let mut running = JoinSet::new();
    let mut worst: Option<ClientError> = None;
    let mut next_start = Instant::now();
    while !(waiting.is_empty() && running.is_empty()) {
        tokio::select! {
            () = sleep_until(deadline) => return Err(worst),
            () = sleep_until(next_start), if !waiting.is_empty() => {
                if let Some(address) = waiting.pop_front() {
                    running.spawn(attempt(address));
                }
                next_start = Instant::now() + stagger;
            }
            Some(finished) = running.join_next(), if !running.is_empty() => {
                match finished {
                    Ok(Ok(success)) => return Ok(success),
                    Ok(Err(error)) if rank(&error) > worst.as_ref().map_or(0, rank) => {
                        worst = Some(error);
                    }
                    Ok(Err(_)) | Err(_) => {}
                }
                next_start = Instant::now();
            }
        }
    }
    Err(worst)
}

fn stagger(addresses: usize, deadline: Instant) -> Duration {
    // The last address still gets half of the time.
    let attempts = u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
    let share = deadline.saturating_duration_since(Instant::now()) / attempts.saturating_mul(2);
    share.min(STAGGER_MAX)
}

/// How much an error tells: the further an attempt came, the more.
fn rank(error: &ClientError) -> u8 {
    match error {
        error if error.is_permanent() => 5,
        ClientError::Tls(_) => 4,
        ClientError::Refused(_) | ClientError::Protocol(_) => 3,
        ClientError::Closed { .. } => 2,
        _ => 1,
    }
}

/// Long enough that a near address has answered, short enough that nobody notices a dead one.
const STAGGER_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
