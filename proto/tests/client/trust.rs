//! Pins, authorities, and certificates of clients.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use mooring_proto::Incarnation;
use mooring_proto::client::tls::{load_certificates, load_key};
use mooring_proto::client::{Client, ClientConfig, ClientError, ClientTls};
use mooring_proto::message::session::{ALPN_MASTER, ALPN_STORE};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::fake::{Certificate, Server, Setup, greet};
use crate::soon;

fn serve(setup: Setup) -> Server {
    Server::start(setup, |call| greet(call, Incarnation(1), 10_000))
}

/// An authority, and the certificates that it signs.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
        Authority { certificate, issuer: Issuer::new(params, key), directory }
    }

    /// A certificate for this host name, and its files.
    fn sign(&self, name: &str) -> (Certificate, PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let path = |suffix: &str| self.directory.join(format!("{name}.{suffix}.pem"));
        std::fs::write(path("cert"), signed.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let chain = vec![signed.der().clone()];
        (Certificate { chain, key: key.serialize_der() }, path("cert"), path("key"))
    }

    fn trusted(&self) -> ClientTls {
        ClientTls::ca(self.directory.join("ca.pem"))
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_pinned_is_refused_at_once() {
    let server = serve(Setup::new(ALPN_MASTER));
    let mut config = server.config();
    config.tls = ClientTls::pinned([7; 32]);
    let error = soon(Client::connect(config)).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error:?}");
    let seen: String =
        server.certificate.sha256().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(error.to_string().contains(&seen), "{error}");
}

#[tokio::test]
async fn any_of_several_pins_will_do() {
    let server = serve(Setup::new(ALPN_MASTER));
    let mut config = server.config();
    config.tls = ClientTls::pinned_any([[7; 32], server.certificate.sha256()]);
    soon(Client::connect(config)).await.unwrap();
}

#[tokio::test]
async fn a_pin_does_not_replace_the_proof_of_the_key() {
    // Shows a certificate that is pinned, and signs with the key of another one.
    let mut setup = Setup::new(ALPN_MASTER);
    setup.certificate.key = Certificate::self_signed().key;
    let pin = setup.certificate.sha256();
    let server = serve(setup);
    let mut config = server.config();
    config.tls = ClientTls::pinned(pin);
    let error = soon(Client::connect(config)).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error:?}");
}

#[tokio::test]
async fn a_chain_that_ends_in_the_authority_is_trusted_under_its_name_only() {
    let authority = Authority::new("chain");
    let mut setup = Setup::new(ALPN_MASTER);
    setup.certificate = authority.sign("localhost").0;
    let server = serve(setup);
    let target = format!("localhost:{}", server.address.port());
    soon(Client::connect(ClientConfig::new(target, authority.trusted()))).await.unwrap();
    // The address is no name of the certificate, unless the name is given.
    let target = server.address.to_string();
    let error = soon(Client::connect(ClientConfig::new(target.clone(), authority.trusted()))).await;
    assert!(matches!(error, Err(ClientError::Tls(_))), "{error:?}");
    let named = authority.trusted().with_server_name("localhost");
    soon(Client::connect(ClientConfig::new(target, named))).await.unwrap();
    let stranger = Authority::new("stranger").trusted().with_server_name("localhost");
    let error =
        soon(Client::connect(ClientConfig::new(server.address.to_string(), stranger))).await;
    assert!(matches!(error, Err(ClientError::Tls(_))), "{error:?}");
}

#[tokio::test]
async fn a_master_that_asks_for_a_certificate_gets_it_or_refuses() {
    let authority = Authority::new("mutual");
    let mut setup = Setup::new(ALPN_MASTER);
    setup.client_ca = Some(authority.certificate.der().clone());
    let server = serve(setup);
    let without = soon(Client::connect(server.config())).await;
    assert!(matches!(without, Err(ClientError::Tls(_))), "{without:?}");
    let (_, certificate, key) = authority.sign("engine");
    let mut config = server.config();
    config.tls = config.tls.with_identity(certificate, key);
    soon(Client::connect(config)).await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let config = ClientConfig::new("localhost:1", ClientTls::ca("/nonexistent/ca.pem"));
    let error = soon(Client::connect(config)).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error:?}");
    assert!(error.to_string().contains("/nonexistent/ca.pem"), "{error}");
}

#[test]
fn a_file_without_what_is_looked_for_is_said_to_have_none() {
    let authority = Authority::new("nothing-in-it");
    let (_, certificate, key) = authority.sign("engine");
    let empty = authority.directory.join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for path in [&empty, &certificate] {
        let error = load_key(path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{}: no private key in it", path.display())), "{error}");
    }
    for path in [&empty, &key] {
        let error = load_certificates(path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{}: no certificate in it", path.display())), "{error}");
    }
}

#[tokio::test]
async fn a_server_of_another_protocol_is_refused_at_once() {
    let server = serve(Setup::new(ALPN_STORE));
    let error = soon(Client::connect(server.config())).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error:?}");
}

#[tokio::test]
async fn a_pin_that_changes_with_the_server_is_asked_for_again() {
    let server = serve(Setup::new(ALPN_MASTER));
    let pin = Arc::new(Mutex::new(server.certificate.sha256()));
    let mut config = server.config();
    let told = pin.clone();
    config.tls = ClientTls::pinned_by(move || Ok(*told.lock().unwrap()));
    let client = soon(Client::connect(config)).await.unwrap();
    assert_eq!(soon(client.master()).await.unwrap().incarnation, Incarnation(1));
    let mut setup = Setup::new(ALPN_MASTER);
    setup.address = server.address;
    let next = setup.certificate.sha256();
    server.stop().await;
    let _next = Server::start(setup, |call| greet(call, Incarnation(2), 10_000));
    *pin.lock().unwrap() = next;
    let returned = async {
        while client.master().await.unwrap().incarnation != Incarnation(2) {
            tokio::task::yield_now().await;
        }
    };
    soon(returned).await;
}

#[tokio::test]
async fn a_pin_that_cannot_be_told_is_a_failure_of_trust() {
    let server = serve(Setup::new(ALPN_MASTER));
    let mut config = server.config();
    config.tls = ClientTls::pinned_by(|| Err("nobody left one".to_owned()));
    let error = soon(Client::connect(config)).await.unwrap_err();
    assert!(matches!(error, ClientError::Tls(_)), "{error:?}");
    assert!(error.to_string().contains("nobody left one"), "{error}");
}
