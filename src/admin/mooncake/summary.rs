//! The whole in one line, for people.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::State;
use mooring_actors::core::CallError;

use super::super::Admin;
use super::problem::Problem;
use super::role::stage;
use crate::frontend::Context;
use crate::frontend::instruments::{BATCHES, Counts, Instrument, SINGLE};
use crate::frontend::stats::Snapshot;

/// What the line before has shown, from which rates are counted.
pub(in crate::admin) struct Window {
    last: Mutex<(Instant, Figures)>,
}

/// What has been asked since the start.
#[derive(Clone, Copy)]
struct Figures {
    single: [Counts; SINGLE.len()],
    batches: [Counts; BATCHES.len()],
}

impl Figures {
    const NONE: Figures =
        Figures { single: [Counts::NONE; SINGLE.len()], batches: [Counts::NONE; BATCHES.len()] };

    fn now(context: &Context) -> Figures {
        Figures {
            single: SINGLE.each_ref().map(|it| it.counts(context)),
            batches: BATCHES.each_ref().map(|it| it.counts(context)),
        }
    }
}

impl Window {
    /// One that begins now.
    pub(in crate::admin) fn new() -> Window {
        Window { last: Mutex::new((Instant::now(), Figures::NONE)) }
    }

    /// What came since the last call, and in how many seconds.
    fn pass(&self, now: Figures) -> (Figures, f64) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, before) = std::mem::replace(&mut *last, (Instant::now(), now));
        let passed = Figures {
            single: std::array::from_fn(|at| now.single[at].since(&before.single[at])),
            batches: std::array::from_fn(|at| now.batches[at].since(&before.batches[at])),
        };
        (passed, since.elapsed().as_secs_f64().max(SHORTEST_S))
    }
}

/// The line. Rates are those since it was asked for the last time.
pub(super) async fn page(State(admin): State<Arc<Admin>>) -> Result<String, Problem> {
    Ok(line(&admin, &admin.window).await?)
}

/// The line, with rates since it was asked for with this window.
///
/// # Errors
/// If an actor does not answer.
pub(in crate::admin) async fn line(admin: &Admin, window: &Window) -> Result<String, CallError> {
    let at = stage(admin);
    let mut line =
        format!("role={}, state={}, service_ready={}", at.role, at.ha_state, at.is_ready);
    let Some(serving) = admin.serving.get() else { return Ok(line) };
    let snapshot = Snapshot::take(&serving.context).await?;
    let (passed, seconds) = window.pass(Figures::now(&serving.context));
    let used = snapshot.sum(|shard| shard.allocated_bytes + shard.held_bytes);
    let _ = write!(
        line,
        ", master={{Mem Storage: {} | Keys: {} | Clients: {} | Requests (Success/Total per sec): ",
        share(used, snapshot.pool.capacity_bytes),
        snapshot.sum(|shard| shard.objects),
        snapshot.clients,
    );
    line.push_str(&rates_of(&passed, seconds));
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

/// Requests and batches, each as so many a second.
fn rates_of(passed: &Figures, seconds: f64) -> String {
    let rate = |count: u64| count as f64 / seconds;
    let named = |instruments: &'static [Instrument]| {
        instruments.iter().enumerate().filter_map(|(at, it)| Some((at, it.label?)))
    };
    let single = named(&SINGLE).map(|(at, name)| {
        let counts = &passed.single[at];
        let succeeded = counts.requests.saturating_sub(counts.failures);
        format!("{name}={:.2}/{:.2}", rate(succeeded), rate(counts.requests))
    });
    let batches = named(&BATCHES).map(|(at, name)| {
        let counts = &passed.batches[at];
        format!(
            "{name}:(Req={:.2}/{:.2}/{:.2}, Item={:.2}/{:.2})",
            rate(counts.successes()),
            rate(counts.partial_successes),
            rate(counts.requests),
            rate(counts.good_items()),
            rate(counts.items)
        )
    });
    let (single, batches): (Vec<_>, Vec<_>) = (single.collect(), batches.collect());
    format!(
        "{} | Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): {}",
        single.join(", "),
        batches.join(", ")
    )
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
        let figures = |requests| {
            let counts = Counts { requests, items: 3 * requests, failed_items: 1, ..Counts::NONE };
            Figures { single: [counts; SINGLE.len()], batches: [counts; BATCHES.len()] }
        };
        assert_eq!(window.pass(figures(5)).0.single[0].requests, 5);
        let (passed, _) = window.pass(figures(7));
        let text = rates_of(&passed, 2.0);
        assert!(text.starts_with("PutStart=1.00/1.00, PutEnd=1.00/1.00, "), "{text}");
        let batch = "Item=Success/Total): PutStart:(Req=1.00/0.00/1.00, Item=3.00/3.00), PutEnd:(";
        assert!(text.contains(batch), "{text}");
    }
}
