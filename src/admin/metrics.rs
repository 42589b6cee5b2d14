//! The metrics page. Names that begin with `master_`, and three without a prefix, are those of the
//! existing master, so that its dashboards stay filled; the others are of this one.

pub(super) mod durations;
mod mooncake;
pub(super) mod network;
mod process;
mod segments;

use std::time::Duration;

use mooring_proto::ErrorCode;
use mooring_proto::message::Kind;

use super::exposition::{Exposition, Family};
use super::inspection::Inspection;
use super::{Admin, Serving, handoff};
use crate::frontend::Context;
use crate::frontend::counters::KindCounters;
use crate::frontend::instruments::{BATCHES, SINGLE};
use crate::frontend::quic::Listener;
use crate::frontend::stats::Snapshot;

/// The figures as of now. A process that does not serve yet has only figures of its own and of the
/// handoff. While an actor does not answer, what it would have to say is left out: a sum without one
/// of its parts would be wrong.
pub(super) async fn families(admin: &Admin) -> Vec<Family> {
    let mut page = Exposition::default();
    let pool = match admin.serving.get() {
        Some(serving) => of_serving(&mut page, serving).await.map(|snapshot| snapshot.pool),
        None => None,
    };
    if let Some(report) = &admin.progress().handoff {
        handoff::families(&mut page, report, pool.as_ref());
    }
    process::families(&mut page, admin);
    page.finish()
}

async fn of_serving(page: &mut Exposition, serving: &Serving) -> Option<Snapshot> {
    let Serving { context, listener, .. } = serving;
    let known = tokio::time::timeout(ANSWER_TIME, Inspection::take(context)).await;
    let known = known.ok().and_then(Result::ok);
    page.gauge(
        "mooring_actors_answer",
        "Whether all actors have answered for this page; families about what they hold are missing \
         otherwise.",
        u8::from(known.is_some()),
    );
    if let Some(Inspection { snapshot, segments }) = &known {
        known_totals(page, snapshot);
        key_counters(page, snapshot);
        pool(page, snapshot);
        shards(page, snapshot);
        segments::families(page, segments);
    }
    known_requests(page, context);
    known_batches(page, context);
    queues(page, context);
    clients(page, context);
    front_end(page, context, listener.as_deref());
    durations::families(page, context);
    if let Some(listener) = listener {
        network::families(page, listener);
    }
    mooncake::families(page, context);
    known.map(|known| known.snapshot)
}

fn known_totals(page: &mut Exposition, snapshot: &Snapshot) {
    let sum =
        |figure: fn(&mooring_actors::shard::message::ShardTotals) -> u64| snapshot.sum(figure);
    page.gauge("master_key_count", "Objects, readable or being written.", sum(|it| it.objects));
    page.gauge("master_active_clients", "Clients that ping.", snapshot.clients);
    page.gauge(
        "master_allocated_bytes",
        "Bytes in ranges of objects.",
        sum(|it| it.allocated_bytes),
    );
    page.gauge(
        "master_total_capacity_bytes",
        "Bytes of all mounted segments.",
        snapshot.pool.capacity_bytes,
    );
    page.counter(
        "master_evicted_key_count",
        "Objects removed by eviction.",
        sum(|it| it.evicted_objects),
    );
    page.counter(
        "master_evicted_size_bytes",
        "Bytes freed by eviction.",
        sum(|it| it.evicted_bytes),
    );
    page.counter(
        "master_put_start_alloc_failures_total",
        "Put starts refused for want of space.",
        sum(|it| it.put_refused),
    );
    page.counter(
        "master_put_start_partial_allocations_total",
        "Put starts that got fewer replicas than they asked for.",
        sum(|it| it.put_short),
    );
    page.counter(
        "master_put_start_discard_cnt",
        "Unfinished puts that another one took over or that timed out.",
        sum(|it| it.put_discarded),
    );
    page.counter("total_get_nums_", "Keys of gets.", sum(|it| it.gets));
    page.counter(
        "valid_get_nums_",
        "Keys of gets that found a readable object.",
        sum(|it| it.get_hits),
    );
    page.counter(
        "mem_cache_hit_nums_",
        "Keys of gets that found a readable object in memory.",
        sum(|it| it.get_hits),
    );
}

