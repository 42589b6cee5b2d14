//! What store processes do with their memory: mount it, keep it alive, fall silent, take parts of
//! it away, die and come back.

use mooring_actors::Moment;
use mooring_actors::pool::message::{Mount, PoolReply, PoolRequest};
use mooring_proto::message::segment::{MountGrant, MountRequest, Segment};
use mooring_proto::{ClientId, Incarnation, SegmentId};
use rand::Rng;

use crate::asked::Asked;
use crate::cluster::mount;
use crate::event::Event;
use crate::plan::Canary;
use crate::store::endpoint;
use crate::world::World;

/// A store process and its segments.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) process: ClientId,
    pub(crate) segments: Vec<Piece>,
    silent_until: Moment,
    /// It does nothing at all.
    hangs_until: Moment,
    /// It has not restarted yet.
    down: bool,
    /// It never comes back.
    pub(crate) retired: bool,
    /// Requests about its segments that are under way: it asks nothing else meanwhile.
    asked: u32,
    /// A remount was refused, and is tried again.
    owes_remount: bool,
    /// It has given up a mount that was not answered, and has mounted nothing since.
    gave_up: bool,
}

/// A part of the memory, mounted as one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) id: SegmentId,
    pub(crate) base: u64,
    pub(crate) size_bytes: u64,
    /// The mount, as far as the store knows.
    pub(crate) mount: Option<Mount>,
    /// The master that it was last mounted with.
    mounted_with: Option<Incarnation>,
    /// It is not to be mounted before.
    resting_until: Moment,
    draining_until: Option<Moment>,
    /// Nobody knows whether it is mounted: a mount was not answered.
    in_doubt: bool,
}

impl Store {
    pub(crate) fn new(process: ClientId, segments: Vec<Piece>) -> Store {
        Store {
            process,
            segments,
            silent_until: Moment::default(),
            hangs_until: Moment::default(),
            down: false,
            retired: false,
            asked: 0,
            owes_remount: false,
            gave_up: false,
        }
    }

    /// Whether it says nothing now.
    fn is_mute(&self, now: Moment) -> bool {
        self.retired || self.down || self.silent_until > now || self.hangs_until > now
    }

    /// Until when it does nothing, if it hangs now.
    pub(crate) fn hangs(&self, now: Moment) -> Option<Moment> {
        Some(self.hangs_until).filter(|until| *until > now)
    }

    /// Whether a request about its segments is under way, or has not been answered.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked > 0 || self.gave_up || self.segments.iter().any(|piece| piece.in_doubt)
    }

    pub(crate) fn segment_ids(&self) -> Vec<SegmentId> {
        self.segments.iter().map(|piece| piece.id).collect()
    }
}

impl World {
    /// Divides memory into segments of random sizes, each of one page of 4 KiB at least.
    pub(crate) fn divide(&mut self, base: u64, size_bytes: u64, count: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut from = base;
        let end = base + size_bytes;
        for left in (1..=count).rev() {
            let fair_bytes = (end - from) / left;
            let size_bytes = if left == 1 {
                end - from
            } else {
                self.dice.random_range(fair_bytes / 2..=fair_bytes) / 64 * 64
            };
            pieces.push(Piece {
                id: SegmentId(self.dice.random()),
                base: from,
                size_bytes,
                mount: None,
                mounted_with: None,
                resting_until: Moment::default(),
                draining_until: None,
                in_doubt: false,
            });
            from += size_bytes;
        }
        pieces
    }

    /// The store mounts what it can, and now and then something breaks.
    pub(crate) fn store_step(&mut self, number: usize) {
        if self.stopped {
            return;
        }
        self.at(STORE_STEP_MS, Event::StoreStep(number));
        let now = self.now();
        let store = &self.stores[number];
        if store.is_mute(now) || store.asked > 0 {
            return;
        }
        if self.finish_drains(number) || self.ends_mounting {
            return;
        }
        let store = &self.stores[number];
        // A store sees by its connection that the master is another one.
        let master = Some(self.cluster.incarnation);
        let knows_another = |piece: &Piece| {
            piece.mount.is_some() && piece.draining_until.is_none() && piece.mounted_with != master
        };
        // After a handoff it is mostly a ping that asks for it before the store has looked.
        let looks = store.owes_remount
            || store.segments.iter().any(knows_another)
                && (self.oracle.tally.cold_starts > 0 || self.dice.random_bool(0.2));
        if looks {
            self.send_remount(number);
            return;
        }
        let store = &self.stores[number];
        let resting =
            |piece: &&Piece| piece.mount.is_none() && (piece.resting_until <= now || self.calm);
        if let Some(piece) = store.segments.iter().find(resting).copied() {
            // What may be mounted is asked for again, as it is.
            let untouched =
                store.segments.iter().all(|piece| piece.mount.is_none() && !piece.in_doubt);
            if untouched && !self.calm && self.dice.random_bool(0.3) {
                self.divide_anew(number);
                return;
            }
            if piece.in_doubt && !self.calm && self.dice.random_bool(0.2) {
                self.give_mount_up(number, piece.id);
                return;
            }
            self.send_mount(number, &piece);
            return;
        }
        let chance = STORE_STEP_MS as f64 / self.plan.fault_pause_ms as f64;
        if !self.calm && self.dice.random_bool(chance.min(1.0)) {
            self.break_something(number);
        }
    }

