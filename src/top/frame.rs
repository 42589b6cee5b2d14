//! The lines of a frame, for any size of a terminal.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::rates::{KeyRates, Rates};
use super::status::{Status, Totals, ratio};
use super::table::{Row, lines};
use super::tables::{ALARM, CALM, Kind, WARNING, fullness};
use super::text::{age, bar, bytes, count, fit, percent, width};
use super::view::{Screen, View};
use super::{detail, help};

/// The size of a frame, in columns and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    /// `None` shows all rows.
    pub(super) lines: Option<usize>,
}

/// A frame: never more lines than there are, and none longer than a line.
pub(super) fn frame(view: &View, size: Size) -> Vec<Line<'static>> {
    let mut frame = vec![title(view, size.columns)];
    frame.extend(trouble(view, size.columns));
    match (&view.screen, &view.latest) {
        (Screen::Help, _) => frame.extend(help::lines()),
        (_, None) => {}
        (Screen::Segment(id), Some(status)) => frame.extend(detail::segment(status, id)),
        (Screen::Client(id), Some(status)) => frame.extend(detail::client(status, id)),
        (Screen::Overview, Some(status)) => {
            frame.extend(summary(status, view.rates.as_ref(), size.columns));
            tables(&mut frame, view, size);
        }
    }
    if let Some(lines) = size.lines {
        let body = lines.saturating_sub(1);
        frame.truncate(body);
        frame.resize(body, Line::default());
        frame.push(footer(view));
        frame.truncate(lines);
    }
    frame.into_iter().map(|line| cut(line, size.columns)).collect()
}

/// Who it is, and how long it lives.
fn title(view: &View, columns: usize) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut spans =
        vec![Span::styled("mooring ", bold), Span::raw(fit(&view.address, columns / 2))];
    if let Some(status) = &view.latest {
        let style = if status.state == "serving" { CALM } else { WARNING };
        let state = if view.lost.is_some() { "gone" } else { &status.state };
        spans.push(Span::raw("  "));
        spans.push(Span::styled(
            fit(state, columns),
            if view.lost.is_some() { ALARM } else { style },
        ));
        let rest = format!(
            "  up {}  pid {}  version {}",
            age(status.uptime_s),
            status.pid,
            fit(&status.version, 16)
        );
        spans.push(Span::raw(rest));
    }
    if view.is_paused {
        spans.insert(0, Span::styled("PAUSED ", WARNING));
    }
    Line::from(spans)
}

/// What keeps figures from being there.
fn trouble(view: &View, columns: usize) -> Vec<Line<'static>> {
    let mut told = Vec::new();
    match (&view.lost, &view.latest) {
        (Some(lost), latest) => {
            let asked = if lost.tries == 1 { "once" } else { &format!("{} times", lost.tries) };
            let old = if latest.is_some() { "; the figures are old" } else { "" };
            let text = format!("no answer (asked {asked}{old}): {}", lost.reason);
            told.push((text, ALARM));
        }
        (None, None) => told.push(("asking...".to_owned(), WARNING)),
        (None, Some(status)) => {
            if let Some(reason) = &status.reason {
                told.push((reason.clone(), WARNING));
            }
            if !status.lacking.is_empty() {
                told.push((format!("no answer from: {}", status.lacking.join(", ")), ALARM));
            }
            if let Some(days) = status.certificate_days_left.filter(|days| *days < SOON_DAYS) {
                let text = if days < 0.0 {
                    "the certificate has run out: no client can connect".to_owned()
                } else {
                    format!("the certificate runs out in {days:.1} days")
                };
                told.push((text, if days < 3.0 { ALARM } else { WARNING }));
            }
        }
    }
    told.into_iter().map(|(text, style)| Line::styled(fit(&text, columns), style)).collect()
}

