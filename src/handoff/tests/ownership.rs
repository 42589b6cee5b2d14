//! Two masters on one directory: whoever finds it out poisons it, and nobody restores.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mooring_proto::Incarnation;

use super::sample::{
    CREATED_MS, WRITER, begin, export, handed_over, left, manifest, options, serving, write_shards,
};
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::directory::{DirectoryError, HandoffDirectory, OpenError};
use crate::handoff::found::look;
use crate::handoff::notes::ShutdownResult;
use crate::handoff::reason::Reason;

const OTHER: Incarnation = Incarnation(2);

fn reason_of_start(path: &Path) -> Option<Reason> {
    let limits = Limits { max_age_ms: 120_000, memory: None };
    let found = look(path).unwrap();
    match decide(&found, FailurePolicy::ServeEmpty, &limits, CREATED_MS) {
        Decision::Restore => None,
        Decision::ServeEmpty(cause) | Decision::Refuse(cause) => Some(cause.reason),
    }
}

// R46 (b)
#[test]
fn a_second_master_is_told_which_process_holds_the_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let _first = serving(scratch.path(), WRITER);
    let error = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap_err();
    assert!(matches!(error, OpenError::Held { .. }));
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
}

#[test]
fn the_lock_is_held_until_the_export_is_over_too() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    let export = directory.begin_export(options()).unwrap();
    drop(directory);
    assert!(HandoffDirectory::open(scratch.path(), Duration::ZERO).is_err());
    export.abandon();
    assert!(HandoffDirectory::open(scratch.path(), Duration::ZERO).is_ok());
}

#[test]
fn a_directory_of_no_use_is_told_from_one_that_is_held() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    fs::create_dir_all(scratch.path().join("odd/lock")).unwrap();
    for name in ["file", "file/below", "odd"] {
        let error = HandoffDirectory::open(&scratch.path().join(name), Duration::ZERO);
        assert!(matches!(error, Err(OpenError::Unusable { .. })), "{name}");
    }
}

// R46 (b)
#[test]
fn a_lock_that_was_replaced_poisons_the_directory_of_both() {
    let scratch = tempfile::tempdir().unwrap();
    let first = serving(scratch.path(), WRITER);
    // What an operator should not do: the second master takes another file for the lock.
    fs::remove_file(scratch.path().join("lock")).unwrap();
    let second = serving(scratch.path(), OTHER);

    let failure = export(&first, options()).unwrap_err();
    assert_eq!(failure.cause.reason, Reason::SkippedNotOwner);
    let failed = ShutdownResult::Failed(failure.cause.reason);
    let refused = first.record_shutdown(&left(WRITER, failed));
    assert!(matches!(refused, Err(DirectoryError::NotOwner(_))));
    assert!(scratch.path().join("POISON").exists());

    // The second one holds the lock and finds the poison.
    let failure = export(&second, options()).unwrap_err();
    assert_eq!(failure.cause.reason, Reason::SkippedPoisoned);
    second.record_shutdown(&left(OTHER, ShutdownResult::Failed(failure.cause.reason))).unwrap();
    drop((first, second));
    assert!(!scratch.path().join("READY").exists());
    assert_eq!(reason_of_start(scratch.path()), Some(Reason::Poisoned));

    // A start that serves empty ends the poison.
    drop(serving(scratch.path(), Incarnation(3)));
    assert_eq!(reason_of_start(scratch.path()), Some(Reason::Killed));
}

#[test]
fn the_second_of_two_masters_may_have_left_first_and_is_not_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let first = serving(scratch.path(), WRITER);
    fs::remove_file(scratch.path().join("lock")).unwrap();
    let second = serving(scratch.path(), OTHER);
    export(&second, options()).unwrap();
    second.record_shutdown(&left(OTHER, ShutdownResult::Ok)).unwrap();
    drop(second);
    assert_eq!(reason_of_start(scratch.path()), None, "nobody knows of the first one yet");
    assert!(export(&first, options()).is_err());
    assert_eq!(reason_of_start(scratch.path()), Some(Reason::Poisoned));
}

