//! Which certificate speaks for which client: the one that said hello for it first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooring_proto::ClientId;

/// The clients that members have spoken for. Touched when a connection comes or goes, never by a
/// request.
#[derive(Default)]
pub(crate) struct Owners {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owners: HashMap<ClientId, Owner>,
    /// Clients without a connection, with the number of when they lost the last one. Some have come
    /// back since.
    gone: VecDeque<(ClientId, u64)>,
    goings: u64,
}

struct Owner {
    /// The id of the principal.
    principal: [u8; 32],
    connections: usize,
    /// When the last connection has gone, while there is none.
    gone: u64,
}

impl Owners {
    /// Lets a principal speak for a client, until the value is dropped and a good while after it:
    /// its segments are still mounted when its connection is lost. `None` if the client is that of
    /// another one.
    pub(crate) fn claim(
        self: &Arc<Owners>,
        client: ClientId,
        principal: [u8; 32],
    ) -> Option<Claim> {
        let mut state = self.locked();
        let fresh = || Owner { principal, connections: 0, gone: 0 };
        let owner = state.owners.entry(client).or_insert_with(fresh);
        if owner.principal != principal {
            return None;
        }
        owner.connections += 1;
        Some(Claim { owners: self.clone(), client })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so that a panic elsewhere leaves the map whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn release(&mut self, client: ClientId) {
        self.goings += 1;
        let now = self.goings;
        let Some(owner) = self.owners.get_mut(&client) else { return };
        owner.connections -= 1;
        if owner.connections > 0 {
            return;
        }
        owner.gone = now;
        self.gone.push_back((client, now));
        if self.gone.len() > GONE_MAX
            && let Some((oldest, when)) = self.gone.pop_front()
            && self.owners.get(&oldest).is_some_and(|it| it.connections == 0 && it.gone == when)
        {
            self.owners.remove(&oldest);
        }
    }
}

/// The right of a connection to speak for its client.
pub(crate) struct Claim {
    owners: Arc<Owners>,
    client: ClientId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.owners.locked().release(self.client);
    }
}

/// Goings whose clients are remembered beyond their last connection: four times the clients of the
/// largest clusters known, which is some megabytes.
const GONE_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(7);
    const FIRST: [u8; 32] = [1; 32];
    const OTHER: [u8; 32] = [2; 32];

    #[test]
    fn a_client_is_that_of_who_came_first_also_when_its_connections_are_lost() {
        let owners = Arc::new(Owners::default());
        let connections: Vec<_> = (0..2).map(|_| owners.claim(CLIENT, FIRST).unwrap()).collect();
        assert!(owners.claim(CLIENT, OTHER).is_none());
        assert!(owners.claim(ClientId(8), OTHER).is_some());
        drop(connections);
        assert!(owners.claim(CLIENT, OTHER).is_none());
        assert!(owners.claim(CLIENT, FIRST).is_some(), "it comes back");
    }

    #[test]
    fn those_that_went_long_ago_are_forgotten_and_none_that_is_here() {
        let owners = Arc::new(Owners::default());
        let here = owners.claim(CLIENT, FIRST);
        // It went once, and has come back.
        drop(owners.claim(ClientId(8), FIRST));
        let back = owners.claim(ClientId(8), FIRST);
        drop(owners.claim(ClientId(9), FIRST));
        for number in 0..GONE_MAX as u128 {
            drop(owners.claim(ClientId(100 + number), FIRST));
        }
        assert!(owners.claim(CLIENT, OTHER).is_none());
        assert!(owners.claim(ClientId(8), OTHER).is_none());
        assert!(owners.claim(ClientId(9), OTHER).is_some());
        let state = owners.locked();
        assert_eq!((state.gone.len(), state.owners.len()), (GONE_MAX, GONE_MAX + 2));
        drop(state);
        drop((here, back));
    }

    #[test]
    fn one_that_comes_and_goes_takes_no_more_room_each_time() {
        let owners = Arc::new(Owners::default());
        for _ in 0..GONE_MAX + 10 {
            drop(owners.claim(CLIENT, FIRST));
        }
        assert_eq!(owners.locked().gone.len(), GONE_MAX);
        assert!(owners.claim(CLIENT, OTHER).is_none());
    }
}
