//! The flags of `mooring bench run`, and what the presets put in their place.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::choice::Distribution;
use crate::command::connect::ClientArgs;
use crate::command::units::ByteSize;
use crate::config;

/// The protocol that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// That of this master
    Quic,
    /// That of Mooncake, which its own master speaks too
    Mooncake,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Operation {
    /// Put new keys, start and end
    Put,
    /// Get keys that are there
    Get,
    /// Ask whether keys are there
    Exist,
    /// Ask how much of a chain of keys is there (QUIC only)
    MatchPrefix,
    /// Remove keys, each once
    Remove,
    /// Gets beside puts of new keys
    Mixed,
    /// Put new keys and remove the oldest, so that as many stay
    Churn,
    /// Put --keys keys and end
    Fill,
}

/// A load that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Preset {
    /// One cell in production: 88 % full, 9,300 puts/s in batches of 64 beside 64,000 gets/s in
    /// batches of 128, in an open loop
    Production,
    /// The bench of Mooncake: batches of 4096 from 8 connections with 4 requests each, 16 segments
    Published,
}

/// Load a master, and measure rate, latency, and what the master uses
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// The protocol; --master is then the address of that port
    #[arg(long, value_enum, default_value_t = Transport::Quic)]
    pub(super) transport: Transport,

    /// What to ask for
    #[arg(long, value_enum, default_value_t = Operation::Get)]
    pub(super) operation: Operation,

    /// A load that is known by name; flags that are given go before its own
    #[arg(long, value_enum)]
    pub(super) preset: Option<Preset>,

    /// How many keys are there before the measurement, or are put by a fill [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub(super) keys: Option<u64>,

    /// The keys are there already, put with the same --seed and --key-bytes; no segment is mounted
    #[arg(long)]
    pub(super) no_fill: bool,

    /// The length of a key
    #[arg(long, value_name = "BYTES", default_value_t = 96)]
    pub(super) key_bytes: usize,

    /// The size of an object, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "262144")]
    pub(super) value_bytes: ByteSize,

    /// Keys in one request, 1 to 65536 [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) batch: Option<u32>,

    /// Connections that ask [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) connections: Option<u32>,

    /// Requests under way on each connection; with Mooncake each is a socket of its own [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(super) in_flight: Option<u32>,

    /// Threads that generate the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// How long to measure; seconds, or with a unit
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = config::seconds)]
    pub(super) duration: Duration,

    /// How long to load before that; 0, seconds, or with a unit
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = perhaps_seconds)]
    pub(super) warm_up: Duration,

    /// Keys per second in an open loop: requests are sent when they are due, and latency counts
    /// from then; without it each request waits for the one before it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    pub(super) rate: Option<u64>,

    /// How requests are spread over the keys
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(super) distribution: Distribution,

    /// With mixed: the share of requests that are gets, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = share)]
    pub(super) get_share: f64,

    /// Segments to mount [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) segments: Option<u32>,

    /// The size of each segment
    #[arg(long, value_name = "SIZE", default_value = "675GiB")]
    pub(super) segment_bytes: ByteSize,

    /// The process of the master on this machine, whose processor time and memory are told
    #[arg(long, value_name = "PID")]
    pub(super) master_pid: Option<u32>,

    /// The master's metrics page, to ask a master of Mooncake how many objects it has
    #[arg(long, value_name = "HOST:PORT", value_parser = config::host_and_port)]
    pub(super) metrics: Option<String>,

    /// Start a master with this command, load it, and end it; given twice, the two take turns, and
    /// medians and ratios are told. Both must serve at --master
    #[arg(long, value_name = "COMMAND", conflicts_with = "master_pid")]
    pub(super) compare: Vec<String>,

    /// With --compare: how often each master is loaded
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,

    /// Another seed makes other keys
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Zero too, unlike the other times.
fn perhaps_seconds(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { config::seconds(text) }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

/// Far above any pool, and far below where numbers of keys would wrap.
const KEYS_MAX: u64 = 1 << 40;

/// Above it requests would be due in less than a nanosecond.
const RATE_MAX: u64 = 1_000_000_000;
