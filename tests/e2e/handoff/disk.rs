//! Disks that are full or read-only, and a directory that goes away: on a small file system of its
//! own, where the tests may mount one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Values;
use super::failures::{empty_because, refused_because};
use super::place::Place;
use crate::harness::{Master, page_at};

/// A file system in memory, of a few pages. It is gone when this is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one as the handoff directory of a place. Where that is not permitted, it says so even
    /// if the output of tests is hidden, and gives none; the tests of the writer and of the
    /// directory beside the code have disks that fail too.
    fn mounted(place: &Place) -> Option<SmallDisk> {
        SmallDisk::at(place.directory())
    }

    /// The same at another place.
    fn at(path: PathBuf) -> Option<SmallDisk> {
        fs::create_dir(&path).unwrap();
        if mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"], &path) {
            return Some(SmallDisk(path));
        }
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let text = format!("SKIPPED {name}: no file system can be mounted here\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        None
    }

    fn make_read_only(&self, is_read_only: bool) {
        let option = if is_read_only { "remount,ro" } else { "remount,rw" };
        assert!(mount(&["-o", option], &self.0));
    }

    /// Fills it up but for so many pages.
    fn fill(&self, pages_left: usize) {
        let mut file = fs::File::create(self.filler()).unwrap();
        let mut pages: u64 = 0;
        while file.write_all(&[1; PAGE_BYTES as usize]).is_ok() {
            pages += 1;
        }
        file.set_len((pages - pages_left as u64) * PAGE_BYTES).unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is ending may still have it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let outcome = Command::new("mount").args(arguments).arg(at).output();
    outcome.is_ok_and(|output| output.status.success())
}

/// What a file of one byte takes.
const PAGE_BYTES: u64 = 4096;

/// However little room there is, what the directory says before the next start is what that does,
/// and each object is the right one or missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_costs_at_most_the_snapshot() {
    let mut place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    let flags = ["--shards", "1", "--default-kv-lease-ttl", "50ms"];
    let mut master = place.master(&flags);
    place.add_store();
    let client = place.client().await;
    let mut reasons = Vec::new();
    // From no room at all to room for everything.
    for pages_left in 0..5 {
        let first = 10 * pages_left as u64;
        let values = Values::put(&client, first..first + 5).await;
        disk.fill(pages_left);
        master.process.expect_error("cannot say how it left");
        master.process.signal(libc::SIGTERM);
        assert_eq!(master.process.ended().code(), Some(0));
        let log = master.process.log();
        disk.empty();
        let told = place.inspect();
        let reason = told["reason"].as_str().unwrap().to_owned();
        master = place.master(&flags);
        if reason == "ok" {
            assert!(log.contains("\"handoff_write\":\"ok\""), "{log}");
            super::wait_until_confirmed(&master, 1);
            values.check(&client).await;
        } else {
            assert!(log.contains("\"handoff_write\":\"write_failed\""), "{log}");
            assert!(log.contains("No space left"), "{log}");
            empty_or_remounted_because(&master, &reason);
            assert_eq!(values.count_right(&client).await, 0);
        }
        reasons.push(reason);
    }
    // With no room for a word it looks like a crash, with little like an interrupted handoff.
    assert_eq!(reasons[0], "killed");
    assert!(reasons.contains(&"write_failed".to_owned()), "{reasons:?}");
    assert_eq!(reasons[4], "ok");
}

/// As `empty_because`, but stores may have come back already.
fn empty_or_remounted_because(master: &Master, reason: &str) {
    let (_, page) = master.page("/metrics");
    let line = format!("master_handoff_restore_result{{result=\"{reason}\"}} 1\n");
    assert!(page.contains(&line), "{page}");
    assert_eq!(master.metric("master_key_count"), 0.0);
}

#[test]
fn a_start_on_a_full_disk_waits_for_room() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    disk.fill(0);
    let (mut process, admin) = place.starting_elsewhere(&[]);
    process.expect_error("does not serve");
    refused_because(&mut process, admin, "No space left");
    // It tries again each second, and the pages say the same all the time.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_millis(1_100) {
        let (status, body) = page_at(admin, "/ready");
        assert!(status == 503 && body.contains("No space left"), "{status} {body}");
    }
    let told = process.log().lines().filter(|line| line.contains("begins empty")).count();
    assert_eq!(told, 0, "{}", process.log());
    disk.empty();
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    empty_because(&Master::of(process), "none");
}

