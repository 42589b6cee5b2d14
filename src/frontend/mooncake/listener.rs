//! The port: a socket, and a task for each connection.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use super::clients::Clients;
use super::connection;
use super::counters::ALL_BYTES_MAX;
use crate::frontend::Context;
use crate::frontend::addresses::{Addresses, CONNECTIONS_PER_ADDRESS_MAX};

/// What an operator sets for this front end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MooncakeOptions {
    /// How long a soft pin lasts for which no time is named, in milliseconds.
    pub(crate) soft_pin_ttl_ms: u64,
    /// The longest time that may be named for one, in milliseconds.
    pub(crate) soft_pin_ttl_max_ms: u64,
    /// Whether a put goes to the host of its writer first.
    pub(crate) local_first: bool,
    /// Connections that one address may have.
    pub(crate) connections_per_address_max: usize,
}

impl Default for MooncakeOptions {
    /// The defaults of the existing master.
    fn default() -> MooncakeOptions {
        MooncakeOptions {
            soft_pin_ttl_ms: 30 * 60 * 1000,
            soft_pin_ttl_max_ms: 24 * 60 * 60 * 1000,
            local_first: false,
            connections_per_address_max: CONNECTIONS_PER_ADDRESS_MAX,
        }
    }
}

/// What all connections of the front end share.
pub(super) struct Shared {
    pub(super) context: Arc<Context>,
    pub(super) options: MooncakeOptions,
    pub(super) clients: Clients,
    /// Searches through all keys take turns: each may keep what it finds.
    pub(super) searches: Semaphore,
    /// Numbers the puts: none is taken for another one that is repeated.
    pub(super) next_put: AtomicU64,
    /// Becomes true when the process leaves.
    pub(super) leaving: watch::Receiver<bool>,
}

/// The open port.
pub(crate) struct MooncakeListener {
    address: SocketAddr,
    leaving: watch::Sender<bool>,
}

impl MooncakeListener {
    /// Serves a socket that is bound already, with so many connections at the most. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the socket is of no use.
    pub(crate) fn start(
        context: Arc<Context>,
        socket: TcpListener,
        options: MooncakeOptions,
        connections_max: usize,
    ) -> io::Result<MooncakeListener> {
        context.mooncake.connections_max.store(connections_max, Ordering::Relaxed);
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let (leaving, told) = watch::channel(false);
        let shared = Arc::new(Shared {
            context,
            options,
            clients: Clients::default(),
            searches: Semaphore::new(1),
            next_put: AtomicU64::new(1),
            leaving: told,
        });
        let addresses = Addresses::new(options.connections_per_address_max, ADDRESS_BYTES_MAX);
        tokio::spawn(accept(socket, shared, addresses));
        Ok(MooncakeListener { address, leaving })
    }

    /// The bound address.
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connections and no new requests; each connection is closed when what it has asked
    /// before is answered. The protocol has no word for a restart: clients connect again.
    pub(crate) fn stop_accepting(&self) {
        self.leaving.send_replace(true);
    }
}

async fn accept(socket: tokio::net::TcpListener, shared: Arc<Shared>, addresses: Arc<Addresses>) {
    let mut leaving = shared.leaving.clone();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = leaving.wait_for(|leaving| *leaving) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // The peer is gone already, or the process has no file descriptor left: one may be
            // closed soon.
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let counters = &shared.context.mooncake;
        if counters.is_full() {
            counters.connections_refused.increment();
            tracing::warn!(
                open = counters.open.load(Ordering::Relaxed),
                "a client of Mooncake is refused a connection: as many are open as may be"
            );
            continue;
        }
        let Some(place) = addresses.take_place(peer.ip()) else {
            counters.connections_refused.increment();
            counters.address_connections_refused.increment();
            let address = peer.ip().to_canonical();
            tracing::warn!(%address, "an address has as many connections as one may have");
            continue;
        };
        if !prepare(&stream) {
            counters.connections_refused.increment();
            continue;
        }
        shared.context.mooncake.connections.increment();
        shared.context.mooncake.open.fetch_add(1, Ordering::Relaxed);
        let shared = shared.clone();
        tokio::spawn(async move {
            connection::serve(&shared, stream, place).await;
            shared.context.mooncake.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Sends small answers at once, and notices in time that a peer has vanished: an idle connection is
/// never closed for being idle, since a client that meets a closed one fails its call.
fn prepare(stream: &TcpStream) -> bool {
    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    let socket = socket2::SockRef::from(stream);
    stream.set_nodelay(true).is_ok() && socket.set_tcp_keepalive(&keep_alive).is_ok()
}

/// Bytes of requests and replies of one address. What goes beyond is closed, so that it is as much as
/// it can be while one address alone does not keep the others out.
const ADDRESS_BYTES_MAX: usize = ALL_BYTES_MAX / 2;

/// Short beside the second that a client waits between two attempts.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A vanished peer keeps no more than a file descriptor, so there is no hurry.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
