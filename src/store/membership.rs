//! How a store comes into the pool and goes from it.

use std::time::Duration;

use mooring_proto::client::{Client, ClientError};
use mooring_proto::message::segment::Segment;
use mooring_proto::{ErrorCode, SegmentId};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Signals;
use crate::command::CommandError;

/// Mounts the segments, which nobody has mounted before. A store that was started again at the
/// address of a former one waits until the master has found that one to be gone.
///
/// # Errors
/// What the master refuses a segment with.
pub(super) async fn mount_all(client: &Client, segments: Vec<Segment>) -> Result<(), CommandError> {
    let client_ttl_ms = client.master().await?.client_ttl_ms;
    let patience = Duration::from_millis(client_ttl_ms.saturating_mul(2)) + OVERLAP_SLACK;
    let mut overlaps = Overlaps { until: Instant::now() + patience, told: false };
    for segment in segments {
        // Fresh memory: no master has ever handed out a range of it.
        while let Err(error) = client.mount(segment.clone(), None).await {
            overlaps.wait(error).await?;
        }
    }
    Ok(())
}

/// Unmounts, so that nobody is sent here any more; with a grace only after it, or a signal. Without
/// an answer of the master the store goes all the same, and the master drops its segments when it
/// misses its pings.
pub(super) async fn leave(
    client: &Client,
    segments: &[SegmentId],
    grace: Option<Duration>,
    signals: &mut Signals,
) {
    if let Some(grace) = grace {
        info!(?grace, "store is draining");
        unmount_all(client, segments, grace).await;
        tokio::select! {
            () = tokio::time::sleep(grace) => {}
            () = signals.end() => {}
        }
    }
    unmount_all(client, segments, Duration::ZERO).await;
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    info!("store has left");
}

/// The mount of a former process in the way.
struct Overlaps {
    /// After this it cannot be one that is only not missed yet.
    until: Instant,
    told: bool,
}

impl Overlaps {
    async fn wait(&mut self, error: ClientError) -> Result<(), CommandError> {
        let ClientError::Refused(refusal) = &error else { return Err(error.into()) };
        let hint_ms = match refusal.retry_after_ms {
            Some(hint_ms) if refusal.code == ErrorCode::SegmentOverlap => u64::from(hint_ms),
            _ => return Err(error.into()),
        };
        let pause = Duration::from_millis(hint_ms.clamp(PAUSE_MS_MIN, PAUSE_MS_MAX));
        if Instant::now() + pause > self.until {
            return Err(error.into());
        }
        if !self.told {
            self.told = true;
            info!(%error, "waiting until the master misses the store that was here before");
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Also of segments whose mount was never answered: they may be mounted.
async fn unmount_all(client: &Client, segments: &[SegmentId], grace: Duration) {
    // The flag is at most a year.
    let grace_ms = grace.as_millis() as u64;
    let unmounted = tokio::time::timeout(UNMOUNT_TIMEOUT, async {
        for segment in segments {
            let Err(error) = client.unmount(*segment, grace_ms).await else { continue };
            match error.code() {
                Some(ErrorCode::SegmentNotFound) => {}
                Some(_) => warn!(%segment, %error, "unmount failed"),
                // The others would not reach the master either.
                None => return warn!(%segment, %error, "unmount failed"),
            }
        }
    });
    if unmounted.await.is_err() {
        warn!("the master did not confirm the unmount in time");
    }
}

/// The master looks for silent clients now and then.
const OVERLAP_SLACK: Duration = Duration::from_secs(5);

/// A hint of nothing must not make a busy loop.
const PAUSE_MS_MIN: u64 = 100;

/// A store should be back soon after it can be.
const PAUSE_MS_MAX: u64 = 5_000;

/// How long a leaving store waits for the master's confirmation.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the last packets may take to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
