//! The shard as a plain struct: messages in, effects out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::config::ShardConfig;
use super::export::Rest;
use super::ledger::Ledger;
use super::message::{ShardEffect, ShardMessage, ShardReply, ShardRequest, ShardTotals};
use super::park::Parked;
use super::put::Starts;
use super::remove::Sweep;
use super::segments::Segments;
use super::unfinished::Unfinished;
use super::upsert::Mode;
use super::vacate::WindowJob;
use crate::invariant::Violation;
use crate::moment::Moment;
use crate::pool::message::{Mount, PoolOrder};
use crate::request::RequestId;

/// One shard.
///
/// [`Shard::apply`] is the only way in. What follows from a message stands in the effects, in the
/// order in which it has to be carried out.
#[derive(Debug)]
pub struct Shard {
    pub(super) config: ShardConfig,
    pub(super) ledger: Ledger,
    pub(super) segments: Segments,
    pub(super) unfinished: Unfinished,
    pub(super) soft_pins: super::pins::SoftPins,
    pub(super) reuse: super::reuse::Reuse,
    /// Evictions of which what is learnt of reuse knows.
    evicted_before: u64,
    pub(super) parked: Parked,
    pub(super) sweeps: VecDeque<Sweep>,
    pub(super) counters: ShardTotals,
    pub(super) next_sequence: u64,
    /// By then every hold and lease that the master before has handed over is over.
    pub(super) handed_over_until: Moment,
    pub(super) dice: super::choice::Dice,
    /// Room was made since parked puts were last tried.
    pub(super) room_made: bool,
    /// A `Continue` is on its way.
    continue_asked: bool,
    pub(super) rest: Rest,
    /// Other shards that have said their last word.
    pub(super) peers_at_rest: u16,
    /// Hints on groups that other shards were given since the last tick.
    pub(super) hints: usize,
    /// What was found broken since the last message.
    pub(super) broken: Vec<Violation>,
}

impl Shard {
    /// An empty shard.
    pub fn new(config: ShardConfig) -> Shard {
        Shard {
            config,
            ledger: Ledger::new(config.route, config.lease_ttl_ms),
            segments: Segments::default(),
            unfinished: Unfinished::default(),
            soft_pins: super::pins::SoftPins::default(),
            reuse: super::reuse::Reuse::new(config.eviction_policy),
            evicted_before: 0,
            parked: Parked::default(),
            sweeps: VecDeque::new(),
            counters: ShardTotals::default(),
            next_sequence: u64::from(config.shard.0),
            handed_over_until: Moment::default(),
            dice: super::choice::Dice::new(config.route.hash(&config.shard.0.to_le_bytes()).0),
            room_made: false,
            continue_asked: false,
            rest: Rest::default(),
            peers_at_rest: 0,
            hints: 0,
            broken: Vec::new(),
        }
    }

    /// Takes a message and appends what follows from it.
    pub fn apply(&mut self, now: Moment, message: ShardMessage, effects: &mut Vec<ShardEffect>) {
        if self.rest != Rest::Working {
            self.apply_at_rest(now, message, effects);
            return;
        }
        match message {
            ShardMessage::Request { id, deadline, request } => {
                self.request(now, id, deadline, request, effects);
            }
            ShardMessage::Peer(message) => self.take_peer_message(now, message),
            ShardMessage::Quiesce { hands_over } => {
                self.come_to_rest(now, hands_over, effects);
                return;
            }
            ShardMessage::Pool(order) => self.order(now, order, effects),
            ShardMessage::ClientLost(client) => self.refuse_parked_of(client, effects),
            ShardMessage::Continue => {
                self.continue_asked = false;
                self.slice(now, effects);
            }
            ShardMessage::Tick => self.tick(now, effects),
        }
        if self.room_made {
            self.room_made = false;
            self.resume_parked(now, effects);
        }
        self.tell_peers(effects);
        effects.extend(self.broken.drain(..).map(ShardEffect::Broken));
        self.report_usage(Urgency::Large, effects);
        if !self.continue_asked && self.work_left() {
            self.continue_asked = true;
            effects.push(ShardEffect::Continue);
        }
    }

