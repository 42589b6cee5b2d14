//! From a request to the frame that answers it.

use std::time::Instant;

use bytes::Bytes;
use mooring_proto::mooncake::{
    Call, CallError, Cause, Expected, Form, Function, Pack, Request, RpcError, append_reply,
    reply_error,
};

use super::listener::Shared;
use super::{off, reading, removing, segments, session, writing};
use crate::frontend::calls::Ask;
use crate::frontend::slow::Finished;
use crate::telemetry::{self, Arrived, Operation, Trail};

/// What a request is answered within.
pub(super) struct Scope<'a> {
    pub(super) shared: &'a Shared,
    /// The body; keys of the request lie in it.
    pub(super) body: &'a Bytes,
    seq: u32,
    /// Of a request that is traced.
    trail: Option<&'a Trail>,
}

impl<'a> Scope<'a> {
    pub(super) fn ask(&self) -> Ask<'a> {
        Ask { core: &self.shared.context.core, deadline: None, trail: self.trail }
    }

    /// The same request with keys that lie elsewhere.
    pub(super) fn on<'b>(&self, body: &'b Bytes) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { shared: self.shared, body, seq: self.seq, trail: self.trail }
    }

    /// The frame with the answer to a call that is not a batch.
    pub(super) fn reply<R, T, E>(&self, answer: &Result<T, E>) -> Vec<u8>
    where
        R: Request,
        Result<T, E>: Pack,
    {
        self.shared.context.mooncake.function(R::FUNCTION).answered(answer);
        self.frame::<R, _>(answer)
    }

    /// The frame with the answers to the items of a batch.
    pub(super) fn reply_items<R, T>(&self, items: usize, failed: usize, answers: &T) -> Vec<u8>
    where
        R: Request,
        T: Pack + ?Sized,
    {
        self.shared.context.mooncake.function(R::FUNCTION).batch.answered(items, failed);
        self.frame::<R, _>(answers)
    }

    /// The frame with a result.
    pub(super) fn frame<R: Request, T: Pack + ?Sized>(&self, result: &T) -> Vec<u8> {
        let mut frame = Vec::new();
        match append_reply::<R, T>(&mut frame, self.seq, result, Form::Plain) {
            Ok(()) => frame,
            Err(error) => reply_error(
                self.seq,
                RpcError::MESSAGE_TOO_LARGE,
                &format!("the result is {error}"),
            ),
        }
    }

    /// The frame for a function that nobody answers: there is none, as a test makes sure.
    pub(super) fn unanswered(&self, function: Function) -> Vec<u8> {
        tracing::error!(function = function.name(), "nobody answers this function");
        let code = RpcError::FUNCTION_NOT_REGISTERED;
        reply_error(self.seq, code, "the rpc function not registered")
    }

    /// The frame with a result that no function of this master can fail to have.
    pub(super) fn done<R: Request>(&self) -> Vec<u8> {
        self.reply::<R, _, _>(&Expected::Ok(()))
    }
}

/// The frame that answers a request; a refusal is an answer too.
pub(super) async fn answer(shared: &Shared, seq: u32, function_id: u32, body: &Bytes) -> Vec<u8> {
    let started = Instant::now();
    let call = match Call::decode(function_id, body) {
        Ok(call) => call,
        Err(error) => return refuse(shared, seq, &error),
    };
    let function = call.function();
    let counters = shared.context.mooncake.function(function);
    counters.requests.increment();
    let trail = telemetry::follow(None, || Arrived {
        operation: Operation::Mooncake(function),
        client: None,
        arrived: Some(started),
        request_bytes: body.len(),
    });
    let scope = Scope { shared, body, seq, trail: trail.as_ref() };
    let reply = dispatch(&scope, call).await;
    if let Some(trail) = &trail {
        trail.note_answer(reply.len(), None);
    }
    let took = started.elapsed();
    counters.durations.record(took);
    shared.context.slow.look(took, || Finished {
        front_end: "mooncake",
        operation: format!("{function:?}"),
        took,
        client: None,
        trace: None,
        request_bytes: body.len(),
        reply_bytes: reply.len(),
    });
    reply
}

