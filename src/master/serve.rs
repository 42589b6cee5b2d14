//! The life of a serving master.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooring_actors::core::Core;
use mooring_proto::ClientId;
use quinn::crypto::HmacKey;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::timeout;

use super::announce::{Announced, announce};
use super::export::Handover;
use super::leave::{self, Leaving, end};
use super::options::MasterOptions;
use super::ports::{self, Bound, Open, Quic, Reread, cannot_serve};
use super::renewing;
use super::settle;
use super::signals::Signals;
use super::standby::{Panicked, Standby};
use super::start::{self, Begun};
use super::supervisor::Supervisor;
use super::turning_back::TurningBack;
use super::{Opened, Threads};
use crate::admin::{self, Admin, Family};
use crate::command::CommandError;
use crate::descriptors::Shares;
use crate::frontend::Context;
use crate::frontend::quic::{self, reset_key};
use crate::handoff::{GivenBack, HandoffDirectory};
use crate::telemetry::{self, Phase};

/// Serves until a signal asks to leave, and leaves. What serves runs on a runtime of its own.
pub(super) async fn serve(
    options: MasterOptions,
    opened: Opened,
    serving_runtime: Handle,
    threads: Threads,
) -> Result<ExitCode, CommandError> {
    let mut signals =
        Signals::new().map_err(|error| CommandError::failed("cannot hear signals", error))?;
    let Opened { quic: opened, admin: admin_socket, mooncake, metadata } = opened;
    ports::warn_of_buffers(opened.as_ref());
    let metrics = admin_socket.local_addr().map_err(|error| cannot_serve(&error))?;
    let starting = Arc::new(telemetry::phase("start"));
    let admin = Admin::new();
    let shares = Shares::of_process();
    admin::start(admin_socket, admin.clone(), shares.pages)
        .map_err(|error| cannot_serve(&error))?;

    let supervisor = Arc::new(Supervisor::from_environment());
    let rpc = opened.as_ref().map(|opened| &opened.rpc);
    let (begun, was_told) =
        begin(&options, &admin, rpc, &supervisor, &mut signals, &starting, &threads).await?;
    let Begun { config, seed, state, directory } = begun;
    warn_of_options(&options);
    let opening = starting.within("open ports");
    let probe_client = ClientId(rand::random());
    let is_restored = state.is_some();
    let reset_key = match options.state_dir.clone() {
        Some(kept) => reset_key_in_time(&threads.standby, move || reset_key::kept(&kept)).await,
        None => None,
    };
    // What is started from here on runs where it is served.
    let inside = serving_runtime.enter();
    let core = match state {
        Some(state) => Core::start_restored(config, state),
        None => Core::start(config),
    };
    let context = Arc::new(Context::new(core, probe_client, options.slow));
    let mut open = Open::default();
    let bound = Bound { quic: opened, reset_key, mooncake, metadata, metrics };
    let ports = open.serve(bound, &context, probe_client, &options, &shares);
    if let Ok(ports) = &ports {
        let probe = open.listener().zip(open.probe.take());
        admin.serve(context.clone(), probe, ports.mooncake);
    }
    drop(inside);
    drop(opening);
    let announced = match ports {
        Ok(ports) => announce(&options, open.quic.as_ref().map(Quic::fingerprint), ports),
        // Its directory says that it serves, so the next start has what this one hands over.
        Err(error) => {
            tracing::error!(%error, "the master leaves again, and hands the index over as ever");
            let status = error.exit_code().into();
            let announced = Announced::default();
            let serving =
                Serving { context, open, announced, directory, seed, options, threads, status };
            serving.leave(signals).await
        }
    };
    if is_restored {
        let settling = starting.within("settle");
        tokio::spawn(settle::tell_when_settled(context.clone(), settling));
    }
    drop(starting);
    report_regularly(&admin, &options);
    supervisor.ready();
    tokio::spawn(supervisor.clone().prove_life(context.clone()));
    if !was_told {
        reload_until_told(&mut open, &mut signals, &threads.standby).await;
    }
    supervisor.leaving();
    let serving =
        Serving { context, open, announced, directory, seed, options, threads, status: 0 };
    serving.leave(signals).await
}

