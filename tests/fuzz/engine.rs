//! The engine: seeded damage, and a corpus that grows by what leads to something new.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::counting::peak_of;

/// A decoder under test.
pub(crate) struct Decoder {
    /// Also the name of its file of former faults.
    pub(crate) name: &'static str,
    /// Good inputs to begin with.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Bytes at the front of an input without which nothing behind them is looked at. They are damaged
    /// less often.
    pub(crate) front_bytes: usize,
    /// Decodes, panics if something does not hold, and says in a few words what came out. Numbers in
    /// the words do not matter: an input with new words is kept.
    pub(crate) feed: fn(&[u8]) -> String,
}

/// Feeds a decoder its seeds, its former faults and damaged inputs, as long as the environment says.
pub(crate) fn run(decoder: &Decoder) {
    let budget = Budget::of_environment();
    let mut corpus = decoder.seeds.clone();
    corpus.extend(former_faults(decoder.name));
    let kept = kept_file(decoder.name);
    corpus.extend(kept.as_deref().map(inputs_in).unwrap_or_default());
    assert!(!corpus.is_empty(), "{}: nothing to begin with", decoder.name);
    let mut outcomes = HashSet::new();
    for input in &corpus {
        outcomes.insert(outcome_of(decoder, input));
    }
    let mut rng = SmallRng::seed_from_u64(budget.seed);
    let began = Instant::now();
    let mut cases = 0_u64;
    while budget.goes_on(cases, began.elapsed()) {
        let input = damaged(&mut rng, &corpus, decoder.front_bytes);
        if outcomes.insert(outcome_of(decoder, &input)) && corpus.len() < CORPUS_MAX {
            corpus.push(input);
        }
        cases += 1;
    }
    if let Some(path) = kept {
        keep(&path, &corpus[decoder.seeds.len()..]);
    }
}

/// What `work` returns. It may take at most so many bytes for each one of the input, and a fixed amount
/// for the texts of an error.
pub(crate) fn within<T>(input: &[u8], cost: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak_bytes) = peak_of(work);
    let limit = cost * input.len() + ERROR_BYTES;
    assert!(peak_bytes <= limit, "{peak_bytes} bytes for {} of input", input.len());
    result
}

/// Bytes that are written down in hexadecimal.
pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "half a byte in {hex}");
    let pairs = (0..hex.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// How long a run lasts.
struct Budget {
    seed: u64,
    cases: u64,
    /// Instead of a number of cases.
    time: Option<Duration>,
}

impl Budget {
    fn of_environment() -> Budget {
        let number = |name: &str| {
            let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text} is no number")))
        };
        let time = number("MOORING_FUZZ_SECONDS").map(Duration::from_secs);
        // A long run that began like every other one would find little.
        let usual = if time.is_some() { rand::random() } else { 1 };
        let seed = number("MOORING_FUZZ_SEED").unwrap_or(usual);
        Budget { seed, cases: number("MOORING_FUZZ_CASES").unwrap_or(CASES), time }
    }

    fn goes_on(&self, cases: u64, elapsed: Duration) -> bool {
        self.time.map_or(cases < self.cases, |time| elapsed < time)
    }
}

/// Feeds one input; if that fails, with a word about which one it was.
fn outcome_of(decoder: &Decoder, input: &[u8]) -> u64 {
    let feed = decoder.feed;
    let outcome = std::panic::catch_unwind(|| feed(input)).unwrap_or_else(|_| {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} does not stand this input: {hex}", decoder.name)
    });
    let mut hasher = DefaultHasher::new();
    for letter in outcome.chars().filter(|letter| !letter.is_ascii_digit()) {
        letter.hash(&mut hasher);
    }
    hasher.finish()
}

/// One input a line; what begins with `#` is a remark.
fn former_faults(name: &str) -> Vec<Vec<u8>> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fuzz");
    inputs_in(&fixtures.join(format!("{name}.txt")))
}

/// Where the environment says that runs keep what led to something new, for the next one to go on from.
fn kept_file(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("MOORING_FUZZ_CORPUS").filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder).join(format!("{name}.txt")))
}

fn keep(path: &Path, inputs: &[Vec<u8>]) {
    let line = |input: &Vec<u8>| input.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut lines: Vec<String> = inputs.iter().map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Those of a file; none if there is no such file.
fn inputs_in(path: &Path) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(bytes_of).collect()
}

fn damaged(rng: &mut SmallRng, corpus: &[Vec<u8>], front_bytes: usize) -> Vec<u8> {
    let mut input = corpus.choose(rng).unwrap().clone();
    let spared = if rng.random_ratio(7, 8) { front_bytes.min(input.len()) } else { 0 };
    for _ in 0..rng.random_range(1..=4) {
        damage(rng, &mut input, spared, corpus);
    }
    input
}

/// Changes something behind the first `spared` bytes.
fn damage(rng: &mut SmallRng, input: &mut Vec<u8>, spared: usize, corpus: &[Vec<u8>]) {
    // A front of a longer input may be left after a cut.
    let spared = spared.min(input.len());
    let at = rng.random_range(spared..=input.len());
    match rng.random_range(0..8) {
        0 => input.truncate(at),
        1 => {
            let bytes = rng.random_range(1..=16);
            let filling = *[0, 1, 0x7f, 0x80, 0xff].choose(rng).unwrap();
            input.splice(at..at, std::iter::repeat_n(filling, bytes));
        }
        2 => {
            let end = rng.random_range(at..=input.len());
            input.drain(at..end.min(at + 32));
        }
        3 => {
            let end = rng.random_range(at..=input.len());
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        4 => {
            let other = corpus.choose(rng).unwrap();
            let from = rng.random_range(0..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        5 => {
            // A number of any width, near a power of two: what counts and lengths are made of.
            let number = (1_u64 << rng.random_range(0..64)).wrapping_sub(rng.random_range(0..3));
            let width = *[1, 2, 4, 8].choose(rng).unwrap();
            for (place, byte) in input[at..].iter_mut().zip(&number.to_le_bytes()[..width]) {
                *place = *byte;
            }
        }
        6 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.random_range(0..8);
            }
        }
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte = rng.random();
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// Inputs that are kept; many more tell nothing new.
const CORPUS_MAX: usize = 4096;

/// Long enough for lists of lists, and short enough for many inputs a second.
const INPUT_BYTES_MAX: usize = 4096;

/// Damaged inputs of a short run.
const CASES: u64 = 20_000;

/// What the texts of an error may take.
const ERROR_BYTES: usize = 16 << 10;

#[test]
fn what_a_run_keeps_is_what_the_next_one_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("of its own/decoder.txt");
    assert_eq!(inputs_in(&path), Vec::<Vec<u8>>::new());
    let inputs = [vec![0, 0xff], b"abc".to_vec(), vec![0, 0xff]];
    keep(&path, &inputs);
    assert_eq!(inputs_in(&path), [vec![0, 0xff], b"abc".to_vec()]);
}
