//! What is checked while messages are under way.

use mooring_actors::ShardId;
use mooring_actors::invariant::{Invariant, Violation};

use crate::cluster::mount;
use crate::world::World;

impl World {
    /// Checks everything that can be checked while messages are under way.
    pub(crate) fn check(&mut self) -> Result<(), Violation> {
        let now = self.clock;
        self.oracle.guards.forget_ended(now);
        if !self.checked {
            return Ok(());
        }
        self.cluster.check()?;
        let master = self.cluster.incarnation;
        for entry in self.cluster.mounted() {
            let mount = mount(entry.slot, entry.generation);
            let Some(place) = self.memories.place(master, mount) else { continue };
            let page_bytes = self.page_bytes(entry.segment.size_bytes);
            for (number, shard) in self.cluster.shards.iter().enumerate() {
                let stretches = shard.stretches(mount);
                let runs = self.cluster.pool.shard_runs(mount, ShardId(number as u16));
                for stretch in &stretches {
                    let end = stretch.offset_bytes + stretch.length_bytes;
                    let owned = runs.iter().any(|run| {
                        u64::from(run.first_page) * page_bytes <= stretch.offset_bytes
                            && end <= u64::from(run.end()) * page_bytes
                    });
                    if !owned {
                        return Err(Invariant::OneOwner.violated(format!(
                            "shard {number} has {stretch:?} of {mount:?}, the pool says {runs:?}"
                        )));
                    }
                }
                if self.memories.all[place.memory].process == place.process {
                    self.oracle.guards.check_mount(now, mount, &place, &stretches)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of a page of a segment of this size, as the pool divides it.
    pub(crate) fn page_bytes(&self, segment_bytes: u64) -> u64 {
        1 << (segment_bytes / 256).clamp(4 << 10, 64 << 10).ilog2()
    }
}
