//! The directory in the hands of a master: from the lock to the end of the process.

mod errors;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_proto::Incarnation;

use super::export::{Export, ExportFailure, ExportOptions};
use super::found::{Found, is_missing, look};
use super::lock::{Lock, LockError};
use super::notes::{
    self, LAST_SHUTDOWN_NAME, Note, POISON_NAME, PoisonNote, REFUSED_NAME, RefusedNote,
    SERVING_NAME, ServingNote, ShutdownNote, ShutdownResult,
};
use super::reason::{Cause, Reason};
use super::retreat::{Retreat, Stage};
use super::room::Room;
use super::snapshot::Snapshot;
use super::{CLAIMED_NAME, READY_NAME, durable};
use errors::gone;
pub(crate) use errors::{ClaimError, DirectoryError, OpenError};

/// The directory, locked until this and every [`Export`] of it are dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct HandoffDirectory {
    held: Arc<Held>,
    /// For the note that ends a claim.
    room: Option<Room>,
    /// What this master has said of its end.
    said: Mutex<Said>,
}

/// The locked directory.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    lock: Lock,
    /// Kept for the whole of each step that changes it.
    stage: Mutex<Stage>,
    /// Whether a claim was used up without serving.
    has_lost: Arc<AtomicBool>,
}

/// What a master has said of its end so far. The word that decides is never replaced by an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Nothing,
    /// That it leaves, or that time was over.
    Leaving,
    /// What came out.
    Outcome,
}

/// What a start that is about to serve leaves for the next one.
#[derive(Clone, Debug)]
pub(crate) struct StartNote {
    /// This master.
    pub(crate) incarnation: Incarnation,
    /// The wall clock, in milliseconds since 1970.
    pub(crate) now_wall_ms: u64,
    /// `restored`, or the name of the reason why it begins empty.
    pub(crate) outcome: String,
}

impl HandoffDirectory {
    /// Locks the directory; makes it if it is missing. While another process holds it, this waits
    /// for as long as it is told to. It blocks the thread.
    ///
    /// # Errors
    /// When the wait is over, or the directory is of no use. A master that was given a directory
    /// must not serve then: a snapshot that it can neither claim nor void would be restored later.
    pub(crate) fn open(path: &Path, wait: Duration) -> Result<HandoffDirectory, OpenError> {
        let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
        durable::create_directory(path).map_err(unusable)?;
        let lock = Lock::take(path, wait).map_err(|error| match error {
            LockError::Held { process } => OpenError::Held {
                path: path.to_owned(),
                holder: process.map_or_else(String::new, |process| format!(" (process {process})")),
                waited: wait,
            },
            LockError::Io(source) => unusable(source),
        })?;
        let stage = Mutex::new(Stage::Opened);
        let has_lost = Arc::default();
        let held = Arc::new(Held { path: path.to_owned(), lock, stage, has_lost });
        Ok(HandoffDirectory { held, room: None, said: Mutex::new(Said::Nothing) })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.held.path
    }

