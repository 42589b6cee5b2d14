//! Whether the process serves, proved by asking it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooring_actors::ShardId;
use mooring_actors::shard::message::ShardRequest;
use tokio::sync::Mutex;

use crate::frontend::Context;
use crate::frontend::quic::Probe;

/// Asks the QUIC port, if there is one, and every shard, at most once a second: many may look, and none of them should
/// cost the process anything.
pub(super) struct Readiness {
    context: Arc<Context>,
    probe: Option<Probe>,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Readiness {
    pub(super) fn new(context: Arc<Context>, probe: Option<Probe>) -> Readiness {
        Readiness { context, probe, last: Mutex::new(None) }
    }

    /// Whether requests are answered; else why not.
    pub(super) async fn check(&self) -> Result<(), String> {
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

    async fn ask(&self) -> Result<(), String> {
        let shards = async {
            let mut answers = Vec::new();
            for shard in 0..self.context.core.route().shards() {
                let answer = self.context.core.shard(ShardId(shard), None, ShardRequest::Probe);
                answers.push((shard, answer.map_err(|error| format!("shard {shard}: {error}"))?));
            }
            for (shard, answer) in answers {
                answer.await.map_err(|error| format!("shard {shard}: {error}"))?;
            }
            Ok(())
        };
        in_time("the shards", shards).await?;
        let Some(probe) = &self.probe else { return Ok(()) };
        let listener =
            async { probe.run().await.map_err(|error| format!("the QUIC listener: {error}")) };
        in_time("the QUIC listener", listener).await
    }
}

async fn in_time(
    who: &str,
    answer: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let outcome = tokio::time::timeout(ANSWER_TIME, answer).await;
    outcome.unwrap_or_else(|_| Err(format!("{who}: no answer within {ANSWER_TIME:?}")))
}

/// A load balancer asks this often, and no more often needs to know.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// A client would have given up by then.
const ANSWER_TIME: Duration = Duration::from_secs(2);
