//! `mooring bench run`: fills a master, loads it for a while, and tells what it did.

use std::convert::Infallible;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::ProgressFinish;
use tokio::signal::unix::{SignalKind, signal};

use super::args::{Operation, Preset, RunArgs};
use super::compare;
use super::generator::{Dialer, Generator, Sizes};
use super::lane::Lane;
use super::owner::Owner;
use super::plan::{LanePlan, Plan};
use super::process::Usage;
use super::report::{self, Measured};
use super::schedule::Window;
use super::sizes;
use crate::command::{self, CommandError, progress};
use crate::output;

/// Measures and prints the figures.
///
/// # Errors
/// Flags that do not fit together, a master that refuses or is lost, and one that answered no key.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    let plan = Plan::new(args).map_err(CommandError::Arguments)?;
    if let Some(pid) = args.master_pid {
        Usage::of(pid)
            .map_err(|error| CommandError::Arguments(format!("--master-pid {pid}: {error}")))?;
    }
    if args.preset == Some(Preset::Published) {
        output::note(PUBLISHED_HINT);
    }
    if !args.compare.is_empty() {
        return compare::run(args, &plan);
    }
    let measured = command::block_on(mounted(args, &plan, Duration::ZERO))?;
    report::print(args, &plan, &measured)?;
    if measured.tally.total().keys() == 0 {
        return Err(CommandError::Failed(NOTHING_ANSWERED.to_owned()));
    }
    Ok(ExitCode::SUCCESS)
}

/// One run on one master, which may begin to serve only within `patience`. However the run ends,
/// nothing of it stays mounted.
///
/// # Errors
/// A master that refuses or is lost.
pub(super) async fn mounted(
    args: &RunArgs,
    plan: &Plan,
    patience: Duration,
) -> Result<Measured, CommandError> {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| CommandError::failed("cannot listen to signals", error))?;
    let until = Instant::now() + patience;
    let mut owner = loop {
        match Owner::connect(args, plan).await {
            Ok(owner) => break owner,
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
        }
    };
    let outcome = tokio::select! {
        outcome = fill_and_measure(args, plan, &mut owner) => outcome,
        _ = tokio::signal::ctrl_c() => Err(CommandError::Failed("interrupted".to_owned())),
        _ = terminate.recv() => Err(CommandError::Failed("terminated".to_owned())),
    };
    let left = "segments stay mounted until the master misses this process";
    match tokio::time::timeout(UNMOUNT_TIMEOUT, owner.unmount()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => output::note(format_args!("{left}: {error}")),
        Err(_) => output::note(format_args!("{left}: no answer in time")),
    }
    outcome
}

async fn fill_and_measure(
    args: &RunArgs,
    plan: &Plan,
    owner: &mut Owner,
) -> Result<Measured, CommandError> {
    owner.mount().await?;
    let dialer = owner.dialer(args)?;
    let measured = {
        let work = async {
            if plan.fill > 0 {
                fill(args, plan, &dialer).await?;
            }
            measure(args, plan, &plan.lanes, &dialer).await
        };
        tokio::select! {
            outcome = work => outcome?,
            lost = owner.keep_alive() => return Err(lost),
        }
    };
    let told = owner.ask(args.metrics.as_deref()).await;
    Ok(Measured { told, ..measured })
}

/// Puts the keys that the measurement works on.
async fn fill(args: &RunArgs, plan: &Plan, dialer: &Dialer) -> Result<(), CommandError> {
    let batch_max = u32::try_from(sizes::batch_max(args.key_bytes)).unwrap_or(FILL_BATCH);
    let lane = LanePlan {
        operation: Operation::Fill,
        batch: FILL_BATCH.min(batch_max),
        connections: 1,
        in_flight: FILL_IN_FLIGHT,
        rate: None,
    };
    let filled = measure(args, plan, &[lane], dialer).await?.tally.total();
    if filled.answers.done < plan.fill {
        return Err(CommandError::Failed(format!(
            "the master took {} of {} keys before the measurement; give fewer --keys or more \
             --segments",
            filled.answers.done, plan.fill
        )));
    }
    Ok(())
}

