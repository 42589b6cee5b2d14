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
    /// Whether an attempt before this one has used a claim up.
    has_lost: bool,
}

impl TurningBack {
    /// The start has this in hand from now on. If it was told to leave, this does not return.
    pub(super) fn watch(&self, retreat: Retreat) {
        self.stop_if_told();
        let mut state = self.state();
        let before = state.retreat.replace(retreat);
        state.has_lost |= before.is_some_and(|before| before.has_lost());
        drop(state);
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
        match outcome {
            Ok(GivenBack::Untouched) if state.has_lost => Ok(GivenBack::Lost),
            outcome => outcome,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::handoff::{HandoffDirectory, handed_over, probe};

    fn open(path: &Path) -> HandoffDirectory {
        HandoffDirectory::open(path, Duration::ZERO).unwrap()
    }

    // What is told of the snapshot is what an operator looks for.
    #[test]
    fn a_claim_that_an_attempt_could_not_give_back_is_lost_also_for_the_attempts_after_it() {
        let scratch = handed_over();
        let turning_back = TurningBack::default();
        let mut directory = open(scratch.path());
        turning_back.watch(directory.retreat());
        directory.claim().unwrap();
        probe::fail_with(Some(Box::new(|| Err(io::Error::other("the disk fails")))));
        directory.retreat().give_back().unwrap_err();
        probe::fail_with(None);
        drop(directory);
        turning_back.watch(open(scratch.path()).retreat());
        assert_eq!(turning_back.turn_back().unwrap(), GivenBack::Lost);
        assert!(scratch.path().join("CLAIMED").exists());
    }

    #[test]
    fn a_claim_that_an_attempt_has_given_back_is_not_lost() {
        let scratch = handed_over();
        let turning_back = TurningBack::default();
        let mut directory = open(scratch.path());
        turning_back.watch(directory.retreat());
        directory.claim().unwrap();
        assert_eq!(directory.retreat().give_back().unwrap(), GivenBack::Snapshot);
        drop(directory);
        turning_back.watch(open(scratch.path()).retreat());
        assert_eq!(turning_back.turn_back().unwrap(), GivenBack::Untouched);
        assert!(scratch.path().join("READY").exists());
    }
}
