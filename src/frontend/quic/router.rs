//! From a request to its answer: decoded in place, split by shard, gathered.

mod inspect;
mod objects;
mod segments;

use std::time::{Duration, Instant};

use mooring_actors::Moment;
use mooring_proto::frame::{encode_refusal, encode_reply};
use mooring_proto::message::session::{PingReply, PingRequest};
use mooring_proto::message::{self, Kind};
use mooring_proto::{ClientId, ErrorCode, WireError, frame};
use serde::de::Deserialize;

use super::connection::Member;
use super::request::Request;
use crate::frontend::Context;
use crate::frontend::bulk::unavailable;
use crate::frontend::slow::Finished;
use crate::telemetry::Trail;

/// What a request is answered within.
pub(super) struct Scope<'a> {
    pub(super) context: &'a Context,
    pub(super) client: ClientId,
    /// When the caller stops waiting.
    pub(super) deadline: Option<Moment>,
    pub(super) body: &'a bytes::Bytes,
    /// Of a request that is traced.
    pub(super) trail: Option<&'a Trail>,
}

/// The frame that answers a request; a refusal is an answer too.
pub(super) async fn answer(
    context: &Context,
    member: Member,
    request: Request,
    trail: Option<&Trail>,
) -> Vec<u8> {
    let client = member.client;
    let started = Instant::now();
    let kind = request.kind;
    let counters = context.counters.kind(kind);
    counters.requests.increment();
    let deadline_ms = u64::from(request.deadline_ms);
    let deadline = (deadline_ms > 0).then(|| context.core.now().after_ms(deadline_ms));
    let scope = Scope { context, client, deadline, body: &request.body, trail };
    let permitted = member.permissions.check(kind).inspect_err(|_| {
        tracing::warn!(%client, ?kind, "a client asks for what it may not do");
    });
    let answer = match (permitted, deadline) {
        (Err(forbidden), _) => Err(forbidden),
        (Ok(()), None) => dispatch(&scope, kind).await,
        (Ok(()), Some(_)) => {
            // Puts that wait for space are refused one by one at the deadline; this only ends the
            // wait of those for which that comes too late.
            let in_time = Duration::from_millis(deadline_ms) + DEADLINE_GRACE;
            let outcome = tokio::time::timeout(in_time, dispatch(&scope, kind)).await;
            outcome.unwrap_or_else(|_| Err(deadline_exceeded()))
        }
    };
    let refusal = answer.as_ref().err().map(|error| error.code.name());
    let reply = answer.unwrap_or_else(|error| {
        counters.failures.increment();
        context.counters.refused(error.code);
        tracing::debug!(%client, ?kind, %error, trace = ?request.trace, "request refused");
        encode_refusal(kind as u16, &error)
    });
    if let Some(trail) = trail {
        trail.note_answer(reply.len(), refusal);
    }
    let took = started.elapsed();
    counters.durations.record(took);
    context.slow.look(took, || Finished {
        front_end: "quic",
        operation: format!("{kind:?}"),
        took,
        client: Some(client),
        trace: request.trace,
        request_bytes: request.body.len(),
        reply_bytes: reply.len(),
    });
    reply
}

async fn dispatch(scope: &Scope<'_>, kind: Kind) -> Result<Vec<u8>, WireError> {
    match kind {
        Kind::Ping => ping(scope).await,
        Kind::Mount => segments::mount(scope).await,
        Kind::Remount => segments::remount(scope).await,
        Kind::Unmount => segments::unmount(scope).await,
        Kind::SegmentTable => segments::table(scope),
        Kind::PutStart => objects::put_start(scope).await,
        Kind::PutEnd => objects::put_end(scope).await,
        Kind::PutRevoke => objects::put_revoke(scope).await,
        Kind::Get => objects::get(scope).await,
        Kind::Exist => objects::exist(scope).await,
        Kind::MatchPrefix => objects::match_prefix(scope).await,
        Kind::Validate => objects::validate(scope).await,
        Kind::Remove => objects::remove(scope).await,
        Kind::RemoveAll => inspect::remove_all(scope).await,
        Kind::Stats => inspect::stats(scope).await,
        Kind::ListSegments => inspect::list_segments(scope).await,
        Kind::ListClients => inspect::list_clients(scope).await,
        Kind::ListKeys => inspect::list_keys(scope).await,
        Kind::Hello => {
            let text = "the hello of this connection was said already";
            Err(WireError::new(ErrorCode::InvalidArgument, text))
        }
        other => {
            let text = format!("{other:?} is not for a master");
            Err(WireError::new(ErrorCode::UnknownKind, text))
        }
    }
}

async fn ping(scope: &Scope<'_>) -> Result<Vec<u8>, WireError> {
    let ping: PingRequest = scope.decode()?;
    let core = &scope.context.core;
    let answer = core
        .ping(scope.client, ping.mounted_segments, Some(ping.kept))
        .await
        .map_err(unavailable)?;
    Ok(reply::<PingRequest>(&PingReply {
        incarnation: core.incarnation(),
        need_remount: answer.need_remount,
        segment_epoch: core.table().epoch,
        client_ttl_ms: answer.client_ttl_ms,
    }))
}

impl<'a> Scope<'a> {
    /// The request; keys in it borrow from the body.
    fn decode<R: message::Request + Deserialize<'a>>(&self) -> Result<R, WireError> {
        frame::decode_request(self.body)
    }

    /// Counts the keys of a batch and what became of each.
    fn counted<T, E>(
        &self,
        kind: Kind,
        keys: usize,
        answers: Result<Vec<Result<T, E>>, WireError>,
    ) -> Result<Vec<Result<T, E>>, WireError> {
        let counters = &self.context.counters.kind(kind).batch;
        match &answers {
            Ok(items) => counters.answered(keys, items.iter().filter(|it| it.is_err()).count()),
            Err(_) => counters.refused(keys),
        }
        answers
    }
}

/// The frame of a reply.
fn reply<R: message::Request>(reply: &R::Reply) -> Vec<u8> {
    encode_reply(R::KIND, Ok(reply))
}

fn deadline_exceeded() -> WireError {
    WireError::new(ErrorCode::DeadlineExceeded, "what was asked may be done nevertheless")
}

/// Beyond the deadline of a request, for the refusals that come exactly with it.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);