    /// The same memory in other pieces, under other ids.
    pub(crate) fn divide_anew(&mut self, number: usize) {
        let (base, size_bytes) =
            (self.memories.all[number].base, self.memories.all[number].size_bytes);
        let count = self.dice.random_range(1..=3);
        self.memories.all[number].mounts.clear();
        let mounted_with = self.memories.all[number].mounted_with;
        let mut pieces = self.divide(base, size_bytes, count);
        // One of them is mounted before another, and each was with that master.
        pieces.iter_mut().for_each(|piece| piece.mounted_with = mounted_with);
        self.stores[number].segments = pieces;
    }

    /// The store does not ask again for what may be mounted, and knows nothing of it from now on. It
    /// mounts the same memory under another id when the master has dropped that.
    fn give_mount_up(&mut self, number: usize, segment: SegmentId) {
        let id = SegmentId(self.dice.random());
        self.change(number, segment, |piece| (piece.id, piece.in_doubt) = (id, false));
        self.stores[number].gave_up = true;
        self.oracle.tally.given_up += 1;
    }

    fn send_mount(&mut self, number: usize, piece: &Piece) {
        let process = self.stores[number].process;
        self.stores[number].asked += 1;
        let mount = self.mount_request(number, piece);
        let asked = Asked::Mount { store: number, process, segment: piece.id };
        self.ask_pool(process, PoolRequest::Mount { client: process, mount }, asked);
    }

    fn mount_request(&mut self, number: usize, piece: &Piece) -> MountRequest {
        let memory = &self.memories.all[number];
        let named = piece.mounted_with.or(memory.mounted_with);
        // After a kill nothing but this name lets memory rest that is reached without asking.
        let must_name = !memory.checks_mounts
            && !self.killed.is_empty()
            && self.plan.canary != Some(Canary::UnnamedMasters);
        let mounted_with = match self.dice.random_range(0..20) {
            _ if must_name => named,
            0 if !self.calm => Some(Incarnation(7)),
            1..10 if !self.plan.nameless => named,
            _ => None,
        };
        MountRequest {
            segment: Segment {
                segment: piece.id,
                base: piece.base,
                size_bytes: piece.size_bytes,
                endpoint: endpoint(number),
                certificate_sha256: None,
                transfer_engine: None,
            },
            mounted_with,
        }
    }

    /// Asks for the end of a drain whose time is over. Whether it did.
    fn finish_drains(&mut self, number: usize) -> bool {
        let now = self.now();
        let over = |piece: &&Piece| piece.draining_until.is_some_and(|until| until <= now);
        let Some(piece) = self.stores[number].segments.iter().find(over).copied() else {
            return false;
        };
        self.send_unmount(number, piece.id, 0, true);
        true
    }

    fn send_unmount(&mut self, number: usize, segment: SegmentId, grace_ms: u64, by_owner: bool) {
        let process = self.stores[number].process;
        self.stores[number].asked += 1;
        let client = by_owner.then_some(process);
        let asked = Asked::Unmount { store: number, process, segment, grace_ms };
        self.ask_pool(process, PoolRequest::Unmount { client, segment, grace_ms }, asked);
    }

