//! What a collector answers: a line for the status, one for its text, and the body.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;

use super::answer::{GRPC_PREFIX_BYTES, of_grpc, of_http, rejected_figures, rejected_spans};
use crate::engine::{Decoder, run, within};

/// A text of the collector is copied, and stands in a sentence.
const COST: usize = 4;

/// How many spans the message had.
const SENT: u64 = 512;

fn feed(input: &[u8]) -> String {
    let mut parts = input.splitn(3, |byte| *byte == b'\n');
    let [status, text, body] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let mut headers = HeaderMap::new();
    for (name, value) in [("grpc-status", status), ("grpc-message", text)] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
    }
    let (body, none) = (Bytes::copy_from_slice(body), HeaderMap::new());
    let in_head = within(input, COST, || of_grpc(&headers, None, body.clone()));
    let in_trailers = of_grpc(&none, Some(&headers), body.clone());
    assert_eq!(in_head.as_ref().ok(), in_trailers.as_ref().ok());
    let status = StatusCode::from_bytes(status).unwrap_or(StatusCode::OK);
    let over_http = of_http(status, body.clone());
    assert_eq!(over_http.is_ok(), status.is_success());
    [in_head, over_http].map(|answer| words_of(input, answer, body.len())).join(", ")
}

fn words_of<E>(input: &[u8], answer: Result<Bytes, E>, body_bytes: usize) -> String {
    let Ok(answer) = answer else { return "refused".to_owned() };
    assert!(answer.len() <= body_bytes);
    let rejected = within(input, COST, || rejected_spans(answer.clone(), SENT));
    assert!(rejected <= SENT);
    match within(input, COST, || rejected_figures(answer)) {
        Some((figures, text)) => {
            assert!(figures > 0 && text.len() <= body_bytes);
            format!("{} figures {}", rejected > 0, text.is_empty())
        }
        None => format!("{}", rejected > 0),
    }
}

/// An answer with the prefix of gRPC or without.
fn seed(status: &str, rejected_spans: i64, has_prefix: bool) -> Vec<u8> {
    let partial =
        ExportTracePartialSuccess { rejected_spans, error_message: "too many".to_owned() };
    let message = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let mut input = format!("{status}\nquota\n").into_bytes();
    if has_prefix {
        input.push(0);
        input.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        assert_eq!(input.len(), status.len() + 7 + GRPC_PREFIX_BYTES);
    }
    input.extend(message);
    input
}

#[test]
fn whatever_a_collector_answers_rejects_no_more_than_was_sent() {
    let refused = seed("14", 0, true);
    let seeds = vec![seed("0", 3, true), seed("200", -1, false), seed("503", 9, false), refused];
    run(&Decoder { name: "collector", seeds, front_bytes: 2, feed });
}

#[test]
fn an_answer_is_read_to_the_end_of_its_message_and_not_if_it_is_compressed_or_cut_off() {
    let headers =
        HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    let read = |body: &[u8]| of_grpc(&headers, None, Bytes::copy_from_slice(body)).unwrap();
    assert_eq!(read(&[0, 0, 0, 0, 2, 7, 8, 9]), [7, 8][..]);
    assert!(read(&[1, 0, 0, 0, 2, 7, 8]).is_empty());
    assert!(read(&[0, 0, 0, 0, 3, 7, 8]).is_empty());
    assert!(read(&[0, 0, 0, 0]).is_empty());
}
