//! The network between the master, the stores and their clients: what is sent may vanish, come
//! twice, overtake what was sent before, or wait behind a cut until nobody waits for it any more.
//!
//! Inside of the master no message is ever lost; this is about requests, answers and accesses to
//! memory. Whoever gets no answer in time does not know what became of the request.

use mooring_actors::clients::ClientsMessage;
use mooring_actors::pool::message::PoolMessage;
use mooring_actors::shard::message::ShardMessage;
use mooring_actors::{Moment, RequestId};
use mooring_proto::ClientId;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::asked::Asked;
use crate::cluster::Envelope;
use crate::event::{End, Event};
use crate::plan::pick;
use crate::world::World;

/// What the network does to those who work with the master.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NetworkPlan {
    /// Requests, and answers, that vanish.
    pub(crate) loss_ratio: f64,
    /// Requests that arrive once more, as those do that are sent again because no answer came.
    pub(crate) doubled_ratio: f64,
    /// Requests that do not keep the order in which they were sent.
    pub(crate) overtaking_ratio: f64,
    /// Writes whose answer does not come. Some of them arrive all the same, some of those late.
    pub(crate) write_loss_ratio: f64,
    /// The mean time between two cuts; zero for none.
    pub(crate) cut_pause_ms: u64,
    /// The longest cut.
    pub(crate) cut_ms_max: u64,
}

/// Who is cut off now, and until when.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Processes that the master does not hear, and that do not hear it.
    from_master: Vec<(ClientId, Moment)>,
    /// Clients that do not reach the memory of a store.
    from_memory: Vec<(usize, usize, Moment)>,
}

/// What becomes of a request.
enum Fate {
    Arrives,
    Vanishes,
    /// It comes by a way of its own, so much later than others.
    Strays(u64),
}

impl NetworkPlan {
    pub(crate) fn new(dice: &mut SmallRng, ttl_ms: u64) -> NetworkPlan {
        NetworkPlan {
            loss_ratio: *pick(dice, &[0.0, 0.001, 0.01, 0.1]),
            doubled_ratio: *pick(dice, &[0.0, 0.01, 0.1]),
            overtaking_ratio: *pick(dice, &[0.0, 0.05, 0.5]),
            write_loss_ratio: *pick(dice, &[0.0, 0.01, 0.1]),
            cut_pause_ms: *pick(dice, &[0, 300, 1_000, 3_000]),
            cut_ms_max: dice.random_range(10..=3 * ttl_ms),
        }
    }
}

impl World {
    /// The next cut is due some time from now.
    pub(crate) fn plan_cut(&mut self) {
        let pause_ms = self.plan.network.cut_pause_ms;
        if pause_ms > 0 {
            let delay_ms = self.dice.random_range(1..=2 * pause_ms);
            self.at(delay_ms, Event::Cut);
        }
    }

    /// Somebody is cut off for a while: mostly one, now and then all stores or all clients.
    pub(crate) fn cut(&mut self) {
        if self.calm {
            return;
        }
        self.plan_cut();
        let now = self.now();
        let until = now.after_ms(self.dice.random_range(1..=self.plan.network.cut_ms_max));
        self.cuts.from_master.retain(|(_, until)| *until > now);
        self.cuts.from_memory.retain(|(_, _, until)| *until > now);
        let client = self.dice.random_range(0..self.clients.len());
        let store = self.dice.random_range(0..self.stores.len());
        let all_clients = self.clients.iter().map(|client| client.id);
        let all_stores = self.stores.iter().map(|store| store.process);
        let from_master: Vec<ClientId> = match self.dice.random_range(0..10) {
            0..3 => vec![self.clients[client].id],
            3..6 => vec![self.stores[store].process],
            6 => all_clients.collect(),
            7 => all_stores.collect(),
            _ => {
                self.cuts.from_memory.push((client, store, until));
                Vec::new()
            }
        };
        self.audit.note_text(now, "cut", &(until, &from_master));
        self.cuts.from_master.extend(from_master.into_iter().map(|peer| (peer, until)));
    }

    fn cut_until(&self, peer: ClientId) -> Option<Moment> {
        let own = self.cuts.from_master.iter().filter(|(cut, _)| *cut == peer);
        own.map(|(_, until)| *until).max().filter(|until| !self.calm && *until > self.now())
    }

    fn draw_fate(&mut self, from: ClientId) -> Fate {
        if self.calm {
            return Fate::Arrives;
        }
        if let Some(until) = self.cut_until(from) {
            // Short ones are bridged by sending again; in long ones the connection is given up.
            let left_ms = until.since_ms(self.now());
            let bridged = left_ms < PATIENCE_MS || self.dice.random_bool(0.3);
            return if bridged { Fate::Strays(left_ms) } else { Fate::Vanishes };
        }
        if self.draw(self.plan.network.loss_ratio) {
            Fate::Vanishes
        } else if self.draw(self.plan.network.overtaking_ratio) {
            Fate::Strays(0)
        } else {
            Fate::Arrives
        }
    }

