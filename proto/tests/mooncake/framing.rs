//! Headers, the corner cases that a real master answers, and refusals.

use mooring_proto::mooncake::*;

use crate::captures::{bytes_of, capture_of};

const LIMIT: usize = 1 << 20;

/// `ExistKey` of an unlikely key, as a body in the plain form.
fn exist_body() -> Vec<u8> {
    let mut body = Vec::new();
    append_body(&mut body, &exist(), Form::Plain);
    body
}

fn exist() -> ExistKey<'static> {
    ExistKey { key: Str(b"no such key"), tenant: Str(b"default") }
}

fn decoded(body: &[u8]) -> Result<Call<'_>, CallError> {
    Call::decode(Function::ExistKey.id(), body)
}

/// The cause for which a body of `ExistKey` is refused.
fn refused(body: &[u8]) -> Cause {
    match decoded(body) {
        Err(CallError::Arguments { function: Function::ExistKey, fault }) => fault.cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_header_that_is_not_of_this_protocol_is_refused_at_its_byte() {
    let good = capture_of("ServiceReady").request.clone();
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        split_request(&frame, LIMIT).map(|_| ())
    };
    assert_eq!(with(0, 0x16), Err(FramingError::Magic { byte: 0x16 }));
    assert_eq!(with(1, 1), Err(FramingError::Version { version: 1 }));
    assert_eq!(with(2, 1), Err(FramingError::SerializeType { kind: 1 }));
    assert_eq!(with(3, 9), Ok(()));
    assert_eq!(split_request(b"G", LIMIT), Err(FramingError::Magic { byte: b'G' }));
    assert_eq!(split_request(&[0x15, 2], LIMIT), Err(FramingError::Version { version: 2 }));
}

#[test]
fn a_frame_is_found_when_its_last_byte_is_there() {
    let mut frames = capture_of("PutStart").request.clone();
    let first = frames.len();
    frames.extend(&capture_of("ServiceReady").request);
    for end in 0..first {
        assert_eq!(split_request(&frames[..end], LIMIT), Ok(None), "{end} bytes");
    }
    let found = split_request(&frames, LIMIT).expect("a request").expect("a whole one");
    assert_eq!(found.bytes, first);
    let next = split_request(&frames[first..], LIMIT).expect("a request").expect("a whole one");
    assert_eq!(next.header.function_id, Function::ServiceReady.id());
}

#[test]
fn an_attachment_is_skipped() {
    let mut frame = capture_of("ServiceReady").request.clone();
    frame[16] = 5;
    frame.extend(b"12345");
    let found = split_request(&frame, LIMIT).expect("a request").expect("a whole one");
    assert_eq!((found.body, found.bytes), (&[] as &[u8], frame.len()));
}

#[test]
fn a_frame_above_the_limit_is_refused_from_its_header() {
    let header =
        RequestHeader { seq: 7, function_id: 1, body_bytes: u32::MAX, attachment_bytes: u32::MAX };
    let bytes = 2 * u64::from(u32::MAX) + 20;
    assert_eq!(
        split_request(&header.encode(), LIMIT),
        Err(FramingError::TooLarge { seq: 7, bytes, bytes_max: LIMIT })
    );
    let header = ReplyHeader { error: 0, seq: 7, body_bytes: 1 << 20, attachment_bytes: 0 };
    assert!(split_reply(&header.encode(), LIMIT).is_err());
}

#[test]
fn all_widths_of_counts_are_read() {
    let code = Function::ExistKey.argument_code().expect("it has arguments") | 1;
    for (form, width) in [(0x00, 1), (0x08, 2), (0x10, 4), (0x18, 8)] {
        let count = |text: &Str<'_>| text.0.len().to_le_bytes()[..width].to_vec();
        let ExistKey { key, tenant } = exist();
        let parts: [&[u8]; 6] =
            [&code.to_le_bytes(), &[form], &count(&key), key.0, &count(&tenant), tenant.0];
        assert_eq!(decoded(&parts.concat()), Ok(Call::ExistKey(exist())), "{width} bytes");
    }
}

#[test]
fn bytes_behind_the_arguments_are_not_looked_at() {
    let mut body = exist_body();
    body.extend([1, 2, 3]);
    assert_eq!(decoded(&body), Ok(Call::ExistKey(exist())));
    let id = Function::ServiceReady.id();
    assert_eq!(Call::decode(id, b"surplus"), Ok(Call::ServiceReady(ServiceReady {})));
}

#[test]
fn a_body_that_ends_early_is_refused() {
    let body = exist_body();
    assert_eq!(refused(&[]), Cause::Short { needed: 4, left: 0 });
    for end in 0..body.len() {
        assert!(matches!(refused(&body[..end]), Cause::Short { .. }), "{end} bytes");
    }
}

#[test]
fn an_absurd_count_is_refused_with_the_name_of_its_field() {
    let code = Function::ExistKey.argument_code().expect("it has arguments") | 1;
    let body = [&code.to_le_bytes()[..], &[0x18], &(1_u64 << 40).to_le_bytes()].concat();
    let error = decoded(&body).expect_err("no such key fits");
    assert_eq!(error.rpc_error(), RpcError::INVALID_RPC_ARGUMENTS);
    let text = "ExistKey: key: 1099511627776 bytes are announced where 0 are left";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_body_of_another_type_is_refused_with_both_types() {
    let mut body = Vec::new();
    append_body(&mut body, &Ping { client: Uuid::default() }, Form::WithLiteral);
    let error = decoded(&body).expect_err("another type");
    assert_eq!(
        error.to_string(),
        "ExistKey: the type has the code 3c6d83e0 and is {u64, u64}@8; expected is {string, string}"
    );
    let error = Call::decode(Function::BatchReplicaClear.id(), &exist_body()).expect_err("another");
    let text = error.to_string();
    assert!(text.contains("{vector<string>, {u64, u64}@8, string} or {vector<string>"), "{text}");
}

#[test]
fn a_literal_that_is_not_the_one_of_its_code_is_refused() {
    let mut body = Vec::new();
    append_body(&mut body, &exist(), Form::WithLiteral);
    assert_eq!(decoded(&body), Ok(Call::ExistKey(exist())));
    body[6] = 0x84;
    assert!(matches!(refused(&body), Cause::Type(_)));
}

#[test]
fn flags_and_kinds_have_only_the_values_that_they_have() {
    let remove = Remove { key: Str(b"k"), force: true, tenant: Str(b"") };
    let mut body = Vec::new();
    append_body(&mut body, &remove, Form::Plain);
    body[6] = 2;
    let error = Call::decode(Function::Remove.id(), &body).expect_err("neither yes nor no");
    assert_eq!(error.to_string(), "Remove: force: the byte 0x02 is neither zero nor one");

    let capture = capture_of("PutStart");
    let mut body = capture.reply[16..].to_vec();
    let kind_at = body.len() - (1 + 16 + 4 + 16 + 4);
    assert_eq!(body[kind_at], 0);
    body[kind_at] = 5;
    let fault = reread_reply(Function::PutStart, &body, Form::Plain).expect_err("no such kind");
    assert_eq!(fault.cause, Cause::Variant { index: 5, kinds: 5 });
    assert_eq!(fault.field, Some("place"));
}

#[test]
fn an_unknown_function_is_refused_as_the_real_master_does() {
    let error = Call::decode(0x1234_5678, &[]).expect_err("no such function");
    assert_eq!(error, CallError::UnknownFunction { id: 0x1234_5678 });
    let message = "the rpc function not registered";
    let frame = reply_error(3, error.rpc_error(), message);
    let wanted = "15000b00 03000000 24000000 00000000 76facf9d 1f".replace(' ', "");
    assert_eq!(frame, [bytes_of(&wanted), message.as_bytes().to_vec()].concat());
    let found = split_reply(&frame, LIMIT).expect("a reply").expect("a whole one");
    assert_eq!(
        decode_reply::<ServiceReady>(&found.header, found.body),
        Err(ReplyError::Rpc { code: RpcError::FUNCTION_NOT_REGISTERED, message: message.into() })
    );
}

#[test]
fn an_error_with_a_large_number_carries_it_in_the_body() {
    for number in [254, 255, 256, u16::MAX] {
        let frame = reply_error(1, RpcError(number), &"é".repeat(3000));
        assert_eq!(frame[2], number.min(255) as u8);
        let found = split_reply(&frame, LIMIT).expect("a reply").expect("a whole one");
        assert_eq!(
            decode_reply::<Ping>(&found.header, found.body),
            Err(ReplyError::Rpc { code: RpcError(number), message: "é".repeat(2048) })
        );
    }
}