    fn request(
        &mut self,
        now: Moment,
        id: RequestId,
        deadline: Option<Moment>,
        request: ShardRequest,
        effects: &mut Vec<ShardEffect>,
    ) {
        let reply = match request {
            ShardRequest::PutStart { client, options, extras, batch, puts } => {
                let (options, batch, puts) = (&options, &batch, &*puts);
                let (mode, extras) = (Mode::Put, extras.as_deref());
                let starts = Starts { client, options, mode, extras, batch, puts };
                self.start_puts(now, id, deadline, &starts, effects);
                return;
            }
            ShardRequest::UpsertStart { client, options, extras, batch, puts } => {
                let (options, batch, puts) = (&options, &batch, &*puts);
                let (mode, extras) = (Mode::Upsert, extras.as_deref());
                let starts = Starts { client, options, mode, extras, batch, puts };
                self.start_puts(now, id, deadline, &starts, effects);
                return;
            }
            ShardRequest::RemoveAll { force } => {
                self.sweeps.push_back(Sweep::all(id, force));
                return;
            }
            ShardRequest::PutEnd { incarnation, batch, sequences } => {
                ShardReply::Done(self.end_puts(now, incarnation, &batch, &sequences))
            }
            ShardRequest::PutRevoke { incarnation, no_write_in_flight, batch, sequences } => {
                ShardReply::Done(self.revoke_puts(
                    now,
                    incarnation,
                    no_write_in_flight,
                    &batch,
                    &sequences,
                ))
            }
            ShardRequest::Get { batch } => ShardReply::Located(self.locate(now, &batch)),
            ShardRequest::Exist { lease, batch } => {
                ShardReply::Existing(self.exist(now, lease, &batch))
            }
            ShardRequest::Validate { incarnation, batch, sequences } => {
                ShardReply::Done(self.validate(incarnation, &batch, &sequences))
            }
            ShardRequest::Remove { force, batch } => {
                ShardReply::Done(self.remove(now, force, &batch))
            }
            ShardRequest::EndByWriter { client, batch, checksums } => {
                ShardReply::Done(self.end_by_writer(now, client, &batch, &checksums))
            }
            ShardRequest::RevokeByWriter { client, batch } => {
                ShardReply::Done(self.revoke_by_writer(now, client, &batch))
            }
            ShardRequest::RemoveByWriter { client, mounts, batch } => {
                ShardReply::Done(self.remove_by_writer(now, client, mounts.as_deref(), &batch))
            }
            ShardRequest::GetDetailed { batch } => {
                ShardReply::Described(self.get_detailed(now, &batch))
            }
            ShardRequest::Peek { batch } => ShardReply::Described(self.peek(now, &batch)),
            ShardRequest::ListKeys { cursor, limit, hidden } => {
                self.list_keys(cursor, limit, hidden)
            }
            ShardRequest::Totals => ShardReply::Totals(Box::new(self.totals())),
            ShardRequest::Probe => ShardReply::Alive,
        };
        effects.push(ShardEffect::Reply { id, reply });
    }

    fn order(&mut self, now: Moment, order: PoolOrder, effects: &mut Vec<ShardEffect>) {
        match order {
            PoolOrder::SegmentMounted {
                mount,
                segment,
                capacity_bytes,
                page_bytes,
                rests_until,
            } => {
                self.mount(mount, segment, capacity_bytes, page_bytes);
                self.start_slowly(now, mount);
                self.let_rest(mount, rests_until);
                self.allow_placing(mount, rests_until.is_none());
            }
            PoolOrder::SegmentPlaceable { mount, placeable } => {
                self.allow_placing(mount, placeable);
            }
            PoolOrder::SegmentOpened { mount, placeable } => {
                self.open_again(mount);
                self.allow_placing(mount, placeable);
            }
            PoolOrder::SegmentLost { mount } => self.lose(mount, effects),
            PoolOrder::Space(spaces) => {
                for space in &spaces {
                    self.segments.take_space(space);
                }
                self.room_made = true;
            }
            PoolOrder::Grant { mount, run } => self.take_span(mount, run),
            PoolOrder::Deny { mount } => self.take_denial(mount, effects),
            PoolOrder::Room { number, mount, run } => self.take_room(number, mount, run),
            PoolOrder::NoRoom { number, space, retry_after_ms } => {
                self.take_no_room(now, number, space, retry_after_ms, effects);
            }
            PoolOrder::Evict { mount, evicted_total_bytes } => {
                self.segments.order_eviction(mount, evicted_total_bytes);
            }
            PoolOrder::GiveBack { mount, pages, run_pages_min } => {
                self.give_back(mount, pages, run_pages_min, effects);
            }
            PoolOrder::Survey { survey, mount, window, chunk_pages } => {
                let job = WindowJob::survey(survey, mount, window, chunk_pages);
                self.work_in_window(now, job, effects);
            }
            PoolOrder::Vacate { job, mount, runs } => {
                self.work_in_window(now, WindowJob::vacate(job, mount, runs), effects);
            }
            PoolOrder::Quiesced => unreachable!("the pool rests after every shard"),
        }
    }

