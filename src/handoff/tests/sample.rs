//! A small snapshot with everything in it, and ways to make others.

use std::io;
use std::path::Path;
use std::time::Duration;

use mooring_actors::handoff::{
    ClientRecord, ExportError, ObjectRecord, PoolRecord, RangePlace, RangeRecord, RecordSink,
    RemnantRecord, SegmentRecord, ShardRecord, SideRecord,
};
use mooring_proto::message::segment::Segment;
use mooring_proto::{ClientId, Incarnation, SegmentId};

use crate::handoff::chunks::Output;
use crate::handoff::deadline::Deadline;
use crate::handoff::directory::{HandoffDirectory, StartNote};
use crate::handoff::error::ReadError;
use crate::handoff::export::{Export, ExportFailure, ExportOptions, Published};
use crate::handoff::manifest::{Manifest, ShardFile, Times};
use crate::handoff::notes::{ShutdownNote, ShutdownResult};
use crate::handoff::reader::ShardFileReader;
use crate::handoff::snapshot::Snapshot;
use crate::handoff::writer::ShardFileWriter;

/// The master that writes the samples.
pub(in crate::handoff) const WRITER: Incarnation = Incarnation(0x0123_4567_89ab_cdef);

/// When they are written.
pub(in crate::handoff) const CREATED_MS: u64 = 1_700_000_000_000;

/// A record with a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::handoff) enum Owned {
    Object { key: Vec<u8>, fields: ObjectRecord<'static> },
    Other(RangeRecord<'static>),
}

impl Owned {
    pub(in crate::handoff) fn of(record: &RangeRecord<'_>) -> Owned {
        match *record {
            RangeRecord::Object(object) => Owned::Object {
                key: object.key.to_vec(),
                fields: ObjectRecord {
                    key: b"",
                    side: SideRecord { group: b"", ..object.side },
                    ..object
                },
            },
            RangeRecord::Replica { place, ordinal } => {
                Owned::Other(RangeRecord::Replica { place, ordinal })
            }
            RangeRecord::Hold { place, length_bytes, left_ms } => {
                Owned::Other(RangeRecord::Hold { place, length_bytes, left_ms })
            }
        }
    }

    pub(in crate::handoff) fn record(&self) -> RangeRecord<'_> {
        match self {
            Owned::Object { key, fields } => {
                RangeRecord::Object(ObjectRecord { key: key.as_slice(), ..*fields })
            }
            Owned::Other(record) => *record,
        }
    }
}

pub(in crate::handoff) fn place(segment: u32, offset_bytes: u64) -> RangePlace {
    RangePlace { segment, offset_bytes }
}

/// An object with nothing special.
pub(in crate::handoff) fn object(place: RangePlace, key: &[u8]) -> Owned {
    let fields = ObjectRecord {
        place,
        replicas: 1,
        key: b"",
        size_bytes: 470_000,
        sequence: place.offset_bytes >> 6,
        lease_left_ms: 0,
        idle_ms: 3_600_000,
        reused: false,
        hard_pin: false,
        soft_pin_left_ms: None,
        side: SideRecord::default(),
    };
    Owned::Object { key: key.to_vec(), fields }
}

/// The ranges of two shards: every kind of record, every field, both ends of numbers.
pub(in crate::handoff) fn ranges(shard: u32) -> Vec<Owned> {
    if shard == 1 {
        return vec![
            object(place(0, 64), b"only"),
            Owned::Other(RangeRecord::Hold {
                place: place(1, 1 << 40),
                length_bytes: u64::MAX,
                left_ms: 600_000,
            }),
        ];
    }
    let special = ObjectRecord {
        place: place(0, 4096),
        replicas: 3,
        key: b"",
        size_bytes: u64::MAX,
        sequence: u64::MAX,
        lease_left_ms: 9_999,
        idle_ms: 0,
        reused: false,
        hard_pin: true,
        soft_pin_left_ms: Some(0),
        side: SideRecord::default(),
    };
    vec![
        object(place(0, 0), b""),
        Owned::Object { key: vec![0xff; 300], fields: special },
        object(place(0, 1 << 30), b"model@7/rank_0/0123456789abcdef"),
        Owned::Other(RangeRecord::Replica { place: place(1, 0), ordinal: 1 }),
        Owned::Other(RangeRecord::Hold { place: place(1, 8192), length_bytes: 1, left_ms: 1 }),
        Owned::Other(RangeRecord::Replica { place: place(u32::MAX, u64::MAX), ordinal: 1 }),
    ]
}

