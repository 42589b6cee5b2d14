//! The threads that send the requests, apart from whoever watches them.

use std::sync::Arc;
use std::time::Duration;

use mooring_proto::mooncake::Uuid;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::lane::Lane;
use super::mooncake::MooncakeWire;
use super::quic::{QuicDialer, QuicWire};
use super::schedule::Window;
use super::tally::Tally;
use super::wire::{Wire, WireFault};
use super::worker::Worker;
use crate::command::CommandError;
use crate::command::table::printable;

/// How workers reach the master.
#[derive(Clone, Debug)]
pub(super) enum Dialer {
    Quic(QuicDialer),
    /// The address, and who mounted the segments.
    Mooncake(String, Uuid),
}

/// The sizes of what is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: u64,
}

/// Threads whose workers are connected and wait for the start.
#[derive(Debug)]
pub(super) struct Generator {
    start: watch::Sender<Option<Window>>,
    outcomes: Vec<oneshot::Receiver<Result<Tally, CommandError>>>,
}

impl Generator {
    /// Starts so many threads, spreads the connections of all lanes over them, and waits until
    /// they stand.
    ///
    /// # Errors
    /// What the first connection that fails is refused with.
    pub(super) async fn connect(
        dialer: &Dialer,
        sizes: Sizes,
        lanes: &[Arc<Lane>],
        threads: u32,
    ) -> Result<Generator, CommandError> {
        let (start, begun) = watch::channel(None);
        let seats = lanes.iter().flat_map(|lane| {
            std::iter::repeat_n(lane, lane.plan.connections as usize).map(Arc::clone)
        });
        let mut shares = vec![Vec::new(); threads as usize];
        seats.enumerate().for_each(|(index, lane)| shares[index % threads as usize].push(lane));
        let (mut outcomes, mut connected) = (Vec::new(), Vec::new());
        for share in shares.into_iter().filter(|share| !share.is_empty()) {
            let (ready, is_ready) = oneshot::channel();
            let (end, outcome) = oneshot::channel();
            let (dialer, begun) = (dialer.clone(), begun.clone());
            std::thread::Builder::new()
                .name("bench-load".to_owned())
                .spawn(move || thread(&dialer, sizes, share, ready, begun, end))
                .map_err(|error| CommandError::failed("cannot start a thread", error))?;
            connected.push(is_ready);
            outcomes.push(outcome);
        }
        for is_ready in connected {
            is_ready.await.unwrap_or_else(|_| Err(thread_ended()))?;
        }
        Ok(Generator { start, outcomes })
    }

    /// Lets all workers begin, and waits for their figures.
    ///
    /// # Errors
    /// If a connection was lost: then the figures say nothing.
    pub(super) async fn run(self, window: Window) -> Result<Tally, CommandError> {
        self.start.send_replace(Some(window));
        let mut total = Tally::default();
        for outcome in self.outcomes {
            total.add(outcome.await.unwrap_or_else(|_| Err(thread_ended()))?);
        }
        Ok(total)
    }
}

fn thread_ended() -> CommandError {
    CommandError::Failed("a thread of the generator ended".to_owned())
}

/// What a thread does from its start to its end.
fn thread(
    dialer: &Dialer,
    sizes: Sizes,
    share: Vec<Arc<Lane>>,
    ready: oneshot::Sender<Result<(), CommandError>>,
    begun: watch::Receiver<Option<Window>>,
    end: oneshot::Sender<Result<Tally, CommandError>>,
) {
    // One thread is one runtime: nothing wakes up on another core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Whoever watches may be gone, so nobody may take what is sent.
    match runtime {
        Ok(runtime) => {
            let _ = end.send(runtime.block_on(work(dialer, sizes, share, ready, begun)));
            runtime.block_on(async { tokio::time::sleep(FAREWELL).await });
        }
        Err(error) => {
            let _ = end.send(Err(CommandError::failed("cannot start a runtime", error)));
        }
    }
}

async fn work(
    dialer: &Dialer,
    sizes: Sizes,
    share: Vec<Arc<Lane>>,
    ready: oneshot::Sender<Result<(), CommandError>>,
    mut begun: watch::Receiver<Option<Window>>,
) -> Result<Tally, CommandError> {
    let mut workers = Vec::new();
    let mut connected = Ok(());
    for lane in share {
        match seat(dialer, sizes, &lane).await {
            Ok(more) => workers.extend(more),
            Err(error) => {
                connected = Err(error);
                break;
            }
        }
    }
    // Whoever watches may be gone.
    let _ = ready.send(connected);
    let window = begun.wait_for(Option::is_some).await.ok().and_then(|window| *window);
    let Some(window) = window else { return Ok(Tally::default()) };
    tokio::time::sleep_until(window.begin.into()).await;
    let mut running = JoinSet::new();
    for worker in workers {
        running.spawn(worker.run(window));
    }
    let mut total = Tally::default();
    while let Some(outcome) = running.join_next().await {
        match outcome {
            Ok(Ok(tally)) => total.add(tally),
            Ok(Err(fault)) => return Err(lost(&fault)),
            Err(error) => return Err(CommandError::failed("a worker ended", error)),
        }
    }
    Ok(total)
}

fn lost(fault: &WireFault) -> CommandError {
    // The text may be that of a peer.
    CommandError::failed("the connection to the master is lost", printable(fault.text()))
}

/// One connection of a lane with all of its workers.
async fn seat(
    dialer: &Dialer,
    sizes: Sizes,
    lane: &Arc<Lane>,
) -> Result<Vec<Worker>, CommandError> {
    let mut workers = Vec::new();
    match dialer {
        Dialer::Quic(dialer) => {
            let connection = dialer.dial().await?;
            for _ in 0..lane.plan.in_flight {
                let wire = Wire::Quic(QuicWire::new(connection.clone(), sizes.value_bytes));
                workers.push(Worker::new(lane.clone(), wire, sizes.key_bytes));
            }
        }
        Dialer::Mooncake(target, client) => {
            for _ in 0..lane.plan.in_flight {
                let wire = MooncakeWire::connect(target, *client, sizes.value_bytes).await?;
                let wire = Wire::Mooncake(wire);
                workers.push(Worker::new(lane.clone(), wire, sizes.key_bytes));
            }
        }
    }
    Ok(workers)
}

/// So that the master is told that the connections close, and does not wait for them.
const FAREWELL: Duration = Duration::from_millis(20);
