//! The world of one run: virtual time, the lanes between everybody, and the order of events.
//!
//! Messages of one sender to one receiver arrive in order; between lanes the order is drawn.

use std::collections::BTreeMap;

use mooring_actors::clients::ClientsMessage;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::pool::message::{PoolMessage, PoolOrder, PoolReply};
use mooring_actors::shard::message::{ShardMessage, ShardRequest};
use mooring_actors::{Moment, RequestId, ShardId};
use mooring_proto::message::object::Located;
use mooring_proto::{ClientId, Incarnation};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::agenda::Agenda;
use crate::asked::Asked;
use crate::audit::Audit;
use crate::client::{Client, Put};
use crate::cluster::handoff::Handoff;
use crate::cluster::maps::{HashMap, HashSet};
use crate::cluster::{Answer, Cluster, Envelope, TICK_MS};
use crate::event::{End, Event, Lane};
use crate::keeper::Store;
use crate::keys::KeyBook;
use crate::network::Cuts;
use crate::oracle::{Heard, Oracle};
use crate::plan::{Canary, Plan};
use crate::restart::Life;
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
    /// Where readers were told that objects lie, and by which master.
    pub(crate) locations: Vec<(Located, Incarnation)>,
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
    /// Now, for everybody. The time of a master begins when it begins to serve.
    pub(crate) clock: Moment,
    /// The state of the master, and when it began to serve.
    pub(crate) life: Life,
    pub(crate) began: Moment,
    /// What a master before has handed over; the next one to serve has not begun yet.
    pub(crate) handoff: Option<(Moment, Handoff)>,
    /// Of a planted fault: the first snapshot, and requests that are answered without being done.
    pub(crate) first_handoff: Option<Handoff>,
    pub(crate) spared: HashSet<RequestId>,
    /// Restarts that have begun.
    pub(crate) restarts: usize,
    pub(crate) agenda: Agenda,
    pub(crate) key_book: KeyBook,
    pub(crate) lanes: BTreeMap<(End, End), Lane>,
    /// Requests without an answer, and who has asked.
    pub(crate) pending: HashMap<RequestId, (ClientId, Asked)>,
    /// Those of them whose answer nobody waits for any more.
    pub(crate) given_up: HashSet<RequestId>,
    pub(crate) cuts: Cuts,
    /// Messages that came by ways of their own.
    pub(crate) strays: u64,
    /// The keys of which clients without tokens have a put under way.
    pub(crate) under_way: HashSet<(usize, u32)>,
    /// Masters that were followed by one that knows nothing of them.
    pub(crate) killed: HashSet<Incarnation>,
    /// The master does nothing before.
    pub(crate) stalled_until: Moment,
    /// Whether what the actors hold is checked, besides what they answer.
    pub(crate) checked: bool,
    pub(crate) heard: HashMap<RequestId, Moment>,
    /// The request that is at its receiver.
    at_hand: Option<RequestId>,
    pub(crate) arrivals: HashMap<RequestId, (Asked, Answer)>,
    /// Requests that no master has taken.
    pub(crate) refused: HashMap<RequestId, Asked>,
    pub(crate) known_epoch: Option<u64>,
    last_event: u64,
    last_client: u128,
    delivered: u64,
}

