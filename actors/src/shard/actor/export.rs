//! Writing down what a shard holds, with two threads.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread::{self, Builder};

use crate::handoff::{ExportError, RecordSink, ShardRecord};
use crate::moment::Moment;
use crate::pool::message::Mount;
use crate::shard::ranges::Passed;
use crate::shard::state::Shard;

/// Does what [`Shard::export`] does, with a thread beside this one, unless the system refuses it.
///
/// What takes the time is waiting for memory: once for each range, whose node tells where the next
/// one is, and three times for its object and key. One thread looks for the ranges while the other
/// writes down those that were found, so that twice as much of the memory is on its way.
///
/// # Errors
/// The first that the sink reports, or that not everything was found; what it took so far must not be
/// used.
///
/// # Panics
/// If the thread that looks for the ranges does.
pub(super) fn export(
    shard: &Shard,
    now: Moment,
    mounts: &[Mount],
    sink: &mut dyn RecordSink,
    thread: Builder,
) -> Result<ShardRecord, ExportError> {
    export_what_is_found(shard, now, mounts, sink, thread, |visit| shard.survey(mounts, visit))
}

/// The same, with what looks for the ranges: it shows them as [`Shard::survey`] does.
fn export_what_is_found(
    shard: &Shard,
    now: Moment,
    mounts: &[Mount],
    sink: &mut dyn RecordSink,
    thread: Builder,
    survey: impl FnOnce(&mut dyn FnMut(u32, &[Passed]) -> ControlFlow<()>) + Send,
) -> Result<ShardRecord, ExportError> {
    thread::scope(|scope| {
        let (found, to_take) = sync_channel(BATCHES_MAX);
        let survey = move || {
            let mut batch = Vec::new();
            survey(&mut |place, passed| {
                batch.extend_from_slice(passed);
                if !passed.is_empty() && batch.len() < BATCH_RANGES {
                    return ControlFlow::Continue(());
                }
                let full = std::mem::take(&mut batch);
                let ends = passed.is_empty();
                match found.send(Batch { place, passed: full, ends }) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        };
        if thread.name("handoff-walk".to_owned()).spawn_scoped(scope, survey).is_err() {
            return shard.export(now, mounts, sink);
        }
        let mut export = shard.begin_export(now, mounts);
        for batch in to_take {
            if !batch.passed.is_empty() {
                export.take(batch.place, &batch.passed, sink)?;
            }
            if batch.ends {
                export.take(batch.place, &[], sink)?;
            }
        }
        export.end()
    })
}

/// Ranges that were found on one mount.
struct Batch {
    place: u32,
    passed: Vec<Passed>,
    /// There are no more on this mount.
    ends: bool,
}

/// To wake a thread takes about 50 us on a virtual machine, as long as to find 500 ranges; this is
/// sixteen times as many.
const BATCH_RANGES: usize = 8192;

/// These even out the pace of the threads.
const BATCHES_MAX: usize = 4;

#[cfg(test)]
mod tests;
