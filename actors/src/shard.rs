//! The shard: its keys' objects, and the ranges that hold their bytes.
//!
//! Begin with [`state`]: it receives every message. Each concern has its file: [`read`], [`put`]
//! with [`upsert`], [`place`] and [`park`], [`writer`], [`describe`], [`remove`], [`ahead`],
//! [`evict`] with [`reuse`], [`grouped`], [`vacate`], [`usage`]. The lasting state is in [`ledger`], over the structures [`index`], [`keys`],
//! [`objects`], [`ranges`] and [`side`].

pub mod config;
pub mod message;
pub mod restore;
pub mod state;

mod abroad;
pub(crate) mod actor;
mod ahead;
pub mod check;
mod choice;
mod describe;
mod evict;
mod export;
mod grouped;
mod holds;
mod idle;
pub(crate) mod index;
mod jobs;
mod keys;
mod ledger;
pub(crate) mod objects;
mod park;
mod pins;
mod place;
mod prefetch;
mod put;
pub(crate) mod ranges;
mod read;
mod remove;
mod reuse;
mod segments;
mod side;
#[cfg(test)]
mod stage;
mod unfinished;
mod upsert;
mod usage;
mod vacate;
mod writer;

pub use choice::AllocationStrategy;
pub use jobs::{JobKind, JobReport};
pub use prefetch::prefetch;
pub use reuse::{EvictionPolicy, Trial, Trials};
