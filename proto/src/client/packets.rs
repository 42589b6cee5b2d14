//! Packets as large as the network takes.
//!
//! What a batch costs over QUIC is nearly all for each packet, so both ends look for larger ones
//! than Ethernet usually carries: jumbo frames, and the loopback of one machine. Where the network
//! does not carry them, the search loses some probes and ends at the usual size.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AckFrequencyConfig, AsyncUdpSocket, Endpoint, EndpointConfig, MtuDiscoveryConfig, Runtime,
    ServerConfig, TokioRuntime, TransportConfig, UdpPoller, VarInt,
};

/// Opens an endpoint for large packets on a bound socket; with a server configuration it accepts
/// connections too. Must be called inside a tokio runtime.
///
/// # Errors
/// What the system says of the socket.
pub fn open(
    config: EndpointConfig,
    server: Option<ServerConfig>,
    socket: UdpSocket,
) -> io::Result<Endpoint> {
    open_on(config, server, TokioRuntime.wrap_udp_socket(socket)?)
}

/// The same on something that carries packets as a socket of the system does.
///
/// # Errors
/// What it says of itself.
pub fn open_on(
    mut config: EndpointConfig,
    server: Option<ServerConfig>,
    socket: Arc<dyn AsyncUdpSocket>,
) -> io::Result<Endpoint> {
    config
        .max_udp_payload_size(PACKET_BYTES_MAX)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let socket = Arc::new(LargePackets(socket));
    Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(TokioRuntime))
}

/// Lets the connections of an endpoint from [`open`] send large packets, and be told of their
/// arrival less often.
pub fn configure(transport: &mut TransportConfig) {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(PACKET_BYTES_MAX);
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK));
    transport
        .mtu_discovery_config(Some(discovery))
        .ack_frequency_config(Some(acknowledgements))
        // A reply that is begun is finished first: packets are fuller, and on average replies come
        // sooner.
        .send_fairness(false);
}

/// A socket that sends no more at once than the system takes.
struct LargePackets(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for LargePackets {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.0.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The system refuses more than one datagram could hold, and the loss would be taken for a
    /// network that does not carry large packets.
    fn max_transmit_segments(&self) -> usize {
        let segments_max = DATAGRAM_BYTES_MAX / usize::from(PACKET_BYTES_MAX);
        self.0.max_transmit_segments().min(segments_max)
    }

    /// The endpoint keeps room for so many packets of the largest size, times its batch. What the
    /// system joins is never more than a datagram, so there is room for that many small ones too.
    fn max_receive_segments(&self) -> usize {
        let segments_max = (DATAGRAM_BYTES_MAX + 1).div_ceil(usize::from(PACKET_BYTES_MAX));
        self.0.max_receive_segments().min(segments_max)
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

impl fmt::Debug for LargePackets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The largest packet: a jumbo frame of 9,000 bytes less the headers of IPv6 and UDP.
pub const PACKET_BYTES_MAX: u16 = 8_952;

/// What one system call can send, less the headers of IP and UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Packets until the peer says that they have come; sooner if they come out of order or after a pause.
/// Fewer cost both ends time, and more hide a loss.
const PACKETS_PER_ACK: u32 = 10;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use quinn::ClientConfig;
    use quinn::crypto::rustls::QuicServerConfig;
    use rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::client::ClientTls;
    use crate::client::tls::{fingerprint, provider};

    fn bound() -> UdpSocket {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    fn transport() -> Arc<TransportConfig> {
        let mut transport = TransportConfig::default();
        configure(&mut transport);
        Arc::new(transport)
    }

    /// What both ends of a connection are made of.
    fn ends() -> (ServerConfig, ClientConfig) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"test".to_vec()];
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(transport());
        let pinned = ClientTls::pinned(fingerprint(made.cert.der()));
        let mut client = pinned.load(b"test").unwrap();
        client.transport_config(transport());
        (server, client)
    }

    #[tokio::test]
    async fn what_is_sent_at_once_fits_one_datagram_and_what_comes_at_once_has_room() {
        let socket = LargePackets(TokioRuntime.wrap_udp_socket(bound()).unwrap());
        let packet_bytes = usize::from(PACKET_BYTES_MAX);
        assert!(socket.max_transmit_segments() * packet_bytes <= DATAGRAM_BYTES_MAX);
        // Where the system joins packets, the room for them is not cut below a whole datagram.
        let joins = socket.0.max_receive_segments() > 1;
        assert!(!joins || socket.max_receive_segments() * packet_bytes > DATAGRAM_BYTES_MAX);
    }

    #[tokio::test]
    async fn packets_grow_to_the_largest_where_the_path_carries_them_and_what_they_carry_arrives() {
        let (server, client) = ends();
        let listener = open(EndpointConfig::default(), Some(server), bound()).unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = open(EndpointConfig::default(), None, bound()).unwrap();
        let asked = endpoint.connect_with(client, address, "localhost").unwrap();
        let accepted = async { listener.accept().await.unwrap().await.unwrap() };
        let (asked, accepted) = tokio::join!(asked, accepted);
        let asked = asked.unwrap();
        let sent: Vec<u8> = (0..500_000_u32).map(|number| (number / 7) as u8).collect();
        let grow = async {
            // Each exchange gives both ends an occasion to try a larger packet.
            while [&asked, &accepted]
                .iter()
                .any(|end| end.stats().path.current_mtu < PACKET_BYTES_MAX - NEARLY)
            {
                let mut stream = asked.open_uni().await.unwrap();
                stream.write_all(&sent).await.unwrap();
                stream.finish().unwrap();
                let came = accepted.accept_uni().await.unwrap().read_to_end(sent.len()).await;
                assert!(came.unwrap() == sent, "all bytes arrive in their order");
            }
        };
        tokio::time::timeout(Duration::from_secs(20), grow).await.unwrap();
        assert_eq!(asked.stats().path.black_holes_detected, 0);
    }

    /// The search ends when it is this near to the largest.
    const NEARLY: u16 = 20;
}
