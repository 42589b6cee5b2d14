//! What the flags of a master mean together.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use mooring_actors::core::{Layout, Settings};
use mooring_actors::shard::{AllocationStrategy, EvictionPolicy};
use mooring_proto::limits::{RANGE_WRITE_TIMEOUT_MS, REQUEST_READ_TIMEOUT_MS};

use super::args::{self, HandoffArgs, MasterArgs, MooncakeArgs, ShardLayout};
use crate::command::CommandError;
use crate::frontend::mooncake::MooncakeOptions;
use crate::frontend::quic::Roles;
use crate::frontend::slow::SlowLog;
use crate::handoff::FailurePolicy;
use crate::tls::TlsFiles;

/// Options of a master that fit together.
#[derive(Clone, Debug)]
pub(super) struct MasterOptions {
    pub(super) rpc_address: Option<IpAddr>,
    pub(super) rpc_port: u16,
    pub(super) metrics: SocketAddr,
    /// `None` without a certificate: then QUIC is not opened.
    pub(super) identity: Option<Identity>,
    /// The TCP port for clients of Mooncake, on the address of QUIC; `None` leaves it closed.
    pub(super) mooncake_port: Option<u16>,
    pub(super) mooncake: MooncakeOptions,
    /// How often the summary is logged; `None` if it is not.
    pub(super) summary_log_interval: Option<Duration>,
    /// The metadata store of the transfer engine; `None` without one.
    pub(super) metadata: Option<SocketAddr>,
    pub(super) shards: u16,
    pub(super) layout: Layout,
    /// Threads of the runtime that serves the ports, and with [`Layout::Tasks`] the shards.
    pub(super) runtime_threads: usize,
    pub(super) settings: Settings,
    pub(super) client_ttl: Duration,
    pub(super) connections_per_address_max: usize,
    /// What members may do.
    pub(super) roles: Roles,
    pub(super) slow: SlowLog,
    /// How often the figures are sent; `None` sends none.
    pub(super) metrics_interval: Option<Duration>,
    pub(super) ready_file: Option<PathBuf>,
    pub(super) state_dir: Option<PathBuf>,
    /// From the signal to leave to the end of the process.
    pub(super) shutdown_deadline: Duration,
    /// `None` without a directory.
    pub(super) handoff: Option<HandoffOptions>,
}

/// How the QUIC port proves whose it is.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// By certificates in files.
    Files(TlsFiles),
    /// By a certificate that is made at the start.
    Development,
}

/// How the index is handed over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HandoffOptions {
    pub(super) directory: PathBuf,
    pub(super) max_age_ms: u64,
    pub(super) policy: FailurePolicy,
    /// From the signal to leave to the published snapshot.
    pub(super) export_deadline: Duration,
    pub(super) restore_deadline: Duration,
    /// Shards that are written at once.
    pub(super) export_workers: u16,
    /// Threads that restore.
    pub(super) restore_workers: u16,
    pub(super) margin_percent: u32,
    /// For how long a start waits for a master that still holds the directory.
    pub(super) lock_wait: Duration,
}

