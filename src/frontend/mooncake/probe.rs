//! The process asks its own port whether it answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mooring_proto::mooncake::{Form, ServiceReady, append_request, split_reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connects as a client does and asks what every client asks first. No shard is concerned with it.
///
/// # Errors
/// Where it came to an end. The caller sets the deadline.
pub(crate) async fn probe(bound: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(own(bound)).await?;
    let mut frame = Vec::new();
    append_request(&mut frame, 1, &ServiceReady {}, Form::Plain).map_err(io::Error::other)?;
    stream.write_all(&frame).await?;
    let mut answer = Vec::new();
    loop {
        let reply = split_reply(&answer, ANSWER_BYTES_MAX).map_err(io::Error::other)?;
        match reply.map(|reply| reply.header.error) {
            Some(0) => return Ok(()),
            Some(error) => return Err(io::Error::other(format!("refused with {error}"))),
            None if stream.read_buf(&mut answer).await? > 0 => {}
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Where a process reaches a port of its own.
fn own(bound: SocketAddr) -> SocketAddr {
    let address = match bound.ip() {
        IpAddr::V4(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) if address.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    };
    SocketAddr::new(address, bound.port())
}

/// Many times the answer.
const ANSWER_BYTES_MAX: usize = 4096;
