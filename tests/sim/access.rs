//! Writes into the memory of stores, from the plan of a put to the moment when the bytes are there.

use mooring_actors::Moment;
use rand::Rng;

use crate::client::Intent;
use crate::event::Event;
use crate::plan::Canary;
use crate::world::World;

impl World {
    /// Writes the object in some pieces, replica by replica at the same time.
    pub(crate) fn plan_writes(&mut self, number: usize) {
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

    /// Writes that were in flight when the writer gave up arrive until its time is over.
    pub(crate) fn plan_late_writes(&mut self, number: usize) {
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
        if self.now() >= put.sent.after_ms(self.by_client(release_ms)) {
            self.puts[number].failed = true;
            return;
        }
        let client = put.client;
        let place = self.memories.address(descriptor.0, descriptor.1);
        if let Some((place, _)) = place
            && self.loses_write(client, place.memory)
        {
            self.lose_write(number, Event::Write { put: number, replica, from_byte, length_bytes });
            return;
        }
        if let Some((place, _)) = place
            && let Some(until) = self.hangs_until(place.memory)
        {
            let land = Event::Land { put: number, replica, from_byte, length_bytes };
            self.wait_for_store(number, until, land);
            return;
        }
        if place.is_some_and(|(place, _)| self.was_stopped(number, place.memory)) {
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

    /// A write is not answered. It may arrive all the same, as long as its put may be written to.
    fn lose_write(&mut self, number: usize, write: Event) {
        let put = &mut self.puts[number];
        (put.failed, put.in_doubt) = (true, true);
        let until = put.sent.after_ms(self.plan.settings.put_release_timeout_ms);
        if self.dice.random_bool(0.5) {
            let delay_ms = self.dice.random_range(0..=until.since_ms(self.now()));
            self.at(delay_ms, write);
        }
    }

    /// Until when nobody who asks the store for its memory gets an answer. Where the memory is reached
    /// without asking, it does not matter that the process hangs.
    pub(crate) fn hangs_until(&self, memory: usize) -> Option<Moment> {
        let asks = self.memories.all[memory].checks_mounts;
        self.stores[memory].hangs(self.now()).filter(|_| asks)
    }

    /// A write waits at a store that hangs, and is done when the store goes on, long after its writer
    /// has given it up. No writer begins one after the discard timeout.
    fn wait_for_store(&mut self, number: usize, until: Moment, land: Event) {
        let discard_ms = self.by_client(self.plan.settings.put_discard_timeout_ms);
        let now = self.now();
        let put = &mut self.puts[number];
        put.failed = true;
        if now < put.sent.after_ms(discard_ms) {
            put.in_doubt = true;
            self.at(until.since_ms(now), land);
        }
    }

    pub(crate) fn land(
        &mut self,
        number: usize,
        replica: usize,
        from_byte: u64,
        length_bytes: u64,
    ) {
        let put = &self.puts[number];
        let Some(grant) = &put.grant else { return };
        let (descriptor, sequence) = ((put.master, grant.replicas[replica]), grant.sequence);
        let written = self.memories.write(descriptor, sequence, from_byte, length_bytes, 0);
        self.audit.note(self.now(), "land", &(sequence, descriptor, from_byte, written));
    }

    /// How long a time of the master is by the clock of a client.
    pub(crate) fn by_client(&self, ms: u64) -> u64 {
        let ratio = match self.plan.canary {
            Some(Canary::SlowClocks) => 2.0,
            _ => self.plan.clock_ratio,
        };
        (ms as f64 * ratio) as u64
    }
}
