//! How many bytes of requests and replies may be kept, for a connection and for all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all connections.
pub(crate) struct Budget {
    kept_bytes: AtomicUsize,
    limit_bytes: usize,
}

impl Budget {
    /// A budget of this many bytes.
    pub(crate) fn new(limit_bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { kept_bytes: AtomicUsize::new(0), limit_bytes })
    }

    /// The bytes that are kept now.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes.load(Ordering::Relaxed)
    }
}

/// The bytes of one connection, which also count for all.
pub(crate) struct ConnectionBudget {
    own: Budget,
    all: Arc<Budget>,
}

impl ConnectionBudget {
    /// A share of at most this many bytes.
    pub(crate) fn new(all: Arc<Budget>, limit_bytes: usize) -> Arc<ConnectionBudget> {
        let own = Budget { kept_bytes: AtomicUsize::new(0), limit_bytes };
        Arc::new(ConnectionBudget { own, all })
    }

    /// Room for a request of this connection, of no bytes yet.
    pub(crate) fn open(self: &Arc<ConnectionBudget>) -> Charge {
        Charge { budget: self.clone(), bytes: 0 }
    }
}

/// The bytes that one request keeps; given back when it is dropped.
pub(crate) struct Charge {
    budget: Arc<ConnectionBudget>,
    bytes: usize,
}

impl Charge {
    /// Keeps more bytes; false, and nothing changes, if the connection or all together would keep
    /// too many.
    pub(crate) fn try_add(&mut self, bytes: usize) -> bool {
        if !try_keep(&self.budget.own, bytes) {
            return false;
        }
        if !try_keep(&self.budget.all, bytes) {
            self.budget.own.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Hands so many of its bytes to a charge of their own.
    pub(crate) fn split_off(&mut self, bytes: usize) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { budget: self.budget.clone(), bytes }
    }

    /// Keeps more bytes, whatever the limits: what was decided has to be told. Until they are given
    /// back, no further request finds room.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.budget.own.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.all.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.own.kept_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.all.kept_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn try_keep(budget: &Budget, bytes: usize) -> bool {
    let keep = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= budget.limit_bytes);
    budget.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_cannot_keep_more_than_its_share() {
        let all = Budget::new(100);
        let connection = ConnectionBudget::new(all.clone(), 30);
        let (mut one, mut other) = (connection.open(), connection.open());
        assert!(one.try_add(20));
        assert!(!other.try_add(11));
        assert!(other.try_add(10));
        drop(one);
        assert!(other.try_add(20));
        assert_eq!(all.kept_bytes(), 30);
    }

    #[test]
    fn all_connections_together_cannot_keep_more_than_the_budget() {
        let all = Budget::new(40);
        let connections: Vec<_> = (0..2).map(|_| ConnectionBudget::new(all.clone(), 30)).collect();
        let (mut one, mut other) = (connections[0].open(), connections[1].open());
        assert!(one.try_add(30));
        assert!(!other.try_add(11));
        assert!(other.try_add(10), "a refusal leaves nothing behind");
        drop((one, other));
        assert_eq!(all.kept_bytes(), 0);
    }

    #[test]
    fn what_is_split_off_is_given_back_once_and_on_its_own() {
        let all = Budget::new(100);
        let connection = ConnectionBudget::new(all.clone(), 100);
        let mut whole = connection.open();
        assert!(whole.try_add(60));
        let part = whole.split_off(20);
        assert_eq!(all.kept_bytes(), 60);
        drop(whole);
        assert_eq!(all.kept_bytes(), 20);
        drop(part);
        assert_eq!(all.kept_bytes(), 0);
    }

    #[test]
    fn a_reply_that_overdraws_keeps_further_requests_out_until_it_is_gone() {
        let connection = ConnectionBudget::new(Budget::new(100), 30);
        let (mut one, mut other) = (connection.open(), connection.open());
        one.add(50);
        assert!(!other.try_add(1));
        drop(one);
        assert!(other.try_add(1));
    }
}
