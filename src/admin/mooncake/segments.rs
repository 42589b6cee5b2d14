//! The mounted segments, by their names. Several may share one; then they are one to these pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_proto::message::inspect::{SegmentState, SegmentUse};
use mooring_proto::message::segment::Segment;
use serde::Serialize;

use super::super::{Admin, Serving, query};
use super::problem::Problem;
use super::serving;
use crate::command::table::printable;
use crate::frontend::bulk::wrong_answer;

/// The name by which people know a segment.
pub(super) fn name_of(segment: &Segment) -> &str {
    segment.transfer_engine.as_ref().map_or(&segment.endpoint, |engine| &engine.name)
}

/// The transport that reaches it.
pub(super) fn protocol_of(segment: &Segment) -> &str {
    segment.transfer_engine.as_ref().map_or("quic", |engine| &engine.protocol)
}

/// All mounted segments.
pub(super) async fn uses(serving: &Serving) -> Result<Vec<SegmentUse>, Problem> {
    match serving.context.core.pool(PoolRequest::Uses).await? {
        PoolReply::Uses(uses) => Ok(uses),
        _ => Err(wrong_answer().into()),
    }
}

/// One name a line, with control characters as escapes, of those on which objects are placed. Engines wait until there is one.
pub(super) async fn names(State(admin): State<Arc<Admin>>) -> Result<String, Problem> {
    let uses = uses(serving(&admin)?).await?;
    let open = uses.iter().filter(|used| used.state == SegmentState::Open);
    let names: BTreeSet<_> = open.map(|used| name_of(&used.entry.segment)).collect();
    Ok(names.into_iter().map(|name| printable(name) + "\n").collect())
}

/// Use and size of one.
pub(super) async fn one(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let name = query::text(query.as_deref(), "segment").unwrap_or_default();
    let uses = uses(serving(&admin)?).await?;
    let mut named = uses.iter().filter(|used| name_of(&used.entry.segment) == name).peekable();
    if named.peek().is_none() {
        let failed = (StatusCode::INTERNAL_SERVER_ERROR, "Failed to query segment");
        return Ok(failed.into_response());
    }
    let (used, capacity) = named.fold((0, 0), |(used, capacity), it| {
        (used + used_bytes(it), capacity + it.entry.segment.size_bytes)
    });
    let name = printable(&name);
    Ok(format!("{name}\nUsed(bytes): {used}\nCapacity(bytes) : {capacity}\n").into_response())
}

#[derive(Serialize)]
struct Details {
    total_segments: usize,
    segments: Vec<Detail>,
}

#[derive(Serialize)]
struct Detail {
    segment_name: String,
    segment_id: String,
    client_id: String,
    base_address: String,
    size_bytes: u64,
    size_human: String,
    te_endpoint: String,
    protocol: String,
    status: &'static str,
    allocator_used_bytes: u64,
    allocator_capacity_bytes: u64,
    allocator_usage_percent: f64,
}

/// Everything about all of them.
pub(super) async fn all(State(admin): State<Arc<Admin>>) -> Result<Response, Problem> {
    let segments: Vec<_> = uses(serving(&admin)?).await?.iter().map(detail).collect();
    Ok(Json(Details { total_segments: segments.len(), segments }).into_response())
}

fn detail(used: &SegmentUse) -> Detail {
    let segment = &used.entry.segment;
    let percent = used_bytes(used) as f64 / segment.size_bytes as f64 * 100.0;
    Detail {
        segment_name: name_of(segment).to_owned(),
        segment_id: pair(segment.segment.0),
        client_id: pair(used.entry.client.0),
        base_address: format!("{:#x}", segment.base),
        size_bytes: segment.size_bytes,
        size_human: format!("{} GiB", six_digits(segment.size_bytes as f64 / GIB)),
        te_endpoint: segment.endpoint.clone(),
        protocol: protocol_of(segment).to_owned(),
        status: status_of(used.state).1,
        allocator_used_bytes: used_bytes(used),
        allocator_capacity_bytes: segment.size_bytes,
        allocator_usage_percent: percent,
    }
}

#[derive(Serialize)]
struct Status<'a> {
    success: bool,
    segment: &'a str,
    status: i32,
    status_name: &'static str,
    error_code: i32,
    error_message: &'static str,
}

/// The state of one; of several with its name, that of the one that was mounted last.
pub(super) async fn status(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let name = query::text(query.as_deref(), "segment").filter(|name| !name.is_empty());
    let name = name.ok_or(Problem::invalid("Missing segment query parameter"))?;
    let uses = uses(serving(&admin)?).await?;
    let named = uses.iter().filter(|used| name_of(&used.entry.segment) == name);
    let used = named.max_by_key(|used| used.entry.slot).ok_or(Problem::no_segment())?;
    let (status, status_name) = status_of(used.state);
    let status = Status {
        success: true,
        segment: &name,
        status,
        status_name,
        error_code: 0,
        error_message: "",
    };
    Ok(Json(status).into_response())
}

/// Held bytes are used, too: nobody can have them.
fn used_bytes(used: &SegmentUse) -> u64 {
    used.allocated_bytes + used.held_bytes
}

fn status_of(state: SegmentState) -> (i32, &'static str) {
    match state {
        // Neither placed on yet nor about to go: that master has no name for it.
        SegmentState::Quarantined | SegmentState::Pending => (0, "UNDEFINED"),
        SegmentState::Open => (1, "OK"),
        SegmentState::Draining => (4, "GRACEFULLY_UNMOUNTING"),
        SegmentState::Leaving => (5, "UNMOUNTING"),
    }
}

/// An id as the pair of numbers that it is there.
fn pair(id: u128) -> String {
    format!("{}-{}", id >> 64, id as u64)
}

/// As C++ prints a number without being told how.
fn six_digits(number: f64) -> String {
    let whole = if number >= 1.0 { number.log10().floor() as usize + 1 } else { 0 };
    let text = format!("{number:.*}", 6_usize.saturating_sub(whole));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_those_of_that_master() {
        assert_eq!(six_digits(0.0625), "0.0625");
        assert_eq!(six_digits(64.0), "64");
        assert_eq!(six_digits(675.5), "675.5");
        assert_eq!(pair((7 << 64) | 9), "7-9");
    }
}