impl MasterOptions {
    /// Checks the flags against each other.
    pub(super) fn new(args: &MasterArgs) -> Result<MasterOptions, CommandError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        MasterOptions::on_cores(args, cores)
    }

    fn on_cores(args: &MasterArgs, cores: usize) -> Result<MasterOptions, CommandError> {
        let identity = identity(args)?;
        let settings = settings(args)?;
        let by_default = u16::try_from(cores / 3).unwrap_or(SHARDS_MAX).clamp(1, SHARDS_MAX);
        let shards = args.shards.unwrap_or(by_default);
        let of_all_cores = cores.max(RUNTIME_THREADS_MIN);
        let beside_shards = cores.saturating_sub(usize::from(shards)).max(RUNTIME_THREADS_MIN);
        let (layout, runtime_threads) = match args.shard_layout {
            ShardLayout::OneThread => (Layout::Tasks, 1),
            ShardLayout::Tasks => (Layout::Tasks, of_all_cores),
            ShardLayout::Threads => (Layout::Threads, beside_shards),
            ShardLayout::Auto if cores <= CORES_OF_ONE_THREAD => (Layout::Tasks, 1),
            ShardLayout::Auto if cores <= CORES_OF_ONE_RUNTIME => (Layout::Tasks, of_all_cores),
            ShardLayout::Auto => (Layout::Threads, beside_shards),
        };
        Ok(MasterOptions {
            rpc_address: args.rpc_address,
            rpc_port: args.rpc_port,
            metrics: SocketAddr::new(args.metrics_address, args.metrics_port),
            identity,
            mooncake_port: args.mooncake.mooncake_port,
            mooncake: mooncake_options(args)?,
            summary_log_interval: args.mooncake.summary_log_interval,
            metadata: metadata(&args.mooncake),
            shards,
            layout,
            runtime_threads,
            settings,
            client_ttl: args.client_ttl,
            connections_per_address_max: args.max_connections_per_address as usize,
            roles: roles(args)?,
            slow: SlowLog {
                threshold: (args.slow_request_ms > 0)
                    .then(|| Duration::from_millis(args.slow_request_ms)),
            },
            metrics_interval: Some(args.otlp_metrics_interval).filter(|it| !it.is_zero()),
            ready_file: args.ready_file.clone(),
            state_dir: args.state_dir.clone().or_else(|| args.handoff.handoff_dir.clone()),
            shutdown_deadline: args.handoff.shutdown_deadline_sec,
            handoff: handoff(&args.handoff, shards)?,
        })
    }

    /// Where the shards run, as the flag calls it.
    pub(super) fn layout_name(&self) -> &'static str {
        match self.layout {
            Layout::Tasks if self.runtime_threads == 1 => "one-thread",
            Layout::Tasks => "tasks",
            Layout::Threads => "threads",
        }
    }

    /// Whether clients get a certificate that is made at the start.
    pub(super) fn is_development(&self) -> bool {
        matches!(self.identity, Some(Identity::Development))
    }

    /// Whether a write that was begun in time may outlast the hold of its range.
    pub(super) fn releases_early(&self) -> bool {
        let Settings { put_discard_timeout_ms, put_release_timeout_ms, .. } = self.settings;
        put_release_timeout_ms < put_discard_timeout_ms.saturating_add(WRITE_MS_MAX)
    }

    /// The names for which a development certificate is made. Clients pin it, so that they only
    /// matter to tools that look.
    pub(super) fn development_names(&self) -> Vec<String> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend(self.rpc_address.map(|address| address.to_string()));
        names
    }
}

fn mooncake_options(args: &MasterArgs) -> Result<MooncakeOptions, CommandError> {
    let (ttl, max) = (args.mooncake.default_kv_soft_pin_ttl, args.mooncake.max_kv_soft_pin_ttl);
    if ttl > max {
        return Err(CommandError::Arguments(format!(
            "--default-kv-soft-pin-ttl ({ttl:?}) must not be above --max-kv-soft-pin-ttl ({max:?})"
        )));
    }
    Ok(MooncakeOptions {
        soft_pin_ttl_ms: in_ms(ttl),
        soft_pin_ttl_max_ms: in_ms(max),
        local_first: args.allocation_strategy == args::AllocationStrategy::LocalFirst,
        connections_per_address_max: args.max_connections_per_address as usize,
    })
}

fn metadata(args: &MooncakeArgs) -> Option<SocketAddr> {
    let address = SocketAddr::new(args.http_metadata_server_host, args.http_metadata_server_port);
    args.enable_http_metadata_server.then_some(address)
}

fn identity(args: &MasterArgs) -> Result<Option<Identity>, CommandError> {
    let wrong = |text: &str| Err(CommandError::Arguments(text.to_owned()));
    match (&args.tls_cert, &args.tls_key, &args.tls_client_ca) {
        (Some(_), None, _) => wrong("--tls-cert needs --tls-key"),
        (None, Some(_), _) => wrong("--tls-key needs --tls-cert"),
        (None, None, Some(_)) => wrong("--tls-client-ca needs --tls-cert and --tls-key"),
        (Some(_), Some(_), _) if args.dev => {
            wrong("--dev makes a certificate, so it excludes --tls-cert and --tls-key")
        }
        (Some(certificate), Some(key), client_ca) => Ok(Some(Identity::Files(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
        }))),
        (None, None, None) if args.dev => Ok(Some(Identity::Development)),
        (None, None, None) if args.mooncake.mooncake_port.is_some() => Ok(None),
        (None, None, None) => wrong(
            "no certificate: give --tls-cert FILE and --tls-key FILE, or --dev to try the system \
             out with one that is made at the start",
        ),
    }
}

