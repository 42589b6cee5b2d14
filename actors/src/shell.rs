//! What the shells of all actors share: the lanes between them, and what a fault does.

use std::sync::{Arc, Mutex, PoisonError};

use mooring_proto::frame::TraceContext;
use tokio::sync::{mpsc, oneshot};

use crate::clients::ClientsMessage;
use crate::invariant::{Invariant, Violation};
use crate::pool::message::PoolMessage;
use crate::request::RequestId;
use crate::shard::message::ShardMessage;
use crate::watch::Watch;

/// The control lanes. Actors tell each other things on these and never wait: the lanes have no
/// bound of their own, because the protocol between the actors bounds what can be under way.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    pub(crate) shards: Vec<mpsc::UnboundedSender<ShardMessage>>,
    pub(crate) pool: mpsc::UnboundedSender<PoolMessage>,
    pub(crate) clients: mpsc::UnboundedSender<ClientsMessage>,
    /// The followed request for which segments are being lost; `None` if it is not followed, or if
    /// they are lost for another reason. Only who follows jobs looks at it.
    pub(crate) lost_for: Arc<Mutex<Option<TraceContext>>>,
}

impl Lanes {
    /// Why segments are lost from now on.
    pub(crate) fn note_loss(&self, request: Option<TraceContext>) {
        *self.lost_for.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// The followed request for which segments were lost last.
    pub(crate) fn lost_for(&self) -> Option<TraceContext> {
        *self.lost_for.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call to an actor has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The actor's mailbox is full.
    #[error("overloaded, try again in {retry_after_ms} ms")]
    Overloaded {
        /// When to try again.
        retry_after_ms: u32,
    },
    /// The actor has stopped.
    #[error("the master is stopping")]
    Gone,
}

/// A request on its way to an actor, with the way back.
#[derive(Debug)]
pub(crate) struct Call<Request, Reply> {
    pub(crate) request: Request,
    pub(crate) reply: oneshot::Sender<Reply>,
    /// `None` for all but the few that somebody follows.
    pub(crate) watch: Option<Arc<Watch>>,
}

/// Tells an actor's own messages from those of its peers: how a full or closed mailbox reads.
pub(crate) fn call_error<M, E>(error: &kameo::error::SendError<M, E>) -> CallError {
    match error {
        kameo::error::SendError::MailboxFull(_) => {
            CallError::Overloaded { retry_after_ms: RETRY_FULL_MS }
        }
        _ => CallError::Gone,
    }
}

/// Ends the process if the core panics while it is held, or its shell before all effects are carried
/// out. The state is then not to be trusted, or others do not know of it, and an actor that came back
/// empty would hand out live ranges again.
pub(crate) struct FaultGuard {
    pub(crate) actor: &'static str,
    pub(crate) on_fault: fn(&str),
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.on_fault)(self.actor);
        }
    }
}

/// An actor answers a request that nobody has asked, or that it has answered before.
pub(crate) fn answered_twice(actor: &str, id: RequestId) -> Violation {
    Invariant::Answered.violated(format!("{actor} answers {id:?}, for which nobody waits"))
}

/// A full mailbox of a thousand batches empties within some milliseconds.
const RETRY_FULL_MS: u32 = 20;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static FAULTS: AtomicU32 = AtomicU32::new(0);

    // R55
    #[test]
    fn a_panic_of_the_core_is_a_fault_of_the_process_and_a_quiet_end_is_not() {
        let guard = || FaultGuard {
            actor: "shard",
            on_fault: |_| {
                FAULTS.fetch_add(1, Ordering::SeqCst);
            },
        };
        drop(guard());
        assert_eq!(FAULTS.load(Ordering::SeqCst), 0);
        let panicked = std::panic::catch_unwind(|| {
            let _guard = guard();
            panic!("the core is not sound");
        });
        assert!(panicked.is_err());
        assert_eq!(FAULTS.load(Ordering::SeqCst), 1);
    }
}
