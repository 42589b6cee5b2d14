//! One connection: frames in, answers out, in any order.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use mooring_proto::mooncake::{
    FramingError, REQUEST_HEADER_BYTES, RequestHeader, RpcError, reply_error, split_request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::listener::Shared;
use super::router;
use crate::frontend::budget::{Charge, ConnectionBudget};

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The peer has closed it, or it broke.
    Gone,
    /// What came is no frame that can be answered; the last word to the peer, if there is one.
    Framing(FramingError),
    /// No room to keep what the peer sends.
    Overloaded,
    /// The rest of a frame does not come.
    Stalled,
    /// The peer does not take its answers.
    NotRead,
    /// The process leaves, and everything is answered.
    Leaving,
}

/// Serves a connection until it ends.
pub(super) async fn serve(shared: &Shared, mut stream: TcpStream) {
    let peer = stream.peer_addr().ok();
    let end = run(shared, &mut stream).await;
    match &end {
        End::Framing(error) => {
            shared.context.mooncake.framing_errors.increment();
            tracing::debug!(?peer, %error, "connection closed");
            if let FramingError::TooLarge { seq, .. } = error {
                let refusal = reply_error(*seq, RpcError::MESSAGE_TOO_LARGE, &format!("{error}"));
                let _ = tokio::time::timeout(FAREWELL, stream.write_all(&refusal)).await;
            }
        }
        End::Overloaded => tracing::debug!(?peer, "connection closed: no room for its requests"),
        End::Stalled => {
            shared.context.mooncake.framing_errors.increment();
            tracing::debug!(?peer, "connection closed: the rest of a frame does not come");
        }
        End::NotRead => shared.context.mooncake.write_timeouts.increment(),
        End::Gone | End::Leaving => {}
    }
    let _ = tokio::time::timeout(FAREWELL, stream.shutdown()).await;
}

async fn run(shared: &Shared, stream: &mut TcpStream) -> End {
    let (mut reader, mut writer) = stream.split();
    let mut leaving = shared.leaving.clone();
    let mut input = Input::new(shared);
    let mut calls = FuturesUnordered::new();
    let mut answers: Vec<u8> = Vec::new();
    let mut ends = None;
    // Of the requests that are being answered.
    let mut asked_bytes = 0;
    loop {
        while ends.is_none() && calls.len() < CALLS_MAX && asked_bytes < ASKED_BYTES_MAX {
            match input.next() {
                Ok(Some(request)) => {
                    asked_bytes += request.body.len();
                    calls.push(answer(shared, request));
                }
                Ok(None) => break,
                Err(error) => ends = Some(End::Framing(error)),
            }
        }
        // What came before the fault is answered still.
        if calls.is_empty()
            && let Some(end) = ends
        {
            return end;
        }
        let reads = ends.is_none() && calls.len() < CALLS_MAX && asked_bytes < ASKED_BYTES_MAX;
        tokio::select! {
            Some(answered) = calls.next(), if !calls.is_empty() => {
                // Counted as in flight until the last byte is written.
                let mut kept = Vec::new();
                asked_bytes -= answered.asked_bytes;
                take(answered, &mut answers, &mut kept);
                while answers.len() < WRITE_BYTES
                    && let Some(Some(answered)) = calls.next().now_or_never()
                {
                    asked_bytes -= answered.asked_bytes;
                    take(answered, &mut answers, &mut kept);
                }
                match tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&answers)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return End::Gone,
                    Err(_) => return End::NotRead,
                }
                answers.clear();
                answers.shrink_to(WRITE_BYTES);
            }
            read = read_some(&mut reader, &mut input.buffer), if reads => match read {
                None => return End::Stalled,
                Some(Ok(0) | Err(_)) => return End::Gone,
                Some(Ok(_)) => if !input.charge_read() { return End::Overloaded },
            },
            () = told(&mut leaving), if ends.is_none() => {
                ends = Some(End::Leaving);
            }
        }
    }
}

