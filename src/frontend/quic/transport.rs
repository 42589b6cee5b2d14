//! The transport parameters of the servers of this process.

use std::time::Duration;

use mooring_proto::client::packets;
use mooring_proto::limits::STREAM_WINDOW_BYTES;
use quinn::{
    ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, TransportConfig, VarInt,
};

/// Transport parameters for a server whose peers ping within the client TTL, with this many
/// requests at once on a connection.
pub(crate) fn server_transport(client_ttl: Duration, requests_max: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(requests_max))
        // Peers open none of these; the master's own are not counted here.
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .send_window(u64::from(CONNECTION_WINDOW_BYTES))
        .datagram_receive_buffer_size(None)
        .initial_rtt(INITIAL_RTT)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(Some(idle_timeout(client_ttl)));
    packets::configure(&mut transport);
    transport
}

/// A peer that vanished is noticed before its pings are missed, but a pause of the process or
/// of the network of a moment closes nothing.
fn idle_timeout(client_ttl: Duration) -> IdleTimeout {
    let below_half = client_ttl * 9 / 20;
    let bounded = below_half.clamp(IDLE_TIMEOUT_MIN, IDLE_TIMEOUT_MAX);
    IdleTimeout::try_from(bounded).expect("a bounded duration is a valid idle timeout")
}

/// The parameters of the endpoint around it. With a key that outlives the process, the next one
/// resets the connections of this one.
pub(crate) fn endpoint_config(
    reset_key: Option<std::sync::Arc<dyn quinn::crypto::HmacKey>>,
) -> EndpointConfig {
    let Some(key) = reset_key else { return EndpointConfig::default() };
    let mut config = EndpointConfig::new(key);
    config.cid_generator(|| Box::new(AnyConnectionId)).min_reset_interval(RESET_INTERVAL_MIN);
    config
}

/// Random ids of connections. The usual ones are signed with a key of the process, so that the next
/// process would take those of this one for noise and not reset them.
struct AnyConnectionId;

impl ConnectionIdGenerator for AnyConnectionId {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&rand::random::<[u8; CONNECTION_ID_BYTES]>())
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// What a connection may have under way that nobody has read yet: two of the largest requests.
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// Before the first measurement. The default of 333 ms is for the Internet and would make the first
/// lost packet of a handshake cost a second.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// After a restart each of thousands of clients waits for a reset. It is smaller than what it
/// answers, so that nobody gains by asking for many.
const RESET_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// As long as the usual ones.
const CONNECTION_ID_BYTES: usize = 8;

/// Twice within the shortest idle timeout.
const KEEP_ALIVE: Duration = Duration::from_millis(1_500);

/// Shorter ones would take a busy machine for a dead peer.
const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(3);

/// Longer ones are of no use: the state of a dead connection only costs memory.
const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vanished_peer_is_noticed_below_half_of_its_ttl_where_that_is_not_too_short() {
        let timeout = |seconds| idle_timeout(Duration::from_secs(seconds));
        let milliseconds = |ms: u32| IdleTimeout::from(VarInt::from_u32(ms));
        assert_eq!(timeout(10), milliseconds(4_500));
        assert_eq!(timeout(2), milliseconds(3_000));
        assert_eq!(timeout(100_000), milliseconds(60_000));
    }
}