    fn break_something(&mut self, number: usize) {
        let ttl_ms = self.plan.settings.client_ttl_ms;
        let mounted = |piece: &&Piece| piece.mount.is_some() && piece.draining_until.is_none();
        let piece = self.stores[number].segments.iter().find(mounted).copied();
        match (self.dice.random_range(0..10), piece) {
            (0..2, _) => {
                let silent_ms = self.dice.random_range(ttl_ms..=5 * ttl_ms);
                self.stores[number].silent_until = self.now().after_ms(silent_ms);
            }
            (2, _) => {
                let hung_ms = self.dice.random_range(1..=5 * ttl_ms);
                self.stores[number].hangs_until = self.now().after_ms(hung_ms);
            }
            (3..5, _) => self.crash(number),
            (5..7, Some(piece)) => {
                let by_owner = self.dice.random_bool(0.7);
                self.send_unmount(number, piece.id, 0, by_owner);
            }
            (7, Some(piece)) => {
                let grace_ms = self.dice.random_range(1..=2_000);
                self.send_unmount(number, piece.id, grace_ms, true);
            }
            (8, Some(piece)) => {
                // Somebody else has no say in it.
                let stranger = self.new_client_id();
                let request =
                    PoolRequest::Unmount { client: Some(stranger), segment: piece.id, grace_ms: 0 };
                self.ask_pool(stranger, request, Asked::Other);
            }
            _ => {
                for piece in self.stores[number].segments.clone().iter().filter(mounted) {
                    self.send_unmount(number, piece.id, 0, true);
                }
            }
        }
    }

    /// The process ends, and with it the memory. Another one comes later, at the same endpoint, and
    /// where it asks for each access also at the same address.
    pub(crate) fn crash(&mut self, number: usize) {
        let process = self.new_client_id();
        let memory = &mut self.memories.all[number];
        // Peers that reach memory without asking take what they find at an address they know.
        let stays = memory.checks_mounts || self.plan.canary == Some(Canary::SameAddress);
        memory.restart(process, if stays { memory.base } else { memory.base + MOVE_BYTES });
        self.oracle.guards.clear(number);
        let store = &mut self.stores[number];
        store.process = process;
        store.down = true;
        store.asked = 0;
        store.owes_remount = false;
        store.gave_up = false;
        let back_ms = self.dice.random_range(100..=3 * self.plan.settings.client_ttl_ms);
        self.at(back_ms, Event::StoreReturns(number));
        let count = self.dice.random_range(1..=3);
        let (base, size_bytes) =
            (self.memories.all[number].base, self.memories.all[number].size_bytes);
        self.stores[number].segments = self.divide(base, size_bytes, count);
    }

    pub(crate) fn store_returns(&mut self, number: usize) {
        self.stores[number].down = false;
    }

    pub(crate) fn store_ping(&mut self, number: usize) {
        if self.stopped {
            return;
        }
        self.at(self.plan.settings.client_ttl_ms / 5, Event::Ping(number));
        let store = &self.stores[number];
        if store.is_mute(self.now()) {
            return;
        }
        let mounted = || store.segments.iter().filter(|piece| piece.mount.is_some());
        let kept = mounted().filter(|piece| piece.draining_until.is_none()).map(|piece| piece.id);
        let kept = match self.plan.canary {
            Some(Canary::UntoldMounts) => None,
            _ => Some(kept.collect()),
        };
        self.ping(store.process, mounted().count() as u32, kept, Some(number));
    }

    pub(crate) fn ping_answered(&mut self, asked: &Asked, need_remount: bool) {
        let Asked::Ping { store: Some(number), process } = *asked else { return };
        let store = &self.stores[number];
        if need_remount && store.process == process && store.asked == 0 && !self.ends_mounting {
            self.send_remount(number);
        }
    }

    /// Mounts all that is mounted as far as the store knows.
    pub(crate) fn send_remount(&mut self, number: usize) {
        let process = self.stores[number].process;
        // A store may leave out what it is about to unmount anyway.
        let names_draining = self.dice.random_bool(0.5);
        let pieces: Vec<Piece> = self.stores[number]
            .segments
            .iter()
            .filter(|piece| piece.mount.is_some())
            .filter(|piece| piece.draining_until.is_none() || names_draining)
            .copied()
            .collect();
        self.stores[number].asked += 1;
        let mounts = pieces.iter().map(|piece| self.mount_request(number, piece)).collect();
        let segments = pieces.iter().map(|piece| piece.id).collect();
        let asked = Asked::Remount { store: number, process, segments };
        self.ask_pool(process, PoolRequest::Remount { client: process, mounts }, asked);
    }

