//! Keeps a paused clock still while the one actor works that has a thread of its own.
//!
//! Tokio moves a paused clock to the next timer as soon as its thread has nothing to do. It does not
//! know of the thread of the actor that judges the liveness of clients, and would let seconds pass
//! while a ping is answered there. So whenever the thread is about to wait, and that actor has been
//! told something since it did so last, it asks it something too and stays awake until the answer is
//! there: by then all that came before is done, since the actor takes things in their order.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use mooring_actors::core::Core;
use mooring_proto::message::Kind;

use crate::frontend::Context;
use crate::frontend::quic::Listener;

/// Watches one runtime.
#[derive(Clone, Default)]
pub(crate) struct Stillness(Arc<Shared>);

#[derive(Default)]
struct Shared {
    watched: OnceLock<(Arc<Context>, Arc<Listener>)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the actor is known to have done.
    settled: Told,
    watcher: Option<Waker>,
}

/// What the actor was told: pings, connections that came, and those that are left of them.
type Told = (u64, u64, usize);

impl Stillness {
    /// For the runtime to call before it waits.
    pub(crate) fn before_park(&self) {
        let told = self.told();
        let mut state = self.locked();
        if told != state.settled
            && let Some(watcher) = state.watcher.take()
        {
            watcher.wake();
        }
    }

    /// Watches what this master is told until the runtime ends. Must be called within it.
    pub(crate) fn watch(&self, context: Arc<Context>, listener: Arc<Listener>) {
        let core = context.core.clone();
        let first = self.0.watched.set((context, listener)).is_ok();
        assert!(first, "one master for each runtime");
        let watching = self.clone();
        tokio::spawn(async move {
            loop {
                let told = watching.next().await;
                settle(&core).await;
                watching.locked().settled = told;
            }
        });
    }

    /// Waits until the actor was told something, and says what it was told in all.
    async fn next(&self) -> Told {
        std::future::poll_fn(|poll| {
            let told = self.told();
            let mut state = self.locked();
            if told != state.settled {
                return Poll::Ready(told);
            }
            state.watcher = Some(poll.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn told(&self) -> Told {
        let Some((context, listener)) = self.0.watched.get() else { return Told::default() };
        let counters = &context.counters;
        let pings = counters.kind(Kind::Ping).requests.value();
        (pings, counters.connections.value(), listener.connections())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for an answer of the actor without ever leaving the thread idle.
async fn settle(core: &Core) {
    let mut answer = pin!(core.list_clients());
    std::future::poll_fn(|poll| match answer.as_mut().poll(poll) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => {
            poll.waker().wake_by_ref();
            std::thread::yield_now();
            Poll::Pending
        }
    })
    .await;
}