impl World {
    /// The world of a plan. Without `checked` only answers are judged: a second run of the same plan
    /// needs no more, since checking changes nothing.
    pub(crate) fn new(plan: Plan, traced: bool, checked: bool) -> World {
        let mut dice = SmallRng::seed_from_u64(plan.seed ^ WORLD_SALT);
        let cluster = Cluster::with(plan.shards, plan.settings.clone());
        let cluster_began = cluster.now;
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
            clock: cluster_began,
            life: Life::Serving,
            began: Moment::default(),
            handoff: None,
            first_handoff: None,
            spared: HashSet::default(),
            restarts: 0,
            agenda: Agenda::default(),
            key_book: KeyBook::default(),
            lanes: BTreeMap::new(),
            pending: HashMap::default(),
            given_up: HashSet::default(),
            cuts: Cuts::default(),
            strays: 0,
            under_way: HashSet::default(),
            killed: HashSet::default(),
            stalled_until: Moment::default(),
            checked,
            heard: HashMap::default(),
            at_hand: None,
            arrivals: HashMap::default(),
            refused: HashMap::default(),
            known_epoch: None,
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
            let tokenless = number < self.plan.tokenless_clients;
            self.clients.push(Client { id, tokenless });
            self.at(20 + number as u64, Event::ClientPing(number));
            self.at(50, Event::ClientStep(number));
        }
        self.at(0, Event::Tick);
        self.plan_restart();
        self.plan_cut();
        self.plan_stall();
    }

    /// Lets everything happen that is due before a moment.
    pub(crate) fn run_until(&mut self, until: Moment) -> Result<(), Violation> {
        while let Some((at_ms, event)) = self.agenda.pop_before(until.as_ms()) {
            self.set_clock(Moment::from_ms(at_ms));
            self.handle(event)?;
        }
        self.set_clock(self.clock.max(until));
        Ok(())
    }

    pub(crate) fn run_for(&mut self, ms: u64) -> Result<(), Violation> {
        self.run_until(self.now().after_ms(ms))
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock
    }

    fn set_clock(&mut self, now: Moment) {
        self.clock = now;
        self.cluster.now = Moment::from_ms(now.since_ms(self.began));
    }

    /// Puts an event on the agenda, this many milliseconds from now.
    pub(crate) fn at(&mut self, delay_ms: u64, event: Event) {
        self.last_event += 1;
        let due_ms = self.clock.as_ms() + delay_ms;
        let drawn = self.dice.random();
        self.agenda.insert(due_ms, drawn, self.last_event, event);
    }

    pub(crate) fn new_client_id(&mut self) -> ClientId {
        self.last_client += 1;
        ClientId(self.last_client)
    }

    pub(crate) fn post(&mut self, from: End, envelope: Envelope) {
        if self.plan.canary == Some(Canary::LostRequests)
            && matches!(from, End::Client(_) | End::Stray(_))
            && self.dice.random_bool(0.001)
        {
            return;
        }
        let delay_ms = self.draw_delay();
        self.post_later(from, envelope, delay_ms);
    }

    pub(crate) fn post_later(&mut self, from: End, envelope: Envelope, delay_ms: u64) {
        let to = receiver(&envelope);
        let due_ms = self.clock.as_ms() + delay_ms;
        let lane = self.lanes.entry((from, to)).or_default();
        lane.last_due_ms = lane.last_due_ms.max(due_ms);
        lane.messages.push_back(envelope);
        let delay_ms = lane.last_due_ms - self.clock.as_ms();
        self.at(delay_ms, Event::Deliver(from, to));
    }

    /// Most messages arrive in the same millisecond, a few much later.
    pub(crate) fn draw_delay(&mut self) -> u64 {
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
                    self.audit.note(self.clock, "answer", &(id, &answer));
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
            Event::Land { put, replica, from_byte, length_bytes } => {
                self.land(put, replica, from_byte, length_bytes);
            }
            Event::Conclude { put } => self.conclude(put),
            Event::Read { client, key, location, late } => {
                self.read(client, key, location, late)?;
            }
            Event::Ping(store) => self.store_ping(store),
            Event::ClientPing(client) => self.client_ping(client),
            Event::StoreStep(store) => self.store_step(store),
            Event::StoreReturns(store) => self.store_returns(store),
            Event::Refused(id) => {
                if let Some(asked) = self.refused.remove(&id) {
                    self.failed(asked);
                }
            }
            Event::StartAgain { put } => self.start_again(put),
            Event::ConcludeAgain { put, quiet } => self.conclude_again(put, quiet),
            Event::Cut => self.cut(),
            Event::Stall => self.stall(),
            Event::GiveUp(id) => self.give_up(id),
            Event::Leave => self.begin_to_leave()?,
            Event::KillLeaving => self.kill_leaving()?,
            Event::Serve => self.begin_to_serve()?,
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Violation> {
        // Where nothing breaks any more, what is left is waiting for the last deadlines: the master
        // may look at them less often, as often as it has to look after its clients.
        let judged_each_ms = self.plan.settings.client_ttl_ms / 20;
        self.at(if self.calm { judged_each_ms.max(TICK_MS) } else { TICK_MS }, Event::Tick);
        // Of the ticks of a stall one is left.
        if self.life == Life::Down || self.stalled_until > self.clock {
            return Ok(());
        }
        self.post(End::Clock, Envelope::ToPool(PoolMessage::Tick));
        self.post(End::Clock, Envelope::ToClients(ClientsMessage::Tick));
        for number in 0..self.shards() {
            self.post(End::Clock, Envelope::ToShard(ShardId(number), ShardMessage::Tick));
        }
        if let Some((id, sent)) = self.cluster.open.first_key_value()
            && self.cluster.now.since_ms(*sent) > ANSWER_MS_MAX
        {
            let asked = self.pending.get(id);
            let fault = format!("{asked:?} was asked at {sent:?} and has no answer");
            return Err(Invariant::Answered.violated(fault));
        }
        Ok(())
    }

    fn deliver(&mut self, from: End, to: End) -> Result<(), Violation> {
        if self.stalled_until > self.clock {
            self.at(self.stalled_until.since_ms(self.clock), Event::Deliver(from, to));
            return Ok(());
        }
        let lane = self.lanes.get_mut(&(from, to));
        let Some(mut envelope) = lane.and_then(|lane| lane.messages.pop_front()) else {
            return Ok(());
        };
        if matches!(from, End::Stray(_)) {
            self.lanes.remove(&(from, to));
        }
        let now = self.clock;
        let is_tick = matches!(
            envelope,
            Envelope::ToShard(_, ShardMessage::Tick)
                | Envelope::ToPool(PoolMessage::Tick)
                | Envelope::ToClients(ClientsMessage::Tick)
        );
        let what = if is_tick { "tick" } else { "message" };
        self.audit.note(now, what, &(from, &envelope));
        self.spare_hidden(&mut envelope);
        self.at_hand = None;
        if let Envelope::ToShard(shard, message) = &envelope {
            self.note_for_oracle(*shard, message);
        }
        self.cluster.now = self.cluster.now.after_ms(self.early_ms(&envelope, is_tick));
        self.take_for_current(&mut envelope);
        self.cluster.queue.push_front(envelope);
        self.cluster.deliver(0);
        self.set_clock(now);
        while let Some(envelope) = self.cluster.queue.pop_front() {
            self.post(to, envelope);
        }
        self.learn_table();
        self.take_answers(to)?;
        self.delivered += 1;
        // Who looks at a trace wants to see the first message that breaks something.
        if self.audit.is_traced() || self.delivered.is_multiple_of(CHECK_PERIOD) {
            self.check()?;
        }
        self.leave_if_at_rest()
    }

    fn note_for_oracle(&mut self, shard: ShardId, message: &ShardMessage) {
        match message {
            ShardMessage::Pool(PoolOrder::SegmentLost { mount }) => self.oracle.lost(shard, *mount),
            ShardMessage::Pool(PoolOrder::SegmentOpened { mount, .. }) => {
                self.oracle.opened(shard, *mount);
            }
            ShardMessage::Request { id, request, .. } => {
                self.at_hand = Some(*id);
                self.heard.insert(*id, self.clock);
                if let Some((_, Asked::Start { puts, .. })) = self.pending.get(id) {
                    puts.iter().for_each(|put| self.oracle.start_heard(put, self.clock));
                }
                if let ShardRequest::RemoveAll { .. } = request {
                    self.oracle.remove_all_heard(shard);
                }
            }
            _ => {}
        }
    }

    fn learn_table(&mut self) {
        let epoch = Some(self.cluster.pool.epoch());
        if epoch != self.known_epoch {
            self.known_epoch = epoch;
            for entry in self.cluster.pool.table() {
                self.memories.learn(self.cluster.incarnation, &entry);
            }
        }
    }

    /// Judges the answers that have come of a message and sends them on their way.
    fn take_answers(&mut self, from: End) -> Result<(), Violation> {
        let mut answers: Vec<_> = self.cluster.answers.drain().collect();
        // A request is answered before the room that it made is given to those that wait.
        answers.sort_by_key(|(id, _)| (self.at_hand != Some(*id), *id));
        for (id, mut answer) in answers {
            self.disguise(id, &mut answer);
            self.number_puts(&mut answer);
            let Some((asker, asked)) = self.pending.remove(&id) else {
                return Err(Invariant::Answered.violated(format!("{id:?} was never asked")));
            };
            if let (End::Shard(shard), Answer::Shard(reply)) = (from, &answer) {
                let now = self.clock;
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
            if let Some(asked) = self.send_answer(asker, id, asked) {
                self.arrivals.insert(id, (asked, answer));
                let delay_ms = self.draw_delay();
                self.at(delay_ms, Event::Arrive(id));
            }
        }
        Ok(())
    }

    pub(crate) fn arrive(&mut self, asked: Asked, answer: Answer) -> Result<(), Violation> {
        match answer {
            Answer::Shard(reply) => self.shard_answered(asked, reply, self.cluster.incarnation),
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

    /// Requests that have no answer yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.cluster.open.len() + self.arrivals.len()
    }

    /// How many shards the master has.
    pub(crate) fn shards(&self) -> u16 {
        self.cluster.route.shards()
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

/// A put waits two seconds for space, each message takes a quarter of a second at most, and a request
/// may wait behind a cut and a stall of three TTLs each before.
const ANSWER_MS_MAX: u64 = 13_000;
