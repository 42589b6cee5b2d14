//! Writers without tokens: their puts are known by key and client alone.
//!
//! A token says which put is meant. Without one, what a client says is taken for its current put of
//! the key: a late word about an earlier one of the same client cannot be told from it. What belongs
//! to another client is never touched.

use mooring_proto::ClientId;
use mooring_proto::error::{ErrorCode, Refusal};

use super::ahead::{LookAhead, Moves};
use super::message::KeyBatch;
use super::objects::{ObjectHandle, ObjectState};
use super::ranges::RangeHandle;
use super::state::Shard;
use crate::moment::Moment;
use crate::pool::message::Mount;

/// What a key has of a client.
enum Written {
    Unfinished(ObjectHandle),
    Complete(ObjectHandle),
}

impl Shard {
    /// Makes the objects of a batch readable.
    pub(super) fn end_by_writer(
        &mut self,
        now: Moment,
        client: ClientId,
        batch: &KeyBatch,
        checksums: &[Option<u64>],
    ) -> Vec<Result<(), Refusal>> {
        self.each_written(client, batch, |shard, index, written| match written {
            Written::Unfinished(object) => {
                shard.end_put(now, object)?;
                shard.ledger.note_writer(object, client);
                if let Some(checksum) = checksums.get(index).copied().flatten() {
                    shard.ledger.note_checksum(object, checksum);
                }
                Ok(())
            }
            // A repeated end. What the first one has said stands.
            Written::Complete(_) => Ok(()),
        })
    }

    /// Gives the reservations of a batch up.
    pub(super) fn revoke_by_writer(
        &mut self,
        now: Moment,
        client: ClientId,
        batch: &KeyBatch,
    ) -> Vec<Result<(), Refusal>> {
        self.each_written(client, batch, |shard, _, written| match written {
            Written::Unfinished(object) => shard.revoke_put(now, false, object),
            Written::Complete(_) => Err(ErrorCode::PutComplete),
        })
    }

    /// Removes the objects of a batch that the client has written.
    pub(super) fn remove_by_writer(
        &mut self,
        now: Moment,
        client: ClientId,
        mounts: Option<&[Mount]>,
        batch: &KeyBatch,
    ) -> Vec<Result<(), Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::Out);
        for index in 0..batch.len() {
            ahead.advance(&self.ledger, index);
            let answer = match self.written(client, batch, index) {
                Ok(Written::Unfinished(_)) => Err(ErrorCode::NotReadable.into()),
                Ok(Written::Complete(object)) => match mounts {
                    None => self.remove_object(now, false, object),
                    Some(mounts) => self.remove_replicas(now, mounts, object),
                },
                Err(code) => {
                    if mounts.is_none() {
                        self.remove_hidden(now, client, batch, index);
                    }
                    Err(code.into())
                }
            };
            answers.push(answer);
        }
        answers
    }

    /// Removes what a key has of a client on segments whose owners have not come back yet, so that it
    /// does not come back with them.
    fn remove_hidden(&mut self, now: Moment, client: ClientId, batch: &KeyBatch, index: usize) {
        let found = self.ledger.find(batch.keys[index].hash, batch.key(index));
        let own = found.filter(|object| self.ledger.writer(*object) == Some(client));
        if let Some(object) = own.filter(|object| !self.reachable(*object)) {
            // It answers that there is nothing to find, as this removal does.
            let _ = self.remove_object(now, false, object);
        }
    }

    /// Removes the replicas of an object that lie on some mounts, and the object with its last one.
    fn remove_replicas(
        &mut self,
        now: Moment,
        mounts: &[Mount],
        object: ObjectHandle,
    ) -> Result<(), Refusal> {
        self.removable(now, object)?;
        let mount_of = |range: &RangeHandle| {
            let segment = self.ledger.ranges().segment(*range);
            self.segments.at(segment).mount
        };
        let there: Vec<RangeHandle> = self
            .ledger
            .replicas(object)
            .filter(|range| mounts.contains(&mount_of(range)))
            .collect();
        if there.is_empty() {
            return Err(ErrorCode::NotFound.into());
        }
        for range in there {
            if self.erase_replica(now, range, None) {
                self.counters.removed += 1;
            }
        }
        self.room_made |= !self.parked.is_empty();
        Ok(())
    }

    fn each_written(
        &mut self,
        client: ClientId,
        batch: &KeyBatch,
        act: impl Fn(&mut Shard, usize, Written) -> Result<(), ErrorCode>,
    ) -> Vec<Result<(), Refusal>> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut ahead = LookAhead::new(batch, Moves::None);
        for index in 0..batch.len() {
            ahead.advance(&self.ledger, index);
            let written = self.written(client, batch, index);
            let answer = written.and_then(|written| act(self, index, written));
            answers.push(answer.map_err(Refusal::from));
        }
        answers
    }

    /// What a key has of a client.
    fn written(
        &self,
        client: ClientId,
        batch: &KeyBatch,
        index: usize,
    ) -> Result<Written, ErrorCode> {
        let found = self.ledger.find(batch.keys[index].hash, batch.key(index));
        let object = found.ok_or(ErrorCode::NotFound)?;
        if self.ledger.objects().state(object) == ObjectState::Writing {
            let put = self.put_of(object).expect("an object being written has its put");
            let own = put.client == client;
            return if own { Ok(Written::Unfinished(object)) } else { Err(ErrorCode::NotWriter) };
        }
        if !self.reachable(object) {
            return Err(ErrorCode::NotFound);
        }
        let own = self.ledger.writer(object) == Some(client);
        if own { Ok(Written::Complete(object)) } else { Err(ErrorCode::NotWriter) }
    }
}
