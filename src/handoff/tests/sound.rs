//! A snapshot that a master can restore: so many objects for each shard, on one segment.

use std::time::Duration;

use mooring_actors::handoff::{PoolRecord, RecordSink, ShardRecord};
use mooring_proto::Incarnation;

use super::sample::{self, CREATED_MS, Owned, WRITER, options, write_all};
use crate::handoff::directory::{HandoffDirectory, StartNote};
use crate::handoff::manifest::Manifest;
use crate::handoff::snapshot::Snapshot;

/// Leaves the snapshot in a directory, with the objects of two shards, and claims it.
pub(crate) fn claimed(objects: u64) -> (tempfile::TempDir, Snapshot) {
    let scratch = tempfile::tempdir().unwrap();
    let mut directory = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap();
    let outcome = "none".to_owned();
    let note = StartNote { incarnation: WRITER, now_wall_ms: CREATED_MS, outcome };
    directory.begin_serving(note).unwrap();
    let export = directory.begin_export(options()).unwrap();
    for shard in 0..2 {
        let records: Vec<Owned> = (0..objects)
            .map(|number| {
                let offset_bytes = u64::from(shard) * SHARE_BYTES + number * OBJECT_BYTES;
                let key = format!("shard-{shard}-object-{number}");
                let object = sample::object(sample::place(0, offset_bytes), key.as_bytes());
                match object {
                    Owned::Object { key, mut fields } => {
                        fields.size_bytes = OBJECT_BYTES;
                        Owned::Object { key, fields }
                    }
                    other => other,
                }
            })
            .collect();
        let mut sink = export.shard_writer(shard).unwrap();
        write_all(&mut sink, &records).unwrap();
        sink.finish(&ShardRecord { objects, holds: 0, aliens: 0, next_sequence: 1 << 50 }).unwrap();
    }
    let sample = sample::manifest();
    let mut segments = sample.pool.segments;
    segments.truncate(1);
    segments[0].segment.size_bytes = 2 * SHARE_BYTES;
    let pool = PoolRecord { segments, remnants: Vec::new(), generation_max: 7, epoch: 7 };
    let manifest =
        Manifest { incarnation: Incarnation(0), pool, shards: Vec::new(), ..sample::manifest() };
    export.publish(manifest).unwrap();
    drop(directory);
    let mut directory = HandoffDirectory::open(scratch.path(), Duration::ZERO).unwrap();
    let snapshot = directory.claim().unwrap();
    (scratch, snapshot)
}

const OBJECT_BYTES: u64 = 4096;

/// Of the segment, for each shard; it is whole pages.
const SHARE_BYTES: u64 = 1 << 32;
