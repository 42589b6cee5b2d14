//! Fetching whole objects: locate, read from a replica, and make sure that what was read is the
//! object.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Client;
use super::error::{ClientError, RetryHint, is_transient};
use super::put::{BATCH_KEY_BYTES_MAX, BATCH_OBJECTS_MAX};
use super::random::random;
use super::replica::Replica;
use super::retry::Backoff;
use super::shared::Shared;
use crate::error::ErrorCode;
use crate::identity::Incarnation;
use crate::message::object::{Located, PutItem};

impl Client {
    /// Reads an object; `None` if there is no readable one.
    ///
    /// What is returned is one object as it was put, never parts of two: a read that outlasts its
    /// lease is confirmed by the master afterwards, or done again.
    ///
    /// # Errors
    /// [`ClientError::NoReplica`] if no replica can be read, [`ClientError::LeaseExpired`] if the
    /// object changes faster than it can be read, [`ClientError::TooLarge`], and those of the
    /// calls.
    pub async fn fetch(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, ClientError> {
        self.fetch_batch(&[key]).await.pop().unwrap_or(Err(ClientError::Ended))
    }

    /// Reads many objects with few requests; one answer for each key, in their order, as
    /// [`Client::fetch`] would give it.
    pub async fn fetch_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>, ClientError>> {
        let mut answers = Vec::with_capacity(keys.len());
        let mut rest = keys;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_length(rest));
            answers.extend(self.fetch_batch(batch).await);
            rest = later;
        }
        answers
    }

    async fn fetch_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>, ClientError>> {
        self.shared().tracing.together("fetch", self.fetch_rounds(keys)).await
    }

    async fn fetch_rounds<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>, ClientError>> {
        let deadline = self.shared().deadline();
        let mut backoff = Backoff::default();
        let mut answers: Vec<Fetched> = vec![Fetched::Answered(Ok(None)); keys.len()];
        let mut open: Vec<usize> = (0..keys.len()).collect();
        for round in 1..=FETCH_ROUNDS {
            if let Err(error) = self.fetch_round(keys, &open, &mut answers).await {
                let failed = Fetched::Answered(Err(error));
                open.iter().for_each(|index| answers[*index] = failed.clone());
                break;
            }
            open.retain(|index| matches!(answers[*index], Fetched::Again(_)));
            if open.is_empty() || round == FETCH_ROUNDS {
                break;
            }
            let pause = backoff.pause(RetryHint { after_ms: None });
            if !deadline.sleep(pause).await {
                break;
            }
        }
        answers.into_iter().map(Fetched::settle).collect()
    }

    /// Locates and reads the open keys once. Only a failure of the whole round is an error.
    async fn fetch_round<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        open: &[usize],
        answers: &mut [Fetched],
    ) -> Result<(), ClientError> {
        let asked: Vec<&[u8]> = open.iter().map(|index| keys[*index].as_ref()).collect();
        let leased = self.get(&asked).await?;
        let incarnation = leased.reply.incarnation;
        let mut sequences = HashMap::new();
        let mut located = Vec::new();
        for (index, item) in open.iter().copied().zip(leased.reply.items) {
            match item {
                Ok(found) => {
                    answers[index] = Fetched::Again(ClientError::Ended);
                    sequences.insert(index, found.sequence);
                    located.push((index, found));
                }
                Err(refusal) => {
                    answers[index] = match refusal.code {
                        ErrorCode::NotFound | ErrorCode::NotReadable => Fetched::Answered(Ok(None)),
                        code if is_transient(code) => Fetched::Again(ClientError::Item(refusal)),
                        _ => Fetched::Answered(Err(ClientError::Item(refusal))),
                    };
                }
            }
        }
        let mut late = Vec::new();
        for read in self.read_all(incarnation, located).await {
            answers[read.index] = match read.outcome {
                Ok(bytes) if read.ended_at < leased.until => Fetched::Answered(Ok(Some(bytes))),
                Ok(bytes) => {
                    late.push((read.index, bytes));
                    Fetched::Again(ClientError::LeaseExpired)
                }
                Err(error @ ClientError::TooLarge { .. }) => Fetched::Answered(Err(error)),
                Err(error) => Fetched::Again(ClientError::NoReplica { last: Box::new(error) }),
            };
        }
        let item = |index: usize| PutItem {
            key: serde_bytes::Bytes::new(keys[index].as_ref()),
            sequence: sequences.get(&index).copied().unwrap_or_default(),
        };
        let items: Vec<PutItem<'_>> = late.iter().map(|(index, _)| item(*index)).collect();
        if items.is_empty() {
            return Ok(());
        }
        // Sent after the reads have ended, so an unchanged object was unchanged while it was read.
        let confirmed = self.validate(incarnation, &items).await?;
        for ((index, bytes), confirmed) in late.into_iter().zip(confirmed) {
            if confirmed.is_ok() {
                answers[index] = Fetched::Answered(Ok(Some(bytes)));
            }
        }
        Ok(())
    }

    /// Reads many objects side by side.
    async fn read_all(
        &self,
        incarnation: Incarnation,
        located: Vec<(usize, Located)>,
    ) -> Vec<Read> {
        let mut reads = Vec::with_capacity(located.len());
        let mut running = JoinSet::new();
        for (index, found) in located {
            if running.len() == OBJECTS_IN_FLIGHT {
                reads.extend(running.join_next().await);
            }
            let shared = self.shared().clone();
            running.spawn(async move {
                let outcome = shared.read_object(incarnation, &found).await;
                Read { index, outcome, ended_at: Instant::now() }
            });
        }
        while !running.is_empty() {
            reads.extend(running.join_next().await);
        }
        // A task is lost only with its runtime.
        reads.into_iter().filter_map(Result::ok).collect()
    }
}

