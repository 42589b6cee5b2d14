//! Records of ranges, and the manifest beside them. Checksums guard both against damage, so what is fed
//! here is what another version could have written, or a fault of this one.

use std::fmt::Debug;

use mooring_actors::handoff::{ObjectRecord, RangePlace, RangeRecord, SideRecord};
use mooring_proto::ClientId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::format::{MANIFEST_MAGIC, PREAMBLE_BYTES, preamble};
use super::manifest::{CHECKSUM_BYTES, LENGTH_BYTES, Manifest, seal};
use super::notes::{self, Note, PoisonNote, RefusedNote, ServingNote, ShutdownNote};
use super::record;
use crate::engine::{Decoder, run, within};

/// A record is a view of its bytes.
const RECORD_COST: usize = 0;

/// The row of a segment, of some bytes, has several texts and numbers; a list grows by doubling.
const MANIFEST_COST: usize = 256;

/// Decodes records until there are no more, or one is refused.
fn feed_records(chunk: &[u8]) -> String {
    let (mut position, mut before, mut found) = (0, None, String::new());
    while position < chunk.len() {
        let decoded = within(chunk, RECORD_COST, || record::decode(chunk, position, before));
        let (parsed, end) = match decoded {
            Ok(decoded) => decoded,
            Err(fault) => return format!("{found} {fault:?}"),
        };
        assert!(position < end && end <= chunk.len());
        let view = parsed.view(chunk);
        found.push(match view {
            RangeRecord::Object(_) => 'o',
            RangeRecord::Replica { .. } => 'r',
            RangeRecord::Hold { .. } => 'h',
        });
        let mut again = Vec::new();
        record::encode(&view, None, &mut again);
        let (reread, all) = record::decode(&again, 0, None).expect("it was written just now");
        assert_eq!((reread.view(&again), all), (view, again.len()));
        (position, before) = (end, Some(parsed.place));
    }
    found
}

fn written(record: &RangeRecord<'_>) -> Vec<u8> {
    let mut chunk = Vec::new();
    record::encode(record, None, &mut chunk);
    chunk
}

fn object(key: &'static [u8], reused: bool, side: SideRecord<'static>) -> Vec<u8> {
    written(&RangeRecord::Object(ObjectRecord {
        place: RangePlace { segment: 2, offset_bytes: 3 << 32 },
        replicas: 3,
        key,
        size_bytes: 470_000,
        sequence: 12,
        lease_left_ms: 9_000,
        idle_ms: 40,
        reused,
        hard_pin: reused,
        soft_pin_left_ms: Some(60_000),
        side,
    }))
}

#[test]
fn whatever_stands_in_a_chunk_is_a_record_or_refused() {
    let place = RangePlace { segment: 0, offset_bytes: 64 };
    let side = SideRecord {
        writer: Some(ClientId(1 << 70)),
        checksum: Some(2),
        data_type: 3,
        group: b"request 1",
    };
    let mut seeds = vec![
        object(b"plain", false, SideRecord::default()),
        object(b"with everything", true, side),
        written(&RangeRecord::Replica { place, ordinal: 4_000 }),
        written(&RangeRecord::Hold { place, length_bytes: 1 << 20, left_ms: 600_000 }),
    ];
    seeds.push(seeds.concat());
    run(&Decoder { name: "handoff_records", seeds, front_bytes: 1, feed: feed_records });
}

/// The sections, under a length and a checksum that are right.
fn feed_manifest(sections: &[u8]) -> String {
    let mut bytes = preamble(MANIFEST_MAGIC).to_vec();
    bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    bytes.extend_from_slice(sections);
    let bytes = seal(bytes);
    match within(&bytes, MANIFEST_COST, || Manifest::decode(&bytes)) {
        Ok(manifest) => {
            assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
            let totals = manifest.totals();
            format!("sound {}", totals.objects > 0)
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn whatever_stands_in_a_manifest_is_read_or_refused() {
    let sections = |manifest: &[u8]| {
        manifest[PREAMBLE_BYTES + LENGTH_BYTES..manifest.len() - CHECKSUM_BYTES].to_vec()
    };
    let first = include_bytes!("../fixtures/handoff-v1/READY/manifest");
    let seeds = vec![sections(first), sections(&Manifest::empty().encode())];
    run(&Decoder { name: "handoff_manifest", seeds, front_bytes: 6, feed: feed_manifest });
}

/// As it was found: no checksum helps whoever writes over it.
#[test]
fn whatever_has_the_name_of_a_manifest_is_read_or_refused() {
    let first = include_bytes!("../fixtures/handoff-v1/READY/manifest").to_vec();
    run(&Decoder {
        name: "handoff_manifest_file",
        seeds: vec![first],
        front_bytes: PREAMBLE_BYTES,
        feed: |bytes| match within(bytes, MANIFEST_COST, || Manifest::decode(bytes)) {
            Ok(manifest) => {
                assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
                "sound".to_owned()
            }
            Err(error) => error.to_string(),
        },
    });
}

/// Texts are copied, and a string with escapes grows by doubling.
const NOTE_COST: usize = 16;

/// One note; gives whether it is sound.
fn feed_note<T>(name: &str, bytes: &[u8]) -> bool
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let note: Note<T> = within(bytes, NOTE_COST, || notes::decode(name, bytes));
    let Note::Sound(sound) = &note else { return false };
    let again = notes::encode(sound).expect("it was read just now");
    assert_eq!(notes::decode::<T>(name, &again), note);
    true
}

#[test]
fn whatever_stands_in_a_note_is_read_or_unsound() {
    let shutdown = r#"{"incarnation":"ff","result":"ok","detail":"d\u00e9","objects":7}"#;
    let serving =
        format!(r#"{{"incarnation":"0","pid":1,"start":"x","last_shutdown":{shutdown}}}"#);
    let refused = r#"{"reason":"memory","detail":"d","at_wall_ms":18446744073709551615}"#;
    let poison = r#"{"incarnation":"ffffffffffffffff","found":"READY"}"#;
    let seeds = [shutdown, &serving, refused, poison].map(|seed| seed.as_bytes().to_vec());
    run(&Decoder {
        name: "handoff_notes",
        seeds: seeds.to_vec(),
        front_bytes: 1,
        feed: |bytes| {
            let sound = [
                feed_note::<ServingNote>("serving", bytes),
                feed_note::<ShutdownNote>("last_shutdown", bytes),
                feed_note::<RefusedNote>("refused", bytes),
                feed_note::<PoisonNote>("POISON", bytes),
            ];
            format!("{sound:?}")
        },
    });
}
