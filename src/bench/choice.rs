//! Which of the keys a request names.

use clap::ValueEnum;
use rand::Rng;

/// How requests are spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Distribution {
    /// All keys alike
    Uniform,
    /// A few keys often and most keys seldom: Zipf's law with the exponent 0.99
    Zipf,
    /// One key alone
    Hot,
}

/// Draws the numbers of keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// Every number below this one alike.
    Uniform(u64),
    /// The lower a number, the more often.
    Zipf(Zipf),
    /// Number zero.
    Hot,
}

impl Choice {
    /// Of so many keys, at least one.
    pub(super) fn new(distribution: Distribution, keys: u64) -> Choice {
        match distribution {
            Distribution::Uniform => Choice::Uniform(keys.max(1)),
            Distribution::Zipf => Choice::Zipf(Zipf::new(keys.max(1))),
            Distribution::Hot => Choice::Hot,
        }
    }

    /// The number of the next key.
    pub(super) fn draw(&self, random: &mut impl Rng) -> u64 {
        match self {
            Choice::Uniform(keys) => random.random_range(0..*keys),
            Choice::Zipf(zipf) => zipf.draw(random),
            Choice::Hot => 0,
        }
    }
}

/// Zipf's law by rejection and inversion (Hörmann and Derflinger, 1996): exact, without a table, in
/// time that does not depend on the number of keys.
///
/// The weight of rank `k` is the area of a bar from `k - 1/2` to `k + 1/2`. A point is drawn under
/// the smooth curve through the bars, whose integral has an inverse, and counts if it is under its
/// bar too; nearly all are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    keys: u64,
    /// The integral where the first bar begins, so that it has its whole weight.
    area_first: f64,
    /// The integral where the last bar ends.
    area_last: f64,
    /// A point this near below its rank is under the bar without a further look.
    surely_within: f64,
}

impl Zipf {
    fn new(keys: u64) -> Zipf {
        Zipf {
            keys,
            area_first: integral(1.5) - 1.0,
            area_last: integral(keys as f64 + 0.5),
            surely_within: 2.0 - inverse(integral(2.5) - weight(2.0)),
        }
    }

    /// A number below that of the keys; zero is the most frequent one.
    fn draw(&self, random: &mut impl Rng) -> u64 {
        loop {
            let share: f64 = random.random();
            let area = self.area_last + share * (self.area_first - self.area_last);
            let point = inverse(area);
            let rank = point.round().clamp(1.0, self.keys as f64);
            let within = rank - point <= self.surely_within;
            if within || area >= integral(rank + 0.5) - weight(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

fn weight(rank: f64) -> f64 {
    rank.powf(-EXPONENT)
}

/// The integral of the weight from one on.
fn integral(end: f64) -> f64 {
    (end.powf(1.0 - EXPONENT) - 1.0) / (1.0 - EXPONENT)
}

/// Where the integral has this value.
fn inverse(area: f64) -> f64 {
    (area * (1.0 - EXPONENT) + 1.0).powf(1.0 / (1.0 - EXPONENT))
}

/// What the benchmarks of stores have agreed on.
const EXPONENT: f64 = 0.99;

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    const DRAWS: usize = 100_000;

    fn counts(distribution: Distribution, keys: u64) -> Vec<usize> {
        let (choice, mut random) = (Choice::new(distribution, keys), SmallRng::seed_from_u64(1));
        let mut counts = vec![0; keys as usize];
        (0..DRAWS).for_each(|_| counts[choice.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn every_rank_of_zipf_has_its_share() {
        let keys = 1_000;
        let counts = counts(Distribution::Zipf, keys);
        let total: f64 = (1..=keys).map(|rank| weight(rank as f64)).sum();
        for rank in [1, 2, 3, 10, 100] {
            let expected = DRAWS as f64 * weight(rank as f64) / total;
            let drawn = counts[rank - 1] as f64;
            // Five standard deviations.
            assert!((drawn - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {drawn}");
        }
    }

    #[test]
    fn uniform_draws_reach_all_keys_about_equally() {
        let counts = counts(Distribution::Uniform, 100);
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_hot_key_is_the_only_one() {
        assert_eq!(counts(Distribution::Hot, 10)[0], DRAWS);
    }

    #[test]
    fn a_single_key_and_more_than_memory_could_count_are_drawn_from() {
        let mut random = SmallRng::seed_from_u64(1);
        for keys in [1, 2, 1 << 40] {
            let choice = Choice::new(Distribution::Zipf, keys);
            assert!((0..1_000).all(|_| choice.draw(&mut random) < keys));
        }
    }
}