/// The key of stateless resets. Behind the claim nobody waits long for a disk: without its answer in time
/// this process has a key of its own.
async fn reset_key_in_time(
    standby: &Standby,
    load: impl FnOnce() -> Option<Arc<dyn HmacKey>> + Send + 'static,
) -> Option<Arc<dyn HmacKey>> {
    let Ok(loaded) = timeout(RESET_KEY_TIME, standby.beside(load)).await else {
        tracing::warn!(
            "the disk of the key of stateless resets hangs; peers will notice the next restart late"
        );
        return None;
    };
    loaded.ok().flatten()
}

/// Reads the certificates again as often as that is asked for, until the master is told to leave. Their
/// disk may hang, and signals are heard all the same.
async fn reload_until_told(open: &mut Open, signals: &mut Signals, standby: &Standby) {
    let read = |open: &Open| {
        let reader = open.quic.as_ref()?.reader();
        let standby = standby.clone();
        let reading = async move { standby.beside(reader).await };
        Some(Box::pin(reading))
    };
    let renew = |open: &mut Open, read: Result<Reread, Panicked>| match (&mut open.quic, read) {
        (Some(quic), Ok(read)) => quic.renew(read),
        (_, Err(error)) => tracing::error!(%error, "cannot reload the certificates"),
        (None, Ok(_)) => {}
    };
    renewing::until_told(open, async || signals.next().await, read, renew).await;
}

/// Says what fits together and is of less use than it may seem.
fn warn_of_options(options: &MasterOptions) {
    if options.handoff.is_some() && options.is_development() {
        tracing::info!(
            "--dev makes another certificate: only clients of this user here can come back"
        );
    }
    if options.releases_early() {
        tracing::warn!(
            "--put-start-release-timeout-sec is less than 40 s above --put-start-discard-timeout-sec: \
             a slow write may still run when its range is given to another object"
        );
    }
}

/// What serves.
struct Serving {
    context: Arc<Context>,
    open: Open,
    announced: Announced,
    directory: Option<HandoffDirectory>,
    seed: u64,
    options: MasterOptions,
    threads: Threads,
    /// What the process ends with.
    status: i32,
}

impl Serving {
    async fn leave(self, signals: Signals) -> ! {
        let Serving { context, open, announced, directory, seed, options, threads, status } = self;
        let phase = telemetry::phase("leave");
        telemetry::begin_leaving();
        let handover = directory.zip(options.handoff).map(|(directory, options)| {
            let standby = threads.standby.clone();
            Arc::new(Handover { directory, options, seed, standby })
        });
        let leaving = Leaving {
            context,
            listener: open.listener(),
            mooncake: open.mooncake,
            announced,
            deadline: options.shutdown_deadline,
            handover,
            threads,
            phase,
            status,
        };
        leave::leave(leaving, signals).await
    }
}

/// Tells how the master does, to the log and to a collector, as it is asked to.
fn report_regularly(admin: &Arc<Admin>, options: &MasterOptions) {
    if let Some(interval) = options.summary_log_interval {
        admin::log_summary(admin.clone(), interval);
    }
    if let Some(interval) = options.metrics_interval {
        send_figures(admin, interval);
    }
}

/// Has the figures of the metrics page sent, if there is somewhere to send them to.
fn send_figures(admin: &Arc<Admin>, interval: Duration) {
    let admin = admin.clone();
    let source = move || -> Pin<Box<dyn Future<Output = Vec<Family>> + Send>> {
        let admin = admin.clone();
        Box::pin(async move { admin.families().await })
    };
    telemetry::send_figures(Box::new(source), interval);
}

