//! What clients do: put, get, look and remove, some of them slowly, rudely or until they die.

use std::collections::BTreeMap;

use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::shard::message::{PutExtras, PutRequest, ShardReply, ShardRequest};
use mooring_actors::{Moment, ShardId};
use mooring_proto::error::Refusal;
use mooring_proto::message::object::{PutOptions, PutStartGrant};
use mooring_proto::{ClientId, Incarnation, SegmentsDigest};
use rand::Rng;

use crate::asked::{Asked, PutAsked};
use crate::event::Event;
use crate::oracle::group_name;
use crate::plan::{Canary, draw_options};
use crate::restart::wire_sequence;
use crate::world::World;
use crate::writer::located;

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    /// It has neither tokens nor put ids, and says by key and client which put it means.
    pub(crate) tokenless: bool,
}

/// One put of a client, from its start on.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) client: usize,
    pub(crate) asked: PutAsked,
    pub(crate) options: PutOptions,
    /// When the start was first sent: the writer counts its time from here.
    pub(crate) sent: Moment,
    pub(crate) intent: Intent,
    pub(crate) grant: Option<PutStartGrant>,
    /// The master that granted it.
    pub(crate) master: Incarnation,
    /// A write was refused, came too late or was not answered.
    pub(crate) failed: bool,
    /// A write was not answered, so it may arrive until the time of the put is over.
    pub(crate) in_doubt: bool,
    /// Its writer has no tokens.
    pub(crate) by_writer: bool,
    pub(crate) upsert: bool,
    /// Its end was sent.
    pub(crate) ended: bool,
}

/// What a client means to do with a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    End,
    /// End after a time in which somebody else may take the key over.
    EndSlowly,
    RevokeQuietly,
    /// Revoke while writes are in flight.
    RevokeLoudly,
    Abandon,
}

impl World {
    pub(crate) fn client_step(&mut self, client: usize) {
        if self.calm {
            return;
        }
        let pause_ms = self.dice.random_range(0..=2 * self.plan.pause_ms);
        self.at(pause_ms, Event::ClientStep(client));
        match self.dice.random_range(0..1_000) {
            0..450 => self.start_puts(client),
            450..800 => self.get(client),
            800..880 => self.look(client),
            880..940 => self.remove(client),
            940..941 => self.remove_all(client),
            941..946 => self.die(client),
            946..960 => self.inspect(client),
            _ => {}
        }
    }

    pub(crate) fn client_ping(&mut self, client: usize) {
        let pause_ms = self.plan.settings.client_ttl_ms / 5;
        if self.stopped {
            return;
        }
        self.at(pause_ms, Event::ClientPing(client));
        self.ping(self.clients[client].id, 0, Some(SegmentsDigest::default()), None);
    }

    /// A client dies in the midst of all that it does, and another one comes.
    fn die(&mut self, client: usize) {
        self.clients[client].id = self.new_client_id();
        self.under_way.retain(|(whose, _)| *whose != client);
    }

    fn start_puts(&mut self, client: usize) {
        let options = self.draw_put_options();
        let mut keys = self.draw_keys(8);
        let by_writer = self.clients[client].tokenless;
        let upsert = by_writer && self.dice.random_bool(0.3);
        if by_writer {
            // It has one put of a key under way at a time.
            keys.retain(|key| self.begin_under_way(client, *key));
        }
        let sent = self.now();
        let mut numbers = Vec::new();
        for key in keys {
            let asked = PutAsked {
                key,
                size_bytes: self.plan.sizes.draw(&mut self.dice),
                client: self.clients[client].id,
                put_id: self.puts.len() as u64,
                group: self.draw_group(key),
            };
            numbers.push(self.puts.len());
            let intent = self.draw_intent();
            self.puts.push(Put {
                client,
                asked,
                options: options.clone(),
                sent,
                intent,
                grant: None,
                master: self.cluster.incarnation,
                failed: false,
                in_doubt: false,
                by_writer,
                upsert,
                ended: false,
            });
        }
        if upsert {
            numbers.iter().for_each(|number| self.send_starts(&[*number]));
        } else {
            self.send_starts(&numbers);
        }
    }

    /// The group of a put: mostly that of its key, if there are groups.
    fn draw_group(&mut self, key: u32) -> Option<u32> {
        let groups = self.plan.groups;
        (groups > 0 && self.dice.random_bool(0.8)).then(|| key % groups)
    }

    fn draw_put_options(&mut self) -> PutOptions {
        let mut options = draw_options(&self.plan, &mut self.dice);
        if self.dice.random_bool(0.2) {
            let store = self.dice.random_range(0..self.stores.len());
            options.preferred_segments = self.stores[store].segment_ids();
        }
        options
    }

