//! The state of all actors before they are started: empty, or restored.

use super::CoreConfig;
use crate::clients::{Clients, ClientsConfig};
use crate::handoff::{ClientRecord, PoolRecord, RestoreError, RestoredSegment};
use crate::pool::{Pool, PoolConfig};
use crate::route::ShardId;
use crate::shard::config::ShardConfig;
use crate::shard::restore::{OwnedPages, ShardRestore};
use crate::shard::state::Shard;

/// The state of all actors.
#[derive(Debug)]
pub struct CoreState {
    pub(super) shards: Vec<Shard>,
    pub(super) pool: Pool,
    pub(super) clients: Clients,
}

impl CoreState {
    pub(super) fn empty(config: &CoreConfig) -> CoreState {
        let shards = 0..config.route.shards();
        CoreState {
            shards: shards.map(|number| Shard::new(config.shard(ShardId(number)))).collect(),
            pool: Pool::new(config.pool()),
            clients: Clients::new(config.clients()),
        }
    }

    /// The parts, for a test that drives them itself.
    pub fn into_parts(self) -> (Vec<Shard>, Pool, Clients) {
        (self.shards, self.pool, self.clients)
    }

    /// Puts the restored parts together. `shards` has one entry for each shard of the configuration.
    ///
    /// # Errors
    /// When the parts do not fit each other. Nothing of them may be used then.
    pub fn restored(
        config: &CoreConfig,
        pool: &PoolRecord,
        clients: &[ClientRecord],
        shards: Vec<(Shard, OwnedPages)>,
    ) -> Result<CoreState, RestoreError> {
        if shards.len() != usize::from(config.route.shards()) {
            return Err(RestoreError::Dangling(format!("{} restored shards", shards.len())));
        }
        let (shards, owned): (Vec<Shard>, _) = shards.into_iter().unzip();
        let mut pool = Pool::restore(config.pool(), pool, owned)?;
        pool.handed_over_until =
            shards.iter().map(Shard::handed_over_until).max().unwrap_or_default();
        Ok(CoreState { shards, pool, clients: Clients::restore(config.clients(), clients) })
    }
}

impl CoreConfig {
    /// Begins to restore one shard of about so many objects.
    pub fn restore_shard(
        &self,
        shard: ShardId,
        segments: &[RestoredSegment],
        objects: u64,
    ) -> ShardRestore {
        ShardRestore::new(self.shard(shard), segments, objects)
    }

    fn shard(&self, shard: ShardId) -> ShardConfig {
        ShardConfig {
            lease_ttl_ms: outlasting(self.settings.lease_ttl_ms),
            put_discard_timeout_ms: self.settings.put_discard_timeout_ms,
            put_release_timeout_ms: outlasting(self.settings.put_release_timeout_ms),
            allocation_strategy: self.settings.allocation_strategy,
            eviction_policy: self.settings.eviction_policy,
            ..ShardConfig::new(shard, self.route, self.incarnation)
        }
    }

    fn pool(&self) -> PoolConfig {
        PoolConfig {
            lease_ttl_ms: outlasting(self.settings.lease_ttl_ms),
            client_ttl_ms: self.settings.client_ttl_ms,
            put_release_timeout_ms: outlasting(self.settings.put_release_timeout_ms),
            eviction_high_watermark_ratio: self.settings.eviction_high_watermark_ratio,
            eviction_ratio: self.settings.eviction_ratio,
            pending_timeout_ms: self.settings.pending_timeout_ms,
            ..PoolConfig::new(self.route.shards(), self.incarnation)
        }
    }

    pub(super) fn clients(&self) -> ClientsConfig {
        let client_ttl_ms = self.settings.client_ttl_ms;
        let tick_period_ms = (client_ttl_ms / TICKS_PER_TTL).clamp(1, 1000);
        ClientsConfig { client_ttl_ms, tick_period_ms }
    }
}

/// What readers and writers are told to rely on lasts a millisecond longer here. They count from the
/// instant at which they ask, and a moment is cut to whole milliseconds: a time that is counted from one
/// would end up to a millisecond early.
fn outlasting(told_ms: u64) -> u64 {
    told_ms.saturating_add(1)
}

/// A client is judged this often in one TTL, so that it goes offline at most a twentieth late.
const TICKS_PER_TTL: u64 = 20;
