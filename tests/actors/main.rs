//! Deterministic actor-message tests: each behaviour of the core as a sentence, on a stepped clock.

#[path = "../cluster/mod.rs"]
mod cluster;
mod common;

mod batches;
mod choice;
mod eviction;
mod following;
mod fullness;
mod groups;
mod handoff;
mod handoff_promises;
mod handoff_races;
mod huge_segments;
mod leases;
mod mailboxes;
mod parking;
mod put_lifecycle;
mod put_orders;
mod put_tokens;
mod removal;
mod replicas;
mod reuse;
mod segments;
mod sizes;
mod space;
mod sweeps;
mod upserts;
mod without_tokens;
mod writers;
