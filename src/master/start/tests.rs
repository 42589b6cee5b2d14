use std::io;
use std::path::Path;

use super::*;
use crate::handoff::{handed_over, probe};

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
