//! Whatever arrives, a decoder answers it with a message or an error.

use mooring_proto::frame::{
    self, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader, TraceContext,
};
use mooring_proto::message::data::*;
use mooring_proto::message::inspect::*;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::message::{Kind, Request};
use mooring_proto::{ErrorCode, PutToken, Refusal, WireError, close};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_make_no_decoder_panic(bytes in bytes_like_a_body()) {
        decode_as_everything(&bytes);
    }

    #[test]
    fn a_header_is_refused_or_encodes_to_its_own_bytes(
        mut bytes in any::<[u8; REQUEST_HEADER_BYTES]>(),
        valid_prefix in any::<bool>(),
        kind in 0..70_u8,
    ) {
        if valid_prefix {
            let flags = bytes[3] & 1;
            bytes[..8].copy_from_slice(&[b'M', b'R', 1, flags, kind, 0, 0, 0]);
            bytes[11] = 0;
        }
        match RequestHeader::decode(&bytes) {
            Ok(header) => prop_assert_eq!(header.encode(), bytes),
            Err(error) => prop_assert!(is_header_fault(&error)),
        }
        let mut reply = [0; REPLY_HEADER_BYTES];
        reply.copy_from_slice(&bytes[..REPLY_HEADER_BYTES]);
        match ReplyHeader::decode(&reply) {
            Ok(header) => prop_assert_eq!(header.encode(), reply),
            Err(error) => prop_assert!(is_header_fault(&error)),
        }
    }

    #[test]
    fn every_trace_context_encodes_to_its_own_bytes(bytes in any::<[[u8; 5]; 5]>()) {
        let bytes = <[u8; 25]>::try_from(bytes.as_flattened()).expect("five times five");
        prop_assert_eq!(TraceContext::decode(&bytes).encode(), bytes);
    }

    #[test]
    fn a_code_or_close_of_a_later_version_still_reads(number in any::<u16>()) {
        let body = postcard::to_stdvec(&number).expect("a number");
        let code: ErrorCode = frame::decode_body(&body).expect("every number is a code");
        prop_assert_eq!(code, ErrorCode::from_number(number).unwrap_or(ErrorCode::Internal));
        prop_assert_eq!(close::name_of(number.into()) == "unknown", number > 6);
    }
}

#[test]
fn each_fault_of_a_header_has_its_own_code() {
    let good = RequestHeader { kind: Kind::Get, body_bytes: 5, deadline_ms: 0, traced: false };
    let refused = |index: usize, value: u8| {
        let mut bytes = good.encode();
        bytes[index] = value;
        RequestHeader::decode(&bytes).map_err(|error| error.code)
    };
    assert_eq!(refused(0, b'X'), Err(ErrorCode::Malformed));
    assert_eq!(refused(2, 2), Err(ErrorCode::UnsupportedVersion));
    assert_eq!(refused(3, 2), Err(ErrorCode::Malformed));
    assert_eq!(refused(5, 1), Err(ErrorCode::UnknownKind));
    assert_eq!(refused(6, 1), Err(ErrorCode::Malformed));
    assert_eq!(refused(11, 2), Err(ErrorCode::TooLarge));
    assert!(refused(3, 1).is_ok_and(|header| header.traced));
}

#[test]
fn a_refusal_repeats_the_number_of_a_kind_that_is_unknown() {
    let mut request =
        RequestHeader { kind: Kind::Get, body_bytes: 0, deadline_ms: 0, traced: false }.encode();
    request[4..6].copy_from_slice(&999_u16.to_le_bytes());
    let error = RequestHeader::decode(&request).expect_err("there is no kind 999");
    let reply = frame::encode_refusal(frame::kind_number(&request), &error);
    assert_eq!(reply[4..6], 999_u16.to_le_bytes());
    assert_eq!(reply[6..8], (ErrorCode::UnknownKind as u16).to_le_bytes());
    let body: WireError = frame::decode_body(&reply[REPLY_HEADER_BYTES..]).expect("an error");
    assert_eq!(body, error);
}

#[test]
fn the_text_of_an_error_is_cut_between_characters() {
    let error = WireError::new(ErrorCode::Internal, "é".repeat(5_000) + "x");
    let reply = frame::encode_reply::<()>(Kind::Get, Err(&error));
    let body: WireError = frame::decode_body(&reply[REPLY_HEADER_BYTES..]).expect("an error");
    assert_eq!(body.text, "é".repeat(2_048));
}

/// Noise, noise that starts like a list, and small numbers, of which most bodies consist.
fn bytes_like_a_body() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let small = proptest::collection::vec(0..4_u8, 0..200);
    let list =
        (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..60)).prop_map(|(count, tail)| {
            let mut bytes = postcard::to_stdvec(&count).expect("a number");
            bytes.extend(tail);
            bytes
        });
    prop_oneof![noise, small, list]
}

/// Runs every decoder; what a request decoder accepts must also keep its limits.
fn decode_as_everything(bytes: &[u8]) {
    macro_rules! requests {
        ($($request:ident)*) => {
            $(
                if let Ok(request) = frame::decode_request::<$request>(bytes) {
                    assert_eq!(request.check(), Ok(()));
                }
                let _ = frame::decode_body::<<$request as Request>::Reply>(bytes);
            )*
        };
    }
    requests! {
        HelloRequest PingRequest MountRequest RemountRequest UnmountRequest SegmentTableRequest
        PutStartRequest PutEndRequest PutRevokeRequest GetRequest ExistRequest MatchPrefixRequest
        ValidateRequest RemoveRequest RemoveAllRequest StatsRequest ListSegmentsRequest
        ListClientsRequest ListKeysRequest ReadRangeRequest WriteRangeRequest
    }
    let _ = frame::decode_body::<Attention>(bytes);
    let _ = frame::decode_body::<WireError>(bytes);
    let _ = frame::decode_body::<Refusal>(bytes);
    let _ = frame::decode_body::<PutToken>(bytes);
    if let Ok(reply) = frame::decode_body::<ExistReply>(bytes) {
        let _ = reply.readable(0);
        assert!(!reply.readable(reply.keys as usize));
    }
}

fn is_header_fault(error: &WireError) -> bool {
    use ErrorCode::{Malformed, TooLarge, UnknownKind, UnsupportedVersion};
    matches!(error.code, Malformed | TooLarge | UnknownKind | UnsupportedVersion)
}