async fn dispatch(scope: &Scope<'_>, call: Call<'_>) -> Vec<u8> {
    match call {
        Call::ServiceReady(_) => session::service_ready(scope),
        Call::GetStorageConfig(_) => session::get_storage_config(scope),
        Call::GetFsdir(_) => session::get_fsdir(scope),
        Call::Ping(ping) => session::ping(scope, &ping).await,
        Call::FetchTasks(_) => session::fetch_tasks(scope),

        Call::MountSegment(call) => segments::mount(scope, &call).await,
        Call::ReMountSegment(call) => segments::remount(scope, &call).await,
        Call::UnmountSegment(call) => segments::unmount(scope, &call).await,
        Call::GracefulUnmountSegment(call) => segments::unmount_gracefully(scope, &call).await,
        Call::QuerySegmentStatus(call) => segments::status(scope, &call).await,
        Call::QuerySegmentStatusById(call) => segments::status_by_id(scope, &call).await,
        Call::BatchQueryIp(call) => segments::query_ip(scope, &call),

        Call::ExistKey(call) => reading::exist(scope, &call).await,
        Call::BatchExistKey(call) => reading::exist_batch(scope, &call).await,
        Call::ProbeKey(call) => reading::probe(scope, &call).await,
        Call::BatchProbeKey(call) => reading::probe_batch(scope, &call).await,
        Call::GetReplicaList(call) => reading::get(scope, &call).await,
        Call::BatchGetReplicaList(call) => reading::get_batch(scope, &call).await,
        Call::GetReplicaListForAdmin(call) => reading::peek(scope, &call).await,
        Call::BatchGetReplicaListForAdmin(call) => reading::peek_batch(scope, &call).await,
        Call::GetReplicaListByRegex(call) => reading::get_matching(scope, &call).await,

        Call::PutStart(call) => writing::put_start(scope, &call).await,
        Call::PutEnd(call) => writing::put_end(scope, &call).await,
        Call::PutRevoke(call) => writing::put_revoke(scope, &call).await,
        Call::BatchPutStart(call) => writing::put_start_batch(scope, &call).await,
        Call::BatchPutEnd(call) => writing::put_end_batch(scope, &call).await,
        Call::BatchPutRevoke(call) => writing::put_revoke_batch(scope, &call).await,
        Call::UpsertStart(call) => writing::upsert_start(scope, &call).await,
        Call::UpsertEnd(call) => writing::upsert_end(scope, &call).await,
        Call::UpsertRevoke(call) => writing::upsert_revoke(scope, &call).await,
        Call::BatchUpsertStart(call) => writing::upsert_start_batch(scope, &call).await,
        Call::BatchUpsertEnd(call) => writing::upsert_end_batch(scope, &call).await,
        Call::BatchUpsertRevoke(call) => writing::upsert_revoke_batch(scope, &call).await,

        Call::Remove(call) => removing::remove(scope, &call).await,
        Call::BatchRemove(call) => removing::remove_batch(scope, &call).await,
        Call::RemoveByRegex(call) => removing::remove_matching(scope, &call).await,
        Call::RemoveAll(call) => removing::remove_all(scope, &call).await,
        Call::BatchReplicaClear(call) => removing::clear(scope, &call).await,
        Call::BatchReplicaClearOfTenant(call) => removing::clear_of_tenant(scope, &call).await,

        other => off::answer(scope, &other),
    }
}

/// Refuses a call that cannot be read. Its client closes the connection, so what is wrong is said
/// here for the operator: most likely clients of another release.
fn refuse(shared: &Shared, seq: u32, error: &CallError) -> Vec<u8> {
    match error {
        CallError::UnknownFunction { .. } => {
            shared.context.mooncake.unknown_functions.increment();
            tracing::debug!(%error, "call refused");
            reply_error(seq, error.rpc_error(), "the rpc function not registered")
        }
        CallError::Arguments { function, fault } => {
            let counters = shared.context.mooncake.function(*function);
            counters.wrong_arguments.increment();
            if matches!(fault.cause, Cause::Type(_)) && counters.tell_other_release() {
                tracing::warn!(
                    function = function.name(),
                    %fault,
                    "a client of another release calls: its messages have other types, so it can't \
                     be served; clients of 0.3.13 and 0.3.14 can"
                );
            } else {
                tracing::debug!(%error, "call refused");
            }
            reply_error(seq, error.rpc_error(), &format!("invalid rpc arg: {error}"))
        }
    }
}
