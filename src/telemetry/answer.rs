//! What a collector answers to a message: whether it has taken it, and what of it not.

use bytes::{Buf, Bytes};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct NotTaken {
    text: String,
    /// It may be taken later.
    pub(super) is_passing: bool,
}

impl NotTaken {
    /// Of no use to send it again.
    pub(super) fn for_good(text: String) -> NotTaken {
        NotTaken { text, is_passing: false }
    }

    /// What may be better soon.
    pub(super) fn for_now(error: impl std::fmt::Display) -> NotTaken {
        NotTaken { text: error.to_string(), is_passing: true }
    }
}

/// The message of an answer over HTTP.
///
/// # Errors
/// A status that is no success.
pub(super) fn of_http(status: StatusCode, body: Bytes) -> Result<Bytes, NotTaken> {
    if status.is_success() {
        return Ok(body);
    }
    let text = format!("HTTP status {status}");
    let is_passing = [429, 502, 503, 504].contains(&status.as_u16());
    Err(NotTaken { text, is_passing })
}

/// The message of an answer over gRPC; an empty one if it is none that can be read.
///
/// # Errors
/// A status that is no success, or none.
pub(super) fn of_grpc(
    head: &HeaderMap,
    trailers: Option<&HeaderMap>,
    body: Bytes,
) -> Result<Bytes, NotTaken> {
    // A refusal may have no body, and then its status stands in the head.
    match trailers.and_then(grpc_status).or_else(|| grpc_status(head)) {
        Some((0, _)) => Ok(unframed(body)),
        Some((code, text)) => {
            let text = format!("gRPC status {code}: {text}");
            Err(NotTaken { text, is_passing: GRPC_PASSING.contains(&code) })
        }
        None => Err(NotTaken::for_now("an answer without a status of gRPC")),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let text = headers.get("grpc-message").and_then(|text| text.to_str().ok());
    Some((code, text.unwrap_or_default().to_owned()))
}

/// What stands behind the prefix of a message.
fn unframed(mut body: Bytes) -> Bytes {
    if body.len() < GRPC_PREFIX_BYTES {
        return Bytes::new();
    }
    let (is_compressed, bytes) = (body.get_u8() != 0, body.get_u32() as usize);
    if is_compressed || bytes > body.len() { Bytes::new() } else { body.slice(..bytes) }
}

/// How many of so many spans a collector has not taken of a message that it has taken.
pub(super) fn rejected_spans(answer: Bytes, sent: u64) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |it| it.rejected_spans);
    u64::try_from(rejected).unwrap_or(0).min(sent)
}

/// How many figures a collector has not taken of a message that it has taken, and why.
pub(super) fn rejected_figures(answer: Bytes) -> Option<(u64, String)> {
    let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    let rejected = u64::try_from(partial.rejected_data_points).ok().filter(|it| *it > 0)?;
    Some((rejected, partial.error_message))
}

/// Before each message of gRPC: whether it is compressed, and how many bytes.
pub(super) const GRPC_PREFIX_BYTES: usize = 5;

/// Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss: as OTLP has it.
const GRPC_PASSING: [u32; 6] = [1, 4, 10, 11, 14, 15];
