//! What a replay measured.

mod restarts;

use std::time::Duration;

use hdrhistogram::Histogram;
use mooring_proto::message::inspect::StatsReply;
use serde::Serialize;

pub(crate) use self::restarts::RestartFigures;
use crate::command::table::pairs;
use crate::command::units::human_bytes;

/// Counts of a replay, while it runs.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Between restarts; the first one from the start, the last one until the end.
    pub(crate) epochs: Vec<Epoch>,
    /// Blocks that were put.
    pub(crate) puts: u64,
    /// Blocks that could not be put.
    pub(crate) put_refused: u64,
    pub(crate) bytes_written: u64,
    pub(crate) bytes_read: u64,
    pub(crate) wrong_bytes: u64,
    put_us: Histogram<u64>,
    get_us: Histogram<u64>,
}

/// Counts of the requests that one master answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) requests: u64,
    pub(crate) block_refs: u64,
    /// References that were read from the pool.
    pub(crate) hits: u64,
}

impl Counts {
    /// All zero.
    pub(crate) fn new() -> Counts {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS)
                .expect("the bounds are valid")
        };
        Counts {
            epochs: vec![Epoch::default()],
            puts: 0,
            put_refused: 0,
            bytes_written: 0,
            bytes_read: 0,
            wrong_bytes: 0,
            put_us: histogram(),
            get_us: histogram(),
        }
    }

    /// A request of so many references with so many hits was answered after so many restarts. Says
    /// whether it is the first one since the latest of them.
    pub(crate) fn request(&mut self, block_refs: u64, hits: u64, restarts: u64) -> bool {
        let restarts = usize::try_from(restarts).unwrap_or(usize::MAX);
        let begins = restarts >= self.epochs.len();
        if begins {
            // A master without any request still has an epoch.
            self.epochs.resize(restarts + 1, Epoch::default());
        }
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.requests += 1;
            epoch.block_refs += block_refs;
            epoch.hits += hits;
        }
        begins
    }

    fn total(&self, figure: impl Fn(&Epoch) -> u64) -> u64 {
        self.epochs.iter().map(figure).sum()
    }

    /// How long it took to put the missing blocks of a request.
    pub(crate) fn put_took(&mut self, took: Duration) {
        self.put_us.saturating_record(microseconds(took));
    }

    /// How long it took to find and read the present blocks of a request.
    pub(crate) fn get_took(&mut self, took: Duration) {
        self.get_us.saturating_record(microseconds(took));
    }
}

/// The result; the names are an interface for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    requests: u64,
    block_refs: u64,
    hits: u64,
    hit_rate: f64,
    lru_hit_rate: f64,
    puts: u64,
    put_refused: u64,
    evicted_objects: u64,
    evicted_bytes: u64,
    bytes_written: u64,
    bytes_read: u64,
    wrong_bytes: u64,
    put_us: Latency,
    get_us: Latency,
    elapsed_s: f64,
    /// Only if the master was restarted.
    #[serde(flatten)]
    restarts: Option<RestartFigures>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    max: u64,
}

impl Figures {
    /// Puts together what the replay counted, what the master says at its end, what exact LRU would
    /// have found, and what came of restarts.
    pub(crate) fn new(
        counts: &Counts,
        stats: &StatsReply,
        lru_hits: u64,
        elapsed: Duration,
        restarts: Option<RestartFigures>,
    ) -> Figures {
        let block_refs = counts.total(|epoch| epoch.block_refs);
        let hits = counts.total(|epoch| epoch.hits);
        let rate = |hits: u64| hits as f64 / block_refs.max(1) as f64;
        let wrong_beside = restarts.as_ref().map_or(0, RestartFigures::wrong_bytes);
        Figures {
            requests: counts.total(|epoch| epoch.requests),
            block_refs,
            hits,
            hit_rate: rate(hits),
            lru_hit_rate: rate(lru_hits),
            puts: counts.puts,
            // What the master refused and the client then got on another attempt counts too.
            put_refused: counts.put_refused.max(stats.put_refused),
            evicted_objects: stats.evicted_objects,
            evicted_bytes: stats.evicted_bytes,
            bytes_written: counts.bytes_written,
            bytes_read: counts.bytes_read,
            wrong_bytes: counts.wrong_bytes + wrong_beside,
            put_us: Latency::of(&counts.put_us),
            get_us: Latency::of(&counts.get_us),
            elapsed_s: elapsed.as_secs_f64(),
            restarts,
        }
    }

