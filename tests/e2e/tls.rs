//! Certificates: of clients, and replaced while the master serves.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::harness::{Master, run};
use crate::peer::{Dial, Peer};

/// An authority and what it signs.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate chain and its key, as rustls takes them.
pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a name, with its key, in PEM.
    pub(crate) fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The same for a client.
    fn client(&self) -> Pair {
        self.pair("client")
    }

    /// The same as rustls takes it.
    pub(crate) fn pair(&self, name: &str) -> Pair {
        self.named(&[name], &[])
    }

    /// The same with names of hosts and URIs.
    pub(crate) fn named(&self, hosts: &[&str], uris: &[&str]) -> Pair {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], key.into())
    }
}

/// Certificate and key of a master in files.
pub(crate) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    pub(crate) fn write(directory: &Path, (certificate, key): &(String, String)) -> Files {
        let files =
            Files { certificate: directory.join("master.pem"), key: directory.join("master.key") };
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        files
    }

    pub(crate) fn flags(&self) -> [&str; 4] {
        let (certificate, key) = (self.certificate.to_str(), self.key.to_str());
        ["--tls-cert", certificate.unwrap(), "--tls-key", key.unwrap()]
    }
}

#[tokio::test]
async fn only_clients_of_the_authority_are_let_in_and_the_master_is_ready_nevertheless() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = Files::write(directory.path(), &authority.sign("localhost"));
    let roots = directory.path().join("roots.pem");
    fs::write(&roots, authority.pem()).unwrap();
    let flags = [&files.flags()[..], &["--tls-client-ca", roots.to_str().unwrap()]].concat();
    let master = Master::start_with(&flags);

    let identity = Some(authority.client());
    let known = Peer::dial(master.rpc(), Dial { identity, ..Dial::default() }).await.unwrap();
    known.say_hello().await;

    for identity in [None, Some(Authority::new().client())] {
        // TLS 1.3 tells a client late that it is not let in.
        if let Ok(stranger) = Peer::dial(master.rpc(), Dial { identity, ..Dial::default() }).await {
            let error = crate::peer::in_time(stranger.connection.closed()).await;
            assert!(
                error.to_string().contains("certificate") || error.to_string().contains("11"),
                "{error}"
            );
        }
    }
    let (status, body) = master.page("/ready");
    assert_eq!(status, 200, "{body}");
    master.wait_for_metric("mooring_handshakes_failed_total", 2.0);
}

#[tokio::test]
async fn a_certificate_is_replaced_while_the_master_serves() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = Files::write(directory.path(), &authority.sign("localhost"));
    let mut master = Master::start_with(&files.flags());
    let before = Peer::greeted(&master).await;

    Files::write(directory.path(), &authority.sign("localhost"));
    master.process.signal(libc::SIGHUP);
    let log_has = |master: &Master, text: &str| master.process.log().contains(text);
    wait(&master, |master| log_has(master, "certificates reloaded"));
    let after = Peer::greeted(&master).await;
    assert_ne!(before.server_sha256(), after.server_sha256());
    before.ask(&mooring_proto::message::session::PingRequest::default()).await.unwrap();

    fs::write(&files.key, "broken").unwrap();
    master.process.expect_error("cannot reload the certificates");
    master.process.signal(libc::SIGHUP);
    wait(&master, |master| log_has(master, "cannot reload the certificates"));
    assert_eq!(Peer::greeted(&master).await.server_sha256(), after.server_sha256());
    assert_eq!(master.page("/ready").0, 200);
}

#[tokio::test]
async fn the_fingerprint_that_is_told_is_that_of_the_certificate_that_is_shown() {
    let master = Master::start(&[]);
    let shown = Peer::greeted(&master).await.server_sha256();
    let shown: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown, master.cert_sha256());
}

#[test]
fn a_key_file_without_a_key_is_said_to_have_none() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, _) = Authority::new().sign("localhost");
    for key in ["", &certificate] {
        let files = Files::write(directory.path(), &(certificate.clone(), key.to_owned()));
        let anywhere = ["master", "--rpc-port", "0", "--metrics-port", "0"];
        let output = run(&[&anywhere[..], &files.flags()].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("master.key: no private key in it"), "{error}");
    }
}

#[test]
fn clients_of_a_development_master_pin_its_certificate() {
    let master = Master::start(&[]);
    let flags = master.client_flags();
    let pinned = [&["stats", "--json"], &flags.iter().map(String::as_str).collect::<Vec<_>>()[..]];
    assert_eq!(run(&pinned.concat()).status.code(), Some(0));

    let rpc = master.rpc().to_string();
    let found = run(&["stats", "--json", "--dev", "--master", &rpc]);
    assert_eq!(found.status.code(), Some(0), "on the same machine --dev is enough");

    let other = "00".repeat(32);
    let wrong = ["stats", "--master", &rpc, "--timeout", "3s", "--pin-sha256", &other];
    assert_eq!(run(&wrong).status.code(), Some(1));
    let none = run(&["stats", "--master", &rpc]);
    assert_eq!(none.status.code(), Some(2), "nothing says how to trust the master");
}

fn wait(master: &Master, holds: impl Fn(&Master) -> bool) {
    let until = std::time::Instant::now() + crate::harness::PATIENCE;
    while !holds(master) {
        assert!(std::time::Instant::now() < until, "the log:\n{}", master.process.log());
        std::thread::yield_now();
    }
}
