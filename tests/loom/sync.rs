//! What threads share by, for models: what the files `sync.rs` beside the code have.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Of tokio's `Notify` what is used of it: a call wakes those who had begun to listen, and leaves nothing
/// for those who come later. As there, both go through one lock.
#[derive(Default)]
pub(crate) struct Notify {
    calls: AtomicUsize,
    listening: Mutex<Vec<Waker>>,
}

impl Notify {
    /// Wakes all who listen.
    pub(crate) fn notify_waiters(&self) {
        let listening = {
            let mut listening = self.listening.lock().unwrap();
            self.calls.fetch_add(1, Ordering::AcqRel);
            std::mem::take(&mut *listening)
        };
        listening.into_iter().for_each(Waker::wake);
    }

    /// Ends with the next call.
    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified { notify: self, calls: self.calls.load(Ordering::Acquire) }
    }
}

/// Someone who listens.
pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    /// How many calls there had been before.
    calls: usize,
}

impl Notified<'_> {
    /// Listens from now on; whether there has been a call already.
    pub(crate) fn enable(self: Pin<&mut Self>) -> bool {
        let _listening = self.notify.listening.lock().unwrap();
        self.notify.calls.load(Ordering::Acquire) != self.calls
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut listening = self.notify.listening.lock().unwrap();
        if self.notify.calls.load(Ordering::Acquire) != self.calls {
            return Poll::Ready(());
        }
        listening.push(context.waker().clone());
        Poll::Pending
    }
}
