//! The world of one run: virtual time, the lanes between everybody, and the order of events.
//!
//! Messages of one sender to one receiver arrive in order; between lanes the order is drawn.

use std::collections::{BTreeMap, HashMap, VecDeque};

use mooring_actors::clients::ClientsMessage;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::{PoolMessage, PoolOrder, PoolReply, PoolRequest};
use mooring_actors::shard::message::{ShardMessage, ShardRequest};
use mooring_actors::{Moment, RequestId, ShardId};
use mooring_proto::ClientId;
use mooring_proto::message::object::Located;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::asked::Asked;
use crate::audit::Audit;
use crate::client::{Client, Put};
use crate::cluster::{Answer, Cluster, Envelope, TICK_MS, mount};
use crate::keeper::Store;
use crate::oracle::{Heard, Oracle};
use crate::plan::{Canary, Plan};
use crate::store::{Memories, Memory};

/// Everything of one run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) dice: SmallRng,
    pub(crate) cluster: Cluster,
    pub(crate) memories: Memories,
    pub(crate) stores: Vec<Store>,
    pub(crate) clients: Vec<Client>,
    pub(crate) puts: Vec<Put>,
    /// Where readers were told that objects lie.
    pub(crate) locations: Vec<Located>,
    pub(crate) oracle: Oracle,
    pub(crate) audit: Audit,
    /// Clients start nothing more and nothing breaks any more.
    pub(crate) calm: bool,
    /// Stores mount nothing more.
    pub(crate) ends_mounting: bool,
    /// Nobody asks anything any more.
    pub(crate) stopped: bool,
    /// A request whose answer is kept.
    pub(crate) watched: Option<RequestId>,
    pub(crate) watched_answer: Option<Answer>,
    agenda: BTreeMap<(u64, u32, u64), Event>,
    lanes: BTreeMap<(End, End), Lane>,
    pending: HashMap<RequestId, Asked>,
    heard: HashMap<RequestId, Moment>,
    /// The request that is at its receiver.
    at_hand: Option<RequestId>,
    arrivals: HashMap<RequestId, (Asked, Answer)>,
    known_epoch: u64,
    last_event: u64,
    last_client: u128,
    delivered: u64,
}

/// Who sends and who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Clock,
    Client(u128),
    Clients,
    Pool,
    Shard(ShardId),
}

#[derive(Debug, Default)]
struct Lane {
    messages: VecDeque<Envelope>,
    last_due_ms: u64,
}

/// Something that happens at its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Deliver(End, End),
    Tick,
    Arrive(RequestId),
    ClientStep(usize),
    Write {
        put: usize,
        replica: usize,
        from_byte: u64,
        length_bytes: u64,
    },
    Conclude {
        put: usize,
    },
    /// A reader reads; `late` when its lease may be over by then.
    Read {
        client: usize,
        key: u32,
        location: usize,
        late: bool,
    },
    Ping(usize),
    ClientPing(usize),
    StoreStep(usize),
    StoreReturns(usize),
}

impl World {
    pub(crate) fn new(plan: Plan, traced: bool) -> World {
        let mut dice = SmallRng::seed_from_u64(plan.seed ^ WORLD_SALT);
        let cluster = Cluster::with(plan.shards, plan.settings.clone());
        let mut world = World {
            oracle: Oracle::new(&plan.settings),
            dice: SmallRng::seed_from_u64(dice.random()),
            cluster,
            memories: Memories::default(),
            stores: Vec::new(),
            clients: Vec::new(),
            puts: Vec::new(),
            locations: Vec::new(),
            audit: Audit::new(traced),
            calm: false,
            ends_mounting: false,
            stopped: false,
            watched: None,
            watched_answer: None,
            agenda: BTreeMap::new(),
            lanes: BTreeMap::new(),
            pending: HashMap::new(),
            heard: HashMap::new(),
            at_hand: None,
            arrivals: HashMap::new(),
            known_epoch: 0,
            last_event: 0,
            last_client: 0,
            delivered: 0,
            plan,
        };
        // What is to be checked is decided here: the harness would do it after each message.
        world.cluster.checked = false;
        world.populate();
        world
    }

    fn populate(&mut self) {
        for (number, store) in self.plan.stores.clone().into_iter().enumerate() {
            let process = self.new_client_id();
            let base = 0x1000_0000 * (number as u64 + 1) + 64 * self.dice.random_range(0..100);
            let memory = Memory::new(base, store.memory_bytes, process, store.checks_mounts);
            self.memories.all.push(memory);
            let segments = self.divide(base, store.memory_bytes, store.segments);
            self.stores.push(Store::new(process, segments));
            self.at(0, Event::StoreStep(number));
            self.at(10, Event::Ping(number));
        }
        for number in 0..self.plan.clients {
            let id = self.new_client_id();
            self.clients.push(Client { id });
            self.at(20 + number as u64, Event::ClientPing(number));
            self.at(50, Event::ClientStep(number));
        }
        self.at(0, Event::Tick);
    }

