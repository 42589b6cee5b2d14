//! What a start does until there is something to serve: with a handoff directory it waits for the
//! lock, decides, claims and restores. It blocks its thread.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mooring_actors::core::{CoreConfig, CoreState};
use mooring_proto::Incarnation;

use super::options::{HandoffOptions, MasterOptions};
use super::restore::{self, Restored, Threads};
use super::turning_back::TurningBack;
use crate::admin::{Admin, HandoffReport, RestoreProgress, RestoreReport, StartState};
use crate::command::CommandError;
use crate::handoff::{
    Admission, Cause, ClaimError, Deadline, Decision, DirectoryError, Found, HandoffDirectory,
    Leftovers, Limits, Note, OpenError, Reason, Refusal, StartNote, available_bytes, decide,
};
use crate::telemetry::{self, Phase};

/// What there is to serve.
pub(super) struct Begun {
    pub(super) config: CoreConfig,
    /// Of the route, for the next handoff.
    pub(super) seed: u64,
    /// `None` begins empty.
    pub(super) state: Option<CoreState>,
    /// Locked, and told that this master serves.
    pub(super) directory: Option<HandoffDirectory>,
}

/// Begins. While the directory is of no use, or an operator must look at it, this neither returns
/// nor ends the process: a supervisor that started it again and again would change nothing.
///
/// # Errors
/// When another master holds the directory for too long.
pub(super) fn begin(
    options: &MasterOptions,
    admin: &Admin,
    turning_back: &TurningBack,
    phase: &Phase,
) -> Result<Begun, CommandError> {
    let Some(handoff) = &options.handoff else {
        tracing::info!(
            handoff_startup = "off",
            "no --handoff-dir is given: the index begins empty, and is not handed over at the end"
        );
        let seed = rand::random();
        let config = core_config(options, seed);
        return Ok(Begun { config, seed, state: None, directory: None });
    };
    admin.note(|progress| progress.handoff = Some(HandoffReport::default()));
    let mut told = None;
    loop {
        // What keeps it from serving stays on the pages until it is gone: an attempt that fails again
        // would show something else for a moment.
        if told.is_none() {
            admin.note(|progress| {
                progress.state = StartState::Waiting;
                progress.reason = None;
            });
        }
        let fault = match attempt(options, handoff, admin, turning_back, phase, told.is_none()) {
            Ok(Attempt::Begun(begun)) => return Ok(*begun),
            Ok(Attempt::Refused(refusal)) => {
                wait_until_cleared(&refusal);
                told = None;
                continue;
            }
            Err(StartError::Open(error @ OpenError::Held { .. })) => {
                return Err(CommandError::failed("cannot take the handoff over", error));
            }
            Err(fault) => fault,
        };
        turning_back.stop_if_told();
        let (name, text) = (fault.name(), fault.to_string());
        admin.note(|progress| {
            progress.state = StartState::Refused;
            progress.reason = Some(text.clone());
            progress.handoff.get_or_insert_default().restore.result = name;
        });
        if told.as_ref() != Some(&text) {
            tracing::error!(
                handoff_startup = name,
                error = text,
                "the master does not serve before the handoff directory can be used"
            );
            told = Some(text);
        }
        thread::sleep(RETRY_EVERY);
    }
}

/// A core as the flags want it, spread by this seed. The incarnation is random for each start: a
/// token of a former process must mean nothing to this one.
fn core_config(options: &MasterOptions, seed: u64) -> CoreConfig {
    CoreConfig {
        settings: options.settings.clone(),
        layout: options.layout,
        on_fault: super::on_fault,
        on_job: telemetry::on_job(),
        ..CoreConfig::new(options.shards, seed, Incarnation(rand::random()))
    }
}

/// The wall clock, in milliseconds since 1970. One before 1970 counts as 1970, and makes every
/// snapshot one from the future.
pub(super) fn now_wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

enum Attempt {
    Begun(Box<Begun>),
    Refused(Refusal),
}

/// Why nothing may be served.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("the snapshot cannot be claimed: {0}")]
    Claim(DirectoryError),
}

impl StartError {
    fn name(&self) -> &'static str {
        match self {
            StartError::Claim(_) => "claim_failed",
            StartError::Open(_) | StartError::Directory(_) => "directory_failed",
        }
    }
}

