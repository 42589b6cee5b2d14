//! How long a client may be silent.

/// The settings of the liveness judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientsConfig {
    /// A client that is silent for this long is suspected, and for twice as long offline. At least
    /// four times the tick period, so that a client is asked in between. Clients ping each fifth
    /// of it.
    pub client_ttl_ms: u64,
    /// The time between two ticks. A tick that comes later than twice this shows that the master
    /// itself hung.
    pub tick_period_ms: u64,
}

impl Default for ClientsConfig {
    fn default() -> ClientsConfig {
        ClientsConfig { client_ttl_ms: 10_000, tick_period_ms: 1_000 }
    }
}
