//! Sockets and QUIC parameters of the connections that a client opens.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::STREAM_WINDOW_BYTES;
use quinn::{Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use super::packets;

/// Where a client gets the endpoints of its connections: by default from the UDP of the system.
#[derive(Clone, Default)]
pub struct Endpoints(Option<Source>);

type Source = Arc<dyn Fn(SocketAddr) -> io::Result<Endpoint> + Send + Sync>;

impl Endpoints {
    /// From a function that makes one to reach an address, for networks of another kind. Each
    /// connection has one of its own. It is called within the runtime and must be quick.
    pub fn from_fn(
        source: impl Fn(SocketAddr) -> io::Result<Endpoint> + Send + Sync + 'static,
    ) -> Endpoints {
        Endpoints(Some(Arc::new(source)))
    }

    pub(super) fn towards(&self, address: SocketAddr) -> io::Result<Endpoint> {
        match &self.0 {
            None => endpoint_towards(address),
            Some(source) => source(address),
        }
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Endpoints(own)" } else { "Endpoints(UDP)" })
    }
}

/// A new endpoint on a new local port. Each connection gets its own: packet filters may remember
/// for minutes where an old port led, and servers spread connections over threads by the port.
///
/// # Errors
/// What the system says of the socket.
pub fn endpoint_towards(address: SocketAddr) -> io::Result<Endpoint> {
    let (domain, local) = match address {
        SocketAddr::V4(_) => (Domain::IPV4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
        SocketAddr::V6(_) => (Domain::IPV6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel grants what its limits allow; less costs speed and no correctness.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.bind(&local.into())?;
    packets::open(EndpointConfig::default(), None, socket.into())
}

/// The parameters of a connection that may be silent for `idle_timeout`.
pub fn transport_config(initial_mtu_bytes: u16, idle_timeout: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle_ms = u32::try_from(idle_timeout.as_millis()).unwrap_or(u32::MAX);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(ATTENTION_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .send_window(u64::from(CONNECTION_WINDOW_BYTES))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))))
        .initial_rtt(INITIAL_RTT)
        .initial_mtu(initial_mtu_bytes)
        .datagram_receive_buffer_size(None);
    packets::configure(&mut transport);
    transport
}

/// How long a connection may be silent. Below half of the client TTL, so that a client whose
/// connection died has time to open another before it is suspected.
pub(super) fn idle_timeout(client_ttl_ms: Option<u64>) -> Duration {
    let idle_ms = client_ttl_ms.map_or(IDLE_MS_UNKNOWN_TTL, |ttl_ms| ttl_ms.saturating_mul(2) / 5);
    Duration::from_millis(idle_ms.clamp(IDLE_MS_MIN, IDLE_MS_MAX))
}

/// A burst of large batches overflows the 208 KiB that kernels give by default, and that shows as
/// random loss.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The only streams that a master opens tell the client to ping, a few bytes each.
const ATTENTION_STREAMS: u32 = 8;

/// Bounds what all streams together may have unread.
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// Two lost keep-alives in a row still leave the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A first guess for networks within a data centre; a lost first packet is sent again after a
/// small multiple of it.
const INITIAL_RTT: Duration = Duration::from_millis(50);

/// Two fifths of the usual client TTL.
const IDLE_MS_UNKNOWN_TTL: u64 = 4_000;

/// Below this, a busy peer would look dead.
const IDLE_MS_MIN: u64 = 3_000;

/// Above this, a restarted master would be noticed too late whatever the TTL.
const IDLE_MS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_timeout_stays_below_half_of_the_ttl_and_within_3_to_10_s() {
        let seconds = |ttl_ms| idle_timeout(ttl_ms).as_secs_f64();
        assert_eq!(seconds(None), 4.0);
        assert_eq!(seconds(Some(10_000)), 4.0);
        assert_eq!(seconds(Some(20_000)), 8.0);
        assert_eq!(seconds(Some(1_000)), 3.0);
        assert_eq!(seconds(Some(u64::MAX)), 10.0);
    }

    #[tokio::test]
    async fn each_endpoint_has_a_local_port_of_its_own() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let first = endpoint_towards(address).unwrap().local_addr().unwrap();
        let second = endpoint_towards(address).unwrap();
        assert_ne!(first.port(), 0);
        assert_ne!(second.local_addr().unwrap().port(), 0);
        let third = endpoint_towards(address).unwrap();
        assert_ne!(second.local_addr().unwrap(), third.local_addr().unwrap());
    }
}
