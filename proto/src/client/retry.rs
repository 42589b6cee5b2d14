//! Deadlines and back-off.

use std::future::Future;
use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

use super::error::{ClientError, RetryHint};
use super::random::source;

/// The moment until which a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after_ms(milliseconds: u64) -> Deadline {
        Deadline::after(Instant::now(), milliseconds)
    }

    /// So many milliseconds after a moment.
    pub(super) fn after(moment: Instant, milliseconds: u64) -> Deadline {
        let longest = moment + Duration::from_millis(DEADLINE_MS_MAX);
        Deadline(moment.checked_add(Duration::from_millis(milliseconds)).unwrap_or(longest))
    }

    /// The sooner of both.
    pub(super) fn or_sooner(self, other: Deadline) -> Deadline {
        Deadline(self.0.min(other.0))
    }

    pub(super) fn has_passed(self) -> bool {
        self.left().is_zero()
    }

    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// What is left, for the header of a request; at least 1, since 0 means no deadline there.
    pub(super) fn left_ms(self) -> u32 {
        u32::try_from(self.left().as_millis()).unwrap_or(u32::MAX).max(1)
    }

    /// The future's output, or a timeout that names what was waited for.
    pub(super) async fn bound<T>(
        self,
        what: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T, ClientError> {
        tokio::time::timeout_at(self.0, future).await.map_err(|_| ClientError::timeout(what))
    }

    /// Sleeps, unless the deadline would pass meanwhile: then it says so at once.
    pub(super) async fn sleep(self, pause: Duration) -> bool {
        let fits = pause < self.left();
        if fits {
            tokio::time::sleep(pause).await;
        }
        fits
    }
}

/// Pauses that double from one attempt to the next, each shortened at random so that many clients
/// do not come back in step.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// How long to pause before the next attempt.
    pub(super) fn pause(&mut self, hint: RetryHint) -> Duration {
        let doubled = FIRST_PAUSE_MS << self.attempts.min(PAUSE_DOUBLINGS_MAX);
        self.attempts = self.attempts.saturating_add(1);
        let range = match hint.after_ms {
            // A peer that knows when it can serve is not asked before, and not by all at once.
            Some(after_ms) => {
                let after_ms = u64::from(after_ms).min(HINT_MS_MAX);
                after_ms..=after_ms + (after_ms / 2).max(FIRST_PAUSE_MS)
            }
            None => {
                let pause_ms = doubled.min(LAST_PAUSE_MS);
                pause_ms / 2..=pause_ms
            }
        };
        Duration::from_millis(source().random_range(range))
    }

    /// Begins again with the shortest pause.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// A deadline that is too far away to be told as an instant: some decades.
const DEADLINE_MS_MAX: u64 = 1 << 40;

/// A lost packet is repaired in less; a process that restarts takes longer.
const FIRST_PAUSE_MS: u64 = 50;

/// Rarely enough to be no load, often enough to see a restarted master soon.
const LAST_PAUSE_MS: u64 = 2_000;

/// Keeps the doubling far from an overflow.
const PAUSE_DOUBLINGS_MAX: u32 = 10;

/// No hint makes a client sleep for longer than this.
const HINT_MS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HINT: RetryHint = RetryHint { after_ms: None };

    #[test]
    fn pauses_grow_from_50_ms_to_2_s_and_stay_there() {
        let mut backoff = Backoff::default();
        for expected_ms in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000] {
            let pause_ms = backoff.pause(NO_HINT).as_millis();
            assert!((expected_ms / 2..=expected_ms).contains(&pause_ms), "{pause_ms}");
        }
        backoff.reset();
        assert!(backoff.pause(NO_HINT).as_millis() <= 50);
    }

    #[test]
    fn a_hint_is_waited_out_and_spread() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> =
            (0..64).map(|_| backoff.pause(RetryHint { after_ms: Some(400) }).as_millis()).collect();
        assert!(pauses.iter().all(|pause_ms| (400..=600).contains(pause_ms)));
        assert!(pauses.iter().any(|pause_ms| *pause_ms != pauses[0]));
    }

    #[test]
    fn an_absurd_hint_is_bounded() {
        let pause = Backoff::default().pause(RetryHint { after_ms: Some(u32::MAX) });
        assert!(pause <= Duration::from_millis(15_000));
    }

    #[test]
    fn a_deadline_beyond_the_clock_is_a_deadline() {
        assert!(Deadline::after_ms(u64::MAX).left_ms() > 1_000);
    }
}
