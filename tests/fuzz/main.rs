//! Decoders under millions of damaged inputs, on a stable compiler and without another tool.
//!
//! Each decoder that reads what a peer or a former process has written is one file here: where its
//! inputs begin, and what must hold of whatever it is fed. `engine` damages the inputs, keeps those
//! that led to something new, and goes on from them.
//!
//! A run takes about a second for each decoder. For a long one:
//!
//! ```text
//! MOORING_FUZZ_SECONDS=3600 cargo test --release --test fuzz
//! ```
//!
//! An input that breaks a decoder is printed in hexadecimal. Give it a line in
//! `tests/fixtures/fuzz/DECODER.txt`, where every later run begins with it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

mod engine;
mod mooncake;
mod query;
mod quic;

#[path = "../../proto/tests/counting/mod.rs"]
mod counting;
