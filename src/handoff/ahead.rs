//! Reads the file of one shard on a thread of its own, a little ahead of whoever takes the records.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};

use mooring_actors::beside::begin_scoped;
use mooring_actors::handoff::RangeRecord;
use mooring_actors::shard::prefetch;

use super::ReadError;
use super::reader::ShardFileReader;
use super::record::{Body, Parsed};

/// The records of one chunk, and what stands in the tagged fields of those that have any.
struct Batch<K> {
    records: Vec<(Parsed, Option<K>)>,
    fields: Vec<u8>,
}

impl<K> Batch<K> {
    fn new() -> Batch<K> {
        Batch { records: Vec::new(), fields: Vec::new() }
    }
}

impl<K: Copy> Batch<K> {
    fn give<E>(
        &self,
        take: &mut impl FnMut(&RangeRecord<'_>, Option<K>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (position, (parsed, key)) in self.records.iter().enumerate() {
            // They may have been written by another processor, which takes its time to give them away.
            if let Some((parsed, key)) = self.records.get(position + AHEAD) {
                prefetch(parsed);
                prefetch(key);
            }
            take(&parsed.view(&self.fields), *key)?;
        }
        Ok(())
    }
}

enum Message<K, E> {
    Batch(Batch<K>),
    End(Result<(), E>),
}

/// Gives the records of one file to `take` in order of place, while a thread reads, checks and decodes
/// what follows. The thread also takes care of the keys, which are most of the bytes: `keep` is
/// called with each of them, in their order, and what becomes of it, a `K`, comes with its object,
/// whose record has no key any more. Nothing that was taken may be used before this has returned
/// without an error: only then the file is what was written.
///
/// If the system refuses the thread, this one does all of it.
///
/// # Errors
/// As [`ShardFileReader::next`], and what `keep` and `take` say.
pub(crate) fn read_ahead<R: Read + Send, K: Copy + Send, E: Send + From<ReadError>>(
    thread: Builder,
    reader: ShardFileReader<R>,
    keep: impl FnMut(&[u8]) -> Result<K, E> + Send,
    take: impl FnMut(&RangeRecord<'_>, Option<K>) -> Result<(), E>,
) -> Result<(), E> {
    let (fill, filled) = sync_channel(BATCHES);
    let (empty, used) = sync_channel(BATCHES);
    for _ in 0..BATCHES {
        // There is room for all of them.
        let _ = empty.try_send(Batch::new());
    }
    let thread = thread.name("restore-read".to_owned());
    thread::scope(|scope| {
        // The thread ends with the file, with a fault, or soon after the channels are dropped.
        let begun = begin_scoped(scope, thread, (reader, keep), move |(reader, keep)| {
            read_all(reader, keep, &used, &fill);
        });
        match begun {
            Ok(_) => take_all(filled, empty, take),
            Err(refused) => {
                let (reader, keep) = refused.work;
                read_here(reader, keep, take)
            }
        }
    })
}

/// Takes what the thread fills.
fn take_all<K: Copy, E: From<ReadError>>(
    filled: Receiver<Message<K, E>>,
    empty: SyncSender<Batch<K>>,
    mut take: impl FnMut(&RangeRecord<'_>, Option<K>) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let batch = match filled.recv() {
            Ok(Message::Batch(batch)) => batch,
            Ok(Message::End(end)) => return end,
            Err(_) => {
                return Err(ReadError::corrupt("a file", "was not read to its end").into());
            }
        };
        batch.give(&mut take)?;
        // The thread may have come to the end and be gone.
        let _ = empty.try_send(batch);
    }
}

/// Reads a chunk and gives it, and then the next one.
fn read_here<R: Read, K: Copy, E: From<ReadError>>(
    mut reader: ShardFileReader<R>,
    mut keep: impl FnMut(&[u8]) -> Result<K, E>,
    mut take: impl FnMut(&RangeRecord<'_>, Option<K>) -> Result<(), E>,
) -> Result<(), E> {
    let mut batch = Batch::new();
    while read_batch(&mut reader, &mut keep, &mut batch)? {
        batch.give(&mut take)?;
    }
    Ok(())
}

/// Reads until the file ends, a fault is found, or nobody takes the records any more.
fn read_all<R: Read, K, E: From<ReadError>>(
    mut reader: ShardFileReader<R>,
    mut keep: impl FnMut(&[u8]) -> Result<K, E>,
    used: &Receiver<Batch<K>>,
    fill: &SyncSender<Message<K, E>>,
) {
    while let Ok(mut batch) = used.recv() {
        let message = match read_batch(&mut reader, &mut keep, &mut batch) {
            Ok(true) => Message::Batch(batch),
            Ok(false) => Message::End(Ok(())),
            Err(error) => Message::End(Err(error)),
        };
        let ends = matches!(message, Message::End(_));
        if fill.send(message).is_err() || ends {
            return;
        }
    }
}

/// Reads the next chunk; whether there was one.
fn read_batch<R: Read, K, E: From<ReadError>>(
    reader: &mut ShardFileReader<R>,
    keep: &mut impl FnMut(&[u8]) -> Result<K, E>,
    batch: &mut Batch<K>,
) -> Result<bool, E> {
    let Batch { records, fields } = batch;
    records.clear();
    fields.clear();
    reader.next_chunk(|chunk, parsed| {
        let key = match parsed.body {
            Body::Object(object) => Some(keep(object.key(chunk))?),
            Body::Replica { .. } | Body::Hold { .. } => None,
        };
        records.push((parsed.without_key(chunk, fields), key));
        Ok(())
    })
}

/// One that is taken from, one that is filled, and one between them so that neither end waits for
/// the other's slower records. With a 96-byte key each is about 1 MiB.
const BATCHES: usize = 3;

/// So many records before its turn one is asked for: each takes a good hundred nanoseconds.
const AHEAD: usize = 6;

#[cfg(test)]
mod tests;
