//! A start that does not come to serve, and what it had claimed.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use mooring_proto::Incarnation;

use super::protocol::{NEXT, copy_tree, names, open, would};
use super::sample::{
    CREATED_MS, WRITER, begin, export, handed_over, options, ranges, read_snapshot, serving,
};
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::directory::{ClaimError, DirectoryError, HandoffDirectory, StartNote};
use crate::handoff::durable::probe;
use crate::handoff::found::look;
use crate::handoff::reason::{Cause, Reason};
use crate::handoff::retreat::GivenBack;
use crate::handoff::snapshot::Snapshot;

fn note() -> StartNote {
    StartNote { incarnation: NEXT, now_wall_ms: CREATED_MS, outcome: "restored".to_owned() }
}

#[test]
fn what_was_claimed_and_not_served_is_given_back_whole_and_with_its_age() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    let snapshot = directory.claim().unwrap();
    read_snapshot(&snapshot).unwrap();
    assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
    drop(directory);
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    let snapshot = Snapshot::open(&scratch.path().join("READY")).unwrap();
    assert_eq!(read_snapshot(&snapshot).unwrap(), [ranges(0), ranges(1)]);
    // It is not younger by that.
    let limits = Limits { max_age_ms: 10, memory: None };
    let found = look(scratch.path()).unwrap();
    let decision = decide(&found, FailurePolicy::ServeEmpty, &limits, CREATED_MS + 11);
    assert!(
        matches!(&decision, Decision::ServeEmpty(cause) if cause.reason == Reason::Stale),
        "{decision:?}"
    );
}

/// Wherever the process or the machine fails, the next start finds all of it or nothing, and whoever
/// serves ends it for good.
#[test]
fn a_crash_while_it_is_given_back_leaves_it_ready_or_used_up() {
    let scratch = handed_over();
    let copies = tempfile::tempdir().unwrap();
    let steps = Rc::new(RefCell::new(Vec::new()));
    let (path, kept, seen) = (scratch.path().to_owned(), copies.path().to_owned(), steps.clone());
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    probe::look_with(Some(Box::new(move |_| {
        let copy = kept.join(seen.borrow().len().to_string());
        copy_tree(&path, &copy);
        seen.borrow_mut().push(copy);
    })));
    probe::step("claimed");
    directory.retreat().give_back().unwrap();
    probe::look_with(None);

    let steps = Rc::try_unwrap(steps).unwrap().into_inner();
    let outcomes: Vec<_> = steps.iter().map(|copy| would(copy, FailurePolicy::Refuse)).collect();
    assert_eq!(outcomes, [Err(Reason::AbortedPrevious), Ok(()), Ok(())]);
    for copy in steps {
        let mut next = open(&copy);
        if copy.join("READY").exists() {
            next.claim().unwrap();
        }
        begin(&mut next, NEXT);
        drop(next);
        assert_eq!(names(&copy), ["lock", "serving"]);
        assert_eq!(would(&copy, FailurePolicy::Refuse), Err(Reason::Killed));
    }
}

#[test]
fn a_start_that_has_turned_back_neither_claims_nor_serves_nor_refuses() {
    for claims in [false, true] {
        let scratch = handed_over();
        let mut directory = open(scratch.path());
        if claims {
            directory.claim().unwrap();
        }
        let expected = if claims { GivenBack::Snapshot } else { GivenBack::Untouched };
        assert_eq!(directory.retreat().give_back().unwrap(), expected);
        assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Untouched);
        assert!(matches!(
            directory.claim(),
            Err(ClaimError::Directory(DirectoryError::OutOfTurn(_)))
        ));
        assert!(matches!(directory.begin_serving(note()), Err(DirectoryError::OutOfTurn(_))));
        let cause = Cause::new(Reason::Corrupt, "found too late");
        assert!(matches!(directory.refuse(&cause, CREATED_MS), Err(DirectoryError::OutOfTurn(_))));
        assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
        assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    }
}

#[test]
fn a_master_that_serves_gives_nothing_back() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    let retreat = directory.retreat();
    begin(&mut directory, NEXT);
    assert_eq!(retreat.give_back().unwrap(), GivenBack::Serving);
    assert_eq!(names(scratch.path()), ["lock", "serving"]);
    // The lock goes with the directory, whoever still could turn back.
    drop(directory);
    assert_eq!(retreat.give_back().unwrap(), GivenBack::Untouched);
    drop(open(scratch.path()));
}

