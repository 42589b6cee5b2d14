//! What a start does with what it finds. Pure: it neither looks nor acts.

use std::str::FromStr;

use super::found::{Found, SnapshotFound};
use super::memory::Admission;
use super::notes::{Note, ServingNote, ShutdownResult};
use super::reason::{Cause, Reason};

/// What a start does when a handoff was expected and cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    /// Serve with an empty index, and tell why.
    #[default]
    ServeEmpty,
    /// Do not serve until an operator has cleared the directory.
    Refuse,
}

impl FromStr for FailurePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<FailurePolicy, String> {
        match text.replace('-', "_").as_str() {
            "serve_empty" => Ok(FailurePolicy::ServeEmpty),
            "refuse" => Ok(FailurePolicy::Refuse),
            _ => Err("allowed are serve_empty and refuse".to_owned()),
        }
    }
}

impl std::fmt::Display for FailurePolicy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            FailurePolicy::ServeEmpty => "serve_empty",
            FailurePolicy::Refuse => "refuse",
        })
    }
}

impl FailurePolicy {
    /// What a start does that does not restore, for this cause. It is also for what goes wrong
    /// after the decision to restore: a damaged file, a deadline, records that contradict each
    /// other.
    pub(crate) fn without_snapshot(self, cause: Cause) -> Decision {
        match self {
            FailurePolicy::Refuse if cause.reason.was_expected() => Decision::Refuse(cause),
            _ => Decision::ServeEmpty(cause),
        }
    }
}

/// What a start does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Claim the snapshot and restore it.
    Restore,
    /// Serve with an empty index.
    ServeEmpty(Cause),
    /// Do not serve.
    Refuse(Cause),
}

impl Decision {
    /// The name in logs and JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Decision::Restore => "restore",
            Decision::ServeEmpty(_) => "serve_empty",
            Decision::Refuse(_) => "refuse",
        }
    }

    /// Why it does not restore.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        match self {
            Decision::Restore => None,
            Decision::ServeEmpty(cause) | Decision::Refuse(cause) => Some(cause),
        }
    }
}

/// What a snapshot must keep to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// An older one is stale.
    pub(crate) max_age_ms: u64,
    /// The memory that there is; none if it is not to be checked.
    pub(crate) memory: Option<Admission>,
}

/// Decides. `now_wall_ms` is the wall clock, in milliseconds since 1970.
pub(crate) fn decide(
    found: &Found,
    policy: FailurePolicy,
    limits: &Limits,
    now_wall_ms: u64,
) -> Decision {
    // Whatever the policy is by now: this one is for an operator to end.
    if let Some(refused) = &found.refused {
        return Decision::Refuse(match refused {
            Note::Sound(note) => note.cause(),
            Note::Unsound(fault) => Cause::new(Reason::Unknown, fault.clone()),
        });
    }
    match judge(found, limits, now_wall_ms) {
        Ok(()) => Decision::Restore,
        Err(cause) => policy.without_snapshot(cause),
    }
}

/// Whether there is a snapshot to restore; if not, why.
fn judge(found: &Found, limits: &Limits, now_wall_ms: u64) -> Result<(), Cause> {
    if let Some(poison) = &found.poison {
        return Err(Cause::new(
            Reason::Poisoned,
            match poison {
                Note::Sound(note) => format!("master {} found: {}", note.incarnation, note.found),
                Note::Unsound(fault) => fault.clone(),
            },
        ));
    }
    // Also beside the note that it serves: it voids the claim between that and its serving. If a failed
    // machine has brought the claim back after that, it is used up all the more.
    if found.claimed.is_some() {
        return Err(aborted_previous());
    }
    match &found.ready {
        Some(ready) => judge_ready(found, ready, limits, now_wall_ms),
        None => Err(without_ready(found)),
    }
}

