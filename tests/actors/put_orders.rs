//! Starts, ends and revokes in every order, against a naive model.

use std::collections::BTreeMap;

use mooring_actors::shard::message::PutRequest;
use mooring_proto::ClientId;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutStartGrant;
use proptest::prelude::*;

use crate::cluster::{Cluster, code};
use crate::common::{GIB, KIB, STORE, start_batch};

/// What may be said about one of a few keys.
#[derive(Clone, Copy, Debug)]
enum Word {
    Start {
        client: u128,
        put_id: u64,
    },
    /// With the token of one of the attempts so far, not always one of this key.
    End {
        attempt: usize,
    },
    Revoke {
        attempt: usize,
        no_write_in_flight: bool,
    },
    Get,
    Exist,
    Validate {
        attempt: usize,
    },
    Remove {
        force: bool,
    },
    RemoveAll {
        force: bool,
    },
    Wait {
        ms: u64,
    },
}

fn word() -> impl Strategy<Value = Word> {
    let wait = prop_oneof![Just(10_u64), Just(5_000), Just(10_000), Just(30_000), Just(600_000)];
    prop_oneof![
        6 => (2..5_u128, 0..3_u64).prop_map(|(client, put_id)| Word::Start { client, put_id }),
        6 => (0..8_usize).prop_map(|attempt| Word::End { attempt }),
        3 => (0..8_usize, any::<bool>()).prop_map(|(attempt, no_write_in_flight)| {
            Word::Revoke { attempt, no_write_in_flight }
        }),
        2 => Just(Word::Get),
        1 => Just(Word::Exist),
        1 => (0..8_usize).prop_map(|attempt| Word::Validate { attempt }),
        2 => any::<bool>().prop_map(|force| Word::Remove { force }),
        1 => any::<bool>().prop_map(|force| Word::RemoveAll { force }),
        3 => wait.prop_map(|ms| Word::Wait { ms }),
    ]
}

/// The object of a key, as a reader of the rules would keep it.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Writing { client: u128, put_id: u64, sequence: u64, started_ms: u64 },
    Readable { sequence: u64, leased_until_ms: u64 },
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u8, Entry>,
    /// The ends of all holds; each holds one range.
    holds_until_ms: Vec<u64>,
}

impl Model {
    fn hold(&mut self, now_ms: u64, until_ms: u64) {
        if until_ms > now_ms {
            self.holds_until_ms.push(until_ms);
        }
    }

    /// The entry of a key if a token is that of its put.
    fn of_token(&self, key: u8, sequence: u64) -> Result<Entry, ErrorCode> {
        let entry = self.entries.get(&key).copied().ok_or(ErrorCode::NotFound)?;
        let (Entry::Writing { sequence: own, .. } | Entry::Readable { sequence: own, .. }) = entry;
        if own == sequence { Ok(entry) } else { Err(ErrorCode::StaleToken) }
    }

    /// Whether a start goes on, and with the number of an older one that it repeats.
    fn start(
        &mut self,
        now_ms: u64,
        key: u8,
        client: u128,
        put_id: u64,
    ) -> Result<Option<u64>, ErrorCode> {
        match self.entries.get(&key).copied() {
            None => Ok(None),
            Some(Entry::Readable { .. }) => Err(ErrorCode::AlreadyExists),
            Some(Entry::Writing { client: by, put_id: of, sequence, started_ms }) => {
                if now_ms - started_ms >= DISCARD_MS {
                    self.hold(now_ms, started_ms + RELEASE_MS);
                    self.entries.remove(&key);
                    Ok(None)
                } else if (by, of) == (client, put_id) {
                    Ok(Some(sequence))
                } else {
                    Err(ErrorCode::PutInProgress)
                }
            }
        }
    }

    fn end(&mut self, now_ms: u64, key: u8, sequence: u64) -> Result<(), ErrorCode> {
        if let Entry::Writing { .. } = self.of_token(key, sequence)? {
            self.entries.insert(key, Entry::Readable { sequence, leased_until_ms: now_ms });
        }
        Ok(())
    }

    fn revoke(
        &mut self,
        now_ms: u64,
        key: u8,
        sequence: u64,
        quiet: bool,
    ) -> Result<(), ErrorCode> {
        let Entry::Writing { started_ms, .. } = self.of_token(key, sequence)? else {
            return Err(ErrorCode::PutComplete);
        };
        if !quiet {
            self.hold(now_ms, started_ms + RELEASE_MS);
        }
        self.entries.remove(&key);
        Ok(())
    }

    fn read(&mut self, now_ms: u64, key: u8, lease: bool) -> Result<u64, ErrorCode> {
        match self.entries.get_mut(&key) {
            None => Err(ErrorCode::NotFound),
            Some(Entry::Writing { .. }) => Err(ErrorCode::NotReadable),
            Some(Entry::Readable { sequence, leased_until_ms }) => {
                if lease {
                    *leased_until_ms = now_ms + LEASE_MS;
                }
                Ok(*sequence)
            }
        }
    }

