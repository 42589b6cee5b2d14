//! What threads share by: the types of the standard library and of tokio. The models of `tests/loom`
//! compile the same code with types in whose place every way of its threads can be taken.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
pub(super) use tokio::sync::Notify;
