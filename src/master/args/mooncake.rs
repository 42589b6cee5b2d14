//! The flags for users of Mooncake's clients and transfer engine.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;

use crate::config::{milliseconds, seconds};

/// What is opened for them.
#[derive(Args, Clone, Debug)]
pub(crate) struct MooncakeArgs {
    /// TCP port for clients of Mooncake, on the address of --rpc-address; 0 takes any free one,
    /// without a value 50051; by default it is not opened. Without a certificate and --dev it is
    /// opened alone, without QUIC
    #[arg(long, num_args = 0..=1, default_missing_value = "50051", value_name = "PORT")]
    #[arg(help_heading = "Mooncake")]
    pub(in crate::master) mooncake_port: Option<u16>,

    /// How long a soft pin of a client of Mooncake lasts for which it names no time
    #[arg(long, default_value = "30m", value_name = "TIME", value_parser = milliseconds)]
    #[arg(help_heading = "Mooncake")]
    pub(in crate::master) default_kv_soft_pin_ttl: Duration,

    /// The longest soft pin that a client of Mooncake may ask for
    #[arg(long, default_value = "24h", value_name = "TIME", value_parser = milliseconds)]
    #[arg(help_heading = "Mooncake")]
    pub(in crate::master) max_kv_soft_pin_ttl: Duration,

    /// How often the line of /metrics/summary is logged; by default it is not
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Mooncake")]
    pub(in crate::master) summary_log_interval: Option<Duration>,

    /// Serve the metadata store of Mooncake's transfer engine over HTTP, at /metadata; it is bounded,
    /// knows no authentication, and begins empty at each start
    #[arg(long, help_heading = "Mooncake")]
    pub(in crate::master) enable_http_metadata_server: bool,

    /// TCP port of the metadata store; 0 takes any free one
    #[arg(long, default_value_t = 8080, value_name = "PORT", help_heading = "Mooncake")]
    pub(in crate::master) http_metadata_server_port: u16,

    /// IP address of the metadata store
    #[arg(long, default_value = "127.0.0.1", value_name = "IP", help_heading = "Mooncake")]
    pub(in crate::master) http_metadata_server_host: IpAddr,
}
