//! OpenTelemetry: traces of requests and of what the process does, and its figures, sent by OTLP.
//!
//! What is traced is noted as plain data and put into a bounded queue; a thread of its own makes spans of
//! it and sends them. Whoever is traced waits for nothing, and what finds no place is counted and gone.
//! A request that is not traced costs a comparison.

mod allowance;
mod answer;
mod args;
mod commands;
mod encode;
mod exporter;
mod figures;
mod line;
mod phase;
mod queue;
mod sampler;
mod span;
mod target;
mod trail;

use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use mooring_actors::shard::JobReport;
use mooring_proto::frame::TraceContext;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::args::TelemetryArgs;
pub(crate) use self::commands::TracingArgs;
use self::encode::Sender;
pub(crate) use self::exporter::Source;
use self::exporter::{Exporter, Order};
use self::line::Line;
pub(crate) use self::phase::Phase;
pub(crate) use self::queue::Outcomes;
use self::queue::{Item, Queue};
use self::sampler::Sampler;
use self::target::{Refused, Signal, Target};
pub(crate) use self::trail::{Arrived, Operation, Trail, Whom};
use crate::command::CommandError;

/// What sends, once it was started.
struct Telemetry {
    /// `None` without traces.
    traces: Option<(Queue, Sampler)>,
    /// Whether figures are sent.
    has_metrics: bool,
    orders: mpsc::UnboundedSender<Order>,
    leaving: watch::Sender<bool>,
}

static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();

