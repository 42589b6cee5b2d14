//! What a run is made of. Everything in it is drawn from the seed.

use mooring_actors::core::Settings;
use mooring_proto::message::object::PutOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::network::NetworkPlan;

/// The plan of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) shards: u16,
    pub(crate) settings: Settings,
    pub(crate) stores: Vec<StorePlan>,
    pub(crate) clients: usize,
    /// How many of them have no tokens.
    pub(crate) tokenless_clients: usize,
    /// How many different keys there are.
    pub(crate) keys: u32,
    pub(crate) sizes: Sizes,
    pub(crate) replicas_max: u8,
    /// How many groups there are; zero for none.
    pub(crate) groups: u32,
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
    /// When the master leaves and how, one after the other.
    pub(crate) restarts: Vec<RestartPlan>,
    pub(crate) network: NetworkPlan,
    /// The mean time between two stalls of the master; zero for none.
    pub(crate) stall_pause_ms: u64,
    /// How long a lease or a timeout of the master is by the clocks of its clients. Clocks that run
    /// fast are safe; what slow ones do is no fault of the master.
    pub(crate) clock_ratio: f64,
    /// Stores never say which master they were mounted with before.
    pub(crate) nameless: bool,
    /// A fault of the harness itself, which has to be noticed.
    pub(crate) canary: Option<Canary>,
}

/// The memory of one store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StorePlan {
    pub(crate) memory_bytes: u64,
    pub(crate) segments: u64,
    /// Whether it checks the mount on each read and write, as native stores do.
    pub(crate) checks_mounts: bool,
}

