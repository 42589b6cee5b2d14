//! The master under systemd, which this test plays: it gives a socket and listens.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Instant;

use crate::harness::{PATIENCE, Process};

const MASTER: [&str; 6] = ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"];

/// What waits for notifications.
struct Systemd {
    socket: UnixDatagram,
    address: String,
}

impl Systemd {
    /// At a name that no file has.
    fn new(name: &str) -> Systemd {
        let name = format!("mooring-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Systemd { socket, address: format!("@{name}") }
    }

    /// Starts a master below it, with a watchdog.
    fn start(&self, flags: &[&str]) -> Process {
        let variables = [("NOTIFY_SOCKET", self.address.as_str()), ("WATCHDOG_USEC", "200000")];
        Process::starting_with(&[&MASTER[..], flags].concat(), &variables)
    }

    /// The next notification.
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Waits for a notification with this line; gives all that came before it.
    fn heard(&self, line: &str) -> Vec<String> {
        let (until, mut before) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let next = self.next();
            if next.lines().any(|it| it == line) {
                return before;
            }
            before.push(next);
            assert!(Instant::now() < until, "{line} was not said: {before:?}");
        }
    }
}

#[test]
fn systemd_hears_when_it_serves_that_it_lives_and_when_it_leaves() {
    let systemd = Systemd::new("life");
    let mut master = systemd.start(&[]);
    let before = systemd.heard("READY=1");
    assert!(before.iter().all(|it| it.starts_with("STATUS=")), "{before:?}");
    assert!(master.ready_path().exists(), "it is ready before it says so");
    for _ in 0..3 {
        assert!(systemd.heard("WATCHDOG=1").is_empty());
    }
    master.signal(libc::SIGTERM);
    let before = systemd.heard("STOPPING=1");
    assert!(before.iter().all(|it| it == "WATCHDOG=1"), "{before:?}");
    assert_eq!(master.ended().code(), Some(0));
}

#[test]
fn a_start_that_waits_says_for_what() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--handoff-dir", directory.path().to_str().unwrap()];
    let mut first = Process::serving(&[&MASTER[..], &flags].concat());
    let systemd = Systemd::new("waiting");
    let _second = systemd.start(&flags);
    let before = systemd.heard("STATUS=the master waits for the handoff directory");
    assert!(before.iter().all(|it| it.starts_with("STATUS=")), "{before:?}");
    first.signal(libc::SIGTERM);
    assert_eq!(first.ended().code(), Some(0));
    systemd.heard("READY=1");
}

#[test]
fn a_supervisor_that_does_not_listen_is_no_reason_not_to_serve() {
    let variables = [("NOTIFY_SOCKET", "/nowhere/notify"), ("WATCHDOG_USEC", "200000")];
    let mut master = Process::starting_with(&MASTER, &variables);
    let ready = master.ready_path();
    master.wait_until("it serves", || ready.exists());
}
