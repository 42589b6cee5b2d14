//! SIGKILL and SIGTERM in the middle of leaving and of starting.
//!
//! A signal is sent as soon as the log or the directory says that a step was reached. It may strike
//! later than that, so these tests are samples, and assert what must hold wherever it strikes: the
//! next start does what the directory says, and each object is the right one or missing. Every single
//! step is taken by the tests beside the code of the directory.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use mooring_proto::client::Client;
use serde_json::Value;

use super::Values;
use super::place::Place;
use crate::harness::{Master, PATIENCE, Process, mooring};

/// Waits without a pause: the next step may be a millisecond away.
fn spin_until(process: &Process, what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waiting for {what}; the log:\n{}", process.log());
        std::thread::yield_now();
    }
}

fn kill(process: &mut Process) {
    // It may have ended by itself, which is one more moment to strike at.
    process.signal(libc::SIGKILL);
    process.ended();
}

/// The next master has done what the directory said before it came.
fn did_as_told(master: &Master, told: &Value, objects: f64) {
    let reason = told["reason"].as_str().unwrap();
    let (_, page) = master.page("/metrics");
    let line = format!("master_handoff_restore_result{{result=\"{reason}\"}} 1\n");
    assert!(page.contains(&line), "{told} and {page}");
    let is_restored = told["would"] == "restore";
    assert_eq!(is_restored, reason == "ok");
    let restored = master.metric("master_handoff_restore_objects");
    assert_eq!(restored, if is_restored { objects } else { 0.0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_killed_while_it_leaves_hands_over_all_or_nothing() {
    let mut place = Place::new();
    // Memory of a former master is soon placed on again.
    let flags = ["--shards", "2", "--default-kv-lease-ttl", "50ms"];
    let mut master = place.master(&flags);
    place.add_store();
    let client = place.client().await;
    let mut values = Values(Vec::new());
    for (round, step) in STEPS_OF_LEAVING.into_iter().enumerate() {
        let first = 20 * round as u64;
        values.extend(Values::put(&client, first..first + 10).await);
        let objects = master.metric("master_key_count");
        master.process.signal(libc::SIGTERM);
        let (log, directory) = (master.process.log_path(), place.directory());
        spin_until(&master.process, step, || match step {
            "READY" => directory.join("READY").exists(),
            "WRITING" => is_writing(&directory),
            _ => fs::read_to_string(&log).unwrap().contains(&format!("\"{step}\"")),
        });
        kill(&mut master.process);
        let told = place.inspect();
        let reason = told["reason"].as_str().unwrap();
        assert!(["killed", "interrupted", "ok"].contains(&reason), "{step}: {told}");
        master = place.master(&flags);
        did_as_told(&master, &told, objects);
        check_after(&master, &client, &values, &told).await;
        if reason != "ok" {
            values.0.clear();
        }
    }
}

async fn check_after(master: &Master, client: &Client, values: &Values, told: &Value) {
    if told["would"] == "restore" {
        super::wait_until_confirmed(master, 1);
        values.check(client).await;
    } else {
        assert_eq!(values.count_right(client).await, 0);
    }
}

fn is_writing(directory: &std::path::Path) -> bool {
    // READY too, in case that the other one was too short to be seen.
    fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name == "READY" || (name.starts_with("WRITING-") && entry.path().is_dir())
    })
}

/// Words of the log, and names in the directory.
const STEPS_OF_LEAVING: [&str; 7] =
    ["start", "serving_stopped", "quiesced", "WRITING", "exported", "READY", "ready"];

/// A place that was left with a snapshot that takes some time to load.
fn left_with_many_objects() -> Place {
    let place = Place::new();
    let mut master = place.master(&["--shards", "2"]);
    let (keys, [address, identity, key]) = (MANY.to_string(), place.reach());
    let tls = ["--tls-ca", place.roots(), "--tls-cert", &identity, "--tls-key", &key];
    let fill = ["bench", "fill", "--keys", &keys, "--value-bytes", "4096", "--hold"];
    let flags = [&fill[..], &["--master", &address], &tls].concat();
    let mut fill = mooring(&flags);
    let mut fill = fill.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    master.wait_for_metric("mooring_put_ends_total", MANY as f64);
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    fill.kill().unwrap();
    fill.wait().unwrap();
    place
}

const MANY: usize = 30_000;

#[test]
fn a_start_that_is_killed_restores_its_snapshot_at_most_once() {
    let place = left_with_many_objects();
    let copy = place.copy();
    for step in STEPS_OF_STARTING {
        place.put_back(&copy);
        let mut process = place.starting(&["--shards", "2"]);
        reached(&place, &process, step);
        let has_claimed = place.directory().join("CLAIMED").exists();
        kill(&mut process);
        let told = place.inspect();
        let reason = told["reason"].as_str().unwrap();
        assert!(["ok", "aborted_previous", "killed"].contains(&reason), "{step}: {told}");
        assert!(reason != "ok" || (step == "at once" && !has_claimed), "{step}: {told}");
        let mut next = place.master(&["--shards", "2"]);
        did_as_told(&next, &told, MANY as f64);
        kill(&mut next.process);
        assert_eq!(place.inspect()["reason"], "killed");
    }
}

#[test]
fn a_start_that_is_told_to_leave_while_it_restores_costs_nothing() {
    let place = left_with_many_objects();
    let copy = place.copy();
    // Before the first of these it does not hear signals yet, and ends as any process.
    for step in &STEPS_OF_STARTING[1..] {
        place.put_back(&copy);
        let mut process = place.starting(&["--shards", "2"]);
        let log = process.log_path();
        reached(&place, &process, step);
        process.signal(libc::SIGTERM);
        assert_eq!(process.ended().code(), Some(0), "{step}");
        let told = place.inspect();
        let log = fs::read_to_string(log).unwrap();
        // It gives back what it has claimed, or hands over what it had restored.
        let returned = ["\"given_back\"", "\"untouched\"", "\"handoff_write\":\"ok\""];
        assert!(returned.iter().any(|word| log.contains(word)), "{step}: {log}");
        assert_eq!(told["would"], "restore", "{step}: {told}");
        assert_eq!(told["objects"], MANY, "{step}: {told}");
        let mut next = place.master(&["--shards", "2"]);
        did_as_told(&next, &told, MANY as f64);
        kill(&mut next.process);
    }
}

/// Waits for a step of a start.
fn reached(place: &Place, process: &Process, step: &str) {
    let (log, directory) = (process.log_path(), place.directory());
    spin_until(process, step, || match step {
        "at once" => true,
        "serving" => directory.join(step).exists(),
        "CLAIMED" => directory.join("CLAIMED").exists() || directory.join("serving").exists(),
        _ => fs::read_to_string(&log).unwrap().contains(&format!("\"handoff_startup\":\"{step}\"")),
    });
}

/// Names in the directory, and words of the log.
const STEPS_OF_STARTING: [&str; 5] = ["at once", "CLAIMED", "restoring", "ok", "serving"];
