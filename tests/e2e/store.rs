//! Stores: how they come, serve and go.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mooring_proto::client::{Client, ClientConfig, ClientTls};
use mooring_proto::message::segment::Segment;
use mooring_proto::message::session::ALPN_STORE;
use mooring_proto::{SegmentId, close};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::harness::{PATIENCE, Process, free_port, mooring, run};
use crate::peer::{Dial, Peer, in_time};
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

#[tokio::test]
async fn a_request_that_trickles_in_is_given_ten_seconds() {
    let pool = Pool::start(&[], 1);
    let address = pool.stores[0].ready()["data"][0].as_str().unwrap().parse().unwrap();
    let dial = Dial { alpn: ALPN_STORE.to_vec(), ..Dial::default() };
    let peer = Peer::dial(address, dial).await.unwrap();
    let started = Instant::now();
    let (mut send, mut receive) = peer.send_unfinished(b"M").await;
    let trickle = async {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            tick.tick().await;
            if send.write_all(&[0]).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let ended = tokio::select! {
        ended = in_time(receive.read_to_end(1 << 10)) => ended,
        () = trickle => unreachable!(),
    };
    let reset = quinn::ReadError::Reset(close::TIMEOUT.into());
    assert_eq!(ended.unwrap_err(), quinn::ReadToEndError::Read(reset));
    let taken = started.elapsed();
    assert!(taken > Duration::from_secs(9) && taken < Duration::from_secs(20), "{taken:?}");
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
fn more_memory_than_there_is_is_refused_with_a_way_out() {
    let pool = Pool::start(&[], 0);
    let address = pool.rpc().to_string();
    let sha256 = pool.master.ready()["cert_sha256"].as_str().unwrap().to_owned();
    // More than the addresses of a process.
    let flags = ["store", "--memory", "200TiB", "--master", &address, "--pin-sha256", &sha256];
    let output = run(&flags);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--memory 200TiB") && error.contains("give less"), "{error}");
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

#[test]
fn stores_of_a_development_master_find_the_next_one_by_what_it_left() {
    let port = free_port().to_string();
    let master = || {
        let ports = ["--rpc-address", "127.0.0.1", "--rpc-port", &port, "--metrics-port", "0"];
        Process::serving(&[&["master", "--dev"][..], &ports].concat())
    };
    let address = format!("127.0.0.1:{port}");
    let mut pool = Pool::of(master(), &["--master", &address, "--dev"]);
    pool.add_store(&["--memory", "32MiB"]);
    pool.master.signal(libc::SIGKILL);
    pool.master.ended();
    pool.master = master();
    let segments = |pool: &Pool| {
        let output = pool.command(&["stats", "--json"]);
        let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        stats["segments"].as_u64()
    };
    wait_until(|| segments(&pool) == Some(1), || pool.stores[0].log());
    let log = pool.stores[0].log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("lost the master"), 1, "{log}");
    assert!(lines("certificate refused") <= 1, "{log}");
    assert_eq!(lines("connected to the master again"), 1, "{log}");
}

#[tokio::test]
async fn a_store_waits_until_the_mount_of_its_former_process_is_missed() {
    let pool = Pool::start(&["--client-ttl", "2s"], 0);
    let port = free_port().to_string();
    let sha256 = pool.master.ready()["cert_sha256"].as_str().unwrap().to_owned();
    let pin = |digit: usize| u8::from_str_radix(&sha256[2 * digit..2 * digit + 2], 16).unwrap();
    let tls = ClientTls::pinned(std::array::from_fn(pin));
    let former = Client::connect(ClientConfig::new(pool.rpc().to_string(), tls)).await.unwrap();
    // Covers whatever address the kernel gives the next process.
    let segment = Segment {
        segment: SegmentId(1),
        base: 1 << 46,
        size_bytes: 1 << 46,
        endpoint: format!("127.0.0.1:{port}"),
        certificate_sha256: None,
        transfer_engine: None,
    };
    former.mount(segment, None).await.unwrap();
    let flags = pool.client_flags().iter().map(String::as_str);
    let store = ["store", "--address", "127.0.0.1", "--memory", "32MiB", "--data-port", &port];
    let mut next = Process::starting(&store.into_iter().chain(flags).collect::<Vec<_>>());
    let log = next.log_path();
    let says = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    next.wait_until("it waits", || says("waiting until the master misses"));
    // Without a word, as a process that is killed.
    former.close().await;
    let ready = next.ready_path();
    next.wait_until("it serves", || ready.exists());
    assert!(says("\"level\":\"INFO\"") && !says("WARN"), "{}", next.log());
}

#[test]
fn a_store_that_cannot_write_its_ready_file_leaves_no_mount() {
    let pool = Pool::start(&[], 0);
    let refused = pool.refused(&["store", "--memory", "4MiB", "--ready-file", "/nonexistent/x"]);
    assert!(refused.contains("/nonexistent/x") && !refused.contains("serving"), "{refused}");
    assert_eq!(pool.json(&["stats"])["segments"], 0);

    // A directory in the way of the file beside it is found only when all is mounted.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("ready.json.new")).unwrap();
    let path = directory.path().join("ready.json");
    let flags = ["store", "--memory", "4MiB", "--ready-file", path.to_str().unwrap()];
    let refused = pool.refused(&flags);
    assert!(refused.contains("ready.json") && refused.contains("serving"), "{refused}");
    assert_eq!(pool.json(&["stats"])["segments"], 0);
}

#[test]
fn an_address_that_nobody_could_come_to_is_not_advertised() {
    for advertised in ["foo", "foo:0", ":1", "127.0.0.1:99999"] {
        let flags = ["--advertise", advertised, "--pin-sha256", &"00".repeat(32)];
        let output = run(&[&["store"][..], &flags].concat());
        assert_eq!(output.status.code(), Some(2), "{advertised}: {output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("--advertise"), "{error}");
    }
}

#[test]
fn a_store_that_is_gone_and_not_yet_missed_costs_no_put() {
    let pool = Pool::start(&["--client-ttl", "60s"], 2);
    pool.stores[0].signal(libc::SIGKILL);
    let lines: String = (0..6).map(|n| format!("key/{n}\tvalue {n}\n")).collect();
    let output = pool.command_with_input(&["put", "--lines", "-"], lines.as_bytes());
    assert!(output.status.success(), "{output:?}");
    for n in 0..6 {
        let key = format!("single/{n}");
        pool.put(&key, b"value");
        assert_eq!(pool.done(&["get", &key]), b"value");
    }
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
