//! The port for clients of Mooncake, met with their own protocol.

pub(crate) mod client;
mod figures;
mod framing;
mod objects;
mod restart;
mod segments;