/// The mix of object sizes: weights of small, medium and large ones.
#[derive(Clone, Debug, PartialEq)]
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
    /// Orders to evict bear a time at which every lease is over.
    IgnoredLeases,
    /// What is said of a put with a stale token is taken to be about the current one.
    StaleTokens,
    /// Writers call a put settled although a write is in doubt.
    QuietDoubts,
    /// Clients without tokens have several puts of a key under way.
    HastyWriters,
    /// Those who write to memory without asking its store go on when the master was killed.
    RestlessWriters,
    /// Nobody says of memory that is reached without asking its store which master had it before.
    UnnamedMasters,
    /// A store whose memory is reached without asking it starts again at the same address.
    SameAddress,
    /// The clocks of readers and writers run at half the rate.
    SlowClocks,
    /// Some requests vanish.
    LostRequests,
    /// Stores do not say which segments they keep, so nobody tells them of others.
    UntoldMounts,
    /// Readers read on when their lease is over, and take what they find for the object.
    LateReads,
    /// The first snapshot is used again at each restart.
    StaleSnapshot,
    /// A segment is taken for the same whatever its base.
    UncheckedBase,
    /// A key that was removed while it was hidden comes back with its segment.
    RevivedKeys,
    /// What is held is not handed over.
    DroppedHolds,
    /// Writers do not say which group they put an object into.
    UntoldGroups,
    /// Which group an object is in is not handed over.
    DroppedGroups,
    /// To the master each object is a group of its own, whose name begins with that of its group.
    LonelyMembers,
    /// The time of a restored master begins before it serves.
    EarlyTime,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64) -> Plan {
        let mut dice = SmallRng::seed_from_u64(seed);
        let lease_ttl_ms = log_uniform(&mut dice, 30, 1_500);
        let put_discard_timeout_ms = dice.random_range(200..=1_500);
        let client_ttl_ms = dice.random_range(400..=1_200);
        // A start may wait for two seconds with parts of its batch granted already, and a write for a
        // store that hangs until it counts as offline.
        let spare_ms = 2_500.max(3 * client_ttl_ms + 500) + dice.random_range(0..=1_000);
        let put_release_timeout_ms = put_discard_timeout_ms + spare_ms;
        let settings = Settings {
            lease_ttl_ms,
            client_ttl_ms,
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
            tokenless_clients: 0,
            keys: log_uniform(&mut dice, 30, 50_000) as u32,
            sizes: Sizes {
                small_ratio: *pick(&mut dice, &[0.0, 0.2, 0.5, 0.9]),
                medium_ratio: *pick(&mut dice, &[0.1, 0.5, 0.9]),
                // Now and then one is larger than any segment.
                largest_bytes: log_uniform(&mut dice, 32 << 10, largest_segment * 9 / 8),
            },
            stores,
            groups: 0,
            replicas_max: *pick(&mut dice, &[1, 1, 2, 3]),
            rude_ratio: *pick(&mut dice, &[0.01, 0.05, 0.25]),
            hard_pin_ratio: *pick(&mut dice, &[0.0, 0.0, 0.01, 0.05]),
            soft_pin_ratio: *pick(&mut dice, &[0.0, 0.1, 0.5]),
            busy_ms: dice.random_range(3_000..=7_000),
            pause_ms: log_uniform(&mut dice, 3, 40),
            fault_pause_ms: *pick(&mut dice, &[500, 1_500, 4_000, 1_000_000]),
            restarts: Vec::new(),
            network: NetworkPlan::default(),
            stall_pause_ms: 0,
            clock_ratio: 1.0,
            nameless: false,
            canary: None,
        }
        .with_restarts()
        .with_network()
    }

    /// The same with restarts of the master in most plans. They are drawn apart, so that all else is
    /// as it would be without.
    fn with_restarts(mut self) -> Plan {
        let mut dice = SmallRng::seed_from_u64(self.seed ^ RESTART_SALT);
        if dice.random_bool(0.25) {
            return self;
        }
        // Without a handoff the check of each access keeps those away who came before.
        let may_be_lost = dice.random_bool(0.3);
        // Of those that do not check it others keep away who came before.
        if may_be_lost && dice.random_bool(0.6) {
            self.stores.iter_mut().for_each(|store| store.checks_mounts = true);
        }
        let ttl_ms = self.settings.client_ttl_ms;
        self.settings.pending_timeout_ms =
            dice.random_bool(0.2).then(|| dice.random_range(100..=2 * ttl_ms));
        for _ in 0..dice.random_range(1..=5) {
            self.restarts.push(RestartPlan {
                after_ms: log_uniform(&mut dice, 1, 3_000),
                gap_ms: *pick(&mut dice, &[0, 1, 20, ttl_ms / 2, 2 * ttl_ms]),
                shards: if dice.random_bool(0.4) { dice.random_range(1..=4) } else { self.shards },
                leaving: match dice.random_range(0..4) {
                    0 if may_be_lost => Leaving::Killed,
                    1 if may_be_lost && dice.random_bool(0.5) => Leaving::KilledOnTheWay,
                    1 if may_be_lost => Leaving::SnapshotLost,
                    _ => Leaving::HandsOver,
                },
                store_fault_ratio: *pick(&mut dice, &[0.0, 0.1, 0.5]),
            });
        }
        self
    }

    /// The same with a network that is no good, in most plans, with stalls and with clocks that run at
    /// other rates; drawn apart as well.
    fn with_network(mut self) -> Plan {
        let mut dice = SmallRng::seed_from_u64(self.seed ^ NETWORK_SALT);
        if dice.random_bool(0.7) {
            self.network = NetworkPlan::new(&mut dice, self.settings.client_ttl_ms);
        }
        self.stall_pause_ms = *pick(&mut dice, &[0, 0, 0, 2_000, 6_000]);
        self.tokenless_clients = *pick(&mut dice, &[0, 0, 1, 2, 6]);
        self.clock_ratio = *pick(&mut dice, &[1.0, 1.0, 0.99, 0.8]);
        self.groups = *pick(&mut dice, &[0, 0, 2, 10, 100]);
        self
    }

    /// A plan of nothing but kills, with memory that is reached without asking its store.
    pub(crate) fn of_kills(seed: u64, canary: Canary) -> Plan {
        let mut plan = Plan::of_handoffs(seed, canary);
        plan.nameless = false;
        plan.restarts.iter_mut().for_each(|restart| restart.leaving = Leaving::Killed);
        plan
    }

    /// A plan in which objects of a few groups are evicted all the while.
    pub(crate) fn of_groups(seed: u64, canary: Canary) -> Plan {
        let plan = Plan::of_handoffs(seed, canary);
        let restarts = if canary == Canary::DroppedGroups { plan.restarts } else { Vec::new() };
        Plan { restarts, groups: 5, replicas_max: 1, ..plan }
    }

    /// A plan of stores that start again, with memory that is reached without asking them.
    pub(crate) fn of_crashes(seed: u64, canary: Canary) -> Plan {
        let plan = Plan::of_handoffs(seed, canary);
        Plan { restarts: Vec::new(), fault_pause_ms: 200, ..plan }
    }

    /// A plan of clients without tokens that take their time.
    pub(crate) fn of_writers(seed: u64, canary: Canary) -> Plan {
        let plan = Plan::new(seed);
        Plan {
            tokenless_clients: plan.clients,
            rude_ratio: 0.25,
            keys: 100,
            canary: Some(canary),
            ..plan
        }
    }

    /// A plan in which a fault of the handoff shows soon: nothing but handoffs, and stores that take
    /// any access.
    pub(crate) fn of_handoffs(seed: u64, canary: Canary) -> Plan {
        let plan = Plan::new(seed);
        let restart = RestartPlan {
            after_ms: 500,
            gap_ms: 20,
            shards: plan.shards,
            leaving: Leaving::HandsOver,
            store_fault_ratio: if canary == Canary::UncheckedBase { 0.7 } else { 0.0 },
        };
        let stores = plan.stores.iter().cloned();
        Plan {
            restarts: vec![restart; 5],
            nameless: true,
            canary: Some(canary),
            stores: stores.map(|store| StorePlan { checks_mounts: false, ..store }).collect(),
            settings: Settings {
                lease_ttl_ms: 300,
                pending_timeout_ms: None,
                ..plan.settings.clone()
            },
            keys: 200,
            pause_ms: 5,
            rude_ratio: 0.25,
            ..plan
        }
    }
}

/// A restart of the master.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RestartPlan {
    /// So long after the master before has begun to serve.
    pub(crate) after_ms: u64,
    /// For so long no master serves.
    pub(crate) gap_ms: u64,
    /// How many shards the next one has.
    pub(crate) shards: u16,
    pub(crate) leaving: Leaving,
    /// How many stores have a fault of their own meanwhile.
    pub(crate) store_fault_ratio: f64,
}

/// How a master leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It comes to rest, and the next one gets what it had.
    HandsOver,
    /// It comes to rest, but the next one finds nothing that it may use.
    SnapshotLost,
    /// It begins to come to rest, and ends in the midst of that, if it has not left before.
    KilledOnTheWay,
    /// It ends in the midst of everything.
    Killed,
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

/// So that restarts, and the network, are drawn apart from all else.
const RESTART_SALT: u64 = 0x4e57_a47e_d5a1_7000;

const NETWORK_SALT: u64 = 0x0e7e_0f0e_71e5_0000;

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
