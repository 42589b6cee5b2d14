//! Generated traces: each has one trait of real loads, so that a policy that lives off another one
//! shows it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::demo::trace::TraceRequest;

/// What a generated trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shape {
    /// Conversations that grow turn by turn, behind shared system prompts; a few go on for long
    Conversations,
    /// Shared documents with questions, beside as many long ones that are read once
    Documents,
    /// System prompts of thousands of applications, each with a tail of its own
    Prompts,
    /// Agents that come back within seconds, again and again, and then never
    Agents,
    /// Shared documents that are all others every ten minutes
    Phases,
    /// Chains of which each is as likely as any other
    Uniform,
}

impl Shape {
    /// All of them.
    pub(super) fn all() -> Vec<Shape> {
        Shape::value_variants().to_vec()
    }

    /// As it is given on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The trace; it is the same each time.
    pub(super) fn trace(self) -> Vec<TraceRequest> {
        let mut maker = Maker { random: StdRng::seed_from_u64(SEED), next_block: 0 };
        match self {
            Shape::Conversations => maker.sessions(&CONVERSATIONS),
            Shape::Documents => maker.documents(),
            Shape::Prompts => maker.prompts(),
            Shape::Agents => maker.sessions(&AGENTS),
            Shape::Phases => maker.phases(),
            Shape::Uniform => maker.uniform(),
        }
    }
}

/// Sessions of many requests, each of which adds to the chain of the one before.
struct Sessions {
    /// Between two new ones, in the mean.
    every_ms: f64,
    prompts: u64,
    prompt_blocks: (u64, u64),
    text_blocks_mean: f64,
    added_blocks: (u64, u64),
    turns: fn(&mut Maker) -> u64,
    pause_ms: fn(&mut Maker) -> u64,
}

const CONVERSATIONS: Sessions = Sessions {
    every_ms: 450.0,
    prompts: 20,
    prompt_blocks: (1, 6),
    text_blocks_mean: 12.0,
    added_blocks: (1, 5),
    // Most people leave after a turn or none, one in a hundred stays for dozens.
    turns: |maker| (0.6 / maker.random.random::<f64>().max(0.02)) as u64,
    pause_ms: |maker| 15_000 + maker.about(110_000.0),
};

const AGENTS: Sessions = Sessions {
    every_ms: 2_600.0,
    prompts: 8,
    prompt_blocks: (8, 25),
    text_blocks_mean: 10.0,
    added_blocks: (1, 6),
    turns: |maker| 3 + maker.about(25.0),
    // Now and then a tool takes minutes.
    pause_ms: |maker| {
        if maker.random.random_bool(0.03) {
            maker.about(200_000.0)
        } else {
            2_000 + maker.about(9_000.0)
        }
    },
};

struct Maker {
    random: StdRng,
    next_block: u64,
}

impl Maker {
    fn sessions(&mut self, sessions: &Sessions) -> Vec<TraceRequest> {
        let prompts = self.chains(sessions.prompts, sessions.prompt_blocks);
        let mut due = BinaryHeap::new();
        for (number, start_ms) in (0_u64..).zip(self.arrivals(sessions.every_ms, HOUR_MS)) {
            let mut chain = prompts[self.skewed(prompts.len(), 3)].clone();
            let text = 2 + self.about(sessions.text_blocks_mean);
            chain.extend(self.new_blocks(text));
            let turns = (sessions.turns)(self);
            due.push(Reverse((start_ms, number, turns, chain)));
        }
        let mut requests = Vec::new();
        while let Some(Reverse((now_ms, number, turns, chain))) = due.pop() {
            requests.push(request(now_ms, chain.clone()));
            if turns > 0 {
                let mut longer = chain;
                let added =
                    self.random.random_range(sessions.added_blocks.0..sessions.added_blocks.1);
                longer.extend(self.new_blocks(added));
                let pause_ms = (sessions.pause_ms)(self);
                due.push(Reverse((now_ms + pause_ms, number, turns - 1, longer)));
            }
        }
        requests
    }

