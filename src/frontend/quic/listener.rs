//! The port: one socket, one endpoint, and a task for each connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use mooring_proto::client::packets;
use mooring_proto::close;
use mooring_proto::message::session::ALPN_MASTER;
use quinn::crypto::HmacKey;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, VarInt};

use super::connection::{self, REQUESTS_MAX, Shared};
use super::paths::Paths;
use super::roles::Roles;
use super::sessions::{Sessions, call_for_attention};
use super::{drops, farewell, transport};
use crate::frontend::Context;
use crate::frontend::addresses::{Addresses, as_known};
use crate::frontend::budget::Budget;
use crate::tls::{ServerTls, TlsError};

/// What a listener needs to know.
pub(crate) struct ListenerOptions {
    /// A client is silent for at most this long.
    pub(crate) client_ttl: Duration,
    /// The key of stateless resets; `None` makes one for this process alone.
    pub(crate) reset_key: Option<Arc<dyn HmacKey>>,
    /// Connections and handshakes that one address may have.
    pub(crate) connections_per_address_max: usize,
    /// What members may do.
    pub(crate) roles: Roles,
}

/// The open port.
pub(crate) struct Listener {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    client_ttl: Duration,
    certificate_ends_s: AtomicI64,
}

/// Why the port cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket.
    #[error("cannot serve the socket: {0}")]
    Socket(#[from] io::Error),
}

impl Listener {
    /// Serves a socket that is bound already. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If certificate or socket are of no use.
    pub(crate) fn start(
        context: Arc<Context>,
        socket: UdpSocket,
        tls: &ServerTls,
        options: &ListenerOptions,
    ) -> Result<Listener, ListenError> {
        Listener::start_on(context, tls, options, |config, server| {
            packets::open(config, Some(server), socket)
        })
    }

    /// Serves an endpoint that is opened with these parameters.
    ///
    /// # Errors
    /// If certificate or endpoint are of no use.
    pub(crate) fn start_on(
        context: Arc<Context>,
        tls: &ServerTls,
        options: &ListenerOptions,
        open: impl FnOnce(EndpointConfig, ServerConfig) -> io::Result<Endpoint>,
    ) -> Result<Listener, ListenError> {
        let server = server_config(tls, options.client_ttl)?;
        let endpoint = open(transport::endpoint_config(options.reset_key.clone()), server)?;
        let budget = Budget::new(ALL_BYTES_MAX);
        let sessions = Arc::new(Sessions::new(context.core.clone()));
        let addresses = Addresses::new(options.connections_per_address_max, ADDRESS_BYTES_MAX);
        let owners = Arc::default();
        let roles = options.roles.clone();
        let shared = Arc::new(Shared { context, sessions, budget, addresses, owners, roles });
        tokio::spawn(call_for_attention(shared.context.clone(), shared.sessions.clone()));
        tokio::spawn(accept(endpoint.clone(), shared.clone()));
        let certificate_ends_s = AtomicI64::new(tls.ends_s().unwrap_or(UNKNOWN_END));
        Ok(Listener { endpoint, shared, client_ttl: options.client_ttl, certificate_ends_s })
    }

    /// The bound address.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Connections that have said hello.
    pub(crate) fn connections(&self) -> usize {
        self.shared.sessions.connections()
    }

    /// Bytes of requests and replies under way.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.shared.budget.kept_bytes()
    }

    /// The most connections and handshakes that one address has.
    pub(crate) fn most_connections(&self) -> usize {
        self.shared.addresses.most_connections()
    }

    /// What the paths to the peers are like.
    pub(crate) fn paths(&self) -> Paths {
        self.shared.sessions.paths()
    }

    /// Packets that the system threw away since the port was opened, because the process did not take
    /// them in time; `None` if it does not tell.
    pub(crate) fn dropped_packets(&self) -> Option<u64> {
        drops::of_port(self.local_address().ok()?.port())
    }

    /// When the certificate that is shown runs out, in seconds since 1970; `None` if it does not say.
    pub(crate) fn certificate_ends_s(&self) -> Option<i64> {
        match self.certificate_ends_s.load(Ordering::Relaxed) {
            UNKNOWN_END => None,
            ends_s => Some(ends_s),
        }
    }

    /// Shows another certificate to connections from now on; those that are open stay.
    ///
    /// # Errors
    /// If the certificate is of no use; the former one stays.
    pub(crate) fn replace_tls(&self, tls: &ServerTls) -> Result<(), TlsError> {
        let config = server_config(tls, self.client_ttl)?;
        self.endpoint.set_server_config(Some(config));
        let ends_s = tls.ends_s().unwrap_or(UNKNOWN_END);
        self.certificate_ends_s.store(ends_s, Ordering::Relaxed);
        Ok(())
    }

    /// Takes no new connections.
    pub(crate) fn stop_accepting(&self) {
        self.endpoint.set_server_config(None);
    }

    /// Waits until what was written has left, at most this long: a close would discard the rest.
    pub(crate) async fn flush(&self, in_time: Duration) {
        farewell::flush(&self.shared.sessions.all(), in_time).await;
    }

    /// Closes all connections as restarting, and waits until their peers know it, at most this long.
    pub(crate) async fn close(&self, in_time: Duration) {
        let sessions = self.shared.sessions.all();
        // Whether one that has not said hello has heard it is not known.
        let all_are_known = sessions.len() == self.endpoint.open_connections();
        self.endpoint.close(VarInt::from_u32(close::RESTARTING), b"the master is restarting");
        let told = async {
            tokio::select! {
                () = self.endpoint.wait_idle() => {}
                () = farewell::heard(sessions), if all_are_known => {}
            }
        };
        let _ = tokio::time::timeout(in_time, told).await;
    }
}

