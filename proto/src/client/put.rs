//! Putting whole objects: reserve, write every replica, end.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::{ClientError, Failure, RetryHint, is_transient, is_unanswered};
use super::replica::{Replica, note};
use super::retry::{Backoff, Deadline};
use super::shared::Shared;
use super::{Client, PutOptions};
use crate::error::{ErrorCode, Refusal};
use crate::identity::Incarnation;
use crate::message::object::{PutItem, PutStartGrant, PutStartItem};

impl Client {
    /// Puts an object: reserves its space, writes every replica, and makes it readable. Waits a
    /// while for space if the master says that there will be some, and reserves anew, elsewhere if
    /// possible, when a store cannot be written.
    ///
    /// No write is begun later than the master's discard timeout after the start, so a large object
    /// on a slow link may need a longer one. A put that fails is given up; the bytes may then lie in
    /// a store, but nobody reads them. A put whose future is dropped is given up by the master after
    /// its discard timeout.
    ///
    /// # Errors
    /// [`ClientError::Item`] for a refusal, among them `AlreadyExists` and `PutInProgress`,
    /// [`ClientError::NoReplica`] if a store could not be written, and those of the calls.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        options: &PutOptions,
    ) -> Result<(), ClientError> {
        let object = [(key.as_ref(), value.into())];
        self.put_batch(&object, options).await.pop().unwrap_or(Err(ClientError::Ended))
    }

    /// Puts many objects with few requests; one answer for each, in their order, as
    /// [`Client::put`] would give it.
    pub async fn put_many<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        options: &PutOptions,
    ) -> Vec<Result<(), ClientError>> {
        let mut answers = Vec::with_capacity(objects.len());
        let mut rest = objects;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_length(rest));
            answers.extend(self.put_batch(batch, options).await);
            rest = later;
        }
        answers
    }

    async fn put_batch<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        options: &PutOptions,
    ) -> Vec<Result<(), ClientError>> {
        self.shared().tracing.together("put", self.put_rounds(objects, options)).await
    }

    async fn put_rounds<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        options: &PutOptions,
    ) -> Vec<Result<(), ClientError>> {
        let deadline = self.shared().deadline();
        let mut backoff = Backoff::default();
        let mut attempts: Vec<Attempt> = objects.iter().map(|_| self.next_attempt()).collect();
        let mut answers: Vec<Result<(), ClientError>> = vec![Ok(()); objects.len()];
        let mut open: Vec<usize> = (0..objects.len()).collect();
        for round in 0..PUT_ROUNDS {
            let steered = self.shared().steered(options);
            let started = match self.start(objects, &mut attempts, &open, &steered).await {
                Ok(started) => started,
                Err(error) => {
                    open.iter().for_each(|index| answers[*index] = Err(error.clone()));
                    break;
                }
            };
            let unwritten = self.write_and_finish(objects, started.granted, &mut answers).await;
            let hint = RetryHint { after_ms: longest_hint(&started.refused) };
            open.clear();
            for (index, refusal) in started.refused {
                if is_worth_waiting(&refusal) {
                    if !attempts[index].may_have_reserved {
                        attempts[index] = self.next_attempt();
                    }
                    open.push(index);
                }
                answers[index] = Err(ClientError::Item(refusal));
            }
            if round < REWRITE_ROUNDS {
                for index in unwritten {
                    // The put that failed is revoked, so this is another one.
                    attempts[index] = self.next_attempt();
                    open.push(index);
                }
            }
            if open.is_empty() || !deadline.sleep(backoff.pause(hint)).await {
                break;
            }
        }
        answers
    }

    fn next_attempt(&self) -> Attempt {
        Attempt { put_id: self.next_put_id(), first_asked_at: None, may_have_reserved: false }
    }

    async fn start<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        attempts: &mut [Attempt],
        open: &[usize],
        options: &PutOptions,
    ) -> Result<Started, ClientError> {
        let items: Vec<PutStartItem<'_>> = open
            .iter()
            .map(|index| PutStartItem {
                key: serde_bytes::Bytes::new(objects[*index].0.as_ref()),
                size_bytes: objects[*index].1.len() as u64,
                put_id: attempts[*index].put_id,
            })
            .collect();
        let asked_at = Instant::now();
        let (reply, may_have_reserved) = self.start_puts(options, &items).await?;
        let mut started = Started { granted: Vec::new(), refused: Vec::new() };
        for (index, item) in open.iter().copied().zip(reply.items) {
            let attempt = &mut attempts[index];
            let first_asked_at = *attempt.first_asked_at.get_or_insert(asked_at);
            attempt.may_have_reserved |= may_have_reserved;
            let write_by = Deadline::after(first_asked_at, reply.discard_timeout_ms);
            match item {
                Ok(PutStartGrant { sequence, replicas }) => {
                    let replicas = replicas
                        .iter()
                        .map(|range| Replica {
                            incarnation: reply.incarnation,
                            range: *range,
                            size_bytes: objects[index].1.len(),
                        })
                        .collect();
                    let incarnation = reply.incarnation;
                    let grant = Granted { index, incarnation, sequence, replicas, write_by };
                    started.granted.push(grant);
                }
                Err(refusal) => started.refused.push((index, refusal)),
            }
        }
        Ok(started)
    }

    /// Writes what was granted, ends what was written, and gives the rest up. Says what of the
    /// latter is worth another reservation.
    async fn write_and_finish<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        granted: Vec<Granted>,
        answers: &mut [Result<(), ClientError>],
    ) -> Vec<usize> {
        let Some(incarnation) = granted.first().map(|grant| grant.incarnation) else {
            return Vec::new();
        };
        let sequences: HashMap<usize, u64> =
            granted.iter().map(|grant| (grant.index, grant.sequence)).collect();
        let item = |index: usize| PutItem {
            key: serde_bytes::Bytes::new(objects[index].0.as_ref()),
            sequence: sequences.get(&index).copied().unwrap_or_default(),
        };
        for index in sequences.keys() {
            answers[*index] = Err(ClientError::Ended);
        }
        let mut written = Vec::new();
        let (mut settled, mut in_doubt) = (Vec::new(), Vec::new());
        for (index, outcome) in self.write_all(objects, granted).await {
            match outcome {
                Ok(()) => written.push(index),
                Err(failure) => {
                    if failure.maybe_done { &mut in_doubt } else { &mut settled }.push(index);
                    let last = Box::new(failure.error);
                    answers[index] = Err(ClientError::NoReplica { last });
                }
            }
        }
        if !written.is_empty() {
            let items: Vec<PutItem<'_>> = written.iter().map(|index| item(*index)).collect();
            match self.put_end(incarnation, &items).await {
                Ok(ended) => {
                    for (index, ended) in written.iter().zip(ended) {
                        answers[*index] = ended.map_err(ClientError::Item);
                    }
                }
                Err(error) => written.iter().for_each(|index| answers[*index] = Err(error.clone())),
            }
        }
        let mut again = Vec::new();
        for (no_write_in_flight, revoked) in [(true, settled), (false, in_doubt)] {
            let items: Vec<PutItem<'_>> = revoked.iter().map(|index| item(*index)).collect();
            if items.is_empty() {
                continue;
            }
            // What is not revoked is given up by the master in time.
            match self.put_revoke(incarnation, no_write_in_flight, &items).await {
                Ok(ended) => again.extend(
                    revoked
                        .iter()
                        .zip(ended)
                        .filter(|(index, ended)| {
                            ended.is_ok() && is_of_one_store(&answers[**index])
                        })
                        .map(|(index, _)| *index),
                ),
                Err(error) => {
                    tracing::debug!(%error, puts = items.len(), "puts could not be revoked");
                }
            }
        }
        again
    }

    /// Writes many objects side by side; the outcome of each with its index.
    async fn write_all<K: AsRef<[u8]>>(
        &self,
        objects: &[(K, Bytes)],
        granted: Vec<Granted>,
    ) -> Vec<(usize, Result<(), Failure>)> {
        let mut outcomes = Vec::with_capacity(granted.len());
        let mut running = JoinSet::new();
        for grant in granted {
            if running.len() == OBJECTS_IN_FLIGHT {
                outcomes.extend(running.join_next().await);
            }
            let (shared, value) = (self.shared().clone(), objects[grant.index].1.clone());
            running.spawn(async move { (grant.index, shared.write_object(&grant, value).await) });
        }
        while !running.is_empty() {
            outcomes.extend(running.join_next().await);
        }
        // A task is lost only with its runtime; the master gives up what it was to write.
        outcomes.into_iter().filter_map(Result::ok).collect()
    }
}

