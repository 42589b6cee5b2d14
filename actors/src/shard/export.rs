//! Coming to rest, and handing over what the shard holds.

use std::collections::HashMap;
use std::ops::ControlFlow;

use mooring_proto::error::ErrorCode;

use super::message::{PeerMessage, ShardEffect, ShardMessage, ShardReply, ShardRequest};
use super::objects::{ObjectHandle, ObjectState};
use super::ranges::{Passed, RangeHandle, RangeState, SegmentIndex};
use super::remove::Sweep;
use super::state::Shard;
use crate::handoff::{ExportError, ObjectRecord, RangePlace, RangeRecord, RecordSink, ShardRecord};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{Mount, PoolOrder, Remnant, ShardReport};
use crate::route::ShardId;

/// How far a shard has come on its way to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// It works.
    #[default]
    Working,
    /// It decides nothing any more; the pool and other shards may still have something to say.
    Still,
    /// The pool has said its last word, other shards may have something to say.
    PoolQuiesced,
    /// No message to it is under way either.
    Complete,
}

impl Shard {
    /// Stops: answers everything that waits, tells the pool what may still be in use on lost segments
    /// if that is handed over, and changes nothing from here on.
    pub(super) fn come_to_rest(
        &mut self,
        now: Moment,
        hands_over: bool,
        effects: &mut Vec<ShardEffect>,
    ) {
        self.refuse_all_parked(&ErrorCode::Restarting.into(), effects);
        for sweep in std::mem::take(&mut self.sweeps) {
            match sweep {
                Sweep::All { id, .. } => {
                    effects.push(ShardEffect::Reply { id, reply: ShardReply::Restarting });
                }
                // The pool abandons its jobs when it comes to rest.
                Sweep::Window(_) => {}
                Sweep::Segment(_) if !hands_over => {}
                Sweep::Segment(index) => {
                    let mount = self.segments.at(index).mount;
                    let remnants = self.remnants(now, index);
                    effects.push(ShardEffect::Report(ShardReport::Swept { mount, remnants }));
                }
            }
        }
        self.tell_peers(effects);
        for number in (0..self.config.route.shards()).filter(|n| *n != self.config.shard.0) {
            let (shard, message) = (ShardId(number), PeerMessage::Quiesced);
            effects.push(ShardEffect::Tell { shard, message });
        }
        self.rest = Rest::Still;
        effects.push(ShardEffect::Report(ShardReport::Quiesced));
    }

    /// Takes a message that comes too late. What is asked is answered, and nothing changes.
    pub(super) fn apply_at_rest(
        &mut self,
        now: Moment,
        message: ShardMessage,
        effects: &mut Vec<ShardEffect>,
    ) {
        match message {
            ShardMessage::Request { id, request, .. } => {
                let reply = match request {
                    ShardRequest::Totals => ShardReply::Totals(Box::new(self.totals())),
                    ShardRequest::Probe => ShardReply::Alive,
                    _ => ShardReply::Restarting,
                };
                effects.push(ShardEffect::Reply { id, reply });
            }
            // The pool is at rest too, and this is its last order.
            ShardMessage::Pool(PoolOrder::Quiesced) => self.rest = Rest::PoolQuiesced,
            // What other shards freed before they came to rest is free or held here.
            ShardMessage::Peer(
                PeerMessage::EvictAlien { .. }
                | PeerMessage::GroupLeased { .. }
                | PeerMessage::GroupEvicted { .. },
            ) => {}
            ShardMessage::Peer(message) => self.take_peer_message(now, message),
            // Orders that crossed the shard's last report. Pages that are granted now stay unused:
            // the handoff says which ranges are used, not whose the pages are.
            ShardMessage::Pool(_)
            | ShardMessage::ClientLost(_)
            | ShardMessage::Continue
            | ShardMessage::Tick
            | ShardMessage::Quiesce { .. } => {}
        }
        if self.rest == Rest::PoolQuiesced && self.peers_at_rest + 1 == self.config.route.shards() {
            self.rest = Rest::Complete;
            effects.push(ShardEffect::AtRest);
        }
    }

