//! A server that answers as a test tells it to: a master or a store, over real QUIC.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use mooring_proto::client::tls::{fingerprint, provider};
use mooring_proto::client::{ClientConfig, ClientTls};
use mooring_proto::frame::{REQUEST_HEADER_BYTES, RequestHeader, decode_body, encode_reply};
use mooring_proto::message::session::{ALPN_MASTER, ALPN_STORE, HelloReply, PingReply};
use mooring_proto::message::{Kind, Request};
use mooring_proto::{ErrorCode, Incarnation, WireError};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

/// What a client sent on one stream.
pub(crate) struct Call {
    pub(crate) kind: Kind,
    body: Vec<u8>,
    /// What followed the frame.
    pub(crate) rest: Vec<u8>,
    pub(crate) from: SocketAddr,
}

impl Call {
    pub(crate) fn empty(kind: Kind, from: SocketAddr) -> Call {
        Call { kind, body: Vec::new(), rest: Vec::new(), from }
    }

    pub(crate) fn message<T: DeserializeOwned>(&self) -> T {
        decode_body(&self.body).unwrap()
    }

    /// For messages that borrow from the frame.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// What the server does with it.
pub(crate) enum Answer {
    Bytes(Vec<u8>),
    /// Keep the stream open; the client's giving up is told to the watcher.
    Silence,
    /// Close the connection with this code.
    Close(u32),
}

pub(crate) fn reply<R: Request>(reply: &R::Reply) -> Answer {
    Answer::Bytes(encode_reply(R::KIND, Ok(reply)))
}

pub(crate) fn refuse(call: &Call, error: &WireError) -> Answer {
    Answer::Bytes(encode_reply::<()>(call.kind, Err(error)))
}

pub(crate) fn refuse_with(call: &Call, code: ErrorCode) -> Answer {
    refuse(call, &WireError::new(code, "told to"))
}

type Handler = Arc<dyn Fn(&Call) -> Answer + Send + Sync>;

/// A certificate with its key; servers that share one can stand in for each other.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Vec<u8>,
}

impl Certificate {
    pub(crate) fn self_signed() -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let chain = vec![made.cert.der().clone()];
        Certificate { chain, key: made.signing_key.serialize_der() }
    }

    pub(crate) fn sha256(&self) -> [u8; 32] {
        fingerprint(&self.chain[0])
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.clone()).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Certificate,
    endpoint: quinn::Endpoint,
    connections: Arc<Mutex<Vec<quinn::Connection>>>,
    /// Told of each stream that a client gave up.
    pub(crate) abandoned: mpsc::UnboundedReceiver<Kind>,
}

