//! The way of one traced request through the front end: what is noted on the way, and the spans that
//! are made of it afterwards, by the thread that sends them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooring_actors::ShardId;
use mooring_actors::watch::Watch;
use mooring_proto::ClientId;
use mooring_proto::frame::TraceContext;
use mooring_proto::message::Kind;
use mooring_proto::mooncake::Function;

use super::queue::{Item, Queue};
use super::sampler::{NOBODY, new_span_id};
use super::span::{Side, Span};

/// A traced request that is under way. What is known of it is sent when the value is dropped.
pub(crate) struct Trail {
    queue: Queue,
    /// Its trace, and its span.
    context: TraceContext,
    record: Mutex<Option<Box<Record>>>,
}

/// What is known of a traced request.
#[derive(Debug)]
pub(super) struct Record {
    context: TraceContext,
    /// The span of the caller.
    parent: Option<[u8; 8]>,
    operation: Operation,
    client: Option<ClientId>,
    arrived: Instant,
    /// All of it was there.
    read: Instant,
    request_bytes: usize,
    shares: Vec<Share>,
    /// The answer was there, and of which length.
    answered: Option<(Instant, usize)>,
    failure: Option<&'static str>,
    ended: Instant,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Of a native client.
    Quic(Kind),
    /// Of a client of Mooncake.
    Mooncake(Function),
}

/// What one actor had of the request.
#[derive(Debug)]
struct Share {
    whom: Whom,
    keys: usize,
    sent: Instant,
    watch: Arc<Watch>,
}

/// Whose share it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom {
    /// Of a shard.
    Shard(ShardId),
    /// Of the pool.
    Pool,
}

impl Trail {
    /// Begins for a request that has just been read. `came` is the trace with the span of the caller.
    pub(super) fn new(queue: Queue, came: TraceContext, request: Arrived) -> Trail {
        let context = TraceContext { span_id: new_span_id(), ..came };
        let Arrived { operation, client, arrived, request_bytes } = request;
        let now = Instant::now();
        let record = Record {
            context,
            parent: (came.span_id != NOBODY).then_some(came.span_id),
            operation,
            client,
            arrived: arrived.unwrap_or(now),
            read: now,
            request_bytes,
            shares: Vec::new(),
            answered: None,
            failure: Some("cancelled"),
            ended: now,
        };
        Trail { queue, context, record: Mutex::new(Some(Box::new(record))) }
    }

    /// A part of the request goes to an actor now; what follows it there.
    pub(crate) fn follow(&self, whom: Whom, keys: usize) -> Arc<Watch> {
        let watch = Arc::new(Watch::new(self.context));
        let share = Share { whom, keys, sent: Instant::now(), watch: watch.clone() };
        self.note(|record| record.shares.push(share));
        watch
    }

    /// The answer is there, of so many bytes; a refusal of the whole request has a name.
    pub(crate) fn note_answer(&self, bytes: usize, refusal: Option<&'static str>) {
        self.note(|record| {
            record.answered = Some((Instant::now(), bytes));
            record.failure = refusal;
        });
    }

    fn note(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.locked().as_mut() {
            change(record);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Box<Record>>> {
        // Only the task of the request locks it.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let Some(mut record) = self.locked().take() else { return };
        record.ended = Instant::now();
        self.queue.push(Item::Request(record));
    }
}

/// What is known of a request when it has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// What is asked.
    pub(crate) operation: Operation,
    /// Who asks, if that is known.
    pub(crate) client: Option<ClientId>,
    /// When its first byte was there; `None` if that was not looked at.
    pub(crate) arrived: Option<Instant>,
    /// Of its body.
    pub(crate) request_bytes: usize,
}

impl Record {
    /// The spans: the request, what was read and written of it, and each share.
    pub(super) fn spans(&self, spans: &mut Vec<Span>) {
        let name = self.operation.name();
        let mut whole = Span::new(self.context, self.parent, name, self.arrived, self.ended);
        whole.side = Side::Server;
        whole.failure = self.failure.map(Into::into);
        let keys: usize = self.shares.iter().map(|share| share.keys).sum();
        whole.attributes.extend([
            ("mooring.front_end", self.operation.front_end().into()),
            ("mooring.keys", keys.into()),
            ("mooring.request_bytes", self.request_bytes.into()),
        ]);
        whole.attributes.extend(self.client.map(|it| ("mooring.client", it.to_string().into())));
        spans.push(self.inner("read", self.arrived, self.read));
        for share in &self.shares {
            self.share(share, spans);
        }
        if let Some((answered, bytes)) = self.answered {
            whole.attributes.push(("mooring.reply_bytes", bytes.into()));
            spans.push(self.inner("write", answered, self.ended));
        }
        spans.push(whole);
    }

    /// The request with what was read and written, and each share with its three parts.
    pub(super) fn spans_max(&self) -> usize {
        3 + 4 * self.shares.len()
    }

    fn inner(&self, name: &'static str, began: Instant, ended: Instant) -> Span {
        let context = TraceContext { span_id: new_span_id(), ..self.context };
        Span::new(context, Some(self.context.span_id), name, began, ended)
    }