    /// What may still be written or read on a lost segment that is not swept yet.
    ///
    /// In one go, since nobody waits for this shard any more: what was asked is answered, and what comes
    /// is refused when it is at rest. It looks at each range that the sweep has not come to, so at most
    /// once at each of the shard's, as the export does afterwards, with less to do for each. Only a store
    /// that was lost just before the drain leaves any.
    fn remnants(&mut self, now: Moment, index: SegmentIndex) -> Vec<Remnant> {
        let mut remnants = std::mem::take(&mut self.segments.at_mut(index).remnants);
        self.walk(index, |range, state| {
            if let Some(until) = self.in_use_until(range, state).filter(|until| *until > now) {
                remnants.push(Remnant {
                    offset_bytes: self.ledger.ranges().offset_bytes(range),
                    length_bytes: self.ledger.ranges().length_bytes(range),
                    until,
                });
            }
            ControlFlow::Continue(())
        });
        for range in self.ledger.ranges().aliens(index) {
            let until = self.ledger.objects().lease_until(self.ledger.owner(range));
            if until > now {
                remnants.push(Remnant {
                    offset_bytes: self.ledger.ranges().offset_bytes(range),
                    length_bytes: self.ledger.ranges().length_bytes(range),
                    until,
                });
            }
        }
        remnants
    }

    /// Until when someone may write or read a range.
    fn in_use_until(&self, range: RangeHandle, state: RangeState) -> Option<Moment> {
        match state {
            RangeState::Held => Some(self.ledger.held_until(range)),
            RangeState::Used => {
                let object = self.ledger.owner(range);
                Some(match self.put_of(object) {
                    Some(put) => put.started.after_ms(self.config.put_release_timeout_ms),
                    None => self.ledger.objects().lease_until(object),
                })
            }
            _ => None,
        }
    }

    /// Every range on a segment, in order of offset.
    fn walk(
        &self,
        index: SegmentIndex,
        visit: impl FnMut(RangeHandle, RangeState) -> ControlFlow<()>,
    ) {
        self.walk_from(index, None, visit);
    }

    /// The same from an occupied range on.
    pub(super) fn walk_from(
        &self,
        index: SegmentIndex,
        from: Option<RangeHandle>,
        visit: impl FnMut(RangeHandle, RangeState) -> ControlFlow<()>,
    ) {
        let segment = self.segments.at(index);
        let pages = segment.capacity_bytes / u64::from(segment.page_bytes);
        let whole = PageRun::new(0, u32::try_from(pages).unwrap_or(u32::MAX));
        self.ledger.ranges().walk_window(index, whole, from, visit);
    }

    /// Hands over every range on the given mounts, which stand in the order of the pool's record.
    /// The shard must be at rest.
    ///
    /// # Errors
    /// The first that the sink reports, or that not everything was found; what it took so far must not
    /// be used.
    pub fn export(
        &self,
        now: Moment,
        mounts: &[Mount],
        sink: &mut dyn RecordSink,
    ) -> Result<ShardRecord, ExportError> {
        let mut export = self.begin_export(now, mounts);
        let mut taken = Ok(());
        self.survey(mounts, |place, passed| {
            taken = export.take(place, passed, sink);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        taken.and_then(|()| export.end())
    }

    /// An export of the given mounts, which takes what a [`survey`](Self::survey) of the same finds.
    pub(super) fn begin_export(&self, now: Moment, mounts: &[Mount]) -> Export<'_> {
        Export {
            shard: self,
            now,
            record: ShardRecord { next_sequence: self.next_sequence, ..ShardRecord::default() },
            ordinals: HashMap::new(),
            places: mounts.iter().zip(0..).map(|(mount, place)| (*mount, place)).collect(),
            mounts: mounts.to_vec(),
            place: None,
            found_ranges: 0,
            ended_mounts: 0,
            aliens: Vec::new(),
        }
    }

    /// Finds what an export on the same mounts takes: visits the ranges of each in its order, many at
    /// a time, and none at the end of each, until `visit` breaks off. The first number is the place
    /// of the mount.
    pub(super) fn survey(
        &self,
        mounts: &[Mount],
        mut visit: impl FnMut(u32, &[Passed]) -> ControlFlow<()>,
    ) {
        for (mount, place) in mounts.iter().zip(0..) {
            let Some(index) = self.export_index(mount) else { continue };
            let mut outcome = ControlFlow::Continue(());
            self.ledger.ranges().survey(index, |passed| {
                outcome = visit(place, passed);
                outcome
            });
            if outcome.is_break() || visit(place, &[]).is_break() {
                return;
            }
        }
    }

    /// Where a mount is that is handed over.
    fn export_index(&self, mount: &Mount) -> Option<SegmentIndex> {
        let index = SegmentIndex(mount.slot.0);
        self.segments.get(index).filter(|segment| segment.mount == *mount).map(|_| index)
    }

    /// The alien ranges on a mount, the first of them last.
    fn aliens_of(&self, index: SegmentIndex) -> Vec<RangeHandle> {
        let ranges = self.ledger.ranges();
        let mut aliens: Vec<RangeHandle> = ranges.aliens(index).collect();
        aliens.sort_unstable_by_key(|range| std::cmp::Reverse(ranges.offset_bytes(*range)));
        aliens
    }
}

/// An export under way: it takes what a survey finds.
pub(super) struct Export<'a> {
    shard: &'a Shard,
    now: Moment,
    record: ShardRecord,
    /// Of objects with several replicas.
    ordinals: HashMap<ObjectHandle, u64>,
    places: HashMap<Mount, u32>,
    mounts: Vec<Mount>,
    /// Of the mount that it is at.
    place: Option<u32>,
    /// On that mount, so far.
    found_ranges: u64,
    /// Mounts of which all was found.
    ended_mounts: usize,
    /// Those on it that are still to come, the next one last.
    aliens: Vec<RangeHandle>,
}