    fn documents(&mut self) -> Vec<TraceRequest> {
        let documents = self.chains(400, (10, 60));
        let mut requests = Vec::new();
        for now_ms in self.arrivals(400.0, HOUR_MS) {
            let chain = if self.random.random_bool(0.5) {
                let blocks = self.random.random_range(30..200);
                self.new_blocks(blocks)
            } else {
                self.with_tail(&documents, |maker| maker.random.random_range(1..4))
            };
            requests.push(request(now_ms, chain));
        }
        requests
    }

    fn prompts(&mut self) -> Vec<TraceRequest> {
        let prompts: Vec<Vec<u64>> = (0..3_000)
            .map(|_| {
                let blocks = 2 + self.about(15.0);
                self.new_blocks(blocks)
            })
            .collect();
        let arrivals = self.arrivals(250.0, HOUR_MS);
        let mut chain = || self.with_tail(&prompts, |maker| 1 + maker.about(8.0));
        arrivals.into_iter().map(|now_ms| request(now_ms, chain())).collect()
    }

    fn phases(&mut self) -> Vec<TraceRequest> {
        let (mut phase, mut documents) = (u64::MAX, Vec::new());
        let mut requests = Vec::new();
        for now_ms in self.arrivals(350.0, HOUR_MS * 3 / 2) {
            if now_ms / PHASE_MS != phase {
                phase = now_ms / PHASE_MS;
                documents = self.chains(700, (5, 40));
            }
            let chain = self.with_tail(&documents, |maker| maker.random.random_range(1..6));
            requests.push(request(now_ms, chain));
        }
        requests
    }

    fn uniform(&mut self) -> Vec<TraceRequest> {
        let chains = self.chains(2_500, (5, 30));
        let arrivals = self.arrivals(250.0, HOUR_MS);
        let mut chain = || chains[self.random.random_range(0..chains.len())].clone();
        arrivals.into_iter().map(|now_ms| request(now_ms, chain())).collect()
    }

    /// One of these chains, the first ones far more often than the last ones, and a tail behind it.
    fn with_tail(&mut self, chains: &[Vec<u64>], tail: impl Fn(&mut Maker) -> u64) -> Vec<u64> {
        // Each doubling of the rank is as likely as any other, as in Zipf's law.
        let rank = (chains.len() as f64).powf(self.random.random()) - 1.0;
        let mut chain = chains[(rank as usize).min(chains.len() - 1)].clone();
        let blocks = tail(self);
        chain.extend(self.new_blocks(blocks));
        chain
    }

    /// When requests come that come so often in the mean, each independently of the others.
    fn arrivals(&mut self, every_ms: f64, until_ms: u64) -> Vec<u64> {
        let mut now_ms = 0;
        let next = || {
            now_ms += 1 + self.about(every_ms);
            (now_ms < until_ms).then_some(now_ms)
        };
        std::iter::from_fn(next).collect()
    }

    fn chains(&mut self, count: u64, blocks: (u64, u64)) -> Vec<Vec<u64>> {
        (0..count)
            .map(|_| {
                let blocks = self.random.random_range(blocks.0..blocks.1);
                self.new_blocks(blocks)
            })
            .collect()
    }

    fn new_blocks(&mut self, count: u64) -> Vec<u64> {
        let first = self.next_block;
        self.next_block += count;
        (first..self.next_block).collect()
    }

    /// A number with this mean, most of them below it.
    fn about(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.random.random::<f64>()).ln() * mean) as u64
    }

    /// A place below a count; the power says how much the first ones are preferred.
    fn skewed(&mut self, count: usize, power: i32) -> usize {
        (self.random.random::<f64>().powi(power) * count as f64) as usize
    }
}

fn request(timestamp: u64, hash_ids: Vec<u64>) -> TraceRequest {
    TraceRequest { timestamp, hash_ids, ..TraceRequest::default() }
}

const SEED: u64 = 20_250_226;

const HOUR_MS: u64 = 3_600_000;

const PHASE_MS: u64 = 600_000;
