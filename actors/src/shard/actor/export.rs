//! Writing down what a shard holds, with two threads.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread::{self, Builder};

use crate::handoff::{ExportError, RecordSink, ShardRecord};
use crate::moment::Moment;
use crate::pool::message::Mount;
use crate::shard::state::Shard;

/// Does what [`Shard::export`] does, with a thread beside this one.
///
/// What takes the time is waiting for memory: once for each range, whose node tells where the next
/// one is, and three times for its object and key. One thread looks for the ranges while the other
/// writes down those that were found, so that twice as much of the memory is on its way.
///
/// # Errors
/// The first that the sink reports; what it took so far must not be used.
pub(super) fn export(
    shard: &Shard,
    now: Moment,
    mounts: &[Mount],
    sink: &mut dyn RecordSink,
) -> Result<ShardRecord, ExportError> {
    thread::scope(|scope| {
        let (found, to_take) = sync_channel(BATCHES_MAX);
        let survey = move || {
            shard.survey(mounts, |place, passed| match found.send((place, passed.to_vec())) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            });
        };
        if Builder::new().name("handoff-walk".to_owned()).spawn_scoped(scope, survey).is_err() {
            return shard.export(now, mounts, sink);
        }
        let mut export = shard.begin_export(now, mounts);
        for (place, passed) in to_take {
            export.take(place, &passed, sink)?;
        }
        Ok(export.end())
    })
}

/// Found ranges come in batches of a few hundred; as many batches even out the pace of the threads
/// and stay in the second cache.
const BATCHES_MAX: usize = 8;
