//! How a master leaves: what is in flight is answered, connections are told, and the process ends
//! without tearing anything down, so that its exit does not take longer with more objects.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::frontend::Context;
use crate::frontend::quic::Listener;
use crate::master::ready_file;
use crate::master::signals::{Asked, Signals};

/// Leaves in order; another signal on the way ends the process at once.
pub(super) async fn leave(
    context: Arc<Context>,
    listener: Arc<Listener>,
    ready_file: Option<&Path>,
    mut signals: Signals,
) -> ! {
    tokio::select! {
        () = drain(&context, &listener, ready_file) => {}
        () = asked_again(&mut signals) => {
            tracing::warn!("a second signal: ended in the middle of leaving");
            end(1);
        }
    }
    tracing::info!("left");
    end(0);
}

async fn drain(context: &Context, listener: &Listener, ready_file: Option<&Path>) {
    context.stage.begin_drain();
    tracing::info!(in_flight = context.stage.in_flight(), "leaving");
    if let Some(path) = ready_file {
        ready_file::remove(path);
    }
    listener.stop_accepting();
    if tokio::time::timeout(ANSWER_TIME, context.stage.idle()).await.is_err() {
        tracing::warn!(in_flight = context.stage.in_flight(), "requests are left unanswered");
    }
    // What was written just before the drain began is not waited for by anybody else.
    tokio::time::sleep(LAST_REPLIES_TIME).await;
    listener.close(FAREWELL_TIME).await;
}

async fn asked_again(signals: &mut Signals) {
    while signals.next().await != Asked::Leave {}
}

/// Ends the process without running destructors: dropping the actors would take the longer the more
/// objects there are, and the system takes the memory back anyway.
pub(super) fn end(code: i32) -> ! {
    // SAFETY: `_exit` takes any status and touches no memory of the process.
    unsafe { libc::_exit(code) }
}

/// Longer than any answer takes that does not wait for space.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// For replies that were written already to leave the machine: a close discards what is not sent.
const LAST_REPLIES_TIME: Duration = Duration::from_millis(20);

/// For the frames that say so to leave the machine.
const FAREWELL_TIME: Duration = Duration::from_millis(100);
