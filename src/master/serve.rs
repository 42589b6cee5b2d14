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
use super::ports::{self, Ports, Quic, cannot_serve};
use super::settle;
use super::signals::{Asked, Signals};
use super::start::{self, Begun};
use super::supervisor::Supervisor;
use crate::admin::{self, Admin};
use crate::command::CommandError;
use crate::frontend::Context;
use crate::frontend::mooncake::MooncakeListener;
use crate::frontend::quic;

/// Serves until a signal asks to leave, and leaves.
pub(super) async fn serve(
    options: MasterOptions,
    opened: Opened,
) -> Result<ExitCode, CommandError> {
    let mut signals =
        Signals::new().map_err(|error| CommandError::failed("cannot hear signals", error))?;
    let Opened { quic: opened, admin: admin_socket, mooncake, metadata } = opened;
    ports::warn_of_buffers(opened.as_ref());
    let metrics = admin_socket.local_addr().map_err(|error| cannot_serve(&error))?;
    let admin = Admin::new();
    admin::start(admin_socket, admin.clone()).map_err(|error| cannot_serve(&error))?;

    let supervisor = Arc::new(Supervisor::from_environment());
    let rpc = opened.as_ref().map(|opened| &opened.rpc);
    let Begun { config, seed, state, directory } =
        begin(&options, &admin, rpc, &supervisor, &mut signals).await?;
    if options.handoff.is_some() && options.is_development() {
        tracing::info!(
            "--dev makes another certificate: only clients of this user here can come back"
        );
    }
    if options.releases_early() {
        tracing::warn!(
            "--put-start-release-timeout-sec is less than 30 s above --put-start-discard-timeout-sec: \
             a slow write may still run when its range is given to another object"
        );
    }
    let probe_client = ClientId(rand::random());
    let is_restored = state.is_some();
    let core = match state {
        Some(state) => Core::start_restored(config, state),
        None => Core::start(config),
    };
    let context = Arc::new(Context::new(core, probe_client, options.slow));
    let (mut quic, probe) = match opened {
        Some(opened) => Some(Quic::start(opened, &context, probe_client, &options)?),
        None => None,
    }
    .unzip();
    let mooncake = ports::start_mooncake(mooncake, &context, options.mooncake)?;
    let ports = Ports {
        quic: quic.as_ref().map(Quic::address).transpose()?,
        mooncake: mooncake.as_ref().map(MooncakeListener::local_address),
        metadata: ports::start_metadata(metadata)?,
        metrics,
    };
    let listener = quic.as_ref().map(|quic| quic.listener.clone());
    admin.serve(context.clone(), listener.clone().zip(probe), ports.mooncake);
    if let Some(interval) = options.summary_log_interval {
        admin::log_summary(admin.clone(), interval);
    }

    let announced = announce(&options, quic.as_ref().map(Quic::fingerprint), ports)?;
    if is_restored {
        tokio::spawn(settle::tell_when_settled(context.clone()));
    }
    supervisor.ready();
    tokio::spawn(supervisor.clone().prove_life(context.clone()));
    while signals.next().await == Asked::Reload {
        if let Some(quic) = &mut quic {
            quic.reload();
        }
    }
    supervisor.leaving();
    let handover = directory
        .zip(options.handoff)
        .map(|(directory, options)| Arc::new(Handover { directory, options, seed }));
    let deadline = options.shutdown_deadline;
    let leaving = Leaving { context, listener, mooncake, announced, deadline, handover };
    leave::leave(leaving, signals).await
}

/// Begins, which may take as long as another master leaves or an operator does not come. Meanwhile
/// nothing is torn down when a signal comes: the directory says how far this start was.
async fn begin(
    options: &MasterOptions,
    admin: &Arc<Admin>,
    rpc: Option<&UdpSocket>,
    supervisor: &Supervisor,
    signals: &mut Signals,
) -> Result<Begun, CommandError> {
    let (owned, shown) = (options.clone(), admin.clone());
    let begun = tokio::task::spawn_blocking(move || start::begin(&owned, &shown));
    let keep_fresh = async {
        let mut ticks = tokio::time::interval(DISCARD_EVERY);
        let mut told = String::new();
        loop {
            ticks.tick().await;
            let status = admin.why_not_ready();
            if status != told {
                supervisor.status(&status);
                told = status;
            }
            if let Some(rpc) = rpc {
                quic::discard_waiting(rpc);
            }
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

/// A client that waits for the first answer of a master sends again about as soon.
const DISCARD_EVERY: Duration = Duration::from_millis(250);