    /// What there is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn look(&self) -> Result<Found, DirectoryError> {
        look(self.path()).map_err(|source| self.failed("look into it", source))
    }

    /// What undoes the claim of this start, from another thread.
    pub(crate) fn retreat(&self) -> Retreat {
        Retreat::of(&self.held)
    }

    /// Makes sure that the notes of this start can be written. Comes before a claim: a start that has
    /// claimed and cannot say that it serves would have used the snapshot up for nothing.
    ///
    /// # Errors
    /// When they cannot, so that nothing was changed. The process must not serve.
    pub(crate) fn make_room(&mut self) -> Result<(), DirectoryError> {
        if self.room.is_none() {
            let room = Room::make(self.path()).map_err(|source| self.failed("write", source))?;
            self.room = Some(room);
        }
        Ok(())
    }

    /// Claims the snapshot. When this returns, also with [`ClaimError::Read`], no other start
    /// restores it, whatever happens to this one but a [`Retreat`]. It comes before any allocation
    /// for its content, and after [`make_room`](Self::make_room).
    ///
    /// # Errors
    /// When it could not be claimed, which leaves it unknown whether it is: the process must neither
    /// restore it nor serve, and a [`Retreat`] makes it unclaimed. Or when the manifest is not sound
    /// any more.
    pub(crate) fn claim(&mut self) -> Result<Snapshot, ClaimError> {
        self.make_room()?;
        let mut stage = self.held.stage();
        if *stage != Stage::Opened {
            return Err(DirectoryError::OutOfTurn("claim").into());
        }
        let (ready, claimed) = (self.path().join(READY_NAME), self.path().join(CLAIMED_NAME));
        let outcome = durable::rename(self.path(), &ready, CLAIMED_NAME)
            .map_err(|source| self.failed("claim the snapshot", source));
        // One whose sync fails has been made all the same.
        if outcome.is_ok() || (is_missing(&ready) && !is_missing(&claimed)) {
            *stage = Stage::Claimed;
        }
        outcome?;
        Ok(Snapshot::open(&claimed)?)
    }

    /// Says that this master serves. Must have returned before anything is served, whether it has
    /// restored or begins empty: from then on there is neither a READY nor a CLAIMED, and a crash
    /// leads to an ordinary empty start. What the master before said is kept in the note.
    ///
    /// # Errors
    /// When a step fails. The process must not serve then. What fails once the claim is void by its
    /// name is no error but a line in the log: the snapshot could not be given back any more.
    pub(crate) fn begin_serving(&mut self, start: StartNote) -> Result<Leftovers, DirectoryError> {
        self.make_room()?;
        let held = self.held.clone();
        let mut stage = held.stage();
        if !matches!(*stage, Stage::Opened | Stage::Claimed) {
            return Err(DirectoryError::OutOfTurn("begin serving"));
        }
        let found = self.look()?;
        let last_shutdown = found.last_shutdown.as_ref().and_then(Note::sound).cloned();
        let mut leftovers = Leftovers::default();
        leftovers.paths.extend(found.leftovers.iter().map(|name| self.path().join(name)));
        leftovers.paths.extend(self.void(READY_NAME)?);
        let note = ServingNote {
            incarnation: start.incarnation,
            pid: std::process::id(),
            since_wall_ms: start.now_wall_ms,
            start: start.outcome,
            last_shutdown,
        };
        self.write_in_room(SERVING_NAME, &note)?;
        leftovers.paths.extend(self.void_behind_note(CLAIMED_NAME)?);
        let had_claimed = *stage == Stage::Claimed;
        for name in [LAST_SHUTDOWN_NAME, POISON_NAME] {
            match self.void_behind_note(name) {
                Ok(path) => leftovers.paths.extend(path),
                // What was restored has no other copy any more. The next start may give another reason
                // for what it finds; it restores nothing that this one has not left.
                Err(error) if had_claimed => {
                    tracing::warn!(%error, "it stays in the handoff directory, and the master serves");
                }
                Err(error) => return Err(error),
            }
        }
        *stage = Stage::Serving(start.incarnation);
        Ok(leftovers)
    }

    /// Voids what no start restores beside the note that this master serves, which lasts by now. So
    /// it is enough that its name is gone: if the sync fails, a failure of the machine may bring it
    /// back, and a claim beside such a note counts as used up.
    fn void_behind_note(&self, name: &str) -> Result<Option<PathBuf>, DirectoryError> {
        let (named, void) = (self.path().join(name), durable::void_name());
        match durable::rename(self.path(), &named, &void) {
            Ok(()) => Ok(Some(self.path().join(void))),
            Err(error) if is_missing(&named) => {
                let void = Some(self.path().join(void)).filter(|void| !is_missing(void));
                if void.is_some() {
                    tracing::warn!(
                        name,
                        %error,
                        "it is void, but if the machine fails soon it may come back in the handoff \
                         directory, and the next start then counts the handoff as used up"
                    );
                }
                Ok(void)
            }
            Err(source) => Err(self.failed(&format!("void {name}"), source)),
        }
    }

    /// Says that this master is leaving: from now on, if it is killed, the next start finds that a
    /// handoff was to be expected and was interrupted. A start that never served says nothing.
    ///
    /// # Errors
    /// When it cannot be said.
    pub(crate) fn begin_leaving(&self, now_wall_ms: u64) -> Result<(), DirectoryError> {
        let detail = "the master ended before it had left a snapshot";
        self.say_first(Reason::Interrupted, detail, now_wall_ms, Said::Nothing)
    }

    /// Says that the time to leave was over before anything else was said of the outcome. A snapshot
    /// that is published all the same stays good.
    ///
    /// # Errors
    /// When it cannot be said.
    pub(crate) fn record_overdue(&self, now_wall_ms: u64) -> Result<(), DirectoryError> {
        let detail = "the time to leave was over before there was a snapshot";
        self.say_first(Reason::Deadline, detail, now_wall_ms, Said::Leaving)
    }

    /// Says that there is no snapshot so far, unless more than this was said before.
    fn say_first(
        &self,
        reason: Reason,
        detail: &str,
        now_wall_ms: u64,
        at_most: Said,
    ) -> Result<(), DirectoryError> {
        let Stage::Serving(incarnation) = *self.held.stage() else { return Ok(()) };
        // Held to the end: a slow disk must not put this note over a later one.
        let mut said = self.said();
        if *said > at_most {
            return Ok(());
        }
        self.check_owned()?;
        let note = ShutdownNote {
            incarnation,
            result: ShutdownResult::Failed(reason),
            detail: detail.to_owned(),
            ended_wall_ms: now_wall_ms,
            bytes: 0,
            objects: 0,
            duration_ms: 0,
            workers: 0,
        };
        self.held.write_note(LAST_SHUTDOWN_NAME, &note)?;
        *said = Said::Leaving;
        Ok(())
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a snapshot of this master, which must have stopped to serve for good. Says that it is
    /// leaving, if that was not said before. Writes POISON if another master has used the directory.
    ///
    /// # Errors
    /// Why there can be no snapshot; to be recorded.
    pub(crate) fn begin_export(&self, options: ExportOptions) -> Result<Export, ExportFailure> {
        let Stage::Serving(incarnation) = *self.held.stage() else {
            let detail = "the master was told to leave before it served";
            return Err(ExportFailure::new(Reason::SkippedProcessing, detail));
        };
        self.held.check_or_poison(incarnation)?;
        self.begin_leaving(options.now_wall_ms)
            .map_err(|error| ExportFailure::new(Reason::WriteFailed, error.to_string()))?;
        Export::begin(self.held.clone(), incarnation, options)
    }

    /// Says how this master has left: the last step before the process ends. A start that never
    /// served says nothing, so that what it found stays as true as it was.
    ///
    /// # Errors
    /// When it cannot be said. A snapshot that was published stays good, and without one the
    /// directory still says that the master ended or was interrupted.
    pub(crate) fn record_shutdown(&self, note: &ShutdownNote) -> Result<(), DirectoryError> {
        if !matches!(*self.held.stage(), Stage::Serving(_)) {
            return Ok(());
        }
        self.check_owned()?;
        let mut said = self.said();
        self.held.write_note(LAST_SHUTDOWN_NAME, note)?;
        *said = Said::Outcome;
        durable::remove_file(self.path(), SERVING_NAME)
            .map_err(|source| self.failed("remove the note that it serves", source))
    }

    /// Records that this start refuses, and unlocks the directory, so that it can be cleared while
    /// the process stays. A refusal that was recorded before stays as it is.
    ///
    /// # Errors
    /// When it cannot be recorded. The process must not serve either.
    pub(crate) fn refuse(
        mut self,
        cause: &Cause,
        now_wall_ms: u64,
    ) -> Result<Refusal, DirectoryError> {
        let held = self.held.clone();
        let mut stage = held.stage();
        if *stage == Stage::Retreated {
            return Err(DirectoryError::OutOfTurn("refuse"));
        }
        if *stage == Stage::Claimed {
            held.has_lost.store(true, Ordering::Release);
        }
        *stage = Stage::Retreated;
        let refusal = Refusal { note: self.path().join(REFUSED_NAME) };
        if refusal.was_cleared() {
            let note = RefusedNote {
                reason: cause.reason,
                detail: cause.detail.clone(),
                at_wall_ms: now_wall_ms,
            };
            self.make_room()?;
            self.write_in_room(REFUSED_NAME, &note)?;
        }
        Ok(refusal)
    }

    /// Whether nobody else has used the directory since this master began to serve.
    ///
    /// # Errors
    /// What was found, with the reason that a snapshot would be skipped for.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match *self.held.stage() {
            Stage::Serving(incarnation) => self.held.check(incarnation),
            Stage::Opened | Stage::Claimed | Stage::Retreated => Ok(()),
        }
    }

    /// Removes everything but the lock; gives the names. `refused` goes last, so that a half-done
    /// removal is never a directory that a start would serve with.
    pub(super) fn clear(&self) -> Result<Vec<String>, DirectoryError> {
        let found = self.look()?;
        let mut removed = Vec::new();
        let mut leftovers = Leftovers::default();
        let names = [READY_NAME, CLAIMED_NAME, LAST_SHUTDOWN_NAME, SERVING_NAME, POISON_NAME];
        for name in names.into_iter().chain([REFUSED_NAME]) {
            if let Some(path) = self.void(name)? {
                leftovers.paths.push(path);
                removed.push(name.to_owned());
            }
        }
        leftovers.paths.extend(found.leftovers.iter().map(|name| self.path().join(name)));
        removed.extend(found.leftovers);
        for path in leftovers.paths {
            durable::delete(&path)
                .map_err(|source| self.failed(&format!("delete {}", path.display()), source))?;
        }
        Ok(removed)
    }

    /// Writes a note where room was made for it.
    fn write_in_room<T: serde::Serialize>(
        &mut self,
        name: &str,
        note: &T,
    ) -> Result<(), DirectoryError> {
        let Some(room) = self.room.take() else {
            return Err(DirectoryError::OutOfTurn("write a note"));
        };
        notes::encode(note)
            .and_then(|bytes| room.become_file(self.path(), name, &bytes))
            .map_err(|source| self.failed(&format!("write {name}"), source))
    }

    fn check_owned(&self) -> Result<(), DirectoryError> {
        self.held.owns_lock().map_err(|cause| match self.held.is_gone() {
            true => DirectoryError::Gone(self.path().to_owned()),
            false => DirectoryError::NotOwner(cause.detail),
        })
    }

    /// Removes a recorded refusal; gives whether there was one.
    pub(super) fn clear_refusal(&self) -> Result<bool, DirectoryError> {
        let Some(path) = self.void(REFUSED_NAME)? else { return Ok(false) };
        durable::delete(&path).map_err(|source| self.failed("delete the refusal", source))?;
        Ok(true)
    }

    fn void(&self, name: &str) -> Result<Option<PathBuf>, DirectoryError> {
        durable::make_void(self.path(), name)
            .map_err(|source| self.failed(&format!("void {name}"), source))
    }

    fn failed(&self, attempt: &str, source: io::Error) -> DirectoryError {
        self.held.failed(attempt, source)
    }
}

