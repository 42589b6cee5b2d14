//! What the answers to writers without tokens must agree with. The master knows their puts by key
//! and client; the model knows which put each of them means.

use mooring_actors::Moment;
use mooring_actors::invariant::Violation;
use mooring_proto::ClientId;
use mooring_proto::error::{ErrorCode, Refusal};

use super::{Oracle, readable};
use crate::asked::PutAsked;

impl Oracle {
    pub(super) fn ended_by_writer(
        &mut self,
        now: Moment,
        put: &PutAsked,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let model = self.key(put.key);
        match (answer, model.writing.filter(|sequence| self.is_of(*sequence, put.client))) {
            (_, Some(sequence)) if self.puts[&sequence].asked.put_id == put.put_id => {
                self.ended(now, put.key, sequence, answer)
            }
            (Ok(()), Some(sequence)) => {
                let fault = format!("was ended as {sequence:#x} by a word about {put:?}");
                Err(readable(put.key, &fault))
            }
            // A repeated word.
            (Ok(()), None)
                if model.readable.is_some_and(|sequence| self.is_of(sequence, put.client)) =>
            {
                Ok(())
            }
            (Ok(()), None) => {
                Err(readable(put.key, &format!("was ended by {put:?}, but is {model:?}")))
            }
            (Err(_), _) => Ok(()),
        }
    }

    pub(super) fn revoked_by_writer(
        &mut self,
        now: Moment,
        put: &PutAsked,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let model = self.key(put.key);
        match (answer, model.writing.filter(|sequence| self.is_of(*sequence, put.client))) {
            (_, Some(sequence)) if self.puts[&sequence].asked.put_id == put.put_id => {
                self.revoked(now, put.key, sequence, false, answer)
            }
            (Ok(()), _) => {
                Err(readable(put.key, &format!("was revoked by {put:?}, but is {model:?}")))
            }
            (Err(_), _) => Ok(()),
        }
    }

    pub(super) fn removed_by_writer(
        &mut self,
        now: Moment,
        key: u32,
        client: ClientId,
        answer: &Result<(), Refusal>,
    ) -> Result<(), Violation> {
        let model = self.key(key);
        match answer {
            Ok(()) if !model.readable.is_some_and(|sequence| self.is_of(sequence, client)) => {
                Err(readable(key, &format!("was removed by {client:?}, but is {model:?}")))
            }
            Err(refusal)
                if matches!(refusal.code, ErrorCode::NotWriter | ErrorCode::NotReadable) =>
            {
                Ok(())
            }
            // What is hidden goes only if it is the client's.
            Err(refusal) if refusal.code == ErrorCode::NotFound => {
                let own = model.readable.is_some_and(|sequence| self.is_of(sequence, client));
                if own { self.removed(now, key, false, answer) } else { self.missed(now, key) }
            }
            answer => self.removed(now, key, false, answer),
        }
    }

    fn is_of(&self, sequence: u64, client: ClientId) -> bool {
        self.puts.get(&sequence).is_some_and(|put| put.asked.client == client)
    }
}
