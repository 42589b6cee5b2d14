//! Which clients have mounted their segments again with this master.
//!
//! A client counts only after its ReMountSegment, even if it has just mounted: until then every ping is
//! answered with NEED_REMOUNT, as the existing master does and clients expect.

mod elsewhere;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooring_actors::core::Core;
use mooring_proto::ClientId;

use elsewhere::Elsewhere;

/// The clients that have.
#[derive(Default)]
pub(super) struct Clients {
    /// By client: how many segments it has named.
    known: Mutex<HashMap<ClientId, u32>>,
    /// Those that have named memory that this master does not know.
    elsewhere: Mutex<Elsewhere>,
}

impl Clients {
    /// The client has mounted all its segments again, so many.
    pub(super) fn remounted(&self, client: ClientId, segments: u32) {
        self.locked().insert(client, segments);
    }

    /// The client has mounted one more.
    pub(super) fn mounted(&self, client: ClientId) {
        if let Some(segments) = self.locked().get_mut(&client) {
            *segments = segments.saturating_add(1);
        }
    }

    /// How many segments a client believes to have mounted; `None` if it has to mount them again.
    pub(super) fn segments_of(&self, client: ClientId) -> Option<u32> {
        self.locked().get(&client).copied()
    }

    /// The client has to mount its segments again.
    pub(super) fn forget(&self, client: ClientId) {
        self.locked().remove(&client);
    }

    /// The client has unmounted what this master does not know, so it has had memory with another one.
    pub(super) fn was_elsewhere(&self, client: ClientId, core: &Core) {
        locked(&self.elsewhere).insert(client, Instant::now(), lease_of(core));
    }

    /// Whether memory of the client that is new here may have been with another master just before.
    pub(super) fn may_come_from_elsewhere(&self, client: ClientId, core: &Core) -> bool {
        locked(&self.elsewhere).may_be(client, Instant::now(), lease_of(core))
    }

    /// Forgets the clients that the core knows no more, if there are many: each process of a client
    /// has another id, so they would add up for ever. That one was elsewhere is kept for a lease all
    /// the same: the core does not know it yet.
    pub(super) async fn prune(&self, core: &Core) {
        let known = self.locked().len().max(locked(&self.elsewhere).len());
        if known < PRUNED_ABOVE {
            return;
        }
        let Ok(alive) = core.list_clients().await else { return };
        let alive: HashSet<ClientId> = alive.into_iter().map(|entry| entry.client).collect();
        self.locked().retain(|client, _| alive.contains(client));
        locked(&self.elsewhere).prune(&alive, Instant::now(), lease_of(core));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<ClientId, u32>> {
        locked(&self.known)
    }
}

fn lease_of(core: &Core) -> Duration {
    Duration::from_millis(core.settings().lease_ttl_ms)
}

/// Each change is one step, so that a panic elsewhere leaves the whole as it was.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Above the clients of the largest clusters known, so that it rarely happens.
const PRUNED_ABOVE: usize = 4096;

#[cfg(test)]
mod tests {
    use mooring_actors::core::CoreConfig;
    use mooring_proto::Incarnation;

    use super::*;

    #[test]
    fn a_client_counts_from_its_remount_until_it_is_forgotten() {
        let clients = Clients::default();
        let client = ClientId(7);
        clients.mounted(client);
        assert_eq!(clients.segments_of(client), None);
        clients.remounted(client, 2);
        clients.mounted(client);
        assert_eq!(clients.segments_of(client), Some(3));
        clients.forget(client);
        assert_eq!(clients.segments_of(client), None);
    }

    /// Its first word to a master that knows many others, which the core has not heard of it by.
    #[tokio::test]
    async fn who_was_elsewhere_is_known_also_after_many_clients_have_come() {
        let core = Core::start(CoreConfig::new(1, 1, Incarnation(1)));
        let clients = Clients::default();
        let (unmounts, stays) = (ClientId(u128::MAX), ClientId(0));
        (0..PRUNED_ABOVE).for_each(|index| clients.remounted(ClientId(index as u128), 1));
        clients.was_elsewhere(unmounts, &core);
        clients.prune(&core).await;
        assert_eq!(clients.segments_of(stays), None, "it was pruned");
        assert!(clients.may_come_from_elsewhere(unmounts, &core));
        assert!(!clients.may_come_from_elsewhere(stays, &core));
    }
}