/// With the lock gone, another master may have found the claim and serve by now.
#[test]
fn a_claim_that_another_master_may_have_found_is_used_up() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    fs::remove_file(scratch.path().join("lock")).unwrap();
    assert!(matches!(directory.retreat().give_back(), Err(DirectoryError::NotOwner(_))));
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
    assert!(directory.begin_serving(note()).is_err());
}

/// A disk that fails just then leaves it open whether the note that it serves lasts. It never
/// serves when it is told to leave then, so its name must not stand beside the snapshot.
#[test]
fn a_note_that_may_not_last_is_withdrawn_before_the_snapshot_is_given_back() {
    let scratch = handed_over();
    let directory = failed_while_it_began_to_serve(scratch.path());
    assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
    drop(directory);
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}

#[test]
fn a_note_that_cannot_be_withdrawn_leaves_the_claim_used_up() {
    let scratch = handed_over();
    let directory = failed_while_it_began_to_serve(scratch.path());
    probe::fail_with(Some(Box::new(|| Err(io::Error::other("the disk fails")))));
    let retreat = directory.retreat();
    assert!(matches!(retreat.give_back(), Err(DirectoryError::Io { .. })));
    probe::fail_with(None);
    assert_eq!(retreat.give_back().unwrap(), GivenBack::Lost);
    drop(directory);
    assert_eq!(retreat.give_back().unwrap(), GivenBack::Lost);
    assert!(names(scratch.path()).contains(&"CLAIMED".to_owned()));
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
}

/// Killed between the note and the end of its claim, it has served nobody either.
#[test]
fn a_claim_beside_the_note_of_its_own_start_is_one_that_did_not_come_to_serve() {
    let scratch = handed_over();
    drop(failed_while_it_began_to_serve(scratch.path()));
    assert!(names(scratch.path()).contains(&"CLAIMED".to_owned()));
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Err(Reason::AbortedPrevious));
}

/// Of one with the policy to refuse that has found its snapshot damaged, the claim stays.
#[test]
fn a_start_that_refuses_after_its_claim_has_lost_it_and_one_that_refuses_without_has_not() {
    for (claims, expected) in [(true, GivenBack::Lost), (false, GivenBack::Untouched)] {
        let scratch = handed_over();
        let mut directory = open(scratch.path());
        let retreat = directory.retreat();
        if claims {
            directory.claim().unwrap();
        }
        directory.refuse(&Cause::new(Reason::Corrupt, "a flipped bit"), CREATED_MS).unwrap();
        assert_eq!(retreat.give_back().unwrap(), expected);
    }
}

/// Without the sync a machine that fails leaves one of the two names.
#[test]
fn a_snapshot_whose_name_is_back_is_given_back_though_the_sync_fails() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    fail_while(scratch.path(), |path| path.join("READY").exists(), u32::MAX);
    assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
    probe::fail_with(None);
    drop(directory);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}

/// Fails so many steps of this thread while the directory is in such a state.
fn fail_while(path: &Path, state: fn(&Path) -> bool, mut times: u32) {
    let path = path.to_owned();
    probe::fail_with(Some(Box::new(move || {
        if times == 0 || !state(&path) {
            return Ok(());
        }
        times -= 1;
        Err(io::Error::other("the disk fails"))
    })));
}

/// Its note lasts, and its claim has no name any more.
fn is_behind_its_claim(path: &Path) -> bool {
    path.join("serving").exists() && !path.join("CLAIMED").exists()
}

/// The snapshot could not be given back any more, and what was restored is all that there is.
#[test]
fn a_start_serves_though_the_sync_behind_the_end_of_its_claim_fails() {
    for times in [1, 2, u32::MAX] {
        let scratch = handed_over();
        let mut directory = open(scratch.path());
        directory.claim().unwrap();
        fail_while(scratch.path(), is_behind_its_claim, times);
        let leftovers = directory.begin_serving(note()).unwrap();
        probe::fail_with(None);
        leftovers.delete();
        assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Serving);
        assert_eq!(directory.check(), Ok(()));
        // Of what left the snapshot the note may stay, if its own name could not be changed.
        let stays = names(scratch.path()).contains(&"last_shutdown".to_owned());
        assert_eq!(stays, times > 1);
        let next = would(scratch.path(), FailurePolicy::Refuse);
        let expected = if stays { Reason::AbortedPrevious } else { Reason::Killed };
        assert_eq!(next, Err(expected), "{times} steps fail");
        assert!(names(scratch.path()).iter().all(|name| !name.starts_with("VOID-")));

        export(&directory, options()).unwrap();
        drop(directory);
        assert_eq!(
            would(scratch.path(), FailurePolicy::Refuse),
            Ok(()),
            "its own snapshot is good"
        );
    }
}

