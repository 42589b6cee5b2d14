//! Client commands that are traced: the client makes its spans by the OpenTelemetry of the process, which
//! puts them where those of a master go.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use mooring_proto::client::ClientConfig;
use mooring_proto::frame::TraceContext;
use opentelemetry::Context;
use opentelemetry::global;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor};

use super::queue::{Item, Queue};
use super::{TelemetryArgs, start, traces};
use crate::command::CommandError;
use crate::command::table::printable;
use crate::output;

/// How a client command is traced.
#[derive(Args, Clone, Debug)]
pub(crate) struct TracingArgs {
    #[command(flatten)]
    telemetry: TelemetryArgs,

    /// The trace that the command belongs to, as W3C Trace Context has it; what is none is ignored
    #[arg(long, env = "TRACEPARENT", value_name = "TEXT", help_heading = "Telemetry")]
    traceparent: Option<OsString>,
}

impl TracingArgs {
    /// Starts to send, if there is somewhere to send to, and has the client trace its calls.
    ///
    /// # Errors
    /// As [`start`].
    pub(crate) fn apply(&self, config: &mut ClientConfig) -> Result<(), CommandError> {
        config.trace_parent = self.parent();
        config.trace_ratio = self.telemetry.trace_ratio;
        // Warnings of the log are not shown to who runs a command.
        let warn = |text: &str, outcome: &str| {
            output::note(format_args!("warning: {outcome}: {}", printable(text)));
        };
        start(&self.telemetry, "mooring-client", warn)?;
        if let Some((queue, _)) = traces() {
            let provider = SdkTracerProvider::builder()
                .with_span_processor(IntoQueue(queue.clone()))
                // The client makes no span of what is not sampled.
                .with_sampler(Sampler::AlwaysOn)
                .build();
            global::set_tracer_provider(provider);
        }
        Ok(())
    }

    /// What is no trace is ignored, as W3C Trace Context wants it: the variable is inherited, and whoever
    /// calls a command need not know who has set it.
    fn parent(&self) -> Option<TraceContext> {
        let given = self.traceparent.as_ref()?;
        let parent = given.to_str().and_then(parent);
        if parent.is_none() {
            tracing::warn!(traceparent = ?given, "ignored: it is not 00-TRACE-SPAN-FLAGS in hexadecimal digits");
        }
        parent
    }
}

/// Puts spans that have ended where all others go.
#[derive(Debug)]
struct IntoQueue(Queue);

impl SpanProcessor for IntoQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.push(Item::Client(Box::new(span)));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Reads `00-TRACE-SPAN-FLAGS`; a later version may have more at its end.
fn parent(text: &str) -> Option<TraceContext> {
    let mut parts = text.trim().split('-');
    let [version] = bytes(parts.next()?)?;
    let (trace_id, span_id) = (bytes(parts.next()?)?, bytes(parts.next()?)?);
    let [flags] = bytes(parts.next()?)?;
    let is_whole = version > 0 || parts.next().is_none();
    let is_valid = version != u8::MAX && trace_id != [0; 16] && span_id != [0; 8];
    (is_whole && is_valid).then_some(TraceContext { trace_id, span_id, flags })
}

fn bytes<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    let is_lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if digits.len() != 2 * BYTES || !digits.bytes().all(is_lower) {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_other_programs_write_it() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = parent(text).unwrap();
        assert_eq!(context.trace_id[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!((context.span_id[1], context.flags), (0xf0, 1));
        assert_eq!(parent(&format!("cc-{}-what-comes", &text[3..])), Some(context));
    }

    #[test]
    fn what_is_no_parent_is_none() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-+1"),
            format!("00-{trace}-é{}-01", &span[2..]),
        ] {
            assert_eq!(parent(&text), None, "{text}");
        }
    }
}
