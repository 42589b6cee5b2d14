//! The end of a run: faults stop, and everything has to come to rest, serve again and go.

use mooring_actors::Moment;
use mooring_actors::ShardId;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::PoolTotals;
use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest, ShardTotals};
use mooring_proto::error::{ErrorCode, Refusal};
use mooring_proto::message::object::{PutOptions, PutStartGrant};

use crate::asked::{Asked, PutAsked};
use crate::cluster::{Answer, mount};
use crate::world::World;

/// What a run shows for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) hash: u64,
    pub(crate) events: u64,
    /// For how long it went, by its own clock.
    pub(crate) virtual_ms: u64,
    pub(crate) tally: crate::oracle::Tally,
}

impl World {
    /// Runs the whole plan.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn run(mut self) -> Result<Outcome, Violation> {
        self.run_until(Moment::from_ms(1_000 + self.plan.busy_ms))?;
        self.master_must_serve()?;
        self.calm = true;
        self.heal_stores();
        // Offline is who was silent for two TTLs, and once in an outage for three; each tick that
        // comes late counts for nobody.
        self.run_for(6 * self.plan.settings.client_ttl_ms + 2_000)?;
        self.all_must_be_mounted()?;
        let settings = &self.plan.settings;
        self.run_for(settings.put_release_timeout_ms + settings.lease_ttl_ms + 3_000)?;
        self.nothing_may_be_in_use()?;
        self.pool_must_agree()?;
        self.puts_must_fit()?;
        self.no_key_may_be_blocked()?;
        self.everything_must_go()?;
        self.oracle.tally.evicted += self.cluster.totals().evicted_objects;
        Ok(Outcome {
            hash: self.audit.hash(),
            events: self.audit.events(),
            virtual_ms: self.clock.as_ms() - 1_000,
            tally: self.oracle.tally,
        })
    }

    fn all_must_be_mounted(&mut self) -> Result<(), Violation> {
        self.check()?;
        let table = self.cluster.pool.table();
        let stores = || self.stores.iter().filter(|store| !store.retired);
        for entry in &table {
            let id = entry.segment.segment;
            if !stores().any(|store| store.segments.iter().any(|piece| piece.id == id)) {
                let fault = format!("{entry:?} is mounted, and no store that lives knows of it");
                return Err(Invariant::Conservation.violated(fault));
            }
        }
        for store in stores() {
            for piece in &store.segments {
                if !table.iter().any(|entry| entry.segment.segment == piece.id) {
                    let fault = format!("{piece:?} of {:?} is not mounted", store.process);
                    return Err(Invariant::Answered.violated(fault));
                }
            }
        }
        Ok(())
    }

    /// Every lease, hold and put has timed out.
    fn nothing_may_be_in_use(&mut self) -> Result<(), Violation> {
        self.check()?;
        let totals = self.cluster.totals();
        let in_use = ShardTotals {
            objects: totals.objects,
            allocated_bytes: totals.allocated_bytes,
            free_bytes: totals.free_bytes,
            pinned_bytes: totals.pinned_bytes,
            ..ShardTotals::default()
        };
        let left = ShardTotals {
            unfinished: totals.unfinished,
            holds: totals.holds,
            held_bytes: totals.held_bytes,
            leased_bytes: totals.leased_bytes,
            parked: totals.parked,
            ..in_use.clone()
        };
        if left != in_use {
            return Err(Invariant::Conservation.violated(format!("still in use: {left:?}")));
        }
        Ok(())
    }

    /// With no message under way the pool knows exactly what the shards hold.
    fn pool_must_agree(&mut self) -> Result<(), Violation> {
        self.run_for(500)?;
        self.check()?;
        for entry in self.cluster.pool.table() {
            let mount = mount(entry.slot, entry.generation);
            for (number, shard) in self.cluster.shards.iter().enumerate() {
                let held_bytes: u64 =
                    shard.stretches(mount).iter().map(|stretch| stretch.length_bytes).sum();
                let page_bytes = self.page_bytes(entry.segment.size_bytes);
                let runs = self.cluster.pool.shard_runs(mount, ShardId(number as u16));
                let pages: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
                if pages * page_bytes != held_bytes {
                    return Err(Invariant::OneOwner.violated(format!(
                        "shard {number} has {held_bytes} bytes of {mount:?}, the pool says {pages} pages"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Where nothing is in use, every object fits that a segment could hold.
    fn puts_must_fit(&mut self) -> Result<(), Violation> {
        self.remove_pinned()?;
        let largest_bytes = self
            .cluster
            .pool
            .table()
            .iter()
            .map(|entry| entry.segment.size_bytes)
            .map(|size_bytes| {
                size_bytes / self.page_bytes(size_bytes) * self.page_bytes(size_bytes)
            })
            .max()
            .unwrap_or(0);
        for (number, size_bytes) in
            [1, largest_bytes / 50, largest_bytes / 2, largest_bytes].into_iter().enumerate()
        {
            let key = self.plan.keys + number as u32;
            self.put_must_fit(key, size_bytes.max(1))?;
        }
        Ok(())
    }

    /// Every put has timed out, so each key is readable or free for a start.
    fn no_key_may_be_blocked(&mut self) -> Result<(), Violation> {
        let mut keys = self.draw_keys(200);
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            match self.start_alone(key, 1)? {
                (asked, Ok(grant)) => {
                    self.send_end(&asked, self.cluster.incarnation, vec![(key, grant.sequence)])
                }
                (_, Err(refusal)) if refusal.code == ErrorCode::AlreadyExists => {}
                (asked, Err(refusal)) => {
                    return Err(Invariant::Answered.violated(format!(
                        "{asked:?} is refused although nothing is in use: {refusal}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn put_must_fit(&mut self, key: u32, size_bytes: u64) -> Result<(), Violation> {
        let until = self.now().after_ms(LIVENESS_MS);
        loop {
            match self.start_alone(key, size_bytes)? {
                (asked, Ok(grant)) => {
                    self.send_end(&asked, self.cluster.incarnation, vec![(key, grant.sequence)]);
                    return self.run_for(500);
                }
                // What lies in spans of other shards goes with a later try.
                (_, Err(Refusal { retry_after_ms: Some(retry_after_ms), .. }))
                    if self.oracle.tally.handoffs > 0 && self.now() < until =>
                {
                    self.run_for(u64::from(retry_after_ms))?;
                }
                (asked, Err(refusal)) => {
                    return Err(Invariant::Answered.violated(format!(
                        "{asked:?} does not fit although nothing is in use: {refusal}"
                    )));
                }
            }
        }
    }

    /// Starts a put while nobody else does, and waits for its answer.
    fn start_alone(
        &mut self,
        key: u32,
        size_bytes: u64,
    ) -> Result<(PutAsked, Result<PutStartGrant, Refusal>), Violation> {
        let client = self.clients[0].id;
        let put_id = u64::from(u32::MAX) + u64::from(key);
        let asked = PutAsked { key, size_bytes, client, put_id, group: None };
        let request = ShardRequest::PutStart {
            client,
            options: PutOptions::default(),
            extras: None,
            batch: self.batch(&[key]),
            puts: vec![PutRequest { size_bytes, put_id: asked.put_id }],
        };
        let start = Asked::Start { puts: vec![asked], hard_pin: false, replicas: 1, upsert: false };
        let id = self.ask_shard(client, self.shard_of(key), request, start);
        self.watched = Some(id);
        let until = self.now().after_ms(LIVENESS_MS);
        while self.watched_answer.is_none() && self.now() < until {
            self.run_for(10)?;
        }
        match self.watched_answer.take() {
            Some(Answer::Shard(ShardReply::Started(mut answers))) => Ok((asked, answers.remove(0))),
            other => Err(Invariant::Answered.violated(format!("{asked:?} has {other:?}"))),
        }
    }

    fn remove_pinned(&mut self) -> Result<(), Violation> {
        for key in self.oracle.pinned_keys() {
            let request = ShardRequest::Remove { force: false, batch: self.batch(&[key]) };
            let asked = Asked::Remove { keys: vec![key], force: false };
            self.ask_shard(self.clients[0].id, self.shard_of(key), request, asked);
        }
        self.run_for(1_000)?;
        let pinned_bytes = self.cluster.totals().pinned_bytes;
        if pinned_bytes > 0 {
            let fault = format!("{pinned_bytes} bytes are pinned by no key");
            return Err(Invariant::Conservation.violated(fault));
        }
        Ok(())
    }

    /// Everything is removed and unmounted: no gauge may show anything.
    fn everything_must_go(&mut self) -> Result<(), Violation> {
        for number in 0..self.shards() {
            let asked = Asked::RemoveAll { force: true };
            let request = ShardRequest::RemoveAll { force: true };
            self.ask_shard(self.clients[0].id, ShardId(number), request, asked);
        }
        self.run_for(self.plan.settings.lease_ttl_ms + 2_000)?;
        self.check()?;
        let totals = self.cluster.totals();
        if (totals.objects, totals.allocated_bytes, totals.held_bytes) != (0, 0, 0) {
            let fault = format!("all was removed, but there is {totals:?}");
            return Err(Invariant::Conservation.violated(fault));
        }
        self.unmount_all();
        self.run_for(2_000)?;
        self.check()?;
        let totals = self.cluster.totals();
        let pool = self.cluster.pool.totals();
        let gauges =
            PoolTotals { windows_vacated: 0, segments_confirmed: 0, segments_dropped: 0, ..pool };
        let pool_is_empty = gauges == PoolTotals::default();
        if totals.free_bytes > 0 || !pool_is_empty {
            let fault = format!("all was unmounted, but there is {totals:?} and {pool:?}");
            return Err(Invariant::Conservation.violated(fault));
        }
        self.stopped = true;
        self.run_for(1_000)?;
        if self.unanswered() > 0 {
            let fault = format!("at the end {} requests are open", self.unanswered());
            return Err(Invariant::Answered.violated(fault));
        }
        Ok(())
    }
}

/// The time in which a put has to be granted when nothing is in the way.
const LIVENESS_MS: u64 = 4_000;