/// A start that could not say that it serves claims nothing, so nothing is lost but time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_at_the_start_keeps_the_snapshot_until_there_is_room() {
    let mut place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    let master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..10).await;
    place.leave(master);
    disk.fill(0);
    // One that gives up changes nothing either.
    for ends in [true, false] {
        let mut process = place.starting(&[]);
        process.expect_error("does not serve");
        let log = process.log_path();
        let tells = || fs::read_to_string(&log).unwrap().contains("No space left");
        process.wait_until("it says why it does not serve", tells);
        let told = place.inspect();
        assert_eq!((&told["would"], &told["reason"]), (&"wait".into(), &"directory_failed".into()));
        assert_eq!(told["state"], "ready", "{told}");
        if ends {
            process.signal(libc::SIGTERM);
            assert_eq!(process.ended().code(), Some(0));
            continue;
        }
        disk.empty();
        let ready = process.ready_path();
        process.wait_until("it serves", || ready.exists());
        let master = Master::of(process);
        super::wait_until_confirmed(&master, 1);
        values.check(&client).await;
    }
}

/// The disk fills up behind the claim: room was made before it.
#[test]
fn a_disk_that_is_full_after_the_claim_does_no_harm() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    place.leave(place.master(&[]));
    // For the room, and nothing else.
    disk.fill(1);
    let master = place.master(&[]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"ok\"} 1\n"), "{page}");
}

/// A disk that is full where the ready file is to be is found after the claim: the master serves, and
/// those who wait for the file wait for room.
#[test]
fn a_ready_file_that_finds_no_room_costs_no_snapshot() {
    let place = Place::new();
    let scratch = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::at(scratch.path().join("ready")) else { return };
    place.leave(place.master(&[]));
    disk.fill(0);
    let ready = scratch.path().join("ready/ready.json");
    let (mut process, admin) = place.starting_elsewhere(&["--ready-file", ready.to_str().unwrap()]);
    process.expect_error("cannot write --ready-file");
    let log = process.log_path();
    let tells = || fs::read_to_string(&log).unwrap().contains("cannot write --ready-file");
    process.wait_until("it says that it has no room for the file", tells);
    process.wait_until("it serves", || page_at(admin, "/ready").0 == 200);
    let (_, page) = page_at(admin, "/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"ok\"} 1\n"), "{page}");
    assert!(!ready.exists());
    disk.empty();
    process.wait_until("there is room for the file", || ready.exists());
    let told = process.log().lines().filter(|line| line.contains("cannot write")).count();
    assert_eq!(told, 1);
    let beside = fs::read_dir(scratch.path().join("ready")).unwrap().count();
    assert_eq!(beside, 1, "nothing is left beside it");
    process.signal(libc::SIGTERM);
    assert_eq!(process.ended().code(), Some(0));
    assert!(!ready.exists());
    assert_eq!(place.inspect()["reason"], "ok");
}

/// What a master has left unfinished does not keep the next one from its snapshot.
#[test]
fn a_disk_that_is_full_of_leftovers_is_made_room_on() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    place.leave(place.master(&[]));
    disk.fill(0);
    fs::rename(disk.filler(), place.directory().join("WRITING-1")).unwrap();
    let master = place.master(&[]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"ok\"} 1\n"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_directory_is_waited_for_and_keeps_its_snapshot() {
    let mut place = Place::new();
    let Some(disk) = SmallDisk::mounted(&place) else { return };
    let master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..10).await;
    place.leave(master);
    disk.make_read_only(true);
    let mut process = place.starting(&[]);
    process.expect_error("does not serve");
    let log = process.log_path();
    let tells = || fs::read_to_string(&log).unwrap().contains("Read-only file system");
    process.wait_until("it says why it does not serve", tells);
    let told = place.inspect();
    assert_eq!((&told["would"], &told["state"]), (&"wait".into(), &"ready".into()), "{told}");
    disk.make_read_only(false);
    assert_eq!(place.inspect()["would"], "restore");
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    let master = Master::of(process);
    super::wait_until_confirmed(&master, 1);
    values.check(&client).await;
}

#[test]
fn a_directory_that_goes_away_costs_the_snapshot_and_is_made_again() {
    let place = Place::new();
    let mut master = place.master(&[]);
    fs::remove_dir_all(place.directory()).unwrap();
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let log = master.process.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("was removed or renamed")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("\"handoff_write\":\"skipped_not_owner\""), "{log}");
    assert!(told[0].contains("\"level\":\"WARN\""), "{log}");
    assert!(!place.directory().exists());
    empty_because(&place.master(&[]), "none");
}
