//! The port of the floor: connections and streams as a master has them, and an answer to each.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mooring_actors::core::Settings;
use mooring_proto::client::packets;
use quinn::{Endpoint, Incoming, RecvStream, SendStream};

use super::answers::Answers;
use crate::frontend::quic;
use crate::tls::ServerTls;

/// Opens the port with the parameters of a master's.
///
/// # Errors
/// What the system or the certificate is refused with.
pub(super) fn open(address: SocketAddr, tls: &ServerTls) -> io::Result<Endpoint> {
    let socket = quic::bind(Some(address.ip()), address.port())?;
    let client_ttl = Duration::from_millis(Settings::default().client_ttl_ms);
    let server = quic::server_config(tls, client_ttl).map_err(io::Error::other)?;
    packets::open(quic::transport::endpoint_config(None), Some(server), socket)
}

/// Takes connections for good.
pub(super) async fn accept(endpoint: Endpoint) {
    let answers = Rc::new(RefCell::new(Answers::default()));
    while let Some(incoming) = endpoint.accept().await {
        tokio::task::spawn_local(serve(incoming, answers.clone()));
    }
}

async fn serve(incoming: Incoming, answers: Rc<RefCell<Answers>>) {
    // A peer that does not get through its handshake knows why.
    let Ok(connection) = incoming.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::task::spawn_local(answer(send, receive, answers.clone()));
    }
}

/// Answers one request. Its peer gives it up by going away, and then nobody waits for an answer.
async fn answer(mut send: SendStream, mut receive: RecvStream, answers: Rc<RefCell<Answers>>) {
    let Ok(Some(first)) = receive.read_chunk(usize::MAX, true).await else { return };
    while let Ok(Some(_)) = receive.read_chunk(usize::MAX, true).await {}
    let frame = answers.borrow_mut().to(&first.bytes);
    if send.write_chunk(frame).await.is_ok() {
        let _ = send.finish();
    }
}
