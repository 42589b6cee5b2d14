//! The flags about leaving and handing over.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::config::seconds;
use crate::handoff::FailurePolicy;

/// How a master leaves, and what it hands to the next one.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandoffArgs {
    /// Directory on a local disk in which a master that leaves keeps the index for the next one,
    /// which takes it over; without it a restart begins empty. Every master of this place must be
    /// given it, and no two places the same
    #[arg(long, value_name = "DIR", help_heading = "Restart")]
    pub(in crate::master) handoff_dir: Option<PathBuf>,

    /// An older snapshot is not restored; a plain number is seconds, else with a unit
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_max_age_sec: Duration,

    /// What a start does when a handoff was expected and cannot be used: serve_empty, or refuse to
    /// serve, this process and each later one, until an operator runs `mooring handoff clear`
    #[arg(long, default_value_t = FailurePolicy::ServeEmpty, value_name = "POLICY")]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_failure_policy: FailurePolicy,

    /// From the signal to leave to the end of the process at the latest; a plain number is seconds,
    /// else with a unit
    #[arg(long, default_value = "25s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) shutdown_deadline_sec: Duration,

    /// From the signal to leave to the published snapshot at the latest, else there is none; by
    /// default four fifths of --shutdown-deadline-sec; a plain number is seconds, else with a unit
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Restart")]
    pub(in crate::master) handoff_shutdown_deadline_sec: Option<Duration>,

    /// A snapshot that takes longer to load is given up; a plain number is seconds, else with a unit
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_restore_deadline_sec: Duration,

    /// A restored segment whose store has not come back this long after the start of serving is
    /// dropped; a plain number is seconds, else with a unit
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = seconds)]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_segment_deadline_sec: Duration,

    /// Most shards that write their part of the snapshot at once; by default all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_max_workers: Option<u16>,

    /// Most shards that are loaded from a snapshot at once, each by two threads; by default all. With
    /// another number of shards than before one thread loads them, whatever this says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    #[arg(help_heading = "Restart")]
    pub(in crate::master) handoff_restore_workers: Option<u16>,

    /// Added to the estimate of the memory that a restore takes, in percent, before it is compared
    /// with what there is
    #[arg(long, default_value_t = 15, value_name = "PERCENT")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000), help_heading = "Restart")]
    pub(in crate::master) handoff_restore_margin_percent: u32,
}
