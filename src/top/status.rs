//! What a master tells of itself on its page `/status`. What an older master does not tell yet is
//! zero or missing, and what a newer one tells beyond is passed over.

use serde::Deserialize;

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) uptime_s: f64,
    pub(super) resident_bytes: u64,
    pub(super) cpu_s: f64,
    pub(super) handoff: Option<Handoff>,
    pub(super) lacking: Vec<String>,
    pub(super) requests_in_flight: u64,
    pub(super) connections: Connections,
    pub(super) certificate_days_left: Option<f64>,
    pub(super) operations: Vec<Operation>,
    /// Missing before the master serves, and while a shard does not answer.
    pub(super) totals: Option<Totals>,
    pub(super) shards: Vec<Shard>,
    pub(super) segments: Vec<Segment>,
    pub(super) segments_left_out: u64,
    pub(super) clients: Vec<Client>,
    pub(super) clients_left_out: u64,
}

/// How the index came to this master, or why not.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Handoff {
    pub(super) last_shutdown: Option<String>,
    pub(super) restore: Option<String>,
    pub(super) ranges_laid: u64,
    pub(super) ranges_expected: u64,
    pub(super) restored_objects: u64,
    pub(super) restore_s: f64,
}

/// Open connections.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Connections {
    pub(super) quic: Option<u64>,
    pub(super) mooncake: u64,
}

/// What was asked for, at one front end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Operation {
    pub(super) front_end: String,
    pub(super) operation: String,
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) items: u64,
    /// The upper bound of a bucket, and how many are in it.
    pub(super) durations_us: Vec<(f64, u64)>,
}

/// Sums over shards and segments. The counters are of keys.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    pub(super) objects: u64,
    pub(super) unfinished_puts: u64,
    pub(super) parked_puts: u64,
    pub(super) capacity_bytes: u64,
    pub(super) allocated_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) holds: u64,
    pub(super) leased_bytes: u64,
    pub(super) largest_free_run_bytes: u64,
    pub(super) eviction_debt_bytes: u64,
    pub(super) put_ends: u64,
    pub(super) put_refused: u64,
    pub(super) gets: u64,
    pub(super) get_hits: u64,
    pub(super) exists: u64,
    pub(super) removed: u64,
    pub(super) evicted_objects: u64,
    pub(super) evicted_bytes: u64,
}

/// A shard. What only itself knows is missing while it does not answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Shard {
    pub(super) queue: u64,
    pub(super) oldest_ms: u64,
    pub(super) mailbox_refusals: u64,
    pub(super) objects: Option<u64>,
    pub(super) allocated_bytes: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) parked_puts: Option<u64>,
}

/// A mounted segment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Segment {
    pub(super) slot: u64,
    pub(super) segment: String,
    pub(super) client: String,
    pub(super) endpoint: String,
    pub(super) name: Option<String>,
    pub(super) state: String,
    pub(super) time_left_ms: Option<u64>,
    pub(super) size_bytes: u64,
    pub(super) allocated_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) leased_bytes: u64,
    pub(super) pinned_bytes: u64,
    pub(super) free_page_bytes: u64,
    pub(super) free_span_bytes: u64,
    pub(super) largest_free_run_bytes: u64,
    pub(super) spans: u64,
    pub(super) eviction_debt_bytes: u64,
}

/// A client that pings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Client {
    pub(super) client: String,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) silent_ms: u64,
    pub(super) segments: u64,
}

impl Segment {
    /// What is in use of it, from 0 to 1.
    pub(super) fn used_ratio(&self) -> f64 {
        ratio(self.allocated_bytes + self.held_bytes, self.size_bytes)
    }
}

/// A part of a whole; of nothing it is nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
