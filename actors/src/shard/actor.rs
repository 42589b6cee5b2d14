//! The shell of a shard: receives, stamps the time, applies, and sends what came out.

mod export;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Instant;

use kameo::actor::{ActorRef, WeakActorRef};
use kameo::mailbox::{MailboxReceiver, Signal};
use kameo::message::{Context, Message};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior};

use super::jobs::{JobKind, JobLog, JobReport};
use super::message::{ShardEffect, ShardMessage, ShardReply, ShardRequest};
use super::state::Shard;
use crate::beside::begin;
use crate::clock::Clock;
use crate::core::Backlog;
use crate::handoff::{ExportError, RecordSink, ShardRecord};
use crate::moment::Moment;
use crate::pool::message::{Mount, PoolMessage};
use crate::request::RequestId;
use crate::route::ShardId;
use crate::shell::{Call, FaultGuard, Lanes, answered_twice};
use crate::watch::Watch;

/// A request with the moment by which its caller stops waiting.
pub(crate) type ShardCall = Call<(Option<Moment>, ShardRequest), ShardReply>;

/// Waits until the shard is at rest.
pub(crate) type RestCall = Call<(), ()>;

/// Hands everything on some mounts over to a sink. The shard must be at rest.
pub(crate) type ExportCall =
    Call<(Arc<[Mount]>, Box<dyn RecordSink>), Result<ShardRecord, ExportError>>;

/// A shard on kameo.
pub(crate) struct ShardActor {
    shard: Shard,
    id: ShardId,
    clock: Clock,
    lanes: Lanes,
    control: mpsc::UnboundedReceiver<ShardMessage>,
    backlog: Arc<Backlog>,
    on_fault: fn(&str),
    thread: fn() -> Builder,
    waiting: HashMap<RequestId, Waiting>,
    last_request: u64,
    ticks: Interval,
    /// The shard has a slice of a long job to do.
    slice_due: bool,
    /// The last turn was a slice, so that the mailbox is next.
    sliced: bool,
    effects: Vec<ShardEffect>,
    /// Of the request at hand, if somebody follows it.
    watched: Option<Arc<Watch>>,
    /// `None` if nobody follows the long jobs.
    jobs: Option<JobLog>,
    /// When the slice at hand began, if somebody follows it.
    slice_began: Option<Instant>,
    /// Who waits until the shard is at rest.
    rest_awaited: Vec<oneshot::Sender<()>>,
    at_rest: bool,
}

/// What a shard's actor is made of.
pub(crate) struct ShardArgs {
    pub(crate) shard: Shard,
    pub(crate) id: ShardId,
    pub(crate) clock: Clock,
    pub(crate) lanes: Lanes,
    pub(crate) control: mpsc::UnboundedReceiver<ShardMessage>,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) on_fault: fn(&str),
    pub(crate) on_job: Option<fn(JobReport)>,
    pub(crate) thread: fn() -> Builder,
}

/// Who waits for an answer.
struct Waiting {
    caller: oneshot::Sender<ShardReply>,
    /// If somebody follows the request.
    watch: Option<Arc<Watch>>,
}

impl ShardActor {
    fn apply(&mut self, message: ShardMessage) {
        let _guard = FaultGuard { actor: "shard", on_fault: self.on_fault };
        let mut effects = std::mem::take(&mut self.effects);
        self.shard.apply(self.clock.now(), message, &mut effects);
        // Before the answer goes: who asked reads it then.
        if let Some(watch) = self.watched.take() {
            watch.note_worked();
        }
        self.follow_jobs();
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn follow_jobs(&mut self) {
        let Some(jobs) = &mut self.jobs else { return };
        if let Some(began) = self.slice_began.take() {
            jobs.note_slice(began.elapsed());
        }
        let (waiting, lanes) = (&self.waiting, &self.lanes);
        jobs.look(&self.shard, |kind| match kind {
            JobKind::SweepSegment => lanes.lost_for().into_iter().collect(),
            JobKind::Evict | JobKind::Vacate | JobKind::RemoveAll => {
                let watches = waiting.values().filter_map(|waiting| waiting.watch.as_ref());
                watches.map(|watch| watch.trace()).collect()
            }
        });
    }

    fn carry_out(&mut self, effect: ShardEffect) {
        match effect {
            ShardEffect::Reply { id, reply } => {
                match self.waiting.remove(&id) {
                    Some(waiting) => {
                        if let Some(watch) = &waiting.watch {
                            watch.note_answered();
                        }
                        // A caller that has gone needs no answer.
                        let _ = waiting.caller.send(reply);
                    }
                    None => answered_twice("a shard", id).note(),
                }
            }
            ShardEffect::Report(report) => {
                // The pool's lane closes only when the process ends.
                let _ = self.lanes.pool.send(PoolMessage::Shard { shard: self.id, report });
            }
            ShardEffect::Continue => self.slice_due = true,
            ShardEffect::Tell { shard, message } => {
                let lane = &self.lanes.shards[usize::from(shard.0)];
                let _ = lane.send(ShardMessage::Peer(message));
            }
            ShardEffect::Broken(violation) => violation.note(),
            ShardEffect::AtRest => {
                self.at_rest = true;
                for caller in self.rest_awaited.drain(..) {
                    let _ = caller.send(());
                }
            }
        }
    }
}

impl kameo::Actor for ShardActor {
    type Args = ShardArgs;
    type Error = Infallible;

