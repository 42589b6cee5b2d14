//! The proof that the port answers: a connection of the process to itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mooring_proto::frame::{REPLY_HEADER_BYTES, ReplyHeader, encode_request};
use mooring_proto::message::Request;
use mooring_proto::message::segment::SegmentTableRequest;
use mooring_proto::message::session::{ALPN_MASTER, HelloRequest, VERSION, VERSION_MIN};
use mooring_proto::{ClientId, close};
use quinn::{ClientConfig, Connection, Endpoint, VarInt};

use crate::tls::TlsError;
use crate::tls::probe::ProbeIdentity;

/// Connects to the own port as a client would.
pub(crate) struct Probe {
    endpoint: Endpoint,
    target: SocketAddr,
    client: ClientId,
}

impl Probe {
    /// A probe of the port at this address. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If no socket can be bound.
    pub(crate) fn new(
        bound: SocketAddr,
        client: ClientId,
        identity: &ProbeIdentity,
    ) -> Result<Probe, ProbeError> {
        let any = match bound.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut target = bound;
        match bound.ip() {
            IpAddr::V4(address) if address.is_unspecified() => {
                target.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            IpAddr::V6(address) if address.is_unspecified() => {
                target.set_ip(Ipv6Addr::LOCALHOST.into());
            }
            _ => {}
        }
        let mut endpoint = Endpoint::client(SocketAddr::new(any, 0)).map_err(ProbeError::Socket)?;
        endpoint.set_default_client_config(ClientConfig::new(identity.quic(ALPN_MASTER)?));
        Ok(Probe { endpoint, target, client })
    }

    /// Says hello and asks one question that no shard is concerned with.
    ///
    /// # Errors
    /// Where it came to an end. The caller sets the deadline.
    pub(crate) async fn run(&self) -> Result<(), ProbeError> {
        let failed = |step: &'static str| move |reason: String| ProbeError::Failed { step, reason };
        let connecting = self
            .endpoint
            .connect(self.target, "probe.invalid")
            .map_err(|error| failed("connect")(error.to_string()))?;
        let connection =
            connecting.await.map_err(|error| failed("handshake")(error.to_string()))?;
        let hello = HelloRequest {
            client: self.client,
            name: "readiness probe".to_owned(),
            version_min: VERSION_MIN,
            version_max: VERSION,
            features: 0,
        };
        ask(&connection, &hello).await.map_err(failed("hello"))?;
        let table = SegmentTableRequest { known: None };
        ask(&connection, &table).await.map_err(failed("request"))?;
        connection.close(VarInt::from_u32(close::NORMAL), b"");
        Ok(())
    }
}

/// Why the port does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The own certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No socket of its own.
    #[error("cannot bind a socket: {0}")]
    Socket(std::io::Error),
    /// The port does not answer.
    #[error("{step}: {reason}")]
    Failed {
        /// What was tried.
        step: &'static str,
        /// What came of it.
        reason: String,
    },
}

/// One request; only whether it was granted counts.
async fn ask<R: Request>(connection: &Connection, request: &R) -> Result<(), String> {
    let frame = encode_request(request, 0, None).map_err(|error| error.to_string())?;
    let (mut send, mut receive) = connection.open_bi().await.map_err(|error| error.to_string())?;
    send.write_all(&frame).await.map_err(|error| error.to_string())?;
    send.finish().map_err(|error| error.to_string())?;
    let mut header = [0; REPLY_HEADER_BYTES];
    receive.read_exact(&mut header).await.map_err(|error| error.to_string())?;
    let header = ReplyHeader::decode(&header).map_err(|error| error.to_string())?;
    match header.status {
        0 => Ok(()),
        status => Err(format!("refused with status {status}")),
    }
}
