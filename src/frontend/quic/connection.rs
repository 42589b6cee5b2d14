//! One connection: its hello, then its requests side by side.

use std::sync::Arc;
use std::time::Duration;

use mooring_proto::frame::{encode_refusal, encode_reply};
use mooring_proto::limits::HELLO_TIMEOUT_MS;
use mooring_proto::message::Kind;
use mooring_proto::message::session::{HelloReply, HelloRequest};
use mooring_proto::{ClientId, ErrorCode, WireError, close, frame};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::sync::Semaphore;

use super::reply::{self, Written};
use super::request::{self, Request, Unread};
use super::router;
use super::sessions::Sessions;
use crate::frontend::Context;
use crate::frontend::addresses::{Addresses, Place};
use crate::frontend::budget::{Budget, ConnectionBudget};
use crate::telemetry::{self, Arrived, Operation};

/// What all connections of the front end share.
pub(crate) struct Shared {
    /// The core and the counters.
    pub(crate) context: Arc<Context>,
    /// Who is connected.
    pub(crate) sessions: Arc<Sessions>,
    /// The bytes of all connections.
    pub(crate) budget: Arc<Budget>,
    /// What each address has of all this.
    pub(crate) addresses: Arc<Addresses>,
}

/// Serves a connection until it is closed; it has this place among those of its address.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection, place: Place) {
    let budget =
        ConnectionBudget::new([place.budget(), shared.budget.clone()], CONNECTION_BYTES_MAX);
    let greeting = greet(&shared.context, &connection, &budget);
    let in_time = Duration::from_millis(HELLO_TIMEOUT_MS);
    let client = match tokio::time::timeout(in_time, greeting).await {
        Ok(Ok(client)) => client,
        Ok(Err(refusal)) => return refuse(&shared.context, &connection, refusal).await,
        Err(_) => {
            let error = WireError::new(ErrorCode::HelloRequired, "no hello came in time");
            let refusal = Some(HelloRefusal { stream: None, kind: 0, code: close::TIMEOUT, error });
            return refuse(&shared.context, &connection, refusal).await;
        }
    };
    shared.context.counters.connections.increment();
    let entered = shared.sessions.enter(client, connection.clone());
    let places = Arc::new(Semaphore::new(REQUESTS_MAX as usize));
    loop {
        // A peer that gives requests up gets new streams for them, so that the bound on streams
        // alone does not bound the work.
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let Ok((send, receive)) = connection.accept_bi().await else { break };
        let (shared, budget, connection) = (shared.clone(), budget.clone(), connection.clone());
        tokio::spawn(async move {
            let closing = serve_request(&shared.context, client, &budget, send, receive).await;
            if let Some(Closing { code, error }) = closing {
                close(&connection, code, &error);
            }
            drop(place);
        });
    }
    drop((entered, place));
    let reason = connection.close_reason().map(|reason| reason.to_string());
    tracing::debug!(%client, reason, "connection ended");
}

/// Why a connection does not get beyond its hello; without a stream there is nobody to answer.
struct HelloRefusal {
    stream: Option<SendStream>,
    kind: u16,
    code: u32,
    error: WireError,
}

/// Reads and answers the hello. `None` says that the peer is gone.
async fn greet(
    context: &Context,
    connection: &Connection,
    budget: &Arc<ConnectionBudget>,
) -> Result<ClientId, Option<HelloRefusal>> {
    let Ok((mut send, mut receive)) = connection.accept_bi().await else { return Err(None) };
    let mut charge = budget.open();
    let request = match request::read(&mut receive, &mut charge).await {
        Ok(request) => request,
        Err(Unread::Cancelled) => return Err(None),
        Err(Unread::TimedOut) => {
            let error = WireError::new(ErrorCode::HelloRequired, "the hello did not come in time");
            let (stream, kind) = (Some(send), Kind::Hello as u16);
            return Err(Some(HelloRefusal { stream, kind, code: close::TIMEOUT, error }));
        }
        Err(Unread::Refused { kind_number, error, .. }) => {
            let stream = Some(send);
            let code = close_code(&error);
            return Err(Some(HelloRefusal { stream, kind: kind_number, code, error }));
        }
    };
    let kind = request.kind;
    match check_hello(&request) {
        Ok((hello, version)) => {
            let reply = hello_reply(context, version);
            if hello.client != context.probe_client {
                context.core.hello(hello.client, &hello.name);
            }
            let written = reply::write(&mut send, encode_reply(Kind::Hello, Ok(&reply))).await;
            let peer = connection.remote_address();
            tracing::debug!(client = %hello.client, name = hello.name, %peer, "hello");
            if written == Written::Sent { Ok(hello.client) } else { Err(None) }
        }
        Err(error) => {
            let code = close_code(&error);
            Err(Some(HelloRefusal { stream: Some(send), kind: kind as u16, code, error }))
        }
    }
}

