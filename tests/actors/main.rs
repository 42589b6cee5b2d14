//! Deterministic actor-message tests: each behaviour of the core as a sentence, on a stepped clock.

#[path = "../cluster/mod.rs"]
mod cluster;

mod put_lifecycle;
