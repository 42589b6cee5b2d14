//! The shell of the clients actor: receives, stamps the time, applies, and sends what came out.

use std::collections::HashMap;
use std::convert::Infallible;

use kameo::actor::{ActorRef, WeakActorRef};
use kameo::mailbox::{MailboxReceiver, Signal};
use kameo::message::{Context, Message};
use mooring_proto::message::inspect::ClientEntry;
use mooring_proto::{ClientId, SegmentsDigest};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::{Interval, MissedTickBehavior};

use super::{ClientCounts, Clients, ClientsEffect, ClientsMessage};
use crate::clock::Clock;
use crate::core::{AttentionNeeded, PingAnswer};
use crate::handoff::ClientRecord;
use crate::pool::message::PoolMessage;
use crate::request::RequestId;
use crate::shard::message::ShardMessage;
use crate::shell::{Call, FaultGuard, Lanes};

/// A ping: who, how many segments it believes to have mounted, and which of them it keeps.
pub(crate) type PingCall = Call<(ClientId, u32, Option<SegmentsDigest>), PingAnswer>;

/// A question for the list of clients.
pub(crate) type ListCall = Call<(), Vec<ClientEntry>>;

/// What the clients actor hands to the next master. The pool should be at rest, so that it has told
/// of all mounts.
pub(crate) type ClientsExportCall = Call<(), Vec<ClientRecord>>;

/// The clients on kameo.
pub(crate) struct ClientsActor {
    args: ClientsArgs,
    waiting: HashMap<RequestId, Waiting>,
    last_request: u64,
    ticks: Interval,
    effects: Vec<ClientsEffect>,
}

/// What the actor is made of.
pub(crate) struct ClientsArgs {
    pub(crate) clients: Clients,
    pub(crate) clock: Clock,
    pub(crate) lanes: Lanes,
    pub(crate) control: mpsc::UnboundedReceiver<ClientsMessage>,
    pub(crate) attention: broadcast::Sender<AttentionNeeded>,
    pub(crate) counts: watch::Sender<ClientCounts>,
    pub(crate) tick_period_ms: u64,
    pub(crate) on_fault: fn(&str),
}

enum Waiting {
    Ping(oneshot::Sender<PingAnswer>),
    List(oneshot::Sender<Vec<ClientEntry>>),
}

impl ClientsActor {
    fn apply(&mut self, message: ClientsMessage) {
        let _guard = FaultGuard { actor: "clients", on_fault: self.args.on_fault };
        let mut effects = std::mem::take(&mut self.effects);
        self.args.clients.apply(self.args.clock.now(), message, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
        let counts = self.args.clients.counts();
        self.args.counts.send_if_modified(|known| {
            let changed = *known != counts;
            *known = counts;
            changed
        });
    }

    /// The lanes of the other actors close only when the process ends, and a caller that has gone
    /// needs no answer: what cannot be sent is dropped.
    fn carry_out(&mut self, effect: ClientsEffect) {
        match effect {
            ClientsEffect::ReplyPing { id, need_remount, ttl_ms } => {
                if let Some(Waiting::Ping(caller)) = self.waiting.remove(&id) {
                    let _ = caller.send(PingAnswer { need_remount, client_ttl_ms: ttl_ms });
                }
            }
            ClientsEffect::ReplyList { id, clients } => {
                if let Some(Waiting::List(caller)) = self.waiting.remove(&id) {
                    let _ = caller.send(clients);
                }
            }
            ClientsEffect::AskAttention { client, silent_ms } => {
                let _ = self.args.attention.send(AttentionNeeded { client, silent_ms });
            }
            ClientsEffect::Offline { client, segments } => {
                if segments > 0 {
                    tracing::warn!(%client, segments, "client_expired");
                }
                let _ = self.args.lanes.pool.send(PoolMessage::ClientLost(client));
                self.tell_shards_of_loss(client);
            }
            ClientsEffect::Left { client } => self.tell_shards_of_loss(client),
            ClientsEffect::Quiesced => {
                let _ = self.args.lanes.pool.send(PoolMessage::ClientsQuiesced);
            }
        }
    }

    fn tell_shards_of_loss(&self, client: ClientId) {
        for shard in &self.args.lanes.shards {
            let _ = shard.send(ShardMessage::ClientLost(client));
        }
    }

    fn ticket(&mut self, waiting: Waiting) -> RequestId {
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.waiting.insert(id, waiting);
        id
    }
}

impl kameo::Actor for ClientsActor {
    type Args = ClientsArgs;
    type Error = Infallible;

    async fn on_start(args: ClientsArgs, _: ActorRef<Self>) -> Result<Self, Infallible> {
        let period = std::time::Duration::from_millis(args.tick_period_ms.max(1));
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let waiting = HashMap::new();
        Ok(ClientsActor { args, waiting, last_request: 0, ticks, effects: Vec::new() })
    }

    /// The tick comes before the mailbox, or a full mailbox would end all judging. Pings that wait
    /// behind a tick cost nobody anything: a tick that comes late is discounted.
    async fn next(
        &mut self,
        _: WeakActorRef<Self>,
        mailbox: &mut MailboxReceiver<Self>,
    ) -> Result<Option<Signal<Self>>, Infallible> {
        loop {
            tokio::select! {
                biased;
                Some(message) = self.args.control.recv() => self.apply(message),
                _ = self.ticks.tick() => self.apply(ClientsMessage::Tick),
                signal = mailbox.recv() => return Ok(signal),
            }
        }
    }
}

impl Message<PingCall> for ClientsActor {
    type Reply = ();

    async fn handle(&mut self, call: PingCall, _: &mut Context<Self, ()>) {
        let (client, mounted_segments, kept) = call.request;
        let id = self.ticket(Waiting::Ping(call.reply));
        self.apply(ClientsMessage::Ping { id, client, mounted_segments, kept });
    }
}

impl Message<ListCall> for ClientsActor {
    type Reply = ();

    async fn handle(&mut self, call: ListCall, _: &mut Context<Self, ()>) {
        let id = self.ticket(Waiting::List(call.reply));
        self.apply(ClientsMessage::List { id });
    }
}

impl Message<ClientsExportCall> for ClientsActor {
    type Reply = ();

    async fn handle(&mut self, call: ClientsExportCall, _: &mut Context<Self, ()>) {
        // What the pool has said before it came to rest may have been sent between the looks at the
        // control lane and at the mailbox.
        while let Ok(message) = self.args.control.try_recv() {
            self.apply(message);
        }
        let _ = call.reply.send(self.args.clients.export());
    }
}
