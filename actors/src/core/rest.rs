//! Coming to rest, and handing over.
//!
//! The order is the proof that nothing is under way afterwards. Every lane keeps its order, so:
//! a shard's last report reaches the pool behind all that it ever said; the pool comes to rest when
//! it has the last word of every shard and of the clients, so nothing to it is under way; and its
//! last order reaches each shard behind all that it ever ordered.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Core;
use crate::clients::ClientsMessage;
use crate::clients::actor::ClientsExportCall;
use crate::handoff::{ClientRecord, ExportError, PoolRecord, RecordSink, ShardRecord};
use crate::pool::actor::PoolExportCall;
use crate::pool::message::Mount;
use crate::route::ShardId;
use crate::shard::actor::{ExportCall, RestCall};
use crate::shard::message::ShardMessage;
use crate::shell::CallError;

impl Core {
    /// Ends the judging of clients: nobody is declared dead from here on.
    pub fn stop_judging(&self) {
        // The lane closes only when the process ends.
        let _ = self.shared.lanes.clients.send(ClientsMessage::FreezeJudgement(true));
    }

    /// Brings all actors to rest. Returns when none of them changes anything any more and no message
    /// between them is under way. What waited is answered as restarting. Only after one that hands over
    /// may anything be exported.
    ///
    /// # Errors
    /// When an actor has stopped.
    pub async fn quiesce(&self, hands_over: bool) -> Result<(), CallError> {
        let _ = self.shared.lanes.clients.send(ClientsMessage::Quiesce);
        for shard in &self.shared.lanes.shards {
            let _ = shard.send(ShardMessage::Quiesce { hands_over });
        }
        let mut at_rest = Vec::with_capacity(self.shared.shards.len());
        for shard in &self.shared.shards {
            let (reply, answer) = oneshot::channel();
            let call = RestCall { request: (), reply, watch: None };
            shard.tell(call).send().await.map_err(|_| CallError::Gone)?;
            at_rest.push(answer);
        }
        for answer in at_rest {
            answer.await.map_err(|_| CallError::Gone)?;
        }
        Ok(())
    }

    /// What the pool hands over, and the clients. The actors must be at rest.
    ///
    /// # Errors
    /// When an actor has stopped.
    pub async fn export_tables(&self) -> Result<(PoolRecord, Vec<ClientRecord>), CallError> {
        let (reply, pool) = oneshot::channel();
        let call = PoolExportCall { request: (), reply, watch: None };
        self.shared.pool.tell(call).send().await.map_err(|_| CallError::Gone)?;
        let (reply, clients) = oneshot::channel();
        let call = ClientsExportCall { request: (), reply, watch: None };
        self.shared.clients.tell(call).send().await.map_err(|_| CallError::Gone)?;
        let pool = pool.await.map_err(|_| CallError::Gone)?;
        let clients = clients.await.map_err(|_| CallError::Gone)?;
        Ok((pool, clients))
    }

    /// Hands the ranges of one shard over to a sink, on the segments of the pool's record. The actors
    /// must be at rest. Shards can be exported side by side.
    ///
    /// # Errors
    /// What the sink reports, or that the shard has stopped.
    pub async fn export_shard(
        &self,
        shard: ShardId,
        pool: &PoolRecord,
        sink: Box<dyn RecordSink>,
    ) -> Result<ShardRecord, ExportError> {
        let mounts: Arc<[Mount]> = pool.segments.iter().map(|segment| segment.mount()).collect();
        let (reply, answer) = oneshot::channel();
        let call = ExportCall { request: (mounts, sink), reply, watch: None };
        let actor = &self.shared.shards[usize::from(shard.0)];
        actor.tell(call).send().await.map_err(|_| ExportError::Gone)?;
        answer.await.map_err(|_| ExportError::Gone)?
    }
}