fn check_hello(request: &Request) -> Result<(HelloRequest, u16), WireError> {
    if request.kind != Kind::Hello {
        let text = format!("the first request is {:?}", request.kind);
        return Err(WireError::new(ErrorCode::HelloRequired, text));
    }
    let hello: HelloRequest = frame::decode_request(&request.body)?;
    let version = hello.negotiate()?;
    Ok((hello, version))
}

fn close_code(error: &WireError) -> u32 {
    match error.code {
        ErrorCode::UnsupportedVersion => close::VERSION,
        ErrorCode::Overloaded => close::OVERLOADED,
        ErrorCode::Forbidden => close::FORBIDDEN,
        _ => close::PROTOCOL,
    }
}

fn hello_reply(context: &Context, version: u16) -> HelloReply {
    let settings = context.core.settings();
    HelloReply {
        version,
        features: 0,
        incarnation: context.core.incarnation(),
        server: format!("mooring {}", env!("CARGO_PKG_VERSION")),
        client_ttl_ms: settings.client_ttl_ms,
        lease_ttl_ms: settings.lease_ttl_ms,
        segment_epoch: context.core.table().epoch,
    }
}

/// Answers with the error if there is a stream for it, and closes the connection with the same
/// text, since the close may overtake the answer.
async fn refuse(context: &Context, connection: &Connection, refusal: Option<HelloRefusal>) {
    context.counters.hellos_failed.increment();
    let Some(HelloRefusal { stream, kind, code, error }) = refusal else { return };
    context.counters.refused(error.code);
    tracing::debug!(peer = %connection.remote_address(), %error, "hello refused");
    if let Some(mut stream) = stream
        && reply::write(&mut stream, encode_refusal(kind, &error)).await == Written::Sent
    {
        let _ = tokio::time::timeout(FAREWELL, stream.stopped()).await;
    }
    close(connection, code, &error);
}

fn close(connection: &Connection, code: u32, error: &WireError) {
    let mut reason = error.to_string();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    connection.close(VarInt::from_u32(code), reason.as_bytes());
}

/// A connection that is closed after the answer: its peer does not speak the protocol.
struct Closing {
    code: u32,
    error: WireError,
}

/// Reads, routes and answers one request; ends at once when the peer gives it up.
async fn serve_request(
    context: &Context,
    client: ClientId,
    budget: &Arc<ConnectionBudget>,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Option<Closing> {
    let mut charge = budget.open();
    let arrived = telemetry::moment();
    let given_up = send.stopped();
    let answer = async {
        let request = match request::read(&mut receive, &mut charge).await {
            Ok(request) => request,
            Err(unread) => return Err(unread),
        };
        let Some(admitted) = context.stage.admit() else {
            let error = WireError::new(ErrorCode::Restarting, "the master is leaving");
            let kind_number = request.kind as u16;
            return Err(Unread::Refused { kind_number, error, close: None });
        };
        let trail = telemetry::follow(request.trace, || Arrived {
            operation: Operation::Quic(request.kind),
            client: Some(client),
            arrived,
            request_bytes: request.body.len(),
        });
        let frame = router::answer(context, client, request, trail.as_ref()).await;
        // The request is in flight until its answer is written, and its trace ends with that.
        Ok((frame, (admitted, trail)))
    };
    let answer = tokio::select! {
        biased;
        answer = answer => answer,
        _ = given_up => Err(Unread::Cancelled),
    };
    let (frame, closing, _admitted) = match answer {
        Ok((frame, admitted)) => (frame, None, Some(admitted)),
        Err(Unread::Refused { kind_number, error, close }) => {
            tracing::debug!(%client, %error, "request refused");
            context.counters.refused(error.code);
            let frame = encode_refusal(kind_number, &error);
            (frame, close.map(|code| Closing { code, error }), None)
        }
        Err(Unread::Cancelled) => {
            context.counters.cancelled.increment();
            return None;
        }
        Err(Unread::TimedOut) => {
            let _ = send.reset(VarInt::from_u32(close::TIMEOUT));
            context.counters.read_timeouts.increment();
            return None;
        }
    };
    charge.add(frame.len());
    match reply::write(&mut send, frame).await {
        Written::Sent if closing.is_some() || context.stage.is_draining() => {
            // The close that comes next would overtake the answer; it is in flight until it has
            // arrived.
            let _ = tokio::time::timeout(FAREWELL, send.stopped()).await;
        }
        Written::Sent => {}
        Written::Cancelled => context.counters.cancelled.increment(),
        Written::TimedOut => context.counters.write_timeouts.increment(),
    }
    closing
}

/// Requests at once on a connection. More wait at the client for a stream.
pub(super) const REQUESTS_MAX: u32 = 1024;

/// Bytes of requests and replies that one connection may make the process keep: four times the
/// largest request.
const CONNECTION_BYTES_MAX: usize = 64 << 20;

/// How long an answer may take to its peer before the close that follows it.
const FAREWELL: Duration = Duration::from_millis(200);

/// The reason of a close must fit in one packet.
const REASON_BYTES_MAX: usize = 512;
