//! One place where masters follow each other: a handoff directory, a port, certificates, stores.

use std::cell::Cell;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use mooring_proto::SegmentId;
use mooring_proto::client::{Client, ClientConfig, ClientTls};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Master, Process, free_port, run};
use crate::store::{Authority, Files};

/// A place. Its stores end before its directory is removed.
pub(super) struct Place {
    stores: Vec<Process>,
    files: Files,
    port: Cell<u16>,
    scratch: TempDir,
}

impl Place {
    pub(super) fn new() -> Place {
        let scratch = tempfile::tempdir().unwrap();
        let files = Authority::new().files(scratch.path());
        Place { stores: Vec::new(), files, port: Cell::new(0), scratch }
    }

    /// The handoff directory.
    pub(super) fn directory(&self) -> PathBuf {
        self.scratch.path().join("handoff")
    }

    /// Starts a master with these flags, at the port of the one before, and waits until it serves.
    pub(super) fn master(&self, flags: &[&str]) -> Master {
        let port = self.port.get().to_string();
        let ports = ["--rpc-port", &port, "--metrics-port", "0"];
        self.serving(&self.flags(&ports, flags))
    }

    /// The same with these variables in its environment.
    pub(super) fn master_with(&self, variables: &[(&str, &str)], flags: &[&str]) -> Master {
        let port = self.port.get().to_string();
        let ports = ["--rpc-port", &port, "--metrics-port", "0"];
        let flags = self.flags(&ports, flags);
        let mut process = Process::starting_with(&as_strs(&flags), variables);
        let ready = process.ready_path();
        process.wait_until("it serves", || ready.exists());
        let master = Master::of(process);
        self.port.set(master.rpc().port());
        master
    }

    /// The same without the handoff directory.
    pub(super) fn master_without_directory(&self, flags: &[&str]) -> Master {
        let port = self.port.get().to_string();
        let ports = ["--rpc-port", &port, "--metrics-port", "0"];
        self.serving(&self.secured(&ports, flags))
    }

    fn serving(&self, flags: &[String]) -> Master {
        let master = Master::of(Process::serving(&as_strs(flags)));
        self.port.set(master.rpc().port());
        master
    }

    /// Starts a master at the port of the one before, and does not wait.
    pub(super) fn starting(&self, flags: &[&str]) -> Process {
        let port = self.port.get().to_string();
        let ports = ["--rpc-port", &port, "--metrics-port", "0"];
        Process::starting(&as_strs(&self.flags(&ports, flags)))
    }

    /// The same with a log that is for the caller to read.
    pub(super) fn starting_with_log(&self, flags: &[&str], log: Stdio) -> Process {
        let port = self.port.get().to_string();
        let ports = ["--rpc-port", &port, "--metrics-port", "0"];
        Process::starting_with_log(&as_strs(&self.flags(&ports, flags)), log)
    }

    /// Starts a master at ports of its own and does not wait; also gives where its pages are.
    pub(super) fn starting_elsewhere(&self, flags: &[&str]) -> (Process, SocketAddr) {
        let port = free_port();
        let ports = ["--rpc-port", "0", "--metrics-port", &port.to_string()];
        let mut process = Process::starting(&as_strs(&self.flags(&ports, flags)));
        let admin = SocketAddr::from(([127, 0, 0, 1], port));
        process.wait_until("its pages are there", || std::net::TcpStream::connect(admin).is_ok());
        (process, admin)
    }

    /// Ends a master as Kubernetes would; it must leave a snapshot and drop nothing.
    pub(super) fn leave(&self, mut master: Master) {
        master.process.signal(libc::SIGTERM);
        assert_eq!(master.process.ended().code(), Some(0));
        let log = master.process.log();
        let left = log.lines().last().unwrap();
        let left: Value = serde_json::from_str(left).unwrap();
        assert_eq!((&left["message"], &left["shards_dropped"]), (&"left".into(), &0.into()));
        assert_eq!(steps(&log), DRAIN, "{log}");
        assert!(!log.contains("client_expired"), "{log}");
    }

    /// Starts a store that stays.
    pub(super) fn add_store(&mut self) {
        self.add_store_at(0);
    }

    /// Starts a store that stays, on this port.
    pub(super) fn add_store_at(&mut self, port: u16) {
        self.add_store_with(&["--data-port", &port.to_string()]);
    }