    fn let_rest(&mut self, mount: Mount, until: Option<Moment>) {
        if let Some(segment) = self.segments.of_mount(mount) {
            segment.rests_until = until;
        }
    }

    fn allow_placing(&mut self, mount: Mount, placeable: bool) {
        if let Some(segment) = self.segments.of_mount(mount) {
            let index = segment.index();
            self.segments.set_placeable(index, placeable);
            self.room_made |= placeable;
        }
    }

    /// What time alone changes: leases and holds end, unfinished puts time out, waiting puts are
    /// refused, and what the pool has not been told yet is reported.
    fn tick(&mut self, now: Moment, effects: &mut Vec<ShardEffect>) {
        self.hints = 0;
        self.discard_unfinished(now, TICK_BUDGET);
        self.end_soft_pins(now);
        if self.ledger.release_holds(&mut self.segments, now, TICK_BUDGET) > 0 {
            self.room_made = true;
        }
        for position in 0..self.segments.placeable().len() {
            let index = self.segments.placeable()[position];
            self.ledger.settle_leases(index, now, TICK_BUDGET);
        }
        self.learn_of_evictions();
        if self.ledger.keys_worth_cleaning() {
            self.ledger.clean_keys(CLEAN_BUDGET_BYTES);
        }
        self.refuse_overdue(now, effects);
        if !self.parked.is_empty() {
            self.room_made = true;
        }
        self.return_spare_pages(effects);
        self.report_usage(Urgency::Any, effects);
    }

    /// Tells what learns of reuse how much room there is, if there was too little.
    fn learn_of_evictions(&mut self) {
        if self.counters.evicted_objects == self.evicted_before {
            return;
        }
        self.evicted_before = self.counters.evicted_objects;
        let ranges = self.ledger.ranges();
        let placeable = self.segments.placeable().iter();
        let allocated_bytes = placeable.map(|index| ranges.allocated_bytes(*index)).sum();
        self.reuse.note_full(self.ledger.objects().len(), allocated_bytes);
    }

    /// One slice of each long job.
    fn slice(&mut self, now: Moment, effects: &mut Vec<ShardEffect>) {
        self.evict_ordered(now);
        self.sweep_slice(now, effects);
        self.walk_groups(now);
        if self.ledger.keys_need_cleaning() {
            self.ledger.clean_keys(CLEAN_BUDGET_BYTES);
        }
    }

    fn work_left(&self) -> bool {
        !self.sweeps.is_empty()
            || self.eviction_due()
            || self.ledger.groups().walk().is_some()
            || self.ledger.keys_need_cleaning()
    }

    /// When every hold and lease that the master before has handed over is over. They may last
    /// longer than any of this master, whose settings may be others.
    pub(crate) fn handed_over_until(&self) -> Moment {
        self.handed_over_until
    }

    /// What it was made with.
    pub(crate) fn config(&self) -> &ShardConfig {
        &self.config
    }

    /// The totals of the shard.
    pub fn totals(&self) -> ShardTotals {
        let mut totals = self.counters.clone();
        totals.objects = self.ledger.objects().len() as u64;
        totals.unfinished = self.unfinished.len() as u64;
        totals.parked = self.parked.len() as u64;
        totals.holds = self.ledger.holds() as u64;
        totals.memory_bytes = (self.ledger.memory_bytes() + self.reuse.memory_bytes()) as u64;
        for segment in self.segments.all() {
            let usage = self.usage(segment);
            totals.allocated_bytes += usage.allocated_bytes + segment.unfinished_bytes;
            totals.held_bytes += usage.held_bytes - segment.unfinished_bytes;
            totals.free_bytes += usage.free_bytes;
            totals.leased_bytes += usage.leased_bytes;
            totals.pinned_bytes += usage.pinned_bytes;
        }
        totals
    }
}

impl Drop for Shard {
    /// Counts: giving a shard back piece by piece takes the longer the more objects it has, so a
    /// process that ends must not do it.
    fn drop(&mut self) {
        SHARDS_DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many shards this process has dropped.
pub fn shards_dropped() -> u64 {
    SHARDS_DROPPED.load(Ordering::Relaxed)
}

static SHARDS_DROPPED: AtomicU64 = AtomicU64::new(0);

/// Which changes of use are worth a report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Those that matter for the pool's decisions before the next tick.
    Large,
    /// All.
    Any,
}

/// Entries that one tick moves from each list, about 100 µs of work.
const TICK_BUDGET: usize = 1024;

/// Bytes of keys that one step of cleaning moves: about 600 keys, some tens of microseconds.
const CLEAN_BUDGET_BYTES: usize = 64 << 10;
