//! The binary in the place of Mooncake's master: by its name, and with its flags.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{MOORING, PATIENCE, Process, called, free_port, page_at, run};

/// The binary under that program's name, as an image would have it.
fn by_its_name() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("mooncake_master");
    std::os::unix::fs::symlink(MOORING, &program).unwrap();
    (directory, program)
}

fn address(value: &serde_json::Value) -> SocketAddr {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

fn error_of(arguments: &[&str]) -> String {
    let output = run(&[&["mooncake-master"], arguments].concat());
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn under_that_name_it_takes_those_flags_and_opens_those_ports() {
    let (_directory, program) = by_its_name();
    let mut process = Process::serving_as(
        &program,
        &[
            "--port=0",
            "-metrics_port",
            "0",
            "--metrics_host=127.0.0.1",
            "--enable_http_metadata_server",
            "--http_metadata_server_port=0",
            "--default_kv_lease_ttl=5s",
            "--noenable_ha",
            "--max_threads=64",
            "-logtostderr",
        ],
    );
    let ready = process.ready();
    assert_eq!(ready["rpc"], serde_json::json!([]));
    assert!(ready["cert_sha256"].is_null());
    let mooncake = address(&ready["mooncake"]);
    assert!(mooncake.ip().is_unspecified());
    TcpStream::connect_timeout(&([127, 0, 0, 1], mooncake.port()).into(), PATIENCE).unwrap();
    let metadata = address(&ready["metadata"]);
    assert!(metadata.ip().is_unspecified());
    let metadata = ([127, 0, 0, 1], metadata.port()).into();
    assert_eq!(page_at(metadata, "/health"), (200, "OK".to_owned()));
    assert_eq!(page_at(address(&ready["metrics"]), "/ready").0, 200);

    let log = process.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("no effect here")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("\"logtostderr, max_threads\""), "{}", told[0]);
    assert!(log.contains("serving without QUIC"), "{log}");
    // It comes once at the start, and then every ten seconds.
    let summary = "role=leader, state=serving, service_ready=true, master={Mem Storage: 0 B / 0 B";
    let until = Instant::now() + PATIENCE;
    while !process.log().contains(summary) {
        assert!(Instant::now() < until, "no summary in {}", process.log());
        std::thread::sleep(Duration::from_millis(5));
    }

    process.signal(libc::SIGTERM);
    assert_eq!(process.ended().code(), Some(0));
}

#[test]
fn with_a_certificate_quic_has_the_same_number() {
    let port = free_port();
    let rpc_port = format!("--rpc_port={port}");
    let flags =
        ["mooncake-master", &rpc_port, "--metrics_port=0", "--metrics_host=127.0.0.1", "--dev"];
    let process = Process::serving(&flags);
    let ready = process.ready();
    assert_eq!(address(&ready["rpc"][0]).port(), port);
    assert_eq!(address(&ready["mooncake"]).port(), port);
    assert!(ready["metadata"].is_null());
}

#[test]
fn settings_may_stand_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.yaml");
    let text = "port: 0\nmetrics_port: 0\nmetrics_host: 127.0.0.1\nclient_live_ttl_sec: 60\n\
                max_threads: 4\nsomething_else: 1\n";
    fs::write(&path, text).unwrap();
    let process = Process::serving(&["mooncake-master", "--config_path", path.to_str().unwrap()]);
    let log = process.log();
    assert!(log.contains("\"max_threads, something_else (unknown)\""), "{log}");
}

#[test]
fn what_it_cannot_keep_is_refused_before_anything_starts() {
    let error = error_of(&["--enable_ha", "--etcd_endpoints=e:1"]);
    assert!(error.contains("--enable_ha=true is not supported"), "{error}");
    let error = error_of(&["--nope=1"]);
    assert!(error.contains("unknown command line flag 'nope'"), "{error}");
    let error = error_of(&["--client_ttl=0", "--port=0", "--metrics_port=0"]);
    assert!(error.contains("--client-ttl"), "{error}");
}

#[test]
fn help_and_version_are_told_in_that_programs_way() {
    let (_directory, program) = by_its_name();
    for (flag, part) in
        [("--help", "-rpc_port type: int32"), ("-help", "-enable_ha"), ("--version", "mooring")]
    {
        let output = called(&program, &[flag]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("mooncake_master") && text.contains(part), "{text}");
    }
}

#[test]
fn all_that_is_refused_is_told_at_once() {
    let error = error_of(&["--enable_ha", "--nope=1", "--metrics_port=99999"]);
    assert_eq!(error.lines().count(), 4, "{error}");
    for part in ["3 settings are refused", "--enable_ha=true", "'nope'", "--metrics_port=99999"] {
        assert!(error.contains(part), "no {part} in {error}");
    }
}

#[test]
fn a_check_of_flags_tells_what_becomes_of_them_and_starts_nothing() {
    let check = |flags: &[&str]| {
        let output = run(&[&["mooncake-master", "--check_flags"], flags].concat());
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), told)
    };
    let (code, told) = check(&["--client_ttl=60", "--max_threads=64", "--minloglevel=1"]);
    assert_eq!(code, Some(0), "{told}");
    for line in ["works:", "  --client_ttl=60", "no effect:", "the same start:"] {
        assert!(told.lines().any(|it| it == line), "no {line} in {told}");
    }
    for part in ["--max_threads: the number", "--minloglevel: ", "mooring master --mooncake-port="]
    {
        assert!(told.contains(part), "no {part} in {told}");
    }
    let (code, told) = check(&["--enable_ha", "--rpc_port=x"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("enable_ha=true is not supported") && told.contains("rpc_port"),
        "{told}"
    );
    // What the master itself refuses is found, too.
    let (code, told) = check(&["--client_ttl=0"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--client-ttl"), "{told}");
}