impl Server {
    pub(crate) fn master(handler: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Server {
        Server::start(Setup::new(ALPN_MASTER), handler)
    }

    pub(crate) fn store(handler: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Server {
        Server::start(Setup::new(ALPN_STORE), handler)
    }

    pub(crate) fn start(
        setup: Setup,
        handler: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Server {
        let endpoint = quinn::Endpoint::server(setup.config(), setup.address).unwrap();
        let address = endpoint.local_addr().unwrap();
        let (told, abandoned) = mpsc::unbounded_channel();
        let connections = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(accept(endpoint.clone(), connections.clone(), Arc::new(handler), told));
        Server { address, certificate: setup.certificate, endpoint, connections, abandoned }
    }

    /// Ends as a master that restarts, and lets another one start on the same port.
    pub(crate) async fn restart(
        self,
        handler: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Server {
        let mut setup = Setup::new(ALPN_MASTER);
        setup.certificate = self.certificate.clone();
        setup.address = self.address;
        self.stop().await;
        Server::start(setup, handler)
    }

    /// Ends as a master that restarts, and waits until its port is free.
    pub(crate) async fn stop(self) {
        let Server { address, endpoint, connections, .. } = self;
        endpoint.close(mooring_proto::close::RESTARTING.into(), b"restarting");
        endpoint.wait_idle().await;
        connections.lock().unwrap().clear();
        drop(endpoint);
        // The port is free once the endpoint's own task has noticed.
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let tls = ClientTls::pinned(self.certificate.sha256());
        let mut config = ClientConfig::new(self.address.to_string(), tls);
        config.request_timeout_ms = 10_000;
        config
    }

    /// Opens a stream of one direction on every connection and sends the bytes.
    pub(crate) async fn tell_all(&self, bytes: &[u8]) {
        let connections = self.connections.lock().unwrap().clone();
        for connection in connections {
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream.finish().unwrap();
        }
    }
}

pub(crate) struct Setup {
    pub(crate) alpn: &'static [u8],
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Certificate,
    /// Asks clients for a certificate under this one.
    pub(crate) client_ca: Option<CertificateDer<'static>>,
}

impl Setup {
    pub(crate) fn new(alpn: &'static [u8]) -> Setup {
        Setup {
            alpn,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            certificate: Certificate::self_signed(),
            client_ca: None,
        }
    }

    pub(crate) fn config(&self) -> quinn::ServerConfig {
        let provider = Arc::new(provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(ca.clone()).unwrap();
                let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    provider.clone(),
                );
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        // A resolver, since it does not mind a key that is not the certificate's.
        let key = provider.key_provider.load_private_key(self.certificate.private_key()).unwrap();
        let shown = CertifiedKey::new(self.certificate.chain.clone(), key);
        let mut tls = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        tls.alpn_protocols = vec![self.alpn.to_vec()];
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()))
    }
}

async fn accept(
    endpoint: quinn::Endpoint,
    connections: Arc<Mutex<Vec<quinn::Connection>>>,
    handler: Handler,
    told: mpsc::UnboundedSender<Kind>,
) {
    while let Some(incoming) = endpoint.accept().await {
        let (connections, handler, told) = (connections.clone(), handler.clone(), told.clone());
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            connections.lock().unwrap().push(connection.clone());
            while let Ok((send, receive)) = connection.accept_bi().await {
                let (connection, handler, told) =
                    (connection.clone(), handler.clone(), told.clone());
                tokio::spawn(serve(connection, send, receive, handler, told));
            }
        });
    }
}

async fn serve(
    connection: quinn::Connection,
    mut send: quinn::SendStream,
    mut receive: quinn::RecvStream,
    handler: Handler,
    told: mpsc::UnboundedSender<Kind>,
) {
    let Ok(bytes) = receive.read_to_end(64 << 20).await else { return };
    let (head, rest) = bytes.split_first_chunk::<REQUEST_HEADER_BYTES>().unwrap();
    let header = RequestHeader::decode(head).unwrap();
    let (body, rest) = rest.split_at(header.body_bytes as usize);
    let from = connection.remote_address();
    let call = Call { kind: header.kind, body: body.to_vec(), rest: rest.to_vec(), from };
    match handler(&call) {
        Answer::Bytes(bytes) => {
            // A client that gave up does not read it.
            let _ = send.write_all(&bytes).await;
        }
        Answer::Silence => {
            if let Ok(Some(_)) = send.stopped().await {
                let _ = told.send(call.kind);
            }
        }
        Answer::Close(code) => connection.close(code.into(), b"told to"),
    }
}

/// The usual answers to hello and ping.
pub(crate) fn greet(call: &Call, incarnation: Incarnation, client_ttl_ms: u64) -> Answer {
    match call.kind {
        Kind::Hello => reply::<mooring_proto::message::session::HelloRequest>(&HelloReply {
            version: 1,
            features: 0,
            incarnation,
            server: "fake".to_owned(),
            client_ttl_ms,
            lease_ttl_ms: 10_000,
            segment_epoch: 1,
        }),
        Kind::Ping => reply::<mooring_proto::message::session::PingRequest>(&PingReply {
            incarnation,
            need_remount: false,
            segment_epoch: 1,
            client_ttl_ms,
        }),
        _ => refuse_with(call, ErrorCode::Internal),
    }
}
