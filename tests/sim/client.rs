//! What clients do: put, get, look and remove, some of them slowly, rudely or until they die.

use std::collections::BTreeMap;

use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest};
use mooring_actors::{Moment, ShardId};
use mooring_proto::error::Refusal;
use mooring_proto::message::object::{Located, PutOptions, PutStartGrant};
use mooring_proto::{ClientId, Incarnation};
use rand::Rng;

use crate::asked::{Asked, PutAsked};
use crate::plan::{Canary, draw_options};
use crate::restart::wire_sequence;
use crate::store::Fault;
use crate::world::{Event, World};

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
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
    /// A write was refused or came too late.
    pub(crate) failed: bool,
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
        self.ping(self.clients[client].id, 0, None);
    }

    /// A client dies in the midst of all that it does, and another one comes.
    fn die(&mut self, client: usize) {
        self.clients[client].id = self.new_client_id();
    }

    fn start_puts(&mut self, client: usize) {
        let options = self.draw_put_options();
        let keys = self.draw_keys(8);
        let sent = self.now();
        let mut numbers = Vec::new();
        for key in keys {
            let asked = PutAsked {
                key,
                size_bytes: self.plan.sizes.draw(&mut self.dice),
                client: self.clients[client].id,
                put_id: self.puts.len() as u64,
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
            });
        }
        self.send_starts(&numbers);
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
        if lives && put.grant.is_none() && !self.calm {
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
            let request = ShardRequest::PutStart {
                client,
                options,
                extras: None,
                batch: self.batch(&keys),
                puts: puts
                    .iter()
                    .map(|put| PutRequest { size_bytes: put.size_bytes, put_id: put.put_id })
                    .collect(),
            };
            self.ask_shard(client, shard, request, Asked::Start { puts, hard_pin, replicas });
        }
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
        let Ok(grant) = answer else { return };
        if put.grant.is_some() {
            return;
        }
        if self.dice.random_bool(0.05) {
            // The answer is swallowed on its way, so the client asks again.
            self.send_starts(&[number]);
            return;
        }
        put.grant = Some(grant);
        put.master = master;
        self.plan_writes(number);
    }

    /// Writes the object in some pieces, replica by replica at the same time.
    fn plan_writes(&mut self, number: usize) {
        let put = self.puts[number].clone();
        let Some(grant) = put.grant else { return };
        let settings = &self.plan.settings;
        let span_ms = match put.intent {
            Intent::EndSlowly => settings.put_release_timeout_ms * 5 / 4,
            _ => self.dice.random_range(0..=settings.put_discard_timeout_ms / 4),
        };
        let mut last_ms = 0;
        for replica in 0..grant.replicas.len() {
            let mut from_byte = 0;
            while from_byte < put.asked.size_bytes {
                let left_bytes = put.asked.size_bytes - from_byte;
                let length_bytes = match self.dice.random_range(0..3) {
                    0 => self.dice.random_range(1..=left_bytes),
                    _ => left_bytes,
                };
                let delay_ms = self.dice.random_range(0..=span_ms);
                last_ms = last_ms.max(delay_ms);
                self.at(delay_ms, Event::Write { put: number, replica, from_byte, length_bytes });
                from_byte += length_bytes;
            }
        }
        self.at(last_ms + 1, Event::Conclude { put: number });
    }

    pub(crate) fn write(
        &mut self,
        number: usize,
        replica: usize,
        from_byte: u64,
        length_bytes: u64,
    ) {
        let put = &self.puts[number];
        let Some(grant) = &put.grant else { return };
        let (descriptor, sequence) = ((put.master, grant.replicas[replica]), grant.sequence);
        let release_ms = self.plan.settings.put_release_timeout_ms;
        if self.now() >= put.sent.after_ms(release_ms) {
            self.puts[number].failed = true;
            return;
        }
        let shift_bytes = match self.plan.canary {
            Some(Canary::ShiftedWrites) if sequence.is_multiple_of(7) => 64,
            _ => 0,
        };
        let written =
            self.memories.write(descriptor, sequence, from_byte, length_bytes, shift_bytes);
        self.audit.note(self.now(), "write", &(sequence, descriptor, from_byte, written));
        self.puts[number].failed |= written.is_err();
    }

    /// All writes of a put are done, or were refused.
    pub(crate) fn conclude(&mut self, number: usize) {
        let put = self.puts[number].clone();
        let Some(grant) = &put.grant else { return };
        if self.clients[put.client].id != put.asked.client {
            return;
        }
        let puts = vec![(put.asked.key, grant.sequence)];
        match put.intent {
            Intent::End | Intent::EndSlowly if !put.failed => {
                self.send_end(&put.asked, put.master, puts.clone());
                if self.dice.random_bool(0.1) {
                    self.send_end(&put.asked, put.master, puts);
                }
            }
            Intent::End | Intent::EndSlowly | Intent::RevokeQuietly => {
                self.send_revoke(&put, puts, true);
            }
            Intent::RevokeLoudly => {
                self.send_revoke(&put, puts, false);
                self.plan_late_writes(number);
            }
            Intent::Abandon => self.plan_late_writes(number),
        }
    }

    /// Writes that were in flight when the writer gave up arrive until its time is over.
    fn plan_late_writes(&mut self, number: usize) {
        let put = &self.puts[number];
        let (size_bytes, sent) = (put.asked.size_bytes, put.sent);
        let replicas = put.grant.as_ref().map_or(0, |grant| grant.replicas.len());
        let until = sent.after_ms(self.plan.settings.put_release_timeout_ms);
        let left_ms = until.since_ms(self.now());
        for _ in 0..self.dice.random_range(1..=4) {
            let from_byte = self.dice.random_range(0..size_bytes);
            let length_bytes = self.dice.random_range(1..=size_bytes - from_byte);
            let replica = self.dice.random_range(0..replicas);
            let delay_ms = self.dice.random_range(0..=left_ms);
            self.oracle.tally.late_writes += 1;
            self.at(delay_ms, Event::Write { put: number, replica, from_byte, length_bytes });
        }
    }

    pub(crate) fn send_end(&mut self, put: &PutAsked, master: Incarnation, puts: Vec<(u32, u64)>) {
        let shard = self.shard_of(put.key);
        let request = ShardRequest::PutEnd {
            incarnation: master,
            batch: self.batch(&[put.key]),
            sequences: vec![wire_sequence(puts[0].1)],
        };
        self.ask_shard(put.client, shard, request, Asked::End { puts });
    }

    fn send_revoke(&mut self, put: &Put, puts: Vec<(u32, u64)>, quiet: bool) {
        let shard = self.shard_of(put.asked.key);
        let request = ShardRequest::PutRevoke {
            incarnation: put.master,
            no_write_in_flight: quiet,
            batch: self.batch(&[put.asked.key]),
            sequences: vec![wire_sequence(puts[0].1)],
        };
        self.ask_shard(put.asked.client, shard, request, Asked::Revoke { puts, quiet });
    }

    fn get(&mut self, client: usize) {
        let id = self.clients[client].id;
        let sent = self.now();
        for (shard, keys) in self.draw_batches(16) {
            let request = ShardRequest::Get { batch: self.batch(&keys) };
            self.ask_shard(id, shard, request, Asked::Get { keys, sent, client });
        }
    }

    /// Reads within the lease, counted from before the get was sent; now and then later than that.
    fn plan_read(
        &mut self,
        client: usize,
        key: u32,
        sent: Moment,
        located: (Located, Incarnation),
    ) {
        let lease_until = sent.after_ms(self.plan.settings.lease_ttl_ms);
        let left_ms = lease_until.since_ms(self.now());
        let late = self.dice.random_bool(0.1);
        let delay_ms = if late {
            left_ms + self.dice.random_range(0..=2 * self.plan.settings.lease_ttl_ms)
        } else if left_ms == 0 {
            return;
        } else {
            self.dice.random_range(0..left_ms)
        };
        let location = self.locations.len();
        self.locations.push(located);
        self.at(delay_ms, Event::Read { client, key, location, late });
    }

    pub(crate) fn read(
        &mut self,
        client: usize,
        key: u32,
        location: usize,
        late: bool,
    ) -> Result<(), Violation> {
        let (located, master) = &self.locations[location];
        let master = *master;
        let replica = self.dice.random_range(0..located.replicas.len());
        let (sequence, size_bytes) = (located.sequence, located.size_bytes);
        let descriptor = located.replicas[replica];
        let found = self.memories.read((master, descriptor), sequence, size_bytes);
        self.audit.note(self.now(), "read", &(key, sequence, &found));
        let stray = match found {
            Err(Fault::Gone | Fault::WrongMount) => {
                self.oracle.tally.read_refused += 1;
                return Ok(());
            }
            Ok(stray) => stray,
        };
        self.oracle.tally.read += 1;
        if late && self.plan.canary != Some(Canary::LateReads) {
            self.validate(client, key, (master, sequence), stray.is_none());
            return Ok(());
        }
        match stray {
            None => Ok(()),
            Some(stray) => Err(Invariant::Readable.violated(format!(
                "key {key}, put {sequence:#x} of {size_bytes} bytes at {descriptor:?}: {stray}"
            ))),
        }
    }

    /// A reader whose lease was over asks whether what it has read is still the object.
    fn validate(
        &mut self,
        client: usize,
        key: u32,
        (master, sequence): (Incarnation, u64),
        intact: bool,
    ) {
        let request = ShardRequest::Validate {
            incarnation: master,
            batch: self.batch(&[key]),
            sequences: vec![wire_sequence(sequence)],
        };
        let puts = vec![(key, sequence)];
        let (id, shard) = (self.clients[client].id, self.shard_of(key));
        self.ask_shard(id, shard, request, Asked::Validate { puts, intact });
    }

    /// Which keys are there: one by one, or as the front of a chain.
    fn look(&mut self, client: usize) {
        let id = self.clients[client].id;
        let lease = self.dice.random_bool(0.5);
        for (shard, keys) in self.draw_batches(32) {
            let request = ShardRequest::Exist { lease, batch: self.batch(&keys) };
            self.ask_shard(id, shard, request, Asked::Exist { keys, lease });
        }
    }

    pub(crate) fn remove(&mut self, client: usize) {
        let id = self.clients[client].id;
        let force = self.dice.random_bool(0.3);
        for (shard, keys) in self.draw_batches(4) {
            let request = ShardRequest::Remove { force, batch: self.batch(&keys) };
            self.ask_shard(id, shard, request, Asked::Remove { keys, force });
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