/// The rates of all, and the memory of all.
fn summary(status: &Status, rates: Option<&Rates>, columns: usize) -> Vec<Line<'static>> {
    let totals = status.totals.as_ref();
    let total = |figure: fn(&Totals) -> u64, shown: fn(u64) -> String| {
        totals.map_or(UNKNOWN.to_owned(), |totals| shown(figure(totals)))
    };
    let keys = rates.and_then(|rates| rates.keys.as_ref());
    let rate =
        |figure: fn(&KeyRates) -> f64| keys.map_or(UNKNOWN.to_owned(), |keys| count(figure(keys)));
    let hit = keys.and_then(|keys| keys.hit_ratio).map_or(UNKNOWN.to_owned(), percent);
    let number = |number: u64| count(number as f64);
    let mut summary = Vec::new();
    let mut add = |title: &str, figures: &[(&str, String)]| {
        let mut spans = vec![Span::raw(format!("{title:<8}"))];
        let mut taken = TITLE;
        for (name, figure) in figures {
            let shown = format!("  {name} {figure:<5}");
            // A figure is there as a whole or not at all.
            let whole = shown.trim_end();
            if taken + whole.len() > columns {
                break;
            }
            let shown = if taken + shown.len() > columns { whole.to_owned() } else { shown };
            taken += shown.len();
            let is_worrying = WORRYING.contains(name) && !["0", UNKNOWN].contains(&figure.as_str());
            let style = if is_worrying { WARNING } else { Style::new() };
            spans.push(Span::styled(shown, style));
        }
        summary.push(Line::from(spans));
    };
    add(
        "keys/s",
        &[
            ("put", rate(|it| it.puts)),
            ("no space", rate(|it| it.refused)),
            ("get", rate(|it| it.gets)),
            ("hit", hit),
            ("exist", rate(|it| it.exists)),
            ("remove", rate(|it| it.removes)),
        ],
    );
    add(
        "evict/s",
        &[
            ("keys", rate(|it| it.evicted_objects)),
            ("bytes", keys.map_or(UNKNOWN.to_owned(), |it| bytes(it.evicted_bytes as u64))),
            ("ordered", total(|it| it.eviction_debt_bytes, bytes)),
            ("so far", total(|it| it.evicted_objects, number)),
        ],
    );
    let clients = if status.lacking.iter().any(|who| who == "clients") {
        UNKNOWN.to_owned()
    } else {
        number(status.clients.len() as u64 + status.clients_left_out)
    };
    let connections = status.connections.quic.unwrap_or(0) + status.connections.mooncake;
    add(
        "master",
        &[
            ("cpu", rates.map_or(UNKNOWN.to_owned(), |it| format!("{:.0}%", it.cpu_percent))),
            ("memory", bytes(status.resident_bytes)),
            ("in flight", count(status.requests_in_flight as f64)),
            ("clients", clients),
            ("connections", count(connections as f64)),
        ],
    );
    add(
        "objects",
        &[
            ("all", total(|it| it.objects, number)),
            ("parked", total(|it| it.parked_puts, number)),
            ("unfinished", total(|it| it.unfinished_puts, number)),
            ("leased", total(|it| it.leased_bytes, bytes)),
            ("held", total(|it| it.held_bytes, bytes)),
            ("holds", total(|it| it.holds, number)),
        ],
    );
    summary.extend(totals.map(|totals| memory(totals, columns)));
    summary.extend(handoff(status));
    summary
}

fn memory(totals: &Totals, columns: usize) -> Line<'static> {
    let (used, held) = (
        ratio(totals.allocated_bytes, totals.capacity_bytes),
        ratio(totals.held_bytes, totals.capacity_bytes),
    );
    let text = format!(
        " {} of {}, largest free run {}",
        percent(used + held),
        bytes(totals.capacity_bytes),
        bytes(totals.largest_free_run_bytes)
    );
    let room = columns.saturating_sub(10 + width(&text)).clamp(12, 40);
    let style = fullness(used + held);
    Line::from(vec![
        Span::raw("pool      "),
        Span::styled(bar(used, held, room), style),
        Span::raw(text),
    ])
}

fn handoff(status: &Status) -> Option<Line<'static>> {
    let handoff = status.handoff.as_ref()?;
    let pending = status.segments.iter().filter(|segment| segment.state == "pending").count();
    let began = match handoff.restore.as_deref() {
        Some("ok") => format!(
            "restored {} objects in {}",
            count(handoff.restored_objects as f64),
            age(handoff.restore_s)
        ),
        Some("none") => "no snapshot was there, began empty".to_owned(),
        Some(reason) => format!("began empty: {reason}"),
        None if handoff.ranges_expected > 0 => {
            format!("restoring, {}", percent(ratio(handoff.ranges_laid, handoff.ranges_expected)))
        }
        None => "not begun".to_owned(),
    };
    let mut text = format!("handoff   {began}");
    if pending > 0 {
        text.push_str(&format!(", segments pending {pending}"));
    }
    if let Some(left) = &handoff.last_shutdown {
        text.push_str(&format!(", the master before: {left}"));
    }
    let is_well = matches!(handoff.restore.as_deref(), Some("ok" | "none"));
    let style = if is_well && pending == 0 { Style::new() } else { WARNING };
    Some(Line::styled(text, style))
}

