//! A master that gets no more memory from the system.
//!
//! It may die of that at any moment, and must not leave a snapshot that is not whole. The next one
//! begins with what the directory says, and says why.

use std::fs;
use std::process::{Child, Stdio};

use super::place::Place;
use crate::harness::{Master, mooring};

/// Lets a process have so many bytes of addresses more than it has now.
fn limit_memory(master: &Master, more_bytes: u64) {
    let pid = master.process.id();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    let bytes = (kib << 10) + more_bytes;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    let pid = libc::pid_t::try_from(pid).unwrap();
    // SAFETY: the limit outlives the call, and nothing is asked for; the child was not waited for, so
    // the id is its own.
    let outcome = unsafe { libc::prlimit(pid, libc::RLIMIT_AS, &limit, std::ptr::null_mut()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Fills a master with objects that have no memory behind them, and stays as their store.
fn fill(place: &Place, keys: u64) -> Child {
    let (keys, [address, identity, key]) = (keys.to_string(), place.reach());
    let tls = ["--tls-ca", place.roots(), "--tls-cert", &identity, "--tls-key", &key];
    let fill = ["bench", "fill", "--keys", &keys, "--value-bytes", "4096", "--hold"];
    let mut fill = mooring(&[&fill[..], &["--master", &address], &tls].concat());
    fill.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn restored(place: &Place) -> (f64, String) {
    let told = place.inspect();
    let reason = told["reason"].as_str().unwrap().to_owned();
    let master = place.master(&[]);
    let line = format!("master_handoff_restore_result{{result=\"{reason}\"}} 1\n");
    let (_, page) = master.page("/metrics");
    assert!(page.contains(&line), "{told} and {page}");
    assert_eq!(master.page("/ready").0, 200);
    (master.metric("master_handoff_restore_objects"), reason)
}

#[test]
fn a_master_that_dies_of_hunger_leaves_nothing_and_the_next_one_says_so() {
    let place = Place::new();
    let mut master = place.master(&[]);
    limit_memory(&master, 4 << 20);
    let filling = fill(&place, 1_000_000);
    let status = master.process.ended();
    end(filling);
    assert!(!status.success(), "{status}");
    assert!(!place.directory().join("READY").exists());
    assert_eq!(restored(&place), (0.0, "killed".to_owned()));
}

#[test]
fn a_master_that_must_leave_without_any_memory_to_spare_hands_over_all_or_nothing() {
    for more_bytes in [0, 256 << 10, 4 << 20, 256 << 20] {
        let place = Place::new();
        let mut master = place.master(&["--shutdown-deadline-sec", "5s"]);
        let filling = fill(&place, OBJECTS);
        master.wait_for_metric("mooring_put_ends_total", OBJECTS as f64);
        end(filling);
        limit_memory(&master, more_bytes);
        master.process.signal(libc::SIGTERM);
        let status = master.process.ended();
        let ready = place.directory().join("READY").exists();
        assert!(!ready || status.success(), "{status}; {}", master.process.log());
        let (objects, reason) = restored(&place);
        assert_eq!(reason == "ok", ready, "{reason}");
        assert_eq!(objects, if ready { OBJECTS as f64 } else { 0.0 }, "{reason}");
    }
}

/// Its threads would need more addresses for their stacks than there are, and everything else has enough.
#[test]
fn a_master_that_gets_no_thread_when_it_leaves_hands_over_all_the_same() {
    let place = Place::new();
    let stack_bytes = (64_u64 << 20).to_string();
    let mut master = place.master_with(&[("RUST_MIN_STACK", &stack_bytes)], &["--shards", "2"]);
    let filling = fill(&place, OBJECTS);
    master.wait_for_metric("mooring_put_ends_total", OBJECTS as f64);
    end(filling);
    limit_memory(&master, 48 << 20);
    master.process.signal(libc::SIGTERM);
    let status = master.process.ended();
    let log = master.process.log();
    assert!(status.success(), "{status}; {log}");
    // The stack of a thread that has ended may serve another one, which then writes the file meanwhile.
    assert!(log.contains("no thread for an export"), "{log}");
    assert_eq!(restored(&place), (OBJECTS as f64, "ok".to_owned()));
}

const OBJECTS: u64 = 20_000;