fn attempt(
    options: &MasterOptions,
    handoff: &HandoffOptions,
    admin: &Admin,
    turning_back: &TurningBack,
    phase: &Phase,
    is_first: bool,
) -> Result<Attempt, StartError> {
    let mut opening = phase.within("open directory");
    let mut directory = HandoffDirectory::open(&handoff.directory, handoff.lock_wait)
        .inspect_err(|error| opening.fail(error.to_string()))?;
    turning_back.watch(directory.retreat());
    drop(opening);
    if is_first {
        admin.note(|progress| progress.state = StartState::Starting);
    }
    let found = directory.look()?;
    let now_wall_ms = now_wall_ms();
    note_found(admin, &found, now_wall_ms);
    let margin_percent = handoff.margin_percent;
    let admission = |available_bytes| Admission { available_bytes, margin_percent };
    let memory = available_bytes().map(admission);
    let limits = Limits { max_age_ms: handoff.max_age_ms, memory };
    let cause = match decide(&found, handoff.policy, &limits, now_wall_ms) {
        Decision::Restore => match take_over(&mut directory, options, handoff, admin, phase)? {
            Ok(restored) => return serve_restored(directory, restored),
            // What was laid down so far is gone by now, before anything else is allocated.
            Err(cause) => cause,
        },
        Decision::ServeEmpty(cause) => return serve_empty(directory, options, admin, &cause),
        Decision::Refuse(cause) => return refuse(directory, admin, &cause),
    };
    match handoff.policy.without_snapshot(cause) {
        Decision::Refuse(cause) => refuse(directory, admin, &cause),
        Decision::ServeEmpty(cause) => serve_empty(directory, options, admin, &cause),
        Decision::Restore => unreachable!("there is no snapshot to restore any more"),
    }
}

fn note_found(admin: &Admin, found: &Found, now_wall_ms: u64) {
    let manifest = found.ready.as_ref().and_then(|ready| ready.manifest.as_ref().ok());
    let age_ms = manifest.map(|manifest| now_wall_ms.saturating_sub(manifest.created_wall_ms));
    admin.note(|progress| {
        let report = progress.handoff.get_or_insert_default();
        report.last_shutdown = found.last_shutdown.as_ref().and_then(Note::sound).cloned();
        let snapshot_age = age_ms.map(Duration::from_millis);
        let result = report.restore.result;
        report.restore = RestoreReport { snapshot_age, result, ..RestoreReport::default() };
    });
}

/// Claims the snapshot and restores it, or says why there is nothing to restore any more.
fn take_over(
    directory: &mut HandoffDirectory,
    options: &MasterOptions,
    handoff: &HandoffOptions,
    admin: &Admin,
    phase: &Phase,
) -> Result<Result<Restored, Cause>, StartError> {
    directory.make_room()?;
    let laid = Arc::new(RestoreProgress::default());
    admin.note(|progress| {
        progress.state = StartState::Restoring;
        progress.reason = None;
        progress.handoff.get_or_insert_default().restore.progress = laid.clone();
    });
    let started = Instant::now();
    let mut claiming = phase.within("claim");
    let claimed = directory.claim().inspect_err(|error| claiming.fail(error.to_string()));
    drop(claiming);
    let snapshot = match claimed {
        Ok(snapshot) => snapshot,
        Err(ClaimError::Directory(error)) => {
            give_back(directory);
            return Err(StartError::Claim(error));
        }
        Err(ClaimError::Read(error)) => {
            return Ok(Err(Cause::new(error.reason(), error.to_string())));
        }
    };
    let mut restoring = phase.within("restore");
    let deadline = Deadline::at(started + handoff.restore_deadline);
    let seed = snapshot.manifest().route_seed;
    let config = core_config(options, seed);
    tracing::info!(
        handoff_startup = "restoring",
        objects = snapshot.manifest().totals().objects,
        files = snapshot.manifest().shards.len(),
        shards = options.shards,
        "claimed the snapshot"
    );
    let threads = Threads { files: handoff.restore_workers, new: thread::Builder::new };
    let outcome = restore::restore(&snapshot, config, threads, deadline, &laid);
    match &outcome {
        Ok(restored) => restoring.note("mooring.objects", restored.objects),
        Err(cause) => restoring.fail(cause.to_string()),
    }
    drop(restoring);
    let duration = started.elapsed();
    Ok(outcome.inspect(|restored| {
        admin.note(|progress| {
            let report = &mut progress.handoff.get_or_insert_default().restore;
            report.result = "ok";
            report.duration = duration;
            report.objects = restored.objects;
        });
        tracing::info!(
            handoff_startup = "ok",
            objects = restored.objects,
            segments = restored.segments,
            clients = restored.clients,
            duration_ms = duration.as_millis() as u64,
            "the index is restored; each segment opens when its store comes back"
        );
    }))
}

