//! The port for clients of Mooncake, met with their own protocol.

mod client;
mod framing;
mod objects;
mod restart;
mod segments;
