//! Pins the bytes of every message, header, kind and error code to `conformance.txt`.
//!
//! A difference means that peers of another release would no longer understand this one. When the
//! change is meant (a new message, a new version), write the file anew and review its diff:
//!
//! ```text
//! MOORING_CONFORMANCE=write cargo test -p mooring-proto --test conformance
//! ```

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::PathBuf;

use mooring_proto::frame::{self, ReplyHeader, RequestHeader, TraceContext};
use mooring_proto::message::data::*;
use mooring_proto::message::inspect::*;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::message::{Kind, Request};
use mooring_proto::{
    ClientId, ErrorCode, Incarnation, NoSpace, PutToken, Refusal, SegmentId, SegmentsDigest,
    WireError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::{ByteBuf, Bytes};

#[test]
fn every_message_has_the_bytes_that_are_written_down() {
    let cases = all_cases();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance.txt");
    if std::env::var("MOORING_CONFORMANCE").is_ok_and(|value| value == "write") {
        std::fs::write(&path, render(&cases)).expect("the file can be written");
        return;
    }
    let written = parse(&std::fs::read_to_string(&path).expect("the file can be read"));
    let mut differences = Vec::new();
    for (name, bytes) in &cases.0 {
        match written.get(name) {
            None => differences.push(format!("missing from the file: {name} = {bytes}")),
            Some(pinned) if pinned != bytes => {
                differences.push(format!("{name}: pinned {pinned}, now {bytes}"));
            }
            Some(_) => {}
        }
    }
    for name in written.keys().filter(|name| !cases.has(name)) {
        differences.push(format!("in the file only: {name}"));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn no_kind_is_left_out() {
    let cases = all_cases();
    for kind in Kind::ALL {
        let wanted = match kind {
            Kind::Attention => vec![format!("notice/{kind:?}")],
            _ => vec![format!("request/{kind:?}"), format!("reply/{kind:?}")],
        };
        for name in wanted {
            assert!(cases.has(&name), "no case {name}");
        }
    }
}

/// Name and bytes in hexadecimal, in the order of the file.
struct Cases(Vec<(String, String)>);

impl Cases {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn add(&mut self, name: impl Into<String>, bytes: &[u8]) {
        let name = name.into();
        assert!(!self.has(&name), "two cases {name}");
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes every write");
            hex
        });
        self.0.push((name, hex));
    }

    /// A message without borrowed parts; it must decode to itself.
    fn owned<T>(&mut self, name: impl Into<String>, value: &T)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let bytes = postcard::to_stdvec(value).expect("it can be encoded");
        let decoded: T = frame::decode_body(&bytes).expect("it can be decoded");
        assert_eq!(&decoded, value);
        self.add(name, &bytes);
    }

    /// A reply under the name of its request's kind.
    fn reply<R: Request>(&mut self, variant: &str, value: &R::Reply)
    where
        R::Reply: PartialEq + Debug,
    {
        self.owned(format!("reply/{:?}{variant}", R::KIND), value);
    }
}

/// A request, which may borrow from its bytes; it must decode to itself.
macro_rules! request {
    ($cases:expr, $variant:literal, $type:ident, $value:expr) => {
        let value: $type = $value;
        let bytes = postcard::to_stdvec(&value).expect("it can be encoded");
        let decoded: $type = frame::decode_request(&bytes).expect("it can be decoded");
        assert_eq!(decoded, value);
        $cases.add(format!("request/{:?}{}", <$type as Request>::KIND, $variant), &bytes);
    };
}

fn all_cases() -> Cases {
    let mut cases = Cases(Vec::new());
    add_numbers(&mut cases);
    add_identities(&mut cases);
    add_headers(&mut cases);
    add_errors(&mut cases);
    add_session(&mut cases);
    add_segments(&mut cases);
    add_puts(&mut cases);
    add_reads(&mut cases);
    add_removals(&mut cases);
    add_inspection(&mut cases);
    add_data(&mut cases);
    add_frames(&mut cases);
    cases
}

