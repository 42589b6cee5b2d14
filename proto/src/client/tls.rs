//! Trust: certificates from PEM files, or fingerprints that are pinned.
//!
//! The functions are public because servers that speak to this client need the same ones.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::error::ClientError;

/// Whom the client trusts, and who it is.
///
/// Files are read when the client connects, and again after a handshake failed for want of trust,
/// so renewed certificates need no new client.
#[derive(Clone, Debug)]
pub struct ClientTls {
    trust: Trust,
    identity: Option<Identity>,
    server_name: Option<String>,
}

#[derive(Clone, Debug)]
enum Trust {
    Roots(PathBuf),
    Pins(Vec<[u8; 32]>),
    PinnedBy(PinSource),
}

/// Says which certificate to expect now.
#[derive(Clone)]
struct PinSource(Arc<dyn Fn() -> Result<[u8; 32], String> + Send + Sync>);

impl std::fmt::Debug for PinSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PinSource")
    }
}

#[derive(Clone, Debug)]
struct Identity {
    certificates: PathBuf,
    key: PathBuf,
}

impl ClientTls {
    /// Trusts servers whose chain ends in a certificate of this PEM file, under the name that was
    /// connected to.
    pub fn ca(path: impl Into<PathBuf>) -> ClientTls {
        ClientTls { trust: Trust::Roots(path.into()), identity: None, server_name: None }
    }

    /// Trusts the certificates with these SHA-256, whatever their names and age, and no other one.
    pub fn pinned_any(certificates_sha256: impl IntoIterator<Item = [u8; 32]>) -> ClientTls {
        let pins = certificates_sha256.into_iter().collect();
        ClientTls { trust: Trust::Pins(pins), identity: None, server_name: None }
    }

    /// Trusts exactly the certificate with this SHA-256, whatever its name and age.
    pub fn pinned(certificate_sha256: [u8; 32]) -> ClientTls {
        ClientTls::pinned_any([certificate_sha256])
    }

    /// Trusts exactly the certificate whose SHA-256 the function tells. It is asked when the client
    /// connects, and again after a handshake failed for want of trust, so a server may come back
    /// with another certificate. It must be quick, as it is called within the runtime; what it
    /// fails with is the reason of [`ClientError::Tls`].
    pub fn pinned_by(
        source: impl Fn() -> Result<[u8; 32], String> + Send + Sync + 'static,
    ) -> ClientTls {
        let trust = Trust::PinnedBy(PinSource(Arc::new(source)));
        ClientTls { trust, identity: None, server_name: None }
    }

    /// Shows this certificate chain (PEM) to servers that ask for one, with its private key (PEM).
    #[must_use]
    pub fn with_identity(
        mut self,
        certificates: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> ClientTls {
        self.identity = Some(Identity { certificates: certificates.into(), key: key.into() });
        self
    }

    /// Expects the master's certificate to be for this name instead of the host that is connected
    /// to.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> ClientTls {
        self.server_name = Some(name.into());
        self
    }

    /// The name that was set by [`ClientTls::with_server_name`].
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The same client before a store that announced its certificate. The announcement came from a
    /// master that is trusted, and names the very certificate, so it replaces the CA.
    pub(super) fn for_store(&self, certificate_sha256: Option<[u8; 32]>) -> ClientTls {
        let trust = match certificate_sha256 {
            Some(pin) => Trust::Pins(vec![pin]),
            None => self.trust.clone(),
        };
        // A name that was set for the master says nothing about a store.
        ClientTls { trust, identity: self.identity.clone(), server_name: None }
    }

