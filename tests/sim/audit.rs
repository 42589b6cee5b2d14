//! The audit: a running hash over everything that happens, so that two runs of one seed can be
//! compared, and a trace of it on demand.

use std::fmt::{Debug, Write};

use mooring_actors::Moment;
use rapidhash::v3::rapidhash_v3;

/// A running hash over all events of a run.
#[derive(Debug)]
pub(crate) struct Audit {
    hash: u64,
    events: u64,
    traced: bool,
    text: String,
}

impl Audit {
    /// An audit of nothing yet; with `traced` each event is printed as a line.
    pub(crate) fn new(traced: bool) -> Audit {
        Audit { hash: 0, events: 0, traced, text: String::new() }
    }

    /// Takes an event in.
    pub(crate) fn note(&mut self, now: Moment, what: &str, detail: &dyn Debug) {
        self.events += 1;
        self.text.clear();
        write!(self.text, "{:>8} {what} {detail:?}", now.as_ms()).expect("memory suffices");
        if self.traced && what != "tick" {
            eprintln!("{}", self.text);
        }
        // Odd, so that no event is multiplied away; the order of events counts.
        self.hash =
            self.hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rapidhash_v3(self.text.as_bytes());
    }

    /// How many events there were.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The hash over all of them.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
