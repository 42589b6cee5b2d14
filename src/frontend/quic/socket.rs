//! The UDP socket: bound by this process alone, with buffers that hold a burst.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use crate::frontend::port::bind_port;

/// Binds a UDP port exclusively: if another process has it, this fails. Without an address it takes
/// all of them, of both families if the system has IPv6.
///
/// # Errors
/// What the system says, for the address that was tried last.
pub(crate) fn bind(address: Option<IpAddr>, port: u16) -> io::Result<UdpSocket> {
    bind_port(address, port, bind_one)
}

fn bind_one(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    enlarge_buffers(&socket);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Asks for large buffers. A failure shows in [`describe_buffers`].
fn enlarge_buffers(socket: &Socket) {
    // The forced variants go beyond the bound of the system where the process has the right to.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    }
    if rustix::net::sockopt::set_socket_send_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    }
}

/// Throws away what waits at a socket that nobody serves yet; gives the number of packets. After a
/// long start its buffers would be full of attempts to connect that were given up long ago, ahead of
/// those that are still waited for.
pub(crate) fn discard_waiting(socket: &UdpSocket) -> usize {
    let mut discarded = 0;
    // One byte tells as much as the whole packet.
    while discarded < DISCARDED_MAX && socket.recv_from(&mut [0]).is_ok() {
        discarded += 1;
    }
    discarded
}

/// What is wrong with the buffers of a socket, for the log; `None` if they are as large as asked.
pub(crate) fn describe_buffers(socket: &UdpSocket) -> Option<String> {
    let socket = socket2::SockRef::from(socket);
    // The system reports twice of what it grants, because it counts its own overhead.
    let receive_bytes = socket.recv_buffer_size().unwrap_or(0) / 2;
    let send_bytes = socket.send_buffer_size().unwrap_or(0) / 2;
    if receive_bytes >= BUFFER_BYTES && send_bytes >= BUFFER_BYTES {
        return None;
    }
    Some(format!(
        "the system grants socket buffers of {receive_bytes} bytes to receive and {send_bytes} to \
         send instead of {BUFFER_BYTES}, so bursts may be lost; raise net.core.rmem_max and \
         net.core.wmem_max"
    ))
}

/// All connections share the buffers of the socket. The default of 208 KiB overflows with eight
/// batches of 400 KB under way; this holds a burst of twenty.
const BUFFER_BYTES: usize = 8 << 20;

/// More than the buffers hold; packets that come while it reads must not keep it busy.
const DISCARDED_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_port_is_bound_by_one_socket_only() {
        let first = bind(None, 0).unwrap();
        let port = first.local_addr().unwrap().port();
        assert_eq!(bind(None, port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(bind(loopback, port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn what_came_before_serving_is_thrown_away() {
        let socket = bind(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), 0).unwrap();
        assert_eq!(discard_waiting(&socket), 0);
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for _ in 0..3 {
            sender.send_to(b"hello", socket.local_addr().unwrap()).unwrap();
        }
        assert_eq!(discard_waiting(&socket), 3);
        assert_eq!(discard_waiting(&socket), 0);
    }
}
