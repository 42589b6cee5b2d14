//! Damage of a whole directory: every byte of every file in it, and files that are missing or do not
//! belong together. Nothing of it is ever restored.

use std::fs;
use std::path::Path;

use mooring_proto::Incarnation;

use super::sample::{CREATED_MS, WRITER, export, handed_over, left, options, serving};
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::found::look;
use crate::handoff::notes::ShutdownResult;
use crate::handoff::reason::Reason;
use crate::handoff::snapshot::Snapshot;

const FILES: [&str; 3] = ["READY/manifest", "READY/shard-0000", "READY/shard-0001"];

/// What comes of a start that reads the snapshot to its end: restored, or why not.
fn outcome(path: &Path) -> Result<(), Reason> {
    let limits = Limits { max_age_ms: 120_000, memory: None };
    match decide(&look(path).unwrap(), FailurePolicy::ServeEmpty, &limits, CREATED_MS) {
        Decision::Restore => {}
        Decision::ServeEmpty(cause) | Decision::Refuse(cause) => return Err(cause.reason),
    }
    let read = Snapshot::open(&path.join("READY")).and_then(|snapshot| snapshot.verify());
    read.map_err(|error| error.reason())
}

/// The file cut at each byte, with a bit of each byte flipped, and with something behind its end.
fn each_damage(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let cut = (0..bytes.len()).map(|length| bytes[..length].to_vec());
    let flipped = (0..bytes.len()).map(|index| {
        let mut damaged = bytes.to_vec();
        damaged[index] ^= 1 << (index % 8);
        damaged
    });
    let longer = [&[0][..], b"garbage", bytes].into_iter().map(move |tail| [bytes, tail].concat());
    cut.chain(flipped).chain(longer)
}

#[test]
fn no_byte_of_a_snapshot_can_be_cut_changed_or_added() {
    let scratch = handed_over();
    for name in FILES {
        let path = scratch.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for damaged in each_damage(&bytes) {
            fs::write(&path, &damaged).unwrap();
            assert_eq!(outcome(scratch.path()), Err(Reason::Corrupt), "{name}");
        }
        fs::write(&path, &bytes).unwrap();
        assert_eq!(outcome(scratch.path()), Ok(()), "{name}");
    }
}

#[test]
fn a_file_that_is_missing_or_no_file_is_noticed() {
    for name in FILES {
        let scratch = handed_over();
        let path = scratch.path().join(name);
        fs::remove_file(&path).unwrap();
        assert_eq!(outcome(scratch.path()), Err(Reason::Corrupt), "{name} is missing");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert_eq!(outcome(scratch.path()), Err(Reason::Corrupt), "{name} leads nowhere");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let refused = outcome(scratch.path()).unwrap_err();
        assert!([Reason::Corrupt, Reason::Unreadable].contains(&refused), "{name}: {refused}");
    }
}

#[test]
fn files_that_have_changed_places_are_noticed() {
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let scratch = handed_over();
        let [one, other] = [one, other].map(|index: usize| scratch.path().join(FILES[index]));
        let aside = scratch.path().join("aside");
        fs::rename(&one, &aside).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(&aside, &other).unwrap();
        assert_eq!(outcome(scratch.path()), Err(Reason::Corrupt), "{one:?} and {other:?}");
    }
}

/// Both are whole, and each file is sound: only together they are wrong.
#[test]
fn a_mixture_of_two_snapshots_is_noticed() {
    let other = tempfile::tempdir().unwrap();
    let later = Incarnation(WRITER.0 + 1);
    let directory = serving(other.path(), later);
    export(&directory, options()).unwrap();
    directory.record_shutdown(&left(later, ShutdownResult::Ok)).unwrap();
    assert_eq!(outcome(other.path()), Ok(()));
    // Each mixture of the three files.
    for taken in 1..(1 << FILES.len()) - 1 {
        let scratch = handed_over();
        for (_, name) in FILES.iter().enumerate().filter(|(index, _)| taken >> index & 1 == 1) {
            fs::copy(other.path().join(name), scratch.path().join(name)).unwrap();
        }
        // A manifest of another master than the last one is not even followed to its files.
        let expected = if taken & 1 == 1 { Reason::Poisoned } else { Reason::Corrupt };
        assert_eq!(outcome(scratch.path()), Err(expected), "{taken:03b}");
    }
    // And all of it, but for who has left it.
    let scratch = handed_over();
    for name in FILES {
        fs::copy(other.path().join(name), scratch.path().join(name)).unwrap();
    }
    assert_eq!(outcome(scratch.path()), Err(Reason::Poisoned));
}

#[test]
fn a_damaged_word_about_who_has_left_never_vouches_for_another_snapshot() {
    let scratch = handed_over();
    let path = scratch.path().join("last_shutdown");
    let bytes = fs::read(&path).unwrap();
    let mut refused = 0;
    for damaged in each_damage(&bytes) {
        fs::write(&path, &damaged).unwrap();
        match outcome(scratch.path()) {
            // What else it says has no part in the decision.
            Ok(()) => {
                let told = String::from_utf8_lossy(&damaged).to_lowercase();
                assert!(told.contains(&WRITER.to_string()), "{told}");
            }
            Err(reason) => {
                assert!([Reason::Corrupt, Reason::Poisoned].contains(&reason), "{reason}");
                refused += 1;
            }
        }
    }
    assert!(refused > bytes.len(), "each cut and more: {refused}");
}

#[test]
fn a_damaged_note_against_a_snapshot_stands_against_it_all_the_same() {
    let notes = [
        ("serving", r#"{"incarnation": "0000000000000002", "pid": 1, "start": "none"}"#),
        ("refused", r#"{"reason": "stale", "detail": "too old", "at_wall_ms": 1}"#),
        ("POISON", r#"{"incarnation": "0000000000000002", "found": "READY"}"#),
    ];
    for (name, text) in notes {
        let scratch = handed_over();
        let path = scratch.path().join(name);
        for damaged in each_damage(text.as_bytes()).chain([text.as_bytes().to_vec()]) {
            fs::write(&path, &damaged).unwrap();
            assert!(outcome(scratch.path()).is_err(), "{name}: {damaged:?}");
        }
    }
}