    /// Reads the files and makes what a QUIC connection under this ALPN needs. For programs that
    /// speak the protocol on connections of their own.
    ///
    /// # Errors
    /// `Tls` for files that are of no use, with their path, and for a pin that cannot be told.
    pub fn load(&self, alpn: &[u8]) -> Result<quinn::ClientConfig, ClientError> {
        let provider = Arc::new(provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| ClientError::Tls(error.to_string()))?;
        let builder = match &self.trust {
            Trust::Roots(path) => builder.with_root_certificates(load_roots(path)?),
            Trust::Pins(pins) => {
                let verifier = PinVerifier { pins: pins.clone(), algorithms };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Trust::PinnedBy(source) => {
                let pins = vec![source.0().map_err(ClientError::Tls)?];
                let verifier = PinVerifier { pins, algorithms };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificates = load_certificates(&identity.certificates)?;
                builder
                    .with_client_auth_cert(certificates, load_key(&identity.key)?)
                    .map_err(|error| unusable(&identity.certificates, &error))?
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        // Early data can be replayed by anyone who saw it, so it stays off.
        config.enable_early_data = false;
        QuicClientConfig::try_from(config)
            .map(|crypto| quinn::ClientConfig::new(Arc::new(crypto)))
            .map_err(|error| ClientError::Tls(error.to_string()))
    }
}

/// The SHA-256 of a certificate in DER, by which it is pinned.
pub fn fingerprint(certificate_der: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate_der);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// The cryptography of both ends: aws-lc-rs, AES-128-GCM first, which is the fastest of its suites
/// on processors with AES instructions and strong enough for everyone.
pub fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// The certificates of a PEM file, in their order; at least one.
///
/// # Errors
/// `Tls` with the path, if the file cannot be read or has no certificate.
pub fn load_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let certificates = read_pem(path).map_err(pem::Error::Io);
    let certificates: Vec<_> = certificates
        .and_then(|text| CertificateDer::pem_slice_iter(&text).collect())
        .map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"no certificate in it"));
    }
    Ok(certificates)
}

/// The first private key of a PEM file.
///
/// # Errors
/// `Tls` with the path, if the file cannot be read or has no key.
pub fn load_key(path: &Path) -> Result<PrivateKeyDer<'static>, ClientError> {
    let text = read_pem(path).map_err(pem::Error::Io);
    let key = text.and_then(|text| PrivateKeyDer::from_pem_slice(&text));
    key.map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(path, &"no private key in it"),
        error => unusable(path, &error),
    })
}

/// A whole file, which may be reached by links, as those of mounted secrets are. A FIFO would wait for
/// somebody to write, and a device may give bytes without end.
fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > PEM_BYTES_MAX {
        let error = format!("more than {PEM_BYTES_MAX} bytes are no certificates");
        return Err(io::Error::new(ErrorKind::InvalidInput, error));
    }
    Ok(text)
}

/// Many times all the roots that a system trusts, which are 220 kB on Debian.
const PEM_BYTES_MAX: u64 = 8 << 20;

/// The certificates of a PEM file as those that chains must end in.
///
/// # Errors
/// `Tls` with the path, if the file cannot be read, or a certificate in it is no such one.
pub fn load_roots(path: &Path) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in load_certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

fn unusable(path: &Path, fault: &dyn std::fmt::Display) -> ClientError {
    ClientError::Tls(format!("{}: {fault}", path.display()))
}

/// Accepts the pinned certificates and no other. Only the chain is replaced by the pin: the server
/// must still prove that it holds the key.
#[derive(Debug)]
struct PinVerifier {
    pins: Vec<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = fingerprint(end_entity);
        if self.pins.contains(&seen) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::Other(rustls::OtherError(Arc::new(NotPinned { seen }))).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // QUIC has no TLS 1.2.
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[derive(thiserror::Error)]
#[error("the certificate has the SHA-256 {}, which is not pinned", hexadecimal(seen))]
struct NotPinned {
    seen: [u8; 32],
}

impl std::fmt::Debug for NotPinned {
    /// As people read it: this is what the texts of handshake errors are made of.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_has_no_certificates_and_is_not_read() {
        for path in ["/dev/zero", "/"] {
            let path = Path::new(path);
            let errors = [load_roots(path).err(), load_key(path).err()];
            for error in errors.map(|error| error.expect("it is refused").to_string()) {
                assert!(error.contains("it is no regular file"), "{error}");
                assert!(error.contains(&path.display().to_string()), "{error}");
            }
        }
    }
}
