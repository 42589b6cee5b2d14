//! The settings of a shard.

use mooring_proto::Incarnation;

use super::choice::AllocationStrategy;
use super::reuse::EvictionPolicy;
use crate::route::{Route, ShardId};

/// The settings of a shard. All of them are fixed for the life of the process.
#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    /// Which shard it is.
    pub shard: ShardId,
    /// How keys are spread; the shard hashes its own keys again when it removes them.
    pub route: Route,
    /// The master that issues the tokens.
    pub incarnation: Incarnation,
    /// How long a get or a true exist protects an object, in milliseconds.
    pub lease_ttl_ms: u64,
    /// After this time another start may take the key of an unfinished put over, in milliseconds.
    pub put_discard_timeout_ms: u64,
    /// For this long after its start, the ranges of a put may be written to, in milliseconds.
    pub put_release_timeout_ms: u64,
    /// How long a put waits for space before it is refused, in milliseconds.
    pub parked_put_timeout_ms: u64,
    /// How many puts may wait for space. Beyond it they are refused as overloaded.
    pub parked_puts_max: usize,
    /// Which segment a put tries first.
    pub allocation_strategy: AllocationStrategy,
    /// In which order idle objects go.
    pub eviction_policy: EvictionPolicy,
}

impl ShardConfig {
    /// The defaults for one shard of a master.
    pub fn new(shard: ShardId, route: Route, incarnation: Incarnation) -> ShardConfig {
        ShardConfig {
            shard,
            route,
            incarnation,
            lease_ttl_ms: 10_000,
            put_discard_timeout_ms: 30_000,
            put_release_timeout_ms: 600_000,
            parked_put_timeout_ms: 2_000,
            parked_puts_max: 65_536,
            allocation_strategy: AllocationStrategy::default(),
            eviction_policy: EvictionPolicy::default(),
        }
    }
}
