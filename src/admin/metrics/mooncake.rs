//! The figures of the port for clients of Mooncake.

use std::sync::atomic::Ordering;

use mooring_proto::mooncake::Function;

use super::super::exposition::Exposition;
use crate::frontend::Context;
use crate::frontend::mooncake::FunctionCounters;

/// How one figure of a function is read.
type Figure = fn(&FunctionCounters) -> u64;

pub(super) fn families(page: &mut Exposition, context: &Context) {
    let counters = &context.mooncake;
    page.gauge(
        "mooring_mooncake_connections",
        "Open connections of clients of Mooncake.",
        counters.open.load(Ordering::Relaxed),
    );
    page.gauge(
        "mooring_mooncake_connections_max",
        "Above this number further ones are refused.",
        counters.connections_max.load(Ordering::Relaxed),
    );
    let (kept_bytes, kept_bytes_max) = counters.kept_bytes();
    page.gauge(
        "mooring_mooncake_kept_bytes",
        "Bytes of requests and replies of clients of Mooncake under way.",
        kept_bytes,
    );
    page.gauge(
        "mooring_mooncake_kept_bytes_max",
        "Above this number connections that send more are closed.",
        kept_bytes_max,
    );
    let totals = [
        ("connections", "Connections that were accepted.", &counters.connections),
        (
            "connections_refused",
            "Attempts refused for want of room.",
            &counters.connections_refused,
        ),
        (
            "address_connections_refused",
            "Of them, for want of room for their address.",
            &counters.address_connections_refused,
        ),
        (
            "connections_overloaded",
            "Connections closed for want of room for what they sent.",
            &counters.overloaded,
        ),
        (
            "framing_errors",
            "Connections closed for what is no frame, or too large a one.",
            &counters.framing_errors,
        ),
        ("unknown_functions", "Calls of unknown functions.", &counters.unknown_functions),
        ("reply_timeouts", "Connections that did not take answers.", &counters.write_timeouts),
    ];
    for (name, help, counter) in totals {
        page.counter(&format!("mooring_mooncake_{name}_total"), help, counter.value());
    }
    let by_function: [(&str, &str, Figure); 6] = [
        ("requests", "Calls; each may carry many keys.", |it| it.requests.value()),
        ("failures", "Calls that were refused, with all of their items.", |it| {
            it.failures.value() + it.batch.failures.value()
        }),
        ("partial_successes", "Batches refused in part.", |it| it.batch.partial_successes.value()),
        ("items", "Items of batches.", |it| it.batch.items.value()),
        ("failed_items", "Items of batches that were refused.", |it| it.batch.failed_items.value()),
        ("wrong_arguments", "Calls whose arguments cannot be read.", |it| {
            it.wrong_arguments.value()
        }),
    ];
    for (name, help, figure) in by_function {
        // Most functions are never called: a family of seventy zeros tells nothing.
        let called = Function::ALL.iter().filter_map(|function| {
            let counters = counters.function(*function);
            let seen = counters.requests.value() + counters.wrong_arguments.value() > 0;
            seen.then(|| (format!("{function:?}"), figure(counters)))
        });
        page.counters(&format!("mooring_mooncake_{name}_total"), help, "function", called);
    }
}