/// Kinds and codes as they stand in headers.
fn add_numbers(cases: &mut Cases) {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_number(*kind as u16), Some(*kind));
        cases.add(format!("kind/{kind:?}"), &(*kind as u16).to_le_bytes());
    }
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::from_number(*code as u16), Some(*code));
        cases.add(format!("code/{}", code.name()), &(*code as u16).to_le_bytes());
    }
}

fn add_identities(cases: &mut Cases) {
    cases.owned("identity/ClientId", &CLIENT);
    cases.owned("identity/SegmentId", &SEGMENT);
    cases.owned("identity/Incarnation", &INCARNATION);
    cases.owned("identity/PutToken", &PutToken { incarnation: INCARNATION, sequence: 300 });
}

fn add_headers(cases: &mut Cases) {
    let mut header =
        RequestHeader { kind: Kind::Get, body_bytes: 70_000, deadline_ms: 2_000, traced: false };
    assert_eq!(RequestHeader::decode(&header.encode()), Ok(header));
    cases.add("header/request", &header.encode());
    header.traced = true;
    assert_eq!(RequestHeader::decode(&header.encode()), Ok(header));
    cases.add("header/request/traced", &header.encode());

    let context = TraceContext {
        trace_id: [
            0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e,
            0x47, 0x36,
        ],
        span_id: [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7],
        flags: 1,
    };
    assert_eq!(TraceContext::decode(&context.encode()), context);
    cases.add("header/trace context", &context.encode());

    let mut header = ReplyHeader { kind: Kind::Get, status: 0, body_bytes: 70_000 };
    assert_eq!(ReplyHeader::decode(&header.encode()), Ok(header));
    cases.add("header/reply", &header.encode());
    header.status = ErrorCode::Overloaded as u16;
    assert_eq!(ReplyHeader::decode(&header.encode()), Ok(header));
    cases.add("header/reply/refused", &header.encode());
}

fn add_errors(cases: &mut Cases) {
    for code in ErrorCode::ALL {
        cases.owned(format!("error/{}", code.name()), &WireError::new(*code, ""));
    }
    let error = WireError::new(ErrorCode::Overloaded, "the mailbox of a shard is full");
    cases.owned("error/with text and hint", &error.retry_after_ms(250));
    cases.owned("refusal/plain", &Refusal::from(ErrorCode::NotFound));
    cases.owned("refusal/NoSpace", &no_space());
}

fn add_session(cases: &mut Cases) {
    request!(cases, "", HelloRequest, hello());
    cases.reply::<HelloRequest>("", &hello_reply());
    let kept = [SegmentId(1), SegmentId(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f)];
    let kept: SegmentsDigest = kept.into_iter().collect();
    request!(cases, "", PingRequest, PingRequest { mounted_segments: 2, kept });
    let reply = PingReply {
        incarnation: INCARNATION,
        need_remount: true,
        segment_epoch: 7,
        client_ttl_ms: 10_000,
    };
    cases.reply::<PingRequest>("", &reply);
    cases.owned("notice/Attention", &Attention { silent_ms: 10_500 });
}

fn add_segments(cases: &mut Cases) {
    let pinned = Segment { certificate_sha256: Some([0xab; 32]), ..segment() };
    let again = MountRequest { segment: pinned, mounted_with: Some(INCARNATION) };
    let first = MountRequest { segment: segment(), mounted_with: None };
    let grant = MountGrant { slot: 3, generation: 1, incarnation: INCARNATION };
    request!(cases, "", MountRequest, first.clone());
    request!(cases, "/pinned and mounted before", MountRequest, again.clone());
    let engine =
        TransferEngine { name: "node-5".into(), protocol: "tcp".into(), host: "10.0.0.5".into() };
    let foreign = Segment { transfer_engine: Some(engine), ..segment() };
    let foreign = MountRequest { segment: foreign, mounted_with: None };
    request!(cases, "/by a transfer engine", MountRequest, foreign);
    cases.reply::<MountRequest>("", &grant);
    request!(cases, "", RemountRequest, RemountRequest { segments: vec![first, again] });
    request!(cases, "/no memory", RemountRequest, RemountRequest { segments: vec![] });
    cases.reply::<RemountRequest>("", &RemountReply { grants: vec![grant, grant] });
    request!(cases, "", UnmountRequest, UnmountRequest { segment: SEGMENT, grace_ms: 30_000 });
    cases.reply::<UnmountRequest>("", &UnmountReply { grace_left_ms: 29_999 });

    request!(cases, "", SegmentTableRequest, SegmentTableRequest { known: None });
    let known = SegmentTableRequest { known: Some((INCARNATION, 7)) };
    request!(cases, "/known", SegmentTableRequest, known);
    let mut reply = SegmentTableReply {
        incarnation: INCARNATION,
        epoch: 8,
        segments: Some(vec![segment_entry()]),
    };
    cases.reply::<SegmentTableRequest>("", &reply);
    reply.segments = None;
    cases.reply::<SegmentTableRequest>("/current", &reply);
}