/// A machine that fails brings back what stood in the directory at its last sync.
#[test]
fn a_claim_that_a_failed_machine_brings_back_behind_a_served_start_is_never_restored() {
    let scratch = handed_over();
    let synced = tempfile::tempdir().unwrap();
    let (path, kept) = (scratch.path().to_owned(), synced.path().join("synced"));
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    let (from, to) = (path.clone(), kept.clone());
    probe::look_with(Some(Box::new(move |step| {
        if step == "sync a directory" {
            let _ = fs::remove_dir_all(&to);
            copy_tree(&from, &to);
        }
    })));
    fail_while(&path, is_behind_its_claim, u32::MAX);
    directory.begin_serving(note()).unwrap();
    probe::fail_with(None);
    probe::look_with(None);

    assert_eq!(names(&kept), ["CLAIMED", "last_shutdown", "lock", "serving"]);
    for policy in [FailurePolicy::ServeEmpty, FailurePolicy::Refuse] {
        assert_eq!(would(&kept, policy), Err(Reason::AbortedPrevious));
    }
    let mut next = open(&kept);
    begin(&mut next, Incarnation(3));
    drop(next);
    assert_eq!(names(&kept), ["lock", "serving"]);
    assert_eq!(would(&kept, FailurePolicy::Refuse), Err(Reason::Killed));
}

/// The claim still has its name then, and so it can be given back.
#[test]
fn a_start_whose_claim_cannot_be_voided_at_all_gives_it_back() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    let (serving, mut steps) = (scratch.path().join("serving"), 0);
    probe::fail_with(Some(Box::new(move || {
        steps += u32::from(serving.exists());
        // The first one syncs the note.
        if steps == 2 { Err(io::Error::other("the disk fails")) } else { Ok(()) }
    })));
    assert!(matches!(directory.begin_serving(note()), Err(DirectoryError::Io { .. })));
    probe::fail_with(None);
    assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
    drop(directory);
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}

#[test]
fn a_note_of_which_it_cannot_be_told_whose_it_is_leaves_the_claim_used_up() {
    for damage in ["serving", "CLAIMED/manifest"] {
        let scratch = handed_over();
        let directory = failed_while_it_began_to_serve(scratch.path());
        fs::write(scratch.path().join(damage), "{").unwrap();
        let refused = directory.retreat().give_back();
        assert!(matches!(refused, Err(DirectoryError::Io { .. })), "{damage}: {refused:?}");
        drop(directory);
        assert!(!scratch.path().join("READY").exists());
        let next = would(scratch.path(), FailurePolicy::Refuse);
        assert_eq!(next, Err(Reason::AbortedPrevious), "{damage}");
    }
}

/// The master that left the snapshot may have been killed before it withdrew that it serves.
#[test]
fn the_note_of_the_master_that_made_the_snapshot_stays_when_it_is_given_back() {
    let scratch = tempfile::tempdir().unwrap();
    let writer = serving(scratch.path(), WRITER);
    export(&writer, options()).unwrap();
    drop(writer);
    let mut directory = open(scratch.path());
    directory.claim().unwrap();
    assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
    drop(directory);
    assert!(names(scratch.path()).contains(&"serving".to_owned()));
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
}

/// A start with a claim whose note that it serves has its name, and no more than that.
fn failed_while_it_began_to_serve(path: &Path) -> HandoffDirectory {
    let mut directory = open(path);
    directory.claim().unwrap();
    let serving = path.join("serving");
    probe::fail_with(Some(Box::new(move || match serving.exists() {
        true => Err(io::Error::other("the name may not last")),
        false => Ok(()),
    })));
    assert!(matches!(directory.begin_serving(note()), Err(DirectoryError::Io { .. })));
    probe::fail_with(None);
    assert!(names(path).contains(&"serving".to_owned()));
    directory
}
