//! What a master leaves for people and scripts to find while it serves, and takes away when it
//! leaves.
//!
//! The disk of the ready file may hang, and nobody who serves or leaves may wait for it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::time::timeout;

use super::options::MasterOptions;
use super::ports::Ports;
use super::ready_file::{self, Ready, Written};
use super::standby::Standby;
use crate::frontend::quic;
use crate::tls;
use crate::tls::dev::Published;

/// What is there to be found.
#[derive(Clone, Default)]
pub(super) struct Announced {
    ready_file: ReadyFile,
    /// Of a development master, for clients on this machine.
    fingerprint: Arc<OnceLock<Published>>,
}

impl Announced {
    /// Takes it away, but for what another master has put in its place. It is waited for at most this
    /// long; what takes longer goes on beside.
    pub(super) async fn withdraw(&self, in_time: Duration, standby: &Standby) {
        let announced = self.clone();
        let withdrawing = standby.beside(move || {
            // The disk of the ready file may be what hangs.
            if let Some(fingerprint) = announced.fingerprint.get() {
                fingerprint.withdraw();
            }
            announced.ready_file.withdraw();
        });
        if timeout(in_time, withdrawing).await.is_err() {
            tracing::warn!("the ready file takes its time to go");
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
    /// now, on a full disk perhaps, is tried again until the master leaves. Waits a moment for the
    /// first attempt, so that the file is mostly there when this returns.
    fn write(&self, path: &Path, ready: Ready) {
        let owned = path.to_owned();
        self.write_with(path, move || ready_file::write(&owned, &ready));
    }

    fn write_with(
        &self,
        path: &Path,
        mut write: impl FnMut() -> io::Result<Written> + Send + 'static,
    ) {
        let (tried, first) = mpsc::channel();
        let (file, shown) = (self.clone(), path.display().to_string());
        let attempts = move || {
            let mut outcome = file.attempt(&mut write);
            if let Err(error) = &outcome {
                tell_failed(&shown, error);
            }
            // Whoever waited may have gone on.
            let _ = tried.send(());
            while outcome.is_err() {
                thread::sleep(RETRY_EVERY);
                outcome = file.attempt(&mut write);
            }
        };
        match thread::Builder::new().name("ready file".to_owned()).spawn(attempts) {
            Ok(_) => {
                let _ = first.recv_timeout(FIRST_ATTEMPT_TIME);
            }
            Err(error) => tracing::error!(
                path = %path.display(),
                %error,
                "no thread for --ready-file: the master serves, and those who wait for the file do not know"
            ),
        }
    }

    /// Writes it unless it is there or the master leaves.
    fn attempt(&self, write: &mut impl FnMut() -> io::Result<Written>) -> io::Result<()> {
        let mut state = self.state();
        if matches!(*state, State::Missing) {
            *state = State::Written(write()?);
        }
        Ok(())
    }

    /// Waits for an attempt that is under way: what it has written goes, too.
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

fn tell_failed(path: &str, error: &io::Error) {
    tracing::error!(
        path,
        %error,
        "cannot write --ready-file: the master serves, and those who wait for the file do not know; it is \
         tried again each second"
    );
}

/// Tells people and scripts that the master serves. The fingerprint is that of its certificate, if
/// it has one.
pub(super) fn announce(
    options: &MasterOptions,
    fingerprint: Option<[u8; 32]>,
    ports: Ports,
) -> Announced {
    let cert_sha256 = fingerprint.as_ref().map(tls::hexadecimal);
    let announced = Announced::default();
    if options.is_development()
        && let (Some(fingerprint), Some(bound)) = (fingerprint, ports.quic)
    {
        let published = announced.fingerprint.clone();
        in_a_moment(move || {
            match tls::dev::publish(bound.port(), &fingerprint) {
                Ok(left) => drop(published.set(left)),
                Err(error) => tracing::warn!(%error, "clients must be given --pin-sha256"),
            }
            // A closed standard output is no reason not to serve.
            let text = tls::hexadecimal(&fingerprint);
            let _ = writeln!(std::io::stdout(), "certificate SHA-256: {text}");
        });
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

/// Does some work on a thread of its own, and waits a moment for it: a disk may hang, or who reads standard
/// output. Gives whether it is done.
fn in_a_moment(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, told) = mpsc::channel();
    let work = move || {
        work();
        // Whoever waited may have gone on.
        let _ = done.send(());
    };
    match thread::Builder::new().name("announce".to_owned()).spawn(work) {
        Ok(_) => told.recv_timeout(FIRST_ATTEMPT_TIME).is_ok(),
        Err(error) => {
            tracing::warn!(%error, "no thread: clients must be given --pin-sha256");
            false
        }
    }
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
        layout = options.layout_name(),
        version = env!("CARGO_PKG_VERSION"),
        "{text}"
    );
}

/// A disk that is full may have room soon.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Many times what a disk takes that works.
const FIRST_ATTEMPT_TIME: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Ready {
        let metrics = ([127, 0, 0, 1], 1).into();
        let (pid, cert_sha256) = (1, None);
        Ready { pid, rpc: Vec::new(), metrics, mooncake: None, metadata: None, cert_sha256 }
    }

    /// The disk hangs in the middle of an attempt, which then has what a withdrawal needs.
    #[tokio::test]
    async fn neither_a_start_nor_a_leave_waits_for_a_ready_file_whose_disk_hangs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        let (announced, standby) = (Announced::default(), Standby::start().unwrap());
        let (wake, awake) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let hanging = path.clone();
        announced.ready_file.write_with(&path, move || {
            begun.send(()).unwrap();
            awake.recv().unwrap();
            ready_file::write(&hanging, &ready())
        });
        begins.recv().unwrap();
        announced.withdraw(Duration::from_millis(1), &standby).await;
        assert!(!path.exists(), "it was not written yet");

        wake.send(()).unwrap();
        announced.withdraw(Duration::MAX, &standby).await;
        assert!(!path.exists(), "one that is written late goes all the same");
        assert!(matches!(*announced.ready_file.state(), State::Withdrawn));
    }

    #[test]
    fn who_reads_standard_output_may_hang_while_a_master_begins_to_serve() {
        let (wake, awake) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = awake.recv();
        };
        assert!(!in_a_moment(hangs));
        drop(wake);
        let (done, seen) = mpsc::channel();
        // On a machine that is busy it may come after the moment that it is waited for.
        let _ = in_a_moment(move || done.send(7).unwrap());
        assert_eq!(seen.recv(), Ok(7));
    }

    #[tokio::test]
    async fn a_ready_file_is_there_when_it_was_announced_and_goes_when_the_master_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        let (announced, standby) = (Announced::default(), Standby::start().unwrap());
        announced.ready_file.write(&path, ready());
        // On a machine that is busy it may come after the moment that it is waited for.
        while !path.exists() {
            thread::yield_now();
        }
        announced.withdraw(Duration::MAX, &standby).await;
        assert!(!path.exists());
    }
}
