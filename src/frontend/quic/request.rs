//! Reading a request from its stream, and refusing it as early as possible.

use std::time::Duration;

use bytes::Bytes;
use mooring_proto::frame::{
    self, REQUEST_HEADER_BYTES, RequestHeader, TRACE_CONTEXT_BYTES, TraceContext,
};
use mooring_proto::limits::REQUEST_READ_TIMEOUT_MS;
use mooring_proto::message::Kind;
use mooring_proto::{ErrorCode, WireError, close};
use quinn::{ReadError, ReadExactError, RecvStream, VarInt};

use crate::frontend::budget::Charge;

/// A whole request.
pub(crate) struct Request {
    /// What it is.
    pub(crate) kind: Kind,
    /// After this time the caller no longer waits; zero if it waits as long as it takes.
    pub(crate) deadline_ms: u32,
    /// The trace that it belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// Not decoded yet.
    pub(crate) body: Bytes,
}

/// Why there is no request.
pub(crate) enum Unread {
    /// It is answered with this error; the rest of it was not read.
    Refused {
        /// As in its header, known or not.
        kind_number: u16,
        /// Why.
        error: WireError,
        /// With which code the connection is closed after the answer: this peer speaks something
        /// else. `None` lets it go on.
        close: Option<u32>,
    },
    /// The peer has given it up or is gone.
    Cancelled,
    /// It did not come in time.
    TimedOut,
}

/// Reads one request. The bytes of the body are charged as they come, so that one which is only
/// announced costs nothing.
pub(crate) async fn read(stream: &mut RecvStream, charge: &mut Charge) -> Result<Request, Unread> {
    let in_time = Duration::from_millis(REQUEST_READ_TIMEOUT_MS);
    let outcome = tokio::time::timeout(in_time, read_in_time(stream, charge)).await;
    let outcome = outcome.unwrap_or(Err(Unread::TimedOut));
    let stop_code = match &outcome {
        Ok(_) | Err(Unread::Cancelled) => return outcome,
        Err(Unread::TimedOut) => close::TIMEOUT,
        Err(Unread::Refused { error, .. }) if error.code == ErrorCode::Overloaded => {
            close::OVERLOADED
        }
        Err(Unread::Refused { .. }) => close::PROTOCOL,
    };
    // An error says that the stream has ended already.
    let _ = stream.stop(VarInt::from_u32(stop_code));
    outcome
}

async fn read_in_time(stream: &mut RecvStream, charge: &mut Charge) -> Result<Request, Unread> {
    let mut header_bytes = [0; REQUEST_HEADER_BYTES];
    read_exact(stream, &mut header_bytes, 0, "its header").await?;
    let kind_number = frame::kind_number(&header_bytes);
    let header = RequestHeader::decode(&header_bytes).map_err(|error| Unread::Refused {
        kind_number,
        close: close_after(&error),
        error,
    })?;
    let trace = match header.traced {
        true => {
            let mut bytes = [0; TRACE_CONTEXT_BYTES];
            read_exact(stream, &mut bytes, kind_number, "its trace context").await?;
            Some(TraceContext::decode(&bytes))
        }
        false => None,
    };
    let body = read_body(stream, header.body_bytes as usize, charge)
        .await
        .map_err(|unread| unread.of_kind(kind_number))?;
    Ok(Request { kind: header.kind, deadline_ms: header.deadline_ms, trace, body })
}

async fn read_exact(
    stream: &mut RecvStream,
    bytes: &mut [u8],
    kind_number: u16,
    what: &str,
) -> Result<(), Unread> {
    match stream.read_exact(bytes).await {
        Ok(()) => Ok(()),
        Err(ReadExactError::FinishedEarly(_)) => {
            let text = format!("the stream ends within {what}");
            Err(malformed(text).of_kind(kind_number))
        }
        Err(ReadExactError::ReadError(_)) => Err(Unread::Cancelled),
    }
}

async fn read_body(
    stream: &mut RecvStream,
    body_bytes: usize,
    charge: &mut Charge,
) -> Result<Bytes, Unread> {
    let mut body = Bytes::new();
    let mut gathered = Vec::new();
    let mut received_bytes = 0;
    // One byte more than announced is asked for, so that what follows the body is noticed.
    while let Some(chunk) = next_chunk(stream, body_bytes - received_bytes + 1).await? {
        received_bytes += chunk.len();
        if received_bytes > body_bytes {
            return Err(malformed(format!("more than the {body_bytes} bytes of its header")));
        }
        if !charge.try_add(chunk.len()) {
            let text = "too many bytes of requests and replies are under way";
            let error = WireError::new(ErrorCode::Overloaded, text);
            return Err(refused(error.retry_after_ms(RETRY_AFTER_MS)));
        }
        if chunk.len() == body_bytes {
            // The usual small request came in one piece and is not copied.
            body = chunk;
            continue;
        }
        if gathered.capacity() == 0 {
            gathered.reserve_exact(body_bytes.min(FIRST_CAPACITY_BYTES));
        }
        gathered.extend_from_slice(&chunk);
    }
    if received_bytes < body_bytes {
        let text = format!("{received_bytes} bytes instead of the {body_bytes} of its header");
        return Err(malformed(text));
    }
    Ok(if gathered.is_empty() { body } else { Bytes::from(gathered) })
}

async fn next_chunk(stream: &mut RecvStream, bytes_max: usize) -> Result<Option<Bytes>, Unread> {
    match stream.read_chunk(bytes_max, true).await {
        Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
        Err(ReadError::Reset(_) | ReadError::ConnectionLost(_)) => Err(Unread::Cancelled),
        Err(
            ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected,
        ) => Err(Unread::Cancelled),
    }
}

/// What follows the refusal of a header. An unknown kind and a body that is too long are well formed
/// and may be followed by better ones.
fn close_after(error: &WireError) -> Option<u32> {
    match error.code {
        ErrorCode::Malformed => Some(close::PROTOCOL),
        ErrorCode::UnsupportedVersion => Some(close::VERSION),
        _ => None,
    }
}

fn malformed(text: String) -> Unread {
    refused(WireError::new(ErrorCode::Malformed, text))
}

fn refused(error: WireError) -> Unread {
    Unread::Refused { kind_number: 0, error, close: None }
}

impl Unread {
    /// The same refusal, of a request of this kind.
    fn of_kind(self, kind_number: u16) -> Unread {
        match self {
            Unread::Refused { error, close, .. } => Unread::Refused { kind_number, error, close },
            other => other,
        }
    }
}

/// More than the usual batch, and little for a request that is only announced.
const FIRST_CAPACITY_BYTES: usize = 1 << 20;

/// By then the replies that are under way have mostly been taken.
const RETRY_AFTER_MS: u32 = 50;
