//! Stores: how they come, serve and go.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::harness::{PATIENCE, Process, mooring, run};
use crate::pool::{Pool, patterned, rpc};

#[test]
fn a_store_that_is_told_to_leave_unmounts_first() {
    let mut pool = Pool::start(&[], 2);
    pool.stores[0].signal(libc::SIGTERM);
    assert_eq!(pool.stores[0].ended().code(), Some(0));
    assert_eq!(pool.json(&["stats"])["segments"], 1);
    assert!(!pool.stores[0].log().contains("WARN"), "{}", pool.stores[0].log());
}

#[test]
fn a_store_with_a_grace_serves_until_it_has_passed() {
    let mut pool = Pool::start(&[], 0);
    pool.add_store(&["--memory", "32MiB", "--grace", "1h"]);
    pool.put("key", b"value");
    pool.stores[0].signal(libc::SIGTERM);
    let log = |pool: &Pool| pool.stores[0].log();
    wait_until(|| pool.json(&["ls", "segments"])[0]["state"] == "draining", || log(&pool));
    assert_eq!(pool.done(&["get", "key"]), b"value");
    let refused = pool.command_with_input(&["put", "other", "-"], b"value");
    assert_eq!(refused.status.code(), Some(1));
    // A second signal ends the grace.
    pool.stores[0].signal(libc::SIGTERM);
    assert_eq!(pool.stores[0].ended().code(), Some(0));
    assert_eq!(pool.json(&["stats"])["segments"], 0);
}

#[test]
fn the_objects_of_a_killed_store_vanish_and_nobody_hangs() {
    const TTL: Duration = Duration::from_secs(2);
    let mut pool = Pool::start(&["--client-ttl", "2s"], 1);
    let value = patterned(5 << 20);
    pool.put("key", &value);
    assert!(pool.done(&["get", "key"]) == value);
    pool.stores[0].signal(libc::SIGKILL);
    let killed = Instant::now();
    // Before the master knows, the object is there and cannot be read.
    let attempt = pool.refused(&["get", "key", "--timeout", "1s"]);
    assert!(attempt.contains("key"), "{attempt}");
    wait_until(|| !pool.command(&["exists", "key"]).status.success(), || pool.master.log());
    let slack = Duration::from_secs(3);
    assert!(killed.elapsed() < 2 * TTL + slack, "after {:?}", killed.elapsed());
    assert!(pool.refused(&["get", "key"]).contains("not found"));
    assert_eq!(pool.json(&["stats"])["segments"], 0);
    pool.add_store(&["--memory", "32MiB"]);
    pool.put("key", b"again");
    assert_eq!(pool.done(&["get", "key"]), b"again");
}

#[test]
fn a_put_into_a_store_that_dies_ends() {
    let mut pool = Pool::start(&["--client-ttl", "2s"], 0);
    pool.add_store(&["--memory", "640MiB"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large");
    fs::write(&file, patterned(512 << 20)).unwrap();
    let flags = pool.client_flags().to_vec();
    let put = ["put", "large", file.to_str().unwrap(), "--timeout", "3s"];
    let flags: Vec<&str> = put.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let mut child = mooring(&flags).spawn().unwrap();
    wait_until(|| pool.json(&["stats"])["objects"] == 1, || pool.master.log());
    pool.stores[0].signal(libc::SIGKILL);
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the put hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!pool.command(&["exists", "large"]).status.success());
}

#[test]
fn garbage_on_the_data_port_disturbs_nobody() {
    let pool = Pool::start(&[], 1);
    let address = pool.stores[0].ready()["data"][0].as_str().unwrap().to_owned();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in (1..1400).step_by(7) {
        socket.send_to(&patterned(length), &address).unwrap();
    }
    pool.put("key", b"value");
    assert_eq!(pool.done(&["get", "key"]), b"value");
}

#[test]
fn memory_that_makes_no_segments_is_refused_by_name() {
    let flags = ["--memory", "4KiB", "--segments", "2", "--pin-sha256", &"00".repeat(32)];
    let output = run(&[&["store"][..], &flags].concat());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--memory"), "{error}");
}

#[test]
fn with_mutual_tls_members_are_served_and_strangers_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = Authority::new().files(directory.path());
    let mut pool = secured(&files, "0");
    let [certificate, key] = files.member.each_ref().map(|path| path.to_str().unwrap());
    let data = ["--data-tls-cert", certificate, "--data-tls-key", key];
    let data = [&data[..], &["--data-tls-client-ca", files.roots()]].concat();
    pool.add_store(&[&["--memory", "32MiB"][..], &data].concat());
    pool.add_store(&["--memory", "32MiB"]);
    let value = patterned(9 << 20);
    let output = pool.command_with_input(&["put", "key", "-", "--replicas", "2"], &value);
    assert!(output.status.success(), "{output:?}");
    assert!(pool.done(&["get", "key"]) == value);

    let master = format!("localhost:{}", pool.rpc().port());
    let stranger = ["stats", "--master", &master, "--tls-ca", files.roots(), "--timeout", "2s"];
    let output = run(&stranger);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_store_mounts_again_with_the_next_master() {
    let directory = tempfile::tempdir().unwrap();
    let files = Authority::new().files(directory.path());
    let mut pool = secured(&files, "0");
    pool.add_store(&["--memory", "32MiB"]);
    pool.put("key", b"value");
    let port = pool.rpc().port().to_string();
    pool.master.signal(libc::SIGKILL);
    pool.master.ended();
    let stores = std::mem::take(&mut pool.stores);
    drop(pool);
    let mut pool = secured(&files, &port);
    pool.stores = stores;
    wait_until(|| pool.json(&["stats"])["segments"] == 1, || pool.stores[0].log());
    // The next master knows none of the objects of the one before.
    assert!(pool.refused(&["get", "key"]).contains("not found"));
    wait_until(
        || pool.command_with_input(&["put", "key", "-"], b"again").status.success(),
        || pool.master.log(),
    );
    assert_eq!(pool.done(&["get", "key"]), b"again");
}

/// A master with mutual TLS whose clients are members.
fn secured(files: &Files, port: &str) -> Pool {
    let [certificate, key] = files.member.each_ref().map(|path| path.to_str().unwrap());
    let ports = ["master", "--rpc-port", port, "--metrics-port", "0"];
    let short = ["--default-kv-lease-ttl", "500ms"];
    let tls = ["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", files.roots()];
    let master = Process::serving(&[&ports[..], &short, &tls].concat());
    let address = format!("localhost:{}", rpc(&master).port());
    let identity = ["--tls-ca", files.roots(), "--tls-cert", certificate, "--tls-key", key];
    Pool::of(master, &[&["--master", &address][..], &identity].concat())
}

/// Signs the certificates of a cluster.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What the members of a cluster share in this test: one certificate for all.
pub(crate) struct Files {
    roots: PathBuf,
    /// Certificate and key.
    pub(crate) member: [PathBuf; 2],
}

impl Files {
    pub(crate) fn roots(&self) -> &str {
        self.roots.to_str().unwrap()
    }
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    pub(crate) fn files(&self, directory: &Path) -> Files {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate =
            CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let file = |name: &str, content: String| {
            let path = directory.join(name);
            fs::write(&path, content).unwrap();
            path
        };
        Files {
            roots: file("roots.pem", self.issuer.pem()),
            member: [
                file("member.pem", certificate.pem()),
                file("member.key", key.serialize_pem()),
            ],
        }
    }
}

fn wait_until(mut holds: impl FnMut() -> bool, log: impl Fn() -> String) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "the log:\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
