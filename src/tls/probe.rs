//! The client side of the process's own probe: it shows a certificate that was made at the start
//! and takes whatever certificate its own server shows.

use std::sync::Arc;

use mooring_proto::client::tls::provider;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::TlsError;
use super::identity::Identity;

/// Who the process is when it connects to itself.
pub(crate) struct ProbeIdentity {
    identity: Identity,
}

impl ProbeIdentity {
    /// Makes one; its key never leaves the process.
    ///
    /// # Errors
    /// If no key can be made.
    pub(crate) fn new() -> Result<ProbeIdentity, TlsError> {
        Ok(ProbeIdentity { identity: Identity::self_signed(&["probe.invalid".to_owned()])? })
    }

    /// What the server must let in.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.identity.certificate().clone()
    }

    /// For a QUIC client that speaks this protocol.
    ///
    /// # Errors
    /// If the algorithms do not fit together.
    pub(crate) fn quic(&self, alpn: &[u8]) -> Result<Arc<QuicClientConfig>, TlsError> {
        let (chain, key) = self.identity.parts();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OwnServer))
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![alpn.to_vec()];
        let config = QuicClientConfig::try_from(config).map_err(|_| TlsError::NoInitialCipher)?;
        Ok(Arc::new(config))
    }
}

/// Accepts every certificate: the probe sends nothing secret, and asks only whether the port that
/// this process itself has bound answers, also while its certificate is being replaced or has run
/// out. That the server has the key is still verified.
#[derive(Debug)]
struct OwnServer;

impl ServerCertVerifier for OwnServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
