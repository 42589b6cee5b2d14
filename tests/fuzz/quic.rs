//! What comes over QUIC: requests to a master or a store, and their replies.

use mooring_proto::frame::{
    REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader, decode_body,
    decode_request, encode_reply, encode_request,
};
use mooring_proto::message::data::*;
use mooring_proto::message::inspect::*;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::message::{Kind, Request};
use mooring_proto::{ErrorCode, WireError};
use serde::Deserialize;

use crate::engine::{Decoder, bytes_of, run, within};

/// A list makes room for its items at once, for no more than there are bytes left, and for no more than a
/// mebibyte. The largest item is a segment of 160 bytes.
const REQUEST_COST: usize = 192;

/// As above; an item of a reply may be a segment with all that is known of it.
const REPLY_COST: usize = 512;

/// Calls `$work::<R>(…)` with the type of the request that a kind stands for.
macro_rules! of_kind {
    ($kind:expr, $work:ident($($argument:expr),*)) => {
        match $kind {
            Kind::Hello => $work::<HelloRequest>($($argument),*),
            Kind::Ping => $work::<PingRequest>($($argument),*),
            Kind::Mount => $work::<MountRequest>($($argument),*),
            Kind::Remount => $work::<RemountRequest>($($argument),*),
            Kind::Unmount => $work::<UnmountRequest>($($argument),*),
            Kind::SegmentTable => $work::<SegmentTableRequest>($($argument),*),
            Kind::PutStart => $work::<PutStartRequest<'_>>($($argument),*),
            Kind::PutEnd => $work::<PutEndRequest<'_>>($($argument),*),
            Kind::PutRevoke => $work::<PutRevokeRequest<'_>>($($argument),*),
            Kind::Get => $work::<GetRequest<'_>>($($argument),*),
            Kind::Exist => $work::<ExistRequest<'_>>($($argument),*),
            Kind::MatchPrefix => $work::<MatchPrefixRequest<'_>>($($argument),*),
            Kind::Validate => $work::<ValidateRequest<'_>>($($argument),*),
            Kind::Remove => $work::<RemoveRequest<'_>>($($argument),*),
            Kind::RemoveAll => $work::<RemoveAllRequest>($($argument),*),
            Kind::Stats => $work::<StatsRequest>($($argument),*),
            Kind::ListSegments => $work::<ListSegmentsRequest>($($argument),*),
            Kind::ListClients => $work::<ListClientsRequest>($($argument),*),
            Kind::ListKeys => $work::<ListKeysRequest>($($argument),*),
            Kind::ReadRange => $work::<ReadRangeRequest>($($argument),*),
            Kind::WriteRange => $work::<WriteRangeRequest>($($argument),*),
            other => Err(format!("{other:?} is no request")),
        }
    };
}

/// The body of a request as this end would have written it. One number has several forms in a message,
/// of which this end writes the shortest.
fn rewritten<'a, R: Request + Deserialize<'a>>(body: &'a [u8]) -> Result<Vec<u8>, String> {
    let request = within(body, REQUEST_COST, || decode_request::<R>(body));
    let request = request.map_err(|error| format!("{:?} {error}", R::KIND))?;
    let mut frame = encode_request(&request, 0, None).expect("it was in one frame before");
    assert!(frame.len() <= REQUEST_HEADER_BYTES + body.len());
    Ok(frame.split_off(REQUEST_HEADER_BYTES))
}

/// As [`rewritten`], of the reply to such a request.
fn rewritten_reply<R: Request>(body: &[u8]) -> Result<Vec<u8>, String> {
    let reply = within(body, REPLY_COST, || decode_body::<R::Reply>(body));
    let reply = reply.map_err(|error| format!("{:?} {error}", R::KIND))?;
    let mut frame = encode_reply(R::KIND, Ok(&reply));
    Ok(frame.split_off(REPLY_HEADER_BYTES))
}

fn feed_requests(input: &[u8]) -> String {
    let Some((header, body)) = input.split_first_chunk::<REQUEST_HEADER_BYTES>() else {
        return "more to come".to_owned();
    };
    let found = match within(header, 0, || RequestHeader::decode(header)) {
        Ok(found) => found,
        Err(error) => return error.to_string(),
    };
    assert_eq!(&found.encode(), header);
    match of_kind!(found.kind, rewritten(body)) {
        Ok(again) => {
            assert_eq!(of_kind!(found.kind, rewritten(&again)), Ok(again.clone()));
            format!("{:?}", found.kind)
        }
        Err(text) => text,
    }
}

fn feed_replies(input: &[u8]) -> String {
    let Some((header, body)) = input.split_first_chunk::<REPLY_HEADER_BYTES>() else {
        return "more to come".to_owned();
    };
    let found = match within(header, 0, || ReplyHeader::decode(header)) {
        Ok(found) => found,
        Err(error) => return error.to_string(),
    };
    assert_eq!(&found.encode(), header);
    if found.status != 0 {
        return match within(body, REPLY_COST, || decode_body::<WireError>(body)) {
            Ok(error) => format!("refused: {:?}", error.code),
            Err(error) => error.to_string(),
        };
    }
    match of_kind!(found.kind, rewritten_reply(body)) {
        Ok(again) => {
            assert_eq!(of_kind!(found.kind, rewritten_reply(&again)), Ok(again.clone()));
            format!("{:?}", found.kind)
        }
        Err(text) => text,
    }
}

/// The bodies that are written down for each message, under names that begin so.
fn bodies(group: &str) -> Vec<(Kind, Vec<u8>)> {
    let text = include_str!("../../proto/tests/conformance.txt");
    let cases = text.lines().filter_map(|line| line.strip_prefix(group)?.split_once(" = "));
    cases
        .map(|(name, hex)| {
            let of_name = |kind: &&Kind| name.split('/').next() == Some(&format!("{kind:?}"));
            (*Kind::ALL.iter().find(of_name).expect(name), bytes_of(hex))
        })
        .collect()
}

#[test]
fn whatever_comes_over_quic_is_a_request_or_a_refusal() {
    let seeds = bodies("request/").into_iter().map(|(kind, body)| {
        let body_bytes = body.len() as u32;
        let header = RequestHeader { kind, body_bytes, deadline_ms: 0, traced: false };
        [&header.encode()[..], &body].concat()
    });
    run(&Decoder {
        name: "quic-requests",
        seeds: seeds.collect(),
        front_bytes: REQUEST_HEADER_BYTES,
        feed: feed_requests,
    });
}

#[test]
fn whatever_a_master_answers_is_a_reply_or_an_error() {
    let seeds = bodies("reply/").into_iter().map(|(kind, body)| {
        let header = ReplyHeader { kind, status: 0, body_bytes: body.len() as u32 };
        [&header.encode()[..], &body].concat()
    });
    let refused = ReplyHeader { kind: Kind::Get, status: ErrorCode::NoSpace as u16, body_bytes: 3 };
    let refused = [&refused.encode()[..], &[33, 0, 0]].concat();
    run(&Decoder {
        name: "quic-replies",
        seeds: seeds.chain([refused]).collect(),
        front_bytes: REPLY_HEADER_BYTES,
        feed: feed_replies,
    });
}
