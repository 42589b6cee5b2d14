//! `/status`: what the master is doing, as one JSON object for programs that show it, `mooring top`
//! first. STATUS.md tells its shape.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use mooring_actors::pool::message::SegmentDetail;
use mooring_actors::shard::message::ShardTotals;
use mooring_proto::message::inspect::ClientEntry;
use serde_json::{Value, json};

use super::inspection::Inspection;
use super::metrics::durations::{Operation, operations};
use super::metrics::network::days_left;
use super::{Admin, HandoffReport, Serving, query, stage};
use crate::command::ls::{client_state, segment_state};
use crate::frontend::Context;
use crate::frontend::stats::{cpu_seconds, resident_bytes};

/// The page. It never waits long: what an actor does not tell in time is named in `lacking`.
pub(super) async fn page(State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery) -> Response {
    let limit = match limit(query.as_deref()) {
        Ok(limit) => limit,
        Err(text) => return (StatusCode::BAD_REQUEST, text).into_response(),
    };
    let stage = stage(&admin);
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "state": stage.state,
        "reason": stage.reason,
        "uptime_s": admin.started.elapsed().as_secs_f64(),
        "resident_bytes": resident_bytes(),
        "cpu_s": cpu_seconds(),
        "handoff": admin.progress().handoff.as_ref().map(handoff),
        "lacking": [],
    });
    if let Some(serving) = admin.serving.get() {
        of_serving(&mut status, serving, limit).await;
    }
    Json(status).into_response()
}

/// How many segments and how many clients are listed.
fn limit(query: Option<&str>) -> Result<usize, String> {
    let Some(text) = query::text(query, "limit") else { return Ok(LIMIT_DEFAULT) };
    let limit = text.parse().ok().filter(|limit| *limit <= LIMIT_MAX);
    limit.ok_or_else(|| format!("limit: allowed is a number from 0 to {LIMIT_MAX}"))
}

async fn of_serving(status: &mut Value, serving: &Serving, limit: usize) {
    let Serving { context, listener, .. } = serving;
    let (core, mut lacking) = (&context.core, Vec::new());
    let (inspection, clients) = tokio::join!(
        tokio::time::timeout(ANSWER_TIME, Inspection::take(context)),
        tokio::time::timeout(ANSWER_TIME, core.list_clients()),
    );
    status["incarnation"] = json!(core.incarnation().to_string());
    status["requests_in_flight"] = json!(context.stage.in_flight());
    status["connections"] = json!({
        "quic": listener.as_ref().map(|listener| listener.connections()),
        "mooncake": context.mooncake.open.load(std::sync::atomic::Ordering::Relaxed),
    });
    let ends_s = listener.as_ref().and_then(|listener| listener.certificate_ends_s());
    status["certificate_days_left"] = json!(ends_s.map(days_left));
    status["operations"] = operations(context).iter().map(operation).collect();
    let totals = match inspection.ok().and_then(Result::ok) {
        Some(Inspection { snapshot, segments }) => {
            status["totals"] = totals(&snapshot.shards, &segments);
            list(status, "segments", &segments, limit, segment);
            Some(snapshot.shards)
        }
        None => {
            lacking.push("shards or pool");
            None
        }
    };
    status["shards"] = shards(context, totals.as_deref());
    match clients.ok().and_then(Result::ok) {
        Some(clients) => list(status, "clients", &clients, limit, client),
        None => lacking.push("clients"),
    }
    status["lacking"] = json!(lacking);
}

/// The first of them, and how many there are more.
fn list<T>(status: &mut Value, name: &str, rows: &[T], limit: usize, as_json: fn(&T) -> Value) {
    status[name] = rows.iter().take(limit).map(as_json).collect();
    status[format!("{name}_left_out")] = json!(rows.len().saturating_sub(limit));
}