    fn draw_intent(&mut self) -> Intent {
        if !self.dice.random_bool(self.plan.rude_ratio) {
            return Intent::End;
        }
        match self.dice.random_range(0..10) {
            0..4 => Intent::EndSlowly,
            4..6 => Intent::RevokeQuietly,
            6..8 => Intent::RevokeLoudly,
            _ => Intent::Abandon,
        }
    }

    /// The answer to a start was lost with the master: the client asks the next one.
    pub(crate) fn start_again(&mut self, number: usize) {
        let put = &self.puts[number];
        let lives = self.clients[put.client].id == put.asked.client;
        if lives && put.grant.is_none() && !put.by_writer && !self.calm {
            self.send_starts(&[number]);
        }
    }

    /// Sends starts of puts that were made together, to each shard its own.
    fn send_starts(&mut self, numbers: &[usize]) {
        let mut by_shard: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for &number in numbers {
            let shard = self.shard_of(self.puts[number].asked.key);
            by_shard.entry(shard).or_default().push(number);
        }
        for (shard, numbers) in by_shard {
            let puts: Vec<PutAsked> =
                numbers.iter().map(|number| self.puts[*number].asked).collect();
            let options = self.puts[numbers[0]].options.clone();
            let keys: Vec<u32> = puts.iter().map(|put| put.key).collect();
            let (client, hard_pin, replicas) = (puts[0].client, options.hard_pin, options.replicas);
            let upsert = self.puts[numbers[0]].upsert;
            let batch = self.batch(&keys);
            let asked_for =
                |put: &PutAsked| PutRequest { size_bytes: put.size_bytes, put_id: put.put_id };
            let requests = puts.iter().map(asked_for).collect();
            let (extras, asked) = (self.extras(&puts), puts);
            let puts = requests;
            let request = match upsert {
                false => ShardRequest::PutStart { client, options, extras, batch, puts },
                true => ShardRequest::UpsertStart { client, options, extras, batch, puts },
            };
            let asked = Asked::Start { puts: asked, hard_pin, replicas, upsert };
            self.ask_shard(client, shard, request, asked);
        }
    }

    /// What is said of puts where there are groups: the one of each, or that it has none.
    fn extras(&self, puts: &[PutAsked]) -> Option<Box<PutExtras>> {
        let alone = self.plan.canary == Some(Canary::LonelyMembers);
        let name = |put: &PutAsked| match put.group {
            None => Box::default(),
            Some(group) if alone => [&*group_name(group), &put.key.to_le_bytes()].concat().into(),
            Some(group) => group_name(group),
        };
        let groups = puts.iter().map(name).collect();
        let told = self.plan.groups > 0 && self.plan.canary != Some(Canary::UntoldGroups);
        told.then(|| Box::new(PutExtras { groups, ..PutExtras::default() }))
    }

    pub(crate) fn shard_answered(
        &mut self,
        asked: Asked,
        reply: ShardReply,
        master: Incarnation,
    ) -> Result<(), Violation> {
        match (asked, reply) {
            (asked, ShardReply::Restarting) => self.failed(asked),
            (Asked::Start { puts, .. }, ShardReply::Started(answers)) => {
                for (put, answer) in puts.iter().zip(answers) {
                    self.put_started(put.put_id as usize, answer, master);
                }
            }
            (Asked::Get { keys, sent, client }, ShardReply::Located(answers)) => {
                for (key, answer) in keys.into_iter().zip(answers) {
                    if let Ok(located) = answer {
                        self.plan_read(client, key, sent, (located, master));
                    }
                }
            }
            (Asked::Get { keys, sent, client }, ShardReply::Described(answers)) => {
                for (key, answer) in keys.into_iter().zip(answers) {
                    if let Ok(described) = answer {
                        self.plan_read(client, key, sent, (located(&described), master));
                    }
                }
            }
            (Asked::EndByWriter { put } | Asked::RevokeByWriter { put }, ShardReply::Done(_)) => {
                self.end_under_way(&put)
            }
            (Asked::Validate { puts, intact: false }, ShardReply::Done(answers))
                if answers[0].is_ok() =>
            {
                let fault = format!("{puts:?} was validated, but the bytes were others");
                return Err(Invariant::Readable.violated(fault));
            }
            _ => {}
        }
        Ok(())
    }

    fn put_started(
        &mut self,
        number: usize,
        answer: Result<PutStartGrant, Refusal>,
        master: Incarnation,
    ) {
        let put = &mut self.puts[number];
        if self.clients[put.client].id != put.asked.client {
            return;
        }
        let Ok(grant) = answer else {
            let asked = put.asked;
            return self.end_under_way(&asked);
        };
        if put.grant.is_some() {
            return;
        }
        if !put.by_writer && self.dice.random_bool(0.05) {
            // The answer is swallowed on its way, so the client asks again.
            self.send_starts(&[number]);
            return;
        }
        put.grant = Some(grant);
        put.master = master;
        self.plan_writes(number);
    }

