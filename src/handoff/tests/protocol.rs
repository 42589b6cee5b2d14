//! The protocol, and a crash at each of its steps.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mooring_actors::handoff::RecordSink;
use mooring_proto::Incarnation;

use super::sample::{
    self, CREATED_MS, WRITER, begin, export, handed_over, left, options, ranges, read_snapshot,
    serving,
};
use crate::handoff::deadline::Deadline;
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::directory::{ClaimError, DirectoryError, HandoffDirectory, StartNote};
use crate::handoff::durable::probe;
use crate::handoff::export::ExportOptions;
use crate::handoff::found::look;
use crate::handoff::memory::Admission;
use crate::handoff::notes::ShutdownResult;
use crate::handoff::reason::{Cause, Reason};
use crate::handoff::snapshot::Snapshot;

const LIMITS: Limits = Limits { max_age_ms: 120_000, memory: None };

/// The master that comes after the writer.
pub(super) const NEXT: Incarnation = Incarnation(2);

pub(super) fn open(path: &Path) -> HandoffDirectory {
    HandoffDirectory::open(path, Duration::ZERO).unwrap()
}

/// What a start would do, with its reason.
pub(super) fn would(path: &Path, policy: FailurePolicy) -> Result<(), Reason> {
    match decide(&look(path).unwrap(), policy, &LIMITS, CREATED_MS) {
        Decision::Restore => Ok(()),
        Decision::ServeEmpty(cause) | Decision::Refuse(cause) => Err(cause.reason),
    }
}

pub(super) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_roll_hands_over_everything_once() {
    let scratch = handed_over();
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    let mut directory = open(scratch.path());
    let snapshot = directory.claim().unwrap();
    let claimed = names(scratch.path());
    assert_eq!([&claimed[0], &claimed[2], &claimed[3]], ["CLAIMED", "last_shutdown", "lock"]);
    // For the note that it serves.
    assert!(claimed.len() == 4 && claimed[1].starts_with("WRITING-"), "{claimed:?}");
    assert_eq!(read_snapshot(&snapshot).unwrap(), [ranges(0), ranges(1)]);
    let mut merged = snapshot.merged(Deadline::NEVER).unwrap();
    let mut count = 0;
    while merged.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, ranges(0).len() + ranges(1).len());

    begin(&mut directory, NEXT);
    assert_eq!(names(scratch.path()), ["lock", "serving"]);
    let found = directory.look().unwrap();
    let note = found.serving.unwrap().sound().unwrap().clone();
    assert_eq!(note.incarnation, NEXT);
    let before = note.last_shutdown.unwrap();
    assert_eq!((before.incarnation, before.result), (WRITER, ShutdownResult::Ok));
    assert_eq!(directory.check(), Ok(()));
}

#[test]
fn a_first_start_is_an_ordinary_one_under_both_policies() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("made/on/demand");
    let directory = open(&path);
    for policy in [FailurePolicy::ServeEmpty, FailurePolicy::Refuse] {
        let decision = decide(&directory.look().unwrap(), policy, &LIMITS, CREATED_MS);
        assert!(
            matches!(&decision, Decision::ServeEmpty(cause) if cause.reason == Reason::None),
            "{decision:?}"
        );
    }
}

/// Runs a roll, and looks at a copy of the directory after each step; gives the steps with what a
/// start would have done then.
fn steps_of_a_roll() -> Vec<(String, Result<(), Reason>)> {
    let scratch = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let steps = Rc::new(RefCell::new(Vec::new()));
    let (path, kept, recorded) =
        (scratch.path().to_owned(), copies.path().to_owned(), steps.clone());
    probe::look_with(Some(Box::new(move |step| {
        let copy = kept.join(recorded.borrow().len().to_string());
        copy_tree(&path, &copy);
        recorded.borrow_mut().push((step.to_owned(), copy));
    })));
    {
        let writer = serving(scratch.path(), WRITER);
        export(&writer, options()).unwrap();
        writer.record_shutdown(&left(WRITER, ShutdownResult::Ok)).unwrap();
    }
    probe::step("the writer is gone");
    {
        let mut next = open(scratch.path());
        next.claim().unwrap();
        begin(&mut next, NEXT);
    }
    probe::look_with(None);

    let steps = Rc::try_unwrap(steps).unwrap().into_inner();
    let judge = |(step, copy): (String, std::path::PathBuf)| {
        let outcome = would(&copy, FailurePolicy::Refuse);
        let is_ready = copy.join("READY").exists();
        assert_eq!(outcome.is_ok(), is_ready, "{step}: {outcome:?}");
        if is_ready {
            let snapshot = Snapshot::open(&copy.join("READY")).unwrap();
            assert_eq!(read_snapshot(&snapshot).unwrap(), [ranges(0), ranges(1)], "{step}");
        }
        // Whatever is there, a start that serves empty ends all of it.
        let mut start = open(&copy);
        begin(&mut start, Incarnation(3));
        drop(start);
        assert_eq!(names(&copy), ["lock", "serving"], "{step}");
        assert_eq!(would(&copy, FailurePolicy::Refuse), Err(Reason::Killed), "{step}");
        (step, outcome)
    };
    steps.into_iter().map(judge).collect()
}

