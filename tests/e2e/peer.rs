//! A peer that speaks the protocol byte by byte, so that it can also break it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mooring_proto::client::tls::{fingerprint, provider};
use mooring_proto::frame::{
    REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, decode_body, encode_request,
};
use mooring_proto::message::Request;
use mooring_proto::message::segment::{MountRequest, Segment};
use mooring_proto::message::session::{ALPN_MASTER, HelloRequest, VERSION, VERSION_MIN};
use mooring_proto::{ClientId, SegmentId, WireError};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadError, ReadExactError, ReadToEndError,
};
use quinn::{TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::harness::{Master, PATIENCE};

/// A connection to a master.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    _endpoint: Endpoint,
}

/// What came back on a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// A reply: the kind in its header, its status and its body.
    Reply { kind_number: u16, status: u16, body: Vec<u8> },
    /// The stream was reset with this code.
    Reset(u64),
    /// The connection was closed.
    Closed,
}

/// How a peer connects.
pub(crate) struct Dial {
    pub(crate) alpn: Vec<u8>,
    pub(crate) identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    pub(crate) transport: TransportConfig,
}

impl Default for Dial {
    fn default() -> Dial {
        Dial { alpn: ALPN_MASTER.to_vec(), identity: None, transport: TransportConfig::default() }
    }
}

impl Peer {
    /// Connects and says hello.
    pub(crate) async fn greeted(master: &Master) -> Peer {
        let peer = Peer::silent(master).await;
        peer.say_hello().await;
        peer
    }

    /// Connects and says nothing yet.
    pub(crate) async fn silent(master: &Master) -> Peer {
        Peer::dial(master.rpc(), Dial::default()).await.unwrap()
    }

    /// Connects in a certain way.
    pub(crate) async fn dial(master: SocketAddr, dial: Dial) -> Result<Peer, ConnectionError> {
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut tls = match dial.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        };
        tls.alpn_protocols = vec![dial.alpn];
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        config.transport_config(Arc::new(dial.transport));
        let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
        let connecting = endpoint.connect_with(config, master, "localhost").unwrap();
        let connection = in_time(connecting).await?;
        Ok(Peer { connection, _endpoint: endpoint })
    }

    /// Says a hello that is granted.
    pub(crate) async fn say_hello(&self) {
        self.ask(&hello(VERSION_MIN, VERSION)).await.unwrap();
    }

    /// The SHA-256 of the certificate that the master shows.
    pub(crate) fn server_sha256(&self) -> [u8; 32] {
        let identity = self.connection.peer_identity().unwrap();
        let chain = identity.downcast::<Vec<CertificateDer<'static>>>().unwrap();
        fingerprint(&chain[0])
    }

    /// One request and its reply.
    pub(crate) async fn ask<R: Request>(&self, request: &R) -> Result<R::Reply, WireError> {
        let frame = encode_request(request, 0, None).unwrap();
        match self.send(&frame).await {
            Answer::Reply { kind_number, status: 0, body } => {
                assert_eq!(kind_number, R::KIND as u16);
                Ok(decode_body(&body).unwrap())
            }
            Answer::Reply { body, .. } => Err(decode_body(&body).unwrap()),
            other => panic!("no reply but {other:?}"),
        }
    }

    /// Sends bytes on a stream of their own and ends it.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Answer {
        let Ok((mut send, receive)) = in_time(self.connection.open_bi()).await else {
            return Answer::Closed;
        };
        // The master may refuse before it has taken everything.
        let _ = in_time(send.write_all(bytes)).await;
        let _ = send.finish();
        read_answer(receive).await
    }

    /// Sends bytes on a stream of their own and does not end it; gives the stream to keep it open.
    pub(crate) async fn send_unfinished(
        &self,
        bytes: &[u8],
    ) -> (quinn::SendStream, quinn::RecvStream) {
        let (mut send, receive) = in_time(self.connection.open_bi()).await.unwrap();
        in_time(send.write_all(bytes)).await.unwrap();
        (send, receive)
    }

    /// Waits until the master closes the connection; its code and reason.
    pub(crate) async fn closed(&self) -> (u64, String) {
        match in_time(self.connection.closed()).await {
            ConnectionError::ApplicationClosed(close) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                (close.error_code.into_inner(), reason)
            }
            other => panic!("not closed by the master but {other}"),
        }
    }
}

/// Reads what the master answers on a stream.
pub(crate) async fn read_answer(mut stream: quinn::RecvStream) -> Answer {
    let mut header = [0; REPLY_HEADER_BYTES];
    match in_time(stream.read_exact(&mut header)).await {
        Ok(()) => {}
        Err(ReadExactError::ReadError(ReadError::Reset(code))) => {
            return Answer::Reset(code.into());
        }
        Err(ReadExactError::ReadError(ReadError::ConnectionLost(_))) => return Answer::Closed,
        Err(error) => panic!("no answer: {error}"),
    }
    let kind_number = u16::from_le_bytes([header[4], header[5]]);
    let status = u16::from_le_bytes([header[6], header[7]]);
    // A refused kind is repeated as it came, known or not.
    if let Ok(decoded) = ReplyHeader::decode(&header) {
        assert_eq!(decoded.status, status);
    }
    let body = match in_time(stream.read_to_end(32 << 20)).await {
        Ok(body) => body,
        // A master that leaves may close in the middle of an answer.
        Err(ReadToEndError::Read(ReadError::ConnectionLost(_))) => return Answer::Closed,
        Err(error) => panic!("half an answer: {error}"),
    };
    let announced = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    assert_eq!(body.len(), announced as usize);
    Answer::Reply { kind_number, status, body }
}

impl Answer {
    /// The error in a refusal.
    pub(crate) fn error(&self) -> WireError {
        match self {
            Answer::Reply { status, body, .. } if *status != 0 => {
                let error: WireError = decode_body(body).unwrap();
                assert_eq!(error.code as u16, *status);
                error
            }
            other => panic!("not a refusal: {other:?}"),
        }
    }
}

/// A hello of a client of its own.
pub(crate) fn hello(version_min: u16, version_max: u16) -> HelloRequest {
    let client = ClientId(rand::random());
    HelloRequest { client, name: "a test".to_owned(), version_min, version_max, features: 0 }
}

/// The header of a request.
pub(crate) fn header(kind_number: u16, body_bytes: u32) -> [u8; REQUEST_HEADER_BYTES] {
    let mut bytes = [0; REQUEST_HEADER_BYTES];
    bytes[0..2].copy_from_slice(b"MR");
    bytes[2] = 1;
    bytes[4..6].copy_from_slice(&kind_number.to_le_bytes());
    bytes[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    bytes
}

/// The outcome, or a failed test if nothing comes.
pub(crate) async fn in_time<T>(outcome: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, outcome.into_future()).await.expect("nothing came in time")
}

/// Transport parameters with which the master can send only a few bytes on each stream.
pub(crate) fn tiny_windows() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(16))
        .keep_alive_interval(Some(Duration::from_secs(1)));
    transport
}

/// Accepts every server: what the certificate is, tests look at themselves.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC is TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A segment that is told of by its number, without memory behind it.
pub(crate) fn mount(number: u64) -> MountRequest {
    let segment = Segment {
        segment: SegmentId(u128::from(number)),
        base: (number + 1) << 20,
        size_bytes: 1 << 16,
        endpoint: "nowhere:1".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    };
    MountRequest { segment, mounted_with: None }
}
