//! The shell of the pool: receives, stamps the time, applies, and sends what came out.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use kameo::actor::{ActorRef, WeakActorRef};
use kameo::mailbox::{MailboxReceiver, Signal};
use kameo::message::{Context, Message};
use mooring_proto::ClientId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Interval, MissedTickBehavior};

use super::Pool;
use super::message::{PoolEffect, PoolMessage, PoolReply, PoolRequest};
use crate::clients::ClientsMessage;
use crate::clock::Clock;
use crate::core::SegmentTable;
use crate::handoff::PoolRecord;
use crate::request::RequestId;
use crate::shard::message::ShardMessage;
use crate::shell::{Call, FaultGuard, Lanes, answered_twice};
use crate::watch::Watch;

/// A request to the pool.
pub(crate) type PoolCall = Call<PoolRequest, PoolReply>;

/// What the pool hands to the next master. The pool should be at rest.
pub(crate) type PoolExportCall = Call<(), PoolRecord>;

/// The pool on kameo.
pub(crate) struct PoolActor {
    args: PoolArgs,
    waiting: HashMap<RequestId, Waiting>,
    last_request: u64,
    ticks: Interval,
    effects: Vec<PoolEffect>,
    /// Of the request at hand, if somebody follows it.
    watched: Option<Arc<Watch>>,
}

/// What the pool's actor is made of.
pub(crate) struct PoolArgs {
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    pub(crate) lanes: Lanes,
    pub(crate) control: mpsc::UnboundedReceiver<PoolMessage>,
    pub(crate) table: watch::Sender<Arc<SegmentTable>>,
    pub(crate) on_fault: fn(&str),
}

struct Waiting {
    caller: oneshot::Sender<PoolReply>,
    /// The client that remounts with this request.
    remounting: Option<ClientId>,
    /// If somebody follows the request.
    watch: Option<Arc<Watch>>,
}

impl PoolActor {
    fn apply(&mut self, message: PoolMessage) {
        let _guard = FaultGuard { actor: "pool", on_fault: self.args.on_fault };
        let mut effects = std::mem::take(&mut self.effects);
        self.args.pool.apply(self.args.clock.now(), message, &mut effects);
        // Before the answer goes: who asked reads it then.
        if let Some(watch) = self.watched.take() {
            watch.note_worked();
        }
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    /// The lanes of the other actors close only when the process ends, and a caller that has gone
    /// needs no answer: what cannot be sent is dropped.
    fn carry_out(&mut self, effect: PoolEffect) {
        match effect {
            PoolEffect::Reply { id, reply } => {
                let Some(waiting) = self.waiting.remove(&id) else {
                    return answered_twice("the pool", id).note();
                };
                if let (Some(client), PoolReply::Remounted(Ok(grants))) =
                    (waiting.remounting, &reply)
                {
                    // A list may name one of them several times.
                    let slots: BTreeSet<u32> = grants.iter().map(|grant| grant.slot).collect();
                    let segments = u32::try_from(slots.len()).unwrap_or(u32::MAX);
                    let remounted = ClientsMessage::Remounted { client, segments };
                    let _ = self.args.lanes.clients.send(remounted);
                }
                if let Some(watch) = &waiting.watch {
                    watch.note_answered();
                }
                let _ = waiting.caller.send(reply);
            }
            PoolEffect::Order { shard, order } => {
                let lane = &self.args.lanes.shards[usize::from(shard.0)];
                let _ = lane.send(ShardMessage::Pool(order));
            }
            PoolEffect::TableChanged { epoch } => {
                let segments = self.args.pool.table();
                self.args.table.send_replace(Arc::new(SegmentTable { epoch, segments }));
            }
            PoolEffect::ClientSegments { client, segments, kept } => {
                let mounted = ClientsMessage::Mounted { client, segments, kept };
                let _ = self.args.lanes.clients.send(mounted);
            }
            PoolEffect::Unlisted { client, segment } => {
                tracing::warn!(%client, %segment, "segment_unlisted");
            }
            // Whoever waits for the rest of all waits for the shards: they rest after the pool.
            PoolEffect::AtRest => tracing::debug!("pool_at_rest"),
        }
    }
}

impl kameo::Actor for PoolActor {
    type Args = PoolArgs;
    type Error = Infallible;

    async fn on_start(args: PoolArgs, _: ActorRef<Self>) -> Result<Self, Infallible> {
        let mut ticks = tokio::time::interval(TICK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let waiting = HashMap::new();
        Ok(PoolActor { args, waiting, last_request: 0, ticks, effects: Vec::new(), watched: None })
    }

    async fn next(
        &mut self,
        _: WeakActorRef<Self>,
        mailbox: &mut MailboxReceiver<Self>,
    ) -> Result<Option<Signal<Self>>, Infallible> {
        loop {
            tokio::select! {
                biased;
                Some(message) = self.args.control.recv() => {
                    if matches!(message, PoolMessage::ClientLost(_)) {
                        self.args.lanes.note_loss(None);
                    }
                    self.apply(message);
                }
                _ = self.ticks.tick() => self.apply(PoolMessage::Tick),
                signal = mailbox.recv() => return Ok(signal),
            }
        }
    }
}

impl Message<PoolCall> for PoolActor {
    type Reply = ();

    async fn handle(&mut self, call: PoolCall, _: &mut Context<Self, ()>) {
        self.last_request += 1;
        let id = RequestId(self.last_request);
        if let Some(watch) = &call.watch {
            watch.note_taken();
        }
        let remounting = match &call.request {
            PoolRequest::Remount { client, .. } => Some(*client),
            PoolRequest::Unmount { .. } => {
                self.args.lanes.note_loss(call.watch.as_ref().map(|watch| watch.trace()));
                None
            }
            _ => None,
        };
        let watch = call.watch.clone();
        self.waiting.insert(id, Waiting { caller: call.reply, remounting, watch });
        self.watched = call.watch;
        self.apply(PoolMessage::Request { id, request: call.request });
    }
}

impl Message<PoolExportCall> for PoolActor {
    type Reply = ();

    async fn handle(&mut self, call: PoolExportCall, _: &mut Context<Self, ()>) {
        let _ = call.reply.send(self.args.pool.export(self.args.clock.now()));
    }
}

/// Drains, quarantines and withheld pages end at this grain, and shards hear of changed space no
/// later.
const TICK_PERIOD: std::time::Duration = std::time::Duration::from_millis(10);
