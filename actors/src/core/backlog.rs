//! What waits at a shard, seen from outside: a shard that hangs can't be asked.

use super::sync::{AtomicU64, Ordering};
use crate::moment::Moment;

/// The requests on their way to one shard. Whoever sends notes it here, and so does the shard when
/// it takes one; nobody waits for anybody. Two who send at once may be noted in the other order, so
/// ages are exact to the time between them.
#[derive(Debug)]
pub(crate) struct Backlog {
    sent: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
    /// When each request that may still wait was sent, in milliseconds, by its number.
    sent_at_ms: Box<[AtomicU64]>,
}

impl Backlog {
    /// For a mailbox with this many places.
    pub(crate) fn new(places: usize) -> Backlog {
        // Those who are about to learn that the mailbox is full are counted for a moment.
        let length = places.saturating_mul(2).max(1).next_power_of_two();
        Backlog {
            sent: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            sent_at_ms: (0..length).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A request is about to be sent.
    pub(crate) fn note_sent(&self, now: Moment) {
        let mut former = self.sent.load(Ordering::Relaxed);
        loop {
            // Before it counts: whoever looks in between must not see the time of the request that had
            // this place before. Of two who are at one place either time will do.
            self.place(former + 1).store(now.as_ms(), Ordering::Relaxed);
            match self.sent.compare_exchange(
                former,
                former + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now_sent) => former = now_sent,
            }
        }
    }

    /// The request did not get into the mailbox.
    pub(crate) fn note_refused(&self) {
        self.sent.fetch_sub(1, Ordering::AcqRel);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The shard has taken the next request.
    pub(crate) fn note_taken(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// For how long the oldest request waits, in milliseconds; zero if none does.
    pub(crate) fn oldest_ms(&self, now: Moment) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        if self.sent.load(Ordering::Acquire) <= taken {
            return 0;
        }
        let sent_at_ms = self.place(taken + 1).load(Ordering::Relaxed);
        now.since_ms(Moment::from_ms(sent_at_ms))
    }

    /// How many requests found no place since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        // The length is a power of two.
        &self.sent_at_ms[number as usize & (self.sent_at_ms.len() - 1)]
    }
}

// The atomics of models know no real threads.
#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_ms(ms)
    }

    #[test]
    fn the_age_is_that_of_the_request_that_waits_longest() {
        let backlog = Backlog::new(4);
        assert_eq!(backlog.oldest_ms(at(50)), 0);
        backlog.note_sent(at(100));
        backlog.note_sent(at(130));
        assert_eq!(backlog.oldest_ms(at(150)), 50);
        backlog.note_taken();
        assert_eq!(backlog.oldest_ms(at(150)), 20);
        backlog.note_taken();
        assert_eq!(backlog.oldest_ms(at(9_000)), 0);
    }

    #[test]
    fn places_are_used_again_for_ever() {
        let backlog = Backlog::new(3);
        for ms in 1..1_000 {
            backlog.note_sent(at(ms));
            assert_eq!(backlog.oldest_ms(at(ms + 7)), 7);
            backlog.note_taken();
        }
    }

    #[test]
    fn a_request_that_is_refused_does_not_wait() {
        let backlog = Backlog::new(1);
        backlog.note_sent(at(10));
        backlog.note_sent(at(20));
        backlog.note_refused();
        backlog.note_taken();
        assert_eq!((backlog.oldest_ms(at(99)), backlog.refused()), (0, 1));
    }

    #[test]
    fn those_who_send_at_once_leave_nothing_behind() {
        let backlog = Backlog::new(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for ms in 0..1_000 {
                        backlog.note_sent(at(ms));
                        backlog.note_taken();
                    }
                });
            }
        });
        assert_eq!(backlog.oldest_ms(at(5_000)), 0);
    }
}
