//! The trace that comes with the program: conversations, made from a seed.
//!
//! Each conversation starts with one of a few system prompts, which many share, goes on with a text
//! of its own, and grows by a few blocks with each turn. People come back soon or not at all, so
//! recent conversations are continued more often, and now and then an old one is.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::trace::TraceRequest;

/// Makes the trace; it is the same each time.
pub(crate) fn trace() -> Vec<TraceRequest> {
    let mut service = Service::new();
    (0..REQUESTS).map(|_| service.request()).collect()
}

struct Service {
    random: StdRng,
    now_ms: u64,
    next_block: u64,
    system_prompts: Vec<Vec<u64>>,
    /// The chains of running conversations, the latest one last.
    conversations: Vec<Vec<u64>>,
}

impl Service {
    fn new() -> Service {
        let mut service = Service {
            random: StdRng::seed_from_u64(SEED),
            now_ms: 0,
            next_block: 0,
            system_prompts: Vec::new(),
            conversations: Vec::new(),
        };
        for _ in 0..SYSTEM_PROMPTS {
            let blocks = service.random.random_range(2..8);
            let prompt = service.new_blocks(blocks);
            service.system_prompts.push(prompt);
        }
        service
    }

    fn request(&mut self) -> TraceRequest {
        let mut chain = if self.random.random_bool(NEW_CONVERSATIONS) {
            self.new_conversation()
        } else {
            self.continued_conversation()
        };
        let turn = self.random.random_range(1..6);
        chain.extend(self.new_blocks(turn));
        self.now_ms += self.random.random_range(50..550);
        let request = TraceRequest {
            timestamp: self.now_ms,
            input_length: chain.len() as u64 * BLOCK_TOKENS,
            output_length: self.random.random_range(20..800),
            hash_ids: chain.clone(),
        };
        self.conversations.push(chain);
        if self.conversations.len() > CONVERSATIONS_MAX {
            self.conversations.remove(0);
        }
        request
    }

    fn new_conversation(&mut self) -> Vec<u64> {
        let prompt = self.random.random_range(0..self.system_prompts.len());
        let mut chain = self.system_prompts[prompt].clone();
        let text = self.random.random_range(10..150);
        chain.extend(self.new_blocks(text));
        chain
    }

    fn continued_conversation(&mut self) -> Vec<u64> {
        if self.conversations.is_empty() {
            return self.new_conversation();
        }
        // The square prefers small ages.
        let age = self.random.random::<f64>().powi(2) * self.conversations.len() as f64;
        let place = self.conversations.len().saturating_sub(1 + age as usize);
        self.conversations.remove(place)
    }

    fn new_blocks(&mut self, count: u64) -> Vec<u64> {
        let first = self.next_block;
        self.next_block += count;
        (first..self.next_block).collect()
    }
}

const SEED: u64 = 20_250_225;

/// Enough to overflow the pool that the demo has by default, and done in well under a minute.
const REQUESTS: usize = 900;

const SYSTEM_PROMPTS: usize = 6;

/// The share of requests that start a conversation.
const NEW_CONVERSATIONS: f64 = 0.3;

/// Older conversations are not continued.
const CONVERSATIONS_MAX: usize = 400;

const BLOCK_TOKENS: u64 = 512;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::demo::lru::Lru;

    #[test]
    fn it_is_the_same_each_time() {
        assert_eq!(trace(), trace());
    }

    #[test]
    fn equal_blocks_stand_behind_equal_blocks() {
        let mut before: HashMap<u64, Option<u64>> = HashMap::new();
        for request in trace() {
            let mut last = None;
            for block in request.hash_ids {
                assert_eq!(*before.entry(block).or_insert(last), last);
                last = Some(block);
            }
        }
    }

    #[test]
    fn it_overflows_the_default_pool_and_rewards_a_good_order_of_eviction() {
        let trace = trace();
        let references: usize = trace.iter().map(|request| request.hash_ids.len()).sum();
        let hits = |capacity_blocks: u64| {
            let mut cache = Lru::new(capacity_blocks);
            trace.iter().map(|request| cache.hits(&request.hash_ids)).sum::<u64>()
        };
        let endless = hits(u64::MAX);
        let distinct = references as u64 - endless;
        assert!(distinct > 16_384, "{distinct} distinct blocks of {references}");
        let bounded = hits(14_745);
        assert!(bounded * 2 > references as u64, "{bounded} hits of {references}");
        assert!(bounded < endless, "{bounded} hits of at most {endless}");
    }
}