#[test]
fn a_crash_at_any_step_leaves_a_snapshot_only_between_the_two_renames() {
    let steps = steps_of_a_roll();
    assert!(steps.len() > 25, "{}", steps.len());
    let restorable: Vec<usize> = (0..steps.len()).filter(|index| steps[*index].1.is_ok()).collect();
    let (first, last) = (restorable[0], restorable[restorable.len() - 1]);
    assert_eq!(restorable.len(), last - first + 1, "{steps:?}");
    assert_eq!(steps[first].0, "READY");
    assert_eq!(steps[last + 1].0, "CLAIMED");
    // The claim lasts before anything else happens.
    assert_eq!(steps[last + 2].0, "sync a directory");

    let mut reasons: Vec<Reason> = Vec::new();
    for reason in steps.iter().filter_map(|(_, outcome)| outcome.as_ref().err()) {
        if reasons.last() != Some(reason) {
            reasons.push(*reason);
        }
    }
    let expected = [
        Reason::None,
        Reason::Killed,
        Reason::Interrupted,
        Reason::AbortedPrevious,
        Reason::Killed,
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_start_that_dies_between_claim_and_serving_has_used_the_snapshot_up() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    drop(directory);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
    let mut again = open(scratch.path());
    assert!(matches!(again.claim(), Err(ClaimError::Directory(DirectoryError::Io { .. }))));
    begin(&mut again, NEXT);
    drop(again);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Killed));
}

#[test]
fn a_snapshot_that_is_put_back_after_another_master_has_served_is_not_restored() {
    let scratch = handed_over();
    let aside = tempfile::tempdir().unwrap();
    copy_tree(&scratch.path().join("READY"), &aside.path().join("READY"));
    let put_back = || copy_tree(&aside.path().join("READY"), &scratch.path().join("READY"));
    let mut next = open(scratch.path());
    next.claim().unwrap();
    begin(&mut next, NEXT);
    // The next one was killed.
    drop(next);
    put_back();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Poisoned));

    // A third one has served empty and left without a snapshot.
    let third = serving(scratch.path(), Incarnation(3));
    let failed = ShutdownResult::Failed(Reason::Deadline);
    third.record_shutdown(&left(Incarnation(3), failed)).unwrap();
    drop(third);
    put_back();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Poisoned));
    // Without any note there is nobody to vouch for it.
    fs::remove_file(scratch.path().join("last_shutdown")).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Poisoned));
}

#[test]
fn why_a_master_left_no_snapshot_is_what_the_next_start_says_once() {
    for reason in [Reason::Deadline, Reason::WriteFailed, Reason::SkippedRestoreMemory] {
        let scratch = tempfile::tempdir().unwrap();
        let directory = serving(scratch.path(), WRITER);
        let failed = ShutdownResult::Failed(reason);
        directory.record_shutdown(&left(WRITER, failed)).unwrap();
        drop(directory);
        assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(reason));
        drop(serving(scratch.path(), NEXT));
        assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Killed));
    }
}

#[test]
fn a_master_that_is_killed_while_it_leaves_was_expected_to_hand_over() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    directory.begin_leaving(CREATED_MS).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Interrupted));
    // It goes on to the end all the same.
    export(&directory, options()).unwrap();
    directory.record_shutdown(&left(WRITER, ShutdownResult::Ok)).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}

#[test]
fn a_snapshot_that_was_taken_away_is_missing() {
    let scratch = handed_over();
    fs::remove_dir_all(scratch.path().join("READY")).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Missing));
}

