//! The replay: each request reads what is there of its chain and puts the rest.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, PutOptions};

use super::Speed;
use super::content::{block_bytes, key_of, wrong_bytes};
use super::figures::Counts;
use super::trace::TraceRequest;
use crate::command::{CommandError, progress};

/// Replays the requests one after another, in the order of the trace, so that what is used when is
/// the same each time; the blocks of a request move side by side.
///
/// # Errors
/// What failed beyond a single block.
pub(crate) async fn replay(
    client: &Client,
    requests: &[TraceRequest],
    block_bytes: usize,
    speed: Speed,
) -> Result<Counts, CommandError> {
    let mut replay = Replay { client, block_bytes, counts: Counts::new() };
    let bar = progress::count_bar(requests.len() as u64, "replaying");
    let started = Instant::now();
    for request in requests {
        if let Speed::Times(factor) = speed {
            let due = Duration::from_millis(request.timestamp).div_f64(factor);
            tokio::time::sleep_until((started + due).into()).await;
        }
        replay.request(&request.hash_ids).await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(replay.counts)
}

struct Replay<'a> {
    client: &'a Client,
    block_bytes: usize,
    counts: Counts,
}

impl Replay<'_> {
    async fn request(&mut self, blocks: &[u64]) -> Result<(), CommandError> {
        let keys: Vec<Vec<u8>> = blocks.iter().map(|block| key_of(*block)).collect();
        self.counts.requests += 1;
        self.counts.block_refs += keys.len() as u64;
        let present = self.read_prefix(&keys).await?;
        self.put_rest(&keys[present..]).await
    }

    /// Reads the longest prefix of the chain that is there, and compares every byte; gives its
    /// length.
    async fn read_prefix(&mut self, keys: &[Vec<u8>]) -> Result<usize, CommandError> {
        let started = Instant::now();
        let matched = self.client.match_prefix(keys, true).await?;
        if matched == 0 {
            return Ok(0);
        }
        let fetched = self.client.fetch_many(&keys[..matched]).await;
        self.counts.get_took(started.elapsed());
        let mut present = 0;
        for (key, found) in keys.iter().zip(fetched) {
            // What was evicted since it was matched ends the prefix.
            let Some(found) = found? else { break };
            self.counts.bytes_read += found.len() as u64;
            self.counts.wrong_bytes += wrong_bytes(key, self.block_bytes, &found);
            present += 1;
        }
        self.counts.hits += present as u64;
        Ok(present)
    }

    /// Puts blocks that the request computed itself.
    async fn put_rest(&mut self, keys: &[Vec<u8>]) -> Result<(), CommandError> {
        if keys.is_empty() {
            return Ok(());
        }
        let objects: Vec<(&[u8], Bytes)> = keys
            .iter()
            .map(|key| (key.as_slice(), block_bytes(key, self.block_bytes).into()))
            .collect();
        let started = Instant::now();
        let answers = self.client.put_many(&objects, &PutOptions::default()).await;
        self.counts.put_took(started.elapsed());
        for answer in answers {
            match answer {
                Ok(()) => {
                    self.counts.puts += 1;
                    self.counts.bytes_written += self.block_bytes as u64;
                }
                // Behind a block that was evicted others may still be there.
                Err(error) if error.code() == Some(ErrorCode::AlreadyExists) => {}
                Err(error) if error.code().is_some() => self.counts.put_refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
