//! The codec of Mooncake's protocol, against what its clients and masters have sent.

mod captures;
mod framing;
mod hostile;
mod independent;
mod roundtrip;
mod table;

#[path = "../counting/mod.rs"]
mod counting;
