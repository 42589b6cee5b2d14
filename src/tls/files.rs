//! Certificates, keys and roots in PEM files.

use std::path::PathBuf;

use mooring_proto::client::tls::{load_certificates, load_key, load_roots};
use rustls::RootCertStore;

use super::TlsError;
use super::identity::Identity;

/// Where a server's certificates are.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub(crate) certificate: PathBuf,
    /// The key of the first certificate.
    pub(crate) key: PathBuf,
    /// The roots that certificates of clients must lead to; `None` lets every client in.
    pub(crate) client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads certificate and key.
    pub(super) fn identity(&self) -> Result<Identity, TlsError> {
        Ok(Identity::new(load_certificates(&self.certificate)?, load_key(&self.key)?))
    }

    /// Reads the roots of clients.
    pub(super) fn client_roots(&self) -> Result<Option<RootCertStore>, TlsError> {
        match &self.client_ca {
            None => Ok(None),
            Some(path) => Ok(Some(load_roots(path)?)),
        }
    }
}
