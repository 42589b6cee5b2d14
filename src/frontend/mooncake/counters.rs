//! What has happened at this front end since the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mooring_proto::mooncake::Function;

use crate::descriptors::MOONCAKE_MAX;
use crate::frontend::budget::Budget;
use crate::frontend::counters::{BatchCounters, Counter};
use crate::frontend::histogram::Histogram;

/// The calls of one function.
#[derive(Default)]
pub(crate) struct FunctionCounters {
    /// Calls.
    pub(crate) requests: Counter,
    /// Of them, refused as a whole.
    pub(crate) failures: Counter,
    /// What became of their items, if they are batches.
    pub(crate) batch: BatchCounters,
    /// Calls whose arguments cannot be read, most likely of clients of another release.
    pub(crate) wrong_arguments: Counter,
    /// How long calls took, from the whole request to its answer.
    pub(crate) durations: Histogram,
    told: AtomicBool,
}

/// All counters of the front end.
pub(crate) struct MooncakeCounters {
    functions: Vec<FunctionCounters>,
    budget: Arc<Budget>,
    told_other_fleet: AtomicBool,
    /// Connections that are open now.
    pub(crate) open: AtomicUsize,
    /// As many may be open.
    pub(crate) connections_max: AtomicUsize,
    /// Connections that were accepted.
    pub(crate) connections: Counter,
    /// Connections that were refused for want of room.
    pub(crate) connections_refused: Counter,
    /// Of them, because their address had as many as one may have.
    pub(crate) address_connections_refused: Counter,
    /// Connections closed because there was no room for what they sent.
    pub(crate) overloaded: Counter,
    /// Connections closed because what came was no frame of the protocol, or above a limit.
    pub(crate) framing_errors: Counter,
    /// Calls of functions that do not exist.
    pub(crate) unknown_functions: Counter,
    /// Connections closed because their peer did not take its answers.
    pub(crate) write_timeouts: Counter,
}

impl Default for MooncakeCounters {
    fn default() -> MooncakeCounters {
        let functions = Function::ALL.iter().map(|_| FunctionCounters::default()).collect();
        MooncakeCounters {
            functions,
            budget: Budget::new(ALL_BYTES_MAX),
            told_other_fleet: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            connections_max: AtomicUsize::new(MOONCAKE_MAX),
            connections: Counter::default(),
            connections_refused: Counter::default(),
            address_connections_refused: Counter::default(),
            overloaded: Counter::default(),
            framing_errors: Counter::default(),
            unknown_functions: Counter::default(),
            write_timeouts: Counter::default(),
        }
    }
}

impl MooncakeCounters {
    /// The counters of one function.
    pub(crate) fn function(&self, function: Function) -> &FunctionCounters {
        &self.functions[function as usize]
    }

    /// Whether as many connections are open as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.connections_max.load(Ordering::Relaxed)
    }

    /// The bytes of requests and replies of all connections.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes of requests and replies that are kept now, and how many may be.
    pub(crate) fn kept_bytes(&self) -> (usize, usize) {
        (self.budget.kept_bytes(), ALL_BYTES_MAX)
    }
}

/// Bytes of requests and replies of all connections together: a hundred large batches, in a process
/// that may have no more memory than its index needs.
pub(super) const ALL_BYTES_MAX: usize = 256 << 20;

impl MooncakeCounters {
    /// Says once that clients of Mooncake have come to a master whose memory they cannot reach.
    pub(super) fn tell_other_fleet(&self) {
        if !self.told_other_fleet.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "clients of Mooncake find no memory here: the stores of this master are reached \
                 over QUIC; run a master of its own for each kind"
            );
        }
    }
}

impl FunctionCounters {
    /// The answer to a call that is not a batch.
    pub(super) fn answered<T, E>(&self, answer: &Result<T, E>) {
        if answer.is_err() {
            self.failures.increment();
        }
    }

    /// Whether it is told for the first time that clients of another release call this function. A fleet
    /// of them repeats it by the thousand.
    pub(super) fn tell_other_release(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_counters_of_its_own() {
        let counters = MooncakeCounters::default();
        for function in Function::ALL {
            counters.function(*function).requests.increment();
        }
        for function in Function::ALL {
            assert_eq!(counters.function(*function).requests.value(), 1, "{function:?}");
        }
    }

    #[test]
    fn another_release_is_told_once_for_each_function() {
        let counters = MooncakeCounters::default();
        assert!(counters.function(Function::Ping).tell_other_release());
        assert!(!counters.function(Function::Ping).tell_other_release());
        assert!(counters.function(Function::PutEnd).tell_other_release());
    }
}
