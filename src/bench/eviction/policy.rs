//! What a policy is, and what it finds of a trace.

use std::collections::HashSet;

use clap::ValueEnum;
use mooring_actors::Moment;
use serde::Serialize;

use super::{adaptive, arc, clairvoyant, lru, s3_fifo, two_queues, weighted};
use crate::demo::trace::TraceRequest;

/// A cache of blocks of one size.
pub(super) trait Policy {
    /// A block is needed, and kept afterwards if the policy wants it. Says whether it was there.
    fn note_use(&mut self, now: Moment, block: u64) -> bool;
}

/// The policies that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyName {
    /// Least recently used, exactly
    Lru,
    /// 2Q, with a quarter of the room for what is new
    TwoQueues,
    /// S3-FIFO, with a tenth of the room for what is new
    S3Fifo,
    /// ARC, the adaptive replacement cache
    Arc,
    /// What was used again may be idle twice as long
    Weight2,
    /// What was used again may be idle 16 times as long
    Weight16,
    /// The policy of the master: the weight that pays on the load at hand
    Adaptive,
    /// What knows the future does, and keeps only what comes back: the most that can be found
    Clairvoyant,
}

impl PolicyName {
    /// All of them.
    pub(super) fn all() -> Vec<PolicyName> {
        PolicyName::value_variants().to_vec()
    }

    /// As it is given on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// With room for so many blocks, at least one. The future is for the clairvoyant one.
    fn policy(self, blocks: u64, future: &[TraceRequest]) -> Box<dyn Policy> {
        match self {
            PolicyName::Lru => Box::new(lru::Exact::new(blocks)),
            PolicyName::TwoQueues => Box::new(two_queues::TwoQueues::new(blocks)),
            PolicyName::S3Fifo => Box::new(s3_fifo::S3Fifo::new(blocks)),
            PolicyName::Arc => Box::new(arc::Arc::new(blocks)),
            PolicyName::Weight2 => Box::new(weighted::Weighted::new(2, blocks)),
            PolicyName::Weight16 => Box::new(weighted::Weighted::new(16, blocks)),
            PolicyName::Adaptive => Box::new(adaptive::Adaptive::new(blocks)),
            PolicyName::Clairvoyant => Box::new(clairvoyant::Clairvoyant::new(blocks, future)),
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Figures {
    /// Blocks that requests needed.
    pub(super) references: u64,
    /// Those that were there.
    pub(super) hits: u64,
    /// Those that were there with all before them in the chain. An engine can use only these.
    pub(super) prefix_hits: u64,
}

impl Figures {
    /// The share of references that were there.
    pub(super) fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.references.max(1) as f64
    }

    /// The share of references that an engine could use.
    pub(super) fn prefix_hit_rate(&self) -> f64 {
        self.prefix_hits as f64 / self.references.max(1) as f64
    }
}

/// Replays a trace: each request needs the blocks of its chain in their order.
pub(super) fn measure(name: PolicyName, blocks: u64, requests: &[TraceRequest]) -> Figures {
    let mut policy = name.policy(blocks, requests);
    let mut figures = Figures::default();
    for request in requests {
        let now = Moment::from_ms(request.timestamp);
        let mut prefix = true;
        for block in &request.hash_ids {
            let there = policy.note_use(now, *block);
            prefix &= there;
            figures.references += 1;
            figures.hits += u64::from(there);
            figures.prefix_hits += u64::from(prefix);
        }
    }
    figures
}

/// How many different blocks a trace has.
pub(super) fn distinct(requests: &[TraceRequest]) -> u64 {
    let blocks: HashSet<u64> =
        requests.iter().flat_map(|request| &request.hash_ids).copied().collect();
    blocks.len() as u64
}
