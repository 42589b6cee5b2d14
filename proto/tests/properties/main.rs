//! What holds for every message and for all bytes that a peer may send.

mod decoders;
mod limits;
mod roundtrip;
