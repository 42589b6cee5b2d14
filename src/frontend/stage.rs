//! Whether the process answers requests, and how many it is answering.

use super::sync::{AtomicUsize, Notify, Ordering};

/// Serving until the drain begins; then what is in flight is answered, and nothing new is taken on.
#[derive(Default)]
pub(crate) struct Stage {
    /// How many requests are in flight, and [`DRAINING`] once the drain has begun. In one word, so that
    /// a request is either counted before the drain or refused by it, in whatever order both look.
    word: AtomicUsize,
    idle: Notify,
}

impl Stage {
    /// Takes a request on; `None` once the drain has begun. The request is being answered until the
    /// value is dropped.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        let former = self.word.fetch_add(1, Ordering::AcqRel);
        let admitted = Admitted { stage: self };
        // One that is refused was counted for a moment, and is dropped as any other.
        if former & DRAINING == 0 { Some(admitted) } else { None }
    }

    /// Whether nothing new is taken on.
    pub(crate) fn is_draining(&self) -> bool {
        self.word.load(Ordering::Acquire) & DRAINING != 0
    }

    /// How many requests are being answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.word.load(Ordering::Acquire) & !DRAINING
    }

    /// From now on nothing new is taken on.
    pub(crate) fn begin_drain(&self) {
        self.word.fetch_or(DRAINING, Ordering::AcqRel);
    }

    /// Waits until no request is being answered.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Listening before looking, so that no last answer is missed.
            idle.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// A request that is being answered.
pub(crate) struct Admitted<'a> {
    stage: &'a Stage,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.stage.word.fetch_sub(1, Ordering::AcqRel) & !DRAINING == 1 {
            self.stage.idle.notify_waiters();
        }
    }
}

/// The highest bit of the word. No process has so many requests that the count comes near it.
const DRAINING: usize = 1 << (usize::BITS - 1);

// The atomics of models know no real threads.
#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_waits_for_what_is_in_flight_and_takes_nothing_new_on() {
        let stage = Stage::default();
        let admitted = stage.admit().unwrap();
        stage.begin_drain();
        assert!(stage.admit().is_none());
        assert_eq!(stage.in_flight(), 1);
        let mut idle = std::pin::pin!(stage.idle());
        let early = std::future::poll_fn(|context| {
            std::task::Poll::Ready(idle.as_mut().poll(context).is_ready())
        });
        assert!(!early.await, "one request is still being answered");
        drop(admitted);
        idle.await;
        assert_eq!(stage.in_flight(), 0);
    }

    /// Whatever way the threads take, a drain is over only when everybody who was taken on is done.
    #[test]
    fn nobody_is_taken_on_beside_a_drain_that_has_ended() {
        for _ in 0..200 {
            let (stage, answering) = (Stage::default(), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while let Some(admitted) = stage.admit() {
                            answering.fetch_add(1, Ordering::SeqCst);
                            answering.fetch_sub(1, Ordering::SeqCst);
                            drop(admitted);
                        }
                    });
                }
                scope.spawn(|| {
                    std::thread::yield_now();
                    stage.begin_drain();
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(stage.idle());
                    assert_eq!(answering.load(Ordering::SeqCst), 0);
                });
            });
            assert_eq!(stage.in_flight(), 0);
        }
    }
}
