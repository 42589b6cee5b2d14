//! Who lives: the clients that ping, and the judgement of those that don't.
//!
//! A silent client may have died, may be cut off, or may be waiting for a master that hung itself.
//! Taking its segments away can't be undone, so the judgement is slow to fall: a client is first
//! suspected and asked again, the master's own pauses count for nobody, and when most clients fall
//! silent together the network is given the benefit of the doubt once.

pub(crate) mod actor;
mod config;
mod message;
mod state;

use std::collections::{BTreeMap, VecDeque};

use mooring_proto::message::inspect::{ClientEntry, ClientState};
use mooring_proto::{ClientId, SegmentsDigest};

use crate::handoff::ClientRecord;
use crate::moment::Moment;
use crate::request::RequestId;
pub use config::ClientsConfig;
pub use message::{ClientCounts, ClientsEffect, ClientsMessage};
use state::{Census, Client, Outage, Standing};

/// The liveness of all clients.
///
/// [`Clients::apply`] is the only way in. What follows from a message stands in the effects, in the
/// order in which it has to be carried out.
#[derive(Debug)]
pub struct Clients {
    config: ClientsConfig,
    clients: BTreeMap<ClientId, Client>,
    /// Clients that went offline with segments, the latest last. If one comes back, it believes in
    /// segments that are gone.
    lost: VecDeque<ClientId>,
    /// The latest tick, or the first message before there was one.
    judged_at: Option<Moment>,
    frozen: bool,
    quiesced: bool,
    outage: Option<Outage>,
    counts: ClientCounts,
}

impl Clients {
    /// No clients yet.
    pub fn new(config: ClientsConfig) -> Clients {
        Clients {
            config,
            clients: BTreeMap::new(),
            lost: VecDeque::new(),
            judged_at: None,
            frozen: false,
            quiesced: false,
            outage: None,
            counts: ClientCounts::default(),
        }
    }

    /// The clients that a former master has handed over. Time begins anew: each was heard at moment
    /// zero, at which the master begins to serve, and expires like any other if it doesn't come back.
    /// One with segments has to mount all of them again.
    pub fn restore(config: ClientsConfig, records: &[ClientRecord]) -> Clients {
        let start = Moment::from_ms(0);
        let restored = |record: &ClientRecord| {
            let name = record.name.clone();
            (record.client, Client::restored(start, name, record.segments))
        };
        let clients = records.iter().map(restored).collect();
        Clients { clients, judged_at: Some(start), ..Clients::new(config) }
    }

    /// The clients that are not offline, in the order of their ids.
    pub fn export(&self) -> Vec<ClientRecord> {
        let record = |(&client, known): (&ClientId, &Client)| ClientRecord {
            client,
            name: known.name.clone(),
            segments: known.segments,
        };
        self.clients.iter().map(record).collect()
    }

    /// Takes a message and appends what follows from it.
    pub fn apply(
        &mut self,
        now: Moment,
        message: ClientsMessage,
        effects: &mut Vec<ClientsEffect>,
    ) {
        self.judged_at.get_or_insert(now);
        match message {
            ClientsMessage::Hello { client, name } => self.hear(now, client).name = name,
            ClientsMessage::Ping { id, client, mounted_segments, kept } => {
                effects.push(self.ping(now, id, client, mounted_segments, kept));
            }
            ClientsMessage::Mounted { client, segments, kept } => {
                self.mounted(now, client, segments);
                if let Some(known) = self.clients.get_mut(&client) {
                    known.kept = kept;
                }
            }
            ClientsMessage::Remounted { client, segments } => {
                let known = self.hear(now, client);
                known.attached = true;
                known.owes_remount = false;
                known.segments = segments;
            }
            ClientsMessage::Goodbye { client } => {
                if self.clients.get(&client).is_some_and(|known| known.segments == 0) {
                    let left = self.clients.remove(&client);
                    self.counts.suspected -= u64::from(left.is_some_and(|left| left.suspected()));
                    effects.push(ClientsEffect::Left { client });
                }
            }
            ClientsMessage::Tick => self.tick(now, effects),
            ClientsMessage::List { id } => {
                effects.push(ClientsEffect::ReplyList { id, clients: self.entries(now) });
            }
            ClientsMessage::FreezeJudgement(frozen) => self.freeze(now, frozen),
            ClientsMessage::Quiesce => {
                if !std::mem::replace(&mut self.quiesced, true) {
                    effects.push(ClientsEffect::Quiesced);
                }
            }
        }
    }

    /// The gauges as of the latest message, and the counters since the start; in constant time.
    pub fn counts(&self) -> ClientCounts {
        let active = self.clients.len() as u64 - self.counts.suspected;
        ClientCounts { active, ..self.counts }
    }

    /// The client, which has just given a sign of life.
    fn hear(&mut self, now: Moment, client: ClientId) -> &mut Client {
        let known = self.clients.entry(client).or_insert_with(|| {
            let lost = self.lost.iter().position(|lost| *lost == client);
            let owes_remount = lost.and_then(|place| self.lost.remove(place)).is_some();
            Client::new(now, owes_remount)
        });
        if known.hear(now) {
            self.counts.suspected -= 1;
        }
        known
    }

