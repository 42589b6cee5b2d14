//! What is above a limit of the whole request is refused by the name of its field; what is wrong
//! with one item passes, because whoever answers the item says so.

use mooring_proto::frame;
use mooring_proto::limits::*;
use mooring_proto::message::Request;
use mooring_proto::message::data::*;
use mooring_proto::message::inspect::*;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::{ClientId, ErrorCode, Incarnation, SegmentId, WireError};
use serde::Deserialize;
use serde_bytes::Bytes;

#[test]
fn a_full_batch_passes_and_one_more_key_is_too_large() {
    macro_rules! batches {
        ($($field:literal of $request:ident: $build:expr;)*) => {
            $(
                let build = $build;
                assert_eq!(refused::<$request>(&bytes_of(&build(BATCH_KEYS_MAX))), None);
                for count in [BATCH_KEYS_MAX + 1, BATCH_KEYS_MAX + 1_000] {
                    let body = bytes_of(&build(count));
                    let error = refused::<$request>(&body).expect("the batch is too large");
                    assert_eq!(error.code, ErrorCode::TooLarge);
                    assert_eq!(error.text, format!("{}: more than 65536 entries", $field));
                }
            )*
        };
    }
    let key = Bytes::new(b"k");
    let keys = |count| vec![key; count];
    let puts = |count| vec![PutItem { key, sequence: 1 }; count];
    let starts = |count| vec![PutStartItem { key, size_bytes: 1, put_id: 1 }; count];
    let incarnation = Incarnation(1);
    let options = PutOptions::default();
    batches! {
        "items" of PutStartRequest:
            |count| PutStartRequest { options: options.clone(), items: starts(count) };
        "items" of PutEndRequest: |count| PutEndRequest { incarnation, items: puts(count) };
        "items" of PutRevokeRequest: |count| PutRevokeRequest {
            incarnation,
            no_write_in_flight: true,
            items: puts(count),
        };
        "items" of ValidateRequest: |count| ValidateRequest { incarnation, items: puts(count) };
        "keys" of GetRequest: |count| GetRequest { keys: keys(count) };
        "keys" of ExistRequest: |count| ExistRequest { lease: true, keys: keys(count) };
        "keys" of MatchPrefixRequest:
            |count| MatchPrefixRequest { lease: true, keys: keys(count) };
        "keys" of RemoveRequest: |count| RemoveRequest { force: false, keys: keys(count) };
    }
}

#[test]
fn too_many_segments_in_a_remount_are_too_large() {
    let remount = |count| RemountRequest { segments: vec![mount("host:1"); count] };
    let refused = |count| refused::<RemountRequest>(&bytes_of(&remount(count)));
    assert_eq!(refused(REMOUNT_SEGMENTS_MAX), None);
    assert_refused(refused(REMOUNT_SEGMENTS_MAX + 1), ErrorCode::TooLarge, "segments:");
}

#[test]
fn names_above_their_limit_are_too_large() {
    let longest = "n".repeat(NAME_BYTES_MAX);
    let longer = "n".repeat(NAME_BYTES_MAX + 1);
    let hello = |name: &str| refused::<HelloRequest>(&bytes_of(&hello(name, 1, 1)));
    assert_eq!(hello(&longest), None);
    assert_refused(hello(&longer), ErrorCode::TooLarge, "name:");

    let mount_of = |endpoint: &str| refused::<MountRequest>(&bytes_of(&mount(endpoint)));
    assert_eq!(mount_of(&longest), None);
    assert_refused(mount_of(&longer), ErrorCode::TooLarge, "segment.endpoint:");

    let remount = RemountRequest { segments: vec![mount("host:1"), mount(&longer)] };
    let error = refused::<RemountRequest>(&bytes_of(&remount));
    assert_refused(error, ErrorCode::TooLarge, "segment.endpoint:");
}

#[test]
fn options_of_a_put_out_of_their_range_are_refused() {
    let start = |replicas, preferred| {
        let preferred_segments = vec![SegmentId(1); preferred];
        let options = PutOptions { replicas, preferred_segments, ..PutOptions::default() };
        refused::<PutStartRequest>(&bytes_of(&PutStartRequest { options, items: vec![] }))
    };
    assert_eq!(start(1, 0), None);
    assert_eq!(start(8, PREFERRED_SEGMENTS_MAX), None);
    assert_refused(start(0, 0), ErrorCode::InvalidArgument, "options.replicas:");
    assert_refused(start(9, 0), ErrorCode::InvalidArgument, "options.replicas:");
    let error = start(1, PREFERRED_SEGMENTS_MAX + 1);
    assert_refused(error, ErrorCode::TooLarge, "options.preferred_segments:");
}

