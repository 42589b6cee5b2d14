//! The audit: a running hash over everything that happens, so that two runs of one seed can be
//! compared, and a trace of it on demand.

use std::fmt::{self, Debug, Write};

use mooring_actors::Moment;

/// A running hash over all events of a run.
#[derive(Debug)]
pub(crate) struct Audit {
    hash: Mix,
    events: u64,
    traced: bool,
}

/// What can be taken into a hash without being written out: most events are told apart by a few
/// numbers, and writing all of each took more time than the run itself.
pub(crate) trait Digest {
    /// Takes in what tells this from another one.
    fn digest(&self, into: &mut Mix);
}

/// Numbers and texts, taken into a hash one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Audit {
    /// An audit of nothing yet; with `traced` each event is printed as a line.
    pub(crate) fn new(traced: bool) -> Audit {
        Audit { hash: Mix::default(), events: 0, traced }
    }

    /// Takes an event in.
    pub(crate) fn note(&mut self, now: Moment, what: &str, detail: &(impl Debug + Digest)) {
        self.begin(now, what, detail);
        detail.digest(&mut self.hash);
    }

    /// Takes an event in that is rare enough to be written out.
    pub(crate) fn note_text(&mut self, now: Moment, what: &str, detail: &dyn Debug) {
        self.begin(now, what, detail);
        self.hash.text(detail);
    }

    fn begin(&mut self, now: Moment, what: &str, detail: &dyn Debug) {
        self.events += 1;
        self.hash.add(now.as_ms());
        self.hash.add(u64::from(what.as_bytes()[0]));
        if self.traced && what != "tick" {
            eprintln!("{:>8} {what} {detail:?}", now.as_ms());
        }
    }

    /// Whether each event is printed.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced
    }

    /// How many events there were.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The hash over all of them.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.0
    }
}

impl Mix {
    /// Takes a number in; the order counts.
    pub(crate) fn add(&mut self, number: u64) {
        // Odd, so that nothing is multiplied away.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Takes in what something looks like when it is written out.
    pub(crate) fn text(&mut self, detail: &dyn Debug) {
        write!(self, "{detail:?}").expect("a hash takes everything");
    }
}

impl Write for Mix {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_le_bytes(word));
        }
        Ok(())
    }
}
