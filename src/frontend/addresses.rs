//! What one address may take of what all peers of a port share, so that it cannot starve the rest.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;

/// The addresses that have connections. Touched when one comes or goes, never by a request.
pub(crate) struct Addresses {
    connections_max: usize,
    bytes_max: usize,
    shares: Mutex<HashMap<IpAddr, Share>>,
}

struct Share {
    connections: usize,
    budget: Arc<Budget>,
}

impl Addresses {
    /// Addresses of which each may have so many connections, which keep so many bytes together.
    pub(crate) fn new(connections_max: usize, bytes_max: usize) -> Arc<Addresses> {
        Arc::new(Addresses { connections_max, bytes_max, shares: Mutex::default() })
    }

    /// A place for one more connection of this address, given back when it is dropped; `None` if it
    /// has as many as it may. What comes over the loopback has no limit: it is this process itself,
    /// or a proxy that stands for many.
    pub(crate) fn take_place(self: &Arc<Addresses>, address: IpAddr) -> Option<Place> {
        // A socket of both families shows peers of IPv4 as mapped ones.
        let address = address.to_canonical();
        if address.is_loopback() {
            let (addresses, budget) = (self.clone(), Budget::new(usize::MAX));
            return Some(Place { addresses, address: None, budget });
        }
        let mut shares = self.locked();
        let fresh = || Share { connections: 0, budget: Budget::new(self.bytes_max) };
        let share = shares.entry(address).or_insert_with(fresh);
        // An address with no place left has connections, so that nothing is left of a refusal.
        if share.connections >= self.connections_max {
            return None;
        }
        share.connections += 1;
        let budget = share.budget.clone();
        Some(Place { addresses: self.clone(), address: Some(address), budget })
    }

    /// The most connections that one address has.
    pub(crate) fn most_connections(&self) -> usize {
        self.locked().values().map(|share| share.connections).max().unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<IpAddr, Share>> {
        // Each change is one step, so that a panic elsewhere leaves the map whole.
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection among those of its address.
pub(crate) struct Place {
    addresses: Arc<Addresses>,
    /// `None` for one without a limit.
    address: Option<IpAddr>,
    budget: Arc<Budget>,
}

impl Place {
    /// The bytes of all connections of the address.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        self.budget.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut shares = self.addresses.locked();
        if let Some(share) = shares.get_mut(&address) {
            share.connections -= 1;
            if share.connections == 0 {
                shares.remove(&address);
            }
        }
    }
}

/// Unless the operator says otherwise: a machine of 16 engines whose clients keep up to a hundred
/// connections each, as those of Mooncake do, and some more.
pub(crate) const CONNECTIONS_PER_ADDRESS_MAX: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::budget::ConnectionBudget;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_has_all_its_places_keeps_none_from_another_one() {
        let addresses = Addresses::new(2, 100);
        let places: Vec<_> =
            (0..2).map(|_| addresses.take_place(address("10.0.0.1")).unwrap()).collect();
        assert!(addresses.take_place(address("10.0.0.1")).is_none());
        assert!(addresses.take_place(address("::ffff:10.0.0.1")).is_none(), "it is the same");
        let other = addresses.take_place(address("10.0.0.2"));
        assert!(other.is_some());
        assert_eq!(addresses.most_connections(), 2);
        drop(places);
        assert!(addresses.take_place(address("10.0.0.1")).is_some());
    }

    #[test]
    fn nothing_is_kept_of_an_address_that_has_gone() {
        let addresses = Addresses::new(1, 100);
        for number in 0..10 {
            let place = addresses.take_place(address(&format!("10.0.0.{number}"))).unwrap();
            assert!(addresses.take_place(address(&format!("10.0.0.{number}"))).is_none());
            drop(place);
        }
        assert!(addresses.locked().is_empty());
    }

    #[test]
    fn the_loopback_has_no_limit() {
        let addresses = Addresses::new(1, 100);
        let places: Vec<_> =
            (0..10).map(|_| addresses.take_place(address("127.0.0.1")).unwrap()).collect();
        assert_eq!(addresses.most_connections(), 0);
        drop(places);
    }

    #[test]
    fn all_connections_of_an_address_share_its_bytes_and_no_others() {
        let (all, addresses) = (Budget::new(1_000), Addresses::new(8, 100));
        let places: Vec<_> = ["10.0.0.1", "10.0.0.1", "10.0.0.2"]
            .map(|it| addresses.take_place(address(it)).unwrap())
            .into();
        let mut charges: Vec<_> = places
            .iter()
            .map(|place| ConnectionBudget::new([place.budget(), all.clone()], 80).open())
            .collect();
        assert!(charges[0].try_add(80));
        assert!(!charges[1].try_add(21), "the address has 20 left");
        assert!(charges[2].try_add(80));
        assert_eq!(all.kept_bytes(), 160, "a refusal leaves nothing behind");
        charges.clear();
        assert!(places.iter().all(|place| place.budget().kept_bytes() == 0));
    }
}
