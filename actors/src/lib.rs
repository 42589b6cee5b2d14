//! The core of Mooring.
//!
//! Each actor is a plain struct with one function, `apply`: it takes the time and a message and
//! gives effects. It reads no clock, opens no file, awaits nothing and holds no lock, so a whole
//! cluster can be run in one thread from one seed. The shells in `*/actor.rs` carry the structs
//! on kameo: they receive, stamp the time, apply, and send what came out.

#[cfg(feature = "bench")]
pub mod bench;
pub mod beside;
pub mod clients;
pub mod clock;
pub mod core;
pub mod handoff;
pub mod invariant;
pub mod moment;
pub mod pages;
pub mod pool;
pub mod request;
pub mod route;
pub mod shard;
mod shell;
pub mod watch;

pub use moment::Moment;
pub use pages::PageRun;
pub use request::RequestId;
pub use route::{Route, ShardId};
