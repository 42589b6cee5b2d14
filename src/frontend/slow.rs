//! Requests that take long are told one by one, so that somebody can ask why.

use std::time::Duration;

use mooring_proto::ClientId;
use mooring_proto::frame::TraceContext;

/// From when on a request is slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlowLog {
    /// `None` tells of none.
    pub(crate) threshold: Option<Duration>,
}

/// A request that has just been answered.
pub(crate) struct Finished {
    /// `quic` or `mooncake`.
    pub(crate) front_end: &'static str,
    /// What was asked.
    pub(crate) operation: String,
    /// From the whole request to its answer.
    pub(crate) took: Duration,
    /// Who asked, if that is known.
    pub(crate) client: Option<ClientId>,
    /// The trace that the request belongs to, if it named one.
    pub(crate) trace: Option<TraceContext>,
    /// Of the request.
    pub(crate) request_bytes: usize,
    /// Of the answer.
    pub(crate) reply_bytes: usize,
}

impl SlowLog {
    /// Logs the request if it was slow. The usual one costs a comparison.
    pub(crate) fn look(&self, took: Duration, finished: impl FnOnce() -> Finished) {
        if self.threshold.is_some_and(|threshold| took >= threshold) {
            tell(&finished());
        }
    }
}

fn tell(request: &Finished) {
    tracing::warn!(
        front_end = request.front_end,
        operation = request.operation,
        took_ms = request.took.as_micros() as f64 / 1e3,
        client = request.client.map(tracing::field::display),
        trace_id = request.trace.map(|trace| trace_id(&trace)),
        request_bytes = request.request_bytes,
        reply_bytes = request.reply_bytes,
        "slow request"
    );
}

/// As traces are looked up by.
fn trace_id(trace: &TraceContext) -> String {
    trace.trace_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_as_long_as_the_threshold_is_looked_at() {
        let seen = |threshold_ms: Option<u64>, took_ms| {
            let log = SlowLog { threshold: threshold_ms.map(Duration::from_millis) };
            let mut seen = false;
            log.look(Duration::from_millis(took_ms), || {
                seen = true;
                Finished {
                    front_end: "quic",
                    operation: "Get".to_owned(),
                    took: Duration::from_millis(took_ms),
                    client: None,
                    trace: None,
                    request_bytes: 1,
                    reply_bytes: 2,
                }
            });
            seen
        };
        assert!(seen(Some(5), 5) && seen(Some(5), 6));
        assert!(!seen(Some(5), 4) && !seen(None, u64::MAX));
    }

    #[test]
    fn a_trace_is_named_as_other_programs_name_it() {
        let trace_id_bytes = std::array::from_fn(|index| index as u8 * 16);
        let trace = TraceContext { trace_id: trace_id_bytes, span_id: [1; 8], flags: 1 };
        assert_eq!(trace_id(&trace), "00102030405060708090a0b0c0d0e0f0");
    }
}
