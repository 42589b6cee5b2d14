use std::fs;
use std::path::Path;

use super::sample::{CREATED_MS, WRITER, handed_over, left, serving};
use crate::handoff::decide::{Decision, FailurePolicy, Limits};
use crate::handoff::directory::HandoffDirectory;
use crate::handoff::inspect::{Inspection, inspect};
use crate::handoff::memory::Admission;
use crate::handoff::notes::ShutdownResult;
use crate::handoff::reason::{Cause, Reason};

fn look(path: &Path) -> Inspection {
    let limits = Limits { max_age_ms: 120_000, memory: None };
    inspect(path, FailurePolicy::Refuse, &limits, CREATED_MS + 1_500).unwrap()
}

fn reason(found: &Inspection) -> Option<Reason> {
    found.cause().map(|cause| cause.reason)
}

/// Every name below a directory, with what is in files.
fn tree(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        } else {
            let name = entry.path().display().to_string();
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_look_tells_what_a_start_would_restore_and_changes_nothing() {
    let scratch = handed_over();
    let before = tree(scratch.path());
    let held = HandoffDirectory::open(scratch.path(), std::time::Duration::ZERO).unwrap();
    let found = look(scratch.path());
    drop(held);
    assert_eq!(found.state, "ready");
    assert_eq!(found.decision, Decision::Restore);
    assert_eq!(found.age_s(), Some(1.5));
    assert_eq!(found.totals().objects, 4);
    assert_eq!(found.totals().holds, 2);
    let bytes: usize = before
        .iter()
        .filter(|(name, _)| name.contains("/READY/"))
        .map(|(_, content)| content.len())
        .sum();
    assert_eq!(found.snapshot.as_ref().unwrap().bytes, bytes as u64);
    assert_eq!(found.last_shutdown.as_ref().unwrap().result, ShutdownResult::Ok);
    assert_eq!(tree(scratch.path()), before);
}

#[test]
fn a_look_finds_damage_that_only_reading_shows() {
    let scratch = handed_over();
    let path = scratch.path().join("READY/shard-0001");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = look(scratch.path());
    assert_eq!((found.state, reason(&found)), ("ready", Some(Reason::Corrupt)));
    assert!(found.cause().unwrap().detail.contains("shard-0001"));
}

#[test]
fn a_look_tells_what_would_keep_a_start_from_the_directory() {
    let scratch = handed_over();
    let path = scratch.path();
    assert_eq!(look(path).would(), "restore");
    fs::create_dir(path.join("serving")).unwrap();
    let found = look(path);
    assert_eq!((found.would(), found.state), ("wait", "ready"));
    assert!(found.obstacle.unwrap().contains("serving is a directory"));
    fs::remove_dir(path.join("serving")).unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    assert_eq!(look(path).would(), "restore");
    for (kind, impostor) in crate::regular_file::impostors("lock") {
        let found = look(impostor.path());
        assert_eq!(found.would(), "wait", "{kind}");
        let obstacle = found.obstacle.unwrap();
        assert!(obstacle.starts_with("lock ") && obstacle.contains(kind), "{obstacle}");
    }
}

#[test]
fn each_state_has_its_name() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    assert_eq!(look(path).state, "empty");
    drop(serving(path, WRITER));
    let found = look(path);
    assert_eq!((found.state, reason(&found)), ("serving", Some(Reason::Killed)));
    assert_eq!(found.serving.unwrap().incarnation, WRITER);

    let scratch = handed_over();
    let path = scratch.path();
    let mut directory = HandoffDirectory::open(path, std::time::Duration::ZERO).unwrap();
    directory.claim().unwrap();
    let found = look(path);
    assert_eq!((found.state, reason(&found)), ("claimed", Some(Reason::AbortedPrevious)));
    assert_eq!(found.totals().objects, 4);
    fs::write(path.join("POISON"), "").unwrap();
    let found = look(path);
    assert_eq!((found.state, reason(&found)), ("poisoned", Some(Reason::Poisoned)));
    directory.refuse(&Cause::new(Reason::Stale, ""), CREATED_MS).unwrap();
    let found = look(path);
    assert_eq!((found.state, reason(&found)), ("refused", Some(Reason::Stale)));
}

#[test]
fn a_look_tells_why_the_last_master_left_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    let failed = ShutdownResult::Failed(Reason::WriteFailed);
    directory.record_shutdown(&left(WRITER, failed)).unwrap();
    let found = look(scratch.path());
    assert_eq!((found.state, reason(&found)), ("empty", Some(Reason::WriteFailed)));
    assert!(matches!(found.decision, Decision::Refuse(_)));
}

#[test]
fn a_look_uses_the_limits_of_the_start() {
    let scratch = handed_over();
    let memory = Some(Admission { available_bytes: 1, margin_percent: 0 });
    let cases = [
        (Limits { max_age_ms: 1_499, memory: None }, CREATED_MS + 1_500, Reason::Stale),
        (Limits { max_age_ms: 1_500, memory: None }, CREATED_MS - 1_001, Reason::Clock),
        (Limits { max_age_ms: 1_500, memory }, CREATED_MS, Reason::Memory),
    ];
    for (limits, now_wall_ms, expected) in cases {
        let found = inspect(scratch.path(), FailurePolicy::ServeEmpty, &limits, now_wall_ms);
        let found = found.unwrap();
        assert_eq!(reason(&found), Some(expected));
        assert!(matches!(found.decision, Decision::ServeEmpty(_)));
    }
}
