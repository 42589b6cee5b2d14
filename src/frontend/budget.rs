//! How many bytes of requests and replies may be kept: for a connection, for an address, and for all
//! together.

use std::sync::Arc;

use super::sync::{AtomicUsize, Ordering};

/// The bytes of connections that share a limit.
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

/// The bytes of one connection, which also count for its address and for all.
pub(crate) struct ConnectionBudget {
    own: Budget,
    /// Of the address, and of all.
    shared: [Arc<Budget>; 2],
}

impl ConnectionBudget {
    /// A share of at most this many bytes of the budgets of its address and of all.
    pub(crate) fn new(shared: [Arc<Budget>; 2], limit_bytes: usize) -> Arc<ConnectionBudget> {
        let own = Budget { kept_bytes: AtomicUsize::new(0), limit_bytes };
        Arc::new(ConnectionBudget { own, shared })
    }

    /// Room for a request of this connection, of no bytes yet.
    pub(crate) fn open(self: &Arc<ConnectionBudget>) -> Charge {
        Charge { budget: self.clone(), bytes: 0 }
    }

    /// The narrowest first.
    fn budgets(&self) -> [&Budget; 3] {
        let [of_address, of_all] = &self.shared;
        [&self.own, of_address, of_all]
    }
}

/// The bytes that one request keeps; given back when it is dropped.
pub(crate) struct Charge {
    budget: Arc<ConnectionBudget>,
    bytes: usize,
}

impl Charge {
    /// Keeps more bytes; false, and nothing changes, if the connection, its address or all together
    /// would keep too many.
    pub(crate) fn try_add(&mut self, bytes: usize) -> bool {
        let budgets = self.budget.budgets();
        for (position, budget) in budgets.iter().enumerate() {
            if !try_keep(budget, bytes) {
                budgets[..position].iter().for_each(|budget| give_back(budget, bytes));
                return false;
            }
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
        for budget in self.budget.budgets() {
            budget.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.bytes += bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.budgets().iter().for_each(|budget| give_back(budget, self.bytes));
    }
}

fn try_keep(budget: &Budget, bytes: usize) -> bool {
    let keep = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= budget.limit_bytes);
    budget.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep).is_ok()
}

fn give_back(budget: &Budget, bytes: usize) {
    budget.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
}

// The atomics of models know no real threads.
#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// A connection of an address without a limit of its own.
    fn connection(all: &Arc<Budget>, limit_bytes: usize) -> Arc<ConnectionBudget> {
        ConnectionBudget::new([Budget::new(usize::MAX), all.clone()], limit_bytes)
    }

    #[test]
    fn a_connection_cannot_keep_more_than_its_share() {
        let all = Budget::new(100);
        let connection = connection(&all, 30);
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
        let connections: Vec<_> = (0..2).map(|_| connection(&all, 30)).collect();
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
        let connection = connection(&all, 100);
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
        let connection = connection(&Budget::new(100), 30);
        let (mut one, mut other) = (connection.open(), connection.open());
        one.add(50);
        assert!(!other.try_add(1));
        drop(one);
        assert!(other.try_add(1));
    }

    /// Whatever way the threads take, the budget is never overdrawn, and all of it is given back.
    #[test]
    fn connections_that_take_and_give_back_at_once_keep_no_more_than_the_budget() {
        let all = Budget::new(100);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let connection = connection(&all, 60);
                let all = &all;
                scope.spawn(move || {
                    for round in 0..10_000 {
                        let mut charge = connection.open();
                        let taken = charge.try_add(round % 50) && charge.try_add(round % 7);
                        assert!(all.kept_bytes() <= 100, "{taken}");
                        drop(charge.split_off(round % 11));
                    }
                });
            }
        });
        assert_eq!(all.kept_bytes(), 0);
    }
}
