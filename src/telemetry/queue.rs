//! What waits to be sent: bounded, and what finds no place is counted and gone. Nobody ever waits here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;

use super::span::Span;
use super::trail::Record;

/// Something that becomes one or several spans. Whoever has made it does no more work than that.
pub(super) enum Item {
    /// A request that was answered.
    Request(Box<Record>),
    /// A span of the process.
    Span(Box<Span>),
    /// A span of the client in this process.
    Client(Box<SpanData>),
}

impl Item {
    /// It becomes no more spans than these.
    pub(super) fn spans_max(&self) -> usize {
        match self {
            Item::Request(record) => record.spans_max(),
            Item::Span(_) | Item::Client(_) => 1,
        }
    }
}

/// What became of all items, and whether it is of use to wait for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    /// The collector has not taken the last message.
    is_gone: AtomicBool,
    /// Since when an answer is waited for, in milliseconds since the process started, and one; zero if
    /// none is.
    waiting_since_ms: AtomicU64,
}

impl Outcomes {
    /// Nothing yet.
    pub(super) const fn new() -> Outcomes {
        Outcomes {
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            waiting_since_ms: AtomicU64::new(0),
        }
    }

    /// Spans that the collector has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Traced requests and spans that found the queue full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Spans that the collector did not take.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether the collector has let the sender wait for longer than one that is near does.
    pub(super) fn is_slow(&self, now_ms: u64) -> bool {
        match self.waiting_since_ms.load(Ordering::Relaxed) {
            0 => false,
            since_ms => now_ms.saturating_sub(since_ms - 1) > SLOW_MS,
        }
    }

    /// A message goes at this time, or with `None` its answer is not waited for any more.
    pub(super) fn note_waiting(&self, since_ms: Option<u64>) {
        self.waiting_since_ms.store(since_ms.map_or(0, |ms| ms + 1), Ordering::Relaxed);
    }

    pub(super) fn note_sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Ordering::Relaxed);
    }

    pub(super) fn note_failed(&self, spans: u64) {
        self.failed.fetch_add(spans, Ordering::Relaxed);
    }

    pub(super) fn note_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Relaxed);
    }

    fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// The end at which things are put in.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    items: mpsc::Sender<Item>,
    outcomes: &'static Outcomes,
}

impl Queue {
    /// A queue, and its other end.
    pub(super) fn new(outcomes: &'static Outcomes) -> (Queue, mpsc::Receiver<Item>) {
        let (items, taken) = mpsc::channel(ITEMS_MAX);
        (Queue { items, outcomes }, taken)
    }

    /// Puts it in, or drops it.
    pub(super) fn push(&self, item: Item) {
        if self.items.try_send(item).is_err() {
            self.outcomes.note_dropped();
        }
    }
}

/// A second of a busy master of which each hundredth request is traced, some megabytes.
pub(super) const ITEMS_MAX: usize = 8192;

/// A collector that is near answers within a few milliseconds.
const SLOW_MS: u64 = 20;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::telemetry::sampler::new_trace;

    fn item() -> Item {
        let now = Instant::now();
        Item::Span(Box::new(Span::new(new_trace(), None, "test", now, now)))
    }

    #[test]
    fn a_collector_is_slow_while_it_lets_the_sender_wait() {
        let outcomes = Outcomes::new();
        assert!(!outcomes.is_slow(5_000));
        outcomes.note_waiting(Some(0));
        assert!(!outcomes.is_slow(SLOW_MS) && outcomes.is_slow(SLOW_MS + 1));
        outcomes.note_waiting(None);
        assert!(!outcomes.is_slow(5_000));
    }

    #[test]
    fn what_finds_no_place_is_counted_and_gone() {
        static OUTCOMES: Outcomes = Outcomes::new();
        let (queue, mut taken) = Queue::new(&OUTCOMES);
        for _ in 0..ITEMS_MAX + 3 {
            queue.push(item());
        }
        assert_eq!(OUTCOMES.dropped(), 3);
        taken.try_recv().unwrap();
        queue.push(item());
        assert_eq!(OUTCOMES.dropped(), 3);
        drop(taken);
        queue.push(item());
        assert_eq!(OUTCOMES.dropped(), 4, "nobody sends any more");
    }
}
