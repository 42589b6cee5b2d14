//! Snapshots that are not the last word: of two masters, of the past, of the future, put back.

use std::fs;

use super::Values;
use super::failures::{empty_because, refused_because};
use super::place::{Place, copy_tree};
use crate::harness::Master;

/// Leases end soon, so that memory of a former master is soon placed on.
const SHORT_LEASE: [&str; 2] = ["--default-kv-lease-ttl", "50ms"];

fn leaves(master: &mut Master, write: &str) {
    for error in [
        "another master has used the handoff directory",
        "the handoff directory is not this master's",
        "cannot say how it left",
    ] {
        master.process.expect_error(error);
    }
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let log = master.process.log();
    assert!(log.contains(&format!("\"handoff_write\":\"{write}\"")), "{log}");
}

/// An operator who removes the lock lets two masters in. Neither hands over.
#[test]
fn two_masters_on_one_directory_leave_no_snapshot() {
    let place = Place::new();
    let mut first = place.master(&[]);
    fs::remove_file(place.directory().join("lock")).unwrap();
    let (mut second, _) = place.starting_elsewhere(&[]);
    let ready = second.ready_path();
    second.wait_until("it serves", || ready.exists());
    let mut second = Master::of(second);
    leaves(&mut first, "skipped_not_owner");
    leaves(&mut second, "skipped_poisoned");
    assert!(!place.directory().join("READY").exists());
    let told = place.inspect();
    assert_eq!((&told["state"], &told["reason"]), (&"poisoned".into(), &"poisoned".into()));
    let mut third = place.master(&[]);
    empty_because(&third, "poisoned");
    // It is over with that.
    third.process.signal(libc::SIGKILL);
    third.process.ended();
    empty_because(&place.master(&[]), "killed");
}

/// In a roll that overlaps, the next master waits for the handoff, but it can't for a port.
#[test]
fn a_start_on_the_port_of_the_master_before_is_told_which_process_has_it() {
    let place = Place::new();
    let master = place.master(&[]);
    let mut second = place.starting(&[]);
    assert_eq!(second.ended().code(), Some(1));
    let log = second.log();
    let process = format!("process {} ", master.process.id());
    for part in [&process, "in use", "--handoff-dir", "SIGTERM", "--rpc-port"] {
        assert!(log.contains(part), "no {part}: {log}");
    }
    place.leave(master);
}

#[test]
fn poison_is_refused_until_it_is_cleared_whatever_is_in_it() {
    let place = Place::new();
    place.leave(place.master(&[]));
    fs::write(place.directory().join("POISON"), "").unwrap();
    let (mut process, admin) = place.starting_elsewhere(&["--handoff-failure-policy", "refuse"]);
    process.expect_error("does not serve");
    refused_because(&mut process, admin, "poisoned");
    assert!(place.directory().join("READY").exists());
    place.clear();
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    empty_because(&Master::of(process), "none");
}

#[test]
fn a_snapshot_that_was_put_back_is_not_restored_again() {
    let place = Place::new();
    place.leave(place.master(&[]));
    let copy = place.copy();
    let mut master = place.master(&[]);
    master.process.signal(libc::SIGKILL);
    master.process.ended();
    copy_tree(&copy.path().join("READY"), &place.directory().join("READY"));
    let told = place.inspect();
    assert_eq!((&told["would"], &told["reason"]), (&"serve_empty".into(), &"poisoned".into()));
    empty_because(&place.master(&[]), "poisoned");
}

/// With everything put back the directory is as it was. The stores know better: they were mounted
/// with another master since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_directory_that_was_put_back_opens_no_segment() {
    let mut place = Place::new();
    let master = place.master(&SHORT_LEASE);
    place.add_store();
    let client = place.client().await;
    let mut old = Values::put(&client, 0..20).await;
    place.leave(master);
    let copy = place.copy();
    let mut master = place.master(&SHORT_LEASE);
    super::wait_until_confirmed(&master, 1);
    // What was at these places is overwritten.
    let count = old.0.len();
    let gone = old.0.clone();
    old.remove(&client, count).await;
    let new = Values::put(&client, 20..60).await;
    master.process.signal(libc::SIGKILL);
    master.process.ended();
    place.put_back(&copy);
    let master = place.master(&SHORT_LEASE);
    assert_eq!(master.metric("master_handoff_restore_objects"), 20.0);
    master.wait_for_metric("master_handoff_segments_dropped", 1.0);
    assert_eq!(master.metric("master_handoff_segments_confirmed"), 0.0);
    assert_eq!(Values(gone).count_right(&client).await, 0);
    assert_eq!(new.count_right(&client).await, 0);
}

/// The same, without a copy: a master was started without the directory in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_the_directory_in_between_makes_the_snapshot_of_no_use() {
    let mut place = Place::new();
    let master = place.master(&SHORT_LEASE);
    place.add_store();
    let client = place.client().await;
    let old = Values::put(&client, 0..20).await;
    place.leave(master);
    let mut master = place.master_without_directory(&SHORT_LEASE);
    // The same keys, at the same places, with other content.
    for (key, value) in &old.0 {
        let other: Vec<u8> = value.iter().map(|byte| !byte).collect();
        super::put_when_possible(&client, key, other).await;
    }
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let master = place.master(&SHORT_LEASE);
    assert_eq!(master.metric("master_handoff_restore_objects"), 20.0);
    master.wait_for_metric("master_handoff_segments_dropped", 1.0);
    assert_eq!(old.count_right(&client).await, 0);
}

/// R46 (e): the wall clock was set back by a day since the snapshot was written.
#[test]
fn a_snapshot_from_the_future_is_not_restored() {
    let place = Place::new();
    place.leave(place.master(&[]));
    let path = place.directory().join("READY/manifest");
    let mut bytes = fs::read(&path).unwrap();
    add_to_creation(&mut bytes, 86_400_000);
    fs::write(&path, bytes).unwrap();
    let told = place.inspect();
    assert_eq!(told["reason"], "clock");
    assert!(told["age_s"].as_f64().unwrap() < -86_000.0, "{told}");
    empty_because(&place.master(&[]), "clock");
}

/// Rewrites the time of creation in a manifest. It is the first varint of the first section, and has
/// six bytes until the year 2109.
fn add_to_creation(manifest: &mut [u8], later_ms: u64) {
    const AT: usize = 16 + 8 + 6;
    let digits = manifest[AT..AT + 6].iter().rev();
    let created = digits.fold(0, |sum, byte| (sum << 7) | u64::from(byte & 0x7f)) + later_ms;
    for (index, byte) in manifest[AT..AT + 6].iter_mut().enumerate() {
        *byte = (created >> (7 * index) & 0x7f) as u8 | if index < 5 { 0x80 } else { 0 };
    }
    let end = manifest.len() - 4;
    let checksum = crc32c::crc32c(&manifest[..end]);
    manifest[end..].copy_from_slice(&checksum.to_le_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_master_may_have_other_limits() {
    let mut place = Place::new();
    let master = place.master(&["--client-ttl", "20s", "--put-start-release-timeout-sec", "700"]);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..30).await;
    place.leave(master);
    let limits = ["--client-ttl", "5s", "--default-kv-lease-ttl", "1s"];
    let puts = ["--put-start-discard-timeout-sec", "5", "--put-start-release-timeout-sec", "20"];
    let eviction = ["--eviction-high-watermark-ratio", "0.5", "--eviction-ratio", "0.2"];
    let master = place.master(&[&limits[..], &puts, &eviction].concat());
    super::wait_until_confirmed(&master, 1);
    values.check(&client).await;
}