#[test]
fn what_is_said_of_an_end_is_replaced_by_what_is_known_later_and_never_by_less() {
    let last = |path: &Path| {
        let found = look(path).unwrap();
        found.last_shutdown.unwrap().sound().unwrap().result
    };
    let (interrupted, deadline) =
        (ShutdownResult::Failed(Reason::Interrupted), ShutdownResult::Failed(Reason::Deadline));
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    directory.begin_leaving(CREATED_MS).unwrap();
    assert_eq!(last(scratch.path()), interrupted);
    directory.record_overdue(CREATED_MS).unwrap();
    assert_eq!(last(scratch.path()), deadline);
    directory.begin_leaving(CREATED_MS).unwrap();
    assert_eq!(last(scratch.path()), deadline);
    // What gets its name all the same is whole.
    export(&directory, options()).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    directory.record_shutdown(&left(WRITER, ShutdownResult::Ok)).unwrap();
    directory.record_overdue(CREATED_MS).unwrap();
    assert_eq!(last(scratch.path()), ShutdownResult::Ok);
    drop(directory);
    // Whoever has not served has no end to tell of.
    let directory = open(scratch.path());
    directory.record_overdue(CREATED_MS).unwrap();
    assert_eq!(last(scratch.path()), ShutdownResult::Ok);
}

#[test]
fn a_snapshot_that_comes_too_late_or_would_not_fit_is_not_published() {
    let passed = Deadline::at(Instant::now());
    let little = Admission { available_bytes: 1 << 20, margin_percent: 15 };
    let cases = [
        (ExportOptions { deadline: passed, ..options() }, Reason::Deadline),
        (ExportOptions { admission: Some(little), ..options() }, Reason::SkippedRestoreMemory),
    ];
    for (options, reason) in cases {
        let scratch = tempfile::tempdir().unwrap();
        let directory = serving(scratch.path(), WRITER);
        let failure = export(&directory, options).unwrap_err();
        assert_eq!(failure.cause.reason, reason);
        assert!(!scratch.path().join("READY").exists());
        // It cannot even say so; the directory knows that it did not end well.
        drop(directory);
        assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Interrupted));
    }
}

#[test]
fn a_directory_that_is_gone_is_an_error_at_every_step_and_never_a_snapshot() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("handoff");
    let directory = serving(&path, WRITER);
    let export = directory.begin_export(options()).unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert!(export.shard_writer(0).is_err());
    let failure = export.publish(sample::manifest()).unwrap_err();
    assert_eq!(failure.cause.reason, Reason::WriteFailed);
    assert_eq!(
        directory.begin_export(options()).unwrap_err().cause.reason,
        Reason::SkippedNotOwner
    );
    assert!(directory.record_shutdown(&left(WRITER, ShutdownResult::Ok)).is_err());
    assert!(directory.look().is_err());
}

/// What a full or read-only disk does, where no test may mount one: a file replaces no directory that
/// has something in it.
#[test]
fn without_its_notes_a_start_does_not_serve_and_a_master_hands_nothing_over() {
    let scratch = handed_over();
    let obstacle = |name: &str| fs::create_dir_all(scratch.path().join(name).join("in the way"));
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    obstacle("serving").unwrap();
    let note = StartNote { incarnation: NEXT, now_wall_ms: CREATED_MS, outcome: "none".to_owned() };
    for _ in 0..2 {
        let refused = directory.begin_serving(note.clone());
        assert!(matches!(refused, Err(DirectoryError::Io { .. })));
    }
    drop(directory);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
    fs::remove_dir_all(scratch.path().join("serving")).unwrap();

    let directory = serving(scratch.path(), NEXT);
    obstacle("last_shutdown").unwrap();
    assert_eq!(export(&directory, options()).unwrap_err().cause.reason, Reason::WriteFailed);
    let failed = ShutdownResult::Failed(Reason::WriteFailed);
    assert!(directory.record_shutdown(&left(NEXT, failed)).is_err());
    drop(directory);
    assert!(!scratch.path().join("READY").exists());
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Killed));
}

#[test]
fn a_snapshot_without_the_file_of_each_shard_is_not_published() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    for finish_first in [false, true] {
        let export = directory.begin_export(options()).unwrap();
        if finish_first {
            let mut writer = export.shard_writer(0).unwrap();
            sample::write_all(&mut writer, &ranges(0)).unwrap();
            writer.finish(&sample::counts(&ranges(0))).unwrap();
        }
        let _begun = export.shard_writer(1).unwrap();
        assert!(export.shard_writer(1).is_err(), "a shard has one file");
        assert!(export.shard_writer(2).is_err(), "there are two shards");
        let failure = export.publish(sample::manifest()).unwrap_err();
        assert_eq!(failure.cause.reason, Reason::WriteFailed);
        assert_eq!(names(scratch.path()), ["last_shutdown", "lock", "serving"]);
    }
}

