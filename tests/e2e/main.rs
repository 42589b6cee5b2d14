//! End-to-end tests: the real binary, real sockets, separate processes.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

mod bad_network;
mod bench;
mod collector;
mod commands;
mod config;
mod demo;
mod descriptors;
mod early_signals;
mod exposition;
mod handoff;
mod harness;
mod limits;
mod members;
mod metadata_store;
mod mooncake;
mod mooncake_master;
mod mooncake_pages;
mod objects;
mod observing;
mod ops;
mod output;
mod peer;
mod pool;
mod process;
mod store;
mod supervisor;
mod telemetry;
mod tls;
mod wire;