fn known_requests(page: &mut Exposition, context: &Context) {
    for instrument in &SINGLE {
        let (name, counts) = (instrument.name, instrument.counts(context));
        page.counter(
            &format!("master_{name}_requests_total"),
            "Requests of this kind to either front end; one over QUIC may carry many keys.",
            counts.requests,
        );
        page.counter(
            &format!("master_{name}_failures_total"),
            "Requests of this kind that were refused as a whole.",
            counts.failures,
        );
    }
}

fn key_counters(page: &mut Exposition, snapshot: &Snapshot) {
    page.counter(
        "mooring_put_starts_granted_total",
        "Keys of put starts that were granted.",
        snapshot.sum(|it| it.put_granted),
    );
    page.counter(
        "mooring_put_starts_short_total",
        "Keys of put starts that got fewer replicas than they asked for.",
        snapshot.sum(|it| it.put_short),
    );
    page.counter(
        "mooring_put_ends_total",
        "Puts that were completed.",
        snapshot.sum(|it| it.put_ends),
    );
    page.counter(
        "mooring_put_revokes_total",
        "Puts that were revoked.",
        snapshot.sum(|it| it.put_revokes),
    );
    page.counter(
        "mooring_removed_objects_total",
        "Objects removed by request.",
        snapshot.sum(|it| it.removed),
    );
    page.counter(
        "mooring_lost_objects_total",
        "Objects that went with their segment.",
        snapshot.sum(|it| it.lost_objects),
    );
}

fn known_batches(page: &mut Exposition, context: &Context) {
    for instrument in &BATCHES {
        let (name, counts) = (instrument.name, instrument.counts(context));
        let figures = [
            ("requests", "Batches of this kind; every request over QUIC is one.", counts.requests),
            ("failures", "Batches of which every item was refused.", counts.failures),
            ("partial_successes", "Batches refused in part.", counts.partial_successes),
            ("items", "Items of batches of this kind.", counts.items),
            (
                "failed_items",
                "Items of batches of this kind that were refused.",
                counts.failed_items,
            ),
        ];
        for (figure, help, value) in figures {
            page.counter(&format!("master_batch_{name}_{figure}_total"), help, value);
        }
    }
}

fn pool(page: &mut Exposition, snapshot: &Snapshot) {
    let pool = &snapshot.pool;
    page.gauge("mooring_segments", "Mounted segments.", pool.segments);
    page.gauge("mooring_holds", "Held ranges.", snapshot.sum(|it| it.holds));
    page.gauge("mooring_held_bytes", "Bytes in held ranges.", snapshot.sum(|it| it.held_bytes));
    page.gauge(
        "mooring_leased_bytes",
        "Bytes of leased objects.",
        snapshot.sum(|it| it.leased_bytes),
    );
    page.gauge(
        "mooring_pinned_bytes",
        "Bytes of hard-pinned objects.",
        snapshot.sum(|it| it.pinned_bytes),
    );
    page.gauge(
        "mooring_free_page_bytes",
        "Bytes of pages that belong to no shard.",
        pool.free_page_bytes,
    );
    page.gauge(
        "mooring_free_span_bytes",
        "Free bytes in spans of shards.",
        snapshot.sum(|it| it.free_bytes),
    );
    page.gauge(
        "mooring_eviction_debt_bytes",
        "Bytes that shards were ordered to evict and have not yet reported.",
        pool.eviction_debt_bytes,
    );
    page.counter(
        "mooring_windows_vacated_total",
        "Windows that were vacated for a large object.",
        pool.windows_vacated,
    );
}

fn shards(page: &mut Exposition, snapshot: &Snapshot) {
    let mut each = |name: &str, help: &str, figures: Vec<u64>| {
        page.gauges(name, help, "shard", figures.into_iter().enumerate());
    };
    let of = |figure: fn(&mooring_actors::shard::message::ShardTotals) -> u64| {
        snapshot.shards.iter().map(figure).collect::<Vec<_>>()
    };
    each("mooring_shard_objects", "Objects of the shard.", of(|it| it.objects));
    each("mooring_shard_unfinished_puts", "Unfinished puts of the shard.", of(|it| it.unfinished));
    each("mooring_shard_parked_puts", "Puts that wait for space.", of(|it| it.parked));
    each(
        "mooring_shard_allocated_bytes",
        "Bytes in ranges of objects.",
        of(|it| it.allocated_bytes),
    );
    each(
        "mooring_shard_memory_bytes",
        "Resident bytes of index, keys, objects and ranges.",
        of(|it| it.memory_bytes),
    );
}

