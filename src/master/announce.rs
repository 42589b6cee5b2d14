//! What a master leaves for people and scripts to find while it serves, and takes away when it
//! leaves.

use std::io::Write;
use std::net::SocketAddr;

use super::options::MasterOptions;
use super::ready_file::{self, Ready, Written};
use crate::command::CommandError;
use crate::frontend::quic;
use crate::tls::dev::Published;
use crate::tls::{self, ServerTls};

/// What is there to be found.
pub(super) struct Announced {
    ready_file: Option<Written>,
    /// Of a development master, for clients on this machine.
    fingerprint: Option<Published>,
}

impl Announced {
    /// Takes it away, but for what another master has put in its place.
    pub(super) fn withdraw(&self) {
        if let Some(ready_file) = &self.ready_file {
            ready_file.withdraw();
        }
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.withdraw();
        }
    }
}

/// Tells people and scripts that the master serves.
///
/// # Errors
/// If the ready file cannot be written; then nothing is left behind.
pub(super) fn announce(
    options: &MasterOptions,
    tls: &ServerTls,
    bound: SocketAddr,
    metrics: SocketAddr,
) -> Result<Announced, CommandError> {
    let cert_sha256 = tls::hexadecimal(&tls.fingerprint());
    let mut announced = Announced { ready_file: None, fingerprint: None };
    if options.tls_files.is_none() {
        announced.fingerprint = tls::dev::publish(bound.port(), &tls.fingerprint())
            .inspect_err(|error| tracing::warn!(%error, "clients must be given --pin-sha256"))
            .ok();
        // A closed standard output is no reason not to serve.
        let _ = writeln!(std::io::stdout(), "certificate SHA-256: {cert_sha256}");
    }
    let rpc = quic::reachable(bound);
    tracing::info!(
        rpc = %bound,
        metrics = %metrics,
        cert_sha256,
        shards = options.shards,
        layout = ?options.layout,
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    let Some(path) = &options.ready_file else { return Ok(announced) };
    let ready = Ready { pid: std::process::id(), rpc, metrics, mooncake: None, cert_sha256 };
    match ready_file::write(path, &ready) {
        Ok(written) => announced.ready_file = Some(written),
        Err(error) => {
            announced.withdraw();
            let attempt = format!("cannot write --ready-file {}", path.display());
            return Err(CommandError::failed(attempt, error));
        }
    }
    Ok(announced)
}
