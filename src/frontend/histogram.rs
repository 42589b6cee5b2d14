//! How long requests take: a histogram that many threads add to without waiting for each other.
//!
//! Buckets are an eighth of a power of two wide, so that a figure read from them is at most an eighth
//! too high. Each power of two of a microsecond is a bound.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Durations from nothing to minutes. Takes memory once something is recorded.
#[derive(Default)]
pub(crate) struct Histogram {
    stripes: [OnceLock<Box<Cells>>; STRIPES],
}

struct Cells {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Adds one.
    pub(crate) fn record(&self, duration: Duration) {
        let cells = self.stripes[stripe()].get_or_init(Cells::new);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        cells.counts[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        cells.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What was recorded until now.
    pub(crate) fn read(&self) -> Durations {
        let mut durations = Durations::default();
        for cells in self.stripes.iter().filter_map(OnceLock::get) {
            durations.sum_ns = durations.sum_ns.wrapping_add(cells.sum_ns.load(Ordering::Relaxed));
            for (sum, count) in durations.counts.iter_mut().zip(&cells.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        durations
    }
}

impl Cells {
    fn new() -> Box<Cells> {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Box::new(Cells { counts, sum_ns: AtomicU64::new(0) })
    }
}

/// What a histogram has recorded.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { counts: [0; BUCKETS], sum_ns: 0 }
    }
}

impl Durations {
    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// How many took no longer than a power of two of microseconds.
    pub(crate) fn within_us(&self, power: u32) -> u64 {
        let last = bucket(STEP_NS << (power + STEPS_OF_1_US_LOG2)) - 1;
        self.counts[..=last].iter().sum()
    }

    /// The buckets in which there is something: the upper bound in microseconds, and how many.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (upper_ns(bucket) as f64 / 1e3, *count))
    }
}

/// Which bucket a duration belongs to.
fn bucket(ns: u64) -> usize {
    let steps = ns / STEP_NS;
    let Some(power) = steps.checked_ilog2().filter(|power| *power >= PARTS_LOG2) else {
        return steps as usize;
    };
    let part = (steps >> (power - PARTS_LOG2)) as usize & (PARTS - 1);
    let octave = (power - PARTS_LOG2 + 1) as usize;
    (octave * PARTS + part).min(BUCKETS - 1)
}

/// The end of a bucket. What is above all buckets is in the last one.
fn upper_ns(bucket: usize) -> u64 {
    let (octave, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    let steps = match octave {
        0 => part + 1,
        _ => (PARTS as u64 + part + 1) << (octave - 1),
    };
    steps * STEP_NS
}

/// The stripe of this thread.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
}

/// The finest difference, so that a microsecond is eight of them.
const STEP_NS: u64 = 125;

const STEPS_OF_1_US_LOG2: u32 = 3;

/// Buckets of each power of two.
const PARTS: usize = 1 << PARTS_LOG2;

const PARTS_LOG2: u32 = 3;

/// Up to 134 seconds, which no request takes.
const BUCKETS: usize = 28 * PARTS;

/// Threads that record at once without sharing a line of memory; more share one.
const STRIPES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_below_the_end_of_its_bucket_and_by_an_eighth_at_most() {
        let mut ns = 0;
        while ns < 100_000_000_000 {
            let upper = upper_ns(bucket(ns));
            assert!(ns < upper, "{ns}");
            assert!(upper - ns <= STEP_NS.max(ns / 8 + 1), "{ns} and {upper}");
            ns += ns / 100 + 1;
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket_ in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper_ns(bucket_)), bucket_ + 1);
            assert_eq!(bucket(upper_ns(bucket_) - 1), bucket_);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_is_within_a_power_of_two_is_counted_exactly() {
        let histogram = Histogram::default();
        for us in 1..=1_000 {
            histogram.record(Duration::from_micros(us) - Duration::from_nanos(1));
        }
        let durations = histogram.read();
        for (power, count) in [(0, 1), (3, 8), (9, 512), (10, 1_000)] {
            assert_eq!(durations.within_us(power), count, "2^{power} us");
        }
        assert_eq!(durations.count(), 1_000);
        let sum = Duration::from_micros(500_500) - Duration::from_nanos(1_000);
        assert_eq!(durations.sum(), sum);
    }

    #[test]
    fn what_many_threads_record_is_all_there() {
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let histogram = &histogram;
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        histogram.record(Duration::from_millis(thread));
                    }
                });
            }
        });
        let durations = histogram.read();
        assert_eq!(durations.count(), 8_000);
        assert_eq!(durations.buckets().map(|(_, count)| count).collect::<Vec<_>>(), [1_000; 8]);
    }

    #[test]
    fn an_unused_histogram_reads_as_empty() {
        let durations = Histogram::default().read();
        assert_eq!((durations.count(), durations.buckets().count()), (0, 0));
    }
}