fn add_puts(cases: &mut Cases) {
    request!(cases, "", PutStartRequest, put_start());
    let options = PutOptions {
        replicas: 2,
        preferred_segments: vec![SEGMENT],
        hard_pin: true,
        soft_pin_ttl_ms: Some(1_800_000),
    };
    let items = vec![
        PutStartItem { key: Bytes::new(b"a"), size_bytes: 1, put_id: 0 },
        PutStartItem { key: Bytes::new(b"\xff\x00"), size_bytes: 1 << 40, put_id: u64::MAX },
    ];
    request!(cases, "/options", PutStartRequest, PutStartRequest { options, items });
    cases.reply::<PutStartRequest>("", &put_start_reply());
    let mut reply = put_start_reply();
    reply.items = vec![Err(no_space()), Err(ErrorCode::AlreadyExists.into())];
    cases.reply::<PutStartRequest>("/refused", &reply);

    request!(cases, "", PutEndRequest, put_end());
    cases.reply::<PutEndRequest>("", &ItemsReply { items: vec![Ok(())] });
    let items = vec![Err(ErrorCode::StaleToken.into()), Ok(())];
    cases.reply::<PutEndRequest>("/refused", &ItemsReply { items });

    let items = vec![PutItem { key: Bytes::new(KEY), sequence: 300 }];
    let request = PutRevokeRequest { incarnation: INCARNATION, no_write_in_flight: true, items };
    request!(cases, "", PutRevokeRequest, request);
    let items = vec![Err(ErrorCode::PutComplete.into())];
    cases.reply::<PutRevokeRequest>("", &ItemsReply { items });
}

fn add_reads(cases: &mut Cases) {
    request!(cases, "", GetRequest, get());
    request!(cases, "/empty", GetRequest, GetRequest { keys: vec![] });
    cases.reply::<GetRequest>("", &get_reply());

    let keys = vec![Bytes::new(KEY), Bytes::new(b"block-2")];
    request!(cases, "", ExistRequest, ExistRequest { lease: true, keys: keys.clone() });
    let readable = [true, false, true, true, false, false, false, false, true];
    cases.reply::<ExistRequest>("", &ExistReply::pack(readable.into_iter()));
    request!(cases, "", MatchPrefixRequest, MatchPrefixRequest { lease: false, keys });
    cases.reply::<MatchPrefixRequest>("", &MatchPrefixReply { matched: 200 });

    let items = vec![PutItem { key: Bytes::new(KEY), sequence: 300 }];
    let request = ValidateRequest { incarnation: INCARNATION, items };
    request!(cases, "", ValidateRequest, request);
    let items = vec![Ok(()), Err(ErrorCode::Changed.into())];
    cases.reply::<ValidateRequest>("", &ItemsReply { items });
}

fn add_removals(cases: &mut Cases) {
    let request = RemoveRequest { force: false, keys: vec![Bytes::new(KEY)] };
    request!(cases, "", RemoveRequest, request);
    let leased = Refusal { retry_after_ms: Some(9_000), ..ErrorCode::Leased.into() };
    cases.reply::<RemoveRequest>("", &ItemsReply { items: vec![Err(leased)] });
    request!(cases, "", RemoveAllRequest, RemoveAllRequest { force: true });
    cases.reply::<RemoveAllRequest>("", &RemoveAllReply { removed: 70, kept: 30 });
}

