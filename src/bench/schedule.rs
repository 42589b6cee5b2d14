//! When requests are due.
//!
//! A closed loop sends the next request when the former one is answered. An open loop sends at a
//! given rate whatever the master does, and a latency counts from the moment that the request was
//! due: a master that stalls is charged for all who would have asked meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// From when to when requests are sent, and which of them count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// When the first requests are sent.
    pub(super) begin: Instant,
    /// From here on they count.
    pub(super) counted: Instant,
    /// From here on none is sent.
    pub(super) end: Instant,
}

impl Window {
    /// Whether something at this moment counts.
    pub(super) fn counts(&self, moment: Instant) -> bool {
        (self.counted..self.end).contains(&moment)
    }
}

/// The moments at which the requests of an open loop are due; shared by all who send them.
#[derive(Debug)]
pub(super) struct Schedule {
    interval_ns: f64,
    next: AtomicU64,
}

impl Schedule {
    /// So many keys each second, in batches of so many.
    pub(super) fn new(keys_per_s: f64, batch: u32) -> Schedule {
        let interval_ns = 1e9 * f64::from(batch) / keys_per_s;
        Schedule { interval_ns, next: AtomicU64::new(0) }
    }

    /// When the next request is due. Each moment is given once.
    pub(super) fn take(&self, begin: Instant) -> Instant {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        begin + Duration::from_nanos((ticket as f64 * self.interval_ns) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_the_rate_of_their_keys() {
        let begin = Instant::now();
        let schedule = Schedule::new(64_000.0, 128);
        let due: Vec<Duration> = (0..501).map(|_| schedule.take(begin) - begin).collect();
        assert_eq!(due[0], Duration::ZERO);
        assert_eq!(due[1], Duration::from_millis(2));
        assert_eq!(due[500], Duration::from_secs(1));
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_batches_does_not_drift() {
        let begin = Instant::now();
        let schedule = Schedule::new(9_300.0, 64);
        let requests = 9_300 * 100 / 64;
        for _ in 0..requests {
            schedule.take(begin);
        }
        let after = (schedule.take(begin) - begin).as_secs_f64();
        assert!((after - requests as f64 * 64.0 / 9_300.0).abs() < 1e-6, "{after}");
    }

    #[test]
    fn what_comes_before_or_behind_the_window_does_not_count() {
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        let window = Window { begin, counted: begin + second, end: begin + 2 * second };
        assert!(!window.counts(begin));
        assert!(window.counts(begin + second));
        assert!(!window.counts(begin + 2 * second));
    }
}
