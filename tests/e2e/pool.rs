//! A master with stores, and client commands that reach it.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::harness::{Process, mooring};

/// A running system. Stores end before the master.
pub(crate) struct Pool {
    pub(crate) stores: Vec<Process>,
    pub(crate) master: Process,
    flags: Vec<String>,
}

impl Pool {
    /// A master for development with these flags, and so many stores of 96 MiB.
    pub(crate) fn start(flags: &[&str], stores: usize) -> Pool {
        let ports = ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"];
        let master = Process::serving(&[&ports[..], flags].concat());
        let address = rpc(&master).to_string();
        let sha256 = master.ready()["cert_sha256"].as_str().unwrap().to_owned();
        let mut pool = Pool::of(master, &["--master", &address, "--dev", "--pin-sha256", &sha256]);
        (0..stores).for_each(|_| pool.add_store(&["--memory", "96MiB"]));
        pool
    }

    /// A master that is there already, and how clients reach it.
    pub(crate) fn of(master: Process, flags: &[&str]) -> Pool {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Pool { stores: Vec::new(), master, flags }
    }

    /// Where clients reach the master.
    pub(crate) fn rpc(&self) -> SocketAddr {
        rpc(&self.master)
    }

    /// The flags with which they do.
    pub(crate) fn client_flags(&self) -> &[String] {
        &self.flags
    }

    /// Starts another store, and waits until it is mounted.
    pub(crate) fn add_store(&mut self, flags: &[&str]) {
        let all = self.with_flags(&["store", "--address", "127.0.0.1"], flags);
        self.stores.push(Process::serving(&all));
    }

    /// Runs a client command to its end.
    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        self.command_with_input(arguments, b"")
    }

    /// The same with this standard input.
    pub(crate) fn command_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = mooring(&self.with_flags(arguments, &[]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a client command that must succeed; gives its standard output.
    pub(crate) fn done(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// The same, read as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a client command that must fail with 1; gives what it says.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Puts an object with these bytes.
    pub(crate) fn put(&self, key: &str, value: &[u8]) {
        let output = self.command_with_input(&["put", key, "-"], value);
        assert!(output.status.success(), "{output:?}");
    }

    fn with_flags<'a>(&'a self, arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        let flags = self.flags.iter().map(String::as_str);
        arguments.iter().copied().chain(flags).chain(more.iter().copied()).collect()
    }
}

/// Where a master says that it is.
pub(crate) fn rpc(master: &Process) -> SocketAddr {
    master.ready()["rpc"][0].as_str().unwrap().parse().unwrap()
}

/// Bytes that repeat late and follow from nothing else.
pub(crate) fn patterned(length: usize) -> Vec<u8> {
    let mut word = 0x1234_5678_9abc_def0_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
