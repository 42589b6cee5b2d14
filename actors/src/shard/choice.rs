//! Which segment a put tries first, so that the load spreads over all of them.

use super::ranges::SegmentIndex;
use super::state::Shard;
use crate::moment::Moment;
use crate::pool::message::Mount;

/// How the first segment is chosen for a put that prefers none.
///
/// Whatever the choice, a segment that has just been mounted gets no more than its fair share for
/// [`SLOW_START_MS`]: it is the emptiest of all, and everything new, which is also what is read most,
/// would go to this one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocationStrategy {
    /// Of two at random, the one with the higher share of free bytes: spreads nearly as evenly as a
    /// look at all of them, and does not send every shard to the same one.
    #[default]
    TwoChoices,
    /// One at random.
    Random,
    /// Of [`SAMPLE`] in a row from a random one on, the one with the highest share of free bytes.
    FreeRatioFirst,
}

impl Shard {
    /// The segment that is tried first. There must be one on which objects may be placed.
    pub(super) fn first_choice(&mut self, now: Moment) -> SegmentIndex {
        let count = self.segments.placeable().len();
        let start = self.dice.below(count);
        let first = self.segments.placeable()[start];
        match self.config.allocation_strategy {
            AllocationStrategy::Random => first,
            AllocationStrategy::TwoChoices => {
                let second = self.segments.placeable()[self.dice.below(count)];
                self.better(now, first, second)
            }
            AllocationStrategy::FreeRatioFirst => {
                (1..SAMPLE.min(count)).fold(first, |best, step| {
                    let other = self.segments.placeable()[(start + step) % count];
                    self.better(now, best, other)
                })
            }
        }
    }

    /// A segment has just been mounted.
    pub(super) fn start_slowly(&mut self, now: Moment, mount: Mount) {
        if let Some(segment) = self.segments.of_mount(mount) {
            segment.slow_until = now.after_ms(SLOW_START_MS);
        }
    }

    /// The second one if it has the higher share of free bytes, and not only because it has just come.
    fn better(&self, now: Moment, first: SegmentIndex, second: SegmentIndex) -> SegmentIndex {
        let starts_slowly = self.starts_slowly(now, second, first);
        if self.is_roomier(second, first) && !starts_slowly { second } else { first }
    }

    /// Whether a segment has just come, and to where another one was already. Those that come together
    /// are each as new as the other.
    fn starts_slowly(&self, now: Moment, index: SegmentIndex, beside: SegmentIndex) -> bool {
        let until = self.segments.at(index).slow_until;
        now < until && until.since_ms(self.segments.at(beside).slow_until) > TOGETHER_MS
    }

    /// Whether a segment has the higher share of free bytes: exactly, so that small objects count on a
    /// large segment too.
    fn is_roomier(&self, index: SegmentIndex, than: SegmentIndex) -> bool {
        let (one, other) = (self.segments.at(index), self.segments.at(than));
        let product = |free_bytes, bytes| u128::from(free_bytes) * u128::from(bytes);
        product(one.space_bytes, other.capacity_bytes)
            > product(other.space_bytes, one.capacity_bytes)
    }
}

/// A small generator for choices that only have to be spread: xorshift, seeded, so that a run can be
/// repeated.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        // Zero is the one state that xorshift never leaves.
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

/// For how long a new segment is taken only when chance picks it. In this time a store at a fair share
/// of the load has warmed up its connections.
const SLOW_START_MS: u64 = 60_000;

/// The stores of one place are started about as closely, and little is put meanwhile.
const TOGETHER_MS: u64 = 2_000;

/// As many as the existing master looks at for one replica.
const SAMPLE: usize = 6;