    /// Whether every byte that was read was the right one.
    pub(crate) fn are_right(&self) -> bool {
        self.wrong_bytes == 0
    }

    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let moved_bytes = self.bytes_written + self.bytes_read;
        let rate = moved_bytes as f64 / self.elapsed_s.max(f64::MIN_POSITIVE);
        let hits = format!(
            "{:.2} % of {} block references (exact LRU finds {:.2} %)",
            self.hit_rate * 1e2,
            self.block_refs,
            self.lru_hit_rate * 1e2
        );
        let mut rows = vec![
            ("requests", self.requests.to_string()),
            ("hit rate", hits),
            ("blocks put", format!("{}, {} refused", self.puts, self.put_refused)),
            (
                "bytes moved",
                format!(
                    "{} written, {} read, {}/s",
                    human_bytes(self.bytes_written),
                    human_bytes(self.bytes_read),
                    human_bytes(rate as u64)
                ),
            ),
            ("put of a request", self.put_us.text()),
            ("get of a request", self.get_us.text()),
            (
                "evicted",
                format!("{} objects, {}", self.evicted_objects, human_bytes(self.evicted_bytes)),
            ),
            ("elapsed", format!("{:.1} s", self.elapsed_s)),
        ];
        rows.extend(self.restarts.iter().flat_map(RestartFigures::rows));
        rows.push(("wrong bytes", self.wrong_bytes.to_string()));
        pairs(&rows)
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        Latency {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }

    fn text(&self) -> String {
        let ms = |us: u64| us as f64 / 1e3;
        format!(
            "p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            ms(self.p50),
            ms(self.p99),
            ms(self.max)
        )
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Ten minutes; nothing is waited for as long.
const LATENCY_US_MAX: u64 = 600_000_000;

/// A thousandth is finer than anybody reads a percentile.
const SIGNIFICANT_DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_scripts_rely_on_are_there() {
        let mut counts = Counts::new();
        counts.request(4, 1, 0);
        counts.put_took(Duration::from_millis(5));
        let stats = StatsReply { put_refused: 2, ..StatsReply::default() };
        let figures = Figures::new(&counts, &stats, 2, Duration::from_secs(3), None);
        let told = serde_json::to_value(&figures).unwrap();
        assert!(told.get("restarts").is_none());
        let names = [
            "requests",
            "block_refs",
            "hits",
            "puts",
            "put_refused",
            "evicted_objects",
            "evicted_bytes",
            "bytes_written",
            "bytes_read",
            "wrong_bytes",
            "elapsed_s",
        ];
        for name in names {
            assert!(told[name].is_number(), "{name}");
        }
        assert_eq!(told["hit_rate"], 0.25);
        assert_eq!(told["lru_hit_rate"], 0.5);
        assert_eq!(told["put_refused"], 2);
        assert!(told["put_us"]["p50"].as_u64().unwrap().abs_diff(5_000) < 10);
        assert_eq!(told["get_us"]["max"], 0);
    }

    #[test]
    fn a_wrong_byte_spoils_the_result() {
        let mut counts = Counts::new();
        let figures = |counts: &Counts| {
            Figures::new(counts, &StatsReply::default(), 0, Duration::from_secs(1), None)
        };
        assert!(figures(&counts).are_right());
        counts.wrong_bytes = 1;
        assert!(!figures(&counts).are_right());
    }

    #[test]
    fn a_request_counts_for_the_master_that_answered_it() {
        let mut counts = Counts::new();
        let begins = [0, 0, 1, 3, 3].map(|restarts| counts.request(2, 1, restarts));
        assert_eq!(begins, [false, false, true, true, false]);
        let requests: Vec<_> = counts.epochs.iter().map(|epoch| epoch.requests).collect();
        assert_eq!(requests, [2, 1, 0, 2]);
        assert_eq!(counts.total(|epoch| epoch.hits), 5);
    }
}