/// Reads what comes. A connection may be idle for ever, but not in the middle of a frame: `None`.
async fn read_some(
    reader: &mut tokio::net::tcp::ReadHalf<'_>,
    buffer: &mut BytesMut,
) -> Option<std::io::Result<usize>> {
    if buffer.is_empty() {
        return Some(reader.read_buf(buffer).await);
    }
    tokio::time::timeout(REST_OF_FRAME_TIMEOUT, reader.read_buf(buffer)).await.ok()
}

/// Waits until the process leaves.
async fn told(leaving: &mut watch::Receiver<bool>) {
    // An error says that the listener is gone, and with it everything else.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// What came and is not asked yet.
struct Input {
    buffer: BytesMut,
    charge: Charge,
    charged: usize,
}

/// One whole request.
struct Request {
    header: RequestHeader,
    body: Bytes,
    charge: Charge,
}

impl Input {
    fn new(shared: &Shared) -> Input {
        let budget = ConnectionBudget::new(shared.budget.clone(), CONNECTION_BYTES_MAX);
        Input { buffer: BytesMut::with_capacity(READ_BYTES), charge: budget.open(), charged: 0 }
    }

    /// Accounts for the bytes that have come; false if there is no room for them.
    fn charge_read(&mut self) -> bool {
        let fresh = self.buffer.len() - self.charged;
        self.charged = self.buffer.len();
        self.charge.try_add(fresh)
    }

    /// The next request, if it is there to its end. Memory is taken as bytes come, never for what a
    /// header announces.
    fn next(&mut self) -> Result<Option<Request>, FramingError> {
        let Some(frame) = split_request(&self.buffer, FRAME_BYTES_MAX)? else {
            self.buffer.reserve(READ_BYTES);
            return Ok(None);
        };
        let (header, body_bytes, bytes) = (frame.header, frame.body.len(), frame.bytes);
        let frame = self.buffer.split_to(bytes).freeze();
        self.charged -= bytes;
        let body = frame.slice(REQUEST_HEADER_BYTES..REQUEST_HEADER_BYTES + body_bytes);
        Ok(Some(Request { header, body, charge: self.charge.split_off(bytes) }))
    }
}

/// An answer, and what is kept until it is written.
struct Answered<'a> {
    frame: Vec<u8>,
    asked_bytes: usize,
    admitted: Option<crate::frontend::stage::Admitted<'a>>,
    charge: Charge,
}

async fn answer(shared: &Shared, request: Request) -> Answered<'_> {
    let Request { header, body, mut charge } = request;
    let asked_bytes = body.len();
    let admitted = shared.context.stage.admit();
    let frame = match &admitted {
        Some(_) => router::answer(shared, header, &body).await,
        // It came just before the connection has learned of the drain: its client connects again.
        None => Vec::new(),
    };
    charge.add(frame.len());
    Answered { frame, asked_bytes, admitted, charge }
}

fn take<'a>(
    answered: Answered<'a>,
    answers: &mut Vec<u8>,
    kept: &mut Vec<(Option<crate::frontend::stage::Admitted<'a>>, Charge)>,
) {
    if answers.is_empty() {
        *answers = answered.frame;
    } else {
        answers.extend_from_slice(&answered.frame);
    }
    kept.push((answered.admitted, answered.charge));
}

/// Requests of one connection at once. A client pipelines at most a few, so that this bounds only the
/// work of one that does not keep to it.
const CALLS_MAX: usize = 1024;

/// Bytes of requests that are answered at once for one connection. Their answers may be several times
/// as long, and are kept until the peer takes them. One request may be larger.
const ASKED_BYTES_MAX: usize = 1 << 20;

/// The largest frame: a batch of 64 Ki keys of 256 bytes each.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// A peer sends a frame at once, so that a pause of this length is the end of it.
const REST_OF_FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of requests and replies that one connection may keep: two of the largest frames.
const CONNECTION_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX + READ_BYTES;

/// Room for a batch of some hundred keys, so that it comes with one call to the system.
const READ_BYTES: usize = 64 << 10;

/// Answers that are written at once, at least.
const WRITE_BYTES: usize = 64 << 10;

/// A client gives a call up after 30 s, so that what it does not take until then is of no use to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// For the last word to a peer.
const FAREWELL: Duration = Duration::from_millis(100);