fn serve_restored(directory: HandoffDirectory, restored: Restored) -> Result<Attempt, StartError> {
    let Restored { config, seed, state, .. } = restored;
    serve(directory, config, seed, Some(state), "restored")
}

fn serve_empty(
    directory: HandoffDirectory,
    options: &MasterOptions,
    admin: &Admin,
    cause: &Cause,
) -> Result<Attempt, StartError> {
    let (name, detail) = (cause.reason.name(), &cause.detail);
    admin.note(|progress| progress.handoff.get_or_insert_default().restore.result = name);
    let path = directory.path().to_owned();
    let seed = rand::random();
    // It may fail, and be tried again each second; only then is it true.
    let begun = serve(directory, core_config(options, seed), seed, None, name)?;
    let path = path.display();
    match cause.reason {
        reason if reason.was_expected() => {
            tracing::warn!(
                handoff_startup = name,
                detail,
                "the handoff is of no use: begins empty"
            );
        }
        Reason::Killed => tracing::warn!(
            handoff_startup = name,
            detail,
            directory = %path,
            "the master before was killed or has failed, and nothing was handed over: the index begins \
             empty"
        ),
        _ => tracing::info!(
            handoff_startup = name,
            detail,
            directory = %path,
            "empty: no master has used this directory, or it was cleared; the index begins empty"
        ),
    }
    Ok(begun)
}

/// The last step before serving: from here on nothing that was in the directory is restored.
fn serve(
    mut directory: HandoffDirectory,
    config: CoreConfig,
    seed: u64,
    state: Option<CoreState>,
    outcome: &str,
) -> Result<Attempt, StartError> {
    let note = StartNote {
        incarnation: config.incarnation,
        now_wall_ms: now_wall_ms(),
        outcome: outcome.to_owned(),
    };
    let leftovers = directory.begin_serving(note).inspect_err(|_| give_back(&directory))?;
    delete_beside(leftovers, thread::Builder::new().name("leftovers".to_owned()));
    let directory = Some(directory);
    Ok(Attempt::Begun(Box::new(Begun { config, seed, state, directory })))
}

/// Deletes on such a thread. If the system refuses it, that is left to the next start: what is
/// restored here has no other copy any more.
fn delete_beside(leftovers: Leftovers, thread: thread::Builder) {
    if let Err(error) = thread.spawn(|| leftovers.delete()) {
        tracing::warn!(%error, "what is left over stays in the handoff directory until the next start");
    }
}

/// Nothing was served, so the next attempt may have what this one has claimed.
fn give_back(directory: &HandoffDirectory) {
    if let Err(error) = directory.retreat().give_back() {
        tracing::warn!(%error, "the snapshot may be used up, and the next attempt begin empty");
    }
}

fn refuse(
    directory: HandoffDirectory,
    admin: &Admin,
    cause: &Cause,
) -> Result<Attempt, StartError> {
    let (name, path) = (cause.reason.name(), directory.path().to_owned());
    let refusal = directory.refuse(cause, now_wall_ms())?;
    admin.note(|progress| {
        progress.state = StartState::Refused;
        let path = path.display();
        progress.reason = Some(format!(
            "{cause}; `mooring handoff clear {path}` ends this and deletes what is there, with \
             --only-refusal it is judged anew"
        ));
        progress.handoff.get_or_insert_default().restore.result = name;
    });
    tracing::error!(
        handoff_startup = "refused",
        reason = name,
        detail = cause.detail,
        directory = %path.display(),
        "the master does not serve before `mooring handoff clear` was run on the directory; it deletes \
         what is there, or with --only-refusal lets a start judge it anew"
    );
    Ok(Attempt::Refused(refusal))
}

fn wait_until_cleared(refusal: &Refusal) {
    while !refusal.was_cleared() {
        thread::sleep(CLEARED_EVERY);
    }
    tracing::info!(handoff_startup = "cleared", "an operator has cleared the handoff directory");
}

/// Often enough for an operator who watches, seldom enough to be no load.
const CLEARED_EVERY: Duration = Duration::from_millis(200);

/// A disk that is full or not mounted yet may be better soon.
const RETRY_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
