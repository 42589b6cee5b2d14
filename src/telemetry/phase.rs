//! What the process itself does, as spans: start, restore, drain, handoff, and the long jobs of shards.

use std::borrow::Cow;
use std::time::Instant;

use mooring_actors::shard::{JobKind, JobReport};
use mooring_proto::frame::TraceContext;

use super::queue::{Item, Queue};
use super::sampler::{NOBODY, new_span_id, new_trace};
use super::span::{Span, Value};

/// Something that takes its time. It ends when the value is dropped. Without a collector it is nothing.
#[derive(Debug)]
pub(crate) struct Phase(Option<Open>);

#[derive(Debug)]
struct Open {
    queue: Queue,
    context: TraceContext,
    parent: Option<[u8; 8]>,
    name: &'static str,
    began: Instant,
    attributes: Vec<(&'static str, Value)>,
    failure: Option<Cow<'static, str>>,
}

impl Phase {
    /// The first phase of a trace of its own.
    pub(super) fn first(queue: Option<&Queue>, name: &'static str) -> Phase {
        let open = |queue: &Queue| Open::new(queue.clone(), new_trace(), None, name);
        Phase(queue.map(open))
    }

    /// A phase within this one.
    pub(crate) fn within(&self, name: &'static str) -> Phase {
        let open = |open: &Open| {
            Open::new(open.queue.clone(), open.context, Some(open.context.span_id), name)
        };
        Phase(self.0.as_ref().map(open))
    }

    /// Notes something about it.
    pub(crate) fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(open) = &mut self.0 {
            open.attributes.push((name, value.into()));
        }
    }

    /// It has failed, and why.
    pub(crate) fn fail(&mut self, why: impl Into<Cow<'static, str>>) {
        if let Some(open) = &mut self.0 {
            open.failure = Some(why.into());
        }
    }
}

impl Open {
    fn new(queue: Queue, trace: TraceContext, parent: Option<[u8; 8]>, name: &'static str) -> Open {
        let context = TraceContext { span_id: new_span_id(), ..trace };
        let began = Instant::now();
        Open { queue, context, parent, name, began, attributes: Vec::new(), failure: None }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let now = Instant::now();
        let mut span = Span::new(open.context, open.parent, open.name, open.began, now);
        span.attributes = open.attributes;
        span.failure = open.failure;
        open.queue.push(Item::Span(Box::new(span)));
    }
}

/// The span of a job that has ended: one of a trace of its own, with links to what it ran for.
pub(super) fn job(report: JobReport, trace: TraceContext) -> Span {
    let context = TraceContext { span_id: new_span_id(), ..trace };
    let name = match report.kind {
        JobKind::Evict => "evict",
        JobKind::SweepSegment => "sweep segment",
        JobKind::RemoveAll => "remove all",
        JobKind::Vacate => "vacate window",
    };
    let parent = (trace.span_id != NOBODY).then_some(trace.span_id);
    let mut span = Span::new(context, parent, name, report.began, report.ended);
    let worked_us = u64::try_from(report.worked.as_micros()).unwrap_or(u64::MAX);
    span.attributes.extend([
        ("mooring.shard", report.shard.0.into()),
        ("mooring.objects", report.objects.into()),
        ("mooring.bytes", report.bytes.into()),
        ("mooring.slices", report.slices.into()),
        ("mooring.work_us", worked_us.into()),
    ]);
    span.links = report.causes;
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::queue::Outcomes;

    static OUTCOMES: Outcomes = Outcomes::new();

    #[test]
    fn a_phase_is_told_when_it_ends_and_knows_the_one_that_it_is_within() {
        let (queue, mut taken) = Queue::new(&OUTCOMES);
        let mut next = || match taken.try_recv() {
            Ok(Item::Span(span)) => Some(*span),
            _ => None,
        };
        let start = Phase::first(Some(&queue), "start");
        let mut restore = start.within("restore");
        restore.note("mooring.objects", 12_u64);
        restore.fail("a file is damaged");
        assert_eq!(next(), None);
        drop(restore);
        let inner = next().unwrap();
        assert_eq!(
            (&*inner.name, inner.failure.as_deref()),
            ("restore", Some("a file is damaged"))
        );
        assert_eq!(inner.attributes, [("mooring.objects", 12_u64.into())]);
        drop(start);
        let outer = next().unwrap();
        assert_eq!((&*outer.name, outer.parent, outer.failure), ("start", None, None));
        assert_eq!(inner.parent, Some(outer.context.span_id));
        assert_eq!(inner.context.trace_id, outer.context.trace_id);
        assert!(outer.began <= inner.began && inner.ended <= outer.ended);
    }

    #[test]
    fn without_a_collector_a_phase_is_nothing() {
        let mut phase = Phase::first(None, "start");
        phase.note("mooring.objects", 1_u64);
        assert!(phase.within("restore").0.is_none());
    }
}
