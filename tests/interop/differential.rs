//! Generated sequences of calls, each to Mooncake's master and to the binary.

use std::ffi::OsString;
use std::time::Duration;

use mooring_proto::mooncake::{Expected, MountSegment, ReMountSegment, Uuid};

use crate::generate::{SEGMENT_BYTES, Sequence, objects, segment, segments};
use crate::lockstep::{Failure, Tally, Times, run};
use crate::masters::{Pair, Side, program};
use crate::tell;

/// Sequences of all tests together, unless `MOORING_INTEROP_SEQUENCES` says otherwise.
const SEQUENCES: u64 = 300;

/// The store of tests in which memory is there all the time.
const STORE: Uuid = Uuid { first: 1, second: 2 };

/// The seeds of a test that has so many of a hundred sequences: `MOORING_INTEROP_SEED` repeats one.
pub(crate) fn seeds(of_a_hundred: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("MOORING_INTEROP_SEED") {
        return vec![seed];
    }
    let all = number("MOORING_INTEROP_SEQUENCES").unwrap_or(SEQUENCES);
    (1..=(all * of_a_hundred).div_ceil(100)).collect()
}

/// Mooncake's master, or `None` with a word about the test that is skipped.
pub(crate) fn program_for(test: &str) -> Option<OsString> {
    let program = program();
    if program.is_none() {
        tell(test, "skipped, MOORING_MOONCAKE_MASTER names no mooncake_master");
    }
    program
}

/// Runs a test with short limits, and with longer ones if the machine is too slow for them.
fn attempt(test: &str, attempt: impl Fn(&OsString, u64) -> Result<Tally, Failure>) {
    let Some(program) = program_for(test) else { return };
    for factor in [1, 3, 9] {
        match attempt(&program, factor) {
            Ok(tally) => {
                tell(test, tally);
                return;
            }
            Err(Failure::TooSlow) => tell(test, format!("too slow for limits times {factor}")),
            Err(Failure::Differs { seed, story }) => panic!(
                "{story}\nrepeat with MOORING_INTEROP_SEED={seed} cargo test --test interop {test}"
            ),
        }
    }
    panic!("{test}: the machine is too slow to tell");
}

/// Mounts segments that stay.
pub(crate) fn mount(pair: &Pair, numbers: std::ops::RangeInclusive<u64>, bytes: u64) {
    for side in [Side::Theirs, Side::Ours] {
        let mut client = pair.connect(side);
        let all: Vec<_> = numbers.clone().map(|number| segment(number, bytes)).collect();
        for segment in &all {
            let mount = MountSegment { segment: segment.clone(), client: STORE };
            client.call(&mount, Expected::unwrap);
        }
        client.call(&ReMountSegment { segments: all, client: STORE }, Expected::unwrap);
    }
}

/// The limits of both masters, in seconds.
struct Limits {
    lease: u64,
    discard: u64,
    release: u64,
    client: u64,
}

impl Limits {
    fn flags(&self) -> [String; 5] {
        [
            // Mooncake's master also evicts when an object is too large for any segment.
            "--eviction_ratio=0".to_owned(),
            format!("--default_kv_lease_ttl={}s", self.lease),
            format!("--put_start_discard_timeout_sec={}", self.discard),
            format!("--put_start_release_timeout_sec={}", self.release),
            format!("--client_ttl={}", self.client),
        ]
    }

    fn pair(&self, program: &OsString) -> Pair {
        Pair::start(program, &self.flags().each_ref().map(String::as_str))
    }
}

/// Longer than anything that is waited for.
const NEVER: u64 = 600;

/// A margin that keeps calls inside a limit, or the wait outside of it.
const MARGIN_MS: u64 = 200;

fn times(shortest: u64, longest: u64) -> Times {
    Times {
        epoch_max: Duration::from_millis(shortest * 1000 - MARGIN_MS),
        wait: Duration::from_millis(longest * 1000 + MARGIN_MS),
    }
}

/// Sequences about objects, all of them on one pair of masters with so many segments.
fn objects_on(
    program: &OsString,
    factor: u64,
    segments: u64,
    of_a_hundred: u64,
) -> Result<Tally, Failure> {
    let limit = 2 * factor;
    let limits = Limits { lease: limit, discard: limit, release: NEVER, client: NEVER };
    let pair = limits.pair(program);
    mount(&pair, 1..=segments, SEGMENT_BYTES);
    let mut tally = Tally::default();
    for seeds in seeds(of_a_hundred).chunks(SEQUENCES_MAX) {
        let sequence = |seed: &u64| objects::sequence(*seed, 4, segments);
        let sequences: Vec<Sequence> = seeds.iter().map(sequence).collect();
        let pairs = std::slice::from_ref(&pair);
        tally.add(run(pairs, sequences, segments == 1, times(limit, limit))?);
    }
    Ok(tally)
}

/// How many sequences run at once: so few that an epoch stays inside its limit on a busy machine.
const SEQUENCES_MAX: usize = 60;

#[test]
fn objects_live_alike_in_one_segment() {
    attempt("objects_live_alike_in_one_segment", |program, factor| {
        objects_on(program, factor, 1, 40)
    });
}

#[test]
fn objects_live_alike_in_three_segments() {
    attempt("objects_live_alike_in_three_segments", |program, factor| {
        objects_on(program, factor, 3, 22)
    });
}

#[test]
fn unfinished_writes_are_forgotten_alike() {
    attempt("unfinished_writes_are_forgotten_alike", |program, factor| {
        let limit = 2 * factor;
        let limits = Limits { lease: limit, discard: limit, release: limit + 1, client: NEVER };
        let pair = limits.pair(program);
        mount(&pair, 1..=1, SEGMENT_BYTES);
        let sequence = |seed| objects::sequence(seed, 2, 1);
        let sequences: Vec<Sequence> = seeds(15).into_iter().map(sequence).collect();
        // Mooncake's master looks for them once in a release timeout.
        run(&[pair], sequences, true, times(limit, 2 * limits.release + 1))
    });
}

/// How many pairs of masters run at once.
const PAIRS_MAX: usize = 12;

#[test]
fn segments_come_and_go_alike() {
    attempt("segments_come_and_go_alike", |program, factor| {
        let limit = 2 * factor;
        let limits = Limits { lease: limit, discard: NEVER - 1, release: NEVER, client: limit };
        let mut tally = Tally::default();
        for seeds in seeds(15).chunks(PAIRS_MAX) {
            let pairs: Vec<Pair> = seeds.iter().map(|_| limits.pair(program)).collect();
            let sequences = seeds.iter().map(|seed| segments::sequence(*seed)).collect();
            // Mooncake's master looks once a second who lives.
            tally.add(run(&pairs, sequences, true, times(limit, limit + 3))?);
        }
        Ok(tally)
    });
}
