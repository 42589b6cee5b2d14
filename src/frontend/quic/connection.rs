//! One connection: its hello, then its requests side by side.

use std::sync::Arc;
use std::time::Duration;

use mooring_proto::frame::{encode_refusal, encode_reply};
use mooring_proto::limits::HELLO_TIMEOUT_MS;
use mooring_proto::message::Kind;
use mooring_proto::message::session::{HelloReply, HelloRequest};
use mooring_proto::{ClientId, ErrorCode, WireError, close, frame};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;

use super::owners::{Claim, Owners};
use super::reply::{self, Written};
use super::request::{self, Request, Unread};
use super::roles::{Permissions, Roles};
use super::router;
use super::sessions::Sessions;
use crate::frontend::Context;
use crate::frontend::addresses::{Addresses, Place, as_known};
use crate::frontend::budget::{Budget, ConnectionBudget};
use crate::telemetry::{self, Arrived, Operation};
use crate::tls::Principal;

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
    /// Who speaks for which client.
    pub(crate) owners: Arc<Owners>,
    /// Who may do what.
    pub(crate) roles: Roles,
}

/// Who is on the other end of a connection.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) client: ClientId,
    pub(super) permissions: Permissions,
}

/// Serves a connection until it is closed; it has this place among those of its address.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection, place: Place) {
    let budget =
        ConnectionBudget::new([place.budget(), shared.budget.clone()], CONNECTION_BYTES_MAX);
    let principal = principal_of(&connection);
    let greeting = greet(&shared, &connection, &budget, principal.as_ref());
    let in_time = Duration::from_millis(HELLO_TIMEOUT_MS);
    let (client, claim) = match tokio::time::timeout(in_time, greeting).await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(refusal)) => return refuse(&shared.context, &connection, refusal).await,
        Err(_) => {
            let error = WireError::new(ErrorCode::HelloRequired, "no hello came in time");
            let refusal = Some(HelloRefusal { stream: None, kind: 0, code: close::TIMEOUT, error });
            return refuse(&shared.context, &connection, refusal).await;
        }
    };
    shared.context.counters.connections.increment();
    let entered = shared.sessions.enter(client, connection.clone());
    let member = Member { client, permissions: shared.roles.of(principal.as_ref()) };
    let places = Arc::new(Semaphore::new(REQUESTS_MAX as usize));
    loop {
        // A peer that gives requests up gets new streams for them, so that the bound on streams
        // alone does not bound the work.
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let Ok((send, receive)) = connection.accept_bi().await else { break };
        let (shared, budget, connection) = (shared.clone(), budget.clone(), connection.clone());
        tokio::spawn(async move {
            let closing = serve_request(&shared.context, member, &budget, send, receive).await;
            if let Some(Closing { code, error }) = closing {
                close(&connection, code, &error);
            }
            drop(place);
        });
    }
    drop((entered, claim, place));
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

/// Whom the certificate of the peer stands for; `None` if it was not asked for one.
fn principal_of(connection: &Connection) -> Option<Principal> {
    let chain = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    chain.first().map(|certificate| Principal::of(certificate))
}

/// Reads and answers the hello. `None` says that the peer is gone.
async fn greet(
    shared: &Shared,
    connection: &Connection,
    budget: &Arc<ConnectionBudget>,
    principal: Option<&Principal>,
) -> Result<(ClientId, Option<Claim>), Option<HelloRefusal>> {
    let context = &shared.context;
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
        Err(Unread::Refused { kind_number, error, close }) => {
            let is_framed = close.is_none();
            let error = if is_framed { in_place_of_hello(kind_number, error) } else { error };
            let (stream, code) = (Some(send), close_code(&error));
            return Err(Some(HelloRefusal { stream, kind: kind_number, code, error }));
        }
    };
    let kind = request.kind;
    let checked = check_hello(&request).and_then(|(hello, version)| {
        let claim = shared.claim(hello.client, principal)?;
        Ok((hello, version, claim))
    });
    match checked {
        Ok((hello, version, claim)) => {
            let reply = hello_reply(context, version);
            if hello.client != context.probe_client {
                context.core.hello(hello.client, &hello.name);
            }
            let written = reply::write(&mut send, encode_reply(Kind::Hello, Ok(&reply))).await;
            let peer = as_known(connection.remote_address());
            tracing::debug!(client = %hello.client, name = hello.name, %peer, "hello");
            if written == Written::Sent { Ok((hello.client, claim)) } else { Err(None) }
        }
        Err(error) => {
            let code = close_code(&error);
            Err(Some(HelloRefusal { stream: Some(send), kind: kind as u16, code, error }))
        }
    }
}

impl Shared {
    /// The right to speak for a client, where peers have certificates.
    fn claim(
        &self,
        client: ClientId,
        principal: Option<&Principal>,
    ) -> Result<Option<Claim>, WireError> {
        let Some(principal) = principal else { return Ok(None) };
        let claim = self.owners.claim(client, principal.id());
        claim.map(Some).ok_or_else(|| {
            let which = match principal.is_named() {
                true => "one with another subject or other names",
                false => {
                    "this one has neither subject nor names that can be read, and is only itself"
                }
            };
            let text = format!("the client of this hello is that of another certificate: {which}");
            tracing::warn!(%client, which, "a member says hello for the client of another one");
            WireError::new(ErrorCode::Forbidden, text)
        })
    }
}

fn check_hello(request: &Request) -> Result<(HelloRequest, u16), WireError> {
    if request.kind != Kind::Hello {
        return Err(hello_required(&format!("{:?}", request.kind)));
    }
    let hello: HelloRequest = frame::decode_request(&request.body)?;
    let version = hello.negotiate()?;
    Ok((hello, version))
}

/// What is wrong with a first request that was framed well and refused before it was whole: above all
/// that it is no hello. A peer that is told of its kind or its length would try again without one.
fn in_place_of_hello(kind_number: u16, error: WireError) -> WireError {
    let is_unknown = error.code == ErrorCode::UnknownKind;
    match Kind::from_number(kind_number) {
        None if is_unknown => hello_required(&format!("of the unknown kind {kind_number}")),
        Some(kind) if kind != Kind::Hello => hello_required(&format!("{kind:?}")),
        _ => error,
    }
}

fn hello_required(instead: &str) -> WireError {
    WireError::new(ErrorCode::HelloRequired, format!("no hello, the first request is {instead}"))
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
    let peer = as_known(connection.remote_address());
    tracing::debug!(%peer, %error, "hello refused");
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
    member: Member,
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
            client: Some(member.client),
            arrived,
            request_bytes: request.body.len(),
        });
        let frame = router::answer(context, member, request, trail.as_ref()).await;
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
            tracing::debug!(client = %member.client, %error, "request refused");
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
