use mooring_actors::Moment;
use mooring_actors::beside::refused_thread;
use mooring_actors::handoff::{ExportError, RecordSink, ShardRecord};
use mooring_proto::Incarnation;

use super::*;
use crate::handoff::claimed_and_sound;

/// More than an index has parts, so that it is built in several shares.
const OBJECTS: u64 = 60_000;

/// Keeps what a restored shard would hand over.
#[derive(Debug, Default, PartialEq)]
struct Kept(Vec<String>);

impl RecordSink for Kept {
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        self.0.push(format!("{record:?}"));
        Ok(())
    }

    fn finish(&mut self, _: &ShardRecord) -> Result<(), ExportError> {
        Ok(())
    }
}

/// Restores into so many shards, and gives what these would hand over at once.
fn restored(snapshot: &Snapshot, shards: u16, new: fn() -> Builder) -> Vec<(Kept, ShardRecord)> {
    let manifest = snapshot.manifest();
    let config = CoreConfig::new(shards, manifest.route_seed, Incarnation(9));
    let (threads, progress) = (Threads { files: 2, new }, RestoreProgress::default());
    let outcome = restore(snapshot, config, threads, Deadline::NEVER, &progress);
    let restored = outcome.map_err(|cause| cause.to_string()).unwrap();
    assert_eq!(restored.objects, 2 * OBJECTS);
    let segments = Pool::restored_segments(&manifest.pool).unwrap();
    let mounts: Vec<_> = segments.iter().map(|segment| segment.mount).collect();
    let (shards, ..) = restored.state.into_parts();
    let export = |shard: &Shard| {
        let mut kept = Kept::default();
        let record = shard.export(Moment::from_ms(0), &mounts, &mut kept).unwrap();
        (kept, record)
    };
    shards.iter().map(export).collect()
}

#[test]
fn a_restore_that_is_refused_every_thread_gives_the_same_state() {
    let (_scratch, snapshot) = claimed_and_sound(OBJECTS);
    // Each file by itself, and all of them merged.
    for shards in [2, 3] {
        let beside = restored(&snapshot, shards, Builder::new);
        let ranges: usize = beside.iter().map(|(kept, _)| kept.0.len()).sum();
        assert_eq!(ranges as u64, 2 * OBJECTS);
        let here = restored(&snapshot, shards, refused_thread);
        // All of it would be too much to read.
        assert!(beside == here, "{shards} shards: not the same");
    }
}
