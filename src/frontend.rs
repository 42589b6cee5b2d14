//! The front ends: what turns requests of peers into messages to the core, and answers them.

pub(crate) mod addresses;
mod budget;
pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod instruments;
pub(crate) mod mooncake;
mod mounts;
mod port;
pub(crate) mod quic;
pub(crate) mod slow;
pub(crate) mod split;
pub(crate) mod stage;
pub(crate) mod stats;
mod sync;

use std::time::Instant;

use mooring_actors::core::Core;
use mooring_proto::ClientId;

use counters::Counters;
use mooncake::MooncakeCounters;
use slow::SlowLog;
use stage::Stage;

/// What all front ends and the admin pages share.
pub(crate) struct Context {
    /// The core.
    pub(crate) core: Core,
    /// What has happened since the start.
    pub(crate) counters: Counters,
    /// What clients of Mooncake have asked since the start.
    pub(crate) mooncake: MooncakeCounters,
    /// Whether requests are answered, and how many are being answered.
    pub(crate) stage: Stage,
    /// From when on a request is told of.
    pub(crate) slow: SlowLog,
    /// The id with which the process connects to itself; it is no client.
    pub(crate) probe_client: ClientId,
    /// When the process started.
    pub(crate) started: Instant,
}

impl Context {
    /// A context around a core that has just been started.
    pub(crate) fn new(core: Core, probe_client: ClientId, slow: SlowLog) -> Context {
        Context {
            core,
            counters: Counters::default(),
            mooncake: MooncakeCounters::default(),
            stage: Stage::default(),
            slow,
            probe_client,
            started: Instant::now(),
        }
    }
}
