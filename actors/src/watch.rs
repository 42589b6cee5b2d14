//! When a request was where, for those few that somebody follows: the shells fill it in, and what
//! decides knows nothing of it.

use std::sync::OnceLock;
use std::time::Instant;

use mooring_proto::frame::TraceContext;

/// The way of one request through one actor. Whoever asks keeps it beside the answer, and may read it
/// once that is there.
#[derive(Debug)]
pub struct Watch {
    trace: TraceContext,
    taken: OnceLock<Instant>,
    worked: OnceLock<Instant>,
    answered: OnceLock<Instant>,
}

impl Watch {
    /// For a request of this trace; its span is that of whoever asks.
    pub fn new(trace: TraceContext) -> Watch {
        Watch { trace, taken: OnceLock::new(), worked: OnceLock::new(), answered: OnceLock::new() }
    }

    /// The trace that the request belongs to.
    pub fn trace(&self) -> TraceContext {
        self.trace
    }

    /// When the actor took the request from its mailbox: it has waited there until then. `None` if it
    /// never did.
    pub fn taken(&self) -> Option<Instant> {
        self.taken.get().copied()
    }

    /// When the actor had done what it could at once.
    pub fn worked(&self) -> Option<Instant> {
        self.worked.get().copied()
    }

    /// When the answer went. If that is later than what could be done at once, the request has waited for
    /// something else, such as space.
    pub fn answered(&self) -> Option<Instant> {
        self.answered.get().copied()
    }

    pub(crate) fn note_taken(&self) {
        // A request is taken once.
        let _ = self.taken.set(Instant::now());
    }

    pub(crate) fn note_worked(&self) {
        let _ = self.worked.set(Instant::now());
    }

    pub(crate) fn note_answered(&self) {
        let _ = self.answered.set(Instant::now());
    }
}
