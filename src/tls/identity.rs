//! A certificate with its key.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::TlsError;

/// What one end shows, and the key that proves it.
pub(super) struct Identity {
    /// The own certificate first; never empty.
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// The chain must not be empty.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Identity {
        assert!(!chain.is_empty(), "an identity has a certificate");
        Identity { chain, key }
    }

    /// Makes a key and a certificate that it signs itself.
    pub(super) fn self_signed(names: &[String]) -> Result<Identity, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "mooring, for development");
        let certificate = params.self_signed(&key)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Identity::new(vec![certificate.der().clone()], key.into()))
    }

    /// The own certificate.
    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }

    /// Chain and key, as rustls takes them.
    pub(super) fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain.clone(), self.key.clone_key())
    }
}
