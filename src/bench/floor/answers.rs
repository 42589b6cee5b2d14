//! Answers that are made once for each kind and size of a request.

use std::collections::HashMap;

use bytes::Bytes;
use mooring_actors::core::Settings;
use mooring_proto::frame::{
    REQUEST_HEADER_BYTES, RequestHeader, TRACE_CONTEXT_BYTES, encode_refusal, encode_reply,
};
use mooring_proto::limits::BATCH_KEYS_MAX;
use mooring_proto::message::Kind;
use mooring_proto::message::object::{
    ExistReply, GetReply, ItemsReply, Located, MatchPrefixReply, PutOptions, PutStartGrant,
    PutStartReply, RangeDescriptor,
};
use mooring_proto::message::segment::{MountGrant, SegmentTableReply, UnmountReply};
use mooring_proto::message::session::{HelloReply, PingReply, VERSION};
use mooring_proto::{ErrorCode, Incarnation, WireError};
use serde::Deserialize;

/// What requests are answered with.
#[derive(Debug, Default)]
pub(super) struct Answers {
    made: HashMap<(Kind, usize), Bytes>,
}

impl Answers {
    /// The frame that answers the request which begins so. Each key is found, and each put granted,
    /// at a place that has as many bytes as one of a master with a million objects.
    pub(super) fn to(&mut self, request: &[u8]) -> Bytes {
        match counted(request) {
            Ok((kind, keys)) => {
                self.made.entry((kind, keys)).or_insert_with(|| make(kind, keys).into()).clone()
            }
            Err(error) => encode_refusal(0, &error).into(),
        }
    }
}

/// What is asked, and for how many keys.
fn counted(request: &[u8]) -> Result<(Kind, usize), WireError> {
    let short =
        || WireError::new(ErrorCode::Malformed, "the request does not begin with its header");
    let (head, rest) = request.split_first_chunk::<REQUEST_HEADER_BYTES>().ok_or_else(short)?;
    let header = RequestHeader::decode(head)?;
    let skipped_bytes = if header.traced { TRACE_CONTEXT_BYTES } else { 0 };
    let body = rest.get(skipped_bytes..).ok_or_else(short)?;
    let keys = match header.kind {
        Kind::Get => front::<u64>(body)?,
        Kind::Exist | Kind::MatchPrefix | Kind::Remove => front::<(bool, u64)>(body)?.1,
        Kind::PutStart => front::<(PutOptions, u64)>(body)?.1,
        Kind::PutEnd => front::<(Incarnation, u64)>(body)?.1,
        _ => 0,
    };
    let keys = usize::try_from(keys).ok().filter(|keys| *keys <= BATCH_KEYS_MAX);
    let many = || WireError::new(ErrorCode::TooLarge, "more keys than one request may have");
    Ok((header.kind, keys.ok_or_else(many)?))
}

/// What a body begins with.
fn front<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    let taken = postcard::take_from_bytes(body);
    let malformed =
        |_| WireError::new(ErrorCode::Malformed, "the body is not what its kind announces");
    taken.map(|(front, _)| front).map_err(malformed)
}

