//! Towards servers of others: collectors of telemetry.

use std::path::Path;
use std::sync::Arc;

use mooring_proto::client::tls::{load_roots, provider};
use rustls::ClientConfig;

use super::TlsError;

/// A client that trusts the roots of a file in PEM, or without one those of the system.
///
/// # Errors
/// Names the file that cannot be read or has nothing of use in it.
pub(crate) fn client_of(roots: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let of_system = || {
        let found = SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
        found.unwrap_or(Path::new(SYSTEM_ROOTS[0]))
    };
    let roots = load_roots(roots.unwrap_or_else(of_system))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Where systems keep the roots that they trust: Debian and its kin, Fedora and its kin, Alpine.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
