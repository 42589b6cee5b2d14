//! The master process: from its arguments to its exit.

mod announce;
mod args;
mod export;
mod leave;
mod options;
mod ports;
mod prefault;
mod ready_file;
mod renewing;
mod restore;
mod runtime;
mod serve;
mod settle;
mod signals;
mod standby;
mod start;
mod supervisor;
mod turning_back;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::ExitCode;

pub(crate) use args::MasterArgs;
use options::{Identity, MasterOptions};
use standby::{Standby, Standing};

use crate::command::CommandError;
use crate::frontend::{mooncake, quic};
use crate::handoff;
use crate::telemetry;
use crate::tls::ServerTls;
use crate::tls::probe::ProbeIdentity;

/// Checks what arguments say together; each alone was checked when it was read. Gives what a start
/// still lacks, where that is only to say which certificate it shows.
///
/// # Errors
/// Arguments, naming the flags.
pub(crate) fn check(args: &MasterArgs) -> Result<Option<String>, CommandError> {
    let says_nothing_of_tls = !args.dev
        && args.tls_cert.is_none()
        && args.tls_key.is_none()
        && args.tls_client_ca.is_none();
    match MasterOptions::new(args) {
        Ok(_) => Ok(None),
        Err(lack) if says_nothing_of_tls => {
            // Everything else is checked all the same.
            let with_one = MasterArgs { dev: true, ..args.clone() };
            MasterOptions::new(&with_one).map(|_| Some(lack.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Runs a master until it is told to leave.
///
/// # Errors
/// Arguments before anything is opened; a failure if certificates or ports are of no use.
pub(crate) fn run(args: &MasterArgs) -> Result<ExitCode, CommandError> {
    let options = MasterOptions::new(args)?;
    telemetry::start(&args.telemetry, "mooring", |reason, outcome| {
        tracing::warn!(reason, "a variable makes no sense: {outcome}");
    })?;
    let opened = Opened::new(&options)?;
    let failed = |error| CommandError::failed("cannot start the runtime", error);
    let serving = runtime::serving(options.runtime_threads).map_err(failed)?;
    let conducting = runtime::conducting().map_err(failed)?;
    // Before anything is claimed: what happens later must not depend on whether the system gives one.
    let failed = |error| CommandError::failed("cannot start a thread", error);
    let threads = Threads {
        standby: Standby::start().map_err(failed)?,
        watch: Standing::start("watch").map_err(failed)?,
    };
    conducting.block_on(serve::serve(options, opened, serving, threads))
}

/// Threads that a start and a drain can rely on.
#[derive(Clone)]
struct Threads {
    /// For what the disk may hold up.
    standby: Standby,
    /// Ends a drain by its deadline.
    watch: Standing,
}

/// What an actor that failed knew can no longer be trusted, so nothing more is answered.
fn on_fault(actor: &str) {
    tracing::error!(actor, "an actor has failed, the process ends");
    leave::end(1);
}

/// Everything that another process or the disk can refuse.
struct Opened {
    /// `None` without a certificate.
    quic: Option<OpenedQuic>,
    admin: TcpListener,
    mooncake: Option<TcpListener>,
    metadata: Option<TcpListener>,
}

/// What QUIC needs.
struct OpenedQuic {
    tls: ServerTls,
    probe: ProbeIdentity,
    rpc: UdpSocket,
}

impl Opened {
    fn new(options: &MasterOptions) -> Result<Opened, CommandError> {
        let unusable = |path: &Path, error| {
            CommandError::failed(format!("cannot use --ready-file {}", path.display()), error)
        };
        if let Some(path) = &options.ready_file {
            ready_file::check(path).map_err(|error| unusable(path, error))?;
        }
        let quic = match &options.identity {
            Some(identity) => Some(OpenedQuic::new(options, identity)?),
            None => None,
        };
        let mooncake = match options.mooncake_port {
            Some(port) => Some(mooncake::bind(options.rpc_address, port).map_err(|error| {
                let address = address_text(options.rpc_address, port);
                let attempt = format!("cannot bind TCP {address} (--mooncake-port)");
                unbound(options, attempt, "--mooncake-port", &error)
            })?),
            None => None,
        };
        let admin = bind_tcp(options, options.metrics, "--metrics-port")?;
        let metadata = match options.metadata {
            Some(address) => Some(bind_tcp(options, address, "--http-metadata-server-port")?),
            None => None,
        };
        // Now that the ports are its own, the file cannot be that of a master that serves on them.
        if let Some(path) = &options.ready_file {
            ready_file::remove_former(path).map_err(|error| unusable(path, error))?;
        }
        Ok(Opened { quic, admin, mooncake, metadata })
    }
}

impl OpenedQuic {
    fn new(options: &MasterOptions, identity: &Identity) -> Result<OpenedQuic, CommandError> {
        let tls_failed = |error| CommandError::failed("cannot set up TLS", error);
        let probe = ProbeIdentity::new().map_err(tls_failed)?;
        let tls = match identity {
            Identity::Files(files) => ServerTls::from_files(files.clone()),
            Identity::Development => ServerTls::self_signed(&options.development_names()),
        };
        let tls = tls.map_err(tls_failed)?.with_known_client(probe.certificate());
        let rpc = quic::bind(options.rpc_address, options.rpc_port).map_err(|error| {
            let address = address_text(options.rpc_address, options.rpc_port);
            let attempt = format!("cannot bind UDP {address} (--rpc-port)");
            unbound(options, attempt, "--rpc-port", &error)
        })?;
        Ok(OpenedQuic { tls, probe, rpc })
    }
}

fn bind_tcp(
    options: &MasterOptions,
    address: SocketAddr,
    flag: &str,
) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).map_err(|error| {
        unbound(options, format!("cannot bind TCP {address} ({flag})"), flag, &error)
    })
}

/// A port that cannot be bound. In a roll it is most likely that of the master before: a start waits for
/// that one to hand over, but not for its ports.
fn unbound(
    options: &MasterOptions,
    attempt: String,
    flag: &str,
    error: &io::Error,
) -> CommandError {
    let holder = options.handoff.as_ref().and_then(|handoff| handoff::holder(&handoff.directory));
    match holder {
        Some(process) if error.kind() == io::ErrorKind::AddrInUse => CommandError::Failed(format!(
            "{attempt}: {error}; the master of process {process} has the same --handoff-dir and most \
             likely this port: end it with SIGTERM first and start this one when it has ended, or \
             give this one another port with {flag}"
        )),
        _ => CommandError::unbound(attempt, flag, error),
    }
}

fn address_text(address: Option<IpAddr>, port: u16) -> String {
    match address {
        Some(address) => SocketAddr::new(address, port).to_string(),
        None => format!("any address, port {port}"),
    }
}
