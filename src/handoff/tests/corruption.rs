//! Every way in which a small snapshot can be damaged ends in an error with the right reason.

use std::fs;
use std::time::Duration;

use super::sample::{self, Owned, WRITER, file, handed_over, manifest, ranges, read};
use crate::handoff::deadline::Deadline;
use crate::handoff::decide::{Decision, FailurePolicy, Limits, decide};
use crate::handoff::directory::{ClaimError, HandoffDirectory};
use crate::handoff::found::look;
use crate::handoff::inspect::inspect;
use crate::handoff::manifest::{Manifest, ShardFile};
use crate::handoff::reader::ShardFileReader;
use crate::handoff::reason::Reason;
use crate::handoff::snapshot::Snapshot;
use crate::regular_file;

/// Every damage of some bytes: each bit flipped, each length that is too short, bytes swapped, and
/// something behind the end.
fn damages(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let flipped = (0..bytes.len() * 8).map(|bit| {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged
    });
    let cut = (0..bytes.len()).map(|length| bytes[..length].to_vec());
    let zeroed = (0..bytes.len().div_ceil(64)).filter_map(move |block| {
        let mut damaged = bytes.to_vec();
        let end = (block * 64 + 64).min(bytes.len());
        damaged[block * 64..end].fill(0);
        (damaged != bytes).then_some(damaged)
    });
    let tails: [&[u8]; 4] = [&[0], &[0; 4], &[0; 16], b"garbage that is longer than a header"];
    let extended = tails.into_iter().map(move |tail| [bytes, tail].concat());
    let doubled = std::iter::once([bytes, bytes].concat());
    flipped.chain(cut).chain(zeroed).chain(extended).chain(doubled)
}

#[test]
fn no_damage_of_the_manifest_is_missed() {
    let bytes = manifest().encode();
    let mut count = 0;
    for damaged in damages(&bytes) {
        let error = Manifest::decode(&damaged).unwrap_err();
        assert_eq!(error.reason(), Reason::Corrupt, "{error}");
        count += 1;
    }
    assert!(count > bytes.len() * 9);
}

#[test]
fn no_damage_of_the_file_of_a_shard_is_missed() {
    for shard in 0..2 {
        let (expected, bytes) = file(shard, &ranges(shard));
        for damaged in damages(&bytes) {
            let error = read(&expected, &damaged).unwrap_err();
            assert_eq!(error.reason(), Reason::Corrupt, "{error}");
        }
    }
}

#[test]
fn chunks_that_are_lost_doubled_or_swapped_are_noticed() {
    let records: Vec<Owned> = (0..25_000_u64)
        .map(|index| {
            sample::object(sample::place(0, index * 64), format!("{index:0>96}").as_bytes())
        })
        .collect();
    let (expected, bytes) = file(0, &records);
    let chunks = chunks_of(&bytes);
    assert!(chunks.len() >= 3, "two of records and the end");
    let join = |parts: &[&[u8]]| [&[&bytes[..32]], parts].concat().concat();
    let (first, second, end) = (chunks[0], chunks[1], chunks[chunks.len() - 1]);
    let rest: Vec<&[u8]> = chunks[2..].to_vec();
    let orders = [
        join(&[&[second, first], rest.as_slice()].concat()),
        join(&[&[first], rest.as_slice()].concat()),
        join(&[&[first, first, second], rest.as_slice()].concat()),
        join(&[first, end]),
        join(&[end]),
        join(&[first, second]),
    ];
    for damaged in orders {
        assert_eq!(read(&expected, &damaged).unwrap_err().reason(), Reason::Corrupt);
    }
    assert_eq!(read(&expected, &join(&chunks)), Ok(records));
}

/// The chunks of a file with their headers.
/// What hangs a reader that only opens it, or gives bytes without end.
#[test]
fn what_is_no_regular_file_hangs_no_look_is_not_restored_and_can_be_cleared() {
    let names = ["READY/manifest", "READY/shard-0000", "READY", "CLAIMED", "refused", "POISON"];
    for name in names.into_iter().chain(["serving", "last_shutdown"]) {
        for (kind, impostor) in regular_file::impostors("it") {
            let scratch = handed_over();
            let path = scratch.path().join(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
            fs::rename(impostor.path().join("it"), &path).unwrap();
            let limits = Limits { max_age_ms: 120_000, memory: None };
            let now_ms = sample::CREATED_MS;
            let found =
                inspect(scratch.path(), FailurePolicy::ServeEmpty, &limits, now_ms).unwrap();
            assert_ne!(found.decision, Decision::Restore, "a {kind} as {name}");
            let directory = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap();
            assert!(directory.clear().unwrap().iter().any(|it| name.starts_with(it.as_str())));
            assert!(fs::symlink_metadata(&path).is_err(), "a {kind} as {name} stays");
        }
    }
}

#[test]
fn a_lock_that_is_no_regular_file_is_refused_by_name() {
    for (kind, scratch) in regular_file::impostors("lock") {
        let error = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("lock: is a {kind}")) && text.contains("remove"), "{text}");
    }
}

