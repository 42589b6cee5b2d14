//! What one seed stands for: how large the cluster is, and what goes wrong when.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::wire::Weather;

/// A plan.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) stores: u8,
    pub(crate) clients: u8,
    /// The weather of each stretch of time, one after the other.
    pub(crate) weathers: Vec<Weather>,
    /// How long each of them lasts.
    pub(crate) stretch: Duration,
    /// Who is cut off from everybody else, and when.
    pub(crate) cuts: Vec<(IpAddr, Range<Duration>)>,
    /// Of clients.
    pub(crate) request_timeout: Duration,
    /// A fault that must be noticed.
    pub(crate) canary: Option<Canary>,
}

/// A fault that is planted when the network is fair again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    /// An object is taken for another one.
    OtherBytes,
    /// An object is removed that nobody removes.
    LostObject,
    /// A client stays when all have gone.
    StayingClient,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64) -> Plan {
        let mut random = StdRng::seed_from_u64(seed);
        let (stores, clients) = (random.random_range(1..=2), random.random_range(2..=4));
        let stretch = Duration::from_secs(random.random_range(3..=8));
        let packet_bytes_max = pick(&mut random, [1_300, 1_500, 1_500, 4_000, 9_000]);
        let weathers: Vec<Weather> = (0..random.random_range(2..=4))
            .map(|_| Weather { packet_bytes_max, ..weather(&mut random) })
            .collect();
        let lasts = stretch * weathers.len() as u32;
        let hosts: Vec<IpAddr> = (0..stores).map(store).chain((0..clients).map(client)).collect();
        let cuts = (0..random.random_range(0..=3))
            .map(|_| {
                // The master is all of the network for everybody, so it has a larger share.
                let host = match random.random_bool(0.3) {
                    true => MASTER,
                    false => hosts[random.random_range(0..hosts.len())],
                };
                let from = lasts.mul_f64(random.random_range(0.0..0.8));
                let until = from + Duration::from_millis(random.random_range(100..=12_000));
                (host, from..until.min(lasts))
            })
            .collect();
        let request_timeout = Duration::from_secs(random.random_range(2..=10));
        Plan { seed, stores, clients, weathers, stretch, cuts, request_timeout, canary: None }
    }

    /// A plan in which nothing goes wrong, with one store.
    pub(crate) fn fair(seed: u64) -> Plan {
        Plan {
            seed,
            stores: 1,
            clients: 1,
            weathers: Vec::new(),
            stretch: Duration::from_secs(1),
            cuts: Vec::new(),
            request_timeout: Duration::from_secs(10),
            canary: None,
        }
    }

    /// How long things go wrong.
    pub(crate) fn lasts(&self) -> Duration {
        self.stretch * self.weathers.len() as u32
    }

    /// The weather after so much time.
    pub(crate) fn weather(&self, passed: Duration) -> Weather {
        let stretch = passed.as_millis() / self.stretch.as_millis();
        self.weathers.get(stretch as usize).copied().unwrap_or(Weather::FAIR)
    }

    /// Who is cut off after so much time.
    pub(crate) fn cut_off(&self, passed: Duration) -> BTreeSet<IpAddr> {
        self.cuts.iter().filter(|(_, when)| when.contains(&passed)).map(|(host, _)| *host).collect()
    }
}

fn weather(random: &mut StdRng) -> Weather {
    let milliseconds = |ms: u64| Duration::from_millis(ms);
    Weather {
        lost: pick(random, [0.0, 0.01, 0.05, 0.2]),
        doubled: pick(random, [0.0, 0.0, 0.05, 0.3]),
        damaged: pick(random, [0.0, 0.0, 0.02]),
        delay: milliseconds(pick(random, [1, 1, 5, 40])),
        jitter: milliseconds(pick(random, [0, 2, 20, 100])),
        bytes_per_s: pick(random, [300_000, 3_000_000, 100_000_000, 1 << 30]),
        queue_bytes: pick(random, [20_000, 200_000, 16 << 20]),
        ..Weather::FAIR
    }
}

fn pick<T: Copy, const N: usize>(random: &mut StdRng, of: [T; N]) -> T {
    of[random.random_range(0..N)]
}

/// Where a store is.
pub(crate) fn store(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 1, number))
}

/// Where a client is.
pub(crate) fn client(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 2, number))
}

/// Where the master is.
pub(crate) const MASTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
