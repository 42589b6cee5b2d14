//! The flags of `mooring master`.

mod handoff;
mod mooncake;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

pub(super) use self::handoff::HandoffArgs;
pub(super) use self::mooncake::MooncakeArgs;
use crate::config::{
    client_ttl, eviction_ratio, milliseconds, seconds, seconds_or_none, watermark_ratio,
};
use crate::frontend::addresses::CONNECTIONS_PER_ADDRESS_MAX;
use crate::telemetry::TelemetryArgs;
use crate::tls::NamePattern;

/// How a master runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct MasterArgs {
    /// UDP port of the QUIC listener; 0 takes any free one, see --ready-file
    #[arg(long, default_value_t = 50051, value_name = "PORT", help_heading = "Network")]
    pub(super) rpc_port: u16,

    /// IP address of the QUIC listener; by default all addresses, of both families if the system
    /// has IPv6
    #[arg(long, value_name = "IP", help_heading = "Network")]
    pub(super) rpc_address: Option<IpAddr>,

    /// Connections that one IP address may have at a time, on the QUIC port and on that for Mooncake
    /// each, at least 1; more are refused. Raise it where many machines come from one address. What
    /// comes over the loopback is not limited
    #[arg(long, default_value_t = CONNECTIONS_PER_ADDRESS_MAX as u32, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), help_heading = "Network")]
    pub(super) max_connections_per_address: u32,

    /// TCP port of the admin pages /health, /ready, /metrics, /status, /version, /log_level, and those
    /// of Mooncake's master; 0 takes any free one
    #[arg(long, default_value_t = 9003, value_name = "PORT", help_heading = "Network")]
    pub(super) metrics_port: u16,

    /// IP address of the admin pages; they know no authentication
    #[arg(long, default_value = "127.0.0.1", value_name = "IP", help_heading = "Network")]
    pub(super) metrics_address: IpAddr,

    /// Develop without certificates: make one that signs itself, and print its SHA-256; clients on
    /// this machine find it by their own --dev, others take it by --pin-sha256
    #[arg(long, help_heading = "TLS")]
    pub(super) dev: bool,

    /// Certificate chain in PEM, the own certificate first; read again on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Private key of the certificate in PEM; read again on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) tls_key: Option<PathBuf>,

    /// Roots in PEM that certificates of clients must lead to; without it every client may
    /// connect; read again on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) tls_client_ca: Option<PathBuf>,

    /// Names of administrators: only clients in whose certificate one of them is a subject alternative
    /// name, of a host or a URI, may remove all objects; several by commas, a * at the start or the end
    /// stands for the rest; without it every client may; needs --tls-client-ca
    #[arg(long, value_name = "NAME", value_parser = NamePattern::parse, value_delimiter = ',')]
    #[arg(help_heading = "TLS")]
    pub(super) tls_admin_name: Vec<NamePattern>,

    /// Names of stores, as those of administrators: only clients that have one of them may mount and
    /// unmount memory; without it every client may; needs --tls-client-ca
    #[arg(long, value_name = "NAME", value_parser = NamePattern::parse, value_delimiter = ',')]
    #[arg(help_heading = "TLS")]
    pub(super) tls_store_name: Vec<NamePattern>,

    /// Number of shards that share the index, 1 to 64; by default a third of the cores, at least
    /// one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    #[arg(help_heading = "Threads")]
    pub(super) shards: Option<u16>,

    /// Where shards run: on the one thread that serves the ports too, as tasks of a runtime with a
    /// thread for each core, or each on a thread of its own; auto takes one thread for up to 2 cores
    /// and threads above 4. One thread takes the least of the processor for each key, and never more
    /// than one core
    #[arg(long, value_enum, default_value = "auto", value_name = "LAYOUT")]
    #[arg(help_heading = "Threads")]
    pub(super) shard_layout: ShardLayout,

    /// How long a get or an exist protects an object; a plain number is milliseconds, else with the
    /// unit ms, s, m, h or d
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = milliseconds)]
    #[arg(help_heading = "Objects")]
    pub(super) default_kv_lease_ttl: Duration,

    /// A client that is silent for this long is suspected and asked again; after twice as long it is
    /// offline and its segments are dropped. The time without a master does not count; at least 1s; a
    /// plain number is seconds, else with a unit
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = client_ttl)]
    #[arg(help_heading = "Objects")]
    pub(super) client_ttl: Duration,

    /// After this time another put may take over the key of one that was not completed; a plain
    /// number is seconds, else with a unit
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Objects")]
    pub(super) put_start_discard_timeout_sec: Duration,

    /// For this long after the start of a put its writer may still be writing, so that its space is
    /// not given to others if it is not completed; above the discard timeout; a plain number is
    /// seconds, else with a unit
    #[arg(long, default_value = "600s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Objects")]
    pub(super) put_start_release_timeout_sec: Duration,

    /// Eviction begins when more than this part of the bytes of a segment is used; above 0, up to 1
    #[arg(long, default_value_t = 0.90, value_name = "RATIO", value_parser = watermark_ratio)]
    #[arg(help_heading = "Objects")]
    pub(super) eviction_high_watermark_ratio: f64,

    /// Eviction goes this far below the watermark, as a part of the bytes of a segment; from 0,
    /// below the watermark
    #[arg(long, default_value_t = 0.05, value_name = "RATIO", value_parser = eviction_ratio)]
    #[arg(help_heading = "Objects")]
    pub(super) eviction_ratio: f64,

    /// In which order idle objects go: `adaptive`, in which what was read again stays longer than
    /// what never was, by as much as pays on the load at hand, or `lru`, in which what was used least
    /// recently goes first
    #[arg(long, value_enum, default_value_t = EvictionPolicy::Adaptive, value_name = "NAME")]
    #[arg(help_heading = "Objects")]
    pub(super) eviction_policy: EvictionPolicy,

    /// Which segment a put tries first, if it prefers none: the roomier of two at random, one at
    /// random, the one of six with the highest share of free bytes, or for clients of Mooncake one on
    /// the host of the writer
    #[arg(long, value_enum, default_value_t = AllocationStrategy::TwoChoices, value_name = "NAME")]
    #[arg(help_heading = "Objects")]
    pub(super) allocation_strategy: AllocationStrategy,

    #[command(flatten)]
    pub(super) mooncake: MooncakeArgs,

    #[command(flatten)]
    pub(super) handoff: HandoffArgs,

    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,

    /// How often the figures of the metrics page are sent to the collector of --otlp-endpoint; 0 sends
    /// none; a plain number is seconds, else with a unit
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = seconds_or_none)]
    #[arg(help_heading = "Telemetry")]
    pub(super) otlp_metrics_interval: Duration,

    /// A request that takes at least this many milliseconds, from the whole request to its answer, is
    /// logged with its operation, client and trace; 0 logs none
    #[arg(long, default_value_t = 1000, value_name = "MS", help_heading = "Log")]
    pub(super) slow_request_ms: u64,

    /// File that is renamed into place once the master serves, in JSON: pid, rpc, metrics,
    /// mooncake, metadata, cert_sha256
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(super) ready_file: Option<PathBuf>,

    /// Directory for the key of stateless resets, so that clients notice at once that a master was
    /// killed and another one serves, instead of by its silence; by default --handoff-dir
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub(super) state_dir: Option<PathBuf>,
}

/// In which order idle objects go; see [`mooring_actors::shard::EvictionPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EvictionPolicy {
    /// What was read again stays longer, by as much as pays.
    Adaptive,
    /// What was used least recently goes first.
    Lru,
}

/// Which segment a put tries first; see [`mooring_actors::shard::AllocationStrategy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AllocationStrategy {
    /// The roomier of two at random.
    TwoChoices,
    /// One at random.
    Random,
    /// The roomiest of six in a row.
    FreeRatioFirst,
    /// Of clients of Mooncake: on the host of the writer, else the roomier of two at random.
    LocalFirst,
}

/// Where shards run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShardLayout {
    /// On the one thread that serves the ports.
    OneThread,
    /// As tasks of a runtime with a thread for each core.
    Tasks,
    /// Each on a thread of its own.
    Threads,
    /// One thread for up to 2 cores, threads above 4, else tasks.
    Auto,
}
