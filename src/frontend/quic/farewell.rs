//! The last that peers hear: waiting for it no longer than it takes.

use std::time::{Duration, Instant};

use quinn::{Connection, ConnectionError};

/// Waits until what was written to these connections has left, at most this long. A connection with
/// something to send sends in each round trip, so what is silent for two of them has nothing left.
pub(super) async fn flush(connections: &[Connection], in_time: Duration) {
    let end = Instant::now() + in_time;
    let slowest = connections.iter().map(Connection::rtt).max().unwrap_or_default();
    let silence = (2 * slowest).max(SILENCE_MIN);
    let mut sent = sent_by(connections);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if connections.is_empty() || left.is_zero() {
            return;
        }
        tokio::time::sleep(silence.min(left)).await;
        let before = std::mem::replace(&mut sent, sent_by(connections));
        if sent == before {
            return;
        }
    }
}

fn sent_by(connections: &[Connection]) -> Vec<u64> {
    connections.iter().map(|connection| connection.stats().udp_tx.datagrams).collect()
}

/// Waits until the peers of these connections, all of them closed, know it: until each has closed its
/// side in turn, or is gone. One that is silent is waited for without an end.
pub(super) async fn heard(mut connections: Vec<Connection>) {
    loop {
        connections.retain(|connection| !has_heard(connection));
        if connections.is_empty() {
            return;
        }
        // No event tells of it.
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}

fn has_heard(connection: &Connection) -> bool {
    match connection.close_reason() {
        None => false,
        Some(ConnectionError::LocallyClosed) => connection.stats().frame_rx.connection_close > 0,
        // It was over before.
        Some(_) => true,
    }
}

/// A round trip on one machine is shorter than the wait for a thread.
const SILENCE_MIN: Duration = Duration::from_millis(2);

/// Short beside the end of the process.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