    async fn on_start(args: ShardArgs, _: ActorRef<Self>) -> Result<Self, Infallible> {
        let mut ticks = tokio::time::interval(TICK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(ShardActor {
            shard: args.shard,
            id: args.id,
            clock: args.clock,
            lanes: args.lanes,
            control: args.control,
            backlog: args.backlog,
            on_fault: args.on_fault,
            thread: args.thread,
            waiting: HashMap::new(),
            last_request: 0,
            ticks,
            slice_due: false,
            sliced: false,
            effects: Vec::new(),
            watched: None,
            jobs: args.on_job.map(|on_job| JobLog::new(args.id, on_job)),
            slice_began: None,
            rest_awaited: Vec::new(),
            at_rest: false,
        })
    }

    /// Control first, then a request, then a slice of a long job; a job that is due gets every
    /// second turn, so that neither starves.
    async fn next(
        &mut self,
        _: WeakActorRef<Self>,
        mailbox: &mut MailboxReceiver<Self>,
    ) -> Result<Option<Signal<Self>>, Infallible> {
        loop {
            while let Ok(message) = self.control.try_recv() {
                self.apply(message);
            }
            if self.slice_due {
                if self.sliced
                    && let Ok(signal) = mailbox.try_recv()
                {
                    self.sliced = false;
                    return Ok(Some(signal));
                }
                self.slice_due = false;
                self.sliced = true;
                self.slice_began = self.jobs.is_some().then(Instant::now);
                self.apply(ShardMessage::Continue);
                // A slice is long beside a request: give the runtime's other tasks their turn.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                biased;
                Some(message) = self.control.recv() => self.apply(message),
                _ = self.ticks.tick() => self.apply(ShardMessage::Tick),
                signal = mailbox.recv() => return Ok(signal),
            }
        }
    }
}

impl Message<ShardCall> for ShardActor {
    type Reply = ();

    async fn handle(&mut self, call: ShardCall, _: &mut Context<Self, ()>) {
        self.backlog.note_taken();
        self.last_request += 1;
        let id = RequestId(self.last_request);
        let (deadline, request) = call.request;
        if let Some(watch) = &call.watch {
            watch.note_taken();
            if let Some(jobs) = &mut self.jobs {
                jobs.note_request(&request, watch.trace());
            }
        }
        self.waiting.insert(id, Waiting { caller: call.reply, watch: call.watch.clone() });
        self.watched = call.watch;
        self.apply(ShardMessage::Request { id, deadline, request });
    }
}

impl Message<RestCall> for ShardActor {
    type Reply = ();

    async fn handle(&mut self, call: RestCall, _: &mut Context<Self, ()>) {
        if self.at_rest {
            let _ = call.reply.send(());
        } else {
            self.rest_awaited.push(call.reply);
        }
    }
}

impl Message<ExportCall> for ShardActor {
    type Reply = ();

    /// Nothing else is left for the shard to do, but what shares its thread has to go on: without it
    /// nothing would be answered for seconds. If the system refuses a thread, that is the lesser evil.
    async fn handle(&mut self, call: ExportCall, _: &mut Context<Self, ()>) {
        let (mounts, sink) = call.request;
        let (now, on_fault, thread) = (self.clock.now(), self.on_fault, self.thread);
        let empty = Shard::new(*self.shard.config());
        let shard = std::mem::replace(&mut self.shard, empty);
        let export = move |(shard, mut sink): (Shard, Box<dyn RecordSink>)| {
            let guard = FaultGuard { actor: "shard", on_fault };
            let exported = export::export(&shard, now, &mounts, &mut *sink, thread())
                .and_then(|record| sink.finish(&record).map(|()| record));
            drop(guard);
            (shard, exported)
        };
        let (done, answer) = oneshot::channel();
        let beside = thread().name("handoff-export".to_owned());
        let begun = begin(beside, (shard, sink), {
            let export = export.clone();
            move |work| {
                // Nobody waits only when the process ends, and then no shard is dropped.
                if let Err(unheard) = done.send(export(work)) {
                    std::mem::forget(unheard);
                }
            }
        });
        let (shard, exported) = match begun {
            // Without an answer the process is ending.
            Ok(_) => match answer.await {
                Ok(exported) => exported,
                Err(_) => return,
            },
            Err(refused) => {
                tracing::warn!(error = %refused.error, "no thread for an export: answers wait for it");
                export(refused.work)
            }
        };
        std::mem::forget(std::mem::replace(&mut self.shard, shard));
        let _ = call.reply.send(exported);
    }
}

/// Makes the shard hang for good, for tests of what has to notice that.
#[cfg(debug_assertions)]
pub(crate) struct Hang;

#[cfg(debug_assertions)]
impl Message<Hang> for ShardActor {
    type Reply = ();

    async fn handle(&mut self, _: Hang, _: &mut Context<Self, ()>) {
        loop {
            std::thread::park();
        }
    }
}

/// Leases, holds and timeouts are judged this often; it bounds by how much they end late.
const TICK_PERIOD: std::time::Duration = std::time::Duration::from_millis(10);
