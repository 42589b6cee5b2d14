//! How a master leaves: what is in flight is answered, the index is handed over, connections are
//! told, and the process ends without tearing anything down, so that its exit does not take longer
//! with more objects.
//!
//! Every step has a deadline. A step that misses it costs the snapshot, never the exit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mooring_actors::shard::state::shards_dropped;
use tokio::time::{timeout, timeout_at};

use super::Threads;
use super::announce::Announced;
use super::export::{Handover, Written};
use super::signals::Signals;
use super::standby::Standby;
use crate::frontend::Context;
use crate::frontend::mooncake::MooncakeListener;
use crate::frontend::quic::Listener;
use crate::handoff::{ExportFailure, Published, Reason};
use crate::logging;
use crate::telemetry::{self, Phase};

/// What leaves.
pub(super) struct Leaving {
    pub(super) context: Arc<Context>,
    /// `None` without QUIC.
    pub(super) listener: Option<Arc<Listener>>,
    /// `None` without a port for clients of Mooncake.
    pub(super) mooncake: Option<MooncakeListener>,
    pub(super) announced: Announced,
    /// From the signal to the end of the process.
    pub(super) deadline: Duration,
    /// `None` leaves nothing to the next master.
    pub(super) handover: Option<Arc<Handover>>,
    pub(super) threads: Threads,
    /// All of it, for who follows it.
    pub(super) phase: Phase,
    /// What the process ends with, also at its deadline.
    pub(super) status: i32,
}

/// Leaves in order; another signal on the way ends the process at once with status 1, and without a
/// snapshot. A missed deadline is no failure of the exit: the status is the same, and what became of
/// the snapshot is in the log and in the directory.
pub(super) async fn leave(leaving: Leaving, mut signals: Signals) -> ! {
    let times = Times::new(&leaving);
    let dropped_before = shards_dropped();
    tokio::select! {
        () = drain(&leaving, &times) => {}
        () = signals.told_again(times.started) => {
            tracing::warn!("a second signal: ended in the middle of leaving");
            end(1);
        }
    }
    drop(leaving.phase);
    telemetry::flush_unless_slow(LAST_SPANS_TIME).await;
    logging::tell_left_out();
    tracing::info!(
        handoff_shutdown = "left",
        shards_dropped = shards_dropped() - dropped_before,
        duration_ms = times.elapsed_ms(),
        "left"
    );
    end(leaving.status);
}

async fn drain(leaving: &Leaving, times: &Times) {
    stop_serving(leaving, times).await;
    let outcome = match rest(leaving, times).await {
        Ok(()) => {
            // Nothing changes any more, so the slowest peer and the disk don't wait for each other.
            let (written, ()) =
                tokio::join!(write(leaving, times), answer_the_rest(leaving, times));
            written
        }
        Err(failure) => Err(failure),
    };
    // What was written just before the signal is not waited for by anybody else.
    let farewell = leaving.phase.within("farewell");
    let left = LAST_REPLIES_TIME.saturating_sub(times.started.elapsed());
    if let Some(listener) = &leaving.listener {
        listener.flush(left).await;
        listener.close(FAREWELL_TIME).await;
    }
    drop(farewell);
    let Some(handover) = &leaving.handover else { return };
    let outcome = match outcome {
        Ok(Some(written)) => {
            let mut phase = leaving.phase.within("publish");
            let published = publish(handover, written, times).await;
            note_failure(&mut phase, &published);
            times.is_published.store(published.is_ok(), Ordering::Relaxed);
            published
        }
        Ok(None) => return,
        Err(failure) => Err(failure),
    };
    tell(&outcome, times);
    let note = handover.note(&leaving.context.core, &outcome, times.started.elapsed());
    // What is late already still has as long as the words about that.
    let until = times.end.max(Instant::now() + OVERDUE_WORDS_TIME);
    if timeout_at(until.into(), handover.record(note)).await.is_err() {
        tracing::error!(handoff_write = "record_failed", "no time to say how the master left");
    }
}

