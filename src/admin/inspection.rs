//! Everything that the actors know, for pages that show it all.

use mooring_actors::core::CallError;
use mooring_actors::pool::message::{PoolReply, PoolRequest, SegmentDetail};

use crate::frontend::Context;
use crate::frontend::stats::Snapshot;

/// What was answered.
pub(super) struct Inspection {
    pub(super) snapshot: Snapshot,
    /// In the order of their slots.
    pub(super) segments: Vec<SegmentDetail>,
}

impl Inspection {
    /// Asks all shards and the pool. The caller sets the deadline.
    ///
    /// # Errors
    /// If one of them has no room for the question, or is gone.
    pub(super) async fn take(context: &Context) -> Result<Inspection, CallError> {
        let snapshot = Snapshot::take(context).await?;
        let segments = match context.core.pool(PoolRequest::Inspect).await? {
            PoolReply::Inspected(segments) => segments,
            // As with totals, another answer is a fault of the process; here it costs only the page.
            _ => return Err(CallError::Gone),
        };
        Ok(Inspection { snapshot, segments })
    }
}
