//! More connections and requests than there is room for: probes are answered all the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{MOORING, Master, PATIENCE, Process, page_at};

/// A command that may have only so many files open.
fn with_files(open_max: u32, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    let start = format!("ulimit -n {open_max}; exec \"$0\" \"$@\"");
    shell.args(["-c", &start, MOORING]).args(arguments);
    shell
}

/// A master that may have only so many files open.
fn limited(open_max: u32, flags: &[&str]) -> Process {
    let to_any_port = ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"];
    let shell = with_files(open_max, &[&to_any_port[..], flags].concat());
    let mut process = Process::spawn(shell);
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    process
}

#[test]
fn where_too_few_files_may_be_open_the_limit_is_named_and_nothing_panics() {
    let master = ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"];
    let client = ["stats", "--dev", "--pin-sha256", &"0".repeat(64), "--master", "127.0.0.1:1"];
    let client = [&client[..], &["--timeout", "1s"]].concat();
    for open_max in 6..27 {
        let output = with_files(open_max, &master).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{open_max}: {error}");
        let named = format!("the limit is {open_max} (`ulimit -n`), 24 more are needed");
        assert!(error.contains(&named), "{open_max}: {error}");
        assert_eq!(error.lines().count(), 1, "{open_max}: {error}");
    }
    // There is no master, so that a client fails in any case, and never by a panic.
    for open_max in 6..20 {
        let output = with_files(open_max, &client).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{open_max}: {error}");
        let is_limit = error.contains(&format!("the limit is {open_max} (`ulimit -n`)"));
        assert!(is_limit || open_max >= 13, "{open_max}: {error}");
        assert!(!error.contains("panicked"), "{open_max}: {error}");
    }
}

#[test]
fn idle_clients_of_mooncake_do_not_take_the_descriptors_of_probes() {
    let process = limited(256, &["--mooncake-port", "0"]);
    let mooncake: SocketAddr = process.ready()["mooncake"].as_str().unwrap().parse().unwrap();
    let master = Master::of(process);
    let max = master.metric("mooring_mooncake_connections_max");
    assert!((32.0..224.0).contains(&max), "{max}");
    let clients: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(mooncake).unwrap()).collect();
    master.wait_for_metric_above("mooring_mooncake_connections_refused_total", 0.0);
    master.wait_for_metric("mooring_mooncake_connections", max);
    for _ in 0..3 {
        let asked = Instant::now();
        assert_eq!(master.page("/ready"), (200, "{\"ready\":true}".to_owned()));
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
    // Whoever comes too late hears so at once.
    let mut late = TcpStream::connect(mooncake).unwrap();
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(late.read(&mut [0]), Ok(0) | Err(_)));
    let log = master.process.log();
    let told = log.lines().filter(|line| line.contains("refused a connection")).count();
    assert!((1..60).contains(&told), "{told} lines");
    // A place that somebody leaves is another's.
    drop(clients);
    master.wait_for_metric("mooring_mooncake_connections", 0.0);
}

#[test]
fn idle_connections_keep_no_probe_waiting_however_few_files_may_be_open() {
    for open_max in [32, 48, 128] {
        let process = limited(open_max, &["--mooncake-port", "0"]);
        let metrics: SocketAddr = process.ready()["metrics"].as_str().unwrap().parse().unwrap();
        // Of some rounds, since the machine may be busy otherwise, too.
        let round = || {
            let idle: Vec<TcpStream> =
                (0..700).map(|_| TcpStream::connect(metrics).unwrap()).collect();
            let asked = Instant::now();
            assert_eq!(page_at(metrics, "/ready"), (200, "{\"ready\":true}".to_owned()));
            let took = asked.elapsed();
            drop(idle);
            took
        };
        let fastest = (0..4).map(|_| round()).min().unwrap();
        assert!(fastest < Duration::from_millis(900), "{open_max} files: {fastest:?}");
    }
}

#[test]
fn whoever_asks_for_thousands_of_pages_and_reads_none_keeps_no_probe_waiting() {
    let master = Master::start(&[]);
    let requests = "GET /metrics HTTP/1.1\r\nHost: m\r\n\r\n".repeat(30);
    let unread: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = master.admin_connection();
            // It may have lost its place already.
            let _ = stream.write_all(requests.as_bytes());
            stream
        })
        .collect();
    // Fastest of some: the machine may be busy otherwise, too.
    let waited = (0..5).map(|_| {
        let asked = Instant::now();
        assert_eq!(page_at(master.metrics(), "/ready").0, 200);
        asked.elapsed()
    });
    let fastest = waited.min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    drop(unread);
}
