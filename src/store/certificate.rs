//! The certificate of a store's data plane.

use super::StoreTlsArgs;
use crate::command::CommandError;
use crate::tls::{ServerTls, TlsFiles};

/// What the data plane shows to its peers.
pub(crate) struct StoreCertificate {
    /// For the listener.
    pub(crate) tls: ServerTls,
    /// Peers pin this certificate, as no authority signed it.
    pub(crate) pinned: bool,
}

impl StoreCertificate {
    /// Reads the files that the arguments name, or makes a pair that lives as long as the process.
    /// Peers learn the fingerprint of the latter from the master, which they have verified.
    ///
    /// # Errors
    /// A file that cannot be read or used, by name.
    pub(crate) fn new(args: &StoreTlsArgs) -> Result<StoreCertificate, CommandError> {
        let unusable = |error| CommandError::failed("data plane", error);
        match (&args.data_tls_cert, &args.data_tls_key) {
            (Some(certificate), Some(key)) => {
                let files = TlsFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    client_ca: args.data_tls_client_ca.clone(),
                };
                let tls = ServerTls::from_files(files).map_err(unusable)?;
                Ok(StoreCertificate { tls, pinned: false })
            }
            _ => {
                // Peers know it by its fingerprint, so the name in it is for people.
                let names = ["mooring-store".to_owned()];
                let tls = ServerTls::self_signed(&names).map_err(unusable)?;
                Ok(StoreCertificate { tls, pinned: true })
            }
        }
    }
}
