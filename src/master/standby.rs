//! Threads for what may block, and one that stands by for when the system gives no more of them.
//!
//! A start claims its snapshot and a drain hands the index over on other threads than the one that
//! conducts, for a disk may hang. A system that refuses a thread then must cost neither of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use mooring_actors::beside::begin;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other, until the process ends.
#[derive(Clone, Debug)]
pub(super) struct Standing(Sender<Job>);

impl Standing {
    /// # Errors
    /// When the system refuses the thread: meant for before anything is claimed.
    pub(super) fn start(name: &str) -> io::Result<Standing> {
        let (give, jobs) = channel::<Job>();
        Builder::new().name(name.to_owned()).spawn(move || {
            for job in jobs {
                // The panic is told by its hook, and whoever waits hears of it.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
        Ok(Standing(give))
    }

    /// Has it do this next.
    pub(super) fn take(&self, job: impl FnOnce() + Send + 'static) {
        self.give(Box::new(job));
    }

    fn give(&self, job: Job) {
        // The thread ends only when nobody can give it anything any more.
        let _ = self.0.send(job);
    }
}

/// Does each job on a thread of its own; on one that stands by if the system refuses that.
#[derive(Clone, Debug)]
pub(super) struct Standby {
    standing: Standing,
    thread: fn() -> Builder,
}

impl Standby {
    /// # Errors
    /// When the system refuses the thread that stands by.
    pub(super) fn start() -> io::Result<Standby> {
        Standby::with(Builder::new)
    }

    /// With these threads beside the one that stands by.
    ///
    /// # Errors
    /// When the system refuses that one.
    pub(super) fn with(thread: fn() -> Builder) -> io::Result<Standby> {
        Ok(Standby { standing: Standing::start("standby")?, thread })
    }

    /// Begins a job.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(job);
        if let Err(refused) = begin((self.thread)().name("beside".to_owned()), job, |job| job()) {
            tracing::warn!(error = %refused.error, "no thread: one that stands by works instead");
            self.standing.give(refused.work);
        }
    }

    /// Does some work, and waits for it.
    ///
    /// # Errors
    /// When it panicked.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let (done, outcome) = oneshot::channel();
        self.run(move || {
            // Whoever waited may be out of time.
            let _ = done.send(work());
        });
        outcome.await.map_err(|_| Panicked)
    }
}

/// What ran beside has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread panicked")]
pub(super) struct Panicked;

#[cfg(test)]
mod tests {
    use mooring_actors::beside::refused_thread;

    use super::*;

    #[tokio::test]
    async fn work_is_done_whether_or_not_the_system_gives_a_thread_and_also_after_a_panic() {
        for thread in [Builder::new, refused_thread] {
            let standby = Standby::with(thread).unwrap();
            assert_eq!(standby.beside(|| 7).await, Ok(7));
            assert_eq!(standby.beside(|| -> u8 { panic!("on purpose") }).await, Err(Panicked));
            assert_eq!(standby.beside(|| 8).await, Ok(8));
        }
    }
}
