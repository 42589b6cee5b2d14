//! The totals of the master, as clients and metrics ask for them.

use mooring_actors::core::CallError;
use mooring_actors::pool::message::PoolTotals;
use mooring_actors::shard::message::ShardTotals;
use mooring_proto::message::inspect::{ShardStats, StatsReply};

use super::Context;

/// Everything that the core knows about itself at one moment.
pub(crate) struct Snapshot {
    /// Of each shard.
    pub(crate) shards: Vec<ShardTotals>,
    /// Of the pool.
    pub(crate) pool: PoolTotals,
    /// Clients that are active or suspected.
    pub(crate) clients: u64,
    /// Messages that wait, for each shard.
    pub(crate) queues: Vec<u64>,
}

impl Snapshot {
    /// Asks all actors.
    ///
    /// # Errors
    /// If one of them has no room for the question, or is gone.
    pub(crate) async fn take(context: &Context) -> Result<Snapshot, CallError> {
        let (shards, pool) = context.core.totals().await?;
        let counts = context.core.client_counts();
        let queues = context.core.queue_lengths();
        Ok(Snapshot { shards, pool, clients: counts.active + counts.suspected, queues })
    }

    /// The sum of one figure over all shards.
    pub(crate) fn sum(&self, figure: impl Fn(&ShardTotals) -> u64) -> u64 {
        self.shards.iter().map(figure).sum()
    }

    /// The reply to a client.
    pub(crate) fn reply(&self, context: &Context) -> StatsReply {
        let shards = self.shards.iter().enumerate().map(|(index, shard)| ShardStats {
            objects: shard.objects,
            allocated_bytes: shard.allocated_bytes,
            queue: self.queues.get(index).copied().unwrap_or(0),
        });
        StatsReply {
            objects: self.sum(|shard| shard.objects),
            allocated_bytes: self.sum(|shard| shard.allocated_bytes),
            capacity_bytes: self.pool.capacity_bytes,
            held_bytes: self.sum(|shard| shard.held_bytes),
            segments: self.pool.segments,
            clients: self.clients,
            evicted_objects: self.sum(|shard| shard.evicted_objects),
            evicted_bytes: self.sum(|shard| shard.evicted_bytes),
            put_refused: self.sum(|shard| shard.put_refused),
            resident_bytes: resident_bytes(),
            uptime_ms: u64::try_from(context.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            shards: shards.collect(),
        }
    }
}

/// The resident memory of the process; zero if the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

/// Processor time of the process until now, of all its threads.
pub(crate) fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_resident_memory() {
        assert!(resident_bytes() > 1 << 20);
    }
}
