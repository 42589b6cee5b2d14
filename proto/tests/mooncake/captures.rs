//! Captured frames: all of them are read, and written again byte for byte.

use std::sync::LazyLock;

use mooring_proto::mooncake::*;

/// One captured call.
pub(crate) struct Capture {
    pub(crate) function: &'static str,
    pub(crate) request: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

pub(crate) fn captures() -> &'static [Capture] {
    static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(read_captures);
    &CAPTURES
}

fn read_captures() -> Vec<Capture> {
    include_str!("captures.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let [_, function, request, reply] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("four columns");
            Capture { function, request: bytes_of(request), reply: bytes_of(reply) }
        })
        .collect()
}

/// The capture of a client that has this function first.
pub(crate) fn capture_of(function: &str) -> &'static Capture {
    captures().iter().find(|capture| capture.function == function).expect("it was captured")
}

pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(pair, 16).expect("two digits")
        })
        .collect()
}

pub(crate) fn request_of(frame: &[u8]) -> Frame<'_, RequestHeader> {
    let found = split_request(frame, frame.len()).expect("a request").expect("a whole one");
    assert_eq!(found.bytes, frame.len());
    found
}

pub(crate) fn reply_of(frame: &[u8]) -> Frame<'_, ReplyHeader> {
    let found = split_reply(frame, frame.len()).expect("a reply").expect("a whole one");
    assert_eq!(found.bytes, frame.len());
    found
}

pub(crate) fn call_of(frame: &[u8]) -> Call<'_> {
    let request = request_of(frame);
    Call::decode(request.header.function_id, request.body).expect("a captured call")
}

/// The form of a body whose sender adds literals or does not.
fn form_of(body: &[u8]) -> Form {
    if readable_type_of(body).is_some() { Form::WithLiteral } else { Form::Plain }
}

#[test]
fn each_captured_request_is_read_and_written_again_byte_for_byte() {
    let captures = captures();
    assert!(captures.len() > 90, "{} captures", captures.len());
    for capture in captures {
        let request = request_of(&capture.request);
        let call = call_of(&capture.request);
        assert_eq!(call.function().name(), capture.function);
        let mut again = Vec::new();
        call.append_to(&mut again, request.header.seq, form_of(request.body)).expect("small");
        assert_eq!(again, capture.request, "{call:?}");
    }
}

#[test]
fn each_captured_answer_is_read_and_written_again_byte_for_byte() {
    for capture in captures() {
        let function = call_of(&capture.request).function();
        let reply = reply_of(&capture.reply);
        assert_eq!(reply.header.error, 0);
        let (text, again) =
            reread_reply(function, reply.body, form_of(reply.body)).expect("an answer");
        assert_eq!(again, reply.body, "{}: {text}", capture.function);
    }
}

#[test]
fn the_captures_have_every_function_of_the_release() {
    let captured: std::collections::BTreeSet<_> =
        captures().iter().map(|capture| capture.function).collect();
    assert_eq!(captured.len(), 64);
}

#[test]
fn a_put_reads_as_what_the_client_asked_for() {
    let capture = capture_of("PutStart");
    let Call::PutStart(put) = call_of(&capture.request) else { panic!("another function") };
    assert_eq!(put.client, Uuid { first: 16377681375264229612, second: 10816130536339048360 });
    assert_eq!(put.key, Str(b"k2"));
    assert_eq!(put.slice_length, 5000);
    assert_eq!(put.config.replica_num, 1);
    assert_eq!(put.config.soft_pin_action, SoftPinAction::PRESERVE);
    assert_eq!(put.config.soft_pin_ttl_ms, None);
    assert_eq!(put.config.preferred_segments, [Str(b"127.0.0.1:12345")]);
    assert_eq!(put.config.group_ids, None);
    assert_eq!(put.tenant, Str(b"default"));

    let reply = reply_of(&capture.reply);
    let granted = decode_reply::<PutStart<'_>>(&reply.header, reply.body).expect("an answer");
    let granted = granted.expect("space");
    let [descriptor] = granted.as_slice() else { panic!("one replica") };
    let Place::Memory(memory) = &descriptor.place else { panic!("in memory") };
    assert_eq!(memory.buffer_descriptor.size, 5000);
    assert_eq!(memory.buffer_descriptor.protocol, Str(b"tcp"));
    assert_eq!(descriptor.status, ReplicaStatus::PROCESSING);
}

#[test]
fn keys_are_borrowed_from_the_frame() {
    let capture = capture_of("BatchExistKey");
    let Call::BatchExistKey(request) = call_of(&capture.request) else { panic!("another one") };
    let frame = capture.request.as_ptr_range();
    assert!(request.keys.len() > 1);
    assert!(request.keys.iter().all(|key| frame.contains(&key.0.as_ptr())));
}

#[test]
fn members_that_a_later_release_appends_are_skipped() {
    let capture = capture_of("MountSegment");
    let request = request_of(&capture.request);
    let wanted = call_of(&capture.request);
    // The form with a total length of two bytes, and behind the value a member that is not set.
    let (code, rest) = request.body.split_at(4);
    assert_eq!(rest[0], 0x04);
    let total = (request.body.len() as u16 + 3).to_le_bytes();
    let body = [code, &[0x05], &total, &rest[1..], &[0]].concat();
    assert_eq!(Call::decode(request.header.function_id, &body), Ok(wanted));
}

#[test]
fn a_result_without_literal_is_half_as_long_and_says_the_same() {
    let capture = capture_of("ServiceReady");
    let reply = reply_of(&capture.reply);
    let version = decode_reply::<ServiceReady>(&reply.header, reply.body).expect("an answer");
    assert_eq!(version, Ok(Str(b"2.0.0")));
    let mut plain = Vec::new();
    append_reply::<ServiceReady, _>(&mut plain, 0, &version, Form::Plain).expect("small");
    assert_eq!(plain[16..], bytes_of("34ccb31c0105322e302e30"));
}