/// The addresses at which clients reach a bound socket: for a wildcard those of this machine, the
/// loopback first.
pub(crate) fn reachable(bound: SocketAddr) -> Vec<SocketAddr> {
    if !bound.ip().is_unspecified() {
        return vec![bound];
    }
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut addresses = vec![loopback];
    addresses.extend(outward_address().filter(|address| *address != loopback));
    addresses.into_iter().map(|address| SocketAddr::new(address, bound.port())).collect()
}

/// The address of this machine on the way to others. No packet is sent for it.
fn outward_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((ELSEWHERE, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// What connections of clients with this TTL are taken with.
///
/// # Errors
/// If the key is not that of the certificate.
pub(crate) fn server_config(
    tls: &ServerTls,
    client_ttl: Duration,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::with_crypto(tls.quic(ALPN_MASTER)?);
    config
        .transport_config(Arc::new(transport::server_transport(client_ttl, REQUESTS_MAX)))
        // Behind a shared port a moved address could belong to another listener.
        .migration(false)
        .max_incoming(HANDSHAKES_MAX)
        .incoming_buffer_size(INCOMING_BYTES_MAX)
        .incoming_buffer_size_total(INCOMING_BYTES_MAX * HANDSHAKES_MAX as u64 / 4);
    Ok(config)
}

async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    let handshakes = Arc::new(AtomicUsize::new(0));
    while let Some(incoming) = endpoint.accept().await {
        let full = handshakes.load(Ordering::Relaxed) >= HANDSHAKES_MAX
            || endpoint.open_connections() >= CONNECTIONS_MAX;
        if full {
            shared.context.counters.connections_refused.increment();
            incoming.refuse();
            continue;
        }
        let address = as_known(incoming.remote_address()).ip();
        // Who forges addresses does not get what is sent there. While there is room nobody is asked,
        // since it costs a round trip.
        let is_crowded = handshakes.load(Ordering::Relaxed) >= HANDSHAKES_UNPROVEN_MAX
            || shared.addresses.must_prove(address);
        let is_proved = incoming.remote_address_validated();
        if is_crowded && !is_proved {
            shared.context.counters.handshakes_retried.increment();
            // It may always be asked of one that has not proved it.
            let _ = incoming.retry();
            continue;
        }
        let place = match is_proved {
            true => shared.addresses.take_place(address),
            false => shared.addresses.take_unproved_place(address),
        };
        let Some(mut place) = place else {
            let counters = &shared.context.counters;
            counters.connections_refused.increment();
            counters.address_connections_refused.increment();
            tracing::warn!(%address, "an address has as many connections as one may have");
            incoming.refuse();
            continue;
        };
        handshakes.fetch_add(1, Ordering::Relaxed);
        let (shared, handshakes) = (shared.clone(), handshakes.clone());
        tokio::spawn(async move {
            let connection = shake_hands(incoming).await;
            handshakes.fetch_sub(1, Ordering::Relaxed);
            match connection {
                Ok(connection) => {
                    place.prove();
                    connection::serve(shared, connection, place).await;
                }
                Err((peer, reason)) => {
                    shared.context.counters.handshakes_failed.increment();
                    tracing::debug!(%peer, reason, "handshake failed");
                }
            }
        });
    }
}

async fn shake_hands(incoming: Incoming) -> Result<quinn::Connection, (SocketAddr, String)> {
    let peer = as_known(incoming.remote_address());
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, async { incoming.await }).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err((peer, error.to_string())),
        Err(_) => Err((peer, "not completed in time".to_owned())),
    }
}

/// Of a certificate whose end is not known.
const UNKNOWN_END: i64 = i64::MAX;

/// Handshakes at once: each costs a signature, so more of them only make all of them late.
const HANDSHAKES_MAX: usize = 1024;

/// Handshakes at once for which nobody has to prove his address. More than usual, and few enough that
/// forged ones leave most places to others.
const HANDSHAKES_UNPROVEN_MAX: usize = HANDSHAKES_MAX / 4;

/// Bytes that a peer may send before its handshake is looked at.
const INCOMING_BYTES_MAX: u64 = 64 << 10;

/// Open connections: several times the clients of the largest clusters known.
const CONNECTIONS_MAX: usize = 16_384;

/// As long as a client waits for a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of requests and replies of all connections together.
const ALL_BYTES_MAX: usize = 1 << 30;

/// Of them, those of one address: four times what one connection may keep, and little enough that it
/// takes several addresses to keep requests of others out.
const ADDRESS_BYTES_MAX: usize = ALL_BYTES_MAX / 4;

/// Of a network that is reserved for examples, so that the way to it is the usual way out.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_reached_by_the_loopback_first() {
        let addresses = reachable(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 5));
        assert_eq!(addresses[0], SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5));
        let bound = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5);
        assert_eq!(reachable(bound), [bound]);
    }
}
