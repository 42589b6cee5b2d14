use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::{ErrorCode, WireError};

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn in_seconds(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

fn failure(port: u16) -> ClientError {
    ClientError::Connect { address: address(port).to_string(), reason: "refused".to_owned() }
}

/// A QUIC server that only completes handshakes.
fn server() -> (quinn::Endpoint, ClientTls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pin = super::super::tls::fingerprint(made.cert.der());
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut tls =
        rustls::ServerConfig::builder_with_provider(Arc::new(super::super::tls::provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    tls.alpn_protocols = vec![b"test".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, address(0)).unwrap();
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    connection.closed().await;
                }
            });
        }
    });
    (endpoint, ClientTls::pinned(pin))
}

#[tokio::test]
async fn a_dead_first_address_does_not_keep_the_second_from_being_used() {
    let (server, tls) = server();
    let silent = UdpSocket::bind(address(0)).unwrap();
    let addresses = vec![silent.local_addr().unwrap(), server.local_addr().unwrap()];
    let mut config = tls.load(b"test").unwrap();
    config.transport_config(Arc::new(transport::transport_config(1_200, Duration::from_secs(4))));
    let started = Instant::now();
    let dialed = race(addresses, in_seconds(5), |address| {
        let config = config.clone();
        let endpoint = transport::endpoint_towards(address);
        async move { handshake(address, endpoint, config, "localhost").await }
    })
    .await
    .unwrap();
    assert_eq!(dialed.connection.remote_address(), server.local_addr().unwrap());
    assert!(started.elapsed() < Duration::from_secs(2));
}

fn dialer(target: String, tls: ClientTls, connect_timeout_ms: u64) -> Dialer {
    let mut config = ClientConfig::new(target.clone(), tls.clone());
    config.connect_timeout_ms = connect_timeout_ms;
    Dialer::new(target, tls, b"test", &config)
}

#[tokio::test]
async fn a_name_is_resolved_and_greeted() {
    let (server, tls) = server();
    let target = format!("localhost:{}", server.local_addr().unwrap().port());
    let dialer = dialer(target, tls, 5_000);
    let greeted = dialer
        .dial(
            Duration::from_secs(4),
            |dialed| async move { Ok(dialed.connection.remote_address()) },
        )
        .await;
    assert_eq!(greeted.unwrap().port(), server.local_addr().unwrap().port());
}

#[tokio::test]
async fn an_address_that_fails_hands_over_at_once() {
    let started = Instant::now();
    let outcome = race(vec![address(1), address(2)], in_seconds(60), |tried| async move {
        if tried.port() == 1 { Err(failure(1)) } else { Ok(tried.port()) }
    })
    .await;
    assert_eq!(outcome.unwrap(), 2);
    assert!(started.elapsed() < STAGGER_MAX);
}

#[tokio::test]
async fn a_silent_peer_is_given_up_at_the_deadline() {
    let silent = UdpSocket::bind(address(0)).unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let tls = ClientTls::pinned([0; 32]);
    let dialer = dialer(target.clone(), tls, 100);
    let outcome = dialer.dial(Duration::from_secs(4), |dialed| async { Ok(dialed) }).await;
    let Err(ClientError::Connect { address, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(address, target);
}

#[tokio::test]
async fn the_error_that_came_furthest_is_told() {
    let outcome: Result<(), _> =
        race((1..=4).map(address).collect(), in_seconds(60), |tried| async move {
            Err(match tried.port() {
                1 => failure(1),
                2 => ClientError::Tls("not trusted".to_owned()),
                3 => ClientError::Refused(WireError::new(ErrorCode::UnsupportedVersion, "old")),
                _ => failure(4),
            })
        })
        .await;
    let error = outcome.unwrap_err().unwrap();
    assert_eq!(error.code(), Some(ErrorCode::UnsupportedVersion));
}

#[tokio::test]
async fn each_address_is_tried_once() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let outcome: Result<(), _> = race((1..=5).map(address).collect(), in_seconds(60), |tried| {
        attempts.fetch_add(1, Ordering::Relaxed);
        async move { Err(failure(tried.port())) }
    })
    .await;
    assert!(outcome.is_err());
    assert_eq!(attempts.load(Ordering::Relaxed), 5);
}

#[test]
fn the_host_of_a_target_loses_port_and_brackets() {
    assert_eq!(host("master.example:50051"), "master.example");
    assert_eq!(host("127.0.0.1:50051"), "127.0.0.1");
    assert_eq!(host("[::1]:50051"), "::1");
    assert_eq!(host("no-port"), "no-port");
}
