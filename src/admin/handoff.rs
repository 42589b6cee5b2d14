//! What the pages tell about the handoff: how the master before has left, and what this start made
//! of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mooring_actors::pool::message::PoolTotals;

use super::exposition::Exposition;
use crate::handoff::ShutdownNote;

/// How the index came to this master, or why not. Kept for as long as it lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandoffReport {
    /// How the master before says that it has left.
    pub(crate) last_shutdown: Option<ShutdownNote>,
    /// What this start did.
    pub(crate) restore: RestoreReport,
}

/// What a start did.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreReport {
    /// `ok`, or the name of the reason why the index is empty. Empty while it is not known yet.
    pub(crate) result: &'static str,
    /// From the claim of the snapshot until all of it was laid down.
    pub(crate) duration: Duration,
    /// How far it is while it restores.
    pub(crate) progress: Arc<RestoreProgress>,
    /// Objects that were restored.
    pub(crate) objects: u64,
    /// The age of the snapshot when it was found, restored or not.
    pub(crate) snapshot_age: Option<Duration>,
}

/// How much of a snapshot is laid down; several threads count together.
#[derive(Debug, Default)]
pub(crate) struct RestoreProgress {
    laid: AtomicU64,
    expected: AtomicU64,
}

impl RestoreProgress {
    /// A restore of so many ranges begins.
    pub(crate) fn expect(&self, ranges: u64) {
        self.expected.store(ranges, Ordering::Relaxed);
    }

    /// So many more are laid down.
    pub(crate) fn add(&self, ranges: u64) {
        self.laid.fetch_add(ranges, Ordering::Relaxed);
    }

    /// Ranges that are laid down, and how many there are to be.
    pub(crate) fn ranges(&self) -> (u64, u64) {
        (self.laid.load(Ordering::Relaxed), self.expected.load(Ordering::Relaxed))
    }
}

/// The families of a master with a handoff directory; `pool` is missing until it serves.
pub(super) fn families(page: &mut Exposition, report: &HandoffReport, pool: Option<&PoolTotals>) {
    let left = report.last_shutdown.as_ref();
    let result =
        |name: &'static str| [(name, 1_u8)].into_iter().filter(|(name, _)| !name.is_empty());
    page.gauges(
        "master_handoff_last_snapshot_result",
        "How the master before has left: ok with a snapshot, else the reason why there is none; \
         missing if it has not said so.",
        "result",
        result(left.map_or("", |note| note.result.name())),
    );
    page.gauge(
        "master_handoff_last_snapshot_bytes",
        "Bytes of the snapshot that the master before has left.",
        left.map_or(0, |note| note.bytes),
    );
    page.gauge(
        "master_handoff_last_snapshot_objects",
        "Objects in the snapshot that the master before has left.",
        left.map_or(0, |note| note.objects),
    );
    page.gauge(
        "master_handoff_last_snapshot_workers",
        "Shards that the master before wrote at once.",
        left.map_or(0, |note| note.workers),
    );
    page.gauge(
        "master_handoff_last_shutdown_duration_seconds",
        "From the signal to leave until the master before had left.",
        left.map_or(0.0, |note| note.duration_ms as f64 / 1e3),
    );
    restore(page, &report.restore);
    let pool = pool.copied().unwrap_or_default();
    page.gauge(
        "master_handoff_segments_confirmed",
        "Restored segments whose owners came back with the same memory.",
        pool.segments_confirmed,
    );
    page.gauge(
        "master_handoff_segments_dropped",
        "Restored segments that came back different or not at all.",
        pool.segments_dropped,
    );
    page.gauge(
        "master_handoff_segments_pending",
        "Restored segments whose owners have not come back yet.",
        pool.segments_pending,
    );
}

fn restore(page: &mut Exposition, restore: &RestoreReport) {
    let result = [(restore.result, 1_u8)].into_iter().filter(|(name, _)| !name.is_empty());
    page.gauges(
        "master_handoff_restore_result",
        "What this start did: ok if it restored, else the reason why the index began empty or the \
         master does not serve; missing until that is known.",
        "result",
        result,
    );
    page.gauge(
        "master_handoff_restore_duration_seconds",
        "From the claim of the snapshot until all of it was loaded.",
        restore.duration.as_secs_f64(),
    );
    let (laid, expected) = restore.progress.ranges();
    page.gauge("mooring_restore_ranges", "Ranges of the snapshot that are laid down.", laid);
    page.gauge(
        "mooring_restore_ranges_expected",
        "Ranges in the snapshot that is being restored, or was.",
        expected,
    );
    page.gauge("master_handoff_restore_objects", "Objects that were restored.", restore.objects);
    page.gauge(
        "master_handoff_snapshot_age_seconds",
        "The age of the snapshot that this start found; 0 without one.",
        restore.snapshot_age.unwrap_or_default().as_secs_f64(),
    );
}
