//! What a run is made of. Everything in it is drawn from the seed.

use mooring_actors::core::Settings;
use mooring_proto::message::object::PutOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The plan of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) shards: u16,
    pub(crate) settings: Settings,
    pub(crate) stores: Vec<StorePlan>,
    pub(crate) clients: usize,
    /// How many different keys there are.
    pub(crate) keys: u32,
    pub(crate) sizes: Sizes,
    pub(crate) replicas_max: u8,
    /// How many puts are slow, revoked or abandoned.
    pub(crate) rude_ratio: f64,
    pub(crate) hard_pin_ratio: f64,
    pub(crate) soft_pin_ratio: f64,
    /// For how long clients work and faults happen.
    pub(crate) busy_ms: u64,
    /// The mean time between two requests of a client.
    pub(crate) pause_ms: u64,
    /// The mean time between two faults of a store.
    pub(crate) fault_pause_ms: u64,
    /// A fault of the harness itself, which has to be noticed.
    pub(crate) canary: Option<Canary>,
}

/// The memory of one store.
#[derive(Clone, Debug)]
pub(crate) struct StorePlan {
    pub(crate) memory_bytes: u64,
    pub(crate) segments: u64,
    /// Whether it checks the mount on each read and write, as native stores do.
    pub(crate) checks_mounts: bool,
}

/// The mix of object sizes: weights of small, medium and large ones.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) small_ratio: f64,
    pub(crate) medium_ratio: f64,
    pub(crate) largest_bytes: u64,
}

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    /// Stores write next to where they should.
    ShiftedWrites,
    /// Ticks bear a time that is to come, so that holds and leases end early.
    EarlyTicks,
    /// Some requests vanish.
    LostRequests,
    /// Readers read on when their lease is over, and take what they find for the object.
    LateReads,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64) -> Plan {
        let mut dice = SmallRng::seed_from_u64(seed);
        let lease_ttl_ms = log_uniform(&mut dice, 30, 1_500);
        let put_discard_timeout_ms = dice.random_range(200..=1_500);
        // A start may wait for two seconds with parts of its batch granted already.
        let put_release_timeout_ms = 2_500 + put_discard_timeout_ms + dice.random_range(0..=1_000);
        let settings = Settings {
            lease_ttl_ms,
            client_ttl_ms: dice.random_range(400..=1_200),
            put_discard_timeout_ms,
            put_release_timeout_ms,
            eviction_high_watermark_ratio: *pick(&mut dice, &[0.6, 0.8, 0.9, 0.95, 1.0]),
            eviction_ratio: *pick(&mut dice, &[0.0, 0.05, 0.1, 0.3]),
            ..Settings::default()
        };
        let stores: Vec<StorePlan> =
            (0..dice.random_range(1..=5)).map(|_| StorePlan::new(&mut dice)).collect();
        let largest_segment =
            stores.iter().map(|store| store.memory_bytes / store.segments).max().unwrap_or(1);
        Plan {
            seed,
            shards: dice.random_range(1..=4),
            settings,
            clients: dice.random_range(2..=6),
            keys: log_uniform(&mut dice, 30, 50_000) as u32,
            sizes: Sizes {
                small_ratio: *pick(&mut dice, &[0.0, 0.2, 0.5, 0.9]),
                medium_ratio: *pick(&mut dice, &[0.1, 0.5, 0.9]),
                // Now and then one is larger than any segment.
                largest_bytes: log_uniform(&mut dice, 32 << 10, largest_segment * 9 / 8),
            },
            stores,
            replicas_max: *pick(&mut dice, &[1, 1, 2, 3]),
            rude_ratio: *pick(&mut dice, &[0.01, 0.05, 0.25]),
            hard_pin_ratio: *pick(&mut dice, &[0.0, 0.0, 0.01, 0.05]),
            soft_pin_ratio: *pick(&mut dice, &[0.0, 0.1, 0.5]),
            busy_ms: dice.random_range(3_000..=7_000),
            pause_ms: log_uniform(&mut dice, 3, 40),
            fault_pause_ms: *pick(&mut dice, &[500, 1_500, 4_000, 1_000_000]),
            canary: None,
        }
    }
}

impl StorePlan {
    fn new(dice: &mut SmallRng) -> StorePlan {
        StorePlan {
            memory_bytes: log_uniform(dice, 256 << 10, 16 << 20) / 64 * 64,
            segments: dice.random_range(1..=3),
            checks_mounts: dice.random_bool(0.5),
        }
    }
}

impl Sizes {
    /// The size of the next object.
    pub(crate) fn draw(&self, dice: &mut SmallRng) -> u64 {
        let (low, high) = if dice.random_bool(self.small_ratio) {
            (1, 4 << 10)
        } else if dice.random_bool(self.medium_ratio) {
            (4 << 10, 256 << 10)
        } else {
            (64 << 10, self.largest_bytes)
        };
        log_uniform(dice, low, high.min(self.largest_bytes))
    }
}

/// The options of the next batch of puts.
pub(crate) fn draw_options(plan: &Plan, dice: &mut SmallRng) -> PutOptions {
    PutOptions {
        replicas: dice.random_range(1..=plan.replicas_max),
        preferred_segments: Vec::new(),
        hard_pin: dice.random_bool(plan.hard_pin_ratio),
        soft_pin_ttl_ms: dice
            .random_bool(plan.soft_pin_ratio)
            .then(|| dice.random_range(1..=5_000)),
    }
}

/// One of several.
pub(crate) fn pick<'a, T>(dice: &mut SmallRng, choices: &'a [T]) -> &'a T {
    &choices[dice.random_range(0..choices.len())]
}

/// A number between two others, each order of magnitude equally likely.
pub(crate) fn log_uniform(dice: &mut SmallRng, low: u64, high: u64) -> u64 {
    let (low, high) = (low.min(high).max(1), high.max(low).max(1));
    let exponent = dice.random_range((low as f64).ln()..=(high as f64).ln());
    (exponent.exp() as u64).clamp(low, high)
}