/// Begins, which may take as long as another master leaves or an operator does not come; also gives
/// whether a signal to leave came too late for anything but to leave as a master that serves. One
/// that comes in time ends the process, and the directory is as this start has found it.
async fn begin(
    options: &MasterOptions,
    admin: &Arc<Admin>,
    rpc: Option<&UdpSocket>,
    supervisor: &Supervisor,
    signals: &mut Signals,
    phase: &Arc<Phase>,
    threads: &Threads,
) -> Result<(Begun, bool), CommandError> {
    let turning_back = Arc::new(TurningBack::default());
    let (owned, shown, watched, phase) =
        (options.clone(), admin.clone(), turning_back.clone(), phase.clone());
    let (done, mut begun) = oneshot::channel();
    let start = move || {
        // It is waited for until the process ends.
        let _ = done.send(start::begin(&owned, &shown, &watched, &phase));
    };
    // Not on the thread that stands by, which has to be free for turning back.
    Builder::new()
        .name("start".to_owned())
        .spawn(start)
        .map_err(|error| CommandError::failed("cannot start a thread", error))?;
    let ended = |begun: Result<_, RecvError>| match begun {
        Ok(begun) => begun,
        Err(_) => Err(CommandError::failed("cannot start", "the thread that starts has panicked")),
    };
    let keep_fresh = async {
        let mut ticks = tokio::time::interval(DISCARD_EVERY);
        let mut told = String::new();
        loop {
            ticks.tick().await;
            let status = admin.why_not_ready();
            if status != told {
                supervisor.status(&status);
                told = status;
            }
            if let Some(rpc) = rpc {
                quic::discard_waiting(rpc);
            }
        }
    };
    tokio::select! {
        begun = &mut begun => return Ok((ended(begun)?, false)),
        () = signals.told_to_leave() => {}
        () = keep_fresh => unreachable!("it never ends"),
    }
    let told = Instant::now();
    tokio::select! {
        () = turn_back(turning_back, &threads.standby) => {}
        () = signals.told_again(told) => {
            tracing::warn!("a second signal: ended in the middle of leaving");
            end(1);
        }
        () = tokio::time::sleep(options.shutdown_deadline) => {
            // The disk hangs. Whatever it makes of it, this process never serves.
            tracing::warn!(handoff_shutdown = "skipped_processing", "no time to give anything back");
            end(0);
        }
    }
    Ok((ended(begun.await)?, true))
}

/// Ends the process as a start that did not come to serve; returns if it serves already, by what its
/// directory says.
async fn turn_back(turning_back: Arc<TurningBack>, standby: &Standby) {
    let outcome = standby.beside(move || turning_back.turn_back()).await;
    if let Some(error) = match &outcome {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    } {
        tracing::warn!(error, "the next start may begin empty");
    }
    let Some(snapshot) = word_of(outcome.ok().and_then(Result::ok)) else { return };
    tracing::info!(
        handoff_shutdown = "skipped_processing",
        snapshot,
        "told to leave before it served"
    );
    end(0);
}

/// What became of the snapshot, if it is known, when the start ends here; no word if it serves.
fn word_of(outcome: Option<GivenBack>) -> Option<&'static str> {
    match outcome {
        Some(GivenBack::Serving) => None,
        Some(GivenBack::Untouched) => Some("untouched"),
        Some(GivenBack::Snapshot) => Some("given_back"),
        Some(GivenBack::Lost) | None => Some("lost"),
    }
}

/// Many times what a disk takes that works; peers that do not hear of a restart by the key wait longer.
const RESET_KEY_TIME: Duration = Duration::from_secs(1);

/// A client that waits for the first answer of a master sends again about as soon.
const DISCARD_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_costs_the_key_of_resets_and_not_the_start() {
        let standby = Standby::start().unwrap();
        let (wake, hangs) = mpsc::channel::<()>();
        let load = move || {
            let _ = hangs.recv();
            None
        };
        assert!(reset_key_in_time(&standby, load).await.is_none());
        drop(wake);
    }

    #[test]
    fn only_what_nobody_has_claimed_is_called_untouched() {
        assert_eq!(word_of(Some(GivenBack::Untouched)), Some("untouched"));
        assert_eq!(word_of(Some(GivenBack::Snapshot)), Some("given_back"));
        assert_eq!(word_of(Some(GivenBack::Lost)), Some("lost"));
        assert_eq!(word_of(None), Some("lost"));
        assert_eq!(word_of(Some(GivenBack::Serving)), None);
    }
}
