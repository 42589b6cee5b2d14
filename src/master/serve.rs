//! The life of a serving master.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use mooring_actors::core::{Core, CoreConfig};
use mooring_proto::{ClientId, Incarnation};

use super::Opened;
use super::leave::{self, end};
use super::options::MasterOptions;
use super::ready_file::{self, Ready};
use super::signals::{Asked, Signals};
use crate::admin::{self, Admin};
use crate::command::CommandError;
use crate::frontend::Context;
use crate::frontend::quic::{self, Listener, ListenerOptions, Probe};
use crate::tls::{self, ServerTls};

/// Serves until a signal asks to leave, and leaves.
pub(super) async fn serve(
    options: MasterOptions,
    opened: Opened,
) -> Result<ExitCode, CommandError> {
    // From here on a signal is not the end of the process any more.
    let mut signals =
        Signals::new().map_err(|error| CommandError::failed("cannot hear signals", error))?;
    let Opened { mut tls, probe, rpc, admin } = opened;
    if let Some(problem) = quic::describe_buffers(&rpc) {
        tracing::warn!("{problem}");
    }
    let probe_client = ClientId(rand::random());
    let context = Arc::new(Context::new(Core::start(core_config(&options)), probe_client));
    let listener_options =
        ListenerOptions { client_ttl: options.client_ttl, state_dir: options.state_dir.clone() };
    let cannot_serve = |error: &dyn std::fmt::Display| CommandError::failed("cannot serve", error);
    let listener = Listener::start(context.clone(), rpc, &tls, &listener_options)
        .map_err(|error| cannot_serve(&error))?;
    let listener = Arc::new(listener);
    let bound = listener.local_address().map_err(|error| cannot_serve(&error))?;
    let probe = Probe::new(bound, probe_client, &probe).map_err(|error| cannot_serve(&error))?;
    let metrics = admin.local_addr().map_err(|error| cannot_serve(&error))?;
    admin::start(admin, Admin::new(context.clone(), listener.clone(), probe))
        .map_err(|error| cannot_serve(&error))?;

    announce(&options, &tls, bound, metrics)?;
    while signals.next().await == Asked::Reload {
        reload(&mut tls, &listener);
    }
    leave::leave(context, listener, options.ready_file.as_deref(), signals).await
}

fn core_config(options: &MasterOptions) -> CoreConfig {
    // Random for each start: a token of a former process must mean nothing to this one, and no peer
    // may know how keys are spread.
    let (seed, incarnation) = (rand::random(), Incarnation(rand::random()));
    CoreConfig {
        settings: options.settings.clone(),
        layout: options.layout,
        on_fault,
        ..CoreConfig::new(options.shards, seed, incarnation)
    }
}

/// What an actor that failed knew can no longer be trusted, so nothing more is answered.
fn on_fault(actor: &str) {
    tracing::error!(actor, "an actor has failed, the process ends");
    end(1);
}

/// Tells people and scripts that the master serves.
fn announce(
    options: &MasterOptions,
    tls: &ServerTls,
    bound: SocketAddr,
    metrics: SocketAddr,
) -> Result<(), CommandError> {
    let cert_sha256 = tls::hexadecimal(&tls.fingerprint());
    if options.tls_files.is_none() {
        tls::dev::publish(bound.port(), &tls.fingerprint()).map_or_else(
            |error| tracing::warn!(%error, "clients must be given --pin-sha256"),
            |path| tracing::debug!(path = %path.display(), "fingerprint left for clients"),
        );
        // A closed standard output is no reason not to serve.
        let _ = writeln!(std::io::stdout(), "certificate SHA-256: {cert_sha256}");
    }
    let rpc = quic::reachable(bound);
    tracing::info!(
        rpc = %bound,
        metrics = %metrics,
        cert_sha256,
        shards = options.shards,
        layout = ?options.layout,
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    let Some(path) = &options.ready_file else { return Ok(()) };
    let ready = Ready { pid: std::process::id(), rpc, metrics, mooncake: None, cert_sha256 };
    ready_file::write(path, &ready).map_err(|error| {
        CommandError::failed(format!("cannot write --ready-file {}", path.display()), error)
    })
}

fn reload(tls: &mut ServerTls, listener: &Listener) {
    let fresh = match tls.reload() {
        Ok(Some(fresh)) => fresh,
        Ok(None) => return tracing::info!("the certificate was made at the start and stays"),
        // The former certificate still serves, until it runs out.
        Err(error) => return tracing::error!(%error, "cannot reload the certificates"),
    };
    match listener.replace_tls(&fresh) {
        Ok(()) => {
            let cert_sha256 = tls::hexadecimal(&fresh.fingerprint());
            tracing::info!(cert_sha256, "certificates reloaded");
            *tls = fresh;
        }
        Err(error) => tracing::error!(%error, "cannot use the reloaded certificates"),
    }
}
