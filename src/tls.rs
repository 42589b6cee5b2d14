//! TLS of the process's own ports: certificates from files or made for development, and who may
//! connect.

pub(crate) mod dev;
mod expiry;
mod files;
mod identity;
mod names;
pub(crate) mod probe;
mod trust;
mod verifier;

use std::sync::Arc;

use mooring_proto::client::tls::{fingerprint, provider};
use mooring_proto::client::{ClientError, tls_hint};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

pub(crate) use files::TlsFiles;
use identity::Identity;
pub(crate) use names::{NamePattern, Principal};
pub(crate) use trust::client_of;
use verifier::ClientVerifier;

/// What a server shows, and whom it lets in.
pub(crate) struct ServerTls {
    identity: Identity,
    /// The roots that certificates of clients must lead to; without them every client may connect.
    client_roots: Option<Arc<RootCertStore>>,
    /// One more client that may connect: this process itself.
    known_client: Option<CertificateDer<'static>>,
    /// Where all this came from, to read it again.
    files: Option<TlsFiles>,
}

impl ServerTls {
    /// Reads certificate, key and, if given, the roots of clients.
    ///
    /// # Errors
    /// Names the file that cannot be read or has nothing of use in it, and a key that is not that
    /// of the certificate.
    pub(crate) fn from_files(files: TlsFiles) -> Result<ServerTls, TlsError> {
        let identity = files.identity()?;
        let client_roots = files.client_roots()?.map(Arc::new);
        let tls = ServerTls { identity, client_roots, known_client: None, files: Some(files) };
        // A key that does not fit shows only here.
        tls.server_config(b"")?;
        Ok(tls)
    }

    /// Makes a certificate that signs itself, for these host names and addresses. Peers know it by
    /// its fingerprint.
    ///
    /// # Errors
    /// If a name cannot stand in a certificate.
    pub(crate) fn self_signed(names: &[String]) -> Result<ServerTls, TlsError> {
        let identity = Identity::self_signed(names)?;
        Ok(ServerTls { identity, client_roots: None, known_client: None, files: None })
    }

    /// Lets one more client in, whatever the roots.
    #[must_use]
    pub(crate) fn with_known_client(mut self, certificate: CertificateDer<'static>) -> ServerTls {
        self.known_client = Some(certificate);
        self
    }

    /// Reads the files again; a certificate that was made here stays as it is.
    ///
    /// # Errors
    /// As [`ServerTls::from_files`]; the former state is still good.
    pub(crate) fn reload(&self) -> Result<Option<ServerTls>, TlsError> {
        let Some(files) = &self.files else { return Ok(None) };
        let mut fresh = ServerTls::from_files(files.clone())?;
        fresh.known_client = self.known_client.clone();
        Ok(Some(fresh))
    }

    /// The SHA-256 of the certificate that the server shows.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        fingerprint(self.identity.certificate())
    }

    /// When the certificate runs out, in seconds since 1970; `None` if it does not say.
    pub(crate) fn ends_s(&self) -> Option<i64> {
        expiry::ends_s(self.identity.certificate())
    }

    /// For a QUIC endpoint that speaks this protocol.
    ///
    /// # Errors
    /// If the key is not that of the certificate.
    pub(crate) fn quic(&self, alpn: &[u8]) -> Result<Arc<QuicServerConfig>, TlsError> {
        let config = self.server_config(alpn)?;
        let config = QuicServerConfig::try_from(config).map_err(|_| TlsError::NoInitialCipher)?;
        Ok(Arc::new(config))
    }

    fn server_config(&self, alpn: &[u8]) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match self.client_verifier()? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let (chain, key) = self.identity.parts();
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![alpn.to_vec()];
        // The order of the provider counts: it is that of the cost.
        config.ignore_client_order = true;
        // A replayed request could be carried out twice.
        config.max_early_data_size = 0;
        Ok(config)
    }

    fn client_verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        let Some(roots) = &self.client_roots else { return Ok(None) };
        let verifier = ClientVerifier::new(roots.clone(), self.known_client.clone())?;
        Ok(Some(Arc::new(verifier)))
    }
}

/// A fingerprint as people write it.
pub(crate) fn hexadecimal(fingerprint: &[u8; 32]) -> String {
    fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a fingerprint; colons between the bytes are accepted.
pub(crate) fn parse_fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b':').collect();
    let mut fingerprint = [0; 32];
    if digits.len() != 2 * fingerprint.len() {
        return None;
    }
    for (byte, pair) in fingerprint.iter_mut().zip(digits.chunks(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(fingerprint)
}

fn with_hint(error: &rustls::Error) -> String {
    let text = error.to_string();
    format!("{text}{}", tls_hint(&text))
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read or has nothing of use in it; the text names it.
    #[error(transparent)]
    File(#[from] ClientError),
    /// The certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The parts do not fit together.
    #[error("certificate and key: {}", with_hint(.0))]
    Unusable(#[from] rustls::Error),
    /// The roots of clients are of no use.
    #[error("certificates of clients: {0}")]
    Roots(#[from] rustls::server::VerifierBuilderError),
    /// QUIC needs AES-128-GCM to begin.
    #[error("the cipher that QUIC begins with is missing")]
    NoInitialCipher,
}

#[cfg(test)]
mod tests;
