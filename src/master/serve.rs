//! The life of a serving master.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mooring_actors::core::Core;
use mooring_proto::ClientId;

use super::Opened;
use super::announce::announce;
use super::export::Handover;
use super::leave::{self, Leaving, end};
use super::options::MasterOptions;
use super::signals::{Asked, Signals};
use super::start::{self, Begun};
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
    let Opened { mut tls, probe, rpc, admin: admin_socket } = opened;
    if let Some(problem) = quic::describe_buffers(&rpc) {
        tracing::warn!("{problem}");
    }
    let cannot_serve = |error: &dyn std::fmt::Display| CommandError::failed("cannot serve", error);
    let metrics = admin_socket.local_addr().map_err(|error| cannot_serve(&error))?;
    let admin = Admin::new();
    admin::start(admin_socket, admin.clone()).map_err(|error| cannot_serve(&error))?;

    let Begun { config, seed, state, directory } =
        begin(&options, &admin, &rpc, &mut signals).await?;
    if options.handoff.is_some() && options.tls_files.is_none() {
        tracing::info!(
            "--dev makes another certificate: only clients of this user here can come back"
        );
    }
    let probe_client = ClientId(rand::random());
    let core = match state {
        Some(state) => Core::start_restored(config, state),
        None => Core::start(config),
    };
    let context = Arc::new(Context::new(core, probe_client));
    let listener_options =
        ListenerOptions { client_ttl: options.client_ttl, state_dir: options.state_dir.clone() };
    let listener = Listener::start(context.clone(), rpc, &tls, &listener_options)
        .map_err(|error| cannot_serve(&error))?;
    let listener = Arc::new(listener);
    let bound = listener.local_address().map_err(|error| cannot_serve(&error))?;
    let probe = Probe::new(bound, probe_client, &probe).map_err(|error| cannot_serve(&error))?;
    admin.serve(context.clone(), listener.clone(), probe);

    let announced = announce(&options, &tls, bound, metrics)?;
    while signals.next().await == Asked::Reload {
        reload(&mut tls, &listener);
    }
    let handover = directory
        .zip(options.handoff)
        .map(|(directory, options)| Arc::new(Handover { directory, options, seed }));
    let deadline = options.shutdown_deadline;
    leave::leave(Leaving { context, listener, announced, deadline, handover }, signals).await
}

/// Begins, which may take as long as another master leaves or an operator does not come. Meanwhile
/// nothing is torn down when a signal comes: the directory says how far this start was.
async fn begin(
    options: &MasterOptions,
    admin: &Arc<Admin>,
    rpc: &UdpSocket,
    signals: &mut Signals,
) -> Result<Begun, CommandError> {
    let (owned, admin) = (options.clone(), admin.clone());
    let begun = tokio::task::spawn_blocking(move || start::begin(&owned, &admin));
    let keep_fresh = async {
        let mut ticks = tokio::time::interval(DISCARD_EVERY);
        loop {
            ticks.tick().await;
            quic::discard_waiting(rpc);
        }
    };
    let told_to_leave = async { while signals.next().await != Asked::Leave {} };
    tokio::select! {
        begun = begun => match begun {
            Ok(begun) => begun,
            Err(error) => Err(CommandError::failed("the start panicked", error)),
        },
        () = told_to_leave => {
            tracing::info!(
                handoff_shutdown = "skipped_processing",
                "told to leave before it served"
            );
            end(0);
        }
        () = keep_fresh => unreachable!("it never ends"),
    }
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

/// A client that waits for the first answer of a master sends again about as soon.
const DISCARD_EVERY: Duration = Duration::from_millis(250);
