//! Spans of calls, by the OpenTelemetry of the program that the client works in.
//!
//! A call belongs to the trace of the span that is active where it is begun. Its own span is named by
//! the context that goes to the master with the request, so that the master's spans stand below it. A
//! program without OpenTelemetry pays for a look.

use std::borrow::Cow;
use std::future::Future;

use opentelemetry::context::FutureExt as _;
use opentelemetry::global::{self, BoxedSpan};
use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
    Tracer,
};
use opentelemetry::{Context, KeyValue};

use super::config::ClientConfig;
use super::error::ClientError;
use super::random::random;
use crate::frame::TraceContext;
use crate::message::Kind;

/// Which calls of a client are traced.
#[derive(Debug)]
pub(super) struct Tracing {
    /// Of calls that are begun where no span is active.
    parent: Option<Context>,
    /// As a share of 2^64.
    ratio: u64,
}

/// A call that is traced, or not.
#[derive(Debug)]
pub(super) struct CallSpan {
    span: Option<BoxedSpan>,
    context: Option<TraceContext>,
}

impl Tracing {
    pub(super) fn new(config: &ClientConfig) -> Tracing {
        // All of them is above every number that is compared.
        let ratio = (config.trace_ratio * u64::MAX as f64) as u64;
        let parent = config.trace_parent.map(|parent| {
            let context = SpanContext::new(
                TraceId::from_bytes(parent.trace_id),
                SpanId::from_bytes(parent.span_id),
                TraceFlags::new(parent.flags),
                true,
                TraceState::NONE,
            );
            Context::new().with_remote_span_context(context)
        });
        Tracing { parent, ratio }
    }

    /// Carries several calls out as one: they stand below a span of this name, if they are traced.
    pub(super) async fn together<T>(
        &self,
        name: &'static str,
        calls: impl Future<Output = T>,
    ) -> T {
        match self.whole(name) {
            None => calls.await,
            Some(context) => {
                let outcome = calls.with_context(context.clone()).await;
                context.span().end();
                outcome
            }
        }
    }

    fn whole(&self, name: &'static str) -> Option<Context> {
        let below = |parent: &Context| {
            parent.span().span_context().is_sampled().then(|| {
                let span = global::tracer(TRACER).start_with_context(name, parent);
                parent.with_span(span)
            })
        };
        let active =
            Context::map_current(|current| current.has_active_span().then(|| below(current)));
        match (active, &self.parent) {
            (Some(whole), _) => whole,
            (None, Some(parent)) => below(parent),
            (None, None) if self.is_chosen() => {
                let span = global::tracer(TRACER).start_with_context(name, &Context::new());
                // A program that has no OpenTelemetry makes no new traces.
                span.span_context().is_valid().then(|| Context::new().with_span(span))
            }
            (None, None) => None,
        }
    }

    /// Whether this one of those without any trace begins one.
    fn is_chosen(&self) -> bool {
        self.ratio > 0 && random::<u64>() <= self.ratio
    }

    /// Begins a call.
    pub(super) fn begin(&self, kind: Kind) -> CallSpan {
        let active = Context::map_current(|current| {
            current.has_active_span().then(|| CallSpan::below(current, kind))
        });
        match (active, &self.parent) {
            (Some(call), _) => call,
            (None, Some(parent)) => CallSpan::below(parent, kind),
            (None, None) if self.is_chosen() => CallSpan::start(&Context::new(), kind),
            (None, None) => CallSpan { span: None, context: None },
        }
    }
}

impl CallSpan {
    /// What goes with the request.
    pub(super) fn context(&self) -> Option<TraceContext> {
        self.context
    }

    /// An attempt has failed and is followed by another one.
    pub(super) fn retry(&mut self, error: &ClientError) {
        if let Some(span) = &mut self.span {
            span.add_event("retry", vec![KeyValue::new("error", error.to_string())]);
        }
    }

    /// The call is over.
    pub(super) fn end<T>(mut self, outcome: &Result<T, ClientError>) {
        if let Some(span) = &mut self.span {
            if let Err(error) = outcome {
                span.set_status(Status::error(error.to_string()));
            }
            span.end();
        }
    }

    /// A call of the same trace, with a span of its own if the trace is sampled.
    fn below(parent: &Context, kind: Kind) -> CallSpan {
        let span = parent.span();
        match span.span_context() {
            above if !above.is_valid() => CallSpan { span: None, context: None },
            // So that the master does not sample it either.
            above if !above.is_sampled() => CallSpan { span: None, context: Some(wire(above)) },
            _ => CallSpan::start(parent, kind),
        }
    }

    fn start(parent: &Context, kind: Kind) -> CallSpan {
        let tracer = global::tracer(TRACER);
        let name = Cow::from(format!("{kind:?}"));
        let builder = tracer.span_builder(name).with_kind(SpanKind::Client);
        let span = tracer.build_with_context(builder, parent);
        // A program that has no OpenTelemetry makes no new traces.
        let context = span.span_context().is_valid().then(|| wire(span.span_context()));
        CallSpan { span: Some(span), context }
    }
}

/// How OpenTelemetry names who makes the spans.
const TRACER: &str = "mooring";

fn wire(context: &SpanContext) -> TraceContext {
    TraceContext {
        trace_id: context.trace_id().to_bytes(),
        span_id: context.span_id().to_bytes(),
        flags: context.trace_flags().to_u8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientTls;

    fn tracing(trace_parent: Option<TraceContext>, trace_ratio: f64) -> Tracing {
        let mut config = ClientConfig::new("localhost:1", ClientTls::pinned([0; 32]));
        config.trace_parent = trace_parent;
        config.trace_ratio = trace_ratio;
        Tracing::new(&config)
    }

    fn context(span: u8, flags: u8) -> TraceContext {
        TraceContext { trace_id: [7; 16], span_id: [span; 8], flags }
    }

    #[test]
    fn without_a_trace_nothing_goes_with_a_request() {
        assert!(tracing(None, 0.0).begin(Kind::Get).context().is_none());
        // There is nobody here who would make a trace.
        assert!(tracing(None, 1.0).begin(Kind::Get).context().is_none());
    }

    #[test]
    fn a_parent_goes_with_a_request_sampled_or_not() {
        for flags in [0, 1] {
            let tracing = tracing(Some(context(1, flags)), 0.0);
            let call = tracing.begin(Kind::Get);
            assert_eq!(call.context(), Some(context(1, flags)));
        }
    }

    #[test]
    fn the_active_span_goes_before_the_parent() {
        let tracing = tracing(Some(context(1, 1)), 0.0);
        let active = Tracing::new(&{
            let mut config = ClientConfig::new("localhost:1", ClientTls::pinned([0; 32]));
            config.trace_parent = Some(context(2, 1));
            config
        });
        let _active = active.parent.as_ref().map(|parent| parent.clone().attach());
        assert_eq!(tracing.begin(Kind::Get).context(), Some(context(2, 1)));
    }
}
