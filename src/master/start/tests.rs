use std::io;
use std::path::Path;

use clap::Parser;

use super::*;
use crate::handoff::{GivenBack, handed_over, probe};
use crate::master::MasterArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: MasterArgs,
}

/// Opens the directory and claims its snapshot, as an attempt does before it restores.
fn claimed(path: &Path) -> HandoffDirectory {
    let mut directory = HandoffDirectory::open(path, Duration::ZERO).unwrap();
    directory.claim().unwrap();
    directory
}

fn attempt_to_serve(directory: HandoffDirectory) -> Result<Attempt, StartError> {
    serve(directory, CoreConfig::new(1, 1, Incarnation(2)), 1, None, "restored")
}

/// The note has its name, and whether that lasts is not known: the process must not serve, and the
/// next attempt is a start like any other.
#[test]
fn a_start_whose_note_fails_once_has_the_snapshot_at_its_second_attempt() {
    let scratch = handed_over();
    let directory = claimed(scratch.path());
    let serving = scratch.path().join("serving");
    let mut fails_once = Some(());
    probe::fail_with(Some(Box::new(move || {
        match serving.exists() && fails_once.take().is_some() {
            true => Err(io::Error::other("the name may not last")),
            false => Ok(()),
        }
    })));
    assert!(matches!(attempt_to_serve(directory), Err(StartError::Directory(_))));
    probe::fail_with(None);
    assert!(scratch.path().join("READY/manifest").exists());
    assert!(!scratch.path().join("serving").exists());

    assert!(matches!(attempt_to_serve(claimed(scratch.path())), Ok(Attempt::Begun(_))));
    assert!(!scratch.path().join("READY").exists() && !scratch.path().join("CLAIMED").exists());
    assert!(scratch.path().join("serving").exists());
}

/// What was restored has no other copy any more, so nothing that can wait may end the process.
#[test]
fn what_is_left_over_stays_if_no_thread_can_be_had_for_it() {
    let scratch = handed_over();
    let mut directory = claimed(scratch.path());
    let note =
        StartNote { incarnation: Incarnation(2), now_wall_ms: 1, outcome: "restored".to_owned() };
    let leftovers = directory.begin_serving(note).unwrap();
    // More than there are addresses.
    delete_beside(leftovers, thread::Builder::new().stack_size(1 << 60));
    let names = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let void = names.filter(|name| name.to_str().unwrap().starts_with("VOID-")).count();
    assert!(void > 0, "the next start deletes it");
}

/// Takes over as an attempt does that has decided to restore. While the snapshot has this name, one
/// step of the claim fails.
fn failed_to_claim(path: &Path, name: &str) -> (HandoffDirectory, StartError) {
    let line = ["master", "--dev", "--handoff-dir", path.to_str().unwrap()];
    let options = MasterOptions::new(&Line::parse_from(line).args).unwrap();
    let handoff = options.handoff.as_ref().unwrap();
    let mut directory = HandoffDirectory::open(path, Duration::ZERO).unwrap();
    directory.make_room().unwrap();
    let snapshot = path.join(name);
    let mut fails_once = Some(());
    probe::fail_with(Some(Box::new(move || {
        match snapshot.exists() && fails_once.take().is_some() {
            true => Err(io::Error::other("the disk fails")),
            false => Ok(()),
        }
    })));
    let (admin, phase) = (Admin::new(), telemetry::phase("start"));
    let outcome = take_over(&mut directory, &options, handoff, &admin, &phase);
    probe::fail_with(None);
    (directory, outcome.map(|_| ()).unwrap_err())
}

/// Before the rename it has not been made, and after it, when its sync fails, it is not known whether
/// it lasts.
#[test]
fn a_start_whose_claim_fails_once_has_the_snapshot_at_its_second_attempt() {
    for name in ["READY", "CLAIMED"] {
        let scratch = handed_over();
        let (directory, error) = failed_to_claim(scratch.path(), name);
        assert!(matches!(error, StartError::Claim(_)), "{name}: {error:?}");
        assert!(scratch.path().join("READY/manifest").exists(), "{name}");
        assert!(!scratch.path().join("CLAIMED").exists(), "{name}");
        // One that is told to leave meanwhile finds what is true.
        assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Untouched);
        drop(directory);

        assert!(matches!(attempt_to_serve(claimed(scratch.path())), Ok(Attempt::Begun(_))));
        assert!(scratch.path().join("serving").exists(), "{name}");
    }
}
