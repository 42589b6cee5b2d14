//! Whether the process serves, proved by asking it.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mooring_actors::ShardId;
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_actors::shard::message::ShardRequest;
use tokio::sync::Mutex;

use crate::frontend::Context;
use crate::frontend::mooncake;
use crate::frontend::quic::Probe;

/// Asks the ports, the pool and every shard, all at once and at most once a second: many may look, and none of
/// them should cost the process anything. What hangs shows within three seconds.
pub(super) struct Readiness {
    context: Arc<Context>,
    /// `None` without QUIC.
    probe: Option<Probe>,
    /// `None` without a port for clients of Mooncake.
    mooncake: Option<SocketAddr>,
    last: Mutex<Option<(Instant, Result<Ready, String>)>>,
}

/// What a process that answers has still to wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    /// Restored segments whose owners have not come back yet.
    pub(super) segments_pending: u64,
}

impl Readiness {
    pub(super) fn new(
        context: Arc<Context>,
        probe: Option<Probe>,
        mooncake: Option<SocketAddr>,
    ) -> Readiness {
        Readiness { context, probe, mooncake, last: Mutex::new(None) }
    }

    /// How ready it is, if requests are answered; else why not.
    pub(super) async fn check(&self) -> Result<Ready, String> {
        // A drain shows at once, whatever was found before.
        if self.context.stage.is_draining() {
            return Err("the master is leaving".to_owned());
        }
        let mut last = self.last.lock().await;
        if let Some((at, outcome)) = &*last
            && at.elapsed() < CACHED_FOR
        {
            return outcome.clone();
        }
        let outcome = self.ask().await;
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn ask(&self) -> Result<Ready, String> {
        let (shards, pool, quic, mooncake) =
            tokio::join!(self.ask_shards(), self.ask_pool(), self.ask_quic(), self.ask_mooncake());
        let (ready, pool) = match pool {
            Ok(ready) => (ready, Ok(())),
            Err(fault) => (Ready::default(), Err(fault)),
        };
        let faults = shards.into_iter().chain([pool, quic, mooncake]).filter_map(Result::err);
        let faults: Vec<String> = faults.collect();
        if faults.is_empty() { Ok(ready) } else { Err(faults.join("; ")) }
    }

    async fn ask_shards(&self) -> Vec<Result<(), String>> {
        let core = &self.context.core;
        let asked = (0..core.route().shards()).map(|shard| {
            let answer = core.shard(ShardId(shard), None, ShardRequest::Probe);
            in_time(format!("shard {shard}"), async { answer?.await.map(drop) })
        });
        join_all(asked).await
    }

    async fn ask_pool(&self) -> Result<Ready, String> {
        let answer = self.context.core.pool(PoolRequest::Totals);
        in_time("the pool", async {
            answer.await.map(|reply| match reply {
                PoolReply::Totals(totals) => Ready { segments_pending: totals.segments_pending },
                _ => Ready::default(),
            })
        })
        .await
    }

    async fn ask_quic(&self) -> Result<(), String> {
        let Some(probe) = &self.probe else { return Ok(()) };
        in_time("the QUIC listener", probe.run()).await
    }

    async fn ask_mooncake(&self) -> Result<(), String> {
        let Some(address) = self.mooncake else { return Ok(()) };
        let probe = async {
            match mooncake::probe(address).await {
                // With all its places taken it closes the connection of the probe, too; it works, and
                // those who have places are answered.
                Err(_) if self.context.mooncake.is_full() => Ok(()),
                outcome => outcome,
            }
        };
        in_time("the listener for clients of Mooncake", probe).await
    }
}

async fn in_time<T, E: Display>(
    who: impl Display,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_TIME, answer).await {
        Ok(outcome) => outcome.map_err(|error| format!("{who}: {error}")),
        Err(_) => Err(format!("{who}: no answer within {ANSWER_TIME:?}")),
    }
}

/// A load balancer asks this often, and no more often needs to know.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// A client would have given up by then.
const ANSWER_TIME: Duration = Duration::from_secs(2);
