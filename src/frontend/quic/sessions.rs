//! Which connections a client has, for what the master says unasked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_actors::core::Core;
use mooring_proto::ClientId;
use mooring_proto::frame::encode_attention;
use mooring_proto::message::session::Attention;
use quinn::Connection;
use tokio::sync::broadcast::error::RecvError;

use super::paths::{PathTotals, Paths};
use crate::frontend::Context;

/// The connections that have said hello. Touched when one comes or goes, never by a request.
pub(crate) struct Sessions {
    core: Core,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_client: HashMap<ClientId, Vec<Connection>>,
    /// Of the connections that have ended.
    ended: PathTotals,
}

impl Sessions {
    pub(crate) fn new(core: Core) -> Sessions {
        Sessions { core, state: Mutex::default() }
    }

    /// A connection of this client; it counts until the value is dropped.
    pub(crate) fn enter(self: &Arc<Sessions>, client: ClientId, connection: Connection) -> Entered {
        self.locked().by_client.entry(client).or_default().push(connection.clone());
        Entered { sessions: self.clone(), client, connection }
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.locked().by_client.values().map(Vec::len).sum()
    }

    /// What the paths to the peers are like, and what has been sent on all of them since the start.
    pub(crate) fn paths(&self) -> Paths {
        let (open, ended) = {
            let state = self.locked();
            let open = state.by_client.values().flatten();
            (open.map(Connection::stats).collect::<Vec<_>>(), state.ended)
        };
        Paths::new(&open, ended)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Connection> {
        self.locked().by_client.values().flatten().cloned().collect()
    }

    fn of(&self, client: ClientId) -> Vec<Connection> {
        self.locked().by_client.get(&client).cloned().unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves the map whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts.
pub(crate) struct Entered {
    sessions: Arc<Sessions>,
    client: ClientId,
    connection: Connection,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = self.sessions.locked();
        state.ended.add(&self.connection.stats());
        if let Some(connections) = state.by_client.get_mut(&self.client) {
            connections.retain(|it| it.stable_id() != self.connection.stable_id());
            if connections.is_empty() {
                state.by_client.remove(&self.client);
                self.sessions.core.goodbye(self.client);
            }
        }
    }
}

/// Asks each client that the core suspects to ping at once, on all of its connections.
pub(crate) async fn call_for_attention(context: Arc<Context>, sessions: Arc<Sessions>) {
    let mut suspected = context.core.attention();
    loop {
        let needed = match suspected.recv().await {
            Ok(needed) => needed,
            // Those that were missed are suspected still, and pings come anyway.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let attention = Attention { silent_ms: needed.silent_ms };
        for connection in sessions.of(needed.client) {
            context.counters.attentions.increment();
            tokio::spawn(send_attention(connection, encode_attention(&attention)));
        }
    }
}

async fn send_attention(connection: Connection, frame: Vec<u8>) {
    let send = async {
        let mut stream = connection.open_uni().await.ok()?;
        stream.write_all(&frame).await.ok()?;
        stream.finish().ok()
    };
    // A client that takes no streams is silent anyway.
    let _ = tokio::time::timeout(ATTENTION_TIMEOUT, send).await;
}

/// Later ones would be overtaken by the next.
const ATTENTION_TIMEOUT: Duration = Duration::from_secs(1);
