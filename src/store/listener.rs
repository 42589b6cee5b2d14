//! The data plane's QUIC listener: connections, streams, deadlines.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mooring_proto::client::packets;
use mooring_proto::close;
use mooring_proto::limits::STREAM_WINDOW_BYTES;
use mooring_proto::limits::{REPLY_WRITE_TIMEOUT_MS, REQUEST_READ_TIMEOUT_MS};
use mooring_proto::message::session::ALPN_STORE;
use quinn::{Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, VarInt};
use quinn::{IdleTimeout, ServerConfig, TransportConfig};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::buffer::PeerBuffer;
use super::range::{Answer, RangeService};
use crate::command::CommandError;
use crate::frontend::addresses::as_known;
use crate::tls::ServerTls;

/// Opens the port; without an address on both families, if the machine has both.
///
/// # Errors
/// `Failed` naming the address.
pub(crate) fn open(
    address: Option<IpAddr>,
    port: u16,
    tls: &ServerTls,
) -> Result<Endpoint, CommandError> {
    let config = server_config(tls)?;
    let socket = match address {
        Some(address) => bind(SocketAddr::new(address, port)),
        None => bind((Ipv6Addr::UNSPECIFIED, port).into())
            .or_else(|_| bind((Ipv4Addr::UNSPECIFIED, port).into())),
    };
    let opened =
        socket.and_then(|socket| packets::open(EndpointConfig::default(), Some(config), socket));
    opened.map_err(|error| {
        let address = address.map_or("any address".to_owned(), |address| address.to_string());
        let attempt = format!("cannot open UDP port {port} on {address} (--data-port)");
        CommandError::unbound(attempt, "--data-port", &error)
    })
}

/// What connections from now on are accepted with.
///
/// # Errors
/// A key that is not that of the certificate.
pub(crate) fn server_config(tls: &ServerTls) -> Result<ServerConfig, CommandError> {
    let crypto = tls.quic(ALPN_STORE).map_err(|error| CommandError::failed("data plane", error))?;
    let mut config = ServerConfig::with_crypto(crypto);
    config.transport_config(Arc::new(transport()));
    config.migration(false);
    Ok(config)
}

/// Serves until the endpoint is closed.
pub(crate) async fn serve(endpoint: Endpoint, service: Arc<RangeService>) {
    while let Some(incoming) = endpoint.accept().await {
        if endpoint.open_connections() > CONNECTIONS_MAX {
            incoming.refuse();
            continue;
        }
        tokio::spawn(serve_connection(incoming, Arc::clone(&service)));
    }
}

async fn serve_connection(incoming: Incoming, service: Arc<RangeService>) {
    let peer = as_known(incoming.remote_address());
    let connection = match timeout(HANDSHAKE_TIMEOUT, incoming).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return debug!(%peer, %error, "handshake failed"),
        Err(_) => return debug!(%peer, "handshake did not end in time"),
    };
    let end = serve_streams(&connection, &service).await;
    debug!(%peer, %end, "connection ended");
}

async fn serve_streams(
    connection: &Connection,
    service: &Arc<RangeService>,
) -> quinn::ConnectionError {
    let buffer = Arc::new(service.peer_buffer());
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                let (service, buffer) = (Arc::clone(service), Arc::clone(&buffer));
                tokio::spawn(async move { serve_stream(&service, &buffer, send, recv).await });
            }
            Err(error) => return error,
        }
    }
}

async fn serve_stream(
    service: &RangeService,
    buffer: &PeerBuffer,
    mut send: SendStream,
    mut recv: RecvStream,
) {
    let answering = service.answer_while_wanted(buffer, &mut recv, send.stopped());
    let Ok(outcome) = timeout(REQUEST_TIMEOUT, answering).await else {
        return end_late(&mut send, &mut recv);
    };
    let answer = match outcome {
        Ok(answer) => answer,
        Err(error) => return debug!(%error, "peer gave a request up"),
    };
    if answer.refused {
        // The peer learns why from the frame; this only says that the rest is not wanted. It fails
        // if the stream has already ended, which is as good.
        let _ = recv.stop(VarInt::from_u32(close::NORMAL));
    }
    match timeout(REPLY_TIMEOUT, write_answer(&mut send, answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "peer does not want the reply"),
        Err(_) => end_late(&mut send, &mut recv),
    }
}

/// Writes and waits until the peer has it all: until then it counts as buffered.
async fn write_answer(send: &mut SendStream, answer: Answer) -> io::Result<()> {
    send.write_all(&answer.frame).await?;
    if !answer.bytes.is_empty() {
        send.write_chunk(answer.bytes.clone()).await?;
    }
    send.finish().map_err(io::Error::other)?;
    send.stopped().await.map_err(io::Error::other)?;
    Ok(())
}

fn end_late(send: &mut SendStream, recv: &mut RecvStream) {
    let code = VarInt::from_u32(close::TIMEOUT);
    // Both fail only if the stream has ended meanwhile.
    let _ = send.reset(code);
    let _ = recv.stop(code);
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    grow_buffers(&socket);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The kernel's default of 208 KiB loses packets as soon as a few ranges are under way.
fn grow_buffers(socket: &Socket) {
    let asked_bytes = SOCKET_BUFFER_BYTES;
    // A refusal shows in what was granted.
    let _ = socket.set_recv_buffer_size(asked_bytes);
    let _ = socket.set_send_buffer_size(asked_bytes);
    let receive_bytes = socket.recv_buffer_size().unwrap_or(0);
    let send_bytes = socket.send_buffer_size().unwrap_or(0);
    if receive_bytes.min(send_bytes) < asked_bytes {
        warn!(
            receive_bytes,
            send_bytes,
            asked_bytes,
            "the kernel grants smaller socket buffers; raise net.core.rmem_max and wmem_max"
        );
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle_timeout = IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS));
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .send_window(u64::from(CONNECTION_WINDOW_BYTES))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(Some(idle_timeout))
        .datagram_receive_buffer_size(None)
        .initial_rtt(INITIAL_RTT);
    packets::configure(&mut transport);
    transport
}

/// A peer that only holds a handshake open occupies a place.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// From the first byte of a request to its end, with the wait for buffer room, as in the master: the
/// largest range at 840 kB/s.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(REQUEST_READ_TIMEOUT_MS);

/// How long an answer waits for its reader, as in the master.
const REPLY_TIMEOUT: Duration = Duration::from_millis(REPLY_WRITE_TIMEOUT_MS);

/// More peers than any cluster has engines; each costs some ten KiB.
const CONNECTIONS_MAX: usize = 16_384;

/// Ranges under way on one connection.
const STREAMS_MAX: u32 = 1_024;

/// What one peer may have under way; a 100 Gbit/s link with 1 ms of round trip needs 12 MB.
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// Enough for bursts of many peers at once.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Finds a dead peer, and keeps the state of middle boxes alive.
const KEEP_ALIVE: Duration = Duration::from_millis(1_500);

/// Twice what two lost keep-alives need.
const IDLE_TIMEOUT_MS: u32 = 10_000;

/// Inside a data centre; the default of a third of a second would make the first loss slow.
const INITIAL_RTT: Duration = Duration::from_millis(5);
