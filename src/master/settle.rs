//! After a restore: until each segment has opened or is lost, and what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::frontend::Context;
use crate::frontend::stats::Snapshot;
use crate::telemetry::Phase;

/// Tells once that no restored segment is pending any more. Ends without a word if the master leaves
/// before.
pub(super) async fn tell_when_settled(context: Arc<Context>, mut phase: Phase) {
    let served = Instant::now();
    while !context.stage.is_draining() {
        // An actor that has no room for the question is asked again.
        if let Ok(snapshot) = Snapshot::take(&context).await
            && snapshot.pool.segments_pending == 0
        {
            let pool = snapshot.pool;
            phase.note("mooring.segments_confirmed", pool.segments_confirmed);
            phase.note("mooring.segments_dropped", pool.segments_dropped);
            let after_ms = u64::try_from(served.elapsed().as_millis()).unwrap_or(u64::MAX);
            let objects = snapshot.sum(|shard| shard.objects);
            if pool.segments_dropped > 0 {
                return tracing::warn!(
                    handoff_startup = "settled",
                    segments_confirmed = pool.segments_confirmed,
                    segments_dropped = pool.segments_dropped,
                    objects,
                    after_ms,
                    "restored segments were dropped: their stores did not come back in time, or with \
                     memory that another master has had since; is the port the same as before?"
                );
            }
            return tracing::info!(
                handoff_startup = "settled",
                segments_confirmed = pool.segments_confirmed,
                segments_dropped = 0,
                objects,
                after_ms,
                "no restored segment is pending any more"
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Often enough for whoever watches a roll, and no load.
const LOOK_EVERY: Duration = Duration::from_millis(250);
