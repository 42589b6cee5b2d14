//! Clients that have had memory with another master just before.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use mooring_proto::ClientId;

/// Those that have unmounted what this master does not know, with when they did it last.
///
/// A reader of the former master may use what it was told for a lease, so an entry is never forgotten
/// sooner.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    since: HashMap<ClientId, Instant>,
    /// When there was one too many to be kept. For a lease from then on it may be any client.
    overflowed: Option<Instant>,
}

impl Elsewhere {
    /// The client has unmounted such memory.
    pub(super) fn insert(&mut self, client: ClientId, now: Instant, lease: Duration) {
        if self.since.len() >= KEPT_MAX && !self.since.contains_key(&client) {
            self.since.retain(|_, since| is_within(*since, now, lease));
            if self.since.len() >= KEPT_MAX {
                self.overflowed = Some(now);
                return;
            }
        }
        self.since.insert(client, now);
    }

    /// Whether memory of the client that is new here may be such.
    pub(super) fn may_be(&self, client: ClientId, now: Instant, lease: Duration) -> bool {
        self.since.contains_key(&client)
            || self.overflowed.is_some_and(|at| is_within(at, now, lease))
    }

    /// Forgets those that are not alive, a lease after their word.
    pub(super) fn prune(&mut self, alive: &HashSet<ClientId>, now: Instant, lease: Duration) {
        self.since.retain(|client, since| alive.contains(client) || is_within(*since, now, lease));
    }

    pub(super) fn len(&self) -> usize {
        self.since.len()
    }
}

/// Whether a lease from this moment on may still last.
fn is_within(since: Instant, now: Instant, lease: Duration) -> bool {
    now.saturating_duration_since(since) <= lease
}

/// Many times the clients of the largest clusters known: some MiB.
const KEPT_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    #[test]
    fn who_is_not_alive_is_forgotten_a_lease_after_its_word_and_not_sooner() {
        let begun = Instant::now();
        let mut elsewhere = Elsewhere::default();
        let (alive, other) = (ClientId(1), ClientId(2));
        elsewhere.insert(alive, begun, LEASE);
        elsewhere.insert(other, begun, LEASE);
        elsewhere.prune(&HashSet::from([alive]), begun + LEASE, LEASE);
        assert!(elsewhere.may_be(other, begun + LEASE, LEASE));
        let late = begun + LEASE + Duration::from_millis(1);
        elsewhere.prune(&HashSet::from([alive]), late, LEASE);
        assert!(!elsewhere.may_be(other, late, LEASE) && elsewhere.may_be(alive, late, LEASE));
    }

    #[test]
    fn when_there_are_too_many_it_may_be_anyone_for_a_lease() {
        let begun = Instant::now();
        let mut elsewhere = Elsewhere::default();
        let client = |index: usize| ClientId(index as u128);
        (0..KEPT_MAX).for_each(|index| elsewhere.insert(client(index), begun, LEASE));
        let stranger = client(KEPT_MAX + 1);
        assert!(!elsewhere.may_be(stranger, begun, LEASE));
        elsewhere.insert(client(KEPT_MAX), begun + LEASE, LEASE);
        assert_eq!(elsewhere.len(), KEPT_MAX);
        assert!(elsewhere.may_be(stranger, begun + 2 * LEASE, LEASE));
        // The next one finds that the others are over.
        let late = begun + 2 * LEASE + Duration::from_millis(1);
        elsewhere.insert(client(KEPT_MAX), late, LEASE);
        assert_eq!(elsewhere.len(), 1);
        assert!(!elsewhere.may_be(stranger, late, LEASE));
        assert!(elsewhere.may_be(client(KEPT_MAX), late, LEASE));
    }
}
