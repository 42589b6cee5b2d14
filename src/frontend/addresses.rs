//! What one address may take of what all peers of a port share, so that it cannot starve the rest.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;

/// A peer as people know it: a socket of both families shows one of IPv4 as a mapped address.
pub(crate) fn as_known(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// The addresses that have connections. Touched when one comes or goes, never by a request.
pub(crate) struct Addresses {
    connections_max: usize,
    bytes_max: usize,
    shares: Mutex<HashMap<IpAddr, Share>>,
}

struct Share {
    connections: usize,
    /// Of them, handshakes of whom it is not known whether they are at the address.
    unproved: usize,
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
        self.take(address, true)
    }

    /// The same for one that only claims this address until it has [proved](Place::prove) it. Comes
    /// after [`must_prove`](Self::must_prove).
    pub(crate) fn take_unproved_place(self: &Arc<Addresses>, address: IpAddr) -> Option<Place> {
        self.take(address, false)
    }

    /// Whether the next one that claims this address has to prove it before it takes a place: those
    /// who have not proved it have a quarter of the places. With all of them, they would keep out who
    /// is really there.
    pub(crate) fn must_prove(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if address.is_loopback() {
            return false;
        }
        let unproved = self.locked().get(&address).map_or(0, |share| share.unproved);
        unproved >= self.connections_max / UNPROVED_PART
    }

    fn take(self: &Arc<Addresses>, address: IpAddr, is_proved: bool) -> Option<Place> {
        // A socket of both families shows peers of IPv4 as mapped ones.
        let address = address.to_canonical();
        if address.is_loopback() {
            let (addresses, budget) = (self.clone(), Budget::new(usize::MAX));
            return Some(Place { addresses, address: None, is_proved, budget });
        }
        let mut shares = self.locked();
        let fresh = || Share { connections: 0, unproved: 0, budget: Budget::new(self.bytes_max) };
        let share = shares.entry(address).or_insert_with(fresh);
        // An address with no place left has connections, so that nothing is left of a refusal.
        if share.connections >= self.connections_max {
            return None;
        }
        share.connections += 1;
        share.unproved += usize::from(!is_proved);
        let budget = share.budget.clone();
        Some(Place { addresses: self.clone(), address: Some(address), is_proved, budget })
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
    /// Whether its peer is known to be at the address.
    is_proved: bool,
    budget: Arc<Budget>,
}

impl Place {
    /// What was sent to the address was answered from there.
    pub(crate) fn prove(&mut self) {
        let was_proved = std::mem::replace(&mut self.is_proved, true);
        let Some(address) = self.address.filter(|_| !was_proved) else { return };
        if let Some(share) = self.addresses.locked().get_mut(&address) {
            share.unproved -= 1;
        }
    }

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
            share.unproved -= usize::from(!self.is_proved);
            if share.connections == 0 {
                shares.remove(&address);
            }
        }
    }
}

/// Unless the operator says otherwise: a machine of 16 engines whose clients keep up to a hundred
/// connections each, as those of Mooncake do, and some more.
pub(crate) const CONNECTIONS_PER_ADDRESS_MAX: usize = 2_048;

/// Which part of the places of an address those may have who only claim it: enough for most that come
/// at once after a restart and answer within a round trip. What is left is for who is there.
const UNPROVED_PART: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::budget::ConnectionBudget;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_of_ipv4_is_shown_as_one() {
        for (seen, shown) in [
            ("[::ffff:1.2.3.4]:5", "1.2.3.4:5"),
            ("1.2.3.4:5", "1.2.3.4:5"),
            ("[fe80::1]:5", "[fe80::1]:5"),
        ] {
            assert_eq!(as_known(seen.parse().unwrap()).to_string(), shown);
        }
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
    fn those_who_only_claim_an_address_get_a_quarter_of_its_places() {
        let addresses = Addresses::new(8, 100);
        let (here, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let mut places = Vec::new();
        while !addresses.must_prove(here) {
            places.push(addresses.take_unproved_place(here).unwrap());
        }
        assert_eq!(places.len(), 2);
        assert!(addresses.must_prove(address("::ffff:10.0.0.1")), "it is the same");
        assert!(!addresses.must_prove(other) && !addresses.must_prove(address("127.0.0.1")));
        let proved: Vec<_> = (0..6).map(|_| addresses.take_place(here).unwrap()).collect();
        assert!(addresses.take_place(here).is_none(), "all have their places");
        drop(proved);
        // Once it has proved its address, it is like all others; and so is one that has given up.
        places[0].prove();
        places[0].prove();
        assert!(!addresses.must_prove(here));
        places.push(addresses.take_unproved_place(here).unwrap());
        assert!(addresses.must_prove(here));
        places.truncate(2);
        assert!(!addresses.must_prove(here));
        drop(places);
        assert!(addresses.locked().is_empty());
    }

    #[test]
    fn where_a_quarter_is_none_everybody_proves_his_address() {
        assert!(Addresses::new(3, 100).must_prove(address("10.0.0.1")));
        assert!(!Addresses::new(4, 100).must_prove(address("10.0.0.1")));
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
