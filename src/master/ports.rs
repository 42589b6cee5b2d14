//! The ports of a master that serves.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use mooring_proto::ClientId;
use quinn::crypto::HmacKey;

use super::OpenedQuic;
use super::options::MasterOptions;
use crate::command::CommandError;
use crate::descriptors::{MOONCAKE_MAX, Shares};
use crate::frontend::Context;
use crate::frontend::mooncake::{MooncakeListener, MooncakeOptions};
use crate::frontend::quic::{self, Listener, ListenerOptions, Probe};
use crate::metadata_store;
use crate::tls::{self, ServerTls, TlsError};

/// Where clients, engines and people reach it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) quic: Option<SocketAddr>,
    pub(super) mooncake: Option<SocketAddr>,
    pub(super) metadata: Option<SocketAddr>,
    pub(super) metrics: SocketAddr,
}

/// What is bound and to be served.
pub(super) struct Bound {
    pub(super) quic: Option<OpenedQuic>,
    /// Of QUIC's stateless resets; `None` makes one for this process alone.
    pub(super) reset_key: Option<Arc<dyn HmacKey>>,
    pub(super) mooncake: Option<TcpListener>,
    pub(super) metadata: Option<TcpListener>,
    pub(super) metrics: SocketAddr,
}

/// What is open to clients.
#[derive(Default)]
pub(super) struct Open {
    pub(super) quic: Option<Quic>,
    /// Proves that QUIC answers.
    pub(super) probe: Option<Probe>,
    pub(super) mooncake: Option<MooncakeListener>,
}

impl Open {
    /// Serves one port after the other; gives where they are. The probe asks as the client that the
    /// context knows.
    ///
    /// # Errors
    /// If one of them cannot be served. Those before it are open by then and may have answered.
    pub(super) fn serve(
        &mut self,
        bound: Bound,
        context: &Arc<Context>,
        probe_client: ClientId,
        options: &MasterOptions,
        shares: &Shares,
    ) -> Result<Ports, CommandError> {
        let Bound { quic, reset_key, mooncake, metadata, metrics } = bound;
        if let Some(OpenedQuic { tls, probe, rpc }) = quic {
            let quic = self.quic.insert(Quic::start(tls, rpc, context, options, reset_key)?);
            let probe = Probe::new(quic.address()?, probe_client, &probe);
            self.probe = Some(probe.map_err(|error| cannot_serve(&error))?);
        }
        self.mooncake = start_mooncake(mooncake, context, options.mooncake, shares.mooncake)?;
        Ok(Ports {
            quic: self.quic.as_ref().map(Quic::address).transpose()?,
            mooncake: self.mooncake.as_ref().map(MooncakeListener::local_address),
            metadata: start_metadata(metadata, shares.pages)?,
            metrics,
        })
    }

    /// The QUIC port.
    pub(super) fn listener(&self) -> Option<Arc<Listener>> {
        self.quic.as_ref().map(|quic| quic.listener.clone())
    }
}

/// The QUIC port, open.
pub(super) struct Quic {
    listener: Arc<Listener>,
    tls: Arc<ServerTls>,
}

impl Quic {
    /// Serves the port.
    ///
    /// # Errors
    /// If certificate or socket are of no use.
    fn start(
        tls: ServerTls,
        rpc: UdpSocket,
        context: &Arc<Context>,
        options: &MasterOptions,
        reset_key: Option<Arc<dyn HmacKey>>,
    ) -> Result<Quic, CommandError> {
        let options = ListenerOptions {
            client_ttl: options.client_ttl,
            reset_key,
            connections_per_address_max: options.connections_per_address_max,
            roles: options.roles.clone(),
        };
        let listener = Listener::start(context.clone(), rpc, &tls, &options)
            .map_err(|error| cannot_serve(&error))?;
        Ok(Quic { listener: Arc::new(listener), tls: Arc::new(tls) })
    }

    /// Where it is bound.
    fn address(&self) -> Result<SocketAddr, CommandError> {
        self.listener.local_address().map_err(|error| cannot_serve(&error))
    }

    /// The SHA-256 of the certificate that it shows.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.tls.fingerprint()
    }

    /// What reads the certificates again; it takes as long as their disk does.
    pub(super) fn reader(&self) -> impl FnOnce() -> Reread + Send + use<> {
        let tls = self.tls.clone();
        move || tls.reload()
    }

    /// Shows what was read from now on.
    pub(super) fn renew(&mut self, read: Reread) {
        let fresh = match read {
            Ok(Some(fresh)) => fresh,
            Ok(None) => return tracing::info!("the certificate was made at the start and stays"),
            // The former certificate still serves, until it runs out.
            Err(error) => return tracing::error!(%error, "cannot reload the certificates"),
        };
        match self.listener.replace_tls(&fresh) {
            Ok(()) => {
                let cert_sha256 = tls::hexadecimal(&fresh.fingerprint());
                tracing::info!(cert_sha256, "certificates reloaded");
                self.tls = Arc::new(fresh);
            }
            Err(error) => tracing::error!(%error, "cannot use the reloaded certificates"),
        }
    }
}

/// Certificates that were read again; `None` if they came from no file.
pub(super) type Reread = Result<Option<ServerTls>, TlsError>;

/// Warns of buffers that are smaller than QUIC wants them.
pub(super) fn warn_of_buffers(opened: Option<&OpenedQuic>) {
    if let Some(problem) = opened.and_then(|opened| quic::describe_buffers(&opened.rpc)) {
        tracing::warn!("{problem}");
    }
}

/// Serves Mooncake's port, if there is to be one.
///
/// # Errors
/// If the socket is of no use.
fn start_mooncake(
    socket: Option<TcpListener>,
    context: &Arc<Context>,
    options: MooncakeOptions,
    connections_max: usize,
) -> Result<Option<MooncakeListener>, CommandError> {
    let Some(socket) = socket else { return Ok(None) };
    if connections_max < MOONCAKE_MAX {
        tracing::info!(
            connections_max,
            "the limit of open files leaves room for so many connections of clients of Mooncake"
        );
    }
    let listener = MooncakeListener::start(context.clone(), socket, options, connections_max);
    listener.map(Some).map_err(|error| cannot_serve(&error))
}

/// Serves the metadata store, if there is to be one; where it is bound.
///
/// # Errors
/// If the socket is of no use.
fn start_metadata(
    socket: Option<TcpListener>,
    connections_max: usize,
) -> Result<Option<SocketAddr>, CommandError> {
    started(socket, |socket| metadata_store::start(socket, connections_max))
}

fn started(
    socket: Option<TcpListener>,
    start: impl FnOnce(TcpListener) -> io::Result<()>,
) -> Result<Option<SocketAddr>, CommandError> {
    let Some(socket) = socket else { return Ok(None) };
    let address = socket.local_addr().map_err(|error| cannot_serve(&error))?;
    start(socket).map_err(|error| cannot_serve(&error))?;
    Ok(Some(address))
}

/// A failure between the binding of the ports and the moment of serving.
pub(super) fn cannot_serve(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failed("cannot serve", error)
}