    /// Lets everything happen that is due before a moment.
    pub(crate) fn run_until(&mut self, until: Moment) -> Result<(), Violation> {
        while let Some(entry) = self.agenda.first_entry() {
            let at_ms = entry.key().0;
            if at_ms >= until.as_ms() {
                break;
            }
            let event = entry.remove();
            self.cluster.now = Moment::from_ms(at_ms);
            self.handle(event)?;
        }
        self.cluster.now = self.cluster.now.max(until);
        Ok(())
    }

    pub(crate) fn run_for(&mut self, ms: u64) -> Result<(), Violation> {
        self.run_until(self.now().after_ms(ms))
    }

    pub(crate) fn now(&self) -> Moment {
        self.cluster.now
    }

    /// Puts an event on the agenda, this many milliseconds from now.
    pub(crate) fn at(&mut self, delay_ms: u64, event: Event) {
        self.last_event += 1;
        let due_ms = self.cluster.now.as_ms() + delay_ms;
        let key = (due_ms, self.dice.random(), self.last_event);
        self.agenda.insert(key, event);
    }

    pub(crate) fn new_client_id(&mut self) -> ClientId {
        self.last_client += 1;
        ClientId(self.last_client)
    }

    /// Sends a request to a shard.
    pub(crate) fn ask_shard(
        &mut self,
        from: ClientId,
        shard: ShardId,
        request: ShardRequest,
        asked: Asked,
    ) -> RequestId {
        let deadline = self.dice.random_bool(0.1).then(|| self.now().after_ms(500));
        let id = self.pend(asked);
        let message = ShardMessage::Request { id, deadline, request };
        self.post(End::Client(from.0), Envelope::ToShard(shard, message));
        id
    }

    /// Sends a request to the pool.
    pub(crate) fn ask_pool(&mut self, from: ClientId, request: PoolRequest, asked: Asked) {
        let id = self.pend(asked);
        let message = PoolMessage::Request { id, request };
        self.post(End::Client(from.0), Envelope::ToPool(message));
    }

    /// Sends a ping.
    pub(crate) fn ping(&mut self, from: ClientId, mounted_segments: u32, store: Option<usize>) {
        let id = self.pend(Asked::Ping { store, process: from });
        let ping = ClientsMessage::Ping { id, client: from, mounted_segments };
        self.post(End::Client(from.0), Envelope::ToClients(ping));
    }

    fn pend(&mut self, asked: Asked) -> RequestId {
        let id = self.cluster.ticket();
        self.pending.insert(id, asked);
        id
    }

    fn post(&mut self, from: End, envelope: Envelope) {
        if self.plan.canary == Some(Canary::LostRequests)
            && matches!(from, End::Client(_))
            && self.dice.random_bool(0.001)
        {
            return;
        }
        let to = receiver(&envelope);
        let delay_ms = self.draw_delay();
        let due_ms = self.cluster.now.as_ms() + delay_ms;
        let lane = self.lanes.entry((from, to)).or_default();
        lane.last_due_ms = lane.last_due_ms.max(due_ms);
        lane.messages.push_back(envelope);
        let delay_ms = lane.last_due_ms - self.cluster.now.as_ms();
        self.at(delay_ms, Event::Deliver(from, to));
    }