fn totals(shards: &[ShardTotals], segments: &[SegmentDetail]) -> Value {
    let sum = |figure: fn(&ShardTotals) -> u64| shards.iter().map(figure).sum::<u64>();
    let all = |figure: fn(&SegmentDetail) -> u64| segments.iter().map(figure).sum::<u64>();
    let largest = segments.iter().map(|segment| segment.largest_free_run_bytes).max();
    json!({
        "objects": sum(|it| it.objects),
        "unfinished_puts": sum(|it| it.unfinished),
        "parked_puts": sum(|it| it.parked),
        "capacity_bytes": all(|it| it.usage.entry.segment.size_bytes),
        "allocated_bytes": sum(|it| it.allocated_bytes),
        "held_bytes": sum(|it| it.held_bytes),
        "holds": sum(|it| it.holds),
        "leased_bytes": sum(|it| it.leased_bytes),
        "pinned_bytes": sum(|it| it.pinned_bytes),
        "free_page_bytes": all(|it| it.free_page_bytes),
        "free_span_bytes": all(|it| it.free_span_bytes),
        "largest_free_run_bytes": largest.unwrap_or(0),
        "eviction_debt_bytes": all(|it| it.eviction_debt_bytes),
        "put_starts": sum(|it| it.put_starts),
        "put_ends": sum(|it| it.put_ends),
        "put_refused": sum(|it| it.put_refused),
        "gets": sum(|it| it.gets),
        "get_hits": sum(|it| it.get_hits),
        "exists": sum(|it| it.exists),
        "removed": sum(|it| it.removed),
        "evicted_objects": sum(|it| it.evicted_objects),
        "evicted_bytes": sum(|it| it.evicted_bytes),
        "lost_objects": sum(|it| it.lost_objects),
    })
}

fn operation(operation: &Operation) -> Value {
    let buckets: Vec<_> = operation.durations.buckets().collect();
    json!({
        "front_end": operation.front_end,
        "operation": operation.name,
        "requests": operation.requests,
        "failures": operation.failures,
        "items": operation.items,
        "durations_us": buckets,
    })
}

/// A shard that hangs still has a queue.
fn shards(context: &Context, totals: Option<&[ShardTotals]>) -> Value {
    let core = &context.core;
    let (oldest, refusals) = (core.oldest_waiting_ms(), core.mailbox_refusals());
    let rows = core.queue_lengths().into_iter().zip(oldest).zip(refusals).enumerate();
    let rows = rows.map(|(index, ((queue, oldest_ms), refused))| {
        let totals = totals.and_then(|totals| totals.get(index));
        json!({
            "queue": queue,
            "oldest_ms": oldest_ms,
            "mailbox_refusals": refused,
            "objects": totals.map(|it| it.objects),
            "allocated_bytes": totals.map(|it| it.allocated_bytes),
            "memory_bytes": totals.map(|it| it.memory_bytes),
            "unfinished_puts": totals.map(|it| it.unfinished),
            "parked_puts": totals.map(|it| it.parked),
        })
    });
    rows.collect()
}

fn segment(segment: &SegmentDetail) -> Value {
    let entry = &segment.usage.entry;
    json!({
        "slot": entry.slot,
        "segment": entry.segment.segment.to_string(),
        "client": entry.client.to_string(),
        "endpoint": entry.segment.endpoint,
        "name": entry.segment.transfer_engine.as_ref().map(|engine| &engine.name),
        "state": segment_state(segment.usage.state),
        "time_left_ms": segment.usage.time_left_ms,
        "size_bytes": entry.segment.size_bytes,
        "allocated_bytes": segment.usage.allocated_bytes,
        "held_bytes": segment.usage.held_bytes,
        "leased_bytes": segment.leased_bytes,
        "pinned_bytes": segment.pinned_bytes,
        "free_page_bytes": segment.free_page_bytes,
        "free_span_bytes": segment.free_span_bytes,
        "largest_free_run_bytes": segment.largest_free_run_bytes,
        "spans": segment.spans,
        "eviction_debt_bytes": segment.eviction_debt_bytes,
    })
}

fn client(client: &ClientEntry) -> Value {
    json!({
        "client": client.client.to_string(),
        "name": client.name,
        "state": client_state(client.state),
        "silent_ms": client.silent_ms,
        "segments": client.segments,
    })
}

fn handoff(report: &HandoffReport) -> Value {
    let left = report.last_shutdown.as_ref();
    let (laid, expected) = report.restore.progress.ranges();
    json!({
        "last_shutdown": left.map(|note| note.result.name()),
        "restore": Some(report.restore.result).filter(|result| !result.is_empty()),
        "ranges_laid": laid,
        "ranges_expected": expected,
        "restored_objects": report.restore.objects,
        "restore_s": report.restore.duration.as_secs_f64(),
        "snapshot_age_s": report.restore.snapshot_age.map(|age| age.as_secs_f64()),
    })
}

/// Those who ask may have as much patience as with `/metrics`.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// More than a person looks at. A row has some hundred bytes.
const LIMIT_DEFAULT: usize = 1_000;

/// A few megabytes.
const LIMIT_MAX: usize = 10_000;
