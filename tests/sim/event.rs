//! What happens, and the ways by which messages come.

use std::collections::VecDeque;

use mooring_actors::{RequestId, ShardId};

use crate::cluster::Envelope;

/// Who sends and who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Clock,
    /// Who starts the actors and ends them.
    Process,
    Client(u128),
    /// A way that carries a single message.
    Stray(u64),
    Clients,
    Pool,
    Shard(ShardId),
}

#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) messages: VecDeque<Envelope>,
    pub(crate) last_due_ms: u64,
}

/// Something that happens at its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Deliver(End, End),
    Tick,
    Arrive(RequestId),
    ClientStep(usize),
    Write {
        put: usize,
        replica: usize,
        from_byte: u64,
        length_bytes: u64,
    },
    /// A write that waited for its store is done.
    Land {
        put: usize,
        replica: usize,
        from_byte: u64,
        length_bytes: u64,
    },
    Conclude {
        put: usize,
    },
    /// A reader reads; `late` when its lease may be over by then.
    Read {
        client: usize,
        key: u32,
        location: usize,
        late: bool,
    },
    Ping(usize),
    ClientPing(usize),
    StoreStep(usize),
    StoreReturns(usize),
    /// No master has taken a request.
    Refused(RequestId),
    /// A put is started again.
    StartAgain {
        put: usize,
    },
    /// A put is ended or given up again.
    ConcludeAgain {
        put: usize,
        quiet: bool,
    },
    /// Somebody is cut off for a while.
    Cut,
    /// The master does nothing for a while.
    Stall,
    /// Nobody waits for an answer any more.
    GiveUp(RequestId),
    /// The master begins to leave.
    Leave,
    /// It is killed before it has left.
    KillLeaving,
    /// The next one begins to serve.
    Serve,
}
