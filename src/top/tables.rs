//! The tables: what their columns are, and their rows as of one answer.

use ratatui::style::{Color, Style};

use super::rates::Rates;
use super::status::{Segment, Status, ratio};
use super::table::{Cell, Column, Row, number, text};
use super::text::{age, bar, bytes, count, latency, percent};

/// A table of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Operations,
    Shards,
    Segments,
    Clients,
}

impl Kind {
    /// All of them, in the order of the screen.
    pub(super) const ALL: [Kind; 4] =
        [Kind::Operations, Kind::Shards, Kind::Segments, Kind::Clients];

    /// Its columns; the first one is the name.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Kind::Operations => &OPERATIONS,
            Kind::Shards => &SHARDS,
            Kind::Segments => &SEGMENTS,
            Kind::Clients => &CLIENTS,
        }
    }

    /// By which column it is sorted until somebody chooses another one, and whether the largest is
    /// first.
    pub(super) fn sorted_by_default(self) -> (usize, bool) {
        match self {
            Kind::Operations => (1, true),
            Kind::Shards => (0, false),
            Kind::Segments => (3, true),
            Kind::Clients => (2, true),
        }
    }

    /// What it has as of this answer.
    pub(super) fn rows(self, status: &Status, rates: Option<&Rates>) -> Vec<Row> {
        match self {
            Kind::Operations => operations(status, rates),
            Kind::Shards => shards(status),
            Kind::Segments => segments(status),
            Kind::Clients => clients(status),
        }
    }

    /// What to say if it has no rows.
    pub(super) fn nothing(self) -> &'static str {
        match self {
            Kind::Operations => "no requests yet",
            Kind::Shards => "no shards",
            Kind::Segments => "no segments: no store has mounted memory",
            Kind::Clients => "no clients",
        }
    }
}

const OPERATIONS: [Column; 7] = [
    text("OPERATION", 0),
    number("REQ/s", 0),
    number("KEYS/s", 1),
    number("p50", 0),
    number("p99", 0),
    number("FAIL/s", 2),
    number("TOTAL", 3),
];

const SHARDS: [Column; 8] = [
    text("SHARD", 0),
    number("QUEUE", 0),
    number("OLDEST", 0),
    number("KEYS", 0),
    number("OBJECTS", 2),
    number("INDEX", 3),
    number("PARKED", 4),
    number("REFUSED", 5),
];

const SEGMENTS: [Column; 9] = [
    text("SEGMENT", 0),
    text("STATE", 2),
    text("USE", 3),
    number("USED", 0),
    number("SIZE", 1),
    number("LEASED", 4),
    number("HELD", 6),
    number("FREE RUN", 5),
    number("SPANS", 7),
];

const CLIENTS: [Column; 5] = [
    text("CLIENT", 0),
    text("STATE", 1),
    number("LAST PING", 0),
    number("SEGMENTS", 0),
    text("ID", 2),
];

fn operations(status: &Status, rates: Option<&Rates>) -> Vec<Row> {
    let rows = status.operations.iter().enumerate().map(|(index, operation)| {
        let rates = rates.and_then(|rates| rates.operations.get(index));
        let rate = |figure: fn(&super::rates::OperationRates) -> Option<f64>,
                    shown: fn(f64) -> String| {
            Cell::maybe(rates.and_then(figure), shown)
        };
        let failures = rate(|it| Some(it.failures), count);
        let failing = rates.is_some_and(|it| it.failures > 0.0);
        let id = format!("{} {}", operation.front_end, operation.operation);
        let cells = vec![
            Cell::text(id.clone()),
            rate(|it| Some(it.requests), count),
            rate(|it| Some(it.items), count),
            rate(|it| it.p50_us, latency),
            rate(|it| it.p99_us, latency),
            if failing { failures.styled(WARNING) } else { failures },
            Cell::number(count(operation.requests as f64), operation.requests as f64),
        ];
        Row { id, cells }
    });
    rows.collect()
}

