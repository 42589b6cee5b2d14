//! Asking several shards at once.

use std::future::Future;

use mooring_actors::core::{CallError, Core};
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_actors::shard::message::{KeyBatch, ShardReply, ShardRequest};
use mooring_actors::{Moment, ShardId};
use mooring_proto::error::Refusal;
use mooring_proto::{ErrorCode, WireError};

use super::bulk::{unavailable, wrong_answer};
use super::split::{Gather, Part};
use crate::telemetry::{Trail, Whom};

/// Whom a request asks, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) core: &'a Core,
    /// When the caller stops waiting.
    pub(crate) deadline: Option<Moment>,
    /// Of a request that is traced.
    pub(crate) trail: Option<&'a Trail>,
}

impl Ask<'_> {
    /// Asks one shard, for so many keys.
    ///
    /// # Errors
    /// As [`Core::shard`].
    pub(crate) fn shard(
        &self,
        shard: ShardId,
        keys: usize,
        request: ShardRequest,
    ) -> Result<impl Future<Output = Result<ShardReply, CallError>> + Send + use<>, CallError> {
        let watch = self.trail.map(|trail| trail.follow(Whom::Shard(shard), keys));
        self.core.shard_watched(shard, self.deadline, request, watch)
    }

    /// Asks the pool.
    ///
    /// # Errors
    /// As [`Core::pool`].
    pub(crate) async fn pool(&self, request: PoolRequest) -> Result<PoolReply, CallError> {
        let watch = self.trail.map(|trail| trail.follow(Whom::Pool, 0));
        self.core.pool_watched(request, watch).await
    }
}

/// Asks each concerned shard and puts the answers in the order of the request. If some shards have
/// no room, their keys are refused one by one; if none has, the whole request is.
pub(crate) async fn each_item<T>(
    ask: Ask<'_>,
    keys: usize,
    parts: Vec<Part>,
    request: impl Fn(&Part, KeyBatch) -> ShardRequest,
    items_of: impl Fn(ShardReply) -> Option<Vec<Result<T, Refusal>>>,
) -> Result<Vec<Result<T, Refusal>>, WireError> {
    let mut sent = Vec::with_capacity(parts.len());
    let mut refused = Vec::new();
    for mut part in parts {
        let batch = std::mem::take(&mut part.batch);
        let request = request(&part, batch);
        match ask.shard(part.shard, part.positions.len(), request) {
            Ok(answer) => sent.push((part.positions, answer)),
            Err(error) => refused.push((part.positions, error)),
        }
    }
    if sent.is_empty()
        && let Some((_, error)) = refused.pop()
    {
        return Err(unavailable(error));
    }
    if refused.is_empty()
        && let Some((_, answer)) = sent.pop_if(|(positions, _)| positions.len() == keys)
    {
        // One shard has all keys, and its answers stand in their order.
        let reply = answer.await.map_err(unavailable)?;
        return items_of(reply).filter(|items| items.len() == keys).ok_or_else(wrong_answer);
    }
    let mut gather = Gather::new(keys);
    for (positions, answer) in sent {
        match answer.await {
            Ok(reply) => gather.place(&positions, items_of(reply).ok_or_else(wrong_answer)?),
            Err(error) => refused.push((positions, error)),
        }
    }
    for (positions, error) in refused {
        let refusal = refusal_of(error);
        gather.place(&positions, positions.iter().map(|_| Err(refusal.clone())));
    }
    Ok(gather.finish(|| Err(Refusal::from(ErrorCode::Internal))))
}

/// As [`each_item`] for answers that have no place for a refusal: one shard without room refuses
/// the whole request.
pub(crate) async fn each_bit(
    ask: Ask<'_>,
    keys: usize,
    parts: Vec<Part>,
    request: impl Fn(&Part, KeyBatch) -> ShardRequest,
) -> Result<Vec<bool>, WireError> {
    let mut sent = Vec::with_capacity(parts.len());
    for mut part in parts {
        let batch = std::mem::take(&mut part.batch);
        let request = request(&part, batch);
        let answer = ask.shard(part.shard, part.positions.len(), request);
        sent.push((part.positions, answer.map_err(unavailable)?));
    }
    let mut gather = Gather::new(keys);
    for (positions, answer) in sent {
        match answer.await.map_err(unavailable)? {
            ShardReply::Existing(bits) => gather.place(&positions, bits),
            _ => return Err(wrong_answer()),
        }
    }
    Ok(gather.finish(|| false))
}

fn refusal_of(error: CallError) -> Refusal {
    let error = unavailable(error);
    Refusal { code: error.code, retry_after_ms: error.retry_after_ms, no_space: None }
}
