//! Work for a thread of its own, which is not lost when the system refuses the thread.
//!
//! A restore and an export must not fail for that: whoever wanted the thread does the work itself.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Work that got no thread.
#[derive(Debug)]
pub struct Refused<W> {
    /// All of it.
    pub work: W,
    /// What the system says.
    pub error: io::Error,
}

/// Has the work done on a new thread.
///
/// # Errors
/// When the system refuses the thread. Nothing of the work was done.
pub fn begin<W, R>(
    thread: Builder,
    work: W,
    run: impl FnOnce(W) -> R + Send + 'static,
) -> Result<JoinHandle<R>, Refused<W>>
where
    W: Send + 'static,
    R: Send + 'static,
{
    let (hand_over, taken) = sync_channel(1);
    hand_over_to(thread.spawn(move || run(take(&taken))), work, |work| {
        // There is room for it, also before the thread has begun.
        let _ = hand_over.send(work);
    })
}

/// As [`begin`], with a thread that ends within the scope.
///
/// # Errors
/// When the system refuses the thread. Nothing of the work was done.
pub fn begin_scoped<'scope, W, R>(
    scope: &'scope Scope<'scope, '_>,
    thread: Builder,
    work: W,
    run: impl FnOnce(W) -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Refused<W>>
where
    W: Send + 'scope,
    R: Send + 'scope,
{
    let (hand_over, taken) = sync_channel(1);
    hand_over_to(thread.spawn_scoped(scope, move || run(take(&taken))), work, |work| {
        let _ = hand_over.send(work);
    })
}

fn hand_over_to<W, H>(
    begun: io::Result<H>,
    work: W,
    hand_over: impl FnOnce(W),
) -> Result<H, Refused<W>> {
    match begun {
        Ok(handle) => {
            hand_over(work);
            Ok(handle)
        }
        Err(error) => Err(Refused { work, error }),
    }
}

fn take<W>(taken: &Receiver<W>) -> W {
    taken.recv().expect("the work follows as soon as its thread has begun")
}

/// A thread that every system refuses: its stack is larger than there are addresses. For tests of
/// what goes on without one.
pub fn refused_thread() -> Builder {
    Builder::new().stack_size(1 << 60)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn work_is_done_beside_or_comes_back_whole() {
        let work = || vec![1_u64, 2, 3];
        let sum = |work: Vec<u64>| work.iter().sum::<u64>();
        assert_eq!(begin(Builder::new(), work(), sum).unwrap().join().unwrap(), 6);
        assert_eq!(begin(refused_thread(), work(), sum).unwrap_err().work, work());
        thread::scope(|scope| {
            let beside = begin_scoped(scope, Builder::new(), work(), sum).unwrap();
            assert_eq!(beside.join().unwrap(), 6);
            let refused = begin_scoped(scope, refused_thread(), work(), sum).unwrap_err();
            assert_eq!(refused.work, work());
        });
    }
}
