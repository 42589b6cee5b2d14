//! The pool: segments, the pages they are made of, and the pressure on them.
//!
//! The pool keeps each segment as a heap of pages and cuts spans from it for the shards, which
//! place objects in them on their own. It knows which memory is whose, when it may be used, and
//! how full it is by the shards' reports, and it orders the shards to evict, to give pages back
//! and to vacate windows for large objects. It knows no object and no key.

pub(crate) mod actor;
mod config;
mod handover;
mod heap;
mod leaving;
pub mod message;
mod mounting;
mod pending;
mod pressure;
mod quiesce;
mod remnants;
mod room;
mod segment;
mod segments;
mod space;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::mem;

use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::{ClientId, SegmentId};

pub use self::config::PoolConfig;
use self::heap::PageOwner;
use self::message::{
    Mount, PoolEffect, PoolMessage, PoolOrder, PoolReply, PoolRequest, SegmentSlot, ShardReport,
};
use self::mounting::Listing;
use self::pressure::Watermarks;
use self::quiesce::Markers;
use self::remnants::Remnants;
use self::room::{RoomWanted, Rooms};
use self::segment::MountedSegment;
use self::segments::{Own, Segments};
use self::space::SpaceNews;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::request::RequestId;
use crate::route::ShardId;

/// The state of the pool.
#[derive(Debug)]
pub struct Pool {
    config: PoolConfig,
    watermarks: Watermarks,
    segments: Segments,
    remnants: Remnants,
    rooms: Rooms,
    space: SpaceNews,
    /// When something in a slot is over. A timer that finds nothing due is harmless.
    timers: BTreeSet<(Moment, SegmentSlot)>,
    epoch: u64,
    /// By then every hold and lease of a shard that the master before has handed over is over.
    pub(crate) handed_over_until: Moment,
    /// Pending segments that have opened.
    pending_confirmed: u64,
    /// Pending segments that were lost.
    pending_dropped: u64,
    /// Who has come to rest.
    markers: Markers,
    /// The table has changed in this message.
    table_changed: bool,
    /// Clients whose segments have to be told after this message.
    changed_clients: BTreeSet<ClientId>,
}

impl Pool {
    /// A pool without segments.
    pub fn new(config: PoolConfig) -> Pool {
        Pool {
            watermarks: Watermarks::new(
                config.eviction_high_watermark_ratio,
                config.eviction_ratio,
            ),
            segments: Segments::new(config.shards, config.first_generation),
            markers: Markers::awaited(config.shards),
            config,
            remnants: Remnants::new(),
            rooms: Rooms::default(),
            space: SpaceNews::default(),
            timers: BTreeSet::new(),
            epoch: 0,
            handed_over_until: Moment::default(),
            pending_confirmed: 0,
            pending_dropped: 0,
            table_changed: false,
            changed_clients: BTreeSet::new(),
        }
    }

    /// Takes one message and appends what follows from it. `now` never runs backwards. Every
    /// request is answered once; an unmount when all shards have confirmed it. A pool at rest
    /// answers questions and changes nothing.
    pub fn apply(&mut self, now: Moment, message: PoolMessage, effects: &mut Vec<PoolEffect>) {
        if self.at_rest() {
            return self.answer_at_rest(now, message, effects);
        }
        self.run_timers(now, effects);
        let reply = match message {
            PoolMessage::Request { id, request } => {
                self.answer(now, id, request, effects).map(|reply| PoolEffect::Reply { id, reply })
            }
            PoolMessage::Shard { shard, report } => {
                self.hear(now, shard, report, effects);
                None
            }
            PoolMessage::ClientLost(client) => {
                self.lose_client(now, client, effects);
                None
            }
            PoolMessage::ClientsQuiesced => {
                self.markers.note_clients();
                None
            }
            PoolMessage::Tick => {
                self.remnants.forget_expired(now);
                self.announce_changes(effects);
                None
            }
        };
        self.announce_placement(effects);
        self.announce_table(effects);
        effects.extend(reply);
        if self.markers.complete() {
            self.come_to_rest(effects);
        }
    }

    /// The epoch of the segment table; changes with each mount and unmount.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The segment table: the segments that are neither lost nor pending, in the order of their
    /// slots.
    pub fn table(&self) -> Vec<SegmentEntry> {
        let readable = self.segments.iter().filter(|segment| segment.is_readable());
        readable.map(MountedSegment::entry).collect()
    }

    /// The mount of a segment that is not lost; it may be pending.
    pub fn mount_of(&self, segment: SegmentId) -> Option<Mount> {
        let known = self.segments.by_id(segment)?;
        known.is_mounted().then_some(known.mount)
    }

    /// Pages of a mount that can be granted; zero if it is not known.
    pub fn free_pages(&self, mount: Mount) -> u32 {
        self.known(mount).map_or(0, |segment| segment.heap.free_pages())
    }

    /// The pages of a mount that belong to a shard, in order and merged.
    pub fn shard_runs(&self, mount: Mount, shard: ShardId) -> Vec<PageRun> {
        let Some(segment) = self.known(mount) else { return Vec::new() };
        let runs = segment.heap.runs_in(PageRun::new(0, segment.heap.pages()));
        let own = runs.into_iter().filter(|&(_, owner)| owner == PageOwner::Shard(shard));
        own.map(|(run, _)| run).collect()
    }

