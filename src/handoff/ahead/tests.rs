use std::io::{self, Cursor, Read};

use mooring_actors::beside::refused_thread;

use super::*;
use crate::handoff::deadline::Deadline;
use crate::handoff::manifest::ShardFile;
use crate::handoff::reason::Reason;
use crate::handoff::tests::sample::{Owned, WRITER, file, object, place, ranges};

/// A file of several chunks.
fn long() -> Vec<Owned> {
    (0..30_000_u64)
        .map(|index| object(place(0, index * 4096), format!("{index:0>96}").as_bytes()))
        .collect()
}

/// With a thread that reads ahead, and with one that the system refuses.
const THREADS: [fn() -> Builder; 2] = [Builder::new, refused_thread];

/// All records with their keys, which are the same with and without a thread.
fn read_all_ahead<R: Read + Send>(
    file: &ShardFile,
    input: impl Fn() -> R,
) -> Result<Vec<Owned>, ReadError> {
    let [beside, here] = THREADS.map(|thread| read_with(thread(), file, input()));
    assert_eq!(beside, here, "the thread makes no difference");
    here
}

fn read_with<R: Read + Send>(
    thread: Builder,
    file: &ShardFile,
    input: R,
) -> Result<Vec<Owned>, ReadError> {
    let reader = ShardFileReader::new(input, file, WRITER, Deadline::NEVER)?;
    let mut keys = Vec::new();
    let mut records = Vec::new();
    let keep = |key: &[u8]| {
        keys.push(key.to_vec());
        Ok::<_, ReadError>(keys.len() - 1)
    };
    read_ahead(thread, reader, keep, |record, key| {
        records.push((Owned::of(record), key));
        Ok(())
    })?;
    let whole = records.into_iter().map(|(record, key)| match (record, key) {
        (Owned::Object { fields, .. }, Some(key)) => {
            Owned::Object { key: keys[key].clone(), fields }
        }
        (other, key) => {
            assert_eq!(key, None, "only objects have keys");
            other
        }
    });
    Ok(whole.collect())
}

#[test]
fn what_is_read_ahead_is_what_was_written() {
    for records in [ranges(0), ranges(1), long(), Vec::new()] {
        let (file, bytes) = file(0, &records);
        assert_eq!(read_all_ahead(&file, || bytes.as_slice()), Ok(records));
    }
}

#[test]
fn damage_anywhere_ends_in_an_error() {
    let (file, bytes) = file(0, &long());
    for position in (40..bytes.len()).step_by(bytes.len() / 20) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        let error = read_all_ahead(&file, || damaged.as_slice()).unwrap_err();
        assert_eq!(error.reason(), Reason::Corrupt, "byte {position}");
        let error = read_all_ahead(&file, || &bytes[..position]).unwrap_err();
        assert_eq!(error.reason(), Reason::Corrupt, "the first {position} bytes");
    }
}

#[test]
fn a_key_that_cannot_be_kept_ends_the_reading() {
    let (file, bytes) = file(0, &long());
    for thread in THREADS {
        let reader =
            ShardFileReader::new(bytes.as_slice(), &file, WRITER, Deadline::NEVER).unwrap();
        let mut kept = 0;
        let refused = ReadError::corrupt("a key", "is too much");
        let keep = |_: &[u8]| {
            kept += 1;
            if kept <= 20_000 { Ok(()) } else { Err(refused.clone()) }
        };
        assert_eq!(read_ahead(thread(), reader, keep, |_, _| Ok(())).unwrap_err(), refused);
        assert_eq!(kept, 20_001);
    }
}

#[test]
fn reading_stops_when_a_record_is_refused() {
    let (file, bytes) = file(0, &long());
    for thread in THREADS {
        let mut kept = 0;
        let input = Cursor::new(&bytes);
        let reader = ShardFileReader::new(input, &file, WRITER, Deadline::NEVER).unwrap();
        let keep = |_: &[u8]| {
            kept += 1;
            Ok::<_, ReadError>(())
        };
        let refused = ReadError::corrupt("a record", "is refused");
        let take = |_: &RangeRecord<'_>, _| Err(refused.clone());
        assert_eq!(read_ahead(thread(), reader, keep, take).unwrap_err(), refused);
        assert!(kept <= 30_000, "it has returned, so the thread has ended");
    }
}

#[test]
fn what_the_system_says_while_reading_comes_through() {
    let (file, bytes) = file(0, &long());
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) => Err(io::Error::other("the disk is gone")),
                read => read,
            }
        }
    }
    let half = || Failing(&bytes[..bytes.len() / 2]);
    assert_eq!(read_all_ahead(&file, half).unwrap_err().reason(), Reason::Unreadable);
}