    /// A share: the time in the queue and at work apart, and what it waited for otherwise.
    fn share(&self, share: &Share, spans: &mut Vec<Span>) {
        let watch = &share.watch;
        let (taken, worked) = (watch.taken(), watch.worked());
        let ended = watch.answered().or(worked).or(taken).unwrap_or(self.ended);
        let name = match share.whom {
            Whom::Shard(_) => "shard",
            Whom::Pool => "pool",
        };
        let mut whole = self.inner(name, share.sent, ended);
        if let Whom::Shard(shard) = share.whom {
            whole.attributes.push(("mooring.shard", shard.0.into()));
        }
        whole.attributes.push(("mooring.keys", share.keys.into()));
        let context = whole.context;
        let mut below = |name: &'static str, began: Instant, ended: Instant| {
            let own = TraceContext { span_id: new_span_id(), ..context };
            spans.push(Span::new(own, Some(context.span_id), name, began, ended));
        };
        below("queue", share.sent, taken.unwrap_or(ended));
        if let (Some(taken), Some(worked)) = (taken, worked) {
            below("work", taken, worked);
            if ended.saturating_duration_since(worked) > AT_ONCE {
                below("wait", worked, ended);
            }
        }
        if watch.answered().is_none() {
            whole.failure = Some("unanswered".into());
        }
        spans.push(whole);
    }
}

impl Operation {
    fn name(self) -> String {
        match self {
            Operation::Quic(kind) => format!("{kind:?}"),
            Operation::Mooncake(function) => format!("{function:?}"),
        }
    }

    fn front_end(self) -> &'static str {
        match self {
            Operation::Quic(_) => "quic",
            Operation::Mooncake(_) => "mooncake",
        }
    }
}

/// From work that is done to its answer, if nothing else is waited for.
const AT_ONCE: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::queue::Outcomes;
    use crate::telemetry::sampler::new_trace;

    /// The spans of a request that was treated so.
    fn spans_of(came: TraceContext, treat: impl FnOnce(&Trail)) -> Vec<Span> {
        static OUTCOMES: Outcomes = Outcomes::new();
        let (queue, mut taken) = Queue::new(&OUTCOMES);
        let arrived = Arrived {
            operation: Operation::Quic(Kind::Get),
            client: Some(ClientId(7)),
            arrived: None,
            request_bytes: 33,
        };
        let trail = Trail::new(queue, came, arrived);
        treat(&trail);
        drop(trail);
        let Ok(Item::Request(record)) = taken.try_recv() else { panic!("a request") };
        let mut spans = Vec::new();
        record.spans(&mut spans);
        assert!(spans.len() <= record.spans_max());
        spans
    }

    fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn a_request_is_below_its_caller_and_its_parts_below_it() {
        let came = TraceContext { trace_id: [5; 16], span_id: [6; 8], flags: 1 };
        let spans = spans_of(came, |trail| {
            drop(trail.follow(Whom::Shard(ShardId(2)), 10));
            drop(trail.follow(Whom::Pool, 0));
            trail.note_answer(44, None);
        });
        assert!(spans.iter().all(|span| span.context.trace_id == [5; 16]));
        let whole = named(&spans, "Get");
        assert_eq!((whole.parent, whole.side, &whole.failure), (Some([6; 8]), Side::Server, &None));
        for name in ["mooring.keys", "mooring.client", "mooring.reply_bytes"] {
            assert!(whole.attributes.iter().any(|(it, _)| *it == name), "{name}");
        }
        for name in ["read", "shard", "pool", "write"] {
            let part = named(&spans, name);
            assert_eq!(part.parent, Some(whole.context.span_id), "{name}");
            assert!(whole.began <= part.began && part.ended <= whole.ended, "{name}");
        }
        let shard = named(&spans, "shard");
        assert!(shard.attributes.contains(&("mooring.shard", 2_u16.into())));
        let queues = spans.iter().filter(|span| span.name == "queue");
        assert!(queues.clone().any(|it| it.parent == Some(shard.context.span_id)));
        assert_eq!(queues.count(), 2);
    }

    #[test]
    fn a_request_without_a_caller_is_the_first_of_its_trace() {
        let spans = spans_of(new_trace(), |trail| trail.note_answer(1, Some("Malformed")));
        let whole = named(&spans, "Get");
        assert_eq!((whole.parent, whole.failure.as_deref()), (None, Some("Malformed")));
    }

    #[test]
    fn a_request_that_is_given_up_says_so_and_for_whom_it_waited() {
        let spans = spans_of(new_trace(), |trail| drop(trail.follow(Whom::Shard(ShardId(0)), 1)));
        assert_eq!(named(&spans, "Get").failure.as_deref(), Some("cancelled"));
        assert_eq!(named(&spans, "shard").failure.as_deref(), Some("unanswered"));
        assert!(spans.iter().all(|span| span.name != "write" && span.name != "work"));
    }
}