fn add_inspection(cases: &mut Cases) {
    request!(cases, "", StatsRequest, StatsRequest {});
    let reply = StatsReply {
        objects: 1,
        allocated_bytes: 200,
        capacity_bytes: 300_000,
        held_bytes: 4,
        segments: 5,
        clients: 6,
        evicted_objects: 7,
        evicted_bytes: 8,
        put_refused: 9,
        resident_bytes: 10,
        uptime_ms: 11,
        shards: vec![ShardStats { objects: 1, allocated_bytes: 200, queue: 3 }],
    };
    cases.reply::<StatsRequest>("", &reply);

    request!(cases, "", ListSegmentsRequest, ListSegmentsRequest {});
    let states = [
        (SegmentState::Open, None),
        (SegmentState::Quarantined, Some(9_000)),
        (SegmentState::Draining, Some(1)),
        (SegmentState::Leaving, None),
    ];
    let row = |(state, time_left_ms)| SegmentUse {
        entry: segment_entry(),
        state,
        allocated_bytes: 1 << 20,
        held_bytes: 64,
        time_left_ms,
    };
    let segments = states.into_iter().map(row).collect();
    cases.reply::<ListSegmentsRequest>("", &ListSegmentsReply { segments });
    let segments = vec![row((SegmentState::Pending, Some(60_000)))];
    cases.reply::<ListSegmentsRequest>("/pending", &ListSegmentsReply { segments });

    request!(cases, "", ListClientsRequest, ListClientsRequest {});
    let row = |state| ClientEntry {
        client: CLIENT,
        name: "engine-0".into(),
        state,
        silent_ms: 900,
        segments: 1,
    };
    let clients = vec![row(ClientState::Active), row(ClientState::Suspected)];
    cases.reply::<ListClientsRequest>("", &ListClientsReply { clients });

    request!(cases, "", ListKeysRequest, ListKeysRequest { cursor: 0, limit: 1_000 });
    let keys = vec![KeyEntry { key: ByteBuf::from(KEY), size_bytes: 262_144 }];
    cases.reply::<ListKeysRequest>("", &ListKeysReply { keys: keys.clone(), next: Some(1_000) });
    cases.reply::<ListKeysRequest>("/last page", &ListKeysReply { keys, next: None });
}

fn add_data(cases: &mut Cases) {
    let range = MountedRange {
        segment: SEGMENT,
        generation: 1,
        incarnation: INCARNATION,
        offset_bytes: 65_536,
        length_bytes: 9,
    };
    // The CRC-32C of the nine digits, the check value that catalogues of checksums name.
    let crc32c = 0xe306_9283;
    request!(cases, "", ReadRangeRequest, ReadRangeRequest { range });
    cases.reply::<ReadRangeRequest>("", &ReadRangeReply { length_bytes: 9, crc32c });
    request!(cases, "", WriteRangeRequest, WriteRangeRequest { range, crc32c });
    cases.reply::<WriteRangeRequest>("", &WriteRangeReply {});
}

/// Whole frames, the worked example of `PROTOCOL.md`.
fn add_frames(cases: &mut Cases) {
    add_exchange(cases, &hello(), &hello_reply());
    add_exchange(cases, &put_start(), &put_start_reply());
    add_exchange(cases, &put_end(), &ItemsReply { items: vec![Ok(())] });
    add_exchange(cases, &get(), &get_reply());

    let trace = TraceContext { trace_id: [0x11; 16], span_id: [0x22; 8], flags: 1 };
    let traced = frame::encode_request(&get(), 2_000, Some(&trace)).expect("it is small");
    cases.add("frame/Get/request/traced", &traced);
    cases.add("frame/Attention", &frame::encode_attention(&Attention { silent_ms: 10_500 }));
    let error = WireError::new(ErrorCode::HelloRequired, "say hello first");
    cases.add("frame/refused", &frame::encode_reply::<()>(Kind::Get, Err(&error)));
    let error = WireError::new(ErrorCode::UnknownKind, "message kind 999");
    cases.add("frame/unknown kind", &frame::encode_refusal(999, &error));
}

fn add_exchange<R: Request>(cases: &mut Cases, request: &R, reply: &R::Reply) {
    let bytes = frame::encode_request(request, 2_000, None).expect("it is small");
    cases.add(format!("frame/{:?}/request", R::KIND), &bytes);
    cases.add(format!("frame/{:?}/reply", R::KIND), &frame::encode_reply(R::KIND, Ok(reply)));
}

