//! `mooring store`: contributes memory to the pool and serves it to the clients.
//!
//! The store is the data plane: peers read and write ranges of its memory over QUIC, where the
//! master told them to. It decides nothing but whether a range is of the current mount.

mod buffer;
mod certificate;
pub(crate) mod listener;
mod membership;
pub(crate) mod memory;
pub(crate) mod mounts;
pub(crate) mod range;
mod ready;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mooring_proto::SegmentId;
use mooring_proto::client::Client;
use mooring_proto::message::segment::Segment;
use quinn::Endpoint;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use self::certificate::StoreCertificate;
use self::memory::SegmentMemory;
use self::mounts::Mounts;
use self::range::RangeService;
use self::ready::Ready;
use crate::command::connect::MasterAddressArgs;
use crate::command::units::{ByteSize, human_bytes};
use crate::command::{self, CommandError};
use crate::config;
use crate::handoff::available_bytes;
use crate::signals;
use crate::tls::ServerTls;

/// Run a store: contribute memory to the pool and serve it to clients
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Memory to contribute, in bytes or with a unit (KiB, MiB, GiB, TiB)
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: ByteSize,

    /// Mount the memory as this many segments of equal size, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    segments: u32,

    /// Put the memory on huge pages, if the machine has them
    #[arg(long, value_enum, default_value = "auto")]
    huge_pages: HugePages,

    /// Listen on this IP address; by default on all, of both families
    #[arg(long = "address", value_name = "IP")]
    listen_address: Option<IpAddr>,

    /// Listen on this UDP port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    data_port: u16,

    /// Tell peers to come to this address; by default the local address that reaches the master,
    /// with the port that is listened on
    #[arg(long, value_name = "HOST:PORT", value_parser = config::host_and_port)]
    advertise: Option<String>,

    /// The name by which people know this store, at most 255 bytes; by default the host's
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Buffer at most this much for requests that are under way
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    buffer: ByteSize,

    /// On SIGTERM let what is stored be read for this long before it is unmounted; by default not
    /// at all. Milliseconds, or with a unit (s, m, h)
    #[arg(long, value_name = "TIME", value_parser = config::milliseconds)]
    grace: Option<Duration>,

    /// Write this file once everything is mounted: JSON with pid, data[], segments[], cert_sha256
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,

    #[command(flatten)]
    tls: StoreTlsArgs,

    #[command(flatten)]
    address: MasterAddressArgs,
}

/// What the data plane shows to its peers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data plane")]
struct StoreTlsArgs {
    /// Show peers this certificate chain (PEM), which they verify by their CA; by default one is
    /// made at each start, and peers learn its fingerprint from the master
    #[arg(long, value_name = "FILE", requires = "data_tls_key")]
    data_tls_cert: Option<PathBuf>,

    /// The private key (PEM) of --data-tls-cert
    #[arg(long, value_name = "FILE", requires = "data_tls_cert")]
    data_tls_key: Option<PathBuf>,

    /// Serve only peers whose certificate chain ends in one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "data_tls_cert")]
    data_tls_client_ca: Option<PathBuf>,
}

/// Whether to use huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HugePages {
    /// Reserved ones if there are enough, else transparent ones.
    Auto,
    /// Pages of the usual size.
    Off,
}

/// Runs a store until it is told to end.
///
/// # Errors
/// Memory, port or certificate that cannot be had, and what the master refuses the mount with.
pub(crate) fn run(args: &StoreArgs) -> Result<ExitCode, CommandError> {
    let segment_bytes = segment_bytes(args)?;
    command::block_on(serve(args, segment_bytes))
}

/// Equal parts in whole pages, so that every segment can be used to its last byte.
fn segment_bytes(args: &StoreArgs) -> Result<usize, CommandError> {
    let bytes = args.memory.0 / u64::from(args.segments) / SEGMENT_STEP_BYTES * SEGMENT_STEP_BYTES;
    if bytes == 0 {
        let text = format!(
            "--memory {} does not make {} segments of at least {SEGMENT_STEP_BYTES} bytes",
            args.memory, args.segments
        );
        return Err(CommandError::Arguments(text));
    }
    usize::try_from(bytes)
        .map_err(|_| CommandError::Arguments(format!("--memory {} is too much", args.memory)))
}