    /// Whether the pool is sound: every page has one owner, the totals are the sums of their parts,
    /// and every index leads where it should.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(&self) -> Result<(), String> {
        self.segments.check()?;
        for segment in self.segments.iter() {
            let all = PageRun::new(0, segment.heap.pages());
            let windows = self.rooms.reserved_windows(segment.mount);
            let stray = segment.heap.runs_in(all).into_iter().find(|&(run, owner)| {
                // The windows are in order: up to here the pages of the run are in one of them.
                let mut covered = run.first_page;
                for window in windows.iter().filter(|window| window.overlaps(run)) {
                    if window.first_page <= covered {
                        covered = covered.max(window.end());
                    }
                }
                owner == PageOwner::Reserved && covered < run.end()
            });
            if segment.is_mounted()
                && let Some((run, _)) = stray
            {
                return Err(format!("{:?}: {run:?} is reserved for no job", segment.mount));
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        now: Moment,
        id: RequestId,
        request: PoolRequest,
        effects: &mut Vec<PoolEffect>,
    ) -> Option<PoolReply> {
        let reply = match request {
            PoolRequest::Mount { client, mount } => {
                let grants = self.mount(now, client, vec![mount], Listing::Some, effects);
                PoolReply::Mounted(grants.map(|mut grants| grants.remove(0)))
            }
            PoolRequest::Remount { client, mounts } => {
                PoolReply::Remounted(self.mount(now, client, mounts, Listing::All, effects))
            }
            PoolRequest::Unmount { client, segment, grace_ms } => {
                PoolReply::Unmounted(self.unmount(now, id, client, segment, grace_ms, effects)?)
            }
            PoolRequest::Table => self.describe_table(),
            PoolRequest::Uses => self.describe_uses(now),
            PoolRequest::Inspect => self.describe_details(now),
            PoolRequest::Totals => PoolReply::Totals(self.totals()),
        };
        Some(reply)
    }

    fn describe_table(&self) -> PoolReply {
        PoolReply::Table { epoch: self.epoch, segments: self.table() }
    }

    fn describe_uses(&self, now: Moment) -> PoolReply {
        PoolReply::Uses(self.segments.iter().map(|segment| segment.describe(now)).collect())
    }

    fn describe_details(&self, now: Moment) -> PoolReply {
        PoolReply::Inspected(self.segments.iter().map(|segment| segment.detail(now)).collect())
    }

    fn hear(
        &mut self,
        now: Moment,
        shard: ShardId,
        report: ShardReport,
        effects: &mut Vec<PoolEffect>,
    ) {
        match report {
            ShardReport::SpanRequest { mount, size_bytes } => {
                self.request_span(now, shard, mount, size_bytes, effects);
            }
            ShardReport::RoomRequest { number, size_bytes, excluded } => {
                let wanted = RoomWanted { shard, number, size_bytes, excluded };
                self.request_room(now, wanted, effects);
            }
            ShardReport::RoomCancelled { number } => self.cancel_room(now, shard, number, effects),
            ShardReport::Returned { mount, runs, answer } => {
                self.take_returned(shard, mount, &runs, answer, effects);
            }
            ShardReport::Usage(usages) => self.report_usage(shard, &usages, effects),
            ShardReport::Surveyed { survey, chunks } => {
                self.take_survey(now, shard, survey, &chunks, effects);
            }
            ShardReport::Vacated { job, runs } => {
                self.take_vacated(now, shard, job, &runs, effects);
            }
            ShardReport::Confirmed { mount } => self.confirm(shard, mount, effects),
            ShardReport::Swept { mount, remnants } => {
                self.sweep(now, shard, mount, remnants, effects);
            }
            ShardReport::Quiesced => self.markers.note_shard(shard),
        }
    }

    fn run_timers(&mut self, now: Moment, effects: &mut Vec<PoolEffect>) {
        while self.timers.first().is_some_and(|&(due, _)| due <= now) {
            if let Some((_, slot)) = self.timers.pop_first() {
                self.slot_due(now, slot, effects);
            }
        }
    }

    fn announce_table(&mut self, effects: &mut Vec<PoolEffect>) {
        if mem::take(&mut self.table_changed) {
            self.epoch += 1;
            effects.push(PoolEffect::TableChanged { epoch: self.epoch });
        }
        for client in mem::take(&mut self.changed_clients) {
            let Own { segments, kept } = self.segments.own_of(client);
            effects.push(PoolEffect::ClientSegments { client, segments, kept });
        }
    }

    fn order_all(&self, order: PoolOrder, effects: &mut Vec<PoolEffect>) {
        let shards = self.shards();
        effects.extend(shards.map(|shard| PoolEffect::Order { shard, order: order.clone() }));
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.config.shards).map(ShardId)
    }

    fn known(&self, mount: Mount) -> Option<&MountedSegment> {
        self.segments.at(mount.slot).filter(|segment| segment.mount == mount)
    }
}
