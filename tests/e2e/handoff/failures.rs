//! Handoffs that cannot be used: each ends empty or refused, with its reason on the pages, and
//! never with a process that ends again and again.

use std::fs::{self, File};
use std::io::{PipeWriter, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use super::Values;
use super::place::Place;
use crate::harness::{Master, Process, mooring, page_at, run};

/// The reason why a master began empty, as its metrics and its log say.
pub(super) fn empty_because(master: &Master, reason: &str) {
    let (_, page) = master.page("/metrics");
    let line = format!("master_handoff_restore_result{{result=\"{reason}\"}} 1\n");
    assert!(page.contains(&line), "{page}");
    let log = master.process.log();
    let says = format!("\"handoff_startup\":\"{reason}\"");
    let line = log.lines().find(|line| line.contains(&says)).unwrap_or_else(|| panic!("{log}"));
    // Where a master was before, somebody may miss what it had.
    let level = if reason == "none" { "INFO" } else { "WARN" };
    assert!(line.contains(level) && line.contains("empty"), "{line}");
    assert_eq!(master.metric("master_key_count"), 0.0);
    assert_eq!(master.metric("mooring_segments"), 0.0);
    assert_eq!(master.page("/ready").0, 200);
}

/// What the pages of a master say that does not serve.
pub(super) fn refused_because(process: &mut Process, admin: SocketAddr, reason: &str) {
    let refused = || {
        let (status, body) = page_at(admin, "/health");
        assert_eq!(status, 200);
        body.contains("\"refused\"") && body.contains(reason)
    };
    process.wait_until("it refuses", refused);
    let (status, body) = page_at(admin, "/ready");
    assert!(status == 503 && body.contains(reason), "{status} {body}");
}

#[test]
fn a_first_start_is_an_ordinary_one() {
    let place = Place::new();
    empty_because(&place.master(&["--handoff-failure-policy", "refuse"]), "none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_leaves_nothing_and_the_next_begins_empty() {
    let mut place = Place::new();
    let mut master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..5).await;
    place.leave(master);
    master = place.master(&[]);
    super::wait_until_confirmed(&master, 1);
    values.check(&client).await;
    master.process.signal(libc::SIGKILL);
    master.process.ended();
    assert!(!place.directory().join("READY").exists());
    assert_eq!(place.inspect()["would"], "serve_empty");
    let master = place.master(&["--handoff-failure-policy", "refuse"]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"killed\"} 1\n"), "{page}");
    for (key, _) in &values.0 {
        assert_eq!(client.fetch(key).await.unwrap(), None);
    }
}

/// A look at the directory of a master that serves does not read as if it had died.
#[test]
fn a_look_says_that_a_master_is_serving() {
    let place = Place::new();
    let master = place.master(&[]);
    let pid = master.process.ready()["pid"].clone();
    let told = place.inspect();
    assert_eq!(told["held_by_pid"], pid);
    let outcome = [&told["state"], &told["would"], &told["reason"]];
    assert_eq!(outcome, ["serving", "wait", "held"], "{told}");
    assert!(told["detail"].as_str().unwrap().contains("a master is serving"), "{told}");
    let if_killed = [&told["if_killed"]["would"], &told["if_killed"]["reason"]];
    assert_eq!(if_killed, ["serve_empty", "killed"], "{told}");
    let directory = place.directory();
    let look = ["handoff", "inspect", directory.to_str().unwrap()];
    let text = String::from_utf8(crate::harness::run(&look).stdout).unwrap();
    assert!(text.contains(&format!("held by process {pid}: a master is serving")), "{text}");
    assert!(!text.contains("ended without"), "{text}");
    place.leave(master);
    let told = place.inspect();
    assert!(told["held_by_pid"].is_null() && told["if_killed"].is_null(), "{told}");
}

