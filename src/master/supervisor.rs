//! What the supervisor of the process is told: that it serves, that it leaves, how far it is, and that it
//! still works. It is systemd's protocol of notifications; without its environment nothing is told.

use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{interval, sleep, timeout};

use crate::frontend::Context;

/// Who waits for notifications, if anybody does.
#[derive(Debug, Default)]
pub(super) struct Supervisor {
    notify: Option<(UnixDatagram, SocketAddr)>,
    /// How long it waits for a sign of life before it ends the process.
    patience: Option<Duration>,
}

impl Supervisor {
    /// The one that has started this process.
    pub(super) fn from_environment() -> Supervisor {
        let Some(address) = env::var_os("NOTIFY_SOCKET") else { return Supervisor::default() };
        let notify = match open(&address) {
            Ok(notify) => Some(notify),
            Err(error) => {
                tracing::warn!(%error, ?address, "NOTIFY_SOCKET is of no use, nothing is told");
                None
            }
        };
        let variable = |name| env::var(name).ok();
        let patience = patience(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        Supervisor { notify, patience }
    }

    /// The master serves.
    pub(super) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// The master leaves.
    pub(super) fn leaving(&self) {
        self.tell("STOPPING=1\nSTATUS=leaving");
    }

    /// How far a start is, in one line for people.
    pub(super) fn status(&self, text: &str) {
        // A line of its own would be another assignment.
        self.tell(&format!("STATUS={}", text.replace('\n', " ")));
    }

    /// Gives signs of life for as long as every actor answers; ends at once if nobody waits for them.
    pub(super) async fn prove_life(self: Arc<Supervisor>, context: Arc<Context>) {
        let Some(patience) = self.patience.filter(|_| self.notify.is_some()) else { return };
        // Half of it, so that one that is late is no reason yet.
        let every = patience / 2;
        let mut ticks = interval(every);
        loop {
            ticks.tick().await;
            works(&context, every).await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, text: &str) {
        let Some((socket, address)) = &self.notify else { return };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
            tracing::debug!(%error, text, "the supervisor does not hear");
        }
    }
}

/// A socket that never blocks, and where it sends to: a path, or a name behind an `@`.
fn open(address: &OsStr) -> std::io::Result<(UnixDatagram, SocketAddr)> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// The time that is given in microseconds, if it is meant for this process.
fn patience(microseconds: Option<String>, process: Option<String>) -> Option<Duration> {
    let is_other = process.is_some_and(|process| process != std::process::id().to_string());
    let microseconds: u64 = microseconds?.parse().ok()?;
    (microseconds > 0 && !is_other).then(|| Duration::from_micros(microseconds))
}

/// Waits until every actor has answered. A full mailbox is no answer, but under load there is soon room
/// in it for the next question. A drain has deadlines of its own, and actors at rest need not answer.
async fn works(context: &Context, every: Duration) {
    while !context.stage.is_draining() {
        if let Ok(Ok(_)) = timeout(every, context.core.totals()).await {
            return;
        }
        sleep(ASKED_AGAIN).await;
    }
}

/// Hundreds of times within the patience that units have.
const ASKED_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn patience_of(microseconds: &str, process: Option<u32>) -> Option<Duration> {
        patience(Some(microseconds.to_owned()), process.map(|process| process.to_string()))
    }

    #[test]
    fn only_its_own_watchdog_is_fed() {
        let two = Some(Duration::from_secs(2));
        assert_eq!(patience_of("2000000", None), two);
        assert_eq!(patience_of("2000000", Some(std::process::id())), two);
        assert_eq!(patience_of("2000000", Some(1)), None);
        assert_eq!(patience_of("0", None), None);
        assert_eq!(patience_of("soon", None), None);
        assert_eq!(patience(None, None), None);
    }

    #[test]
    fn names_and_paths_are_both_addresses() {
        let (_, address) = open(OsStr::new("@a name")).unwrap();
        assert_eq!(address.as_abstract_name(), Some(&b"a name"[..]));
        let (_, address) = open(OsStr::new("/run/notify")).unwrap();
        assert_eq!(address.as_pathname(), Some(std::path::Path::new("/run/notify")));
        assert!(open(OsStr::new(&"/".repeat(200))).is_err());
    }

    #[test]
    fn one_that_is_gone_is_no_fault() {
        let notify = open(OsStr::new("/nowhere/notify")).ok();
        Supervisor { notify, patience: None }.ready();
        Supervisor::default().leaving();
    }
}