    /// Most messages arrive in the same millisecond, a few much later.
    fn draw_delay(&mut self) -> u64 {
        match self.dice.random_range(0..1_000) {
            0..600 => 0,
            600..900 => self.dice.random_range(0..=2),
            900..995 => self.dice.random_range(0..=20),
            _ => self.dice.random_range(0..=250),
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Deliver(from, to) => self.deliver(from, to)?,
            Event::Tick => self.tick()?,
            Event::Arrive(id) => {
                if let Some((asked, answer)) = self.arrivals.remove(&id) {
                    self.audit.note(self.cluster.now, "answer", &(id, &answer));
                    if self.watched == Some(id) {
                        self.watched_answer = Some(answer);
                    } else {
                        self.arrive(asked, answer)?;
                    }
                }
            }
            Event::ClientStep(client) => self.client_step(client),
            Event::Write { put, replica, from_byte, length_bytes } => {
                self.write(put, replica, from_byte, length_bytes);
            }
            Event::Conclude { put } => self.conclude(put),
            Event::Read { client, key, location, late } => {
                self.read(client, key, location, late)?;
            }
            Event::Ping(store) => self.store_ping(store),
            Event::ClientPing(client) => self.client_ping(client),
            Event::StoreStep(store) => self.store_step(store),
            Event::StoreReturns(store) => self.store_returns(store),
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Violation> {
        self.at(TICK_MS, Event::Tick);
        self.post(End::Clock, Envelope::ToPool(PoolMessage::Tick));
        self.post(End::Clock, Envelope::ToClients(ClientsMessage::Tick));
        for number in 0..self.plan.shards {
            self.post(End::Clock, Envelope::ToShard(ShardId(number), ShardMessage::Tick));
        }
        if let Some((id, sent)) = self.cluster.open.first_key_value()
            && self.now().since_ms(*sent) > ANSWER_MS_MAX
        {
            let asked = self.pending.get(id);
            let fault = format!("{asked:?} was asked at {sent:?} and has no answer");
            return Err(Invariant::Answered.violated(fault));
        }
        Ok(())
    }

    fn deliver(&mut self, from: End, to: End) -> Result<(), Violation> {
        let lane = self.lanes.get_mut(&(from, to)).expect("an event has its lane");
        let Some(envelope) = lane.messages.pop_front() else { return Ok(()) };
        let now = self.cluster.now;
        let is_tick = matches!(
            envelope,
            Envelope::ToShard(_, ShardMessage::Tick)
                | Envelope::ToPool(PoolMessage::Tick)
                | Envelope::ToClients(ClientsMessage::Tick)
        );
        self.audit.note(now, if is_tick { "tick" } else { "message" }, &(from, &envelope));
        self.at_hand = None;
        if let Envelope::ToShard(shard, message) = &envelope {
            self.note_for_oracle(*shard, message);
        }
        if self.plan.canary == Some(Canary::EarlyTicks) && is_tick {
            self.cluster.now = now.after_ms(self.plan.settings.put_release_timeout_ms);
        }
        self.cluster.queue.push_front(envelope);
        self.cluster.deliver(0);
        self.cluster.now = now;
        while let Some(envelope) = self.cluster.queue.pop_front() {
            self.post(to, envelope);
        }
        self.learn_table();
        self.take_answers(to)?;
        self.delivered += 1;
        if self.delivered.is_multiple_of(CHECK_PERIOD) {
            self.check()?;
        }
        Ok(())
    }

    fn note_for_oracle(&mut self, shard: ShardId, message: &ShardMessage) {
        match message {
            ShardMessage::Pool(PoolOrder::SegmentLost { mount }) => self.oracle.lost(shard, *mount),
            ShardMessage::Request { id, request, .. } => {
                self.at_hand = Some(*id);
                self.heard.insert(*id, self.cluster.now);
                if let ShardRequest::RemoveAll { .. } = request {
                    *self.oracle.sweeps.entry(shard).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn learn_table(&mut self) {
        if self.cluster.pool.epoch() != self.known_epoch {
            self.known_epoch = self.cluster.pool.epoch();
            for entry in self.cluster.pool.table() {
                self.memories.learn(&entry);
            }
        }
    }

    /// Judges the answers that have come of a message and sends them on their way.
    fn take_answers(&mut self, from: End) -> Result<(), Violation> {
        let mut answers: Vec<_> = self.cluster.answers.drain().collect();
        // A request is answered before the room that it made is given to those that wait.
        answers.sort_by_key(|(id, _)| (self.at_hand != Some(*id), *id));
        for (id, answer) in answers {
            let Some(asked) = self.pending.remove(&id) else {
                return Err(Invariant::Answered.violated(format!("{id:?} was never asked")));
            };
            if let (End::Shard(shard), Answer::Shard(reply)) = (from, &answer) {
                let now = self.cluster.now;
                let since = self.heard.remove(&id).unwrap_or(now);
                let heard = Heard { since, at_once: self.at_hand == Some(id) };
                self.oracle.judge(now, shard, heard, &asked, reply, &self.memories)?;
            }
            if let (
                Asked::Remount { process, .. },
                Answer::Pool(PoolReply::Remounted(Ok(grants))),
            ) = (&asked, &answer)
            {
                let segments = grants.len() as u32;
                let remounted = ClientsMessage::Remounted { client: *process, segments };
                self.post(End::Pool, Envelope::ToClients(remounted));
            }
            self.arrivals.insert(id, (asked, answer));
            let delay_ms = self.draw_delay();
            self.at(delay_ms, Event::Arrive(id));
        }
        Ok(())
    }

    fn arrive(&mut self, asked: Asked, answer: Answer) -> Result<(), Violation> {
        match answer {
            Answer::Shard(reply) => self.shard_answered(asked, reply),
            Answer::Pool(reply) => {
                self.pool_answered(asked, reply);
                Ok(())
            }
            Answer::Ping { need_remount } => {
                self.ping_answered(&asked, need_remount);
                Ok(())
            }
        }
    }

    /// Checks everything that can be checked while messages are under way.
    pub(crate) fn check(&mut self) -> Result<(), Violation> {
        self.cluster.check()?;
        let now = self.cluster.now;
        self.oracle.guards.forget_ended(now);
        for entry in self.cluster.pool.table() {
            let mount = mount(entry.slot, entry.generation);
            let Some(place) = self.memories.place(mount) else { continue };
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

    /// Requests that have no answer yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.cluster.open.len() + self.arrivals.len()
    }
}

fn receiver(envelope: &Envelope) -> End {
    match envelope {
        Envelope::ToShard(shard, _) => End::Shard(*shard),
        Envelope::ToPool(_) => End::Pool,
        Envelope::ToClients(_) => End::Clients,
    }
}

/// So that the events of a run are not drawn from the numbers that made its plan.
const WORLD_SALT: u64 = 0x5a17_0f5e_a1ed_5eed;

/// Everything is checked after so many messages; what is cheap, after each.
const CHECK_PERIOD: u64 = 61;

/// A put waits two seconds for space, and each message takes a quarter of a second at most.
const ANSWER_MS_MAX: u64 = 5_000;
