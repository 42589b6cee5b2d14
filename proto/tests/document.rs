//! Keeps `PROTOCOL.md` in step with the code: numbers, limits and the bytes of its example.

use mooring_proto::message::Kind;
use mooring_proto::{ErrorCode, SegmentId, SegmentsDigest, close};

#[test]
fn the_document_lists_every_error_code_by_its_number() {
    for code in ErrorCode::ALL {
        let row = format!("| {} | {} | ", *code as u16, code.name());
        assert!(lines().any(|line| line.starts_with(&row)), "no row {row:?}");
    }
}

#[test]
fn the_document_lists_every_kind_by_its_number() {
    for kind in Kind::ALL {
        // The table has two kinds in a row; a remark may follow the name.
        let cell = format!("| {} | {kind:?} ", *kind as u16);
        assert!(lines().any(|line| line.contains(&cell)), "no cell {cell:?}");
    }
}

#[test]
fn the_document_lists_every_close_code_by_its_number() {
    let known = (0..).take_while(|code| close::name_of(*code) != "unknown");
    let rows: Vec<_> = known
        .map(|code| format!("| {code} | {} | ", close::name_of(code).to_uppercase()))
        .collect();
    assert_eq!(rows.len(), 7);
    for row in rows {
        assert!(lines().any(|line| line.starts_with(&row)), "no row {row:?}");
    }
}

#[test]
fn the_worked_example_has_the_pinned_bytes() {
    let shown: Vec<_> = lines().filter(|line| line.starts_with("frame/")).collect();
    assert_eq!(shown.len(), 8);
    for line in shown {
        assert!(PINNED.lines().any(|pinned| pinned == line), "not pinned: {line}");
    }
}

#[test]
fn the_digests_of_the_document_are_those_of_the_code() {
    let shown: Vec<_> = lines().filter_map(|line| line.strip_prefix("digest ")).collect();
    assert_eq!(shown.len(), 4);
    for line in shown {
        let (segments, digest) = line.split_once("= ").expect("a set and its digest");
        let ids = segments.split_whitespace().map(|id| u128::from_str_radix(id, 16).unwrap());
        let expected: SegmentsDigest = ids.map(SegmentId).collect();
        assert_eq!(expected.to_string(), digest, "{line}");
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    DOCUMENT.lines()
}

const DOCUMENT: &str = include_str!("../PROTOCOL.md");
const PINNED: &str = include_str!("conformance.txt");
