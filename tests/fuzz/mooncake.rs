//! What comes to the port for clients of Mooncake, and what a client of it reads.

use mooring_proto::mooncake::{
    Call, Form, Function, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, reread_reply, split_reply,
    split_request,
};

use crate::engine::{Decoder, bytes_of, run, within};

/// An empty text is one byte in a message and sixteen as a slice, and lists nest.
const REQUEST_COST: usize = 24;

/// A reply is also shown as text, with the names of its fields.
const REPLY_COST: usize = 200;

/// The code of the type follows the header.
const TYPE_CODE_BYTES: usize = 4;

/// Requests and replies of real clients and masters.
fn captures() -> Vec<(Vec<u8>, Vec<u8>)> {
    let text = include_str!("../../proto/tests/mooncake/captures.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let columns = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    columns.map(|columns| (bytes_of(columns[2]), bytes_of(columns[3]))).collect()
}

/// Whole frames, as the port takes them from its connections.
fn feed_requests(input: &[u8]) -> String {
    let frame = match within(input, 0, || split_request(input, 1 << 20)) {
        Ok(Some(frame)) => frame,
        Ok(None) => return "more to come".to_owned(),
        Err(error) => return error.to_string(),
    };
    assert!(frame.bytes <= input.len());
    let id = frame.header.function_id;
    match within(frame.body, REQUEST_COST, || Call::decode(id, frame.body)) {
        Ok(call) => {
            let mut again = Vec::new();
            call.append_to(&mut again, 7, Form::WithLiteral).expect("it was in one frame before");
            let reread = split_request(&again, usize::MAX).unwrap().expect("a whole frame");
            assert_eq!(Call::decode(reread.header.function_id, reread.body), Ok(call.clone()));
            format!("{:?}", call.function())
        }
        Err(error) => error.to_string(),
    }
}

/// The number of a function, and a frame that answers it.
fn feed_replies(input: &[u8]) -> String {
    let Some((number, input)) = input.split_first() else { return String::new() };
    let function = Function::ALL[usize::from(*number) % Function::ALL.len()];
    let frame = match within(input, 0, || split_reply(input, 1 << 20)) {
        Ok(Some(frame)) => frame,
        Ok(None) => return "more to come".to_owned(),
        Err(error) => return error.to_string(),
    };
    match within(frame.body, REPLY_COST, || reread_reply(function, frame.body, Form::Plain)) {
        Ok((text, body)) => {
            assert_eq!(reread_reply(function, &body, Form::Plain), Ok((text, body)));
            format!("{function:?}")
        }
        Err(fault) => format!("{function:?} {fault}"),
    }
}

#[test]
fn whatever_comes_to_the_mooncake_port_is_a_call_or_a_refusal() {
    run(&Decoder {
        name: "mooncake-requests",
        seeds: captures().into_iter().map(|(request, _)| request).collect(),
        front_bytes: REQUEST_HEADER_BYTES + TYPE_CODE_BYTES,
        feed: feed_requests,
    });
}

#[test]
fn whatever_a_master_of_mooncake_answers_is_a_reply_or_a_fault() {
    let seeds = captures().into_iter().map(|(request, reply)| {
        let frame = split_request(&request, usize::MAX).unwrap().expect("a whole frame");
        let function = Call::decode(frame.header.function_id, frame.body).unwrap().function();
        [&[function as u8][..], &reply].concat()
    });
    run(&Decoder {
        name: "mooncake-replies",
        seeds: seeds.collect(),
        front_bytes: 1 + REPLY_HEADER_BYTES + TYPE_CODE_BYTES,
        feed: feed_replies,
    });
}