/// Sends the requests of all lanes at once.
async fn measure(
    args: &RunArgs,
    plan: &Plan,
    lane_plans: &[LanePlan],
    dialer: &Dialer,
) -> Result<Measured, CommandError> {
    let lanes: Vec<Arc<Lane>> =
        lane_plans.iter().map(|lane| Arc::new(Lane::new(args, plan, lane))).collect();
    let sizes = Sizes { key_bytes: args.key_bytes, value_bytes: args.value_bytes.0 };
    let generator = Generator::connect(dialer, sizes, &lanes, args.threads).await?;
    let window = window(args, lane_plans);
    let sampled = sampled(generator, window, args.master_pid);
    let filling = lane_plans.iter().all(|lane| lane.operation == Operation::Fill);
    let total = filling.then_some(plan.keys);
    tokio::select! {
        outcome = sampled => outcome,
        never = show(&lanes, window, total) => match never {},
    }
}

/// From when to when: a lane that ends by itself has no time to warm up, and a fill has all the
/// time that it takes.
fn window(args: &RunArgs, lanes: &[LanePlan]) -> Window {
    let begin = Instant::now() + START_IN;
    let ends = lanes.iter().all(LanePlan::ends);
    let filling = lanes.iter().all(|lane| lane.operation == Operation::Fill);
    let counted = if ends { begin } else { begin + args.warm_up };
    let end = counted + if filling { UNLIMITED } else { args.duration };
    Window { begin, counted, end }
}

/// Runs the load, and takes what the processes have used at both ends of the window.
async fn sampled(
    generator: Generator,
    window: Window,
    master_pid: Option<u32>,
) -> Result<Measured, CommandError> {
    let mut work = pin!(generator.run(window));
    let mut finished = None;
    tokio::select! {
        outcome = &mut work => finished = Some(outcome),
        () = tokio::time::sleep_until(window.counted.into()) => {}
    }
    let (from, before) = (Instant::now(), Sample::take(master_pid));
    if finished.is_none() {
        tokio::select! {
            outcome = &mut work => finished = Some(outcome),
            () = tokio::time::sleep_until(window.end.into()) => {}
        }
    }
    let (elapsed, after) = (from.elapsed(), Sample::take(master_pid));
    let tally = match finished {
        Some(outcome) => outcome?,
        None => work.await?,
    };
    let spent =
        |before: Option<Usage>, after: Option<Usage>| Some(after?.cpu.saturating_sub(before?.cpu));
    Ok(Measured {
        tally,
        elapsed,
        master_cpu: spent(before.master, after.master),
        own_cpu: spent(before.own, after.own),
        resident_bytes: after.master.map(|usage| usage.resident_bytes),
        told: super::owner::Told::default(),
    })
}

/// What both ends have used at one moment.
struct Sample {
    master: Option<Usage>,
    own: Option<Usage>,
}

impl Sample {
    fn take(master_pid: Option<u32>) -> Sample {
        let master = master_pid.and_then(|pid| Usage::of(pid).ok());
        Sample { master, own: Usage::own().ok() }
    }
}

/// Shows how far it is, on a terminal.
async fn show(lanes: &[Arc<Lane>], window: Window, total: Option<u64>) -> Infallible {
    let answered =
        || -> u64 { lanes.iter().map(|lane| lane.progress.load(Ordering::Relaxed)).sum() };
    let bar = match total {
        Some(keys) => progress::count_bar(keys, "filling"),
        None => progress::status_line(),
    };
    let bar = bar.with_finish(ProgressFinish::AndClear);
    let mut tick = tokio::time::interval(TICK);
    let (mut former, mut then) = (0, Instant::now());
    loop {
        tick.tick().await;
        let keys = answered();
        if total.is_some() {
            bar.set_position(keys);
            continue;
        }
        let now = Instant::now();
        let rate = (keys - former) as f64 / now.duration_since(then).as_secs_f64().max(1e-3);
        let phase = if now < window.counted { "warming up" } else { "measuring" };
        let left = window.end.saturating_duration_since(now).as_secs();
        bar.set_message(format!("{phase}: {rate:.0} keys/s, {left} s left"));
        (former, then) = (keys, now);
    }
}

/// After the connections stand, so that all threads begin at once.
const START_IN: Duration = Duration::from_millis(20);

/// Longer than any fill takes.
const UNLIMITED: Duration = Duration::from_secs(365 * 86_400);

/// Between two looks whether a master that was started serves.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Large batches fill fast.
const FILL_BATCH: u32 = 1_024;
const FILL_IN_FLIGHT: u32 = 4;

/// Longer than the unmount of as many segments as there can be takes.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(10);

const TICK: Duration = Duration::from_millis(500);

const NOTHING_ANSWERED: &str = "no key was answered while it was measured";

const PUBLISHED_HINT: &str = "the published figures are of a master that evicts above 0.8 and then \
                              0.2 of it: start it with --eviction-high-watermark-ratio 0.8 \
                              --eviction-ratio 0.2";