#[test]
fn a_master_that_does_not_serve_yet_leaves_things_as_they_are() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    let failure = directory.begin_export(options()).unwrap_err();
    assert_eq!(failure.cause.reason, Reason::SkippedProcessing);
    let failed = ShutdownResult::Failed(failure.cause.reason);
    directory.record_shutdown(&left(NEXT, failed)).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    directory.claim().unwrap();
    directory.record_shutdown(&left(NEXT, failed)).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
}

#[test]
fn steps_out_of_turn_are_refused() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    assert!(matches!(directory.claim(), Err(ClaimError::Directory(DirectoryError::OutOfTurn(_)))));
    begin(&mut directory, NEXT);
    let note = StartNote { incarnation: NEXT, now_wall_ms: CREATED_MS, outcome: "none".to_owned() };
    assert!(matches!(directory.begin_serving(note), Err(DirectoryError::OutOfTurn(_))));
}

#[test]
fn a_refusal_outlives_restarts_and_another_policy_until_it_is_cleared() {
    let scratch = handed_over();
    let cause = Cause::new(Reason::Stale, "too old");
    let refusal = open(scratch.path()).refuse(&cause, CREATED_MS).unwrap();
    assert!(!refusal.was_cleared());
    for policy in [FailurePolicy::Refuse, FailurePolicy::ServeEmpty] {
        let decision = decide(&look(scratch.path()).unwrap(), policy, &LIMITS, CREATED_MS);
        assert_eq!(decision, Decision::Refuse(cause.clone()));
    }
    // The next start refuses for the same reason, whatever else it would have found.
    let other = Cause::new(Reason::Corrupt, "damaged");
    open(scratch.path()).refuse(&other, CREATED_MS + 1).unwrap();
    let found = look(scratch.path()).unwrap().refused.unwrap();
    assert_eq!(found.sound().unwrap().cause(), cause);

    // The process that refuses does not keep an operator from clearing.
    let removed = crate::handoff::clear(scratch.path()).unwrap();
    assert_eq!(removed, ["READY", "last_shutdown", "refused"]);
    assert!(refusal.was_cleared());
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::None));
}

/// What was in the way may be gone, as memory that was short. Then the snapshot is as good as for a
/// start that comes late, and no better.
#[test]
fn a_refusal_alone_can_be_cleared_and_all_rules_hold_for_the_snapshot_that_stays() {
    let scratch = handed_over();
    assert!(!crate::handoff::clear_refusal(scratch.path()).unwrap());
    let refusal =
        open(scratch.path()).refuse(&Cause::new(Reason::Memory, "short"), CREATED_MS).unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::Memory));
    assert!(crate::handoff::clear_refusal(scratch.path()).unwrap());
    assert!(refusal.was_cleared());
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    let late = CREATED_MS + LIMITS.max_age_ms + 1;
    let decision = decide(&look(scratch.path()).unwrap(), FailurePolicy::Refuse, &LIMITS, late);
    assert!(
        matches!(&decision, Decision::Refuse(cause) if cause.reason == Reason::Stale),
        "{decision:?}"
    );
    // One that was claimed is used up, whoever has refused after it.
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    directory.refuse(&Cause::new(Reason::Corrupt, "damaged"), CREATED_MS).unwrap();
    assert!(crate::handoff::clear_refusal(scratch.path()).unwrap());
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
}

#[test]
fn a_refusal_that_cannot_be_read_is_one_all_the_same() {
    let scratch = handed_over();
    fs::write(scratch.path().join("refused"), "{").unwrap();
    assert_eq!(would(scratch.path(), FailurePolicy::ServeEmpty), Err(Reason::Unknown));
}

/// A machine that fails then leaves the name or not, as one that fails a moment earlier does.
#[test]
fn a_snapshot_that_has_its_name_is_published_though_the_sync_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    let ready = scratch.path().join("READY");
    probe::fail_with(Some(Box::new(move || match ready.exists() {
        true => Err(std::io::Error::other("the disk fails")),
        false => Ok(()),
    })));
    let published = export(&directory, options());
    probe::fail_with(None);
    assert_eq!(published.map(|published| published.objects), Ok(4));
    directory.record_shutdown(&left(WRITER, ShutdownResult::Ok)).unwrap();
    drop(directory);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}
