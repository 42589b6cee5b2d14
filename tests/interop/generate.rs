//! Sequences of calls from a seed.
//!
//! A sequence is a list of epochs. Within one no time limit runs out, and between two of them each
//! does: so the answers do not hang on how fast the machine is.

pub(crate) mod objects;
pub(crate) mod segments;

use mooring_proto::mooncake::{Call, Segment, Str, Uuid};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Calls of a few clients about a few keys.
pub(crate) struct Sequence {
    /// What it was made from.
    pub(crate) seed: u64,
    /// The calls, one after the other, of each epoch.
    pub(crate) epochs: Vec<Vec<Call<'static>>>,
    /// Who pings while the time passes behind each epoch.
    pub(crate) alive: Vec<Vec<Uuid>>,
}

/// Names that no other sequence uses.
pub(crate) struct Names {
    rng: SmallRng,
    /// What all its keys begin with.
    pub(crate) prefix: &'static str,
    /// Its keys.
    pub(crate) keys: Vec<Str<'static>>,
    /// Its writers.
    pub(crate) writers: [Uuid; 2],
}

impl Names {
    /// The names of the sequence with this seed.
    pub(crate) fn of(seed: u64) -> Names {
        let prefix = leaked(format!("s{seed}/"));
        let mut keys: Vec<Str<'static>> =
            (0..5).map(|number| Str::from(leaked(format!("{prefix}{number}")))).collect();
        // One that takes two bytes for its length, and one that is no text.
        keys.push(Str::from(leaked(format!("{prefix}{}", "long".repeat(70)))));
        let bytes = [prefix.as_bytes(), b"\xff\x00z"].concat();
        keys.push(Str(Vec::leak(bytes)));
        let writer = |number: u64| Uuid { first: 100 + number, second: seed };
        Names { rng: SmallRng::seed_from_u64(seed), prefix, keys, writers: [writer(1), writer(2)] }
    }

    /// One of its keys; the first ones come more often.
    fn key(&mut self) -> Str<'static> {
        let last = self.keys.len() - 1;
        let at = self.rng.random_range(0..=last).min(self.rng.random_range(0..=last));
        self.keys[at]
    }

    /// Some of its keys, in any order, maybe one of them twice.
    fn some_keys(&mut self) -> Vec<Str<'static>> {
        let count = self.rng.random_range(0..=6);
        (0..count).map(|_| self.key()).collect()
    }

    /// One of its writers; mostly the first.
    fn writer(&mut self) -> Uuid {
        self.writers[usize::from(self.one_in(4))]
    }

    fn one_in(&mut self, chances: u32) -> bool {
        self.rng.random_range(0..chances) == 0
    }

    fn of_these<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.random_range(0..choices.len())]
    }
}

/// A tenant; without tenants switched on nobody looks at it.
fn tenant(names: &mut Names) -> Str<'static> {
    Str::from(if names.one_in(10) { names.of_these(&["", "_no", "team"]) } else { "default" })
}

/// Bytes of the memory of a sequence's stores, unless it says otherwise.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 30;

/// A segment; its number gives everything but its size.
pub(crate) fn segment(number: u64, size: u64) -> Segment<'static> {
    Segment {
        id: Uuid { first: 7, second: number },
        name: Str::from(leaked(segment_name(number))),
        base: number << SEGMENT_SHIFT,
        size,
        te_endpoint: Str::from(leaked(endpoint(number))),
        protocol: Str::from("tcp"),
        host_id: Str::default(),
    }
}

/// Where the transfer engine reaches a segment.
pub(crate) fn endpoint(number: u64) -> String {
    format!("10.0.0.{number}:17000")
}

fn segment_name(number: u64) -> String {
    format!("node-{number}:12345")
}

/// An address without its last bits is the number of its segment.
pub(crate) const SEGMENT_SHIFT: u32 = 40;

/// Calls borrow their texts. Those of a test live as long as it does.
fn leaked(text: String) -> &'static str {
    String::leak(text)
}