#[test]
fn pages_and_ranges_have_at_least_one_and_at_most_their_limit() {
    let page = |limit| refused::<ListKeysRequest>(&bytes_of(&ListKeysRequest { cursor: 0, limit }));
    assert_eq!(page(1), None);
    assert_eq!(page(65_536), None);
    assert_refused(page(0), ErrorCode::InvalidArgument, "limit:");
    assert_refused(page(65_537), ErrorCode::InvalidArgument, "limit:");

    let refusals = |length_bytes| {
        let range = MountedRange {
            segment: SegmentId(1),
            generation: 1,
            incarnation: Incarnation(1),
            offset_bytes: 0,
            length_bytes,
        };
        [
            refused::<ReadRangeRequest>(&bytes_of(&ReadRangeRequest { range })),
            refused::<WriteRangeRequest>(&bytes_of(&WriteRangeRequest { range, crc32c: 0 })),
        ]
    };
    assert_eq!(refusals(1), [None, None]);
    assert_eq!(refusals(8 << 20), [None, None]);
    for length_bytes in [0, (8 << 20) + 1, u32::MAX] {
        for error in refusals(length_bytes) {
            assert_refused(error, ErrorCode::InvalidArgument, "range.length_bytes:");
        }
    }
}

#[test]
fn faults_of_single_items_pass_the_decoder() {
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let items = [(&b""[..], 1), (&long[..], 1), (b"k", 0), (b"k", u64::MAX)]
        .map(|(key, size_bytes)| PutStartItem { key: Bytes::new(key), size_bytes, put_id: 1 });
    let request = PutStartRequest { options: PutOptions::default(), items: items.to_vec() };
    let body = bytes_of(&request);
    assert_eq!(frame::decode_request::<PutStartRequest>(&body), Ok(request));
}

#[test]
fn a_hello_gets_the_highest_common_version_or_both_named() {
    assert_eq!(hello("", 1, 1).negotiate(), Ok(1));
    assert_eq!(hello("", 0, 9).negotiate(), Ok(1));
    for (version_min, version_max) in [(2, 3), (0, 0), (3, 1)] {
        let error = hello("", version_min, version_max).negotiate().expect_err("none in common");
        assert_eq!(error.code, ErrorCode::UnsupportedVersion);
        let both = format!("the client speaks {version_min} to {version_max}, the master 1 to 1");
        assert_eq!(error.text, both);
    }
}

#[test]
fn a_request_above_the_frame_limit_is_not_encoded() {
    let key = vec![0; FRAME_BYTES_MAX];
    let request = GetRequest { keys: vec![Bytes::new(&key)] };
    let error = frame::encode_request(&request, 0, None).expect_err("it is above the limit");
    assert_eq!(error.code, ErrorCode::TooLarge);
}

fn hello(name: &str, version_min: u16, version_max: u16) -> HelloRequest {
    HelloRequest { client: ClientId(1), name: name.into(), version_min, version_max, features: 0 }
}

fn mount(endpoint: &str) -> MountRequest {
    let segment = Segment {
        segment: SegmentId(1),
        base: 4096,
        size_bytes: 4096,
        endpoint: endpoint.into(),
        certificate_sha256: None,
        transfer_engine: None,
    };
    MountRequest { segment, mounted_with: None }
}

fn bytes_of<R: Request>(request: &R) -> Vec<u8> {
    postcard::to_stdvec(request).expect("it can be encoded")
}

fn refused<'a, R: Request + Deserialize<'a>>(body: &'a [u8]) -> Option<WireError> {
    frame::decode_request::<R>(body).err()
}

#[track_caller]
fn assert_refused(error: Option<WireError>, code: ErrorCode, field: &str) {
    let error = error.expect("it is refused");
    assert_eq!(error.code, code);
    assert!(error.text.starts_with(field), "{} does not name {field}", error.text);
}
