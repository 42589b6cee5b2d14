//! What a peer announces costs nothing; only what it sends does, and of that no more than a batch.

mod counting;

use counting::peak_of;
use mooring_proto::frame;
use mooring_proto::limits::{BATCH_KEYS_MAX, FRAME_BYTES_MAX};
use mooring_proto::message::Request;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::{ErrorCode, WireError};
use serde::Deserialize;

#[test]
fn an_announced_length_without_content_allocates_next_to_nothing() {
    let counts = [100, 65_536, 65_537, 1 << 24, 1 << 32, u64::MAX];
    for count in counts {
        let count = postcard::to_stdvec(&count).expect("a number");
        // What precedes the length in each request: nothing, one flag, an incarnation, and so on.
        refused_cheaply::<GetRequest>(&[], &count);
        refused_cheaply::<ExistRequest>(&[1], &count);
        refused_cheaply::<MatchPrefixRequest>(&[1], &count);
        refused_cheaply::<RemoveRequest>(&[1], &count);
        refused_cheaply::<PutEndRequest>(&[1], &count);
        refused_cheaply::<ValidateRequest>(&[1], &count);
        refused_cheaply::<PutRevokeRequest>(&[1, 1], &count);
        refused_cheaply::<PutStartRequest>(&[1], &count);
        refused_cheaply::<PutStartRequest>(&[1, 0, 0, 0], &count);
        refused_cheaply::<RemountRequest>(&[], &count);
        // A key and a name of that length.
        refused_cheaply::<GetRequest>(&[1], &count);
        refused_cheaply::<HelloRequest>(&[0; 16], &count);
    }
}

#[test]
fn a_frame_full_of_empty_keys_allocates_no_more_than_a_batch() {
    // Each zero is an empty key, or a part of a small item.
    let mut body = postcard::to_stdvec(&(FRAME_BYTES_MAX - 4)).expect("a number");
    body.resize(FRAME_BYTES_MAX, 0);
    too_large_within_a_batch::<GetRequest>(&body, size_of::<&[u8]>());
    let mut body = vec![1];
    body.extend(postcard::to_stdvec(&(FRAME_BYTES_MAX - 5)).expect("a number"));
    body.resize(FRAME_BYTES_MAX, 0);
    too_large_within_a_batch::<ExistRequest>(&body, size_of::<&[u8]>());
    let items = (FRAME_BYTES_MAX - 8) / 3;
    let mut body = vec![1, 0, 0, 0];
    body.extend(postcard::to_stdvec(&items).expect("a number"));
    body.resize(FRAME_BYTES_MAX, 0);
    too_large_within_a_batch::<PutStartRequest>(&body, size_of::<PutStartItem>());
}

#[test]
fn a_hostile_reply_allocates_a_bounded_multiple_of_its_bytes() {
    let mut body = vec![1, 1, 1];
    body.extend(postcard::to_stdvec(&u64::MAX).expect("a number"));
    body.resize(1_000, 0);
    let (result, peak_bytes) = peak_of(|| frame::decode_body::<GetReply>(&body));
    assert_eq!(result.map_err(|error| error.code), Err(ErrorCode::Malformed));
    assert!(peak_bytes <= 100 * body.len(), "{peak_bytes} bytes");
}

fn refused_cheaply<'a, R: Request + Deserialize<'a>>(before: &[u8], count: &[u8]) {
    let body: &'static [u8] = Vec::leak([before, count, &[0; 8]].concat());
    let (result, peak_bytes) = peak_of(|| frame::decode_request::<R>(body).err());
    assert_eq!(result.map(|error| error.code), Some(ErrorCode::Malformed));
    assert!(peak_bytes <= NEXT_TO_NOTHING_BYTES, "{peak_bytes} bytes for {}", body.len());
}

fn too_large_within_a_batch<'a, R: Request + Deserialize<'a>>(body: &'a [u8], item_bytes: usize) {
    let (result, peak_bytes) = peak_of(|| frame::decode_request::<R>(body).err());
    let code = result.as_ref().map(|error: &WireError| error.code);
    assert_eq!(code, Some(ErrorCode::TooLarge), "{result:?}");
    let batch_bytes = (BATCH_KEYS_MAX + 1) * item_bytes;
    assert!(peak_bytes <= batch_bytes + NEXT_TO_NOTHING_BYTES, "{peak_bytes} bytes");
}

/// The text of an error and a few items.
const NEXT_TO_NOTHING_BYTES: usize = 1024;
