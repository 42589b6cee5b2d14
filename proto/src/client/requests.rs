//! The calls of the master's interface, one method each.

use std::time::Duration;

use serde_bytes::Bytes;
use tokio::time::Instant;

use super::Client;
use super::error::ClientError;
use crate::error::{ErrorCode, Refusal};
use crate::identity::Incarnation;
use crate::message::inspect::{
    ListClientsReply, ListClientsRequest, ListKeysReply, ListKeysRequest, ListSegmentsReply,
    ListSegmentsRequest, StatsReply, StatsRequest,
};
use crate::message::object::{
    ExistRequest, GetReply, GetRequest, MatchPrefixRequest, PutEndRequest, PutItem, PutOptions,
    PutRevokeRequest, PutStartItem, PutStartReply, PutStartRequest, RemoveAllReply,
    RemoveAllRequest, RemoveRequest, ValidateRequest,
};

/// Places of objects, and how long they may be read.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The answer, in the order of the keys.
    pub reply: GetReply,
    /// What is read until then is the object. A read that ends later counts only if
    /// [`Client::validate`] says so afterwards.
    pub until: Instant,
}

/// Batches have at most 65,536 items and 16 MiB of keys. Each call is retried while the master is
/// restarting, overloaded or out of reach, until the request timeout.
impl Client {
    /// Reserves space. Take the ids of the items from [`Client::next_put_id`].
    ///
    /// Items that are refused stand in the reply; none of them is retried here.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn put_start(
        &self,
        options: &PutOptions,
        items: &[PutStartItem<'_>],
    ) -> Result<PutStartReply, ClientError> {
        self.start_puts(options, items).await.map(|(reply, _)| reply)
    }

    /// The same, and whether the answer to an earlier attempt of the call was lost.
    pub(super) async fn start_puts(
        &self,
        options: &PutOptions,
        items: &[PutStartItem<'_>],
    ) -> Result<(PutStartReply, bool), ClientError> {
        let request = PutStartRequest { options: options.clone(), items: items.to_vec() };
        let answer = self.shared().call(&request).await?;
        check_count(answer.reply.items.len(), items.len())?;
        Ok((answer.reply, answer.maybe_done_before))
    }

    /// Makes objects readable whose bytes are written.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn put_end(
        &self,
        incarnation: Incarnation,
        items: &[PutItem<'_>],
    ) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        let request = PutEndRequest { incarnation, items: items.to_vec() };
        let reply = self.shared().call(&request).await?.reply;
        check_count(reply.items.len(), items.len())?;
        Ok(reply.items)
    }