/// What a start would do depends on how the master is told, so a look reads that too.
#[test]
fn a_look_knows_the_environment_and_the_file_of_the_master() {
    let place = Place::new();
    place.leave(place.master(&[]));
    place.damage("shard-0000");
    let directory = place.directory();
    let look = ["handoff", "inspect", directory.to_str().unwrap(), "--json"];
    let would = |mut command: std::process::Command| {
        let told: serde_json::Value =
            serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        told["would"].clone()
    };
    assert_eq!(would(mooring(&look)), "serve_empty");
    let mut by_variable = mooring(&look);
    by_variable.env("MOORING_MASTER_HANDOFF_FAILURE_POLICY", "refuse");
    assert_eq!(would(by_variable), "refuse");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "[master]\nhandoff-failure-policy = 'refuse'\n").unwrap();
    let mut by_file = mooring(&look);
    by_file.arg("--config").arg(file.path());
    assert_eq!(would(by_file), "refuse");
}

/// R46 (a) and (f): a snapshot is claimed once.
#[test]
fn a_start_that_ended_before_it_served_has_used_the_snapshot_up() {
    let place = Place::new();
    place.leave(place.master(&[]));
    fs::rename(place.directory().join("READY"), place.directory().join("CLAIMED")).unwrap();
    empty_because(&place.master(&[]), "aborted_previous");
}

/// R46 (e).
#[test]
fn a_stale_snapshot_is_not_restored_by_this_start_or_a_later_one() {
    let place = Place::new();
    place.leave(place.master(&[]));
    let mut master = place.master(&["--handoff-max-age-sec", "1ms"]);
    empty_because(&master, "stale");
    assert!(!place.directory().join("READY").exists());
    master.process.signal(libc::SIGKILL);
    master.process.ended();
    empty_because(&place.master(&[]), "killed");
}

/// R49: a format that is not known.
#[test]
fn a_snapshot_that_is_damaged_or_of_another_version_begins_empty() {
    let place = Place::new();
    place.leave(place.master(&[]));
    place.damage("shard-0000");
    let master = place.master(&[]);
    empty_because(&master, "corrupt");
    place.leave(master);
    let manifest = place.directory().join("READY/manifest");
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[8] = 2;
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&manifest, bytes).unwrap();
    empty_because(&place.master(&[]), "version");
}

#[test]
fn a_refusal_outlives_the_process_until_an_operator_clears_the_directory() {
    let place = Place::new();
    place.leave(place.master(&[]));
    place.damage("shard-0000");
    let (mut first, admin) = place.starting_elsewhere(&["--handoff-failure-policy", "refuse"]);
    first.expect_error("does not serve");
    refused_because(&mut first, admin, "corrupt");
    first.signal(libc::SIGTERM);
    assert_eq!(first.ended().code(), Some(0));
    assert_eq!(place.inspect()["would"], "refuse");

    let (mut second, admin) = place.starting_elsewhere(&[]);
    second.expect_error("does not serve");
    refused_because(&mut second, admin, "corrupt");
    assert!(!second.ready_path().exists());
    place.clear();
    let ready = second.ready_path();
    second.wait_until("it serves", || ready.exists());
    empty_because(&Master::of(second), "none");
}

/// What was in the way is gone: the snapshot is judged anew, and is as good as it was.
#[test]
fn a_refusal_that_is_cleared_alone_leaves_the_snapshot_to_the_next_start() {
    let place = Place::new();
    place.leave(place.master(&[]));
    let strict = ["--handoff-failure-policy", "refuse", "--handoff-max-age-sec", "1ms"];
    let (mut first, admin) = place.starting_elsewhere(&strict);
    first.expect_error("does not serve");
    refused_because(&mut first, admin, "stale");
    refused_because(&mut first, admin, "--only-refusal");
    let directory = place.directory();
    let clear = ["handoff", "clear", "--only-refusal", directory.to_str().unwrap()];
    assert!(run(&clear).status.success());
    // It waits, judges anew, and comes to the same.
    let refusal = directory.join("refused");
    first.wait_until("it refuses again", || refusal.exists());
    first.signal(libc::SIGTERM);
    assert_eq!(first.ended().code(), Some(0));
    assert_eq!(place.inspect()["would"], "refuse");
    assert!(run(&clear).status.success());
    assert!(directory.join("READY").exists());
    let master = place.master(&[]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"ok\"} 1\n"), "{page}");
}

