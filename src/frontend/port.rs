//! Binding a port on all addresses of a machine, or on one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Binds a port. Without an address it takes all of them, of both families if the system has IPv6.
///
/// # Errors
/// What the system says, for the address that was tried last.
pub(crate) fn bind_port<S>(
    address: Option<IpAddr>,
    port: u16,
    bind_one: impl Fn(SocketAddr) -> io::Result<S>,
) -> io::Result<S> {
    match address {
        Some(address) => bind_one(SocketAddr::new(address, port)),
        None => match bind_one(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)) {
            // A port in use must not be taken in the other family: peers would meet both processes.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                bind_one(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
            }
            outcome => outcome,
        },
    }
}