#[test]
fn what_a_master_did_not_make_poisons_its_directory() {
    for name in ["READY", "CLAIMED"] {
        let foreign = handed_over();
        let scratch = tempfile::tempdir().unwrap();
        let directory = serving(scratch.path(), OTHER);
        fs::rename(foreign.path().join("READY"), scratch.path().join(name)).unwrap();
        assert_eq!(directory.check().unwrap_err().reason, Reason::SkippedPoisoned);
        let failure = export(&directory, options()).unwrap_err();
        assert_eq!(failure.cause.reason, Reason::SkippedPoisoned);
        assert!(failure.cause.detail.contains(name), "{failure}");
        drop(directory);
        assert_eq!(reason_of_start(scratch.path()), Some(Reason::Poisoned), "{name}");
    }
}

#[test]
fn a_note_of_another_master_poisons_the_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    let other = tempfile::tempdir().unwrap();
    let _other = serving(other.path(), OTHER);
    fs::copy(other.path().join("serving"), scratch.path().join("serving")).unwrap();
    assert_eq!(export(&directory, options()).unwrap_err().cause.reason, Reason::SkippedPoisoned);
    fs::remove_file(scratch.path().join("serving")).unwrap();
    assert_eq!(export(&directory, options()).unwrap_err().cause.reason, Reason::SkippedPoisoned);
}

#[test]
fn a_master_that_appears_while_the_snapshot_is_written_prevents_it() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    let export = directory.begin_export(options()).unwrap();
    fs::remove_file(scratch.path().join("lock")).unwrap();
    fs::write(scratch.path().join("lock"), "").unwrap();
    write_shards(&export).unwrap();
    let failure = export.publish(manifest()).unwrap_err();
    assert_eq!(failure.cause.reason, Reason::SkippedNotOwner);
    assert!(!scratch.path().join("READY").exists());
    assert_eq!(reason_of_start(scratch.path()), Some(Reason::Poisoned));
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    assert!(crate::handoff::clear(path).unwrap().is_empty());
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
    fs::write(path.join("letters"), "").unwrap();
    let errors = [
        crate::handoff::clear(path).unwrap_err(),
        crate::handoff::clear_refusal(path).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("no handoff directory") && text.contains("`letters`"), "{text}");
    }
    // A lock of another program keeps what that has written into it.
    fs::write(path.join("lock"), "not a process").unwrap();
    assert!(crate::handoff::clear(path).unwrap().is_empty());
    assert_eq!(fs::read(path.join("lock")).unwrap(), b"not a process");
    assert_eq!(fs::read_dir(path).unwrap().count(), 2);
}

#[test]
fn only_the_user_of_the_master_may_read_what_it_leaves() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = handed_over();
    let names = ["READY", "READY/manifest", "READY/shard-0000", "last_shutdown", "lock"];
    let mut directory = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap();
    for name in names {
        let mode = fs::metadata(scratch.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
    directory.claim().unwrap();
    begin(&mut directory, OTHER);
    let mode = fs::metadata(scratch.path().join("serving")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_held_directory_is_not_cleared() {
    let scratch = handed_over();
    let held = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap();
    assert!(crate::handoff::clear(scratch.path()).is_err());
    assert_eq!(reason_of_start(scratch.path()), None);
    drop(held);
    fs::create_dir(scratch.path().join("WRITING-1-2")).unwrap();
    fs::write(scratch.path().join("VOID-1-2"), "").unwrap();
    fs::write(scratch.path().join("mine"), "").unwrap();
    let removed = crate::handoff::clear(scratch.path()).unwrap();
    assert_eq!(removed, ["READY", "last_shutdown", "VOID-1-2", "WRITING-1-2"]);
    assert!(scratch.path().join("mine").exists(), "what is not ours stays");
    assert_eq!(crate::handoff::clear(scratch.path()).unwrap(), Vec::<String>::new());
}
