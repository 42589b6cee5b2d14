//! The QUIC front end.
//!
//! A listener owns the socket and the endpoint. Each connection begins with a hello; then each
//! stream of two directions is one request, which is read, routed to the shards that it concerns,
//! and answered. Every wait for a peer has a deadline, and everything that a peer can make the
//! process keep has a bound, for its connection and for all together.

mod connection;
mod drops;
mod farewell;
mod listener;
mod owners;
mod paths;
mod probe;
mod reply;
mod request;
pub(crate) mod reset_key;
mod roles;
mod router;
mod sessions;
mod socket;
pub(crate) mod transport;

pub(crate) use listener::{Listener, ListenerOptions, reachable, server_config};
pub(crate) use probe::Probe;
pub(crate) use roles::Roles;
pub(crate) use socket::{bind, describe_buffers, discard_waiting};