#[test]
fn a_directory_of_no_use_is_told_and_waited_for() {
    let place = Place::new();
    fs::write(place.directory(), "not a directory").unwrap();
    let (mut process, admin) = place.starting_elsewhere(&[]);
    process.expect_error("does not serve");
    refused_because(&mut process, admin, "is of no use");
    refused_because(&mut process, admin, "move it away");
    fs::remove_file(place.directory()).unwrap();
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    empty_because(&Master::of(process), "none");
}

#[test]
fn a_snapshot_that_takes_too_long_is_given_up_and_the_reason_is_kept() {
    let place = Place::new();
    let mut master = place.master(&["--handoff-shutdown-deadline-sec", "1ms"]);
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    assert!(!place.directory().join("READY").exists());
    assert!(master.process.log().contains("\"handoff_shutdown\":\"deadline\""));
    let master = place.master(&[]);
    empty_because(&master, "deadline");
    let (_, page) = master.page("/metrics");
    let line = "master_handoff_last_snapshot_result{result=\"deadline\"} 1\n";
    assert!(page.contains(line), "{page}");
}

/// However little time there is, the master says what that costs, also to the next one.
#[test]
fn a_master_without_time_to_leave_says_so_and_the_next_one_knows() {
    let place = Place::new();
    let mut master = place.master(&["--shutdown-deadline-sec", "1ms"]);
    master.process.expect_error("no time to say how the master left");
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let log = master.process.log();
    let told = log.lines().find(|line| line.contains("\"handoff_shutdown\":\"deadline\""));
    assert!(
        told.is_some_and(|line| line.contains("WARN") && line.contains("begins empty")),
        "{log}"
    );
    assert!(!place.directory().join("READY").exists());
    let reason = place.inspect()["reason"].as_str().unwrap().to_owned();
    // A disk that is slow may not even get the word.
    assert!(["deadline", "interrupted"].contains(&reason.as_str()), "{reason}");
    empty_because(&place.master(&[]), &reason);
}

/// Nobody waits for whoever reads the log: what is told meanwhile is lost, and nothing else.
#[test]
fn a_log_that_nobody_reads_costs_neither_the_exit_nor_the_snapshot() {
    let place = Place::new();
    let (_nobody_reads, log) = std::io::pipe().unwrap();
    for _ in 0..2 {
        // The second one restores, and tells so to nobody.
        let mut master = place.starting_with_log(&[], log.try_clone().unwrap().into());
        let ready = master.ready_path();
        master.wait_until("it serves", || ready.exists());
        fill(&log);
        master.signal(libc::SIGTERM);
        assert_eq!(master.ended().code(), Some(0));
        assert!(place.directory().join("READY").exists());
    }
    assert_eq!(place.inspect()["would"], "restore");
    // A start that fails tells so to nobody, and ends.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let flags = ["master", "--dev", "--rpc-port", "0", "--metrics-port", &port];
    let mut master = Process::starting_with_log(&flags, log.into());
    assert_eq!(master.ended().code(), Some(1));
}

/// Fills a pipe to its last byte, by an end of its own that does not wait for room.
fn fill(pipe: &PipeWriter) {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut end = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    for chunk in [&[b'\n'; 4096][..], b"\n"] {
        while end.write(chunk).is_ok() {}
    }
}

#[test]
fn a_snapshot_that_takes_too_long_to_load_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let handoff = ["--handoff-dir", directory.path().to_str().unwrap()];
    let mut master = Master::start(&handoff);
    // So many that they are read in several pieces: time is looked at before each.
    let flags = ["bench", "fill", "--keys", "30000", "--value-bytes", "4096", "--hold"];
    let reach = master.client_flags();
    let mut fill = mooring(&flags).args(reach).stdout(Stdio::null()).spawn().unwrap();
    master.wait_for_metric("mooring_put_ends_total", 30_000.0);
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    fill.kill().unwrap();
    fill.wait().unwrap();
    let master =
        Master::start(&[&handoff[..], &["--handoff-restore-deadline-sec", "1ms"]].concat());
    empty_because(&master, "deadline");
}
