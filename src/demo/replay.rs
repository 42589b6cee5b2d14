//! The replay: each request reads what is there of its chain and puts the rest.

use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::ProgressBar;
use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, ClientError, PutOptions};

use super::Speed;
use super::content::{block_bytes, key_of, wrong_bytes};
use super::figures::Counts;
use super::roll::Roll;
use super::rounds;
use super::trace::TraceRequest;
use crate::command::{CommandError, progress};

/// Replays the requests one after another, in the order of the trace, so that what is used when is
/// the same each time; the blocks of a request move side by side. Begins again, with other blocks,
/// while restarts are missing.
///
/// # Errors
/// What failed beyond a single block and was not touched by a restart.
pub(crate) async fn replay(
    client: &Client,
    requests: &[TraceRequest],
    block_bytes: usize,
    speed: Speed,
    roll: Roll,
) -> Result<Counts, CommandError> {
    let bar = progress::count_bar(requests.len() as u64, "replaying");
    let mut replay = Replay { client, block_bytes, roll, counts: Counts::new(), bar };
    let mut round = 0;
    loop {
        replay.round(requests, round, speed).await?;
        round += 1;
        if replay.roll.phase().done || requests.is_empty() {
            break;
        }
        replay.bar.inc_length(requests.len() as u64);
    }
    replay.bar.finish_and_clear();
    Ok(replay.counts)
}

struct Replay<'a> {
    client: &'a Client,
    block_bytes: usize,
    roll: Roll,
    counts: Counts,
    bar: ProgressBar,
}

/// What a chain's front came to.
#[derive(Default)]
struct Prefix {
    /// How many blocks of it were read.
    blocks: usize,
    bytes: u64,
}

impl Replay<'_> {
    async fn round(
        &mut self,
        requests: &[TraceRequest],
        round: u64,
        speed: Speed,
    ) -> Result<(), CommandError> {
        let started = Instant::now();
        for request in requests {
            if round > 0 && self.roll.phase().done {
                break;
            }
            if let Speed::Times(factor) = speed {
                sleep_until(started, Duration::from_millis(request.timestamp), factor).await;
            }
            self.request(&rounds::blocks(request, round)).await?;
            self.bar.inc(1);
        }
        Ok(())
    }

    async fn request(&mut self, blocks: &[u64]) -> Result<(), CommandError> {
        let keys: Vec<Vec<u8>> = blocks.iter().map(|block| key_of(*block)).collect();
        let mut present = 0;
        for part in keys.chunks(BATCH_BLOCKS) {
            let found = self.read_prefix(part).await?;
            present += found;
            if found < part.len() {
                break;
            }
        }
        let restarts = self.roll.phase().restarts;
        if self.counts.request(keys.len() as u64, present as u64, restarts) {
            self.bar.set_message(format!("replaying, {restarts} restarts,"));
        }
        for part in keys[present..].chunks(BATCH_BLOCKS) {
            self.put_rest(part).await?;
        }
        Ok(())
    }

    /// Reads the longest prefix of the chain that is there; gives its length.
    async fn read_prefix(&mut self, keys: &[Vec<u8>]) -> Result<usize, CommandError> {
        let started = Instant::now();
        loop {
            let since = self.roll.phase();
            match self.try_read_prefix(keys).await {
                Ok(prefix) => {
                    if prefix.blocks > 0 {
                        self.counts.get_took(started.elapsed());
                    }
                    self.counts.bytes_read += prefix.bytes;
                    return Ok(prefix.blocks);
                }
                // A miss is an answer, and this is none.
                Err(_) if self.roll.disturbed(since).await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Compares every byte that is read, also those of a prefix whose rest then fails.
    async fn try_read_prefix(&mut self, keys: &[Vec<u8>]) -> Result<Prefix, ClientError> {
        let matched = self.client.match_prefix(keys, true).await?;
        if matched == 0 {
            return Ok(Prefix::default());
        }
        let mut prefix = Prefix::default();
        let fetched = self.client.fetch_many(&keys[..matched]).await;
        for (key, found) in keys.iter().zip(fetched) {
            // What was evicted since it was matched ends the prefix.
            let Some(found) = found? else { break };
            prefix.bytes += found.len() as u64;
            self.counts.wrong_bytes += wrong_bytes(key, self.block_bytes, &found);
            prefix.blocks += 1;
        }
        Ok(prefix)
    }

    /// Puts blocks that the request computed itself.
    async fn put_rest(&mut self, keys: &[Vec<u8>]) -> Result<(), CommandError> {
        let mut open: Vec<(&[u8], Bytes)> = keys
            .iter()
            .map(|key| (key.as_slice(), block_bytes(key, self.block_bytes).into()))
            .collect();
        let started = Instant::now();
        while !open.is_empty() {
            let since = self.roll.phase();
            let answers = self.client.put_many(&open, &PutOptions::default()).await;
            let mut failed = Vec::new();
            for (object, answer) in open.into_iter().zip(answers) {
                match answer {
                    Ok(()) => {
                        self.counts.puts += 1;
                        self.counts.bytes_written += self.block_bytes as u64;
                    }
                    // Behind a block that was evicted others may still be there.
                    Err(error) if error.code() == Some(ErrorCode::AlreadyExists) => {}
                    Err(error) => failed.push((object, error)),
                }
            }
            open = self.open_again(failed, since).await?;
        }
        if !keys.is_empty() {
            self.counts.put_took(started.elapsed());
        }
        Ok(())
    }

    /// What of the failed puts may be tried again.
    async fn open_again<'a>(
        &mut self,
        failed: Vec<((&'a [u8], Bytes), ClientError)>,
        since: super::roll::Phase,
    ) -> Result<Vec<(&'a [u8], Bytes)>, CommandError> {
        if failed.is_empty() {
            return Ok(Vec::new());
        }
        if self.roll.disturbed(since).await {
            return Ok(failed.into_iter().map(|(object, _)| object).collect());
        }
        for (_, error) in failed {
            match error.code() {
                Some(_) => self.counts.put_refused += 1,
                None => return Err(error.into()),
            }
        }
        Ok(Vec::new())
    }
}

/// Sleeps until the request is due that came so long after the start, at this speed.
async fn sleep_until(started: Instant, after: Duration, factor: f64) {
    let due = Duration::try_from_secs_f64(after.as_secs_f64() / factor).ok();
    match due.and_then(|due| started.checked_add(due)) {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        // No clock reaches as far.
        None => std::future::pending().await,
    }
}

/// The blocks that are read or put side by side: far below the keys of one request, and what they
/// hold fits into memory. Hardly any request of a trace has more.
const BATCH_BLOCKS: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_no_clock_reaches_is_waited_for() {
        let never = [Duration::from_millis(u64::MAX), Duration::MAX];
        for after in never {
            let wait = sleep_until(Instant::now(), after, 1e-6);
            assert!(tokio::time::timeout(Duration::from_millis(1), wait).await.is_err());
        }
    }
}
