//! What a master leaves for people and scripts to find while it serves, and takes away when it
//! leaves.

use std::io::Write;

use super::options::MasterOptions;
use super::ports::Ports;
use super::ready_file::{self, Ready, Written};
use crate::command::CommandError;
use crate::frontend::quic;
use crate::tls;
use crate::tls::dev::Published;

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

/// Tells people and scripts that the master serves. The fingerprint is that of its certificate, if
/// it has one.
///
/// # Errors
/// If the ready file cannot be written; then nothing is left behind.
pub(super) fn announce(
    options: &MasterOptions,
    fingerprint: Option<[u8; 32]>,
    ports: Ports,
) -> Result<Announced, CommandError> {
    let cert_sha256 = fingerprint.as_ref().map(tls::hexadecimal);
    let mut announced = Announced { ready_file: None, fingerprint: None };
    if options.is_development()
        && let (Some(fingerprint), Some(bound)) = (fingerprint, ports.quic)
    {
        announced.fingerprint = tls::dev::publish(bound.port(), &fingerprint)
            .inspect_err(|error| tracing::warn!(%error, "clients must be given --pin-sha256"))
            .ok();
        // A closed standard output is no reason not to serve.
        let text = tls::hexadecimal(&fingerprint);
        let _ = writeln!(std::io::stdout(), "certificate SHA-256: {text}");
    }
    log(options, ports, cert_sha256.as_deref());
    let Some(path) = &options.ready_file else { return Ok(announced) };
    let ready = Ready {
        pid: std::process::id(),
        rpc: ports.quic.map(quic::reachable).unwrap_or_default(),
        metrics: ports.metrics,
        mooncake: ports.mooncake,
        metadata: ports.metadata,
        cert_sha256,
    };
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

fn log(options: &MasterOptions, ports: Ports, cert_sha256: Option<&str>) {
    let text = match ports.quic {
        Some(_) => "serving",
        None => "serving without QUIC, which needs --tls-cert and --tls-key",
    };
    tracing::info!(
        rpc = ports.quic.map(tracing::field::display),
        mooncake = ports.mooncake.map(tracing::field::display),
        metadata = ports.metadata.map(tracing::field::display),
        metrics = %ports.metrics,
        cert_sha256,
        shards = options.shards,
        layout = ?options.layout,
        version = env!("CARGO_PKG_VERSION"),
        "{text}"
    );
}
