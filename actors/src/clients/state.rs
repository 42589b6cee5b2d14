//! One client, and all of them counted.

use mooring_proto::SegmentsDigest;

use crate::moment::Moment;

/// A client that pings, or should.
#[derive(Debug)]
pub(super) struct Client {
    /// For people; empty until a hello.
    pub(super) name: String,
    /// Segments that it has mounted.
    pub(super) segments: u32,
    /// Which of them it keeps.
    pub(super) kept: SegmentsDigest,
    /// Whether it said otherwise at its last ping.
    pub(super) differed: bool,
    /// Whether it has mounted anything with this master since it was last unknown.
    pub(super) attached: bool,
    /// Whether it has had segments before it was known as it is now, with a former master or before
    /// it was offline, and has not mounted all of them again. Until then a single mount of it says
    /// nothing of the others.
    pub(super) owes_remount: bool,
    /// The latest sign of life, later by the pauses of the master since.
    heard_at: Moment,
    /// How often it was asked in this silence; zero unless it is suspected.
    asked: u64,
    suspected: bool,
}

/// How alive a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Active,
    Suspected,
    Offline,
}

impl Client {
    pub(super) fn new(now: Moment, owes_remount: bool) -> Client {
        Client {
            name: String::new(),
            segments: 0,
            kept: SegmentsDigest::default(),
            differed: false,
            attached: false,
            owes_remount,
            heard_at: now,
            asked: 0,
            suspected: false,
        }
    }

    /// A client that a former master knew.
    pub(super) fn restored(now: Moment, name: String, segments: u32) -> Client {
        Client { name, segments, ..Client::new(now, segments > 0) }
    }

    /// It has given a sign of life. Returns whether it was suspected.
    pub(super) fn hear(&mut self, now: Moment) -> bool {
        self.heard_at = self.heard_at.max(now);
        self.asked = 0;
        std::mem::take(&mut self.suspected)
    }

    /// Takes some time off its silence.
    pub(super) fn postpone(&mut self, now: Moment, by_ms: u64) {
        self.heard_at = self.heard_at.after_ms(by_ms).min(self.heard_at.max(now));
    }

    pub(super) fn silent_ms(&self, now: Moment) -> u64 {
        now.since_ms(self.heard_at)
    }

    pub(super) fn suspected(&self) -> bool {
        self.suspected
    }

    /// How it stands now.
    pub(super) fn judge(&mut self, now: Moment, ttl_ms: u64) -> Standing {
        let silent_ms = self.silent_ms(now);
        self.suspected = silent_ms >= ttl_ms;
        if !self.suspected {
            self.asked = 0;
            Standing::Active
        } else if silent_ms < offline_ms(ttl_ms) {
            Standing::Suspected
        } else {
            Standing::Offline
        }
    }

    /// Whether it must be asked now: as soon as it is suspected, and once for each further quarter
    /// of the TTL.
    pub(super) fn must_be_asked(&mut self, now: Moment, ttl_ms: u64) -> bool {
        let Some(overdue_ms) = self.silent_ms(now).checked_sub(ttl_ms) else { return false };
        let due = 1 + overdue_ms / quarter_ms(ttl_ms);
        let ask = due > self.asked;
        self.asked = self.asked.max(due);
        ask
    }
}

/// A time in which most clients are silent together.
#[derive(Debug)]
pub(super) struct Outage {
    /// Nobody goes offline before.
    pub(super) spares_until: Moment,
}

/// The clients with segments, counted by their silence. Clients without segments don't count:
/// nothing is lost with them, and commands that come and go would look like an outage.
#[derive(Debug, Default)]
pub(super) struct Census {
    holders: usize,
    /// Those that are offline or will be within a quarter of the TTL. Clients ping each fifth of
    /// the TTL, so those that one outage cuts off don't reach the end in the same tick.
    pub(super) late: usize,
    /// Those that are offline.
    expired: usize,
}

impl Census {
    pub(super) fn of<'a>(
        clients: impl Iterator<Item = &'a Client>,
        now: Moment,
        ttl_ms: u64,
    ) -> Census {
        let mut census = Census::default();
        let offline_ms = offline_ms(ttl_ms);
        for client in clients.filter(|client| client.segments > 0) {
            let silent_ms = client.silent_ms(now);
            census.holders += 1;
            census.late += usize::from(silent_ms >= offline_ms - quarter_ms(ttl_ms));
            census.expired += usize::from(silent_ms >= offline_ms);
        }
        census
    }

    /// Whether so many fall silent together that it looks like the network.
    pub(super) fn is_outage(&self) -> bool {
        self.expired > 0 && self.late >= OUTAGE_CLIENTS_MIN && self.late * 2 >= self.holders
    }
}

fn offline_ms(ttl_ms: u64) -> u64 {
    ttl_ms.max(1).saturating_mul(2)
}

fn quarter_ms(ttl_ms: u64) -> u64 {
    (ttl_ms / 4).max(1)
}

/// One or two clients that die together are no outage, even if they are all there are.
const OUTAGE_CLIENTS_MIN: usize = 3;