    /// Gives reservations up. State `no_write_in_flight` only if every write into the ranges was
    /// answered, or never sent: the ranges are handed out again at once.
    ///
    /// An item that is gone counts as revoked if the answer to an earlier attempt was lost.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn put_revoke(
        &self,
        incarnation: Incarnation,
        no_write_in_flight: bool,
        items: &[PutItem<'_>],
    ) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        let request = PutRevokeRequest { incarnation, no_write_in_flight, items: items.to_vec() };
        let answer = self.shared().call(&request).await?;
        check_count(answer.reply.items.len(), items.len())?;
        let gone = [ErrorCode::NotFound, ErrorCode::StaleToken];
        Ok(forgive(answer.reply.items, answer.maybe_done_before, &gone))
    }

    /// Asks where objects are, and leases them.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Leased, ClientError> {
        let answer = self.shared().call(&GetRequest { keys: borrow(keys) }).await?;
        check_count(answer.reply.items.len(), keys.len())?;
        let lease = Duration::from_millis(answer.reply.lease_ttl_ms);
        let until = answer.asked_at.checked_add(lease).unwrap_or(answer.asked_at);
        Ok(Leased { reply: answer.reply, until })
    }

    /// Which keys are readable, in their order; `lease` leases those that are.
    ///
    /// # Errors
    /// What the batch is refused with.
    pub async fn exist<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        lease: bool,
    ) -> Result<Vec<bool>, ClientError> {
        let reply = self.shared().call(&ExistRequest { lease, keys: borrow(keys) }).await?.reply;
        check_count(reply.keys as usize, keys.len())?;
        Ok((0..keys.len()).map(|index| reply.readable(index)).collect())
    }

    /// How many keys of the chain are readable from its front; `lease` leases those that are.
    ///
    /// # Errors
    /// What the batch is refused with.
    pub async fn match_prefix<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        lease: bool,
    ) -> Result<usize, ClientError> {
        let request = MatchPrefixRequest { lease, keys: borrow(keys) };
        let matched = self.shared().call(&request).await?.reply.matched as usize;
        if matched > keys.len() {
            let text = format!("{matched} keys match of {}", keys.len());
            return Err(ClientError::Protocol(text));
        }
        Ok(matched)
    }

    /// Whether keys still have the very objects that [`Client::get`] told of.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn validate(
        &self,
        incarnation: Incarnation,
        items: &[PutItem<'_>],
    ) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        let request = ValidateRequest { incarnation, items: items.to_vec() };
        let reply = self.shared().call(&request).await?.reply;
        check_count(reply.items.len(), items.len())?;
        Ok(reply.items)
    }

    /// Removes objects; leased ones only with `force`.
    ///
    /// A key without an object counts as removed if the answer to an earlier attempt was lost. An
    /// object that another client put between two attempts is removed too.
    ///
    /// # Errors
    /// Only for the whole batch.
    pub async fn remove<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        force: bool,
    ) -> Result<Vec<Result<(), Refusal>>, ClientError> {
        let answer = self.shared().call(&RemoveRequest { force, keys: borrow(keys) }).await?;
        check_count(answer.reply.items.len(), keys.len())?;
        Ok(forgive(answer.reply.items, answer.maybe_done_before, &[ErrorCode::NotFound]))
    }

    /// Removes every object that is complete; leased ones only with `force`. Not retried: what is
    /// put between two attempts was not meant.
    ///
    /// # Errors
    /// After an error that is no refusal, some or all objects may be gone.
    pub async fn remove_all(&self, force: bool) -> Result<RemoveAllReply, ClientError> {
        self.call(&RemoveAllRequest { force }).await
    }

    /// The totals of the master.
    ///
    /// # Errors
    /// What the request is refused with.
    pub async fn stats(&self) -> Result<StatsReply, ClientError> {
        Ok(self.shared().call(&StatsRequest {}).await?.reply)
    }

    /// The mounted segments with their use.
    ///
    /// # Errors
    /// What the request is refused with.
    pub async fn list_segments(&self) -> Result<ListSegmentsReply, ClientError> {
        Ok(self.shared().call(&ListSegmentsRequest {}).await?.reply)
    }

    /// The clients that ping.
    ///
    /// # Errors
    /// What the request is refused with.
    pub async fn list_clients(&self) -> Result<ListClientsReply, ClientError> {
        Ok(self.shared().call(&ListClientsRequest {}).await?.reply)
    }

    /// One page of the readable keys: from the cursor zero on, then from the one of the page before
    /// until there is none.
    ///
    /// # Errors
    /// What the request is refused with.
    pub async fn list_keys(&self, cursor: u64, limit: u32) -> Result<ListKeysReply, ClientError> {
        Ok(self.shared().call(&ListKeysRequest { cursor, limit }).await?.reply)
    }

    /// An id for a put: unlike every other one of this client.
    pub fn next_put_id(&self) -> u64 {
        self.shared().next_put_id()
    }
}

fn borrow<K: AsRef<[u8]>>(keys: &[K]) -> Vec<&Bytes> {
    keys.iter().map(|key| Bytes::new(key.as_ref())).collect()
}

fn check_count(answers: usize, asked: usize) -> Result<(), ClientError> {
    if answers == asked {
        return Ok(());
    }
    Err(ClientError::Protocol(format!("{answers} answers to a batch of {asked}")))
}

/// What an attempt before has done looks to this one as if there was nothing to do.
fn forgive(
    mut answers: Vec<Result<(), Refusal>>,
    maybe_done_before: bool,
    codes: &[ErrorCode],
) -> Vec<Result<(), Refusal>> {
    if maybe_done_before {
        for answer in &mut answers {
            if answer.as_ref().is_err_and(|refusal| codes.contains(&refusal.code)) {
                *answer = Ok(());
            }
        }
    }
    answers
}