    fn ping(
        &mut self,
        now: Moment,
        id: RequestId,
        client: ClientId,
        mounted_segments: u32,
        kept: Option<SegmentsDigest>,
    ) -> ClientsEffect {
        let known = self.hear(now, client);
        // One that was handed over with segments must say what it still has, even if that is nothing.
        let returning = known.owes_remount && known.segments > 0;
        let unsettled = !known.attached || known.owes_remount;
        // Once says nothing: a mount or an unmount, or the answer to it, may have crossed the ping.
        let differs = kept.is_some_and(|kept| kept != known.kept);
        let still_differs = std::mem::replace(&mut known.differed, differs) && differs;
        let unknown = mounted_segments > 0 && (unsettled || known.segments == 0);
        let need_remount = returning || still_differs || unknown;
        ClientsEffect::ReplyPing { id, need_remount, ttl_ms: self.config.client_ttl_ms }
    }

    fn mounted(&mut self, now: Moment, client: ClientId, segments: u32) {
        let before = self.clients.get(&client).map_or(0, |known| known.segments);
        if segments > before {
            // Only the client itself mounts.
            let known = self.hear(now, client);
            known.attached = true;
            known.segments = segments;
        } else if let Some(known) = self.clients.get_mut(&client) {
            // Segments may go without the client's doing: no sign of life.
            known.segments = segments;
        }
    }

    fn freeze(&mut self, now: Moment, frozen: bool) {
        if self.frozen {
            self.discount(now);
        }
        self.frozen = frozen;
    }

    fn tick(&mut self, now: Moment, effects: &mut Vec<ClientsEffect>) {
        if self.frozen || self.quiesced {
            self.discount(now);
            return;
        }
        self.discount_stall(now);
        self.judged_at = Some(now);
        let ttl_ms = self.config.client_ttl_ms;
        let spared = self.spared(now);
        let mut offline = Vec::new();
        self.counts.suspected = 0;
        for (&client, known) in &mut self.clients {
            let standing = known.judge(now, ttl_ms);
            if standing == Standing::Offline && !spared {
                offline.push((client, known.segments, known.owes_remount));
                continue;
            }
            self.counts.suspected += u64::from(standing != Standing::Active);
            if known.must_be_asked(now, ttl_ms) {
                let silent_ms = known.silent_ms(now);
                effects.push(ClientsEffect::AskAttention { client, silent_ms });
            }
        }
        for (client, segments, owes_remount) in offline {
            self.clients.remove(&client);
            if segments > 0 || owes_remount {
                self.lost.push_back(client);
            }
            if self.lost.len() > LOST_MAX {
                self.lost.pop_front();
            }
            self.counts.offline_total += 1;
            effects.push(ClientsEffect::Offline { client, segments });
        }
    }

    /// A tick that comes late shows that the master hung. Pings may still wait in its queues, so
    /// what exceeds the usual time between two ticks is taken off everyone's silence.
    fn discount_stall(&mut self, now: Moment) {
        let period_ms = self.config.tick_period_ms;
        let gap_ms = self.judged_at.map_or(0, |judged_at| now.since_ms(judged_at));
        if gap_ms > period_ms.saturating_mul(STALL_PERIODS) {
            let excess_ms = gap_ms - period_ms;
            self.counts.stalls_total += 1;
            self.counts.stalled_ms_total = self.counts.stalled_ms_total.saturating_add(excess_ms);
            self.postpone(now, excess_ms);
        }
    }

    /// Takes all time since the latest judgement off everyone's silence.
    fn discount(&mut self, now: Moment) {
        let gap_ms = self.judged_at.map_or(0, |judged_at| now.since_ms(judged_at));
        self.judged_at = Some(now);
        self.postpone(now, gap_ms);
    }

    fn postpone(&mut self, now: Moment, by_ms: u64) {
        for known in self.clients.values_mut() {
            known.postpone(now, by_ms);
        }
        if let Some(outage) = &mut self.outage {
            outage.spares_until = outage.spares_until.after_ms(by_ms);
        }
    }

    /// Whether nobody goes offline at this tick, because most clients fell silent together: that
    /// looks like the network. They get one TTL more, once for each such outage.
    fn spared(&mut self, now: Moment) -> bool {
        let ttl_ms = self.config.client_ttl_ms;
        let census = Census::of(self.clients.values(), now, ttl_ms);
        if self.outage.is_some() && census.late == 0 {
            self.outage = None;
        }
        if self.outage.is_none() && census.is_outage() {
            self.outage = Some(Outage { spares_until: now.after_ms(ttl_ms) });
            self.counts.graces_total += 1;
        }
        self.outage.as_ref().is_some_and(|outage| now < outage.spares_until)
    }

    fn entries(&self, now: Moment) -> Vec<ClientEntry> {
        let entry = |(&client, known): (&ClientId, &Client)| ClientEntry {
            client,
            name: known.name.clone(),
            state: if known.suspected() { ClientState::Suspected } else { ClientState::Active },
            silent_ms: known.silent_ms(now),
            segments: known.segments,
        };
        self.clients.iter().map(entry).collect()
    }
}

/// A tick is late after this many periods: one missed tick may be chance.
const STALL_PERIODS: u64 = 2;

/// A store that restarts is another client and never comes back, so not all are remembered for ever.
/// More than this rarely fall silent before one of them is heard again.
const LOST_MAX: usize = 4096;

#[cfg(test)]
mod tests;