    pub(crate) fn pool_answered(&mut self, asked: Asked, reply: PoolReply) {
        match (asked, reply) {
            (Asked::Mount { store, process, segment }, PoolReply::Mounted(result)) => {
                if !self.is_process(store, process) {
                    return;
                }
                self.change(store, segment, |piece| piece.in_doubt = false);
                if let Ok(grant) = result {
                    self.mounted(store, segment, &grant);
                }
            }
            (Asked::Remount { store, process, segments }, PoolReply::Remounted(result)) => {
                if !self.is_process(store, process) {
                    return;
                }
                self.stores[store].owes_remount = result.is_err();
                for (segment, grant) in segments.iter().zip(result.into_iter().flatten()) {
                    self.mounted(store, *segment, &grant);
                }
            }
            (
                Asked::Unmount { store, process, segment, grace_ms },
                PoolReply::Unmounted(result),
            ) => {
                if !self.is_process(store, process) {
                    return;
                }
                match result {
                    Ok(left_ms) if left_ms > 0 => {
                        let until = self.now().after_ms(grace_ms);
                        self.change(store, segment, |piece| piece.draining_until = Some(until));
                    }
                    _ => self.unmounted(store, segment),
                }
            }
            _ => {}
        }
    }

    /// Whether an answer is for this very process; its request is not under way any more.
    pub(crate) fn is_process(&mut self, number: usize, process: ClientId) -> bool {
        let is_it = self.stores[number].process == process;
        self.stores[number].asked -= u32::from(is_it);
        is_it
    }

    fn mounted(&mut self, number: usize, segment: SegmentId, grant: &MountGrant) {
        let mount = mount(grant.slot, grant.generation);
        let mut former = None;
        self.change(number, segment, |piece| {
            former = piece.mount.replace(mount).zip(piece.mounted_with);
            piece.mounted_with = Some(grant.incarnation);
        });
        self.stores[number].gave_up = false;
        let memory = &mut self.memories.all[number];
        if let Some((former, master)) = former {
            memory.mounts.remove(&(master, former));
        }
        memory.mounts.insert((grant.incarnation, mount));
        memory.mounted_with = Some(grant.incarnation);
    }

    fn unmounted(&mut self, number: usize, segment: SegmentId) {
        let mut former = None;
        let resting_until = self.now().after_ms(self.dice.random_range(0..=1_000));
        self.change(number, segment, |piece| {
            former = piece.mount.take().zip(piece.mounted_with);
            piece.draining_until = None;
            piece.resting_until = resting_until;
        });
        if let Some((former, master)) = former {
            self.memories.all[number].mounts.remove(&(master, former));
        }
    }

    /// Nobody knows what became of a mount: the store asks again.
    pub(crate) fn mount_in_doubt(&mut self, number: usize, segment: SegmentId) {
        self.change(number, segment, |piece| piece.in_doubt = true);
    }

    /// Nobody knows what became of an unmount: the store asks again.
    pub(crate) fn unmount_again(&mut self, number: usize, segment: SegmentId) {
        let now = self.now();
        self.change(number, segment, |piece| piece.draining_until = Some(now));
    }

    fn change(&mut self, number: usize, segment: SegmentId, change: impl FnOnce(&mut Piece)) {
        let pieces = &mut self.stores[number].segments;
        if let Some(piece) = pieces.iter_mut().find(|piece| piece.id == segment) {
            change(piece);
        }
    }

    /// The process lives on, but its memory is another one at another address. The ids stay. It never
    /// moves back: other memory at the same address would have other ids, or nothing could tell it.
    pub(crate) fn move_memory(&mut self, number: usize) {
        let former = self.memories.all[number].base;
        let base = former + MOVE_BYTES;
        self.memories.all[number].move_to(base);
        self.oracle.guards.clear(number);
        for piece in &mut self.stores[number].segments {
            piece.base = piece.base - former + base;
        }
    }

    /// Nobody is silent or down any more.
    pub(crate) fn heal_stores(&mut self) {
        for store in &mut self.stores {
            store.silent_until = Moment::default();
            store.hangs_until = Moment::default();
            store.down = false;
        }
    }

    /// Takes all segments away.
    pub(crate) fn unmount_all(&mut self) {
        self.ends_mounting = true;
        for number in 0..self.stores.len() {
            if self.stores[number].retired {
                continue;
            }
            for segment in self.stores[number].segment_ids() {
                self.send_unmount(number, segment, 0, true);
            }
        }
    }
}

/// How far memory moves: beyond the end of the largest one.
const MOVE_BYTES: u64 = 0x200_0000;

/// How often a store looks after its segments.
const STORE_STEP_MS: u64 = 40;
