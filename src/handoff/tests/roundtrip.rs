use std::io::{self, Write};
use std::thread::Builder;
use std::time::Instant;

use mooring_actors::beside::refused_thread;
use mooring_actors::handoff::{ExportError, ObjectRecord, RangeRecord, RecordSink, SideRecord};
use mooring_proto::ClientId;
use proptest::prelude::*;

use super::sample::{
    self, Owned, WRITER, counts, file, manifest, object, place, ranges, read, write_all,
};
use crate::handoff::chunks::Output;
use crate::handoff::deadline::Deadline;
use crate::handoff::merge::MergedReader;
use crate::handoff::reader::ShardFileReader;
use crate::handoff::reason::Reason;
use crate::handoff::writer::ShardFileWriter;

/// Records in order, of all kinds.
fn records() -> impl Strategy<Value = Vec<Owned>> {
    let number = || prop_oneof![0..200_u64, any::<u64>()];
    let place = (0..4_u32, number()).prop_map(|(segment, offset)| place(segment, offset));
    let rest = (0..10_u8, number(), number(), proptest::collection::vec(any::<u8>(), 0..200));
    proptest::collection::btree_map(place, rest, 0..80).prop_map(|ranges| {
        let mut objects = 0;
        let mut records = Vec::new();
        for (place, (kind, first, second, key)) in ranges {
            records.push(match kind {
                0 | 1 if objects > 0 => {
                    Owned::Other(RangeRecord::Replica { place, ordinal: first % objects })
                }
                2 | 3 => {
                    let (length_bytes, left_ms) = (first, second);
                    Owned::Other(RangeRecord::Hold { place, length_bytes, left_ms })
                }
                _ => {
                    objects += 1;
                    let fields = ObjectRecord {
                        place,
                        replicas: 1 + kind / 3,
                        key: b"",
                        size_bytes: first,
                        sequence: second,
                        lease_left_ms: if kind.is_multiple_of(2) { first } else { 0 },
                        idle_ms: if kind.is_multiple_of(2) { 0 } else { second },
                        reused: first.is_multiple_of(3),
                        hard_pin: kind == 5,
                        soft_pin_left_ms: (kind > 6).then_some(second),
                        side: side(kind, second),
                    };
                    Owned::Object { key, fields }
                }
            });
        }
        records
    })
}

/// What some objects have, by their kind.
fn side(kind: u8, number: u64) -> SideRecord<'static> {
    match kind {
        5 => SideRecord { checksum: Some(number), ..SideRecord::default() },
        6 => {
            SideRecord { writer: Some(ClientId(u128::MAX)), data_type: 9, ..SideRecord::default() }
        }
        7 => SideRecord { group: b"", data_type: 255, ..SideRecord::default() },
        _ => SideRecord::default(),
    }
}

