//! How long requests take, by front end and operation.

use mooring_proto::message::Kind;
use mooring_proto::mooncake::Function;

use super::super::exposition::Exposition;
use crate::frontend::Context;
use crate::frontend::histogram::Durations;

/// One operation at one front end.
pub(in crate::admin) struct Operation {
    /// `quic` or `mooncake`.
    pub(in crate::admin) front_end: &'static str,
    /// As the front end calls it.
    pub(in crate::admin) name: String,
    /// Requests.
    pub(in crate::admin) requests: u64,
    /// Of them, refused as a whole.
    pub(in crate::admin) failures: u64,
    /// Keys in them.
    pub(in crate::admin) items: u64,
    /// From each whole request to its answer.
    pub(in crate::admin) durations: Durations,
}

/// The operations that were asked for since the start.
pub(in crate::admin) fn operations(context: &Context) -> Vec<Operation> {
    let quic = Kind::ALL.iter().map(|kind| {
        let counters = context.counters.kind(*kind);
        Operation {
            front_end: "quic",
            name: format!("{kind:?}"),
            requests: counters.requests.value(),
            failures: counters.failures.value(),
            items: counters.batch.items.value(),
            durations: counters.durations.read(),
        }
    });
    let mooncake = Function::ALL.iter().map(|function| {
        let counters = context.mooncake.function(*function);
        Operation {
            front_end: "mooncake",
            name: format!("{function:?}"),
            requests: counters.requests.value(),
            failures: counters.failures.value(),
            items: counters.batch.items.value(),
            durations: counters.durations.read(),
        }
    });
    quic.chain(mooncake).filter(|operation| operation.requests > 0).collect()
}

pub(super) fn families(page: &mut Exposition, context: &Context) {
    let operations = operations(context).into_iter();
    let samples = operations
        .map(|operation| ([operation.front_end.to_owned(), operation.name], operation.durations));
    page.histograms(
        "mooring_request_duration_seconds",
        "From a whole request to its answer, without the way to the peer and back; of operations that \
         were asked for.",
        ["front_end", "operation"],
        samples,
    );
}