fn make(kind: Kind, keys: usize) -> Vec<u8> {
    let settings = Settings::default();
    match kind {
        Kind::Hello => encode_reply(
            kind,
            Ok(&HelloReply {
                version: VERSION,
                features: 0,
                incarnation: INCARNATION,
                server: "mooring bench floor".to_owned(),
                client_ttl_ms: settings.client_ttl_ms,
                lease_ttl_ms: settings.lease_ttl_ms,
                segment_epoch: 1,
            }),
        ),
        Kind::Ping => encode_reply(
            kind,
            Ok(&PingReply {
                incarnation: INCARNATION,
                need_remount: false,
                segment_epoch: 1,
                client_ttl_ms: settings.client_ttl_ms,
            }),
        ),
        Kind::Mount => {
            encode_reply(kind, Ok(&MountGrant { slot: 1, generation: 1, incarnation: INCARNATION }))
        }
        Kind::Unmount => encode_reply(kind, Ok(&UnmountReply { grace_left_ms: 0 })),
        Kind::SegmentTable => encode_reply(
            kind,
            Ok(&SegmentTableReply {
                incarnation: INCARNATION,
                epoch: 1,
                segments: Some(Vec::new()),
            }),
        ),
        Kind::PutStart => encode_reply(
            kind,
            Ok(&PutStartReply {
                incarnation: INCARNATION,
                segment_epoch: 1,
                discard_timeout_ms: settings.put_discard_timeout_ms,
                items: vec![
                    Ok(PutStartGrant { sequence: SEQUENCE, replicas: vec![PLACE].into() });
                    keys
                ],
            }),
        ),
        Kind::PutEnd | Kind::Remove => {
            encode_reply(kind, Ok(&ItemsReply { items: vec![Ok(()); keys] }))
        }
        Kind::Get => encode_reply(
            kind,
            Ok(&GetReply {
                incarnation: INCARNATION,
                segment_epoch: 1,
                lease_ttl_ms: settings.lease_ttl_ms,
                items: vec![
                    Ok(Located {
                        size_bytes: SIZE_BYTES,
                        sequence: SEQUENCE,
                        replicas: vec![PLACE].into(),
                    });
                    keys
                ],
            }),
        ),
        Kind::Exist => encode_reply(kind, Ok(&ExistReply::pack(std::iter::repeat_n(true, keys)))),
        Kind::MatchPrefix => encode_reply(kind, Ok(&MatchPrefixReply { matched: keys as u32 })),
        other => {
            let text = format!("{other:?} is not for what only answers");
            encode_refusal(other as u16, &WireError::new(ErrorCode::UnknownKind, text))
        }
    }
}

/// As drawn by no master: those are random.
const INCARNATION: Incarnation = Incarnation(u64::MAX / 3);

/// A place and a number as long on the wire as those of a master with a million objects of 256 KiB.
const PLACE: RangeDescriptor = RangeDescriptor { slot: 3, generation: 1, offset_bytes: 1 << 37 };
const SEQUENCE: u64 = 1 << 20;
const SIZE_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use mooring_proto::frame::{REPLY_HEADER_BYTES, ReplyHeader, decode_body, encode_request};
    use mooring_proto::message::Request;
    use mooring_proto::message::object::{
        ExistRequest, GetRequest, PutEndRequest, PutItem, PutStartItem, PutStartRequest,
    };

    use super::*;

    fn asked<R: Request>(answers: &mut Answers, request: &R) -> R::Reply
    where
        R::Reply: for<'a> Deserialize<'a>,
    {
        let frame = answers.to(&encode_request(request, 0, None).unwrap());
        let (head, body) = frame.split_first_chunk::<REPLY_HEADER_BYTES>().unwrap();
        assert_eq!(ReplyHeader::decode(head).unwrap().status, 0);
        decode_body(body).unwrap()
    }

    #[test]
    fn each_key_of_a_request_is_answered() {
        let mut answers = Answers::default();
        let key = serde_bytes::Bytes::new(b"a key");
        let get = asked(&mut answers, &GetRequest { keys: vec![key; 128] });
        assert_eq!(get.items.len(), 128);
        let get = asked(&mut answers, &GetRequest { keys: vec![key; 3] });
        assert_eq!(get.items.len(), 3);
        let exist = asked(&mut answers, &ExistRequest { lease: true, keys: vec![key; 9] });
        assert!(exist.readable(8) && !exist.readable(9));
        let item = PutStartItem { key, size_bytes: 1, put_id: 1 };
        let options = PutOptions::default();
        let start = asked(&mut answers, &PutStartRequest { options, items: vec![item; 64] });
        assert!(start.items.len() == 64 && start.items.iter().all(Result::is_ok));
        let items = vec![PutItem { key, sequence: SEQUENCE }; 64];
        let end = asked(&mut answers, &PutEndRequest { incarnation: start.incarnation, items });
        assert_eq!(end.items, vec![Ok(()); 64]);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let status = |request: &[u8]| {
            let frame = Answers::default().to(request);
            let head = frame.first_chunk::<REPLY_HEADER_BYTES>().unwrap();
            u16::from_le_bytes([head[6], head[7]])
        };
        assert_eq!(status(b"GET / HTTP/1.1"), ErrorCode::Malformed as u16);
        let header =
            RequestHeader { kind: Kind::Get, body_bytes: 4, deadline_ms: 0, traced: false };
        let many = [&header.encode()[..], &[0xff, 0xff, 0xff, 0x7f]].concat();
        assert_eq!(status(&many), ErrorCode::TooLarge as u16);
        assert_eq!(status(&header.encode()), ErrorCode::Malformed as u16);
    }
}
