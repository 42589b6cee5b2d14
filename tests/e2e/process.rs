//! The master as a process: ports, admin pages, signals.

use std::io::{Read, Write};
use std::sync::Arc;

use mooring_proto::frame::encode_request;
use mooring_proto::message::inspect::StatsRequest;
use mooring_proto::message::segment::{MountRequest, Segment, UnmountRequest};
use mooring_proto::message::session::PingRequest;
use mooring_proto::{ErrorCode, SegmentId, close};

use crate::exposition;
use crate::harness::{Master, mooring, page_at, run};
use crate::peer::{Answer, Dial, Peer, in_time, tiny_windows};

#[test]
fn a_second_master_on_the_same_port_ends_with_its_name() {
    let master = Master::start(&[]);
    let port = master.rpc().port().to_string();
    let second = run(&["master", "--dev", "--metrics-port", "0", "--rpc-port", &port]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(error.contains(&format!("port {port}")) && error.contains("in use"), "{error}");
    assert!(error.contains("give another one with --rpc-port"), "{error}");
}

#[test]
fn without_a_certificate_a_master_says_what_to_do() {
    let output = run(&["master", "--rpc-port", "0"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--tls-cert") && error.contains("--dev"), "{error}");
}

#[test]
fn the_ready_file_says_where_the_master_is() {
    let master = Master::start(&[]);
    let ready = master.process.ready();
    let keys: Vec<_> = ready.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["cert_sha256", "metadata", "metrics", "mooncake", "pid", "rpc"]);
    assert!(ready["mooncake"].is_null());
    assert_eq!(ready["cert_sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_start_that_fails_leaves_the_ready_file_of_the_master_that_serves() {
    let master = Master::start(&[]);
    let (port, path) = (master.rpc().port().to_string(), master.process.ready_path());
    let before = master.process.ready();
    let flags = ["master", "--dev", "--metrics-port", "0", "--rpc-port", &port, "--ready-file"];
    let second = run(&[&flags[..], &[path.to_str().unwrap()]].concat());
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(master.process.ready(), before);
}

#[test]
fn a_ready_file_that_cannot_be_written_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (missing, link) = (directory.path().join("none/x"), directory.path().join("link"));
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for path in [missing.as_path(), &link, directory.path()] {
        let path = path.to_str().unwrap();
        let flags = ["master", "--dev", "--metrics-port", "0", "--rpc-port", "0", "--ready-file"];
        let output = run(&[&flags[..], &[path]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("--ready-file") && error.contains(path), "{error}");
    }
    assert!(link.is_symlink());
}

#[test]
fn a_development_master_takes_its_fingerprint_away() {
    let mut master = Master::start(&[]);
    let rpc = master.rpc().to_string();
    let flags = ["stats", "--dev", "--timeout", "3s", "--master", &rpc];
    assert_eq!(run(&flags).status.code(), Some(0));
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let error = String::from_utf8(run(&flags).stderr).unwrap();
    assert!(error.contains("no master with --dev"), "{error}");
}

#[test]
fn connections_to_the_admin_pages_that_ask_nothing_are_closed() {
    let master = Master::start(&[]);
    let mut opened =
        ["", "GET /health HT", "GET /health HTTP/1.1\r\nHost: m\r\n\r\n"].map(|start| {
            let mut stream = master.admin_connection();
            stream.write_all(start.as_bytes()).unwrap();
            stream
        });
    for stream in &mut opened {
        // To the end of the connection, or a failed test if it stays open.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    assert_eq!(master.page("/health").0, 200);
}

#[test]
fn connections_that_ask_nothing_do_not_keep_a_probe_out() {
    let master = Master::start(&[]);
    let begun = std::time::Instant::now();
    let idle: Vec<_> = ["", "GET /health HT", "GET /health HTTP/1.1\r\nHost: m\r\n\r\n"]
        .iter()
        .cycle()
        .take(600)
        .map(|start| {
            let mut stream = master.admin_connection();
            // It may have lost its place already.
            let _ = stream.write_all(start.as_bytes());
            stream
        })
        .collect();
    for page in ["/health", "/ready", "/metrics"] {
        assert_eq!(master.page(page).0, 200);
    }
    // Those that ask nothing are closed after ten.
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(idle);
}

#[test]
fn the_admin_pages_tell_how_the_master_is() {
    let master = Master::start(&["--shards", "3"]);
    let (status, body) = master.page("/health");
    assert_eq!((status, body.contains("\"state\":\"serving\"")), (200, true), "{body}");
    let (status, body) = master.page("/ready");
    assert_eq!((status, body.as_str()), (200, "{\"ready\":true}"));
    let (status, body) = master.page("/version");
    assert!(status == 200 && body.contains(env!("CARGO_PKG_VERSION")), "{body}");
    assert_eq!(master.page("/nothing").0, 404);
    let metrics = [
        "master_key_count",
        "master_active_clients",
        "master_allocated_bytes",
        "master_total_capacity_bytes",
        "master_put_start_requests_total",
        "master_evicted_key_count",
        "mooring_uptime_seconds",
    ];
    for name in metrics {
        assert!(master.metric(name) >= 0.0, "{name}");
    }
}

#[test]
fn the_metrics_page_keeps_the_rules_of_its_form() {
    let master = Master::start(&["--shards", "2"]);
    let (_, page) = master.page("/metrics");
    assert!(exposition::read(&page).len() > 50);
    assert!(page.contains("mooring_shard_objects{shard=\"1\"} 0"));
}

/// R51: what is gone leaves no line behind.
#[tokio::test]
async fn the_metrics_of_a_segment_go_with_it() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let mut segments = Vec::new();
    for number in 1..=100_u64 {
        let segment = Segment {
            segment: SegmentId(number.into()),
            base: number << 30,
            size_bytes: 1 << 20,
            endpoint: format!("host-{number}:1"),
            certificate_sha256: None,
            transfer_engine: None,
        };
        segments.push(segment.segment);
        peer.ask(&MountRequest { segment, mounted_with: None }).await.unwrap();
    }
    let shown = || {
        let families = exposition::read(&master.page("/metrics").1);
        let of = |name: &str| families.iter().find(|family| family.name == name).unwrap();
        let sizes = of("mooring_segment_size_bytes");
        let endpoints: Vec<_> =
            sizes.samples.iter().map(|it| it.labels["endpoint"].clone()).collect();
        (endpoints, of("master_total_capacity_bytes").samples[0].value)
    };
    assert_eq!((shown().0.len(), shown().1), (100, 100.0 * f64::from(1 << 20)));
    for segment in segments.drain(..99) {
        peer.ask(&UnmountRequest { segment, grace_ms: 0 }).await.unwrap();
    }
    assert_eq!(shown(), (vec!["host-100:1".to_owned()], f64::from(1 << 20)));
}

#[tokio::test]
async fn a_master_that_is_told_to_leave_tells_its_peers() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut master = Master::start(&[]);
        let peers = [Peer::greeted(&master).await, Peer::greeted(&master).await];
        for peer in &peers {
            peer.ask(&PingRequest::default()).await.unwrap();
        }
        master.process.signal(signal);
        for peer in &peers {
            let (code, reason) = peer.closed().await;
            assert_eq!(code, u64::from(close::RESTARTING));
            assert!(reason.contains("restarting"), "{reason}");
        }
        assert_eq!(master.process.ended().code(), Some(0));
        assert!(!master.process.ready_path().exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_while_the_master_leaves_is_answered_or_closed() {
    let mut master = Master::start(&[]);
    let peer = Arc::new(Peer::greeted(&master).await);
    let frame = encode_request(&PingRequest::default(), 0, None).unwrap();
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (peer, frame) = (peer.clone(), frame.clone());
            tokio::spawn(async move {
                let mut granted = 0_u64;
                loop {
                    match peer.send(&frame).await {
                        Answer::Reply { status: 0, .. } => granted += 1,
                        Answer::Closed => return granted,
                        refused => assert_eq!(refused.error().code, ErrorCode::Restarting),
                    }
                }
            })
        })
        .collect();
    master
        .process
        .wait_until("requests are answered", || peer.connection.stats().frame_rx.stream > 1000);
    master.process.signal(libc::SIGTERM);
    for asking in asking {
        assert!(in_time(asking).await.unwrap() > 0);
    }
    assert_eq!(peer.closed().await.0, u64::from(close::RESTARTING));
    assert_eq!(master.process.ended().code(), Some(0));
}

/// A peer that holds a request in flight: it does not read the answer. The wait blocks its thread,
/// so that the runtime needs another one for the connection.
pub(crate) async fn holding_up(master: &Master) -> (Peer, quinn::RecvStream) {
    let dial = Dial { transport: tiny_windows(), ..Dial::default() };
    let peer = Peer::dial(master.rpc(), dial).await.unwrap();
    peer.say_hello().await;
    let frame = encode_request(&StatsRequest {}, 0, None).unwrap();
    let (mut send, receive) = peer.send_unfinished(&frame).await;
    send.finish().unwrap();
    master.wait_for_metric("mooring_requests_in_flight", 1.0);
    (peer, receive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_cannot_hold_up_a_master_that_leaves() {
    let mut master = Master::start(&[]);
    let (peer, _unread) = holding_up(&master).await;
    master.process.signal(libc::SIGTERM);
    assert_eq!(peer.closed().await.0, u64::from(close::RESTARTING));
    assert_eq!(master.process.ended().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_master_at_once() {
    let mut master = Master::start(&[]);
    let _holding = holding_up(&master).await;
    assert_eq!(master.page("/ready").0, 200);
    let log = master.process.log_path();
    let tells = |text: &str| std::fs::read_to_string(&log).unwrap().contains(text);
    master.process.signal(libc::SIGTERM);
    // What comes with the first is the first: who tells a process and its group tells it twice.
    master.process.signal(libc::SIGTERM);
    master.process.wait_until("it serves no more", || tells("\"serving_stopped\""));
    let (status, reason) = master.page("/ready");
    assert!(status == 503 && reason.contains("leaving"), "{status} {reason}");
    assert!(master.page("/health").1.contains("draining"));
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(1));
}

#[test]
fn a_broken_certificate_is_refused_before_a_port_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.pem");
    std::fs::write(&path, "not a certificate").unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["master", "--rpc-port", "0", "--tls-cert", path, "--tls-key", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("broken.pem"));
}

#[test]
fn the_version_is_that_of_the_release() {
    let output = run(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    let expected = concat!("mooring ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_log_that_nobody_takes_any_more_does_not_end_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready.json");
    let flags =
        ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0", "--log-level", "debug"];
    let mut master = mooring(&flags)
        .args(["--ready-file", ready.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !ready.exists() {
        assert!(std::time::Instant::now() < until, "it does not serve");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&ready).unwrap()).unwrap();
    let metrics = told["metrics"].as_str().unwrap().parse().unwrap();
    drop(master.stderr.take());
    // It says so when it reloads, and each page is a connection to say something about.
    let pid = libc::pid_t::try_from(master.id()).unwrap();
    // SAFETY: `kill` touches no memory; the child was not waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGHUP) }, 0);
    for _ in 0..3 {
        assert_eq!(page_at(metrics, "/ready").0, 200);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(master.wait().unwrap().success());
}