fn chunks_of(bytes: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    let mut rest = &bytes[32..];
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize + 16;
        chunks.push(&rest[..length]);
        rest = &rest[length..];
    }
    chunks
}

#[test]
fn a_whole_file_of_another_shard_or_snapshot_is_refused() {
    let (expected, bytes) = file(0, &ranges(0));
    let (_, other_shard) = file(1, &ranges(0));
    assert_eq!(read(&expected, &other_shard).unwrap_err().reason(), Reason::Corrupt);
    let other = mooring_proto::Incarnation(WRITER.0 + 1);
    let reader = ShardFileReader::new(bytes.as_slice(), &expected, other, Deadline::NEVER);
    assert_eq!(reader.unwrap_err().reason(), Reason::Corrupt);
    // One with the right identity and other content.
    let (_, other_content) = file(0, &ranges(1));
    assert_eq!(read(&expected, &other_content).unwrap_err().reason(), Reason::Corrupt);
}

#[test]
fn a_manifest_that_says_something_else_of_a_file_is_noticed_at_its_end() {
    let (expected, bytes) = file(0, &ranges(0));
    let mut lies = [expected; 6];
    lies[0].checksum ^= 1;
    lies[1].length_bytes += 1;
    lies[2].ranges += 1;
    lies[3].key_bytes += 1;
    lies[4].record.objects += 1;
    lies[5].record.holds -= 1;
    for lie in lies {
        assert_eq!(read(&lie, &bytes).unwrap_err().reason(), Reason::Corrupt);
    }
}

#[test]
fn a_chunk_that_claims_to_be_huge_is_not_allocated() {
    let (expected, mut bytes) = file(0, &ranges(0));
    bytes[32 + 4..32 + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(&expected, &bytes).unwrap_err();
    assert!(error.to_string().contains("4294967295"), "{error}");
}

#[test]
fn whatever_the_payload_of_a_chunk_is_with_right_checksums_nothing_panics() {
    let (expected, bytes) = file(0, &ranges(0));
    let payload = 32 + 16..bytes.len() - 16;
    for index in payload.clone() {
        for value in [0x00, 0x01, 0x03, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[index] = value;
            let checksum = crc32c::crc32c(&damaged[32 + 4..payload.end]);
            damaged[32..32 + 4].copy_from_slice(&checksum.to_le_bytes());
            let told = ShardFile { checksum: crc32c::crc32c(&damaged), ..expected };
            // It may mean something else, since whoever makes checksums may write what they want.
            if let Ok(records) = read(&told, &damaged) {
                assert_eq!(records.len(), ranges(0).len());
            }
        }
    }
}

#[test]
fn a_damaged_directory_is_found_before_the_claim_or_after_it_and_never_restored() {
    let whole = sample::handed_over();
    let limits = Limits { max_age_ms: 120_000, memory: None };
    for name in ["manifest", "shard-0000", "shard-0001"] {
        let bytes = fs::read(whole.path().join("READY").join(name)).unwrap();
        let (mut before, mut after) = (0, 0);
        for damaged in damages(&bytes).step_by(97) {
            fs::write(whole.path().join("READY").join(name), &damaged).unwrap();
            let found = look(whole.path()).unwrap();
            match decide(&found, FailurePolicy::Refuse, &limits, sample::CREATED_MS) {
                Decision::Refuse(cause) => {
                    assert_eq!(cause.reason, Reason::Corrupt, "{cause}");
                    before += 1;
                }
                Decision::Restore => {
                    let snapshot = Snapshot::open(&whole.path().join("READY")).unwrap();
                    assert_eq!(snapshot.verify().unwrap_err().reason(), Reason::Corrupt);
                    after += 1;
                }
                Decision::ServeEmpty(cause) => panic!("{cause}"),
            }
        }
        fs::write(whole.path().join("READY").join(name), &bytes).unwrap();
        assert!(before > 0 && (after > 0) == (name != "manifest"), "{name}: {before} {after}");
    }
}

#[test]
fn a_snapshot_that_is_damaged_between_the_look_and_the_claim_is_claimed_and_not_read() {
    let scratch = sample::handed_over();
    let mut directory = HandoffDirectory::open(scratch.path(), std::time::Duration::ZERO).unwrap();
    fs::remove_file(scratch.path().join("READY/shard-0001")).unwrap();
    let Err(ClaimError::Read(error)) = directory.claim() else { panic!("read all the same") };
    assert_eq!(error.reason(), Reason::Corrupt);
    assert!(!scratch.path().join("READY").exists());
}
