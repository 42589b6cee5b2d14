//! The whole in one line, for people.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::State;
use mooring_proto::message::Kind;

use super::super::Admin;
use super::problem::Problem;
use super::role::stage;
use super::serving;
use crate::frontend::Context;
use crate::frontend::stats::Snapshot;

/// What the line before has shown, from which rates are counted.
pub(in crate::admin) struct Window {
    last: Mutex<(Instant, [Counts; KINDS.len()])>,
}

/// Counters of one kind of request.
#[derive(Clone, Copy, Default)]
struct Counts {
    requests: u64,
    failures: u64,
    items: u64,
}

impl Window {
    /// One that begins now.
    pub(in crate::admin) fn new() -> Window {
        Window { last: Mutex::new((Instant::now(), Default::default())) }
    }

    /// What came since the last call, and in how many seconds.
    fn pass(&self, now: [Counts; KINDS.len()]) -> ([Counts; KINDS.len()], f64) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, before) = std::mem::replace(&mut *last, (Instant::now(), now));
        let mut passed = now;
        // Of two who ask at once, the later one may have counted earlier.
        for (passed, before) in passed.iter_mut().zip(before) {
            passed.requests = passed.requests.saturating_sub(before.requests);
            passed.failures = passed.failures.saturating_sub(before.failures);
            passed.items = passed.items.saturating_sub(before.items);
        }
        (passed, since.elapsed().as_secs_f64().max(SHORTEST_S))
    }
}

/// The line. Rates are those since it was asked for the last time.
pub(super) async fn page(State(admin): State<Arc<Admin>>) -> Result<String, Problem> {
    let at = stage(&admin);
    let mut line =
        format!("role={}, state={}, service_ready={}", at.role, at.ha_state, at.is_ready);
    let Ok(serving) = serving(&admin) else { return Ok(line) };
    let snapshot = Snapshot::take(&serving.context).await?;
    let (passed, seconds) = admin.window.pass(counts(&serving.context));
    let used = snapshot.sum(|shard| shard.allocated_bytes + shard.held_bytes);
    let _ = write!(
        line,
        ", master={{Mem Storage: {} | Keys: {} | Clients: {} | Requests (Success/Total per sec): ",
        share(used, snapshot.pool.capacity_bytes),
        snapshot.sum(|shard| shard.objects),
        snapshot.clients,
    );
    let rates = KINDS.iter().zip(&passed).map(|((name, _), passed)| {
        let succeeded = passed.requests.saturating_sub(passed.failures);
        let rate = |count: u64| count as f64 / seconds;
        format!("{name}={:.2}/{:.2}", rate(succeeded), rate(passed.requests))
    });
    line.push_str(&rates.collect::<Vec<_>>().join(", "));
    line.push_str(" | Items (per sec): ");
    let items = KINDS.iter().zip(&passed).filter(|((_, kind), _)| has_items(*kind));
    let items =
        items.map(|((name, _), passed)| format!("{name}={:.2}", passed.items as f64 / seconds));
    line.push_str(&items.collect::<Vec<_>>().join(", "));
    let _ = write!(
        line,
        " | Eviction: AllocFail={}, PartialAlloc={}, keys={}, size={} | Discard: Total={}}}",
        snapshot.sum(|shard| shard.put_refused),
        snapshot.sum(|shard| shard.put_short),
        snapshot.sum(|shard| shard.evicted_objects),
        bytes(snapshot.sum(|shard| shard.evicted_bytes)),
        snapshot.sum(|shard| shard.put_discarded),
    );
    Ok(line)
}

fn counts(context: &Context) -> [Counts; KINDS.len()] {
    KINDS.map(|(_, kind)| {
        let counters = context.counters.kind(kind);
        Counts {
            // First those that grow last: a rate never counts a failure without its request.
            failures: counters.failures.value(),
            requests: counters.requests.value(),
            items: counters.items.value(),
        }
    })
}

fn has_items(kind: Kind) -> bool {
    !matches!(kind, Kind::RemoveAll | Kind::Ping)
}

fn share(used: u64, capacity: u64) -> String {
    let text = format!("{} / {}", bytes(used), bytes(capacity));
    if capacity == 0 {
        return text;
    }
    format!("{text} ({:.1}%)", used as f64 / capacity as f64 * 100.0)
}

/// As that master writes sizes.
fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2} {}", UNITS[unit])
}

const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// As that master names the requests.
const KINDS: [(&str, Kind); 8] = [
    ("PutStart", Kind::PutStart),
    ("PutEnd", Kind::PutEnd),
    ("PutRevoke", Kind::PutRevoke),
    ("Get", Kind::Get),
    ("Exist", Kind::Exist),
    ("Del", Kind::Remove),
    ("DelAll", Kind::RemoveAll),
    ("Ping", Kind::Ping),
];

/// Two who ask at once must not see millions a second.
const SHORTEST_S: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_those_of_that_master() {
        assert_eq!(share(0, 0), "0 B / 0 B");
        assert_eq!(share(9000, 64 << 20), "8.79 KB / 64.00 MB (0.0%)");
        assert_eq!(share(1 << 40, 2 << 40), "1.00 TB / 2.00 TB (50.0%)");
    }

    #[test]
    fn rates_are_counted_from_the_line_before() {
        let window = Window::new();
        let counts = |requests| [Counts { requests, ..Counts::default() }; KINDS.len()];
        assert_eq!(window.pass(counts(5)).0[0].requests, 5);
        assert_eq!(window.pass(counts(7)).0[0].requests, 2);
    }
}
