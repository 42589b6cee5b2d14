//! The process itself: memory, processor time, age.

use mooring_actors::invariant::Invariant;

use super::super::exposition::Exposition;
use super::super::{Admin, stage};
use crate::allocator;
use crate::frontend::stats::{cpu_seconds, resident_bytes};
use crate::telemetry;

pub(super) fn families(page: &mut Exposition, admin: &Admin) {
    page.gauge("mooring_resident_bytes", "Resident memory of the process.", resident_bytes());
    if let Some(bytes) = allocator::bytes() {
        for (name, help, value) in [
            ("allocated", "Bytes in allocations.", bytes.allocated),
            ("active", "Bytes in pages that have allocations.", bytes.active),
            ("metadata", "Bytes of the allocator's own bookkeeping.", bytes.metadata),
            ("resident", "Bytes in pages that the system has to back.", bytes.resident),
            ("retained", "Bytes of addresses that are kept without memory.", bytes.retained),
        ] {
            page.gauge(&format!("mooring_allocator_{name}_bytes"), help, value);
        }
    }
    page.counter(
        "mooring_cpu_seconds_total",
        "Processor time of the process, of all its threads.",
        cpu_seconds(),
    );
    page.counters(
        "mooring_invariant_violations_total",
        "How often what must always hold was found not to: anything but zero is a fault of the master.",
        "invariant",
        Invariant::ALL.iter().map(|invariant| (invariant.id(), invariant.broken_total())),
    );
    page.gauge(
        "mooring_uptime_seconds",
        "Since the process started.",
        admin.started.elapsed().as_secs_f64(),
    );
    let outcomes = telemetry::outcomes();
    page.counters(
        "mooring_trace_spans_total",
        "Spans for a collector: taken by it, refused or not answered, and requests of which there are \
         none because too many waited to be sent.",
        "outcome",
        [
            ("sent", outcomes.sent()),
            ("failed", outcomes.failed()),
            ("dropped", outcomes.dropped()),
        ]
        .into_iter(),
    );
    let state = [(stage(admin).state, 1_u8)];
    page.gauges("mooring_state", "How far the process is.", "state", state.into_iter());
    let version = [(env!("CARGO_PKG_VERSION"), 1_u8)];
    page.gauges("mooring_build_info", "The release.", "version", version.into_iter());
}