impl Export<'_> {
    /// Takes the next ranges on a mount, or its end, as a survey shows them.
    ///
    /// # Errors
    /// What the sink reports, or that a mount ends before all of its ranges were found; what it took
    /// so far must not be used.
    pub(super) fn take(
        &mut self,
        place: u32,
        passed: &[Passed],
        sink: &mut dyn RecordSink,
    ) -> Result<(), ExportError> {
        if self.place != Some(place) {
            let mount = &self.mounts[place as usize];
            self.aliens =
                self.shard.export_index(mount).map_or_else(Vec::new, |at| self.shard.aliens_of(at));
            self.record.aliens += self.aliens.len() as u64;
            self.found_ranges = 0;
            self.place = Some(place);
        }
        self.found_ranges += passed.len() as u64;
        if passed.is_empty() {
            self.end_mount(place)?;
            self.aliens_below(place, u64::MAX, sink)
        } else {
            self.ranges(place, passed, sink)
        }
    }

    /// A survey that has lost its way, or has died, would leave objects and holds out, and free space
    /// is what these leave.
    fn end_mount(&mut self, place: u32) -> Result<(), ExportError> {
        let mount = self.mounts[place as usize];
        let at = self.shard.export_index(&mount);
        let ranges = at.map_or(0, |at| self.shard.ledger.ranges().occupied_ranges(at));
        if self.found_ranges != ranges {
            let found = self.found_ranges;
            let text = format!("{found} of {ranges} ranges of {mount:?} were found");
            return Err(ExportError::Incomplete(text));
        }
        self.ended_mounts += 1;
        Ok(())
    }

    /// What was taken in all.
    ///
    /// # Errors
    /// When not each mount has ended.
    pub(super) fn end(self) -> Result<ShardRecord, ExportError> {
        let known = |mount: &&Mount| self.shard.export_index(mount).is_some();
        let (ended, mounts) = (self.ended_mounts, self.mounts.iter().filter(known).count());
        if ended == mounts {
            return Ok(self.record);
        }
        Err(ExportError::Incomplete(format!("{ended} of {mounts} mounts were gone through")))
    }

    /// The next ranges in order. Records and keys lie in the order in which objects came, not in that
    /// of their ranges, so most of them are out of the cache: they are asked for well before their
    /// turn, first the record, which tells where the key is.
    fn ranges(
        &mut self,
        place: u32,
        passed: &[Passed],
        sink: &mut dyn RecordSink,
    ) -> Result<(), ExportError> {
        let ledger = &self.shard.ledger;
        let fetch_record = |range: &Passed| {
            if range.state == RangeState::Used {
                ledger.objects().prefetch(ObjectHandle(range.owner));
            }
        };
        let fetch_key = |range: &Passed| {
            if range.state == RangeState::Used {
                ledger.prefetch_whole_key(ObjectHandle(range.owner));
            }
        };
        passed.iter().take(2 * AHEAD).for_each(fetch_record);
        passed.iter().take(AHEAD).for_each(fetch_key);
        for (at, range) in passed.iter().enumerate() {
            passed.get(at + 2 * AHEAD).into_iter().for_each(fetch_record);
            passed.get(at + AHEAD).into_iter().for_each(fetch_key);
            if !self.aliens.is_empty() {
                self.aliens_below(place, range.offset_bytes, sink)?;
            }
            self.range(place, range, sink)?;
        }
        Ok(())
    }

    /// The next alien ranges in order, which stand at the end of the list.
    fn aliens_below(
        &mut self,
        place: u32,
        offset_bytes: u64,
        sink: &mut dyn RecordSink,
    ) -> Result<(), ExportError> {
        let ranges = self.shard.ledger.ranges();
        while let Some(alien) =
            self.aliens.pop_if(|range| ranges.offset_bytes(*range) < offset_bytes)
        {
            self.range(place, &ranges.passed(alien), sink)?;
        }
        Ok(())
    }

    fn range(
        &mut self,
        segment: u32,
        range: &Passed,
        sink: &mut dyn RecordSink,
    ) -> Result<(), ExportError> {
        let ledger = &self.shard.ledger;
        let place = RangePlace { segment, offset_bytes: range.offset_bytes };
        if range.state == RangeState::Used
            && ledger.objects().state(ObjectHandle(range.owner)) == ObjectState::Readable
        {
            return self.object(place, range, sink);
        }
        let Some(until) = self.shard.in_use_until(range.range, range.state) else { return Ok(()) };
        let left_ms = until.since_ms(self.now);
        if left_ms == 0 {
            return Ok(());
        }
        self.record.holds += 1;
        let length_bytes = ledger.ranges().length_bytes(range.range);
        sink.range(&RangeRecord::Hold { place, length_bytes, left_ms })
    }

    /// How many replicas of an object lie on segments that are handed over.
    fn handed_over_replicas(&self, range: &Passed) -> usize {
        let ledger = &self.shard.ledger;
        let object = ObjectHandle(range.owner);
        if range.sibling.is_none() && ledger.first_range(object) == range.range {
            return 1;
        }
        let handed_over = |range: &RangeHandle| {
            let segment = self.shard.segments.at(ledger.ranges().segment(*range));
            self.places.contains_key(&segment.mount)
        };
        ledger.replicas(object).filter(handed_over).count()
    }

    fn object(
        &mut self,
        place: RangePlace,
        range: &Passed,
        sink: &mut dyn RecordSink,
    ) -> Result<(), ExportError> {
        let object = ObjectHandle(range.owner);
        if !self.ordinals.is_empty()
            && let Some(&ordinal) = self.ordinals.get(&object)
        {
            return sink.range(&RangeRecord::Replica { place, ordinal });
        }
        let shard = self.shard;
        let objects = shard.ledger.objects();
        let replicas = self.handed_over_replicas(range);
        if replicas > 1 {
            self.ordinals.insert(object, self.record.objects);
        }
        self.record.objects += 1;
        let lease_until = objects.lease_until(object);
        let flags = objects.flags(object);
        sink.range(&RangeRecord::Object(ObjectRecord {
            place,
            replicas: u8::try_from(replicas).expect("an object has at most 8 replicas"),
            key: shard.ledger.key(object),
            size_bytes: objects.size_bytes(object),
            sequence: objects.sequence(object),
            lease_left_ms: lease_until.since_ms(self.now),
            // The lease that a restart gives is no access: the idle time before it goes on after it.
            idle_ms: objects
                .idle_class(object)
                .as_ms()
                .saturating_add(self.now.since_ms(lease_until)),
            reused: objects.reused(object),
            hard_pin: flags.hard_pin,
            soft_pin_left_ms: shard
                .soft_pins
                .until(object)
                .map(|until| until.since_ms(self.now))
                .filter(|left_ms| flags.soft_pin && *left_ms > 0),
            side: shard.ledger.side_record(object),
        }))
    }
}

/// So many ranges before its turn the key of an object is asked for, and twice as many before it the
/// record: longer than the memory takes, and few enough to stay in the first cache.
const AHEAD: usize = 12;
