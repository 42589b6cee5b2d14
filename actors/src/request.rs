//! Tickets that tie an answer to the request it belongs to.

/// A request that an actor has accepted and must answer exactly once. The shell gives the number
/// out and keeps the way back to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(pub u64);
