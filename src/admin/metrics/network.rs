//! The QUIC port: its connections, the paths to the peers, and what the system dropped.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::exposition::Exposition;
use crate::frontend::quic::Listener;

pub(super) fn families(page: &mut Exposition, listener: &Listener) {
    let paths = listener.paths();
    page.gauges_of(
        "mooring_quic_rtt_seconds",
        "Round trip to peers, of open connections: of the one in the middle, and the longest.",
        ["of"],
        [("median", paths.rtt_median), ("longest", paths.rtt_max)]
            .map(|(of, rtt)| ([of.to_owned()], rtt.as_secs_f64()))
            .into_iter(),
    );
    page.gauges_of(
        "mooring_quic_congestion_window_bytes",
        "Bytes that may be under way to a peer, of open connections: of the one in the middle, and the \
         smallest.",
        ["of"],
        [("median", paths.window_median_bytes), ("smallest", paths.window_min_bytes)]
            .map(|(of, bytes)| ([of.to_owned()], bytes))
            .into_iter(),
    );
    page.gauge(
        "mooring_quic_mtu_bytes",
        "The smallest packet size of open connections.",
        paths.mtu_min_bytes,
    );
    let totals = paths.totals;
    for (name, help, value) in [
        ("sent_packets", "QUIC packets that were sent.", totals.sent_packets),
        ("lost_packets", "QUIC packets that were taken for lost.", totals.lost_packets),
        ("lost_bytes", "Bytes in QUIC packets that were taken for lost.", totals.lost_bytes),
        (
            "congestion_events",
            "Times that loss made a connection slower.",
            totals.congestion_events,
        ),
        ("sent_bytes", "Bytes of UDP that were sent.", totals.sent_bytes),
        ("received_bytes", "Bytes of UDP that were received.", totals.received_bytes),
    ] {
        page.counter(&format!("mooring_quic_{name}_total"), help, value);
    }
    if let Some(dropped) = listener.dropped_packets() {
        page.counter(
            "mooring_quic_receive_drops_total",
            "Packets that the system threw away, because the process did not take them in time.",
            dropped,
        );
    }
    if let Some(ends_s) = listener.certificate_ends_s() {
        page.gauge(
            "mooring_certificate_days_left",
            "Until the certificate of the QUIC port runs out; below zero once it has.",
            days_left(ends_s),
        );
    }
}

/// Until then, in days; below zero afterwards.
pub(in crate::admin) fn days_left(ends_s: i64) -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    ends_s.saturating_sub(now_s) as f64 / DAY_S
}

const DAY_S: f64 = 86_400.0;
