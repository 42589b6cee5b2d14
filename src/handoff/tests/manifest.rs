//! The manifest as bytes.

use mooring_proto::message::segment::TransferEngine;

use super::sample;
use crate::handoff::bytes::Cursor;
use crate::handoff::error::ReadError;
use crate::handoff::format::{FORMAT, MANIFEST_BYTES_MAX, MANIFEST_MAGIC, REQUIRED_TAG, preamble};
use crate::handoff::manifest::{
    CHECKSUM_BYTES, LENGTH_BYTES, Manifest, SECTIONS, put_section, seal,
};
use crate::handoff::reason::Reason;

/// A manifest with a section more.
fn with_section(manifest: &Manifest, tag: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = manifest.encode();
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    put_section(&mut bytes, tag, content);
    seal(bytes)
}

#[test]
fn a_manifest_reads_back() {
    let manifest = sample::manifest();
    let bytes = manifest.encode();
    assert_eq!(Manifest::decode(&bytes), Ok(manifest));
    assert_eq!(Manifest::format_of(&bytes), Some(FORMAT));
    assert_eq!(Manifest::decode(&Manifest::empty().encode()), Ok(Manifest::empty()));
}

#[test]
fn the_names_that_a_transfer_engine_needs_read_back() {
    let mut manifest = sample::manifest();
    manifest.pool.segments[1].segment.transfer_engine = Some(TransferEngine {
        name: "10.0.0.2:12345".to_owned(),
        protocol: "tcp".to_owned(),
        host: String::new(),
    });
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
}

#[test]
fn a_manifest_without_transfer_engines_has_no_section_for_them() {
    let bytes = sample::manifest().encode();
    let tag = (REQUIRED_TAG | 8).to_le_bytes();
    assert!(!bytes.windows(2).any(|window| window == tag));
}

#[test]
fn a_transfer_engine_of_a_segment_that_is_not_there_or_has_one_is_damage() {
    for content in [&[1_u8, 2, 0, 0, 0][..], &[1, 200, 0, 0, 0], &[2, 1, 0, 0, 0, 1, 0, 0, 0]] {
        let bytes = with_section(&sample::manifest(), REQUIRED_TAG | 8, content);
        assert_eq!(Manifest::decode(&bytes).unwrap_err().reason(), Reason::Corrupt);
    }
}

#[test]
fn a_section_of_tomorrow_that_may_be_skipped_is() {
    let manifest = sample::manifest();
    assert_eq!(Manifest::decode(&with_section(&manifest, 0x0042, b"tenants")), Ok(manifest));
}

#[test]
fn a_section_of_tomorrow_that_must_be_understood_is_refused() {
    let bytes = with_section(&sample::manifest(), REQUIRED_TAG | 0x42, b"disk replicas");
    let error = Manifest::decode(&bytes).unwrap_err();
    assert_eq!(error.reason(), Reason::Version);
    assert!(error.to_string().contains("8042"), "{error}");
}

#[test]
fn a_section_that_stands_twice_or_not_at_all_is_damage() {
    let bytes = with_section(&sample::manifest(), REQUIRED_TAG | 5, &[0, 0]);
    assert_eq!(Manifest::decode(&bytes).unwrap_err().reason(), Reason::Corrupt);
    let mut bytes = preamble(MANIFEST_MAGIC).to_vec();
    bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    assert_eq!(Manifest::decode(&seal(bytes)).unwrap_err().reason(), Reason::Corrupt);
}

#[test]
fn another_format_is_told_from_damage() {
    let mut bytes = sample::manifest().encode();
    bytes[8] = 2;
    assert_eq!(Manifest::decode(&bytes).unwrap_err().reason(), Reason::Corrupt);
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    let error = Manifest::decode(&bytes).unwrap_err();
    assert_eq!(error, ReadError::Format { name: "manifest".to_owned(), found: 2 });
    assert_eq!(error.reason(), Reason::Version);
}

#[test]
fn whatever_a_section_says_nothing_panics_or_allocates_without_bound() {
    let sample = sample::manifest();
    for section in &SECTIONS {
        let mut content = Vec::new();
        (section.put)(&sample, &mut content);
        for index in 0..content.len() {
            for value in [0x00, 0x7f, 0x80, 0xff] {
                let mut damaged = content.clone();
                damaged[index] = value;
                let mut manifest = Manifest::empty();
                let mut cursor = Cursor::new(&damaged);
                let _ = (section.take)(&mut manifest, &mut cursor);
                let sizes = [
                    manifest.pool.segments.len(),
                    manifest.pool.remnants.len(),
                    manifest.clients.len(),
                    manifest.shards.len(),
                ];
                assert!(sizes.iter().all(|size| *size <= content.len()), "{sizes:?}");
            }
        }
    }
    assert!((sample.encode().len() as u64) < MANIFEST_BYTES_MAX);
}