/// How far a key has come.
#[derive(Clone, Debug)]
enum Fetched {
    Answered(Result<Option<Bytes>, ClientError>),
    /// Not yet, for this reason.
    Again(ClientError),
}

impl Fetched {
    fn settle(self) -> Result<Option<Bytes>, ClientError> {
        match self {
            Fetched::Answered(answer) => answer,
            Fetched::Again(error) => Err(error),
        }
    }
}

#[derive(Debug)]
struct Read {
    index: usize,
    outcome: Result<Bytes, ClientError>,
    ended_at: Instant,
}

impl Shared {
    /// Reads an object from one replica after the other until one succeeds.
    async fn read_object(
        self: &Arc<Self>,
        incarnation: Incarnation,
        located: &Located,
    ) -> Result<Bytes, ClientError> {
        let limit_bytes = self.config.fetch_bytes_max;
        let size_bytes = usize::try_from(located.size_bytes).unwrap_or(usize::MAX);
        if located.size_bytes > limit_bytes || size_bytes == usize::MAX {
            return Err(ClientError::TooLarge { size_bytes: located.size_bytes, limit_bytes });
        }
        let text = "an object was located without a replica".to_owned();
        let mut last = ClientError::Protocol(text);
        // Readers spread over the replicas.
        let first = pick(located.replicas.len());
        let (before, from) = located.replicas.split_at(first);
        for range in from.iter().chain(before) {
            let replica = Replica { incarnation, range: *range, size_bytes };
            match self.read_replica(replica).await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => {
                    tracing::debug!(error = %failure.error, ?range, "a replica cannot be read");
                    last = failure.error;
                }
            }
        }
        Err(last)
    }
}

/// One of so many, at random; zero if there is no choice.
fn pick(count: usize) -> usize {
    if count < 2 { 0 } else { random::<u32>() as usize % count }
}

/// How many of the keys make the next batch; at least one.
fn batch_length<K: AsRef<[u8]>>(keys: &[K]) -> usize {
    let mut key_bytes = 0_usize;
    let fitting = keys.iter().take(BATCH_OBJECTS_MAX).take_while(|key| {
        key_bytes = key_bytes.saturating_add(key.as_ref().len());
        key_bytes <= BATCH_KEY_BYTES_MAX
    });
    fitting.count().max(1)
}

/// An object that changes, or whose stores cannot be read, is located anew this often.
const FETCH_ROUNDS: usize = 4;

/// Side by side, so that small objects don't wait for each other's round trips.
const OBJECTS_IN_FLIGHT: usize = 64;
