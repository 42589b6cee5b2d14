//! Reads the file of one shard on a thread of its own, a little ahead of whoever takes the records.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

use mooring_actors::handoff::RangeRecord;
use mooring_actors::shard::prefetch;

use super::ReadError;
use super::reader::ShardFileReader;
use super::record::{Body, Parsed};

/// Gives the records of one file in order of place, while the thread reads, checks and decodes what
/// follows. The thread also takes care of the keys, which are most of the bytes: what becomes of
/// each of them, a `K`, comes with its object, whose record has no key any more.
///
/// The thread ends with the file, with a fault, or soon after this is dropped.
pub(crate) struct ReadAhead<K, E> {
    filled: Receiver<Message<K, E>>,
    /// Used up, for the thread to fill again.
    empty: SyncSender<Batch<K>>,
}

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

enum Message<K, E> {
    Batch(Batch<K>),
    End(Result<(), E>),
}

impl<K: Copy + Send, E: Send + From<ReadError>> ReadAhead<K, E> {
    /// Begins to read. The thread calls `keep` with the key of each object, in their order.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start<'scope, R: Read + Send + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        reader: ShardFileReader<R>,
        keep: impl FnMut(&[u8]) -> Result<K, E> + Send + 'scope,
    ) -> Result<ReadAhead<K, E>, E>
    where
        K: 'scope,
        E: 'scope,
    {
        let (fill, filled) = sync_channel(BATCHES);
        let (empty, used) = sync_channel(BATCHES);
        for _ in 0..BATCHES {
            // There is room for all of them.
            let _ = empty.try_send(Batch::new());
        }
        let name = reader.name().to_owned();
        Builder::new()
            .name("restore-read".to_owned())
            .spawn_scoped(scope, move || read_all(reader, keep, &used, &fill))
            .map_err(|error| ReadError::io(&name, &error))?;
        Ok(ReadAhead { filled, empty })
    }

    /// Gives each record to `take`, with what became of its key if it is of an object, until all came
    /// and the file is what was written. What was taken must not be used before.
    ///
    /// # Errors
    /// As [`ShardFileReader::next`], and what `keep` and `take` say.
    pub(crate) fn for_each(
        self,
        mut take: impl FnMut(&RangeRecord<'_>, Option<K>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let batch = match self.filled.recv() {
                Ok(Message::Batch(batch)) => batch,
                Ok(Message::End(end)) => return end,
                Err(_) => {
                    return Err(ReadError::corrupt("a file", "was not read to its end").into());
                }
            };
            let Batch { records, fields } = &batch;
            for (position, (parsed, key)) in records.iter().enumerate() {
                // They were written by another processor, which takes its time to give them away.
                if let Some((parsed, key)) = records.get(position + AHEAD) {
                    prefetch(parsed);
                    prefetch(key);
                }
                take(&parsed.view(fields), *key)?;
            }
            // The thread may have come to the end and be gone.
            let _ = self.empty.try_send(batch);
        }
    }
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