impl Held {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How far this process has come.
    pub(super) fn stage(&self) -> MutexGuard<'_, Stage> {
        // Each change is one step, so that a panic elsewhere leaves it whole.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is set when a claim is used up without serving.
    pub(super) fn has_lost(&self) -> Arc<AtomicBool> {
        self.has_lost.clone()
    }

    pub(super) fn failed(&self, attempt: &str, source: io::Error) -> DirectoryError {
        DirectoryError::Io { attempt: attempt.to_owned(), path: self.path.clone(), source }
    }

    fn write_note<T: serde::Serialize>(&self, name: &str, note: &T) -> Result<(), DirectoryError> {
        notes::encode(note)
            .and_then(|bytes| durable::replace_file(&self.path, name, &bytes))
            .map_err(|source| self.failed(&format!("write {name}"), source))
    }

    /// Whether nobody else has used the directory while this master served.
    pub(super) fn check(&self, incarnation: Incarnation) -> Result<(), Cause> {
        self.owns_lock()?;
        let found = look(&self.path).map_err(|error| {
            let detail = format!("the directory cannot be read: {error}");
            Cause::new(Reason::SkippedNotOwner, detail)
        })?;
        let foreign = if found.poison.is_some() {
            "POISON, which this master did not write"
        } else if found.ready.is_some() {
            "READY, which this master did not write"
        } else if found.claimed.is_some() {
            "CLAIMED, which this master did not claim"
        } else if !is_note_of(&found, incarnation) {
            "that the note of the serving master is not this one's"
        } else {
            return Ok(());
        };
        Err(Cause::new(Reason::SkippedPoisoned, foreign))
    }