async fn serve(args: &StoreArgs, segment_bytes: usize) -> Result<ExitCode, CommandError> {
    let (mut signals, hang_up) = Signals::new()?;
    if let Some(path) = &args.ready_file {
        // Now rather than when everything is mounted.
        ready::check(path)?;
    }
    let memories = map_memories(args, segment_bytes)?;
    let certificate = StoreCertificate::new(&args.tls)?;
    let endpoint = listener::open(args.listen_address, args.data_port, &certificate.tls)?;
    let bound = endpoint.local_addr().map_err(|error| CommandError::failed("no address", error))?;
    let advertised = advertised_address(args, bound.port())?;
    let sha256 = certificate.tls.fingerprint();
    let announced_sha256 = certificate.pinned.then_some(sha256);
    let segments = describe(&memories, &advertised, announced_sha256);
    let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.segment).collect();

    let client = tokio::select! {
        client = Client::connect(args.address.client_config(&store_name(args))?) => {
            client.map_err(|error| args.address.not_connected(&error))?
        }
        () = signals.end() => {
            info!("told to leave before it was mounted");
            return Ok(ExitCode::SUCCESS);
        }
    };
    // The listener is up before the first mount: peers may come as soon as the master grants it.
    let mounts = Mounts::new(memories, client.mounts());
    let buffer_bytes = usize::try_from(args.buffer.0).unwrap_or(usize::MAX);
    let service = Arc::new(RangeService::new(mounts, buffer_bytes));
    tokio::spawn(listener::serve(endpoint.clone(), service));
    tokio::spawn(reload_on_hangup(hang_up, endpoint.clone(), certificate.tls));
    let serving = async {
        membership::mount_all(&client, segments).await?;
        info!(address = advertised, segments = ids.len(), segment_bytes, "store is serving");
        if let Some(path) = &args.ready_file {
            Ready::new(&advertised, &ids, &sha256).write(path)?;
        }
        Err::<Infallible, _>(CommandError::from(client.ended().await))
    };
    let outcome = tokio::select! {
        Err(error) = serving => Err(error),
        () = signals.end() => Ok(ExitCode::SUCCESS),
    };
    // A store that failed has nobody to wait for.
    let grace = args.grace.filter(|_| outcome.is_ok());
    membership::leave(&client, &ids, grace, &mut signals).await;
    outcome
}

/// The identity of each segment.
fn describe(
    memories: &HashMap<SegmentId, SegmentMemory>,
    endpoint: &str,
    certificate_sha256: Option<[u8; 32]>,
) -> Vec<Segment> {
    memories
        .iter()
        .map(|(id, memory)| Segment {
            segment: *id,
            base: memory.base(),
            size_bytes: memory.size_bytes(),
            endpoint: endpoint.to_owned(),
            certificate_sha256,
            transfer_engine: None,
        })
        .collect()
}

fn map_memories(
    args: &StoreArgs,
    segment_bytes: usize,
) -> Result<HashMap<SegmentId, SegmentMemory>, CommandError> {
    let huge_pages = args.huge_pages == HugePages::Auto;
    let mut random = StdRng::from_os_rng();
    (0..args.segments)
        .map(|_| {
            let memory = SegmentMemory::map(segment_bytes, huge_pages)
                .map_err(|error| unmapped(args, segment_bytes, &error))?;
            Ok((SegmentId(random.random()), memory))
        })
        .collect()
}

fn unmapped(args: &StoreArgs, segment_bytes: usize, error: &std::io::Error) -> CommandError {
    let free = match available_bytes() {
        Some(bytes) => format!("; {} are free here", human_bytes(bytes)),
        None => String::new(),
    };
    CommandError::Failed(format!(
        "--memory {}: the system does not give {segment_bytes} bytes for one of {} segments: \
         {error}{free}; give less --memory, or raise what limits the process",
        args.memory, args.segments
    ))
}

/// What the process is told from outside.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Hears from now on. Gives beside it what asks to reload.
    fn new() -> Result<(Signals, Signal), CommandError> {
        let terminate = listen_to(SignalKind::terminate())?;
        let interrupt = listen_to(SignalKind::interrupt())?;
        let hang_up = listen_to(SignalKind::hangup())?;
        signals::server_hears();
        Ok((Signals { terminate, interrupt }, hang_up))
    }

    /// Waits for the next signal to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn listen_to(kind: SignalKind) -> Result<Signal, CommandError> {
    signal(kind).map_err(|error| CommandError::failed("cannot listen to signals", error))
}

/// Reads the certificate files again at each SIGHUP; connections that are open stay.
async fn reload_on_hangup(mut hangup: Signal, endpoint: Endpoint, mut tls: ServerTls) {
    while hangup.recv().await.is_some() {
        let reloaded = match tls.reload() {
            Ok(Some(fresh)) => listener::server_config(&fresh).map(|config| (fresh, config)),
            Ok(None) => continue,
            Err(error) => Err(CommandError::failed("data plane", error)),
        };
        match reloaded {
            Ok((fresh, config)) => {
                endpoint.set_server_config(Some(config));
                tls = fresh;
                info!("certificate was read again");
            }
            Err(error) => warn!(%error, "the former certificate stays"),
        }
    }
}

fn store_name(args: &StoreArgs) -> String {
    args.name.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("store {}", host.trim())
    })
}

fn advertised_address(args: &StoreArgs, port: u16) -> Result<String, CommandError> {
    if let Some(advertised) = &args.advertise {
        return Ok(advertised.clone());
    }
    let address = match args.listen_address {
        Some(address) if !address.is_unspecified() => address,
        _ => address_towards(&args.address.master).map_err(|error| {
            let attempt = format!("no route to {}; give --advertise", args.address.master);
            CommandError::failed(attempt, error)
        })?,
    };
    Ok(SocketAddr::new(address, port).to_string())
}

/// The local address from which packets to the master would leave; none is sent.
fn address_towards(master: &str) -> std::io::Result<IpAddr> {
    let local = if master.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let by_family = |local: &str| {
        let socket = UdpSocket::bind(local)?;
        socket.connect(master)?;
        Ok(socket.local_addr()?.ip())
    };
    by_family(local).or_else(|_: std::io::Error| by_family("[::]:0"))
}

/// Sizes of segments are multiples of this where the memory allows, the smallest page of a master.
const SEGMENT_STEP_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_master_is_reached_from_loopback() {
        assert!(address_towards("127.0.0.1:50051").unwrap().is_loopback());
    }
}
