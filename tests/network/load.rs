//! What clients do while the network fails them, and what must hold of every answer.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, ClientError, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, timeout};

use super::plan::Plan;

/// What all clients together know of the objects.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Objects that one client puts once and nobody removes.
    kept: BTreeMap<String, Kept>,
    /// Values of each key that several clients put and remove.
    shared: BTreeMap<String, Vec<Bytes>>,
    digest: DefaultHasher,
    /// How many calls ended in which way.
    pub(crate) tally: BTreeMap<String, u64>,
}

/// An object that nobody removes.
#[derive(Clone)]
struct Kept {
    value: Bytes,
    /// Its put was answered with success.
    answered: bool,
}

/// The ledger as clients hold it.
pub(crate) type Book = Arc<Mutex<Ledger>>;

/// A client at work.
pub(crate) struct Worker {
    client: Client,
    number: u8,
    book: Book,
    random: StdRng,
    began: Instant,
    puts: u32,
    /// By then every call has ended, whatever happens.
    patience: Duration,
}

impl Worker {
    pub(crate) fn new(
        client: Client,
        number: u8,
        plan: &Plan,
        book: Book,
        began: Instant,
    ) -> Worker {
        let random = StdRng::seed_from_u64(plan.seed << 8 | u64::from(number));
        // A put is up to four rounds of a start, its writes, an end and a revoke.
        let patience = plan.request_timeout * 16;
        Worker { client, number, book, random, began, puts: 0, patience }
    }

