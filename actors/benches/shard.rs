//! What a shard takes for each key, without an actor and a network around it: puts into a pool that grows
//! and into one that is full, and gets, in nanoseconds.
//!
//! `cargo bench -p mooring-actors --bench shard -- OBJECTS BATCH`, by default a million and 64. Most of it is
//! waiting for memory, so that figures differ with the machine, with what else runs on it, and with the
//! number of objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooring_actors::pool::message::{
    Generation, Mount, PoolOrder, SegmentSlot, SegmentUsage, ShardReport,
};
use mooring_actors::shard::config::ShardConfig;
use mooring_actors::shard::message::{
    KeyBatch, KeyRef, PutRequest, ShardEffect, ShardMessage, ShardReply, ShardRequest,
};
use mooring_actors::shard::state::Shard;
use mooring_actors::{Moment, PageRun, RequestId, Route, ShardId};
use mooring_proto::message::object::PutOptions;
use mooring_proto::{ClientId, Incarnation, SegmentId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn main() {
    // Cargo adds a flag of its own.
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let objects = numbers.first().copied().unwrap_or(1_000_000);
    let batch = numbers.get(1).copied().unwrap_or(64).max(1);
    println!("{objects} objects, batches of {batch}, nanoseconds for each key");

    let mut bench = Bench::new(SEGMENT_PAGES);
    bench.put("put, growing", 0..objects, batch);
    for _ in 0..2 {
        bench.get("get", objects, batch);
    }

    // With room for as many as there are to be.
    let pages = objects * OBJECT_BYTES / u64::from(PAGE_BYTES) / u64::from(SEGMENTS);
    let mut bench = Bench::new(u32::try_from(pages).unwrap_or(SEGMENT_PAGES));
    bench.put("put, filling", 0..objects, batch);
    bench.put("put, evicting", objects..2 * objects, batch);
    println!("{} objects were evicted", bench.shard.totals().evicted_objects);
}

/// A shard, and in the place of the pool what grants spans and orders evictions.
struct Bench {
    shard: Shard,
    route: Route,
    /// Keys that were asked for so far: a million of them are a second.
    keys: u64,
    now: Moment,
    /// The first page of each segment that was not granted yet.
    next_pages: Vec<u32>,
    segment_pages: u32,
    /// Bytes that were ordered to be evicted on each segment.
    evict_to_bytes: Vec<u64>,
    random: SmallRng,
}

impl Bench {
    fn new(segment_pages: u32) -> Bench {
        let route = Route::new(7, 1);
        let config = ShardConfig::new(ShardId(0), route, INCARNATION);
        let mut bench = Bench {
            shard: Shard::new(config),
            route,
            keys: 0,
            now: Moment::from_ms(START_MS),
            next_pages: vec![0; usize::from(SEGMENTS)],
            segment_pages,
            evict_to_bytes: vec![0; usize::from(SEGMENTS)],
            random: SmallRng::seed_from_u64(1),
        };
        for slot in 0..SEGMENTS {
            bench.tell(ShardMessage::Pool(PoolOrder::SegmentMounted {
                mount: Mount { slot: SegmentSlot(slot), generation: Generation(1) },
                segment: SegmentId(u128::from(slot) + 1),
                capacity_bytes: bench.segment_bytes(),
                page_bytes: PAGE_BYTES,
                rests_until: None,
            }));
        }
        bench
    }

    fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_pages) * u64::from(PAGE_BYTES)
    }

    /// Puts new keys, start and end.
    fn put(&mut self, what: &str, numbers: Range<u64>, batch: u64) {
        let (mut starts, mut ends) = (Duration::ZERO, Duration::ZERO);
        for first in numbers.clone().step_by(batch as usize) {
            let keys = self.keys(first..(first + batch).min(numbers.end));
            let puts = (0..keys.len() as u64)
                .map(|index| PutRequest { size_bytes: OBJECT_BYTES, put_id: first + index });
            let start = ShardRequest::PutStart {
                client: ClientId(5),
                options: PutOptions::default(),
                extras: None,
                batch: keys.clone(),
                puts: puts.collect(),
            };
            let (reply, took) = self.ask(start);
            starts += took;
            let Some(ShardReply::Started(grants)) = reply else {
                panic!("a start waits for space")
            };
            let sequences = grants.iter().map(|grant| match grant {
                Ok(grant) => grant.sequence,
                Err(refusal) => panic!("a start is refused: {refusal}"),
            });
            let sequences = sequences.collect();
            let end = ShardRequest::PutEnd { incarnation: INCARNATION, batch: keys, sequences };
            ends += self.ask(end).1;
            self.pass_time(batch);
        }
        let each = |total: Duration| total.as_nanos() / u128::from(numbers.end - numbers.start);
        println!("{what}: start {}, end {}", each(starts), each(ends));
    }

    /// Gets keys at random.
    fn get(&mut self, what: &str, objects: u64, batch: u64) {
        let mut total = Duration::ZERO;
        for _ in 0..objects / batch {
            let first = self.random.random_range(0..objects);
            // An odd number without a pattern, so that neighbours in the batch are none in memory.
            let numbers = (0..batch).map(|step| (first + step * 0x9e37_79b1) % objects);
            let batch = self.keys(numbers);
            let count = batch.len() as u64;
            total += self.ask(ShardRequest::Get { batch }).1;
            self.pass_time(count);
        }
        println!("{what}: {}", total.as_nanos() / u128::from(objects / batch * batch));
    }

    fn ask(&mut self, request: ShardRequest) -> (Option<ShardReply>, Duration) {
        let message = ShardMessage::Request { id: RequestId(1), deadline: None, request };
        let before = Instant::now();
        let reply = self.tell(message);
        (reply, before.elapsed())
    }

    fn pass_time(&mut self, keys: u64) {
        self.keys += keys;
        let before =
            std::mem::replace(&mut self.now, Moment::from_ms(START_MS + self.keys / 1_000));
        if before.as_ms() / TICK_MS != self.now.as_ms() / TICK_MS {
            self.tell(ShardMessage::Tick);
        }
    }

    /// Delivers a message, and what follows from it until nothing does. Gives the answer, if there is one.
    fn tell(&mut self, message: ShardMessage) -> Option<ShardReply> {
        let (mut answer, mut effects) = (None, Vec::new());
        let mut waiting = VecDeque::from([message]);
        while let Some(message) = waiting.pop_front() {
            self.shard.apply(self.now, message, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    ShardEffect::Reply { reply, .. } => answer = Some(reply),
                    ShardEffect::Continue => waiting.push_back(ShardMessage::Continue),
                    ShardEffect::Report(ShardReport::SpanRequest { mount, .. }) => {
                        waiting.push_back(ShardMessage::Pool(self.grant(mount)));
                    }
                    ShardEffect::Report(ShardReport::Usage(usages)) => {
                        let orders = usages.iter().filter_map(|usage| self.eviction(usage));
                        waiting.extend(orders.map(ShardMessage::Pool));
                    }
                    _ => {}
                }
            }
        }
        answer
    }

    fn grant(&mut self, mount: Mount) -> PoolOrder {
        let first_page = &mut self.next_pages[usize::from(mount.slot.0)];
        let pages = (self.segment_pages - *first_page).min(SPAN_PAGES);
        if pages == 0 {
            return PoolOrder::Deny { mount };
        }
        let run = PageRun::new(*first_page, pages);
        *first_page += pages;
        PoolOrder::Grant { mount, run }
    }

    /// The order that brings a segment from above nine tenths down to 85 in a hundred.
    fn eviction(&mut self, usage: &SegmentUsage) -> Option<PoolOrder> {
        let (used_bytes, bytes) = (usage.allocated_bytes + usage.held_bytes, self.segment_bytes());
        if used_bytes <= bytes / 10 * 9 {
            return None;
        }
        let evicted_total_bytes = usage.evicted_total_bytes + used_bytes - bytes / 100 * 85;
        let ordered_bytes = &mut self.evict_to_bytes[usize::from(usage.mount.slot.0)];
        let new = evicted_total_bytes > *ordered_bytes;
        *ordered_bytes = evicted_total_bytes.max(*ordered_bytes);
        new.then_some(PoolOrder::Evict { mount: usage.mount, evicted_total_bytes })
    }

    fn keys(&self, numbers: impl Iterator<Item = u64>) -> KeyBatch {
        let frame: Vec<u8> = numbers.flat_map(key).collect();
        let frame = Bytes::from(frame);
        let places = (0..frame.len()).step_by(KEY_BYTES);
        let keys = places.map(|at| KeyRef {
            hash: self.route.hash(&frame[at..at + KEY_BYTES]),
            at: at as u32,
            length: KEY_BYTES as u32,
        });
        KeyBatch { keys: keys.collect(), frame: frame.clone() }
    }
}

/// Keys of the usual length, each another one.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'-'; KEY_BYTES];
    key[KEY_BYTES / 2..KEY_BYTES / 2 + 8].copy_from_slice(&number.to_le_bytes());
    key
}

const INCARNATION: Incarnation = Incarnation(9);
const KEY_BYTES: usize = 96;
const OBJECT_BYTES: u64 = 256 << 10;
const PAGE_BYTES: u32 = 64 << 10;

/// As many as a usual place has, each of 675 GiB.
const SEGMENTS: u16 = 12;
const SEGMENT_PAGES: u32 = 675 << 14;

/// A gibibyte.
const SPAN_PAGES: u32 = 1 << 14;

const START_MS: u64 = 1_000;
const TICK_MS: u64 = 10;