    /// Whether the lock is still the one that every other master would take.
    pub(super) fn owns_lock(&self) -> Result<(), Cause> {
        let detail = match self.lock.is_in_place() {
            Ok(true) => return Ok(()),
            Ok(false) if self.is_gone() => gone(&self.path),
            Ok(false) => LOCK_GONE.to_owned(),
            Err(error) => format!("the lock cannot be checked: {error}"),
        };
        Err(Cause::new(Reason::SkippedNotOwner, detail))
    }

    /// Whether there is no such directory any more. Then there is nobody to be warned in it either.
    fn is_gone(&self) -> bool {
        is_missing(&self.path)
    }

    /// As [`check`](Self::check), and leaves POISON if somebody has.
    pub(super) fn check_or_poison(&self, incarnation: Incarnation) -> Result<(), ExportFailure> {
        self.check(incarnation).map_err(|cause| {
            if !self.is_gone() {
                self.poison(incarnation, &cause);
            }
            ExportFailure { cause }
        })
    }

    /// Leaves POISON, so that no start restores what two masters may have written.
    pub(super) fn poison(&self, incarnation: Incarnation, cause: &Cause) {
        let found = cause.detail.as_str();
        let note = PoisonNote { incarnation, found: found.to_owned() };
        let told = match cause.reason {
            Reason::SkippedNotOwner => "the handoff directory is not this master's any more",
            _ => "another master has used the handoff directory",
        };
        match self.write_note(POISON_NAME, &note) {
            Ok(()) => tracing::error!(
                handoff_write = "poisoned",
                directory = %self.path.display(),
                found,
                "{told}"
            ),
            Err(error) => tracing::error!(
                handoff_write = "poison_failed",
                directory = %self.path.display(),
                found,
                %error,
                "{told}"
            ),
        }
    }
}

fn is_note_of(found: &Found, incarnation: Incarnation) -> bool {
    let note = found.serving.as_ref().and_then(Note::sound);
    note.is_some_and(|note| note.incarnation == incarnation)
}

/// What is void and not deleted yet. Nothing depends on when it is, and the next start would do it.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    paths: Vec<PathBuf>,
}

impl Leftovers {
    /// Deletes it, which takes its time: meant for a thread beside the serving ones.
    pub(crate) fn delete(self) {
        for path in self.paths {
            if let Err(error) = durable::delete(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot delete what is left over");
            }
        }
    }
}

/// A start that does not serve.
#[derive(Debug)]
pub(crate) struct Refusal {
    note: PathBuf,
}

impl Refusal {
    /// Whether an operator has cleared the directory, so that a new start may serve. A directory that
    /// cannot be looked at is not a cleared one.
    pub(crate) fn was_cleared(&self) -> bool {
        is_missing(&self.note)
    }
}

const LOCK_GONE: &str = "the lock file was removed or replaced while the master served, so another \
                         master may have used the directory meanwhile";
