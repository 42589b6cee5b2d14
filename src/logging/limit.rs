//! A bound on lines that say the same over and over: a fault that a thousand peers meet must not fill
//! the disk, nor hide the line that matters.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of each kind in the current interval.
#[derive(Debug)]
pub(super) struct Limit<K> {
    lines_max: u32,
    interval: Duration,
    kinds: HashMap<K, Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl<K: Eq + Hash + Clone> Limit<K> {
    /// At most so many lines of a kind in each interval.
    pub(super) fn new(lines_max: u32, interval: Duration) -> Limit<K> {
        Limit { lines_max, interval, kinds: HashMap::new() }
    }

    /// Whether a line of this kind is written now. `now` never runs backwards.
    pub(super) fn admit(&mut self, kind: K, now: Instant) -> bool {
        let window = self.kinds.entry(kind).or_insert(Window { began: now, lines: 0, left_out: 0 });
        if now.duration_since(window.began) >= self.interval {
            window.began = now;
            window.lines = 0;
        }
        if window.lines < self.lines_max {
            window.lines += 1;
            return true;
        }
        window.left_out += 1;
        false
    }

    /// The kinds of which lines were left out since the last call, and how many.
    pub(super) fn take_left_out(&mut self) -> Vec<(K, u64)> {
        let left_out = self.kinds.iter_mut().filter(|(_, window)| window.left_out > 0);
        left_out
            .map(|(kind, window)| (kind.clone(), std::mem::take(&mut window.left_out)))
            .collect()
    }
}

/// The limit as a filter of the log. A kind is a place in the source. What only somebody sees who has
/// asked for it, DEBUG and TRACE, is not limited.
pub(super) struct Limiter {
    limit: Mutex<Limit<Identifier>>,
    /// What a place is called, for those of which something was left out.
    names: Mutex<HashMap<Identifier, &'static Metadata<'static>>>,
}

impl Limiter {
    pub(super) fn new() -> Limiter {
        let limit = Mutex::new(Limit::new(LINES_MAX, INTERVAL));
        Limiter { limit, names: Mutex::default() }
    }

    /// Writes how many lines were left out since the last time. Not to be called from within a log
    /// line.
    pub(super) fn tell_left_out(&self) {
        let left_out = locked(&self.limit).take_left_out();
        for (kind, lines) in left_out {
            let place = locked(&self.names).get(&kind).copied();
            let place = place.map_or("unknown".to_owned(), |metadata| {
                format!("{}:{}", metadata.file().unwrap_or("?"), metadata.line().unwrap_or(0))
            });
            tracing::warn!(
                lines,
                place,
                interval_s = INTERVAL.as_secs(),
                "left out lines like others"
            );
        }
    }

    fn admits(&self, metadata: &'static Metadata<'static>) -> bool {
        if *metadata.level() > Level::INFO {
            return true;
        }
        let kind = metadata.callsite();
        let admitted = locked(&self.limit).admit(kind.clone(), Instant::now());
        if !admitted {
            locked(&self.names).entry(kind).or_insert(metadata);
        }
        admitted
    }
}

/// The limiter of the process as a part of the log. It stands before all that writes lines. A filter
/// of one writer alone would not do: refused events leave the state of such filters behind.
pub(super) struct Shared(pub(super) &'static Limiter);

impl<S: Subscriber> Layer<S> for Shared {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.admits(event.metadata())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one step, so that a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines of one kind in an interval. More of them tell nothing that these do not.
const LINES_MAX: u32 = 50;

/// After this time a kind may be written again, and what was left out is told.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_written_so_often_and_others_are_not_touched() {
        let mut limit = Limit::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let written: Vec<bool> = (0..4).map(|_| limit.admit("a", start)).collect();
        assert_eq!(written, [true, true, false, false]);
        assert!(limit.admit("b", start));
        assert_eq!(limit.take_left_out(), [("a", 2)]);
        assert_eq!(limit.take_left_out(), []);
    }

    #[test]
    fn after_the_interval_it_is_written_again() {
        let mut limit = Limit::new(1, Duration::from_secs(10));
        let start = Instant::now();
        assert!(limit.admit("a", start));
        assert!(!limit.admit("a", start + Duration::from_millis(9_999)));
        assert!(limit.admit("a", start + Duration::from_secs(10)));
        assert!(!limit.admit("a", start + Duration::from_secs(11)));
        assert_eq!(limit.take_left_out(), [("a", 2)], "what was left out is told in any case");
    }
}
