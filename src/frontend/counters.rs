//! What has happened at the front ends since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use mooring_proto::ErrorCode;
use mooring_proto::message::Kind;

use super::histogram::Histogram;

/// One number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number now.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The requests of one kind.
#[derive(Default)]
pub(crate) struct KindCounters {
    /// Requests.
    pub(crate) requests: Counter,
    /// Of them, refused as a whole.
    pub(crate) failures: Counter,
    /// Their keys.
    pub(crate) batch: BatchCounters,
    /// How long they took, from the whole request to its answer.
    pub(crate) durations: Histogram,
}

/// The items of batches.
#[derive(Default)]
pub(crate) struct BatchCounters {
    /// Items of all batches.
    pub(crate) items: Counter,
    /// Of them, refused.
    pub(crate) failed_items: Counter,
    /// Batches of which all items were refused.
    pub(crate) failures: Counter,
    /// Batches of which some were.
    pub(crate) partial_successes: Counter,
}

impl BatchCounters {
    /// A batch of so many items that was refused as a whole, which is counted elsewhere.
    pub(crate) fn refused(&self, items: usize) {
        self.items.add(items as u64);
        self.failed_items.add(items as u64);
    }

    /// The answers to a batch of so many items, of which so many are refusals.
    pub(crate) fn answered(&self, items: usize, failed: usize) {
        self.items.add(items as u64);
        self.failed_items.add(failed as u64);
        if failed > 0 && failed == items {
            self.failures.increment();
        } else if failed > 0 {
            self.partial_successes.increment();
        }
    }
}

/// All counters of the front ends.
pub(crate) struct Counters {
    kinds: [KindCounters; KINDS],
    refusals: [Counter; CODES],
    /// Connections that said hello.
    pub(crate) connections: Counter,
    /// Connection attempts refused for want of room.
    pub(crate) connections_refused: Counter,
    /// Of them, because their address had as many connections as one may have.
    pub(crate) address_connections_refused: Counter,
    /// Attempts that had to prove their address first.
    pub(crate) handshakes_retried: Counter,
    /// Handshakes that failed: a wrong protocol, no or a wrong certificate, a peer that vanished.
    pub(crate) handshakes_failed: Counter,
    /// Connections closed before they said an acceptable hello.
    pub(crate) hellos_failed: Counter,
    /// Requests that the peer gave up before they were answered.
    pub(crate) cancelled: Counter,
    /// Requests that did not come in time.
    pub(crate) read_timeouts: Counter,
    /// Replies that were not taken in time.
    pub(crate) write_timeouts: Counter,
    /// Calls for attention sent to silent clients.
    pub(crate) attentions: Counter,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            kinds: std::array::from_fn(|_| KindCounters::default()),
            refusals: std::array::from_fn(|_| Counter::default()),
            connections: Counter::default(),
            connections_refused: Counter::default(),
            address_connections_refused: Counter::default(),
            handshakes_retried: Counter::default(),
            handshakes_failed: Counter::default(),
            hellos_failed: Counter::default(),
            cancelled: Counter::default(),
            read_timeouts: Counter::default(),
            write_timeouts: Counter::default(),
            attentions: Counter::default(),
        }
    }
}

impl Counters {
    /// The counters of one kind.
    pub(crate) fn kind(&self, kind: Kind) -> &KindCounters {
        &self.kinds[kind as usize % KINDS]
    }

    /// A request that was refused as a whole, for this reason.
    pub(crate) fn refused(&self, code: ErrorCode) {
        self.refusals[code as usize % CODES].increment();
    }

    /// How many requests were refused as a whole for this reason.
    pub(crate) fn refusals(&self, code: ErrorCode) -> u64 {
        self.refusals[code as usize % CODES].value()
    }
}

/// Above the number of every kind.
const KINDS: usize = 128;

/// Above the number of every error code.
const CODES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_fails_wholly_or_in_part() {
        let counters = BatchCounters::default();
        for (items, failed) in [(3, 0), (3, 1), (3, 3), (0, 0)] {
            counters.answered(items, failed);
        }
        counters.refused(2);
        let BatchCounters { items, failed_items, failures, partial_successes } = &counters;
        let values = [items, failed_items, failures, partial_successes];
        assert_eq!(values.map(Counter::value), [11, 6, 1, 1]);
    }

    #[test]
    fn every_kind_and_code_has_a_counter_of_its_own() {
        assert!(Kind::ALL.iter().all(|kind| (*kind as usize) < KINDS));
        assert!(ErrorCode::ALL.iter().all(|code| (*code as usize) < CODES));
    }
}
