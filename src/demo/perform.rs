//! The demo itself: the cluster, the traffic on it, and the restarts under way.

use std::time::Instant;

use mooring_proto::client::{Client, ClientConfig, ClientTls};
use tokio::sync::watch;

use super::Speed;
use super::cluster::{Cluster, ClusterPlan};
use super::figures::{Counts, Figures, RestartFigures};
use super::lru::Lru;
use super::oracle::{self, OracleCounts};
use super::replay;
use super::roll::{Roll, RollPlan, Rolled, Roller};
use super::rounds;
use super::trace::TraceRequest;
use crate::command::CommandError;
use crate::output;
use crate::tls;

/// What the demo does.
#[derive(Clone, Debug)]
pub(crate) struct DemoPlan {
    pub(crate) cluster: ClusterPlan,
    /// `None` leaves the master as it is.
    pub(crate) roll: Option<RollPlan>,
    /// The size of a block.
    pub(crate) block_bytes: usize,
    pub(crate) speed: Speed,
}

/// Starts the cluster, replays the requests on it, and ends it.
///
/// # Errors
/// A process or request that failed.
pub(crate) async fn perform(
    plan: &DemoPlan,
    requests: &[TraceRequest],
) -> Result<Figures, CommandError> {
    let mut cluster = Cluster::start(&plan.cluster).await?;
    let outcome = replay_on(&mut cluster, plan, requests).await;
    match &outcome {
        Ok(figures) if figures.are_right() => {}
        _ => output::note(cluster.keep_traces()),
    }
    cluster.stop().await;
    outcome
}

async fn replay_on(
    cluster: &mut Cluster,
    plan: &DemoPlan,
    requests: &[TraceRequest],
) -> Result<Figures, CommandError> {
    let client = connect(cluster, "demo").await?;
    let started = Instant::now();
    let (counts, restarts) = match plan.roll {
        None => {
            let roll = Roll::none();
            let replay = replay::replay(&client, requests, plan.block_bytes, plan.speed, roll);
            (replay.await?, None)
        }
        Some(roll) => {
            let (counts, rolled, oracle) =
                replay_with_restarts(cluster, &client, plan, requests, roll).await?;
            (counts, Some((rolled, oracle)))
        }
    };
    let elapsed = started.elapsed();
    let mut stats = client.stats().await?;
    client.close().await;
    let lru_hits = lru_hits(plan, requests, &counts);
    let restarts = restarts.map(|(rolled, oracle)| {
        // Each master counts from its own start.
        stats.evicted_objects += rolled.former.evicted_objects;
        stats.evicted_bytes += rolled.former.evicted_bytes;
        stats.put_refused += rolled.former.put_refused;
        RestartFigures::new(&rolled, &counts.epochs, &lru_hits, &oracle)
    });
    Ok(Figures::new(&counts, &stats, lru_hits.iter().sum(), elapsed, restarts))
}

/// Replay, side workload and restarts all at once. The restarts stay on this thread, see
/// [`Cluster::start`].
async fn replay_with_restarts(
    cluster: &mut Cluster,
    client: &Client,
    plan: &DemoPlan,
    requests: &[TraceRequest],
    roll: RollPlan,
) -> Result<(Counts, Rolled, OracleCounts), CommandError> {
    let side_client = connect(cluster, "demo-oracle").await?;
    let (roller, seen) = Roller::new(roll);
    let (replay_ends, replay_ended) = watch::channel(false);
    let (traffic_ends, traffic_ended) = watch::channel(false);
    let replay = async {
        let (block_bytes, speed) = (plan.block_bytes, plan.speed);
        let counts = replay::replay(client, requests, block_bytes, speed, seen.clone()).await?;
        replay_ends.send_replace(true);
        Ok::<_, CommandError>(counts)
    };
    let side = oracle::work(&side_client, plan.block_bytes, &seen, &replay_ended);
    let traffic = async {
        let both = tokio::try_join!(replay, side)?;
        traffic_ends.send_replace(true);
        Ok::<_, CommandError>(both)
    };
    let rolling = roller.run(cluster, traffic_ended);
    let ((counts, oracle), rolled) = tokio::try_join!(traffic, rolling)?;
    side_client.close().await;
    Ok((counts, rolled, oracle))
}

async fn connect(cluster: &Cluster, name: &str) -> Result<Client, CommandError> {
    let pin = tls::parse_fingerprint(cluster.fingerprint())
        .ok_or_else(|| CommandError::Failed("the master has no fingerprint".to_owned()))?;
    let mut config = ClientConfig::new(cluster.address(), ClientTls::pinned(pin));
    config.name = name.to_owned();
    Ok(Client::connect(config).await?)
}

/// What exact LRU finds in the requests that were replayed, by epoch.
fn lru_hits(plan: &DemoPlan, requests: &[TraceRequest], counts: &Counts) -> Vec<u64> {
    let cluster = &plan.cluster;
    let pool_bytes = (cluster.store_bytes * u64::from(cluster.stores)) as f64;
    let usable_bytes = (pool_bytes * cluster.watermark_ratio) as u64;
    let mut cache = Lru::new(usable_bytes / plan.block_bytes.max(1) as u64);
    let mut blocks = rounds::endless(requests);
    let mut hits = |requests: u64| -> u64 {
        (0..requests).map_while(|_| blocks.next()).map(|blocks| cache.hits(&blocks)).sum()
    };
    counts.epochs.iter().map(|epoch| hits(epoch.requests)).collect()
}
