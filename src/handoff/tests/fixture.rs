//! The directory that the first version has left, in `tests/fixtures/handoff-v1`.

use std::fs;
use std::path::{Path, PathBuf};

use super::sample::{self, CREATED_MS, manifest, ranges, read_snapshot};
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::error::ReadError;
use crate::handoff::found::look;
use crate::handoff::inspect::inspect;
use crate::handoff::manifest::Manifest;
use crate::handoff::reason::Reason;
use crate::handoff::snapshot::Snapshot;

const LIMITS: Limits = Limits { max_age_ms: 120_000, memory: None };

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/handoff-v1")
}

/// A copy that a test may change.
fn copy() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir(scratch.path().join("READY")).unwrap();
    for name in ["last_shutdown", "READY/manifest", "READY/shard-0000", "READY/shard-0001"] {
        fs::copy(path().join(name), scratch.path().join(name)).unwrap();
    }
    scratch
}

#[test]
fn what_the_first_version_has_left_is_restored() {
    let found = look(&path()).unwrap();
    let decision = decide(&found, FailurePolicy::Refuse, &LIMITS, CREATED_MS + 2_000);
    assert_eq!(decision, Decision::Restore);
    let snapshot = Snapshot::open(&path().join("READY")).unwrap();
    assert_eq!(snapshot.manifest(), &manifest());
    assert_eq!(read_snapshot(&snapshot).unwrap(), [ranges(0), ranges(1)]);
}

#[test]
fn what_this_version_writes_is_byte_for_byte_what_the_first_one_wrote() {
    assert_eq!(fs::read(path().join("READY/manifest")).unwrap(), manifest().encode());
    for shard in 0..2 {
        let (_, bytes) = sample::file(shard, &ranges(shard));
        let name = format!("READY/shard-{shard:04}");
        assert_eq!(fs::read(path().join(name)).unwrap(), bytes);
    }
}

/// Makes a file one of the next format.
fn make_next_format(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[8] = 2;
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

// R49
#[test]
fn what_a_later_version_has_left_is_refused_by_its_version() {
    let scratch = copy();
    make_next_format(&scratch.path().join("READY/manifest"));
    let found = inspect(scratch.path(), FailurePolicy::Refuse, &LIMITS, CREATED_MS).unwrap();
    let Decision::Refuse(cause) = &found.decision else { panic!("{:?}", found.decision) };
    assert_eq!(cause.reason, Reason::Version);
    assert!(cause.detail.contains("format 2"), "{cause}");
    assert_eq!(found.snapshot.unwrap().format, Some(2));
}

#[test]
fn a_file_of_a_later_version_under_a_manifest_of_this_one_is_refused_by_its_version() {
    let scratch = copy();
    make_next_format(&scratch.path().join("READY/shard-0001"));
    let snapshot = Snapshot::open(&scratch.path().join("READY")).unwrap();
    let error = snapshot.verify().unwrap_err();
    assert!(matches!(error, ReadError::Format { found: 2, .. }), "{error}");
}

#[test]
#[ignore = "writes the fixture; only for a new format, which gets a directory of its own"]
fn write_the_fixture() {
    let scratch = sample::handed_over();
    let written = Manifest::decode(&fs::read(scratch.path().join("READY/manifest")).unwrap());
    assert_eq!(written, Ok(manifest()));
    fs::create_dir_all(path().join("READY")).unwrap();
    for name in ["last_shutdown", "READY/manifest", "READY/shard-0000", "READY/shard-0001"] {
        fs::copy(scratch.path().join(name), path().join(name)).unwrap();
    }
}
