//! What becomes of a start that is told to leave before it serves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::handoff::{DirectoryError, GivenBack, Retreat};

/// Shared by the thread that starts and by whoever hears signals: one of them decides whether this
/// master comes to serve.
#[derive(Debug, Default)]
pub(super) struct TurningBack(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    was_told: bool,
    retreat: Option<Retreat>,
}

impl TurningBack {
    /// The start has this in hand from now on. If it was told to leave, this does not return.
    pub(super) fn watch(&self, retreat: Retreat) {
        self.stop_if_told();
        self.state().retreat = Some(retreat);
        // It may have been told in between, and nothing is claimed yet.
        self.stop_if_told();
    }

    /// If it was told to leave, this does not return: the process is about to end, and what would be
    /// said of the start is not worth a line.
    pub(super) fn stop_if_told(&self) {
        while self.state().was_told {
            std::thread::park();
        }
    }

    /// Ends the start, and gives back what it has claimed; or finds that it serves.
    ///
    /// # Errors
    /// When it cannot be given back. The start ends all the same.
    pub(super) fn turn_back(&self) -> Result<GivenBack, DirectoryError> {
        let mut state = self.state();
        let outcome = state.retreat.as_ref().map_or(Ok(GivenBack::Untouched), Retreat::give_back);
        state.was_told = !matches!(outcome, Ok(GivenBack::Serving));
        outcome
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
