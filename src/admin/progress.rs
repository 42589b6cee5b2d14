//! How far a start has come, until it serves.

use super::handoff::HandoffReport;

/// What the pages know of a process that does not serve yet, and of its handoff later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// How far it has come.
    pub(crate) state: StartState,
    /// Why it has not come further, if there is more to say than the state does.
    pub(crate) reason: Option<String>,
    /// What is known of the handoff; `None` without a directory.
    pub(crate) handoff: Option<HandoffReport>,
}

/// How far a start has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StartState {
    /// It has just begun.
    #[default]
    Starting,
    /// Another master may still hold the handoff directory.
    Waiting,
    /// It loads the snapshot.
    Restoring,
    /// It does not serve, for a reason that an operator has to look at.
    Refused,
}

impl StartState {
    /// The name on the pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StartState::Starting => "starting",
            StartState::Waiting => "waiting",
            StartState::Restoring => "restoring",
            StartState::Refused => "refused",
        }
    }
}

impl Progress {
    /// Why requests are not answered yet.
    pub(crate) fn why_not_ready(&self) -> String {
        self.reason.clone().unwrap_or_else(|| {
            let text = match self.state {
                StartState::Starting => "the master is starting",
                StartState::Waiting => "the master waits for the handoff directory",
                StartState::Restoring => "the master is restoring the index",
                StartState::Refused => "the master refuses to serve",
            };
            text.to_owned()
        })
    }
}
