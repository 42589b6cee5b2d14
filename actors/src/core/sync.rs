//! What threads share by: the types of the standard library. The models of the package `mooring`, in its
//! `tests/loom`, compile the same code with types in whose place every way of its threads can be taken.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
