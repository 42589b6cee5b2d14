//! What there is in the directory, and what a start would do, for people and scripts. It takes no
//! lock, changes nothing, and reads every file of a snapshot to check it.

use std::io;
use std::path::Path;

use super::decide::{Decision, FailurePolicy, Limits, decide};
use super::found::{Found, SnapshotFound, look};
use super::lock::Lock;
use super::manifest::{Manifest, Totals};
use super::notes::{Note, ServingNote, ShutdownNote};
use super::reason::Cause;
use super::snapshot::Snapshot;
use super::{CLAIMED_NAME, READY_NAME, obstacle};

/// What a look at a directory gives.
#[derive(Clone, Debug)]
pub(crate) struct Inspection {
    /// The most telling of what there is: `refused`, `poisoned`, `claimed`, `ready`, `serving` or
    /// `empty`.
    pub(crate) state: &'static str,
    /// The snapshot, ready or claimed, if there is one.
    pub(crate) snapshot: Option<SnapshotFound>,
    /// What a start would do. A start waits before that for a master that holds the lock, and until
    /// there is no obstacle.
    pub(crate) decision: Decision,
    /// Why a start could not use the directory as it is.
    pub(crate) obstacle: Option<String>,
    /// The process that holds the lock, if there is one and the system tells.
    pub(crate) held_by_pid: Option<u32>,
    /// The master that serves or was killed.
    pub(crate) serving: Option<ServingNote>,
    /// How the last master left.
    pub(crate) last_shutdown: Option<ShutdownNote>,
    now_wall_ms: u64,
}

/// Looks.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn inspect(
    path: &Path,
    policy: FailurePolicy,
    limits: &Limits,
    now_wall_ms: u64,
) -> io::Result<Inspection> {
    let mut found = look(path)?;
    verify(&mut found.ready, &path.join(READY_NAME));
    verify(&mut found.claimed, &path.join(CLAIMED_NAME));
    let decision = decide(&found, policy, limits, now_wall_ms);
    let obstacle = obstacle::before_a_look(path).or_else(|| match found.refused {
        // It needs no other note.
        Some(_) => None,
        None => obstacle::before_a_note(path),
    });
    Ok(Inspection {
        obstacle,
        state: state(&found),
        decision,
        held_by_pid: Lock::holder(path),
        serving: found.serving.as_ref().and_then(Note::sound).cloned(),
        last_shutdown: found.last_shutdown.as_ref().and_then(Note::sound).cloned(),
        snapshot: found.ready.or(found.claimed),
        now_wall_ms,
    })
}

impl Inspection {
    /// The manifest of the snapshot, if it is sound.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.snapshot.as_ref()?.manifest.as_ref().ok()
    }

    /// The sums over the snapshot; zero without one.
    pub(crate) fn totals(&self) -> Totals {
        self.manifest().map(Manifest::totals).unwrap_or_default()
    }

    /// The age of the snapshot in seconds, below zero if it is from the future.
    pub(crate) fn age_s(&self) -> Option<f64> {
        let created_wall_ms = self.manifest()?.created_wall_ms;
        let after_ms = self.now_wall_ms.saturating_sub(created_wall_ms);
        let ahead_ms = created_wall_ms.saturating_sub(self.now_wall_ms);
        Some((after_ms as f64 - ahead_ms as f64) / 1e3)
    }

    /// What a start would do, by its name in logs and JSON; `wait` until there is no obstacle, and while
    /// a process holds the directory: what that leaves is not known yet.
    pub(crate) fn would(&self) -> &'static str {
        if self.obstacle.is_some() || self.held_by_pid.is_some() {
            "wait"
        } else {
            self.decision.name()
        }
    }

    /// Who holds the directory and what for, in words; `None` if nobody does.
    pub(crate) fn held(&self) -> Option<String> {
        let pid = self.held_by_pid?;
        let is_serving = self.serving.as_ref().is_some_and(|note| note.pid == pid);
        let doing = if is_serving {
            "a master is serving with it"
        } else {
            "a master is starting or leaving"
        };
        Some(format!("held by process {pid}: {doing}"))
    }

    /// Why a start would not restore, if nothing is in its way.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.decision.cause()
    }
}

/// Reads all files of a snapshot whose manifest is sound. What was renamed away by now is not
/// damaged: the look was just too late.
fn verify(snapshot: &mut Option<SnapshotFound>, path: &Path) {
    let Some(found) = snapshot.as_mut().filter(|found| found.manifest.is_ok()) else { return };
    if let Err(error) = Snapshot::open(path).and_then(|snapshot| snapshot.verify()) {
        found.manifest = Err(error);
        if !path.exists() {
            *snapshot = None;
        }
    }
}

fn state(found: &Found) -> &'static str {
    if found.refused.is_some() {
        "refused"
    } else if found.poison.is_some() {
        "poisoned"
    } else if found.claimed.is_some() {
        "claimed"
    } else if found.ready.is_some() {
        "ready"
    } else if found.serving.is_some() {
        "serving"
    } else {
        "empty"
    }
}
