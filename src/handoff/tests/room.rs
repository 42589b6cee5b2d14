//! What must be written after a claim has its place before it.

use std::fs;

use super::protocol::{NEXT, names, open, would};
use super::sample::{begin, handed_over};
use crate::handoff::decide::FailurePolicy;
use crate::handoff::directory::ClaimError;
use crate::handoff::room::Room;

#[test]
fn a_start_that_could_not_say_that_it_serves_claims_nothing() {
    let scratch = handed_over();
    fs::create_dir(scratch.path().join("serving")).unwrap();
    let mut directory = open(scratch.path());
    let refused = directory.claim();
    assert!(
        matches!(&refused, Err(ClaimError::Directory(error)) if error.to_string().contains("serving"))
    );
    assert!(scratch.path().join("READY").exists());
    fs::remove_dir(scratch.path().join("serving")).unwrap();
    directory.claim().unwrap();
    begin(&mut directory, NEXT);
}

#[test]
fn the_note_of_a_start_takes_the_room_that_was_made_for_it() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.make_room().unwrap();
    directory.make_room().unwrap();
    let made: Vec<String> =
        names(scratch.path()).into_iter().filter(|name| name.starts_with("WRITING-")).collect();
    let [name] = made.as_slice() else { panic!("{made:?}") };
    let room = fs::metadata(scratch.path().join(name)).unwrap();
    directory.claim().unwrap();
    begin(&mut directory, NEXT);
    let note = fs::metadata(scratch.path().join("serving")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(note.ino(), room.ino());
    assert!(note.len() < room.len(), "{} in {}", note.len(), room.len());
}

#[test]
fn room_that_nobody_needed_is_gone_with_whoever_made_it() {
    let scratch = handed_over();
    let mut directory = open(scratch.path());
    directory.make_room().unwrap();
    drop(directory);
    assert_eq!(names(scratch.path()), ["READY", "last_shutdown", "lock"]);
    assert_eq!(would(scratch.path(), FailurePolicy::Refuse), Ok(()));
    assert!(Room::make(&scratch.path().join("nowhere")).is_err());
}