    /// Works for so long, and on until the last call has ended.
    ///
    /// # Errors
    /// An answer that must not be, or one that does not come.
    pub(crate) async fn work(&mut self, until: Instant) -> Result<(), String> {
        while Instant::now() < until {
            match self.random.random_range(0..100) {
                0..30 => self.put_kept(1).await?,
                30..35 => self.put_kept(8).await?,
                35..55 => self.put_shared().await?,
                55..65 => self.remove_shared().await?,
                65..90 => self.fetch().await?,
                _ => self.exist().await?,
            }
            let pause_ms = self.random.random_range(0..100);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(())
    }

    /// Puts until one succeeds, and reads it; gives how long that took.
    ///
    /// # Errors
    /// An answer that must not be.
    pub(crate) async fn recover(&mut self) -> Result<Duration, String> {
        let began = Instant::now();
        while began.elapsed() < RECOVERED_WITHIN {
            let key = self.next_key();
            let value = self.value(1_000);
            self.book().attempt_kept(&key, &value);
            let put = self.whole(self.client.put(&key, value.clone(), &options())).await?;
            self.note("recover", &key, &put)?;
            // The client waits for its next attempt itself.
            if put.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            self.book().answered(&key);
            let took = began.elapsed();
            self.fetch_keys(vec![key]).await?;
            return Ok(took);
        }
        Err(format!("liveness: client {} puts nothing {RECOVERED_WITHIN:?} later", self.number))
    }

    /// Reads everything that was ever put.
    ///
    /// # Errors
    /// An object that is missing or another one.
    pub(crate) async fn read_all(&mut self) -> Result<(), String> {
        let keys = self.book().keys();
        for part in keys.chunks(64) {
            self.fetch_keys(part.to_vec()).await?;
        }
        Ok(())
    }

    /// What the worker worked with.
    pub(crate) fn into_client(self) -> Client {
        self.client
    }

    async fn put_kept(&mut self, count: usize) -> Result<(), String> {
        let objects: Vec<(String, Bytes)> = (0..count)
            .map(|_| {
                let bytes = self.size();
                (self.next_key(), self.value(if count > 1 { bytes.min(2_000) } else { bytes }))
            })
            .collect();
        for (key, value) in &objects {
            self.book().attempt_kept(key, value);
        }
        let put = self.client.clone();
        let Some(answers) = self.perhaps(put.put_many(&objects, &options())).await? else {
            self.count("put given up");
            return Ok(());
        };
        if answers.len() != objects.len() {
            return Err(format!("answered: {} answers to {} puts", answers.len(), objects.len()));
        }
        for ((key, _), answer) in objects.iter().zip(&answers) {
            self.note("put", key, answer)?;
            if answer.is_ok() {
                self.book().answered(key);
            }
        }
        Ok(())
    }

    async fn put_shared(&mut self) -> Result<(), String> {
        let key = self.shared_key();
        let size = self.size();
        let value = self.value(size);
        self.book().shared.entry(key.clone()).or_default().push(value.clone());
        let put = self.client.clone();
        match self.perhaps(put.put(&key, value, &options())).await? {
            None => self.count("put given up"),
            Some(answer) => self.note("put", &key, &answer)?,
        }
        Ok(())
    }

    async fn remove_shared(&mut self) -> Result<(), String> {
        let key = self.shared_key();
        let force = self.random.random_bool(0.5);
        let answers = self.whole(self.client.remove(&[&key], force)).await?;
        let answer = answers
            .and_then(|mut answers| answers.pop().unwrap_or(Ok(())).map_err(ClientError::Item));
        self.note("remove", &key, &answer)
    }

    async fn fetch(&mut self) -> Result<(), String> {
        let known = self.book().keys();
        let count = self.random.random_range(1..=4);
        let keys = (0..count)
            .filter_map(|_| known.get(self.random.random_range(0..known.len().max(1))).cloned())
            .collect();
        self.fetch_keys(keys).await
    }

    async fn fetch_keys(&mut self, keys: Vec<String>) -> Result<(), String> {
        let before: Vec<bool> = keys.iter().map(|key| self.book().is_answered(key)).collect();
        let answers = self.whole(self.client.fetch_many(&keys)).await?;
        if answers.len() != keys.len() {
            return Err(format!("answered: {} answers to {} keys", answers.len(), keys.len()));
        }
        for ((key, answer), must_be) in keys.iter().zip(&answers).zip(before) {
            self.note("fetch", key, answer)?;
            match answer {
                Ok(Some(bytes)) => self.book().check(key, bytes)?,
                Ok(None) if must_be => {
                    return Err(format!("readable: {key} was put and is missing"));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }

    async fn exist(&mut self) -> Result<(), String> {
        let keys = self.book().keys();
        let keys = &keys[keys.len().saturating_sub(32)..];
        let before: Vec<bool> = keys.iter().map(|key| self.book().is_answered(key)).collect();
        let lease = self.random.random_bool(0.5);
        let answer = self.whole(self.client.exist(keys, lease)).await?;
        self.note("exist", "", &answer)?;
        for ((key, must_be), is_there) in keys.iter().zip(before).zip(answer.unwrap_or_default()) {
            if must_be && !is_there {
                return Err(format!("readable: {key} was put and does not exist"));
            }
        }
        Ok(())
    }

    /// A call to its end.
    async fn whole<T>(&self, call: impl Future<Output = T>) -> Result<T, String> {
        let ended = timeout(self.patience, call).await;
        ended.map_err(|_| format!("answered: a call has no end after {:?}", self.patience))
    }

    /// A call to its end, or for a while if its caller does not wait.
    async fn perhaps<T>(&mut self, call: impl Future<Output = T>) -> Result<Option<T>, String> {
        if self.random.random_bool(0.1) {
            let waits = Duration::from_millis(self.random.random_range(0..200));
            return Ok(timeout(waits, call).await.ok());
        }
        self.whole(call).await.map(Some)
    }

    /// Takes an answer down. Only what a network can do to a call may have become of it.
    fn note<T>(
        &self,
        what: &str,
        key: &str,
        answer: &Result<T, ClientError>,
    ) -> Result<(), String> {
        let outcome = match answer {
            Ok(_) => "ok".to_owned(),
            Err(error) => {
                describe(error).ok_or_else(|| format!("answered: {what} of {key}: {error}"))?
            }
        };
        let since = self.began.elapsed();
        let mut book = self.book();
        (since, self.number, what, key, &outcome).hash(&mut book.digest);
        *book.tally.entry(format!("{what} {outcome}")).or_default() += 1;
        Ok(())
    }

    fn count(&self, what: &str) {
        *self.book().tally.entry(what.to_owned()).or_default() += 1;
    }

    fn book(&self) -> MutexGuard<'_, Ledger> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_key(&mut self) -> String {
        self.puts += 1;
        format!("kept/{}/{}", self.number, self.puts)
    }

    fn shared_key(&mut self) -> String {
        format!("shared/{}", self.random.random_range(0..SHARED_KEYS))
    }

    fn size(&mut self) -> usize {
        match self.random.random_range(0..20) {
            0 => self.random.random_range(1..=300_000),
            1..5 => self.random.random_range(1..=20_000),
            _ => self.random.random_range(1..=1_000),
        }
    }

    /// Bytes that no other put writes.
    fn value(&mut self, bytes: usize) -> Bytes {
        let mut value = vec![0; bytes];
        self.random.fill(&mut value[..]);
        value.into()
    }
}

impl Ledger {
    /// Of every answer so far, when it came and what it was.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// An object that was put with success.
    pub(crate) fn any_answered(&self) -> Option<String> {
        self.kept.iter().find(|(_, kept)| kept.answered).map(|(key, _)| key.clone())
    }

    /// Takes an object for another one.
    pub(crate) fn spoil(&mut self, key: &str) {
        if let Some(kept) = self.kept.get_mut(key) {
            kept.value = Bytes::from_static(b"another one");
        }
    }

    fn attempt_kept(&mut self, key: &str, value: &Bytes) {
        self.kept.insert(key.to_owned(), Kept { value: value.clone(), answered: false });
    }

    fn answered(&mut self, key: &str) {
        if let Some(kept) = self.kept.get_mut(key) {
            kept.answered = true;
        }
    }

    fn is_answered(&self, key: &str) -> bool {
        self.kept.get(key).is_some_and(|kept| kept.answered)
    }

    /// Every key that a put was tried of.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.kept.keys().chain(self.shared.keys()).cloned().collect()
    }

    /// The length of what may lie under a key.
    pub(crate) fn lengths(&self, key: &str) -> Vec<usize> {
        let kept = self.kept.get(key).map(|kept| &kept.value);
        let shared = self.shared.get(key).into_iter().flatten();
        kept.into_iter().chain(shared).map(Bytes::len).collect()
    }

    fn check(&self, key: &str, bytes: &Bytes) -> Result<(), String> {
        let kept = self.kept.get(key).is_some_and(|kept| kept.value == *bytes);
        let shared = self.shared.get(key).is_some_and(|values| values.contains(bytes));
        if kept || shared {
            return Ok(());
        }
        Err(format!("readable: {key} has {} bytes that nobody put there", bytes.len()))
    }
}

fn options() -> PutOptions {
    PutOptions::default()
}

/// An error in a word, if a network or another client can be the cause of it.
fn describe(error: &ClientError) -> Option<String> {
    match error {
        ClientError::Timeout { .. } => Some("timeout".to_owned()),
        ClientError::Closed { code: None, .. } => Some("closed".to_owned()),
        ClientError::Connect { .. } => Some("unreachable".to_owned()),
        ClientError::LeaseExpired => Some("lease expired".to_owned()),
        ClientError::NoReplica { last } => describe(last).map(|last| format!("no replica, {last}")),
        ClientError::Refused(error) => may_be(error.code),
        ClientError::Item(refusal) => may_be(refusal.code),
        _ => None,
    }
}

fn may_be(code: ErrorCode) -> Option<String> {
    let expected = matches!(
        code,
        ErrorCode::AlreadyExists
            | ErrorCode::DeadlineExceeded
            | ErrorCode::Leased
            | ErrorCode::NotFound
            | ErrorCode::NotReadable
            | ErrorCode::PutInProgress
            | ErrorCode::StaleToken
    );
    expected.then(|| code.name().to_owned())
}

/// Few, so that clients meet.
const SHARED_KEYS: u32 = 6;

/// A connection that has died is noticed in 4 s, and then dialed with pauses of up to 2 s.
const RECOVERED_WITHIN: Duration = Duration::from_secs(15);