/// A manifest with everything in it, of files that are those of [`ranges`].
pub(in crate::handoff) fn manifest() -> Manifest {
    let segment = |number: u128, certificate_sha256| Segment {
        segment: SegmentId(number),
        base: 0x7f00_0000_0000,
        size_bytes: 64 << 40,
        endpoint: format!("10.0.0.{number}:17000"),
        certificate_sha256,
        transfer_engine: None,
    };
    let record = |number, certificate, slot| SegmentRecord {
        client: ClientId(u128::MAX - 1),
        segment: segment(number, certificate),
        slot,
        generation: 7,
        mounted_with: WRITER,
        drain_left_ms: None,
        quarantine_left_ms: None,
    };
    let leaving = SegmentRecord {
        mounted_with: Incarnation(1),
        drain_left_ms: Some(0),
        quarantine_left_ms: Some(10_000),
        ..record(2, None, u16::MAX)
    };
    let remnant = RemnantRecord {
        endpoint: "10.0.0.9:17000".to_owned(),
        address: 1 << 46,
        length_bytes: 4096,
        left_ms: 5_000,
        whole: true,
    };
    Manifest {
        created_wall_ms: CREATED_MS,
        incarnation: WRITER,
        route_seed: 0xfeed_f00d_dead_beef,
        version: "0.1.0".to_owned(),
        times: Times {
            lease_ttl_ms: 10_000,
            client_ttl_ms: 10_000,
            put_discard_timeout_ms: 30_000,
            put_release_timeout_ms: 600_000,
        },
        pool: PoolRecord {
            segments: vec![record(1, Some([0xab; 32]), 0), leaving],
            remnants: vec![remnant.clone(), RemnantRecord { whole: false, ..remnant }],
            generation_max: u32::MAX,
            epoch: u64::MAX,
        },
        clients: vec![ClientRecord {
            client: ClientId(u128::MAX - 1),
            name: "store-a ☃".to_owned(),
            segments: 2,
        }],
        shards: (0..2).map(|shard| file(shard, &ranges(shard)).0).collect(),
    }
}

impl Output for Vec<u8> {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file of a shard with these records.
pub(in crate::handoff) fn file(index: u32, records: &[Owned]) -> (ShardFile, Vec<u8>) {
    let mut writer =
        ShardFileWriter::new(Vec::new(), index, WRITER, Deadline::NEVER, true).unwrap();
    write_all(&mut writer, records).unwrap();
    writer.finish(&counts(records)).unwrap();
    (*writer.finished().get().unwrap(), writer.into_output().unwrap())
}

pub(in crate::handoff) fn write_all(
    sink: &mut dyn RecordSink,
    records: &[Owned],
) -> Result<(), ExportError> {
    records.iter().try_for_each(|record| sink.range(&record.record()))
}

/// What a shard says of these records.
pub(in crate::handoff) fn counts(records: &[Owned]) -> ShardRecord {
    let is_hold = |record: &&Owned| matches!(record, Owned::Other(RangeRecord::Hold { .. }));
    ShardRecord {
        objects: records.iter().filter(|record| matches!(record, Owned::Object { .. })).count()
            as u64,
        holds: records.iter().filter(is_hold).count() as u64,
        aliens: 1,
        next_sequence: 77,
    }
}

/// Everything that a file has.
pub(in crate::handoff) fn read(file: &ShardFile, bytes: &[u8]) -> Result<Vec<Owned>, ReadError> {
    let mut reader = ShardFileReader::new(bytes, file, WRITER, Deadline::NEVER)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(Owned::of(&record));
    }
    Ok(records)
}

/// Everything that a snapshot has, shard by shard.
pub(in crate::handoff) fn read_snapshot(snapshot: &Snapshot) -> Result<Vec<Vec<Owned>>, ReadError> {
    (0..snapshot.manifest().shards.len())
        .map(|index| {
            let mut reader = snapshot.shard(index, Deadline::NEVER)?;
            let mut records = Vec::new();
            while let Some(record) = reader.next()? {
                records.push(Owned::of(&record));
            }
            Ok(records)
        })
        .collect()
}

pub(in crate::handoff) fn options() -> ExportOptions {
    ExportOptions {
        shards: 2,
        deadline: Deadline::NEVER,
        durable: true,
        admission: None,
        now_wall_ms: CREATED_MS,
    }
}

/// The directory, locked, by a master that begins to serve.
pub(in crate::handoff) fn serving(path: &Path, incarnation: Incarnation) -> HandoffDirectory {
    let mut directory = HandoffDirectory::open(path, Duration::ZERO).unwrap();
    begin(&mut directory, incarnation);
    directory
}

/// The master begins to serve.
pub(in crate::handoff) fn begin(directory: &mut HandoffDirectory, incarnation: Incarnation) {
    let note = StartNote { incarnation, now_wall_ms: CREATED_MS, outcome: "none".to_owned() };
    directory.begin_serving(note).unwrap().delete();
}

/// The master leaves a snapshot of the samples.
pub(in crate::handoff) fn export(
    directory: &HandoffDirectory,
    options: ExportOptions,
) -> Result<Published, ExportFailure> {
    let export = directory.begin_export(options)?;
    write_shards(&export)?;
    let manifest = Manifest { incarnation: Incarnation(0), shards: Vec::new(), ..manifest() };
    export.publish(manifest)
}

/// The shards are written.
pub(in crate::handoff) fn write_shards(export: &Export) -> Result<(), ExportError> {
    for index in 0..2 {
        let records = ranges(index);
        let mut sink: Box<dyn RecordSink> = Box::new(export.shard_writer(index)?);
        write_all(sink.as_mut(), &records)?;
        sink.finish(&counts(&records))?;
    }
    Ok(())
}

/// The master has left.
pub(in crate::handoff) fn left(incarnation: Incarnation, result: ShutdownResult) -> ShutdownNote {
    ShutdownNote {
        incarnation,
        result,
        detail: String::new(),
        ended_wall_ms: CREATED_MS,
        bytes: 0,
        objects: 0,
        duration_ms: 0,
        workers: 1,
    }
}

/// A directory that the writer has left with a snapshot.
pub(crate) fn handed_over() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let directory = serving(scratch.path(), WRITER);
    export(&directory, options()).unwrap();
    directory.record_shutdown(&left(WRITER, ShutdownResult::Ok)).unwrap();
    scratch
}