    fn remove(&mut self, now_ms: u64, key: u8, force: bool) -> Result<(), ErrorCode> {
        match self.entries.get(&key).copied() {
            None => Err(ErrorCode::NotFound),
            Some(Entry::Writing { .. }) => Err(ErrorCode::NotReadable),
            Some(Entry::Readable { leased_until_ms, .. }) => {
                if leased_until_ms > now_ms && !force {
                    return Err(ErrorCode::Leased);
                }
                self.hold(now_ms, leased_until_ms);
                self.entries.remove(&key);
                Ok(())
            }
        }
    }

    fn pass(&mut self, now_ms: u64) {
        self.holds_until_ms.retain(|until_ms| *until_ms > now_ms);
        self.entries.retain(|_, entry| {
            !matches!(entry, Entry::Writing { started_ms, .. } if *started_ms + RELEASE_MS <= now_ms)
        });
    }
}

/// The cluster, and all attempts so far.
struct Pair {
    cluster: Cluster,
    model: Model,
    sequences: Vec<u64>,
}

impl Pair {
    fn sequence(&self, attempt: usize) -> u64 {
        // Of the last ones, so that a current token is likely.
        let from = self.sequences.len().saturating_sub(8);
        self.sequences.get(from + attempt).copied().unwrap_or(0x00ff_ffff)
    }

    fn start(&mut self, number: u8, client: u128, put_id: u64) {
        let now_ms = self.cluster.now.as_ms();
        let put = PutRequest { size_bytes: RANGE_BYTES, put_id };
        let answer =
            start_batch(&mut self.cluster, ClientId(client), &[(&[number], put)]).remove(0);
        match self.model.start(now_ms, number, client, put_id) {
            Err(expected) => assert_eq!(code(answer), Some(expected)),
            Ok(Some(sequence)) => assert_eq!(answer.expect("the same again").sequence, sequence),
            Ok(None) => {
                let PutStartGrant { sequence, replicas } = answer.expect("there is room");
                assert_eq!(replicas.len(), 1);
                assert!(!self.sequences.contains(&sequence), "each token is new");
                self.sequences.push(sequence);
                let started_ms = now_ms;
                let entry = Entry::Writing { client, put_id, sequence, started_ms };
                self.model.entries.insert(number, entry);
            }
        }
    }

    fn remove_all(&mut self, force: bool) {
        let now_ms = self.cluster.now.as_ms();
        let all: Vec<u8> = self.model.entries.keys().copied().collect();
        let gone = all.iter().filter(|key| self.model.remove(now_ms, **key, force).is_ok()).count();
        let kept = all.len() - gone;
        assert_eq!(self.cluster.remove_all(force), (gone as u64, kept as u64));
    }

    fn say(&mut self, number: u8, word: Word) {
        let now_ms = self.cluster.now.as_ms();
        let (cluster, model) = (&mut self.cluster, &mut self.model);
        let key = [number];
        match word {
            Word::Start { client, put_id } => self.start(number, client, put_id),
            Word::End { attempt } => {
                let sequence = self.sequence(attempt);
                let expected = self.model.end(now_ms, number, sequence);
                assert_eq!(code(self.cluster.put_end(&key, sequence)), expected.err());
            }
            Word::Revoke { attempt, no_write_in_flight } => {
                let sequence = self.sequence(attempt);
                let expected = self.model.revoke(now_ms, number, sequence, no_write_in_flight);
                let answer = self.cluster.put_revoke(&key, sequence, no_write_in_flight);
                assert_eq!(code(answer), expected.err());
            }
            Word::Get => {
                let located = cluster.get(&key).map(|located| located.sequence);
                let expected = model.read(now_ms, number, true);
                assert_eq!(located.map_err(|refusal| refusal.code), expected);
            }
            Word::Exist => {
                assert_eq!(cluster.exists(&key), model.read(now_ms, number, false).is_ok());
            }
            Word::Validate { attempt } => {
                let sequence = self.sequence(attempt);
                let same = self.model.read(now_ms, number, false) == Ok(sequence);
                assert_eq!(self.cluster.validate(&key, sequence).is_ok(), same);
            }
            Word::Remove { force } => {
                let expected = model.remove(now_ms, number, force);
                assert_eq!(code(cluster.remove(&key, force)), expected.err());
            }
            Word::RemoveAll { force } => self.remove_all(force),
            Word::Wait { ms } => {
                cluster.leap(ms);
                model.pass(cluster.now.as_ms());
            }
        }
    }

    fn compare(&self) {
        let totals = self.cluster.totals();
        assert_eq!(totals.objects, self.model.entries.len() as u64);
        assert_eq!(totals.held_bytes, self.model.holds_until_ms.len() as u64 * RANGE_BYTES);
        assert_eq!(totals.allocated_bytes, self.model.entries.len() as u64 * RANGE_BYTES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    // R3
    #[test]
    fn any_order_of_words_about_a_few_keys_has_the_outcome_of_a_naive_model(
        words in prop::collection::vec((0..3_u8, word()), 1..60),
    ) {
        let mut cluster = Cluster::new(2);
        cluster.mount(STORE, 1, GIB);
        let mut pair = Pair { cluster, model: Model::default(), sequences: Vec::new() };
        for (number, word) in words {
            pair.say(number, word);
            pair.compare();
        }
    }
}

const RANGE_BYTES: u64 = 64 * KIB;
const LEASE_MS: u64 = 10_000;
const DISCARD_MS: u64 = 30_000;
const RELEASE_MS: u64 = 600_000;
