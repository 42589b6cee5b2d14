//! What clients do to read: ask where objects lie, read them there, and ask again whether what they
//! have read is still the object if it took them too long.

use mooring_actors::Moment;
use mooring_actors::invariant::{Invariant, Violation};
use mooring_actors::shard::message::ShardRequest;
use mooring_proto::Incarnation;
use mooring_proto::message::object::Located;
use rand::Rng;

use crate::asked::Asked;
use crate::event::Event;
use crate::plan::Canary;
use crate::restart::wire_sequence;
use crate::store::Fault;
use crate::world::World;

impl World {
    pub(crate) fn get(&mut self, client: usize) {
        let id = self.clients[client].id;
        let sent = self.now();
        for (shard, keys) in self.draw_batches(16) {
            let batch = self.batch(&keys);
            let is_curious = self.plan.groups > 0 && self.dice.random_bool(0.2);
            let request = match self.clients[client].tokenless || is_curious {
                false => ShardRequest::Get { batch },
                true => ShardRequest::GetDetailed { batch },
            };
            self.ask_shard(id, shard, request, Asked::Get { keys, sent, client });
        }
    }

    /// Which keys are there: one by one, or as the front of a chain.
    pub(crate) fn look(&mut self, client: usize) {
        let id = self.clients[client].id;
        let lease = self.dice.random_bool(0.5);
        for (shard, keys) in self.draw_batches(32) {
            let request = ShardRequest::Exist { lease, batch: self.batch(&keys) };
            self.ask_shard(id, shard, request, Asked::Exist { keys, lease });
        }
    }

    /// Reads within the lease, counted from before the get was sent; now and then later than that.
    pub(crate) fn plan_read(
        &mut self,
        client: usize,
        key: u32,
        sent: Moment,
        located: (Located, Incarnation),
    ) {
        let lease_until = sent.after_ms(self.by_client(self.plan.settings.lease_ttl_ms));
        let left_ms = lease_until.since_ms(self.now());
        // Who has no tokens does not validate either.
        let late = self.dice.random_bool(0.1) && !self.clients[client].tokenless;
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
        let place = self.memories.address(master, descriptor);
        if place.is_some_and(|(place, _)| self.hangs_until(place.memory).is_some()) {
            self.oracle.tally.read_refused += 1;
            return Ok(());
        }
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
}