fn shards(status: &Status) -> Vec<Row> {
    let rows = status.shards.iter().enumerate().map(|(index, shard)| {
        let known = |figure: Option<u64>| figure.map(|figure| figure as f64);
        let oldest = match shard.oldest_ms {
            0 => Cell::number("0", 0.0),
            ms => Cell::number(latency(ms as f64 * 1e3), ms as f64),
        };
        let cells = vec![
            Cell { shown: index.to_string(), ..Cell::number("", index as f64) },
            Cell::number(count(shard.queue as f64), shard.queue as f64),
            if shard.oldest_ms >= LATE_MS { oldest.styled(ALARM) } else { oldest },
            Cell::maybe(known(shard.objects), count),
            Cell::maybe(known(shard.allocated_bytes), |it| bytes(it as u64)),
            Cell::maybe(known(shard.memory_bytes), |it| bytes(it as u64)),
            Cell::maybe(known(shard.parked_puts), count),
            Cell::number(count(shard.mailbox_refusals as f64), shard.mailbox_refusals as f64),
        ];
        Row { id: index.to_string(), cells }
    });
    rows.collect()
}

fn segments(status: &Status) -> Vec<Row> {
    let rows = status.segments.iter().map(|segment| {
        let size = |figure: u64| Cell::number(bytes(figure), figure as f64);
        let used = segment.used_ratio();
        let style = fullness(used);
        let held = ratio(segment.held_bytes, segment.size_bytes);
        let objects = ratio(segment.allocated_bytes, segment.size_bytes);
        let state = Cell::text(segment.state.clone());
        let cells = vec![
            Cell::text(name_of(status, segment)),
            if segment.state == "open" { state } else { state.styled(WARNING) },
            Cell {
                order: super::table::Order::Number(used),
                ..Cell::text(bar(objects, held, BAR))
            }
            .styled(style),
            Cell::number(percent(used), used).styled(style),
            size(segment.size_bytes),
            size(segment.leased_bytes),
            size(segment.held_bytes),
            size(segment.largest_free_run_bytes),
            Cell::number(count(segment.spans as f64), segment.spans as f64),
        ];
        Row { id: segment.segment.clone(), cells }
    });
    rows.collect()
}

/// What people know a segment by, its own name or that of its store: the slot tells those of one store
/// from each other.
pub(super) fn name_of(status: &Status, segment: &Segment) -> String {
    let owner = status.clients.iter().find(|client| client.client == segment.client);
    let names = [segment.name.as_ref(), owner.map(|owner| &owner.name), Some(&segment.endpoint)];
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    format!("{} {}", segment.slot, name.map_or("", String::as_str))
}

fn clients(status: &Status) -> Vec<Row> {
    let rows = status.clients.iter().map(|client| {
        let silent_s = client.silent_ms as f64 / 1e3;
        let state = Cell::text(client.state.clone());
        let name = if client.name.is_empty() { "(no name)" } else { &client.name };
        let cells = vec![
            Cell::text(name),
            if client.state == "active" { state } else { state.styled(WARNING) },
            Cell::number(age(silent_s), silent_s),
            Cell::number(client.segments.to_string(), client.segments as f64),
            Cell::text(client.client.clone()),
        ];
        Row { id: client.client.clone(), cells }
    });
    rows.collect()
}

/// How worrying it is that this part of something is in use.
pub(super) fn fullness(used: f64) -> Style {
    match used {
        used if used >= FULL => ALARM,
        used if used >= FILLING => WARNING,
        _ => CALM,
    }
}

/// What nobody has to look at.
pub(super) const CALM: Style = Style::new().fg(Color::Green);

/// What is worth a look.
pub(super) const WARNING: Style = Style::new().fg(Color::Yellow);

/// What is wrong.
pub(super) const ALARM: Style = Style::new().fg(Color::Red);

/// Above the watermark at which eviction begins by default.
const FULL: f64 = 0.95;

const FILLING: f64 = 0.80;

/// A request that waits for so long at a shard is not served any more in a usual way.
const LATE_MS: u64 = 100;

/// Columns of the bar of a segment.
const BAR: usize = 16;