/// The tables, as far as there is room: that of the focus first.
fn tables(frame: &mut Vec<Line<'static>>, view: &View, size: Size) {
    let all: Vec<(Kind, Vec<Row>)> =
        Kind::ALL.iter().map(|kind| (*kind, view.rows(*kind))).collect();
    let wanted: Vec<(Kind, usize)> =
        all.iter().map(|(kind, rows)| (*kind, rows.len().max(1))).collect();
    let room = size.lines.map(|lines| lines.saturating_sub(frame.len() + 1));
    let shares = shares(&wanted, view.focus, room);
    for ((kind, rows), share) in all.into_iter().zip(shares) {
        let Some(share) = share else { continue };
        frame.push(Line::default());
        frame.extend(table(view, kind, &rows, share, size.columns));
    }
}

/// How many rows each table may show; `None` leaves a table out. Each takes two lines more, for its
/// title and the blank above it.
fn shares(wanted: &[(Kind, usize)], focus: Kind, room: Option<usize>) -> Vec<Option<usize>> {
    let Some(room) = room else { return wanted.iter().map(|(_, rows)| Some(*rows)).collect() };
    let mut shares = vec![None; wanted.len()];
    let mut left = room;
    // The focus comes first, then the order of the screen.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| wanted[*index].0 != focus);
    for index in &order {
        let share = wanted[*index].1.min(AT_LEAST).min(left.saturating_sub(2));
        if share > 0 {
            shares[*index] = Some(share);
            left -= share + 2;
        }
    }
    for index in order {
        if let Some(share) = &mut shares[index] {
            let more = (wanted[index].1 - *share).min(left);
            *share += more;
            left -= more;
        }
    }
    shares
}

fn table(
    view: &View,
    kind: Kind,
    rows: &[Row],
    share: usize,
    columns_max: usize,
) -> Vec<Line<'static>> {
    let selected = view.selected(kind, rows);
    // The selected row is among those that are shown.
    let first = (selected + 1).saturating_sub(share).min(rows.len().saturating_sub(share));
    let shown: Vec<&Row> = rows.iter().skip(first).take(share).collect();
    let has_focus = view.focus == kind;
    let mark = if has_focus { ">" } else { " " };
    let mut table =
        lines(kind.columns(), &shown, view.sorting(kind), columns_max.saturating_sub(2));
    if rows.is_empty() {
        let is_lacking = view.latest.as_ref().is_some_and(|it| !it.lacking.is_empty());
        table.push(Line::raw(if is_lacking { UNKNOWN } else { kind.nothing() }));
    }
    let left_out = rows.len() - shown.len();
    if left_out > 0 {
        table[0].spans.push(Span::raw(format!("  +{left_out}")));
    }
    for (index, line) in table.iter_mut().enumerate() {
        let is_selected = index > 0 && first + index - 1 == selected && !rows.is_empty();
        line.spans.insert(0, Span::raw(format!("{} ", if index == 0 { mark } else { " " })));
        if has_focus && is_selected {
            line.style = line.style.add_modifier(Modifier::REVERSED);
        }
    }
    table
}

fn footer(view: &View) -> Line<'static> {
    let keys = match view.screen {
        Screen::Overview => "q quit  ? help  Tab table  s sort  r reverse  Enter open  p pause",
        Screen::Help => "? back  q quit",
        Screen::Segment(_) | Screen::Client(_) => "Esc back  q quit  ? help  p pause",
    };
    Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
}

/// The line as far as it fits.
fn cut(line: Line<'static>, columns: usize) -> Line<'static> {
    if line.width() <= columns {
        return line;
    }
    let mut left = columns;
    let mut spans = Vec::new();
    for span in line.spans {
        let shown = fit(&span.content, left);
        left -= width(&shown);
        let is_cut = shown.len() < span.content.len();
        spans.push(Span::styled(shown, span.style));
        if is_cut || left == 0 {
            break;
        }
    }
    Line { spans, ..line }
}

/// The title of a line of figures.
const TITLE: usize = 8;

/// Figures that are zero where all is well.
const WORRYING: [&str; 2] = ["no space", "parked"];

/// Where a figure is not known.
const UNKNOWN: &str = "-";

/// Rows of a table that is there beside others.
const AT_LEAST: usize = 3;

/// A certificate that runs out by then is worth a word.
const SOON_DAYS: f64 = 14.0;
