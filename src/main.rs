//! Mooring: the master of a distributed KV-cache store for LLM inference, its stores and its
//! clients, in one binary.

#![cfg_attr(
    not(test),
    deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic: see `output`")
)]

mod admin;
mod allocator;
mod bench;
mod cli;
mod command;
mod config;
mod demo;
mod descriptors;
mod frontend;
mod handoff;
mod logging;
mod master;
mod metadata_store;
mod mooncake_master;
#[cfg(test)]
#[path = "../tests/network/mod.rs"]
mod network;
mod output;
mod regular_file;
mod signals;
mod store;
mod telemetry;
mod tls;
mod top;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
