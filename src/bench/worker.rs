//! Sends one request after the other, closed or open loop.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::lane::Lane;
use super::schedule::Window;
use super::tally::Tally;
use super::wire::{Keys, Wire, WireFault};

/// One of those who send the requests of a lane.
#[derive(Debug)]
pub(super) struct Worker {
    lane: Arc<Lane>,
    wire: Wire,
    random: SmallRng,
    keys: Keys,
    tally: Tally,
}

impl Worker {
    pub(super) fn new(lane: Arc<Lane>, wire: Wire, key_bytes: usize) -> Worker {
        Worker {
            lane,
            wire,
            random: SmallRng::from_os_rng(),
            keys: Keys::new(key_bytes),
            tally: Tally::default(),
        }
    }

    /// Works until the window ends or the lane has no more keys, and tells what came of it.
    ///
    /// # Errors
    /// If the connection is lost: then the figures say nothing.
    pub(super) async fn run(mut self, window: Window) -> Result<Tally, WireFault> {
        let lane = self.lane.clone();
        let mut timer = lane.schedule.as_ref().map(|_| Timer::new()).transpose()?;
        let mut owed = None;
        loop {
            let due = lane.schedule.as_ref().map(|schedule| schedule.take(window.begin));
            let now = Instant::now();
            if due.unwrap_or(now) >= window.end {
                return Ok(self.tally);
            }
            if now >= window.end {
                self.count_unsent(&lane, &window, due);
                continue;
            }
            let Some(call) = lane.next(&mut self.random, &mut owed, self.keys.restart()) else {
                return Ok(self.tally);
            };
            self.wire.prepare(call, &self.keys)?;
            if let (Some(due), Some(timer)) = (due, &mut timer) {
                timer.until(due).await?;
            }
            let sent = due.unwrap_or_else(Instant::now);
            let outcome = self.wire.perform(call, &self.keys).await;
            let answered = Instant::now();
            // In an open loop all count that were due in the window, however late the answer.
            let counts = window.counts(if due.is_some() { sent } else { answered });
            match outcome {
                Ok(answer) => {
                    lane.progress.fetch_add(self.keys.len() as u64, Ordering::Relaxed);
                    if counts {
                        self.tally.answered(call, answered - sent, &answer);
                    }
                }
                Err(WireFault::Refused(reason)) => {
                    if counts {
                        self.tally.failed(call, reason);
                    }
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(lost) => return Err(lost),
            }
        }
    }

    fn count_unsent(&mut self, lane: &Lane, window: &Window, due: Option<Instant>) {
        if let Some(due) = due.filter(|due| window.counts(*due)) {
            self.tally.unsent(lane.usual_call(), window.end - due);
        }
    }
}

/// Waits for a moment to some microseconds. The timer of the runtime counts in milliseconds, which
/// is more than the latencies that are to be measured.
#[derive(Debug)]
struct Timer(AsyncFd<std::os::fd::OwnedFd>);

impl Timer {
    fn new() -> Result<Timer, WireFault> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(WireFault::lost)?;
        // SAFETY: the descriptor is owned, and stays the same and open until both are dropped.
        unsafe { AsyncFd::register(timer) }.map(Timer).map_err(WireFault::lost)
    }

    async fn until(&mut self, due: Instant) -> Result<(), WireFault> {
        let wait = due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let setting = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(self.0.as_fd(), TimerfdTimerFlags::empty(), &setting)
            .map_err(WireFault::lost)?;
        loop {
            let mut ready = self.0.readable().await.map_err(WireFault::lost)?;
            let mut expired = [0; 8];
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer.as_fd(), &mut expired)?));
            // Otherwise it is not due yet, and what woke this up was something else.
            if let Ok(read) = read {
                return read.map(|_| ()).map_err(WireFault::lost);
            }
        }
    }
}

/// A master that refuses whole requests is not asked again in a hot loop.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
