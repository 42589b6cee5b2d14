//! A side workload whose every answer is known: keys that are put, overwritten, removed and read at
//! random while the trace is replayed.
//!
//! Each key has one owner, which knows what the key must have: its bytes follow from key and
//! version, so a read gives exactly the version that was put last, or nothing. Nothing is always
//! right, since the pool may evict; once a remove was acknowledged it is the only right answer.

use std::time::Duration;

use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, ClientError, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::content::{block_bytes, wrong_bytes};
use super::roll::Roll;
use crate::bench::mix;
use crate::command::CommandError;

/// What the side workload did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OracleCounts {
    /// Answered reads.
    pub(crate) reads: u64,
    /// Reads that found an object.
    pub(crate) hits: u64,
    /// Acknowledged puts.
    pub(crate) puts: u64,
    /// Acknowledged removes.
    pub(crate) removes: u64,
    pub(crate) wrong_bytes: u64,
}

impl OracleCounts {
    fn add(&mut self, other: OracleCounts) {
        self.reads += other.reads;
        self.hits += other.hits;
        self.puts += other.puts;
        self.removes += other.removes;
        self.wrong_bytes += other.wrong_bytes;
    }
}

/// Works until the replay has ended, and then reads every key once more.
///
/// # Errors
/// A call that failed and was not touched by a restart.
pub(crate) async fn work(
    client: &Client,
    value_bytes_max: usize,
    roll: &Roll,
    replay_ended: &watch::Receiver<bool>,
) -> Result<OracleCounts, CommandError> {
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let store = (client.clone(), roll.clone());
        let ended = replay_ended.clone();
        workers.spawn(async move { Worker::new(store, number, value_bytes_max).run(ended).await });
    }
    let mut sum = OracleCounts::default();
    while let Some(finished) = workers.join_next().await {
        let counts = finished
            .map_err(|error| CommandError::failed("the side workload failed", error))
            .and_then(|counts| counts.map_err(CommandError::from))?;
        sum.add(counts);
    }
    Ok(sum)
}

struct Worker {
    client: Client,
    roll: Roll,
    random: StdRng,
    value_bytes_max: usize,
    slots: Vec<Slot>,
    counts: OracleCounts,
}

/// A key and what is known of it.
struct Slot {
    worker: u64,
    number: u64,
    /// Another one makes another key.
    generation: u64,
    /// The latest version that was put.
    version: u64,
    /// Whether that version may be there. An unanswered put or remove leaves it open.
    may_exist: bool,
}

impl Worker {
    fn new((client, roll): (Client, Roll), number: u64, value_bytes_max: usize) -> Worker {
        let slot = |slot| Slot {
            worker: number,
            number: slot,
            generation: 0,
            version: 0,
            may_exist: false,
        };
        Worker {
            client,
            roll,
            random: StdRng::seed_from_u64(SEED ^ number),
            value_bytes_max,
            slots: (0..SLOTS).map(slot).collect(),
            counts: OracleCounts::default(),
        }
    }

    async fn run(mut self, ended: watch::Receiver<bool>) -> Result<OracleCounts, ClientError> {
        // An error says that whoever could end this is gone.
        while ended.has_changed().is_ok() && !*ended.borrow() {
            let place = self.random.random_range(0..self.slots.len());
            match (self.random.random_range(0..10), self.slots[place].may_exist) {
                (0..5, _) => self.read(place).await?,
                (5..7, true) => {
                    self.remove(place).await?;
                }
                (_, true) => self.overwrite(place).await?,
                (_, false) => self.put(place).await?,
            }
            let pause_us = self.random.random_range(0..PAUSE_US_MAX);
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
        }
        for place in 0..self.slots.len() {
            self.read(place).await?;
        }
        Ok(self.counts)
    }

