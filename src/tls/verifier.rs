//! Which clients may connect, when certificates of clients are asked for.

use std::sync::Arc;

use mooring_proto::client::tls::provider;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::TlsError;

/// Clients whose certificate leads to one of the roots, and the process itself.
///
/// The process connects to its own port to prove that it answers, and it has no certificate of
/// those roots. It shows one that it made at the start instead, whose key never leaves it.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    roots: Arc<dyn ClientCertVerifier>,
    known: Option<CertificateDer<'static>>,
}

impl ClientVerifier {
    /// A verifier of these roots; there must be at least one.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        known: Option<CertificateDer<'static>>,
    ) -> Result<ClientVerifier, TlsError> {
        let roots =
            WebPkiClientVerifier::builder_with_provider(roots, Arc::new(provider())).build()?;
        Ok(ClientVerifier { roots, known })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.roots.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // That the peer has the key as well is verified by the signature, as for every other one.
        if self.known.as_ref().is_some_and(|known| known == end_entity) {
            return Ok(ClientCertVerified::assertion());
        }
        self.roots.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}
