//! What an operator sets for the pool.

use mooring_proto::Incarnation;

/// The settings of the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// How many shards there are, at least one.
    pub shards: u16,
    /// This master process; part of every mount grant.
    pub incarnation: Incarnation,
    /// How long a read lease lasts. Memory that a former master handed out rests this long.
    pub lease_ttl_ms: u64,
    /// A client that is silent for this long is suspected. A segment that its owner has not named for
    /// as long is gone if the owner then lists all that it has without it.
    pub client_ttl_ms: u64,
    /// How long a range of an abandoned put is held.
    pub put_release_timeout_ms: u64,
    /// Eviction starts when more than this part of a segment's bytes is used; above 0, up to 1.
    pub eviction_high_watermark_ratio: f64,
    /// Eviction goes this far below the watermark, as a part of the segment's bytes; from 0 to 1.
    pub eviction_ratio: f64,
    /// The generations of all slots start above this.
    pub first_generation: u32,
    /// How long the owner of a segment that was handed over may take to come back, from the moment
    /// of serving. Without a limit only the owner's own expiry ends the waiting.
    pub pending_timeout_ms: Option<u64>,
}

impl PoolConfig {
    /// The defaults of a master with this many shards.
    pub fn new(shards: u16, incarnation: Incarnation) -> PoolConfig {
        PoolConfig {
            shards,
            incarnation,
            lease_ttl_ms: 10_000,
            client_ttl_ms: 10_000,
            put_release_timeout_ms: 600_000,
            eviction_high_watermark_ratio: 0.90,
            eviction_ratio: 0.05,
            first_generation: 0,
            pending_timeout_ms: None,
        }
    }
}
