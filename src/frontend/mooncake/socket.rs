//! The TCP socket.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::frontend::port::bind_port;

/// Binds a TCP port. Without an address it takes all of them, of both families if the system has
/// IPv6.
///
/// # Errors
/// What the system says, for the address that was tried last.
pub(crate) fn bind(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    bind_port(address, port, bind_one)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // The next master must not wait for connections of this one to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connections that wait to be accepted: as many as clients that come back at once.
const BACKLOG: i32 = 1024;