    /// True so often; draws nothing where it never is.
    fn draw(&mut self, ratio: f64) -> bool {
        ratio > 0.0 && self.dice.random_bool(ratio)
    }

    /// Sends a request on its way to the master.
    pub(crate) fn send(&mut self, from: ClientId, id: RequestId, envelope: Envelope, asked: Asked) {
        // One connection carries all that a client without tokens says, in order, and a store does one
        // thing at a time with its segments: it says nothing else while a mount may still arrive.
        let mounts = matches!(envelope, Envelope::ToPool(_));
        let in_order = mounts || self.is_tokenless(from);
        if !self.calm && !in_order && self.draw(self.plan.network.doubled_ratio) {
            self.send_again(from, &envelope, asked.clone());
        }
        let fate = match self.draw_fate(from) {
            Fate::Strays(0) if in_order => Fate::Arrives,
            Fate::Strays(_) if in_order => Fate::Vanishes,
            fate => fate,
        };
        match fate {
            Fate::Vanishes => {
                self.cluster.open.remove(&id);
                self.lose(id, asked);
            }
            Fate::Arrives => {
                self.pending.insert(id, (from, asked));
                self.post(End::Client(from.0), envelope);
            }
            Fate::Strays(delay_ms) => {
                self.pending.insert(id, (from, asked));
                self.post_alone(envelope, delay_ms);
                if delay_ms >= PATIENCE_MS {
                    self.at(PATIENCE_MS, Event::GiveUp(id));
                }
            }
        }
    }

    /// The same request once more; nobody waits for its answer.
    fn send_again(&mut self, from: ClientId, envelope: &Envelope, asked: Asked) {
        let id = self.cluster.ticket();
        let Some(again) = with_ticket(envelope, id) else {
            self.cluster.open.remove(&id);
            return;
        };
        self.given_up.insert(id);
        self.pending.insert(id, (from, asked));
        let delay_ms = self.dice.random_range(0..=2 * PATIENCE_MS);
        self.post_alone(again, delay_ms);
    }

    fn post_alone(&mut self, envelope: Envelope, delay_ms: u64) {
        self.strays += 1;
        let way = End::Stray(self.strays);
        let delay_ms = delay_ms + self.draw_delay();
        self.post_later(way, envelope, delay_ms);
    }

    /// Whoever has asked waits in vain.
    fn lose(&mut self, id: RequestId, asked: Asked) {
        self.refused.insert(id, asked);
        self.at(PATIENCE_MS, Event::Refused(id));
    }

    /// Whoever has asked waits no longer.
    pub(crate) fn give_up(&mut self, id: RequestId) {
        if let Some((_, asked)) = self.pending.get(&id) {
            let asked = asked.clone();
            self.given_up.insert(id);
            self.failed(asked);
        }
    }

    /// An answer leaves the master, and may get lost.
    pub(crate) fn send_answer(
        &mut self,
        from: ClientId,
        id: RequestId,
        asked: Asked,
    ) -> Option<Asked> {
        if self.given_up.remove(&id) {
            return None;
        }
        let lost = !self.calm
            && (self.cut_until(from).is_some() || self.draw(self.plan.network.loss_ratio));
        if lost {
            self.lose(id, asked);
            return None;
        }
        Some(asked)
    }

    /// Whether the answer to a write does not come.
    pub(crate) fn loses_write(&mut self, client: usize, memory: usize) -> bool {
        let now = self.now();
        let is_cut = |(from, to, until): &(usize, usize, Moment)| {
            (*from, *to) == (client, memory) && *until > now
        };
        !self.calm
            && (self.cuts.from_memory.iter().any(is_cut)
                || self.draw(self.plan.network.write_loss_ratio))
    }
}

/// The same request with another ticket; what is no request has none.
fn with_ticket(envelope: &Envelope, id: RequestId) -> Option<Envelope> {
    match envelope {
        Envelope::ToShard(shard, ShardMessage::Request { deadline, request, .. }) => {
            let (deadline, request) = (*deadline, request.clone());
            Some(Envelope::ToShard(*shard, ShardMessage::Request { id, deadline, request }))
        }
        Envelope::ToPool(PoolMessage::Request { request, .. }) => {
            Some(Envelope::ToPool(PoolMessage::Request { id, request: request.clone() }))
        }
        Envelope::ToClients(ClientsMessage::Ping { client, mounted_segments, kept, .. }) => {
            let (client, mounted_segments, kept) = (*client, *mounted_segments, *kept);
            Some(Envelope::ToClients(ClientsMessage::Ping { id, client, mounted_segments, kept }))
        }
        _ => None,
    }
}

/// For so long somebody waits for an answer that does not come.
const PATIENCE_MS: u64 = 300;
