//! What the paths to the peers are like, over all connections: one figure for each of thousands of
//! peers would be more than anybody can look at.

use std::time::Duration;

use quinn::ConnectionStats;

/// What was sent and received; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTotals {
    /// QUIC packets that were sent.
    pub(crate) sent_packets: u64,
    /// Of them, taken for lost.
    pub(crate) lost_packets: u64,
    /// Bytes in these.
    pub(crate) lost_bytes: u64,
    /// Times that loss made a connection slower.
    pub(crate) congestion_events: u64,
    /// Bytes of UDP that were sent.
    pub(crate) sent_bytes: u64,
    /// Bytes of UDP that were received.
    pub(crate) received_bytes: u64,
}

impl PathTotals {
    /// Adds one connection.
    pub(super) fn add(&mut self, stats: &ConnectionStats) {
        self.sent_packets += stats.path.sent_packets;
        self.lost_packets += stats.path.lost_packets;
        self.lost_bytes += stats.path.lost_bytes;
        self.congestion_events += stats.path.congestion_events;
        self.sent_bytes += stats.udp_tx.bytes;
        self.received_bytes += stats.udp_rx.bytes;
    }
}

/// The middle and the worst of the open connections; all zero without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The round trip of the connection in the middle.
    pub(crate) rtt_median: Duration,
    /// The longest round trip.
    pub(crate) rtt_max: Duration,
    /// The congestion window of the connection in the middle.
    pub(crate) window_median_bytes: u64,
    /// The smallest congestion window.
    pub(crate) window_min_bytes: u64,
    /// The smallest size of a UDP packet that a path takes.
    pub(crate) mtu_min_bytes: u64,
    /// Of all connections since the start, ended ones included.
    pub(crate) totals: PathTotals,
}

impl Paths {
    /// Those of the open connections, with what ended ones have left.
    pub(super) fn new(open: &[ConnectionStats], ended: PathTotals) -> Paths {
        let mut totals = ended;
        open.iter().for_each(|stats| totals.add(stats));
        let mut rtts: Vec<Duration> = open.iter().map(|stats| stats.path.rtt).collect();
        let mut windows: Vec<u64> = open.iter().map(|stats| stats.path.cwnd).collect();
        rtts.sort_unstable();
        windows.sort_unstable();
        let mtus = open.iter().map(|stats| u64::from(stats.path.current_mtu));
        Paths {
            rtt_median: rtts.get(rtts.len() / 2).copied().unwrap_or_default(),
            rtt_max: rtts.last().copied().unwrap_or_default(),
            window_median_bytes: windows.get(windows.len() / 2).copied().unwrap_or_default(),
            window_min_bytes: windows.first().copied().unwrap_or_default(),
            mtu_min_bytes: mtus.min().unwrap_or_default(),
            totals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(rtt_ms: u64, cwnd: u64, lost_packets: u64) -> ConnectionStats {
        let mut stats = ConnectionStats::default();
        stats.path.rtt = Duration::from_millis(rtt_ms);
        stats.path.cwnd = cwnd;
        stats.path.lost_packets = lost_packets;
        stats.path.current_mtu = 1452;
        stats
    }

    #[test]
    fn the_middle_and_the_worst_connection_are_told() {
        let open = [connection(5, 70, 1), connection(900, 10, 2), connection(1, 90, 4)];
        let paths = Paths::new(&open, PathTotals { lost_packets: 100, ..PathTotals::default() });
        assert_eq!((paths.rtt_median.as_millis(), paths.rtt_max.as_millis()), (5, 900));
        assert_eq!((paths.window_median_bytes, paths.window_min_bytes), (70, 10));
        assert_eq!((paths.mtu_min_bytes, paths.totals.lost_packets), (1452, 107));
    }

    #[test]
    fn without_connections_what_has_ended_is_left() {
        let ended = PathTotals { sent_bytes: 3, ..PathTotals::default() };
        assert_eq!(Paths::new(&[], ended), Paths { totals: ended, ..Paths::default() });
    }
}
