//! What a master leaves for people and scripts to find while it serves, and takes away when it
//! leaves.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::options::MasterOptions;
use super::ports::Ports;
use super::ready_file::{self, Ready, Written};
use crate::frontend::quic;
use crate::tls;
use crate::tls::dev::Published;

/// What is there to be found.
#[derive(Default)]
pub(super) struct Announced {
    ready_file: ReadyFile,
    /// Of a development master, for clients on this machine.
    fingerprint: Option<Published>,
}

impl Announced {
    /// Takes it away, but for what another master has put in its place.
    pub(super) fn withdraw(&self) {
        self.ready_file.withdraw();
        if let Some(fingerprint) = &self.fingerprint {
            fingerprint.withdraw();
        }
    }
}

/// The ready file, if there is to be one.
#[derive(Clone, Default)]
struct ReadyFile(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    #[default]
    Missing,
    Written(Written),
    /// The master leaves: it is not written any more.
    Withdrawn,
}

impl ReadyFile {
    /// Writes the file. A master that serves has nothing to go back to, so one that cannot be written
    /// now, on a full disk perhaps, is tried again until the master leaves.
    fn write(&self, path: &Path, ready: Ready) {
        let Err(error) = self.attempt(path, &ready) else { return };
        tracing::error!(
            path = %path.display(),
            %error,
            "cannot write --ready-file: the master serves, and those who wait for the file do not know; \
             it is tried again each second"
        );
        let (file, path) = (self.clone(), path.to_owned());
        std::thread::spawn(move || {
            while file.attempt(&path, &ready).is_err() {
                std::thread::sleep(RETRY_EVERY);
            }
        });
    }

    fn attempt(&self, path: &Path, ready: &Ready) -> io::Result<()> {
        let mut state = self.state();
        if matches!(*state, State::Missing) {
            *state = State::Written(ready_file::write(path, ready)?);
        }
        Ok(())
    }

    fn withdraw(&self) {
        if let State::Written(written) = std::mem::replace(&mut *self.state(), State::Withdrawn) {
            written.withdraw();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells people and scripts that the master serves. The fingerprint is that of its certificate, if
/// it has one.
pub(super) fn announce(
    options: &MasterOptions,
    fingerprint: Option<[u8; 32]>,
    ports: Ports,
) -> Announced {
    let cert_sha256 = fingerprint.as_ref().map(tls::hexadecimal);
    let mut announced = Announced::default();
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
    if let Some(path) = &options.ready_file {
        let ready = Ready {
            pid: std::process::id(),
            rpc: ports.quic.map(quic::reachable).unwrap_or_default(),
            metrics: ports.metrics,
            mooncake: ports.mooncake,
            metadata: ports.metadata,
            cert_sha256,
        };
        announced.ready_file.write(path, ready);
    }
    announced
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

/// A disk that is full may have room soon.
const RETRY_EVERY: Duration = Duration::from_secs(1);