    /// All writes of a put are done, or were refused.
    pub(crate) fn conclude(&mut self, number: usize) {
        let put = self.puts[number].clone();
        let Some(grant) = &put.grant else { return };
        if self.clients[put.client].id != put.asked.client {
            return;
        }
        if put.by_writer {
            return self.conclude_by_writer(&put);
        }
        let puts = vec![(put.asked.key, grant.sequence)];
        match put.intent {
            Intent::End | Intent::EndSlowly if !put.failed => {
                self.puts[number].ended = true;
                self.send_end(&put.asked, put.master, puts.clone());
                if self.dice.random_bool(0.1) {
                    self.send_end(&put.asked, put.master, puts);
                }
            }
            Intent::End | Intent::EndSlowly | Intent::RevokeQuietly => {
                let settled = !put.in_doubt || self.plan.canary == Some(Canary::QuietDoubts);
                self.send_revoke(&put, puts, settled);
            }
            Intent::RevokeLoudly => {
                self.send_revoke(&put, puts, false);
                self.plan_late_writes(number);
            }
            Intent::Abandon => self.plan_late_writes(number),
        }
    }

    /// Nobody knows what became of an end or of a revoke: the writer says it again, mostly.
    pub(crate) fn plan_to_conclude_again(&mut self, put_id: u64, quiet: bool) {
        let number = put_id as usize;
        if number < self.puts.len() && self.dice.random_bool(0.7) {
            let delay_ms = self.dice.random_range(0..=500);
            self.at(delay_ms, Event::ConcludeAgain { put: number, quiet });
        }
    }

    pub(crate) fn conclude_again(&mut self, number: usize, quiet: bool) {
        let put = self.puts[number].clone();
        let Some(grant) = &put.grant else { return };
        if self.clients[put.client].id != put.asked.client || self.calm {
            return;
        }
        let puts = vec![(put.asked.key, grant.sequence)];
        match put.ended {
            true => self.send_end(&put.asked, put.master, puts),
            false => self.send_revoke(&put, puts, quiet),
        }
    }

    pub(crate) fn send_end(&mut self, put: &PutAsked, master: Incarnation, puts: Vec<(u32, u64)>) {
        let shard = self.shard_of(put.key);
        let request = ShardRequest::PutEnd {
            incarnation: master,
            batch: self.batch(&[put.key]),
            sequences: vec![wire_sequence(puts[0].1)],
        };
        self.ask_shard(put.client, shard, request, Asked::End { put_id: put.put_id, puts });
    }

    fn send_revoke(&mut self, put: &Put, puts: Vec<(u32, u64)>, quiet: bool) {
        let shard = self.shard_of(put.asked.key);
        let request = ShardRequest::PutRevoke {
            incarnation: put.master,
            no_write_in_flight: quiet,
            batch: self.batch(&[put.asked.key]),
            sequences: vec![wire_sequence(puts[0].1)],
        };
        let put_id = put.asked.put_id;
        self.ask_shard(put.asked.client, shard, request, Asked::Revoke { put_id, puts, quiet });
    }

    pub(crate) fn remove(&mut self, client: usize) {
        let id = self.clients[client].id;
        let force = self.dice.random_bool(0.3);
        for (shard, keys) in self.draw_batches(4) {
            let batch = self.batch(&keys);
            let by_writer = self.clients[client].tokenless && self.dice.random_bool(0.5);
            let (request, asked) = match by_writer {
                false => (ShardRequest::Remove { force, batch }, Asked::Remove { keys, force }),
                true => (
                    ShardRequest::RemoveByWriter { client: id, mounts: None, batch },
                    Asked::RemoveByWriter { keys, client: id },
                ),
            };
            self.ask_shard(id, shard, request, asked);
        }
    }

    fn remove_all(&mut self, client: usize) {
        let id = self.clients[client].id;
        let force = self.dice.random_bool(0.3);
        for number in 0..self.shards() {
            let request = ShardRequest::RemoveAll { force };
            self.ask_shard(id, ShardId(number), request, Asked::RemoveAll { force });
        }
    }

    fn inspect(&mut self, client: usize) {
        let shard = ShardId(self.dice.random_range(0..self.cluster.route.shards()));
        let request = match self.dice.random_range(0..3) {
            0 => ShardRequest::ListKeys { cursor: 0, limit: 10, hidden: false },
            1 => ShardRequest::Totals,
            _ => ShardRequest::Probe,
        };
        self.ask_shard(self.clients[client].id, shard, request, Asked::Other);
    }
}