/// The starts of one object under one put id.
#[derive(Debug)]
struct Attempt {
    put_id: u64,
    /// Before the first of them was sent: one whose answer was lost may have made the reservation that a
    /// later one is answered with.
    first_asked_at: Option<Instant>,
    /// Whether the answer to one was lost. If not, one that is refused has reserved nothing.
    may_have_reserved: bool,
}

/// How a batch of starts came out, by the index of the object.
#[derive(Debug)]
struct Started {
    granted: Vec<Granted>,
    refused: Vec<(usize, Refusal)>,
}

#[derive(Debug)]
struct Granted {
    index: usize,
    incarnation: Incarnation,
    sequence: u64,
    replicas: Vec<Replica>,
    /// After this no write into the ranges is begun.
    write_by: Deadline,
}

impl Shared {
    /// Writes every replica of an object.
    async fn write_object(self: &Arc<Self>, grant: &Granted, value: Bytes) -> Result<(), Failure> {
        match grant.replicas.as_slice() {
            [] => {
                let text = "a put was granted without a replica".to_owned();
                Err(Failure::known(ClientError::Protocol(text)))
            }
            [replica] => self.write_replica(*replica, &value, grant.write_by).await,
            replicas => {
                let write_by = grant.write_by;
                let mut running = JoinSet::new();
                for replica in replicas.iter().copied() {
                    let (shared, value) = (self.clone(), value.clone());
                    running.spawn(
                        async move { shared.write_replica(replica, &value, write_by).await },
                    );
                }
                let mut failed = None;
                while !running.is_empty() {
                    note(running.join_next().await, &mut failed);
                }
                failed.map_or(Ok(()), Err)
            }
        }
    }
}

