//! One connection: frames in, answers out, in any order but for what `order` says.

use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use mooring_proto::mooncake::{
    FramingError, REQUEST_HEADER_BYTES, RpcError, reply_error, split_request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::field;

use super::listener::Shared;
use super::order::{Begun, Named, Order, Ticket};
use super::router;
use crate::frontend::addresses::{Place, as_known};
use crate::frontend::budget::{Charge, ConnectionBudget};
use crate::frontend::stage::Admitted;

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

/// Serves a connection until it ends; it has this place among those of its address.
pub(super) async fn serve(shared: &Shared, mut stream: TcpStream, place: Place) {
    let peer = stream.peer_addr().ok().map(|it| field::display(as_known(it)));
    let end = run(shared, &mut stream, &place).await;
    match &end {
        End::Framing(error) => {
            shared.context.mooncake.framing_errors.increment();
            tracing::debug!(peer, %error, "connection closed");
            if let FramingError::TooLarge { seq, .. } = error {
                let refusal = reply_error(*seq, RpcError::MESSAGE_TOO_LARGE, &format!("{error}"));
                let _ = tokio::time::timeout(FAREWELL, stream.write_all(&refusal)).await;
            }
        }
        End::Overloaded => {
            shared.context.mooncake.overloaded.increment();
            tracing::debug!(peer, "connection closed: no room for its requests");
        }
        End::Stalled => {
            shared.context.mooncake.framing_errors.increment();
            tracing::debug!(peer, "connection closed: the rest of a frame does not come");
        }
        End::NotRead => shared.context.mooncake.write_timeouts.increment(),
        End::Gone | End::Leaving => {}
    }
    let _ = tokio::time::timeout(FAREWELL, stream.shutdown()).await;
}

async fn run(shared: &Shared, stream: &mut TcpStream, place: &Place) -> End {
    let (mut reader, mut writer) = stream.split();
    let mut leaving = shared.leaving.clone();
    let mut input = Input::new(shared, place);
    let mut order = Order::default();
    let mut calls = FuturesUnordered::new();
    let mut ends = None;
    // Of the calls that are taken on and not answered yet.
    let mut asked_bytes = 0;
    loop {
        while ends.is_none() && asked_bytes < ASKED_BYTES_MAX {
            match input.next(shared) {
                Ok(Some(request)) => {
                    asked_bytes += request.cost();
                    let named = request.named.clone();
                    calls.extend(order.take(&named, request).map(|begun| answer(shared, begun)));
                }
                Ok(None) => break,
                Err(error) => ends = Some(End::Framing(error)),
            }
        }
        // What came before the fault is answered still. Of what waits something is being answered.
        if calls.is_empty()
            && let Some(end) = ends
        {
            return end;
        }
        let reads = ends.is_none() && asked_bytes < ASKED_BYTES_MAX;
        tokio::select! {
            Some(answered) = calls.next(), if !calls.is_empty() => {
                let mut answers = Answers::default();
                let mut next = Some(answered);
                while let Some(mut answered) = next {
                    asked_bytes -= answered.cost;
                    let begun = order.answered(answered.ticket.take());
                    calls.extend(begun.into_iter().map(|begun| answer(shared, begun)));
                    answers.add(answered);
                    next = match answers.frames.len() < WRITE_BYTES {
                        true => calls.next().now_or_never().flatten(),
                        false => None,
                    };
                }
                let written = writer.write_all(&answers.frames);
                match tokio::time::timeout(WRITE_TIMEOUT, written).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return End::Gone,
                    Err(_) => return End::NotRead,
                }
                if answers.kept.len() >= CALLS_A_TURN {
                    // Answers that need nobody else come without a pause, while others wait.
                    tokio::task::yield_now().await;
                }
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

/// Reads what comes. A connection may be idle for ever, and then keeps no buffer; but it may not pause in
/// the middle of a frame: `None`. The buffer is never much larger than what has come.
async fn read_some(
    reader: &mut tokio::net::tcp::ReadHalf<'_>,
    buffer: &mut BytesMut,
) -> Option<std::io::Result<usize>> {
    if buffer.is_empty() {
        *buffer = BytesMut::new();
        if let Err(error) = reader.readable().await {
            return Some(Err(error));
        }
        buffer.reserve(READ_BYTES_MIN);
        return Some(reader.read_buf(buffer).await);
    }
    buffer.reserve(buffer.len().clamp(READ_BYTES_MIN, READ_BYTES_MAX));
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
struct Request<'a> {
    seq: u32,
    named: Named,
    /// From when it is taken on: what came before a drain is answered.
    admitted: Option<Admitted<'a>>,
    charge: Charge,
}

impl Request<'_> {
    /// What it counts among the requests that are answered at once, in bytes.
    fn cost(&self) -> usize {
        CALL_BYTES + self.named.body.len()
    }
}

impl Input {
    fn new(shared: &Shared, place: &Place) -> Input {
        let of_all = shared.context.mooncake.budget().clone();
        let budget = ConnectionBudget::new([place.budget(), of_all], CONNECTION_BYTES_MAX);
        Input { buffer: BytesMut::new(), charge: budget.open(), charged: 0 }
    }

    /// Accounts for the bytes that have come; false if there is no room for them.
    fn charge_read(&mut self) -> bool {
        let fresh = self.buffer.len() - self.charged;
        self.charged = self.buffer.len();
        self.charge.try_add(fresh)
    }

    /// The next request, if it is there to its end. Memory is taken as bytes come, never for what a
    /// header announces.
    fn next<'a>(&mut self, shared: &'a Shared) -> Result<Option<Request<'a>>, FramingError> {
        let Some(frame) = split_request(&self.buffer, FRAME_BYTES_MAX)? else {
            return Ok(None);
        };
        let (header, body_bytes, bytes) = (frame.header, frame.body.len(), frame.bytes);
        let frame = self.buffer.split_to(bytes).freeze();
        self.charged -= bytes;
        let mut charge = self.charge.split_off(bytes);
        charge.add(CALL_BYTES);
        let body = frame.slice(REQUEST_HEADER_BYTES..REQUEST_HEADER_BYTES + body_bytes);
        Ok(Some(Request {
            seq: header.seq,
            named: Named { function_id: header.function_id, body },
            admitted: shared.context.stage.admit(),
            charge,
        }))
    }
}

/// An answer, and what is kept until it is written.
struct Answered<'a> {
    frame: Vec<u8>,
    cost: usize,
    ticket: Option<Ticket>,
    /// Counted as in flight until its last byte is written.
    kept: (Option<Admitted<'a>>, Charge),
}

async fn answer<'a>(shared: &'a Shared, begun: Begun<Request<'a>>) -> Answered<'a> {
    let Begun { call, ticket } = begun;
    let cost = call.cost();
    let Request { seq, named, admitted, mut charge } = call;
    let frame = match &admitted {
        Some(_) => router::answer(shared, seq, named.function_id, &named.body).await,
        // It came just before the connection has learned of the drain: its client connects again.
        None => Vec::new(),
    };
    charge.add(frame.len());
    Answered { frame, cost, ticket, kept: (admitted, charge) }
}

/// Answers that are written at once.
#[derive(Default)]
struct Answers<'a> {
    frames: Vec<u8>,
    kept: Vec<(Option<Admitted<'a>>, Charge)>,
}

impl<'a> Answers<'a> {
    fn add(&mut self, answered: Answered<'a>) {
        if self.frames.is_empty() {
            self.frames = answered.frame;
        } else {
            self.frames.extend_from_slice(&answered.frame);
        }
        self.kept.push(answered.kept);
    }
}

/// What a call costs beside its bytes: the state of one that is being answered.
const CALL_BYTES: usize = 8 << 10;

/// Bytes of calls that are answered at once for one connection: 128 small ones, while a client pipelines
/// at most a few. Their answers may be several times as long, and are kept until the peer takes them.
/// One request may be larger.
const ASKED_BYTES_MAX: usize = 1 << 20;

/// Calls that a connection answers before it is the turn of others: more than a client pipelines.
const CALLS_A_TURN: usize = 32;

/// The largest frame: a batch of 64 Ki keys of 256 bytes each.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// A peer sends a frame at once, so that a pause of this length is the end of it.
const REST_OF_FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of requests and replies that one connection may keep: two of the largest frames.
const CONNECTION_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX + READ_BYTES_MAX;

/// What a connection reads into after it was idle. All connections may sit in the middle of a frame, so
/// that it is times their number.
const READ_BYTES_MIN: usize = 8 << 10;

/// The most that a connection reads at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// Answers that are written at once, at least.
const WRITE_BYTES: usize = 64 << 10;

/// A client gives a call up after 30 s, so that what it does not take until then is of no use to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// For the last word to a peer.
const FAREWELL: Duration = Duration::from_millis(100);