fn judge_ready(
    found: &Found,
    ready: &SnapshotFound,
    limits: &Limits,
    now_wall_ms: u64,
) -> Result<(), Cause> {
    let manifest = match &ready.manifest {
        Ok(manifest) => manifest,
        Err(error) => return Err(Cause::new(error.reason(), error.to_string())),
    };
    let last_user = match (&found.serving, &found.last_shutdown) {
        (Some(Note::Sound(note)), _) => note.incarnation,
        (None, Some(Note::Sound(note))) => note.incarnation,
        (Some(Note::Unsound(fault)), _) | (None, Some(Note::Unsound(fault))) => {
            return Err(Cause::new(Reason::Corrupt, fault.clone()));
        }
        (None, None) => {
            let detail = "no master says that it left the snapshot";
            return Err(Cause::new(Reason::Poisoned, detail));
        }
    };
    if manifest.incarnation != last_user {
        let detail = format!(
            "the snapshot is of master {}, but {last_user} used the directory last",
            manifest.incarnation
        );
        return Err(Cause::new(Reason::Poisoned, detail));
    }
    judge_age(manifest.created_wall_ms, limits.max_age_ms, now_wall_ms)?;
    match limits.memory {
        Some(admission) => admission.check(&manifest.totals()),
        None => Ok(()),
    }
}

fn judge_age(created_wall_ms: u64, max_age_ms: u64, now_wall_ms: u64) -> Result<(), Cause> {
    let ahead_ms = created_wall_ms.saturating_sub(now_wall_ms);
    if ahead_ms > CLOCK_TOLERANCE_MS {
        let detail = format!("the snapshot is {ahead_ms} ms from the future");
        return Err(Cause::new(Reason::Clock, detail));
    }
    let age_ms = now_wall_ms.saturating_sub(created_wall_ms);
    if age_ms > max_age_ms {
        let detail = format!("the snapshot is {age_ms} ms old, allowed are {max_age_ms}");
        return Err(Cause::new(Reason::Stale, detail));
    }
    Ok(())
}

fn aborted_previous() -> Cause {
    let detail = "an earlier start claimed the snapshot and ended before it served";
    Cause::new(Reason::AbortedPrevious, detail)
}

fn without_ready(found: &Found) -> Cause {
    let serving = found.serving.as_ref();
    let left = match &found.last_shutdown {
        Some(Note::Sound(note)) if leaves_last(serving, note.incarnation) => note,
        // Whoever serves has voided this, as the claim just before it, unless the disk has failed.
        Some(Note::Sound(note)) if note.result == ShutdownResult::Ok => return aborted_previous(),
        Some(Note::Unsound(fault)) if serving.is_none() => {
            return Cause::new(Reason::Corrupt, fault.clone());
        }
        _ => return without_shutdown(serving),
    };
    match left.result {
        ShutdownResult::Ok => {
            let detail = "the master before says that it left a snapshot, and there is none";
            Cause::new(Reason::Missing, detail)
        }
        ShutdownResult::Failed(reason) => Cause::new(reason, left.detail.clone()),
    }
}

/// Whether the note is of the master that used the directory last, and not of the one before.
fn leaves_last(serving: Option<&Note<ServingNote>>, left: mooring_proto::Incarnation) -> bool {
    match serving {
        None => true,
        Some(Note::Sound(note)) => note.incarnation == left,
        Some(Note::Unsound(_)) => false,
    }
}

fn without_shutdown(serving: Option<&Note<ServingNote>>) -> Cause {
    match serving {
        None => Cause::new(Reason::None, "there is no snapshot and no master has left"),
        Some(Note::Sound(note)) => {
            let detail =
                format!("master {} (process {}) ended without leaving", note.incarnation, note.pid);
            Cause::new(Reason::Killed, detail)
        }
        Some(Note::Unsound(fault)) => Cause::new(Reason::Killed, fault.clone()),
    }
}

/// Two readings of a clock that is being adjusted may differ by this much.
const CLOCK_TOLERANCE_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
