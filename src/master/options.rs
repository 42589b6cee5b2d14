//! What the flags of a master mean together.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use mooring_actors::core::{Layout, Settings};

use super::args::{MasterArgs, ShardLayout};
use crate::command::CommandError;
use crate::tls::TlsFiles;

/// Options of a master that fit together.
#[derive(Clone, Debug)]
pub(super) struct MasterOptions {
    pub(super) rpc_address: Option<IpAddr>,
    pub(super) rpc_port: u16,
    pub(super) metrics: SocketAddr,
    /// `None` for development.
    pub(super) tls_files: Option<TlsFiles>,
    pub(super) shards: u16,
    pub(super) layout: Layout,
    /// Threads of the runtime that serves the ports, and with [`Layout::Tasks`] the shards.
    pub(super) runtime_threads: usize,
    pub(super) settings: Settings,
    pub(super) client_ttl: Duration,
    pub(super) ready_file: Option<PathBuf>,
    pub(super) state_dir: Option<PathBuf>,
}

impl MasterOptions {
    /// Checks the flags against each other.
    pub(super) fn new(args: &MasterArgs) -> Result<MasterOptions, CommandError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        MasterOptions::on_cores(args, cores)
    }

    fn on_cores(args: &MasterArgs, cores: usize) -> Result<MasterOptions, CommandError> {
        let tls_files = tls_files(args)?;
        let settings = settings(args)?;
        let by_default = u16::try_from(cores / 3).unwrap_or(SHARDS_MAX).clamp(1, SHARDS_MAX);
        let shards = args.shards.unwrap_or(by_default);
        let layout = match args.shard_layout {
            ShardLayout::Tasks => Layout::Tasks,
            ShardLayout::Threads => Layout::Threads,
            ShardLayout::Auto if cores > CORES_OF_ONE_RUNTIME => Layout::Threads,
            ShardLayout::Auto => Layout::Tasks,
        };
        let runtime_threads = match layout {
            Layout::Tasks => cores,
            Layout::Threads => cores.saturating_sub(usize::from(shards)),
        };
        Ok(MasterOptions {
            rpc_address: args.rpc_address,
            rpc_port: args.rpc_port,
            metrics: SocketAddr::new(args.metrics_address, args.metrics_port),
            tls_files,
            shards,
            layout,
            runtime_threads: runtime_threads.max(RUNTIME_THREADS_MIN),
            settings,
            client_ttl: args.client_ttl,
            ready_file: args.ready_file.clone(),
            state_dir: args.state_dir.clone(),
        })
    }

    /// The names for which a development certificate is made. Clients pin it, so that they only
    /// matter to tools that look.
    pub(super) fn development_names(&self) -> Vec<String> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend(self.rpc_address.map(|address| address.to_string()));
        names
    }
}

fn tls_files(args: &MasterArgs) -> Result<Option<TlsFiles>, CommandError> {
    let wrong = |text: &str| Err(CommandError::Arguments(text.to_owned()));
    match (&args.tls_cert, &args.tls_key, &args.tls_client_ca) {
        (Some(_), None, _) => wrong("--tls-cert needs --tls-key"),
        (None, Some(_), _) => wrong("--tls-key needs --tls-cert"),
        (None, None, Some(_)) => wrong("--tls-client-ca needs --tls-cert and --tls-key"),
        (Some(_), Some(_), _) if args.dev => {
            wrong("--dev makes a certificate, so it excludes --tls-cert and --tls-key")
        }
        (Some(certificate), Some(key), client_ca) => Ok(Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
        })),
        (None, None, None) if args.dev => Ok(None),
        (None, None, None) => wrong(
            "no certificate: give --tls-cert FILE and --tls-key FILE, or --dev to try the system \
             out with one that is made at the start",
        ),
    }
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
        pending_timeout_ms: None,
    })
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Beyond it a batch is split into too many messages.
const SHARDS_MAX: u16 = 64;

/// Up to this many cores, waking another thread costs more than sharing one runtime.
const CORES_OF_ONE_RUNTIME: usize = 4;

/// The pings of clients and the admin pages must get through while one thread is busy.
const RUNTIME_THREADS_MIN: usize = 2;

#[cfg(test)]
mod tests;