    /// Starts a store that stays, with these flags, which include its port.
    pub(super) fn add_store_with(&mut self, more: &[&str]) {
        let (master, [certificate, key]) = (self.address(), &self.files.member);
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let flags = ["store", "--address", "127.0.0.1", "--memory", "32MiB", "--master", &master];
        let tls = ["--tls-ca", self.files.roots(), "--tls-cert", certificate, "--tls-key", key];
        let store = Process::serving(&[&flags[..], &tls, more].concat());
        self.stores.push(store);
    }

    /// Where the first store serves.
    pub(super) fn store_port(&self) -> u16 {
        let ready = self.stores[0].ready();
        let address: SocketAddr = ready["data"][0].as_str().unwrap().parse().unwrap();
        address.port()
    }

    /// Sends all stores a signal.
    pub(super) fn signal_stores(&self, signal: i32) {
        self.stores.iter().for_each(|store| store.signal(signal));
    }

    /// Ends all stores at once.
    pub(super) fn end_stores(&mut self) {
        self.signal_stores(libc::SIGKILL);
        self.stores.clear();
    }

    /// A client that stays.
    pub(super) async fn client(&self) -> Client {
        let [certificate, key] = &self.files.member;
        let tls = ClientTls::ca(self.files.roots()).with_identity(certificate, key);
        Client::connect(ClientConfig::new(self.address(), tls)).await.unwrap()
    }

    /// The segments of the store that was added last.
    pub(super) fn store_segments(&self) -> Vec<SegmentId> {
        let ready = self.stores.last().unwrap().ready();
        let segments = ready["segments"].as_array().unwrap().iter();
        let number = |segment: &Value| u128::from_str_radix(segment.as_str().unwrap(), 16).unwrap();
        segments.map(|segment| SegmentId(number(segment))).collect()
    }

    /// Where clients reach the master, and the files of their certificate and its key.
    pub(super) fn reach(&self) -> [String; 3] {
        let [certificate, key] = self.files.member.each_ref().map(|path| path.to_str().unwrap());
        [self.address(), certificate.to_owned(), key.to_owned()]
    }

    /// The file of the roots that all certificates lead to.
    pub(super) fn roots(&self) -> &str {
        self.files.roots()
    }

    /// Runs a client command that must fail with 1; gives what it says.
    pub(super) fn refused(&self, command: &[&str]) -> String {
        let output = self.run(command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// What a client command says as JSON.
    pub(super) fn json(&self, command: &[&str]) -> Value {
        let output = self.run(&[command, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn run(&self, command: &[&str]) -> Output {
        let [address, certificate, key] = self.reach();
        let tls = ["--tls-ca", self.roots(), "--tls-cert", &certificate, "--tls-key", &key];
        run(&[command, &["--master", &address], &tls].concat())
    }

    /// What `mooring handoff inspect` says.
    pub(super) fn inspect(&self) -> Value {
        let directory = self.directory();
        let output = run(&["handoff", "inspect", directory.to_str().unwrap(), "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs `mooring handoff clear`.
    pub(super) fn clear(&self) {
        let output = run(&["handoff", "clear", self.directory().to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Flips a bit in a file of the snapshot.
    pub(super) fn damage(&self, file: &str) {
        let path = self.directory().join("READY").join(file);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }

    /// Keeps a copy of the whole directory.
    pub(super) fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&self.directory(), copy.path());
        copy
    }

    /// Replaces the whole directory by a copy.
    pub(super) fn put_back(&self, copy: &TempDir) {
        fs::remove_dir_all(self.directory()).unwrap();
        copy_tree(copy.path(), &self.directory());
    }

    fn address(&self) -> String {
        format!("localhost:{}", self.port.get())
    }

    fn flags(&self, ports: &[&str], flags: &[&str]) -> Vec<String> {
        let directory = self.directory();
        let handoff = ["--handoff-dir", directory.to_str().unwrap()];
        self.secured(ports, &[&handoff, flags].concat())
    }

    fn secured(&self, ports: &[&str], flags: &[&str]) -> Vec<String> {
        let [certificate, key] = self.files.member.each_ref().map(|path| path.to_str().unwrap());
        let tls = ["--tls-cert", certificate, "--tls-key", key];
        let ca = ["--tls-client-ca", self.files.roots()];
        let all = [&["master"][..], ports, &tls, &ca, flags].concat();
        all.into_iter().map(str::to_owned).collect()
    }
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What the log says of the drain, in its order.
fn steps(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| Some(line["handoff_shutdown"].as_str()?.to_owned())).collect()
}

fn as_strs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

const DRAIN: [&str; 6] = ["start", "serving_stopped", "quiesced", "exported", "ready", "left"];
