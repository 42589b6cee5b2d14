//! All that is known of an object, for readers that want more than its place.

use mooring_proto::error::Refusal;

use super::ahead::{LookAhead, Moves};
use super::message::{Described, KeyBatch};
use super::objects::ObjectHandle;
use super::state::Shard;
use crate::moment::Moment;

impl Shard {
    /// Describes the objects of a batch; each that is readable gets a lease.
    pub(super) fn get_detailed(
        &mut self,
        now: Moment,
        batch: &KeyBatch,
    ) -> Vec<Result<Described, Refusal>> {
        self.lease_each(now, batch, |shard, object| shard.described(now, object))
    }

    /// Describes the objects of a batch, and changes nothing.
    pub(super) fn peek(&self, now: Moment, batch: &KeyBatch) -> Vec<Result<Described, Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::None);
        for index in 0..batch.len() {
            let likely = ahead.advance(&self.ledger, index);
            let found = self.find_readable(batch, index, likely);
            answers.push(found.map(|object| self.described(now, object)).map_err(Refusal::from));
        }
        answers
    }

    fn described(&self, now: Moment, object: ObjectHandle) -> Described {
        let objects = self.ledger.objects();
        let soft_pin_until = self.soft_pins.until(object).filter(|until| *until > now);
        Described {
            size_bytes: objects.size_bytes(object),
            sequence: objects.sequence(object),
            replicas: self.descriptors(object),
            checksum: self.ledger.checksum(object),
            data_type: self.ledger.data_type(object),
            writer: self.ledger.writer(object),
            group: self.ledger.group_name(object).map(|name| Box::from(&*name)),
            lease_left_ms: self.stays_until(object).since_ms(now),
            hard_pin: objects.flags(object).hard_pin,
            soft_pin_left_ms: soft_pin_until.map(|until| until.since_ms(now)),
        }
    }
}