async fn stop_serving(leaving: &Leaving, times: &Times) {
    let Leaving { context, listener, handover, .. } = leaving;
    let mut phase = leaving.phase.within("stop serving");
    phase.note("mooring.in_flight", context.stage.in_flight());
    context.stage.begin_drain();
    tracing::info!(
        handoff_shutdown = "start",
        in_flight = context.stage.in_flight(),
        handoff = handover.is_some(),
        deadline_ms = leaving.deadline.as_millis() as u64,
        "leaving"
    );
    context.core.stop_judging();
    if let Some(listener) = listener {
        listener.stop_accepting();
    }
    if let Some(mooncake) = &leaving.mooncake {
        mooncake.stop_accepting();
    }
    if let Some(handover) = handover
        && timeout(FIRST_WORD_TIME, handover.begin_leaving()).await.is_err()
    {
        tracing::warn!("the handoff directory takes its time");
    }
    leaving.announced.withdraw(FIRST_WORD_TIME, &leaving.threads.standby).await;
    let _ = timeout_at((times.started + SETTLE_TIME).into(), context.stage.idle()).await;
    tracing::info!(
        handoff_shutdown = "serving_stopped",
        in_flight = context.stage.in_flight(),
        after_ms = times.elapsed_ms(),
        "nothing new is taken on"
    );
}

/// Brings the actors to rest. What still waits there is answered as restarting.
async fn rest(leaving: &Leaving, times: &Times) -> Result<(), ExportFailure> {
    let mut phase = leaving.phase.within("quiesce");
    let resting = leaving.context.core.quiesce(leaving.handover.is_some());
    let failure = match timeout_at(times.export.into(), resting).await {
        Ok(Ok(())) => {
            tracing::info!(
                handoff_shutdown = "quiesced",
                after_ms = times.elapsed_ms(),
                "no actor changes anything any more"
            );
            return Ok(());
        }
        Ok(Err(error)) => ExportFailure::new(Reason::WriteFailed, error.to_string()),
        Err(_) => late("the actors did not come to rest in time"),
    };
    phase.fail(failure.to_string());
    tracing::warn!(%failure, "the actors are not at rest");
    Err(failure)
}

async fn answer_the_rest(leaving: &Leaving, times: &Times) {
    let _phase = leaving.phase.within("answer");
    let stage = &leaving.context.stage;
    let until = times.export.checked_sub(GOODBYE_TIME).unwrap_or(times.started);
    let left = until.saturating_duration_since(Instant::now());
    if timeout(ANSWER_TIME.min(left), stage.idle()).await.is_err() {
        tracing::warn!(in_flight = stage.in_flight(), "requests are left unanswered");
    }
}

/// Writes the snapshot but for its name; `None` if there is to be none.
async fn write(leaving: &Leaving, times: &Times) -> Result<Option<Written>, ExportFailure> {
    let Some(handover) = &leaving.handover else { return Ok(None) };
    let writing = handover.write(&leaving.context.core, times.export);
    let mut phase = leaving.phase.within("export");
    let written = timeout_at(times.export.into(), writing).await;
    let written = written.unwrap_or_else(|_| Err(late("the snapshot was not written in time")));
    note_failure(&mut phase, &written);
    let written = written?;
    tracing::info!(
        handoff_shutdown = "exported",
        after_ms = times.elapsed_ms(),
        "the snapshot is written"
    );
    Ok(Some(written))
}

async fn publish(
    handover: &Handover,
    written: Written,
    times: &Times,
) -> Result<Published, ExportFailure> {
    let published = timeout_at(times.export.into(), handover.publish(written)).await;
    published.unwrap_or_else(|_| Err(late("the snapshot was not published in time")))
}

fn tell(outcome: &Result<Published, ExportFailure>, times: &Times) {
    let after_ms = times.elapsed_ms();
    match outcome {
        Ok(published) => {
            let Published { bytes, objects } = published;
            tracing::info!(handoff_write = "ok", bytes, objects, "the snapshot is published");
            tracing::info!(handoff_shutdown = "ready", after_ms, "the next master may take over");
        }
        Err(failure) => {
            let (reason, detail) = (failure.cause.reason.name(), &failure.cause.detail);
            tracing::warn!(handoff_write = reason, detail, "no snapshot is left");
            tracing::warn!(handoff_shutdown = reason, after_ms, "the next master begins empty");
        }
    }
}

