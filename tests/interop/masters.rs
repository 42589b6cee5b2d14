//! Both masters, started with the same flags.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::client::{Client, port};
use crate::harness::{PATIENCE, Process, free_port};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Mooncake's own master.
    Theirs,
    /// The binary under test.
    Ours,
}

/// A master of each kind, that nobody else talks to.
pub(crate) struct Pair {
    theirs: Theirs,
    ours: Process,
}

/// Mooncake's own master. It is killed when it is dropped.
struct Theirs {
    child: Child,
    address: SocketAddr,
}

/// The program of Mooncake's master, if there is one on this machine.
pub(crate) fn program() -> Option<OsString> {
    std::env::var_os("MOORING_MOONCAKE_MASTER").filter(|path| !path.is_empty())
}

impl Pair {
    /// Starts both with these flags of Mooncake's master and waits until they serve.
    pub(crate) fn start(program: &OsString, flags: &[&str]) -> Pair {
        let theirs = Theirs::start(program, flags);
        let own = ["mooncake-master", "--port=0", "--metrics_port=0", "--metrics_host=127.0.0.1"];
        let ours = Process::serving(&[&own, flags].concat());
        Pair { theirs, ours }
    }

    /// A connection to one of them.
    pub(crate) fn connect(&self, side: Side) -> Client {
        Client::to(match side {
            Side::Theirs => self.theirs.address,
            Side::Ours => port(&self.ours),
        })
    }
}

impl Theirs {
    fn start(program: &OsString, flags: &[&str]) -> Theirs {
        let (rpc, metrics) = (free_port(), free_port());
        let child = Command::new(program)
            .args([format!("--rpc_port={rpc}"), format!("--metrics_port={metrics}")])
            .args(["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], rpc));
        let mut theirs = Theirs { child, address };
        theirs.wait_until_it_serves();
        theirs
    }

    fn wait_until_it_serves(&mut self) {
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "Mooncake's master ended with {ended:?}");
            assert!(Instant::now() < until, "Mooncake's master does not serve");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
