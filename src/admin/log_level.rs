//! `/log_level`: what is logged, to look at and to change while the process runs.
//!
//! GET gives the directives that are in effect. PUT takes others in its body, as `--log-level` does;
//! DELETE goes back to those of the start. Only whoever is on the same machine may change them: the
//! pages know no authentication, and a log that is too loud costs the disk.

use std::net::{IpAddr, SocketAddr};

use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::connections::Peer;
use crate::logging;

pub(super) async fn get() -> Response {
    match logging::levels() {
        Some(directives) => format!("{directives}\n").into_response(),
        None => (StatusCode::NOT_FOUND, "there is no log\n").into_response(),
    }
}

pub(super) async fn put(ConnectInfo(Peer(peer)): ConnectInfo<Peer>, body: Bytes) -> Response {
    if body.len() > DIRECTIVES_BYTES_MAX {
        let text = format!("more than {DIRECTIVES_BYTES_MAX} bytes\n");
        return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
    }
    match std::str::from_utf8(&body) {
        Ok(directives) => change(peer, Some(directives.trim())),
        Err(_) => (StatusCode::BAD_REQUEST, "the directives are no text\n").into_response(),
    }
}

pub(super) async fn delete(ConnectInfo(Peer(peer)): ConnectInfo<Peer>) -> Response {
    change(peer, None)
}

fn change(peer: SocketAddr, directives: Option<&str>) -> Response {
    if !is_local(peer.ip()) {
        let text = "only from the machine of the master\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    match logging::set_levels(directives) {
        Ok(()) => format!("{}\n", logging::levels().unwrap_or_default()).into_response(),
        Err(text) => (StatusCode::BAD_REQUEST, format!("{text}\n")).into_response(),
    }
}

/// An IPv4 peer of a socket for both families comes as an IPv6 address.
fn is_local(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

/// Several directives, and not a list that makes each line slow.
const DIRECTIVES_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_machine_is_local() {
        for (peer, local) in [
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_local(peer.parse().unwrap()), local, "{peer}");
        }
    }
}
