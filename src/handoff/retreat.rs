//! How a start that does not come to serve gives back what it has claimed.
//!
//! A snapshot may be restored once, because whoever serves it changes what it says. A start that has
//! claimed it and served nothing has changed nothing: no client knows of it, and it has handed out
//! no range. So the claim can be undone, by the same one rename, as long as this process says in the
//! same step that it will never serve. A start that is killed undoes nothing.
//!
//! One whose claim or note fails gives back as well, before it tries again: the retry is a start of
//! its own. Of a rename whose sync fails it is not known whether it lasts, and it can be undone.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use mooring_proto::Incarnation;

use super::directory::{DirectoryError, Held};
use super::found::{is_missing, look};
use super::notes::SERVING_NAME;
use super::{CLAIMED_NAME, READY_NAME, durable};

/// How far a process has come with its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Neither claimed nor serving.
    Opened,
    /// It has claimed a snapshot and does not serve yet.
    Claimed,
    /// It has given up to serve, for good.
    Retreated,
    /// It serves, or leaves.
    Serving(Incarnation),
}

/// Undoes the claim of a start that is told to leave. It does not keep the directory locked.
#[derive(Clone, Debug)]
pub(crate) struct Retreat {
    held: Weak<Held>,
    has_lost: Arc<AtomicBool>,
}

/// What a retreat has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// Nothing was claimed: the directory is as it was.
    Untouched,
    /// The next start finds the snapshot as this one has found it, with the age that it has by then.
    Snapshot,
    /// Too late: the directory says that this master serves.
    Serving,
    /// What was claimed could not be given back before, or a refusal was recorded beside it: it is used
    /// up.
    Lost,
}

impl Retreat {
    pub(super) fn of(held: &Arc<Held>) -> Retreat {
        Retreat { held: Arc::downgrade(held), has_lost: held.has_lost() }
    }

    /// Whether this start has used up what it had claimed, and did not come to serve.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Acquire)
    }

    /// Gives back what was claimed, unless the directory says already that this master serves. When
    /// it returns anything else, this process can neither claim nor serve any more.
    ///
    /// # Errors
    /// When the claim cannot be undone; then the snapshot counts as used up. The process can neither
    /// claim nor serve any more.
    pub(crate) fn give_back(&self) -> Result<GivenBack, DirectoryError> {
        let before = if self.has_lost() { GivenBack::Lost } else { GivenBack::Untouched };
        // A directory that is not held any more has its outcome.
        let Some(held) = self.held.upgrade() else { return Ok(before) };
        let mut stage = held.stage();
        match *stage {
            Stage::Serving(_) => return Ok(GivenBack::Serving),
            Stage::Opened | Stage::Retreated => {
                *stage = Stage::Retreated;
                return Ok(before);
            }
            Stage::Claimed => *stage = Stage::Retreated,
        }
        held.give_back().inspect_err(|_| self.has_lost.store(true, Ordering::Release))?;
        Ok(GivenBack::Snapshot)
    }
}

impl Held {
    fn give_back(&self) -> Result<(), DirectoryError> {
        // Another master may have found the claim meanwhile, and serve.
        self.owns_lock().map_err(|cause| DirectoryError::NotOwner(cause.detail))?;
        self.withdraw_serving_note()?;
        let (claimed, ready) = (self.path().join(CLAIMED_NAME), self.path().join(READY_NAME));
        match durable::rename(self.path(), &claimed, READY_NAME) {
            Err(error) if is_missing(&claimed) && !is_missing(&ready) => {
                tracing::warn!(%error, "given back, but used up if the machine fails soon");
                Ok(())
            }
            outcome => outcome.map_err(|source| self.failed("give the snapshot back", source)),
        }
    }

    /// Removes the note that this process serves. One whose directory failed to be written has its
    /// name all the same, and the snapshot beside it would count as that of another master.
    ///
    /// The master that made the snapshot may have been killed before it withdrew its own note. That
    /// one stays.
    fn withdraw_serving_note(&self) -> Result<(), DirectoryError> {
        let found = look(self.path()).map_err(|source| self.failed("look at it", source))?;
        let (Some(claimed), Some(serving)) = (&found.claimed, &found.serving) else {
            return Ok(());
        };
        match (serving.sound(), claimed.incarnation()) {
            (Some(serving), Some(made_by)) if serving.incarnation == made_by => Ok(()),
            (Some(_), Some(_)) => durable::remove_file(self.path(), SERVING_NAME)
                .map_err(|source| self.failed("withdraw the note that it serves", source)),
            _ => {
                let fault = "it cannot be told of which master it is";
                let source = io::Error::new(ErrorKind::InvalidData, fault);
                Err(self.failed("withdraw the note that it serves", source))
            }
        }
    }
}