fn note_failure<T>(phase: &mut Phase, outcome: &Result<T, ExportFailure>) {
    if let Err(failure) = outcome {
        phase.fail(failure.to_string());
    }
}

fn late(detail: &str) -> ExportFailure {
    ExportFailure::new(Reason::Deadline, detail)
}

/// When what must be over.
struct Times {
    started: Instant,
    /// The snapshot.
    export: Instant,
    /// Everything.
    end: Instant,
    /// Whether the snapshot has its name.
    is_published: Arc<AtomicBool>,
}

impl Times {
    /// Begins now. Whatever hangs from here on, the process ends by its deadline.
    fn new(leaving: &Leaving) -> Times {
        let started = Instant::now();
        let (deadline, status) = (leaving.deadline, leaving.status);
        let is_published = Arc::new(AtomicBool::new(false));
        let (handover, published) = (leaving.handover.clone(), is_published.clone());
        let standby = leaving.threads.standby.clone();
        leaving.threads.watch.take(move || {
            std::thread::sleep(deadline);
            say_overdue(deadline, handover, published, &standby);
            end(status);
        });
        let last_words = (deadline / 5).min(LAST_WORDS_TIME);
        let export = match &leaving.handover {
            Some(handover) => handover.options.export_deadline.min(deadline - last_words),
            None => (deadline - last_words).min(REST_TIME),
        };
        Times { started, export: started + export, end: started + deadline, is_published }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Says that time is over, and what that costs, to people and to the next master. It waits a moment at
/// the most: the disk may be what hangs.
fn say_overdue(
    deadline: Duration,
    handover: Option<Arc<Handover>>,
    is_published: Arc<AtomicBool>,
    standby: &Standby,
) {
    let deadline_ms = deadline.as_millis() as u64;
    let Some(handover) = handover.filter(|_| !is_published.load(Ordering::Relaxed)) else {
        return tracing::warn!(deadline_ms, "the time to leave is over");
    };
    tracing::warn!(
        handoff_shutdown = "deadline",
        deadline_ms,
        "the time to leave is over and no snapshot is left: the next master begins empty"
    );
    let (done, said) = std::sync::mpsc::channel();
    standby.run(move || {
        handover.record_overdue();
        // Whoever waited may be gone.
        let _ = done.send(());
    });
    let _ = said.recv_timeout(OVERDUE_WORDS_TIME);
}

/// Ends the process without running destructors: dropping the actors would take the longer the more
/// objects there are, and the system takes the memory back anyway.
pub(super) fn end(code: i32) -> ! {
    logging::flush();
    // SAFETY: `_exit` takes any status and touches no memory of the process.
    unsafe { libc::_exit(code) }
}

/// For the note that the master leaves, and for what told that it serves to go: a disk that hangs must
/// not keep those who wait for answers, nor cost the snapshot.
const FIRST_WORD_TIME: Duration = Duration::from_secs(1);

/// What does not wait for anything is answered by then. What waits for space is answered when the
/// actors come to rest.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Longer than any answer takes on its way to a peer that reads.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Without a handoff the actors come to rest only so that what waits is answered.
const REST_TIME: Duration = Duration::from_secs(3);

/// For everything between the last answer and the name of the snapshot: a peer that hangs must not
/// cost it.
const GOODBYE_TIME: Duration = Duration::from_millis(400);

/// For replies that were written before the signal to leave the machine: a close discards what is not
/// sent.
const LAST_REPLIES_TIME: Duration = Duration::from_millis(20);

/// For peers to hear of it: as long as all but far ones need, and no longer for one that is gone.
const FAREWELL_TIME: Duration = Duration::from_millis(100);

/// Many times what a log and a disk take that work.
const OVERDUE_WORDS_TIME: Duration = Duration::from_millis(100);

/// For the last spans, to a collector that has taken the ones before: one that is near answers within
/// milliseconds.
const LAST_SPANS_TIME: Duration = Duration::from_millis(100);

/// For the note about a deadline that was missed.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);
