//! Whatever a peer sends is a message or an error, and costs no more than a multiple of its bytes.

use mooring_proto::mooncake::*;
use proptest::prelude::*;

use crate::captures::{captures, request_of};
use crate::counting::peak_of;

/// What the bytes of a request may cost in memory, each: an empty string is one byte on the wire
/// and sixteen as a slice, and lists nest.
const REQUEST_COST: usize = 24;

/// What the bytes of a reply may cost that is also shown as text, with the names of its fields.
const REPLY_COST: usize = 200;

/// What the texts of an error may take besides.
const ERROR_BYTES: usize = 16 << 10;

/// Decodes a request; one that is accepted must mean the same when it is written and read again.
fn decode_request(function_id: u32, body: &[u8]) {
    let (result, peak_bytes) = peak_of(|| Call::decode(function_id, body));
    assert!(peak_bytes <= REQUEST_COST * body.len() + ERROR_BYTES, "{peak_bytes} bytes");
    match result {
        Ok(call) => {
            let mut frame = Vec::new();
            call.append_to(&mut frame, 0, Form::Plain).expect("small");
            let again = request_of(&frame);
            assert_eq!(Call::decode(again.header.function_id, again.body), Ok(call));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn decode_reply_body(function: Function, body: &[u8]) {
    let (result, peak_bytes) = peak_of(|| reread_reply(function, body, Form::Plain));
    assert!(peak_bytes <= REPLY_COST * body.len() + ERROR_BYTES, "{peak_bytes} bytes");
    if let Ok((text, body)) = result {
        let again = reread_reply(function, &body, Form::Plain);
        assert_eq!(again, Ok((text, body)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn arbitrary_bytes_are_no_call(
        function in any::<prop::sample::Index>(),
        form in any::<u8>(),
        rest in prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..200),
    ) {
        let function = *function.get(Function::ALL);
        let _ = split_request(&rest, 100);
        let _ = split_reply(&rest, 100);
        decode_request(function.id(), &rest);
        // With the right code in front, so that the values are reached, in all forms.
        for flag in [0, 1] {
            let front = function.argument_code().unwrap_or_default() | flag;
            decode_request(function.id(), &[&front.to_le_bytes()[..], &[form], &rest[..]].concat());
            let front = function.reply_code() | flag;
            decode_reply_body(function, &[&front.to_le_bytes()[..], &[form], &rest[..]].concat());
        }
    }

    #[test]
    fn a_damaged_capture_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let capture = which.get(captures());
        let function = crate::captures::call_of(&capture.request).function();
        let damaged = |frame: &[u8], header_bytes: usize| {
            let mut body = frame[header_bytes..].to_vec();
            for (at, value) in &damage {
                if !body.is_empty() {
                    let at = at.index(body.len());
                    body[at] = *value;
                }
            }
            if let Some(cut) = cut {
                body.truncate(cut.index(body.len() + 1));
            }
            body
        };
        decode_request(function.id(), &damaged(&capture.request, REQUEST_HEADER_BYTES));
        decode_reply_body(function, &damaged(&capture.reply, REPLY_HEADER_BYTES));
    }

    #[test]
    fn an_arbitrary_literal_has_a_reading_or_none(
        literal in prop::collection::vec(
            prop_oneof![any::<u8>(), 0x80..0x90_u8, 0xfa..=0xff_u8],
            0..100,
        ),
    ) {
        let _ = readable_type(&literal);
    }
}

#[test]
fn a_count_that_cannot_follow_takes_no_memory() {
    for function in Function::ALL {
        let Some(code) = function.argument_code() else { continue };
        for count in [u64::from(u32::MAX), 1 << 40, u64::MAX] {
            // Ones, so that whatever precedes the first count is there.
            for before in 0..60 {
                let front = [&(code | 1).to_le_bytes()[..], &[0x18], &vec![1; before][..]].concat();
                let body = [&front[..], &count.to_le_bytes(), &[0; 8]].concat();
                decode_request(function.id(), &body);
            }
        }
    }
}

#[test]
fn a_list_above_the_limit_takes_no_memory() {
    let code = Function::BatchExistKey.argument_code().expect("it has arguments");
    let mut body = [&(code | 1).to_le_bytes()[..], &[0x10]].concat();
    body.extend((LIST_ITEMS_MAX as u32 + 1).to_le_bytes());
    body.resize(body.len() + 5 * LIST_ITEMS_MAX, 0);
    let (result, peak_bytes) = peak_of(|| Call::decode(Function::BatchExistKey.id(), &body));
    let text = "BatchExistKey: keys: a list of 1048577 items, the limit is 1048576";
    assert_eq!(result.map_err(|error| error.to_string()), Err(text.to_owned()));
    assert!(peak_bytes < ERROR_BYTES, "{peak_bytes} bytes");
}

#[test]
fn a_large_batch_is_read_with_one_allocation() {
    let keys: Vec<Vec<u8>> = (0..30_000_u32).map(|key| key.to_le_bytes().repeat(16)).collect();
    let request = BatchGetReplicaList {
        keys: keys.iter().map(|key| Str(key)).collect(),
        tenant: Str(b"default"),
    };
    let mut body = Vec::new();
    append_body(&mut body, &request, Form::Plain);
    let id = Function::BatchGetReplicaList.id();
    let (call, peak_bytes) = peak_of(|| Call::decode(id, &body));
    assert_eq!(call, Ok(Call::BatchGetReplicaList(request)));
    // The list of slices, exactly.
    assert_eq!(peak_bytes, keys.len() * size_of::<Str<'_>>());
}
