//! The shard: its keys' objects, and the ranges that hold their bytes.

pub mod message;