/// A file of several chunks.
fn long() -> Vec<Owned> {
    (0..30_000_u64)
        .map(|index| {
            let key = format!("{index:0>96}");
            object(place(0, index * 470_016), key.as_bytes())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_read_back_as_they_were(records in records()) {
        let (file, bytes) = file(3, &records);
        prop_assert_eq!(file.length_bytes, bytes.len() as u64);
        prop_assert_eq!(file.checksum, crc32c::crc32c(&bytes));
        prop_assert_eq!(file.ranges, records.len() as u64);
        prop_assert_eq!(read(&file, &bytes), Ok(records));
    }

    #[test]
    fn several_files_read_as_one_in_order(
        shards in proptest::collection::vec(records(), 1..5),
    ) {
        let files: Vec<_> = (0..)
            .zip(&shards)
            .map(|(index, records)| file(index, records))
            .collect();
        let readers = files.iter().map(|(file, bytes)| {
            ShardFileReader::new(bytes.as_slice(), file, WRITER, Deadline::NEVER).unwrap()
        });
        let mut merged = MergedReader::new(readers.collect()).unwrap();
        let mut found = Vec::new();
        while let Some((shard, record)) = merged.next().unwrap() {
            found.push((record.place(), shard, Owned::of(&record)));
        }
        prop_assert!(matches!(merged.next(), Ok(None)));
        let mut expected: Vec<_> = shards
            .iter()
            .enumerate()
            .flat_map(|(shard, records)| records.iter().map(move |record| (shard, record)))
            .map(|(shard, record)| (record.record().place(), shard, record.clone()))
            .collect();
        expected.sort_by_key(|(place, shard, _)| (*place, *shard));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn the_sample_has_every_field_and_reads_back() {
    for shard in 0..2 {
        let (file, bytes) = file(shard, &ranges(shard));
        assert_eq!(read(&file, &bytes), Ok(ranges(shard)));
    }
    let totals = manifest().totals();
    assert_eq!((totals.objects, totals.replicas, totals.holds), (4, 2, 2));
    assert_eq!(totals.key_bytes, 300 + 31 + 4);
}

#[test]
fn a_file_of_many_chunks_reads_back_and_an_object_costs_little_more_than_its_key() {
    let records = long();
    let (file, bytes) = file(0, &records);
    assert!(bytes.len() > 3 << 20, "{}", bytes.len());
    assert!(bytes.len() < records.len() * (96 + 18), "{}", bytes.len());
    assert_eq!(file.checksum, crc32c::crc32c(&bytes));
    assert_eq!(read(&file, &bytes), Ok(records));
}

#[test]
fn no_file_and_empty_files_are_read_as_such() {
    let (file, bytes) = file(0, &[]);
    assert_eq!(read(&file, &bytes), Ok(Vec::new()));
    let mut merged = MergedReader::<&[u8]>::new(Vec::new()).unwrap();
    assert!(merged.next().unwrap().is_none());
}

#[test]
fn a_file_is_the_same_if_the_system_refuses_the_thread_that_writes_it() {
    for records in [ranges(0), long(), Vec::new()] {
        let (expected, bytes) = file(0, &records);
        let (output, thread) = (Vec::new(), refused_thread());
        let mut writer =
            ShardFileWriter::with_thread(output, 0, WRITER, Deadline::NEVER, true, thread).unwrap();
        write_all(&mut writer, &records).unwrap();
        writer.finish(&counts(&records)).unwrap();
        assert_eq!(writer.finished().get(), Some(&expected));
        assert_eq!(writer.into_output(), Some(bytes));
    }
}

#[test]
fn a_shard_that_has_lost_its_bearings_is_not_written() {
    let replica = |ordinal| Owned::Other(RangeRecord::Replica { place: place(1, 0), ordinal });
    let mut unreplicated = object(place(0, 1), b"key");
    if let Owned::Object { fields, .. } = &mut unreplicated {
        fields.replicas = 0;
    }
    let cases = [
        vec![object(place(0, 64), b"a"), object(place(0, 64), b"b")],
        vec![object(place(1, 0), b"a"), object(place(0, 64), b"b")],
        vec![object(place(0, 64), b"a"), replica(1)],
        vec![object(place(0, 64), &vec![0; 64 << 10])],
        vec![unreplicated],
    ];
    for records in cases {
        let mut writer =
            ShardFileWriter::new(Vec::new(), 0, WRITER, Deadline::NEVER, true).unwrap();
        let error = write_all(&mut writer, &records).unwrap_err();
        assert!(matches!(error, ExportError::Write(_)), "{error}");
        // There is no way on from there.
        let good = object(place(9, 0), b"later");
        assert_eq!(writer.range(&good.record()), Err(error.clone()));
        assert_eq!(writer.finish(&counts(&records)).unwrap_err(), error);
    }
}

#[test]
fn a_file_that_is_finished_takes_nothing_more() {
    let records = ranges(0);
    let mut writer = ShardFileWriter::new(Vec::new(), 0, WRITER, Deadline::NEVER, true).unwrap();
    write_all(&mut writer, &records).unwrap();
    assert!(writer.finished().get().is_none());
    writer.finish(&counts(&records)).unwrap();
    let finished = *writer.finished().get().unwrap();
    assert!(writer.finish(&counts(&records)).is_err());
    assert!(writer.range(&object(place(u32::MAX, u64::MAX), b"late").record()).is_err());
    assert_eq!(read(&finished, &writer.into_output().unwrap()), Ok(records));
}

#[test]
fn a_file_with_other_counts_than_its_shard_is_not_finished() {
    let records = ranges(0);
    let mut wrong = counts(&records);
    wrong.objects += 1;
    let mut writer = ShardFileWriter::new(Vec::new(), 0, WRITER, Deadline::NEVER, true).unwrap();
    write_all(&mut writer, &records).unwrap();
    let error = writer.finish(&wrong).unwrap_err();
    assert!(error.to_string().contains("4 objects"), "{error}");
}

/// A disk with so much room.
#[derive(Clone, Debug)]
struct Disk {
    left_bytes: usize,
    syncs: bool,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left_bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let written = bytes.len().min(self.left_bytes);
        self.left_bytes -= written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Disk {
    fn sync(&mut self) -> io::Result<()> {
        if self.syncs { Ok(()) } else { Err(io::Error::other("the device is gone")) }
    }
}

/// The outcome is one without a thread, too.
fn write_to(disk: Disk, records: &[Owned]) -> Result<(), ExportError> {
    let [beside, here] = [Builder::new(), refused_thread()].map(|thread| {
        let (disk, deadline) = (disk.clone(), Deadline::NEVER);
        let mut writer = ShardFileWriter::with_thread(disk, 0, WRITER, deadline, true, thread)?;
        write_all(&mut writer, records)?;
        writer.finish(&counts(records))
    });
    assert_eq!(beside, here);
    here
}

#[test]
fn a_disk_that_is_full_at_any_byte_or_does_not_sync_is_an_error_that_names_the_file() {
    let records = ranges(0);
    let whole = file(0, &records).1.len();
    for left_bytes in 0..whole {
        let error = write_to(Disk { left_bytes, syncs: true }, &records).unwrap_err();
        assert!(matches!(&error, ExportError::Write(text) if text.contains("shard-0000")));
    }
    assert_eq!(write_to(Disk { left_bytes: whole, syncs: true }, &records), Ok(()));
    let error = write_to(Disk { left_bytes: whole, syncs: false }, &records).unwrap_err();
    assert!(error.to_string().contains("the device is gone"), "{error}");
    // In the middle of a file of many chunks, it is told by the end at the latest.
    let error = write_to(Disk { left_bytes: 2 << 20, syncs: true }, &long()).unwrap_err();
    assert!(matches!(error, ExportError::Write(_)));
}

#[test]
fn a_deadline_that_has_passed_ends_writing_and_reading() {
    let passed = Deadline::at(Instant::now());
    let mut writer = ShardFileWriter::new(Vec::new(), 0, WRITER, passed, true).unwrap();
    assert_eq!(write_all(&mut writer, &long()), Err(ExportError::Deadline));

    let (file, bytes) = file(0, &ranges(0));
    let mut reader = ShardFileReader::new(bytes.as_slice(), &file, WRITER, passed).unwrap();
    for _ in 0..2 {
        assert_eq!(reader.next().unwrap_err().reason(), Reason::Deadline);
    }
}

#[test]
fn a_merge_that_failed_gives_nothing_more() {
    let (first, bytes) = sample::file(0, &ranges(0));
    let (second, mut damaged) = sample::file(1, &ranges(1));
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    let reader = |file, bytes: &[u8]| {
        ShardFileReader::new(io::Cursor::new(bytes.to_vec()), file, WRITER, Deadline::NEVER)
    };
    let readers = vec![reader(&first, &bytes).unwrap(), reader(&second, &damaged).unwrap()];
    let mut merged = MergedReader::new(readers).unwrap();
    let mut outcome = Ok(());
    while outcome.is_ok() {
        outcome = match merged.next() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => panic!("the damage was not found"),
            Err(error) => Err(error),
        };
    }
    assert_eq!(merged.next().unwrap_err(), outcome.unwrap_err());
}