/// Whether the put may succeed at another store, or at this one under another mount.
fn is_of_one_store(answer: &Result<(), ClientError>) -> bool {
    let Err(ClientError::NoReplica { last }) = answer else { return false };
    match &**last {
        ClientError::Refused(error) => {
            is_transient(error.code)
                || matches!(error.code, ErrorCode::WrongMount | ErrorCode::SegmentNotFound)
        }
        error => is_unanswered(error),
    }
}

fn is_worth_waiting(refusal: &Refusal) -> bool {
    let full = refusal.code == ErrorCode::NoSpace && refusal.retry_after_ms.is_some();
    full || is_transient(refusal.code)
}

fn longest_hint(refused: &[(usize, Refusal)]) -> Option<u32> {
    let waiting = refused.iter().filter(|(_, refusal)| is_worth_waiting(refusal));
    waiting.filter_map(|(_, refusal)| refusal.retry_after_ms).max()
}

/// How many of the objects make the next batch; at least one.
fn batch_length<K: AsRef<[u8]>>(objects: &[(K, Bytes)]) -> usize {
    let mut key_bytes = 0_usize;
    let mut value_bytes = 0_usize;
    let fitting = objects.iter().take(BATCH_OBJECTS_MAX).take_while(|(key, value)| {
        key_bytes = key_bytes.saturating_add(key.as_ref().len());
        value_bytes = value_bytes.saturating_add(value.len());
        key_bytes <= BATCH_KEY_BYTES_MAX && value_bytes <= BATCH_VALUE_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Refusals for want of space are tried again this often; with the pauses between them longer than
/// a read lease lasts.
const PUT_ROUNDS: usize = 8;

/// Reservations are made anew this often for want of a store that can be written; each takes some
/// seconds if the next store does not answer either.
const REWRITE_ROUNDS: usize = 3;

/// Side by side, so that small objects don't wait for each other's round trips.
const OBJECTS_IN_FLIGHT: usize = 64;

/// Large enough that the requests to the master do not count.
pub(super) const BATCH_OBJECTS_MAX: usize = 4_096;

/// Half of a frame, which leaves room for what goes with the keys.
pub(super) const BATCH_KEY_BYTES_MAX: usize = 8 << 20;

/// What a slow link still writes before the master gives the reservations up.
const BATCH_VALUE_BYTES_MAX: usize = 256 << 20;
