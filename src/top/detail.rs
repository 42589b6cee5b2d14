//! Everything about one segment or one client.

use ratatui::text::{Line, Span};

use super::status::{Status, ratio};
use super::tables::{fullness, name_of};
use super::text::{age, bar, bytes, count, fit, percent};

/// A segment by its id.
pub(super) fn segment(status: &Status, id: &str) -> Vec<Line<'static>> {
    let Some(segment) = status.segments.iter().find(|segment| segment.segment == id) else {
        return gone("segment", id);
    };
    let owner = status.clients.iter().find(|client| client.client == segment.client);
    let part = |figure: u64| {
        format!("{:<8} {}", bytes(figure), percent(ratio(figure, segment.size_bytes)))
    };
    let left = segment.time_left_ms.map(|ms| format!(", {} left", age(ms as f64 / 1e3)));
    let used = segment.used_ratio();
    let held = ratio(segment.held_bytes, segment.size_bytes);
    let bar = bar(ratio(segment.allocated_bytes, segment.size_bytes), held, 60);
    let mut lines =
        vec![Line::default(), heading("segment", &name_of(status, segment)), Line::default()];
    lines.push(Line::from(vec![Span::raw("  "), Span::styled(bar, fullness(used))]));
    lines.extend(pairs(&[
        ("id", segment.segment.clone()),
        ("state", format!("{}{}", segment.state, left.unwrap_or_default())),
        ("endpoint", segment.endpoint.clone()),
        ("owner", format!("{} {}", segment.client, owner.map_or("", |owner| &owner.name))),
        ("size", bytes(segment.size_bytes)),
        (
            "used",
            format!("{:<8} {}", bytes(segment.allocated_bytes + segment.held_bytes), percent(used)),
        ),
        ("objects", part(segment.allocated_bytes)),
        ("leased", part(segment.leased_bytes)),
        ("pinned", part(segment.pinned_bytes)),
        ("held", part(segment.held_bytes)),
        ("free pages", part(segment.free_page_bytes)),
        ("free in spans", part(segment.free_span_bytes)),
        ("largest run", part(segment.largest_free_run_bytes)),
        ("spans", count(segment.spans as f64)),
        ("to evict", bytes(segment.eviction_debt_bytes)),
    ]));
    lines
}

/// A client by its id, with its segments.
pub(super) fn client(status: &Status, id: &str) -> Vec<Line<'static>> {
    let Some(client) = status.clients.iter().find(|client| client.client == id) else {
        return gone("client", id);
    };
    let mut lines = vec![Line::default(), heading("client", &client.name), Line::default()];
    lines.extend(pairs(&[
        ("id", client.client.clone()),
        ("state", client.state.clone()),
        ("last ping", format!("{} ago", age(client.silent_ms as f64 / 1e3))),
        ("segments", client.segments.to_string()),
    ]));
    lines.push(Line::default());
    let own = status.segments.iter().filter(|segment| segment.client == client.client);
    lines.extend(own.map(|segment| {
        let used = segment.used_ratio();
        let held = ratio(segment.held_bytes, segment.size_bytes);
        let bar = bar(ratio(segment.allocated_bytes, segment.size_bytes), held, 24);
        let text = format!(
            " {:>6} of {:<6} {:<12} {}",
            percent(used),
            bytes(segment.size_bytes),
            fit(&segment.state, 12),
            fit(&name_of(status, segment), 64)
        );
        Line::from(vec![Span::raw("  "), Span::styled(bar, fullness(used)), Span::raw(text)])
    }));
    lines
}

fn heading(what: &str, name: &str) -> Line<'static> {
    Line::raw(format!("  {what} {}", fit(name, 200)))
}

fn gone(what: &str, id: &str) -> Vec<Line<'static>> {
    vec![Line::default(), Line::raw(format!("  the {what} {} is not there any more", fit(id, 64)))]
}

fn pairs(pairs: &[(&str, String)]) -> Vec<Line<'static>> {
    let line =
        |(name, value): &(&str, String)| Line::raw(format!("  {name:<14} {}", fit(value, 200)));
    pairs.iter().map(line).collect()
}