static OUTCOMES: Outcomes = Outcomes::new();

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Starts to send, if the arguments or variables say where to. `service` is the name, if no variable
/// gives another one. A variable that makes no sense is warned of and costs what it is about: it may be
/// there for other programs. `warn` is given each of them once, with what becomes of it.
///
/// # Errors
/// Arguments that make no sense.
pub(crate) fn start(
    args: &TelemetryArgs,
    service: &'static str,
    warn: fn(&str, &str),
) -> Result<(), CommandError> {
    LazyLock::force(&STARTED);
    let variable =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    if variable("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        return Ok(());
    }
    let mut told = Vec::new();
    let mut tell = |text: String, outcome| {
        // What is said of all signals is wrong with each.
        if !told.contains(&text) {
            warn(&text, outcome);
            told.push(text);
        }
    };
    let mut line = |signal| {
        let target = Target::new(args, signal, variable);
        let left_out = target.iter().flatten().flat_map(|target| target.left_out.clone());
        left_out.for_each(|text| tell(text, PART_LEFT_OUT));
        match target.and_then(|target| target.map(line_to).transpose()) {
            Ok(line) => Ok(line),
            Err(Refused { text, is_of_variable: false }) => Err(CommandError::Arguments(text)),
            Err(Refused { text, .. }) => {
                tell(text, NOTHING_SENT);
                Ok(None)
            }
        }
    };
    let (traces, metrics) = (line(Signal::Traces)?, line(Signal::Metrics)?);
    if traces.is_none() && metrics.is_none() {
        return Ok(());
    }
    let of_resource = encode::left_out_of_resource(|name| std::env::var_os(name));
    of_resource.into_iter().for_each(|text| tell(text, PART_LEFT_OUT));
    let (queue, items) = Queue::new(&OUTCOMES);
    let (orders, to_do) = mpsc::unbounded_channel();
    let (leaving, leaves) = watch::channel(false);
    let telemetry = Telemetry {
        traces: traces.is_some().then(|| (queue, Sampler::new(args.trace_ratio))),
        has_metrics: metrics.is_some(),
        orders,
        leaving,
    };
    let sender = Sender::new(service);
    let exporter = Exporter {
        items,
        orders: to_do,
        leaving: leaves,
        traces,
        metrics,
        sender,
        outcomes: &OUTCOMES,
        last_message: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    let thread = std::thread::Builder::new().name("telemetry".to_owned());
    thread.spawn(move || runtime.block_on(exporter.run())).map_err(|error| failed(&error))?;
    // A second start is a test in the same process; the first one stays.
    let _ = TELEMETRY.set(telemetry);
    Ok(())
}

/// What becomes of a variable that makes no sense.
const NOTHING_SENT: &str = "nothing is sent of what it is about";

/// What becomes of one that makes sense but for a part.
const PART_LEFT_OUT: &str = "that part is left out";

fn line_to(target: Target) -> Result<Line, Refused> {
    let is_named = target.certificate.is_some();
    let is_of_variable = is_named || target.is_of_variable;
    let name = if is_named { "OTEL_EXPORTER_OTLP_CERTIFICATE" } else { "whom to trust" };
    Line::new(target).map_err(|error| Refused { text: format!("{name}: {error}"), is_of_variable })
}

fn failed(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failed("cannot send telemetry", error)
}

/// Sends the figures of this source each so often from now on, if they are to be sent.
pub(crate) fn send_figures(source: Source, every: Duration) {
    if let Some(telemetry) = TELEMETRY.get().filter(|telemetry| telemetry.has_metrics) {
        // The thread lives as long as the process.
        let _ = telemetry.orders.send(Order::SendFigures(source, every));
    }
}

/// Now, if somebody may want to know when a request arrived.
pub(crate) fn moment() -> Option<Instant> {
    traces().map(|_| Instant::now())
}

/// Follows a request that has just been read, if it is sampled. `came` is the trace that it names.
pub(crate) fn follow(
    came: Option<TraceContext>,
    request: impl FnOnce() -> Arrived,
) -> Option<Trail> {
    let (queue, sampler) = traces()?;
    let trace = sampler.decide(came)?;
    Some(Trail::new(queue.clone(), trace, request()))
}

/// Begins a phase of the process that is the first of its trace.
pub(crate) fn phase(name: &'static str) -> Phase {
    Phase::first(traces().map(|(queue, _)| queue), name)
}

/// Who is to be told of the long jobs of shards; `None` if nothing is made of them.
pub(crate) fn on_job() -> Option<fn(JobReport)> {
    traces().map(|_| tell_of_job as fn(JobReport))
}

/// A job that ran for a traced request has a span, and a share of the others as of requests.
fn tell_of_job(report: JobReport) {
    let Some((queue, sampler)) = traces() else { return };
    let trace = match report.causes.is_empty() {
        true => sampler.decide(None),
        false => Some(sampler::new_trace()),
    };
    if let Some(trace) = trace {
        queue.push(Item::Span(Box::new(phase::job(report, trace))));
    }
}

fn traces() -> Option<&'static (Queue, Sampler)> {
    TELEMETRY.get()?.traces.as_ref()
}

/// What became of what was traced.
pub(crate) fn outcomes() -> &'static Outcomes {
    &OUTCOMES
}

/// When the process started.
fn started() -> Instant {
    *STARTED
}

/// Since the process started.
fn elapsed_ms() -> u64 {
    u64::try_from(started().elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The process begins to leave: what waits is sent now, and nothing takes long any more. Returns at
/// once. Whether the collector answers is known by the time of [`flush`].
pub(crate) fn begin_leaving() {
    if let Some(telemetry) = TELEMETRY.get() {
        telemetry.leaving.send_replace(true);
        let (done, _) = oneshot::channel();
        let _ = telemetry.orders.send(Order::Flush(done));
    }
}

/// As [`flush`], but does not wait for a collector that has not answered yet either: nobody else may have
/// to wait for it.
pub(crate) async fn flush_unless_slow(in_time: Duration) {
    if !OUTCOMES.is_slow(elapsed_ms()) {
        flush(in_time).await;
    }
}

/// Sends what waits, at most this long; does not wait for a collector that did not take the last message.
pub(crate) async fn flush(in_time: Duration) {
    let Some(telemetry) = TELEMETRY.get() else { return };
    if telemetry.traces.is_none() || OUTCOMES.is_gone() {
        return;
    }
    let (done, flushed) = oneshot::channel();
    let _ = telemetry.orders.send(Order::Flush(done));
    let _ = tokio::time::timeout(in_time, flushed).await;
}