/// What is known of shards without asking them.
fn queues(page: &mut Exposition, context: &Context) {
    let core = &context.core;
    page.gauges(
        "mooring_shard_queue",
        "Messages that wait at the shard.",
        "shard",
        core.queue_lengths().into_iter().enumerate(),
    );
    page.gauges(
        "mooring_shard_oldest_request_seconds",
        "For how long the oldest request waits at the shard; 0 if none does.",
        "shard",
        core.oldest_waiting_ms().into_iter().map(|ms| ms as f64 / 1e3).enumerate(),
    );
    page.counters(
        "mooring_shard_mailbox_refusals_total",
        "Requests that found the mailbox of the shard full.",
        "shard",
        core.mailbox_refusals().into_iter().enumerate(),
    );
}

fn clients(page: &mut Exposition, context: &Context) {
    let counts = context.core.client_counts();
    page.gauge("mooring_clients_suspected", "Clients that were asked again.", counts.suspected);
    page.counter(
        "mooring_clients_offline_total",
        "Clients that went offline.",
        counts.offline_total,
    );
    page.counter(
        "mooring_client_graces_total",
        "Times that most clients fell silent together and got a grace.",
        counts.graces_total,
    );
    page.counter("mooring_stalls_total", "Times that the master itself hung.", counts.stalls_total);
    page.counter(
        "mooring_stalled_ms_total",
        "For how long the master itself hung, in milliseconds.",
        counts.stalled_ms_total,
    );
}

fn front_end(page: &mut Exposition, context: &Context, listener: Option<&Listener>) {
    let counters = &context.counters;
    let mut by_kind = |name: &str, help: &str, figure: fn(&KindCounters) -> u64| {
        let samples =
            Kind::ALL.iter().map(|kind| (format!("{kind:?}"), figure(counters.kind(*kind))));
        page.counters(name, help, "kind", samples);
    };
    by_kind("mooring_requests_total", "Requests by kind.", |it| it.requests.value());
    by_kind("mooring_request_failures_total", "Requests refused as a whole.", |it| {
        it.failures.value()
    });
    by_kind("mooring_request_items_total", "Keys in requests.", |it| it.batch.items.value());
    let refusals = ErrorCode::ALL.iter().map(|code| (code.name(), counters.refusals(*code)));
    page.counters("mooring_refusals_total", "Requests refused as a whole.", "code", refusals);

    let connections = listener.map_or(0, Listener::connections);
    let kept_bytes = listener.map_or(0, Listener::kept_bytes);
    page.gauge("mooring_connections", "Connections that said hello.", connections);
    page.gauge(
        "mooring_address_connections",
        "Connections and handshakes of the address that has the most; the loopback is not counted.",
        listener.map_or(0, Listener::most_connections),
    );
    page.gauge("mooring_requests_in_flight", "Requests being answered.", context.stage.in_flight());
    page.gauge("mooring_kept_bytes", "Bytes of requests and replies under way.", kept_bytes);
    let totals = [
        ("connections", "Connections that said hello.", &counters.connections),
        (
            "connections_refused",
            "Attempts refused for want of room.",
            &counters.connections_refused,
        ),
        (
            "address_connections_refused",
            "Of them, for want of room for their address.",
            &counters.address_connections_refused,
        ),
        (
            "handshakes_retried",
            "Attempts that had to prove their address first.",
            &counters.handshakes_retried,
        ),
        ("handshakes_failed", "Handshakes that failed.", &counters.handshakes_failed),
        ("hellos_failed", "Connections without an acceptable hello.", &counters.hellos_failed),
        ("requests_cancelled", "Requests that their peer gave up.", &counters.cancelled),
        ("request_timeouts", "Requests that did not come in time.", &counters.read_timeouts),
        ("reply_timeouts", "Replies that were not taken in time.", &counters.write_timeouts),
        ("attentions", "Silent clients that were asked to ping.", &counters.attentions),
    ];
    for (name, help, counter) in totals {
        page.counter(&format!("mooring_{name}_total"), help, counter.value());
    }
}

/// Scrapers wait for several seconds, and want the other figures if an actor hangs.
const ANSWER_TIME: Duration = Duration::from_secs(2);