    async fn read(&mut self, place: usize) -> Result<(), ClientError> {
        let slot = &self.slots[place];
        let since = self.roll.phase();
        match self.client.fetch(slot.key()).await {
            Ok(found) => {
                self.counts.reads += 1;
                if let Some(found) = found {
                    self.counts.hits += 1;
                    self.counts.wrong_bytes += slot.wrong_bytes(self.value_bytes_max, &found);
                }
                Ok(())
            }
            Err(_) if self.roll.disturbed(since).await => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts the next version of a key that has none.
    async fn put(&mut self, place: usize) -> Result<(), ClientError> {
        let slot = &mut self.slots[place];
        slot.version += 1;
        slot.may_exist = true;
        let value = block_bytes(&slot.content(), slot.value_bytes(self.value_bytes_max));
        let since = self.roll.phase();
        let put = self.client.put(slot.key(), value, &PutOptions::default()).await;
        match put {
            Ok(()) => {
                self.counts.puts += 1;
                Ok(())
            }
            // The last word of the master on this put, although an attempt before may have got
            // through: so the version may be there or not.
            Err(error) if error.code().is_some() => Ok(()),
            Err(error) => {
                // Without a last word, the end of the put may even come behind a later remove.
                slot.begin_anew();
                if self.roll.disturbed(since).await { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Whether the key is known to have no object afterwards.
    async fn remove(&mut self, place: usize) -> Result<bool, ClientError> {
        let slot = &mut self.slots[place];
        let since = self.roll.phase();
        let answers = self.client.remove(&[slot.key()], true).await;
        match answers.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(()))) => {
                self.counts.removes += 1;
                slot.may_exist = false;
                Ok(true)
            }
            Ok(Some(Err(refusal))) => {
                // It was evicted, or its put was never completed.
                slot.may_exist = refusal.code != ErrorCode::NotFound;
                Ok(!slot.may_exist)
            }
            Ok(None) => Ok(false),
            Err(_) if self.roll.disturbed(since).await => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn overwrite(&mut self, place: usize) -> Result<(), ClientError> {
        if self.remove(place).await? {
            self.put(place).await?;
        }
        Ok(())
    }
}

impl Slot {
    fn key(&self) -> Vec<u8> {
        let Slot { worker, number, generation, .. } = self;
        format!("demo/oracle@{worker:02x}{number:04x}-{generation}").into_bytes()
    }

    /// From what the bytes of the latest version follow.
    fn content(&self) -> Vec<u8> {
        [&self.key()[..], &self.version.to_le_bytes()].concat()
    }

    /// Another size for each version, so that versions do not fit each other's ranges.
    fn value_bytes(&self, max: usize) -> usize {
        let random = mix(self.version ^ mix(self.number ^ self.worker << 32));
        1 + (random % max.max(1) as u64) as usize
    }

    /// How many bytes of a read are not those of the latest version; all of them if there should be
    /// none.
    fn wrong_bytes(&self, value_bytes_max: usize, found: &[u8]) -> u64 {
        if self.may_exist {
            wrong_bytes(&self.content(), self.value_bytes(value_bytes_max), found)
        } else {
            found.len().max(1) as u64
        }
    }

    /// Leaves the key as it is, and goes on with another one.
    fn begin_anew(&mut self) {
        self.generation += 1;
        self.version = 0;
        self.may_exist = false;
    }
}

const SEED: u64 = 0x6f72_6163_6c65;

/// Side by side, so that a restart meets several of them in the middle of something.
const WORKERS: u64 = 4;

/// Keys of each: few, so that each has seen much before the end.
const SLOTS: u64 = 64;

/// Between two operations: a load that the replay hardly notices.
const PAUSE_US_MAX: u64 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1_000;

    fn slot(version: u64, may_exist: bool) -> Slot {
        Slot { worker: 1, number: 2, generation: 0, version, may_exist }
    }

    fn bytes_of(slot: &Slot) -> Vec<u8> {
        block_bytes(&slot.content(), slot.value_bytes(MAX))
    }

    #[test]
    fn only_the_latest_version_is_right() {
        let current = slot(7, true);
        assert_eq!(current.wrong_bytes(MAX, &bytes_of(&current)), 0);
        for other in (0..20).filter(|version| *version != 7) {
            assert!(current.wrong_bytes(MAX, &bytes_of(&slot(other, true))) > 0, "{other}");
        }
    }

    #[test]
    fn after_an_acknowledged_remove_every_byte_is_wrong() {
        let removed = slot(7, false);
        let bytes = bytes_of(&removed);
        assert_eq!(removed.wrong_bytes(MAX, &bytes), bytes.len() as u64);
        assert_eq!(removed.wrong_bytes(MAX, &[]), 1);
    }

    #[test]
    fn sizes_are_from_one_byte_to_the_largest() {
        let sizes: Vec<_> = (0..500).map(|version| slot(version, true).value_bytes(MAX)).collect();
        assert!(sizes.iter().all(|size| (1..=MAX).contains(size)));
        assert!(sizes.iter().any(|size| *size < MAX / 10));
        assert!(sizes.iter().any(|size| *size > MAX / 10 * 9));
    }
}
