//! What the system and operators tell a process.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::signals::server_hears;

/// The signals that a master hears.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To leave: SIGTERM or SIGINT.
    Leave,
    /// To read the certificates again: SIGHUP.
    Reload,
}

impl Signals {
    /// Hears from now on; must be called inside a tokio runtime.
    pub(super) fn new() -> io::Result<Signals> {
        let signals = Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        };
        server_hears();
        Ok(signals)
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Leave,
            _ = self.interrupt.recv() => Asked::Leave,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Waits until one asks to leave.
    pub(super) async fn told_to_leave(&mut self) {
        while self.next().await != Asked::Leave {}
    }

    /// Waits until one asks again to leave, after a first one that was heard then. What comes at once
    /// with it is the same: who tells a process and its group, as `timeout` does, tells it twice.
    pub(super) async fn told_again(&mut self, first: Instant) {
        loop {
            self.told_to_leave().await;
            if first.elapsed() >= DOUBLED_TIME {
                return;
            }
        }
    }
}

/// Sooner than a person signals again, and later than a busy machine delivers what was sent at once.
const DOUBLED_TIME: Duration = Duration::from_millis(100);