fn roles(args: &MasterArgs) -> Result<Roles, CommandError> {
    let given =
        [("--tls-admin-name", &args.tls_admin_name), ("--tls-store-name", &args.tls_store_name)];
    if args.tls_client_ca.is_none()
        && let Some((flag, _)) = given.iter().find(|(_, names)| !names.is_empty())
    {
        return Err(CommandError::Arguments(format!(
            "{flag} needs --tls-client-ca: without it no client shows a certificate"
        )));
    }
    Ok(Roles { admins: args.tls_admin_name.clone(), stores: args.tls_store_name.clone() })
}

fn handoff(args: &HandoffArgs, shards: u16) -> Result<Option<HandoffOptions>, CommandError> {
    let whole = args.shutdown_deadline_sec;
    let export_deadline = args.handoff_shutdown_deadline_sec.unwrap_or(whole * 4 / 5);
    if export_deadline > whole {
        return Err(CommandError::Arguments(format!(
            "--handoff-shutdown-deadline-sec ({export_deadline:?}) must not be above \
             --shutdown-deadline-sec ({whole:?})"
        )));
    }
    let Some(directory) = args.handoff_dir.clone() else { return Ok(None) };
    Ok(Some(HandoffOptions {
        directory,
        max_age_ms: in_ms(args.handoff_max_age_sec),
        policy: args.handoff_failure_policy,
        export_deadline,
        restore_deadline: args.handoff_restore_deadline_sec,
        export_workers: args.handoff_max_workers.unwrap_or(shards).min(shards),
        restore_workers: args.handoff_restore_workers.unwrap_or(shards),
        margin_percent: args.handoff_restore_margin_percent,
        lock_wait: whole + LOCK_WAIT_BEYOND,
    }))
}

fn settings(args: &MasterArgs) -> Result<Settings, CommandError> {
    let (discard, release) =
        (args.put_start_discard_timeout_sec, args.put_start_release_timeout_sec);
    if release <= discard {
        return Err(CommandError::Arguments(format!(
            "--put-start-release-timeout-sec ({release:?}) must be above \
             --put-start-discard-timeout-sec ({discard:?})"
        )));
    }
    let (watermark, ratio) = (args.eviction_high_watermark_ratio, args.eviction_ratio);
    if ratio >= watermark {
        return Err(CommandError::Arguments(format!(
            "--eviction-ratio ({ratio}) must be below --eviction-high-watermark-ratio ({watermark})"
        )));
    }
    Ok(Settings {
        lease_ttl_ms: in_ms(args.default_kv_lease_ttl),
        client_ttl_ms: in_ms(args.client_ttl),
        put_discard_timeout_ms: in_ms(discard),
        put_release_timeout_ms: in_ms(release),
        eviction_high_watermark_ratio: watermark,
        eviction_ratio: ratio,
        pending_timeout_ms: Some(in_ms(args.handoff.handoff_segment_deadline_sec)),
        eviction_policy: match args.eviction_policy {
            args::EvictionPolicy::Adaptive => EvictionPolicy::Adaptive,
            args::EvictionPolicy::Lru => EvictionPolicy::Lru,
        },
        allocation_strategy: match args.allocation_strategy {
            args::AllocationStrategy::TwoChoices | args::AllocationStrategy::LocalFirst => {
                AllocationStrategy::TwoChoices
            }
            args::AllocationStrategy::Random => AllocationStrategy::Random,
            args::AllocationStrategy::FreeRatioFirst => AllocationStrategy::FreeRatioFirst,
        },
    })
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A native client begins no write after the discard timeout, and gives one up after the first of
/// these times. What had arrived by then, its store may still carry out within the second one.
const WRITE_MS_MAX: u64 = RANGE_WRITE_TIMEOUT_MS + REQUEST_READ_TIMEOUT_MS;

/// Beyond it a batch is split into too many messages.
const SHARDS_MAX: u16 = 64;

/// Up to this many cores, waking another thread costs more than sharing one runtime.
const CORES_OF_ONE_RUNTIME: usize = 4;

/// Up to this many cores, waking a second thread costs more than it brings: on two, with the load beside
/// it, one thread answered 2.6 instead of 2.1 million gets a second in batches of 128, and 0.86 instead
/// of 0.69 million puts in batches of 64.
const CORES_OF_ONE_THREAD: usize = 2;

/// Whoever asks for threads has more than one: what waits for the network gets through while another one
/// is busy.
const RUNTIME_THREADS_MIN: usize = 2;

/// A master that leaves keeps its own deadline, if it has the same one; then the system has to end
/// its process, and whoever rolls the two to be a little late.
const LOCK_WAIT_BEYOND: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
