//! What threads share, in every order that they can go in, and with every value that memory may show them.
//!
//! loom runs each model again and again, each time on another way through its threads, until there is
//! none left; of those with three threads and more it takes the ways of few interruptions. The code is that of the binary, compiled with the atomics of loom. They take SeqCst for
//! AcqRel, so code that needs more than that cannot pass here.
//!
//! ```text
//! cargo test --features loom --test loom
//! ```
//!
//! `LOOM_LOG=trace` and `LOOM_LOCATION=1` tell the way that a failure took.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

use loom::model::Builder;

/// Every way of many threads on which none is interrupted more than twice in all; those of more
/// interruptions are too many to be taken.
fn model_of_many(threads: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(threads);
}

/// What requests of all connections meet in.
#[allow(dead_code, reason = "the files have more than is modelled here")]
#[path = "../../src/frontend"]
mod frontend {
    mod budget;
    #[path = "../../tests/loom/budget.rs"]
    mod budget_model;
    mod stage;
    #[path = "../../tests/loom/stage.rs"]
    mod stage_model;
    use crate::sync;
}

/// What waits at a shard.
#[allow(dead_code, reason = "the file has more than is modelled here")]
#[path = "../../actors/src/core"]
mod shards {
    mod backlog;
    #[path = "../../../tests/loom/backlog.rs"]
    mod backlog_model;
    use crate::sync;
}

#[allow(dead_code, unreachable_pub, reason = "what is public there has its users there")]
#[path = "../../actors/src/moment.rs"]
mod moment;

mod sync;