fn hello() -> HelloRequest {
    HelloRequest {
        client: CLIENT,
        name: "engine-0".into(),
        version_min: 1,
        version_max: 1,
        features: 0,
    }
}

fn hello_reply() -> HelloReply {
    HelloReply {
        version: 1,
        features: 0,
        incarnation: INCARNATION,
        server: "mooring 0.1.0".into(),
        client_ttl_ms: 10_000,
        lease_ttl_ms: 10_000,
        segment_epoch: 7,
    }
}

fn put_start() -> PutStartRequest<'static> {
    let item = PutStartItem { key: Bytes::new(KEY), size_bytes: 262_144, put_id: 42 };
    PutStartRequest { options: PutOptions::default(), items: vec![item] }
}

fn put_start_reply() -> PutStartReply {
    PutStartReply {
        incarnation: INCARNATION,
        segment_epoch: 7,
        discard_timeout_ms: 30_000,
        items: vec![Ok(PutStartGrant { sequence: 300, replicas: vec![PLACE].into() })],
    }
}

fn put_end() -> PutEndRequest<'static> {
    let items = vec![PutItem { key: Bytes::new(KEY), sequence: 300 }];
    PutEndRequest { incarnation: INCARNATION, items }
}

fn get() -> GetRequest<'static> {
    GetRequest { keys: vec![Bytes::new(KEY), Bytes::new(b"block-2")] }
}

fn get_reply() -> GetReply {
    let located = Located { size_bytes: 262_144, sequence: 300, replicas: vec![PLACE].into() };
    GetReply {
        incarnation: INCARNATION,
        segment_epoch: 7,
        lease_ttl_ms: 10_000,
        items: vec![Ok(located), Err(ErrorCode::NotFound.into())],
    }
}

fn segment() -> Segment {
    Segment {
        segment: SEGMENT,
        base: 0x7f00_0000_0000,
        size_bytes: 1 << 30,
        endpoint: "10.0.0.5:50061".into(),
        certificate_sha256: None,
        transfer_engine: None,
    }
}

fn segment_entry() -> SegmentEntry {
    SegmentEntry { slot: 3, generation: 1, client: CLIENT, segment: segment() }
}

fn no_space() -> Refusal {
    let space = NoSpace {
        free_bytes: 1_000,
        largest_free_run_bytes: 100,
        leased_bytes: 2_000,
        pinned_bytes: 3_000,
        held_bytes: 4_000,
    };
    Refusal { code: ErrorCode::NoSpace, retry_after_ms: Some(500), no_space: Some(Box::new(space)) }
}

fn render(cases: &Cases) -> String {
    let mut text = String::from(FILE_HEAD);
    for (name, bytes) in &cases.0 {
        writeln!(text, "{}", format!("{name} = {bytes}").trim_end())
            .expect("a string takes every write");
    }
    text
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        let (name, bytes) = line.split_once(" =").expect("a line is `name = hex`");
        (name.to_owned(), bytes.trim().to_owned())
    };
    let pairs: Vec<_> = lines.map(pair).collect();
    let count = pairs.len();
    let by_name: BTreeMap<_, _> = pairs.into_iter().collect();
    assert_eq!(by_name.len(), count, "a name stands twice in the file");
    by_name
}

const FILE_HEAD: &str = "\
# The bytes of every message of the protocol, one case a line: name = bytes in hexadecimal.
# `request/`, `reply/`, `notice/`, `error/`, `refusal/`, `identity/` are bodies in postcard without a
# header, `header/` headers alone, `frame/` whole frames, `kind/` and `code/` numbers as in headers.
# Written on purpose only: MOORING_CONFORMANCE=write cargo test -p mooring-proto --test conformance
";

const KEY: &[u8] = b"block-1";
const CLIENT: ClientId = ClientId(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
const SEGMENT: SegmentId = SegmentId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
const INCARNATION: Incarnation = Incarnation(0x0123_4567_89ab_cdef);
const PLACE: RangeDescriptor = RangeDescriptor { slot: 3, generation: 1, offset_bytes: 65_536 };
