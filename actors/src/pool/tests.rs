//! Tests of the pool: a stepped clock, and shards that are played by a few lines.

mod fake_shard;
mod handover;
mod heap;
mod interleaving;
mod leaving;
mod mounting;
mod pending;
mod pressure;
mod quiesce;
mod room;
mod spans;

use std::collections::BTreeMap;
use std::mem;

use mooring_proto::error::WireError;
use mooring_proto::message::segment::{MountGrant, MountRequest, Segment, TransferEngine};
use mooring_proto::{ClientId, Incarnation, SegmentId, SegmentsDigest};

use self::fake_shard::FakeShard;
use super::message::*;
use super::{Pool, PoolConfig};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::request::RequestId;
use crate::route::ShardId;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 64 << 10;
const INCARNATION: Incarnation = Incarnation(7);
const ALICE: ClientId = ClientId(0xa);
const BOB: ClientId = ClientId(0xb);

/// A pool with its shards and a clock. The invariants are checked after each message.
struct Bench {
    pool: Pool,
    now: Moment,
    shards: Vec<FakeShard>,
    /// Whether the shards answer by themselves.
    answering: bool,
    replies: BTreeMap<u64, PoolReply>,
    /// What was said since `take_orders`.
    orders: Vec<(u16, PoolOrder)>,
    epochs: Vec<u64>,
    client_segments: BTreeMap<ClientId, u32>,
    client_kept: BTreeMap<ClientId, SegmentsDigest>,
    unlisted: Vec<SegmentId>,
    at_rest: u32,
    last_request: u64,
}

impl Bench {
    fn new(shards: u16) -> Bench {
        Bench::with(PoolConfig::new(shards, INCARNATION))
    }

    fn with(config: PoolConfig) -> Bench {
        Bench::of(config.shards, Pool::new(config), Moment::from_ms(1_000_000))
    }

    fn of(shards: u16, pool: Pool, now: Moment) -> Bench {
        Bench {
            shards: (0..shards).map(|_| FakeShard::default()).collect(),
            pool,
            now,
            answering: true,
            replies: BTreeMap::new(),
            orders: Vec::new(),
            epochs: Vec::new(),
            client_segments: BTreeMap::new(),
            client_kept: BTreeMap::new(),
            unlisted: Vec::new(),
            at_rest: 0,
            last_request: 0,
        }
    }

    fn send(&mut self, message: PoolMessage) {
        let mut messages = vec![message];
        while !messages.is_empty() {
            let mut effects = Vec::new();
            for message in messages.drain(..) {
                self.pool.apply(self.now, message, &mut effects);
                self.pool.check().unwrap();
            }
            for effect in effects {
                match effect {
                    PoolEffect::Reply { id, reply } => {
                        assert!(self.replies.insert(id.0, reply).is_none(), "answered twice");
                    }
                    PoolEffect::Order { shard, order } => {
                        let fake = &mut self.shards[usize::from(shard.0)];
                        fake.own(&order);
                        if self.answering {
                            let reports = fake.answer(self.now, &order);
                            messages.extend(
                                reports
                                    .into_iter()
                                    .map(|report| PoolMessage::Shard { shard, report }),
                            );
                        }
                        self.orders.push((shard.0, order));
                    }
                    PoolEffect::TableChanged { epoch } => self.epochs.push(epoch),
                    PoolEffect::ClientSegments { client, segments, kept } => {
                        self.client_segments.insert(client, segments);
                        self.client_kept.insert(client, kept);
                    }
                    PoolEffect::Unlisted { segment, .. } => self.unlisted.push(segment),
                    PoolEffect::AtRest => self.at_rest += 1,
                }
            }
        }
    }

    fn report(&mut self, shard: u16, report: ShardReport) {
        self.send(PoolMessage::Shard { shard: ShardId(shard), report });
    }

    /// Sends a request; gives its answer if there is one by now.
    fn ask(&mut self, request: PoolRequest) -> Option<PoolReply> {
        self.last_request += 1;
        let id = self.last_request;
        self.send(PoolMessage::Request { id: RequestId(id), request });
        self.replies.remove(&id)
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        self.send(PoolMessage::Tick);
    }

    fn mount(&mut self, client: ClientId, segment: Segment) -> Result<MountGrant, WireError> {
        self.mount_again(client, segment, None)
    }

    fn mount_again(
        &mut self,
        client: ClientId,
        segment: Segment,
        mounted_with: Option<Incarnation>,
    ) -> Result<MountGrant, WireError> {
        let mount = MountRequest { segment, mounted_with };
        match self.ask(PoolRequest::Mount { client, mount }) {
            Some(PoolReply::Mounted(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    fn remount(
        &mut self,
        client: ClientId,
        segments: &[Segment],
    ) -> Result<Vec<MountGrant>, WireError> {
        let request =
            |segment: &Segment| MountRequest { segment: segment.clone(), mounted_with: None };
        let mounts = segments.iter().map(request).collect();
        match self.ask(PoolRequest::Remount { client, mounts }) {
            Some(PoolReply::Remounted(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    /// Mounts memory of this size and forgets what was said about it.
    fn mounted(&mut self, number: u64, size_bytes: u64) -> Mount {
        self.mount(ALICE, segment(number, size_bytes)).unwrap();
        self.orders.clear();
        self.pool.mount_of(SegmentId(number.into())).unwrap()
    }

    fn unmount(
        &mut self,
        client: Option<ClientId>,
        number: u64,
        grace_ms: u64,
    ) -> Option<Result<u64, WireError>> {
        let segment = SegmentId(number.into());
        match self.ask(PoolRequest::Unmount { client, segment, grace_ms }) {
            Some(PoolReply::Unmounted(result)) => Some(result),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn totals(&mut self) -> PoolTotals {
        match self.ask(PoolRequest::Totals) {
            Some(PoolReply::Totals(totals)) => totals,
            other => panic!("{other:?}"),
        }
    }

    fn details(&mut self) -> Vec<SegmentDetail> {
        match self.ask(PoolRequest::Inspect) {
            Some(PoolReply::Inspected(details)) => details,
            other => panic!("{other:?}"),
        }
    }

    fn uses(&mut self) -> Vec<mooring_proto::message::inspect::SegmentUse> {
        match self.ask(PoolRequest::Uses) {
            Some(PoolReply::Uses(uses)) => uses,
            other => panic!("{other:?}"),
        }
    }

    fn table(&mut self) -> Vec<u32> {
        match self.ask(PoolRequest::Table) {
            Some(PoolReply::Table { segments, .. }) => {
                segments.into_iter().map(|entry| entry.slot).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn take_orders(&mut self) -> Vec<(u16, PoolOrder)> {
        mem::take(&mut self.orders)
    }

    /// Asks for a span and gives it, if there was one at once.
    fn span(&mut self, shard: u16, mount: Mount, size_bytes: u64) -> Option<PageRun> {
        self.orders.clear();
        self.report(shard, ShardReport::SpanRequest { mount, size_bytes });
        self.orders.iter().find_map(|(_, order)| match order {
            PoolOrder::Grant { run, .. } => Some(*run),
            _ => None,
        })
    }

    /// Grants every page of a segment, in turn, in the smallest spans.
    fn fill_pages(&mut self, mount: Mount) {
        let mut shard = 0;
        while self.pool.free_pages(mount) > 0 {
            assert!(self.span(shard, mount, 1).is_some());
            shard = (shard + 1) % self.shards.len() as u16;
        }
        self.orders.clear();
    }

    fn room(&mut self, shard: u16, number: u64, size_bytes: u64) -> Vec<(u16, PoolOrder)> {
        self.orders.clear();
        self.report(shard, ShardReport::RoomRequest { number, size_bytes, excluded: Vec::new() });
        self.take_orders()
    }
}

/// A segment with its own memory: its number gives its id and its base.
fn segment(number: u64, size_bytes: u64) -> Segment {
    Segment {
        segment: SegmentId(number.into()),
        base: number << 32,
        size_bytes,
        endpoint: "10.0.0.1:9100".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    }
}

/// The same memory, but reached by a transfer engine.
fn mooncake(segment: Segment, name: &str) -> Segment {
    let (protocol, host) = ("tcp".to_owned(), "10.0.0.1".to_owned());
    let engine = TransferEngine { name: name.to_owned(), protocol, host };
    Segment { transfer_engine: Some(engine), ..segment }
}

fn usage(mount: Mount, allocated_bytes: u64) -> SegmentUsage {
    SegmentUsage {
        mount,
        allocated_bytes,
        held_bytes: 0,
        leased_bytes: 0,
        pinned_bytes: 0,
        free_bytes: 0,
        largest_free_run_bytes: 0,
        evicted_total_bytes: 0,
    }
}

/// Whom an order went to, of the orders that `choose` accepts.
fn sent<T>(orders: &[(u16, PoolOrder)], choose: impl Fn(&PoolOrder) -> Option<T>) -> Vec<(u16, T)> {
    orders.iter().filter_map(|(shard, order)| Some((*shard, choose(order)?))).collect()
}

fn evictions(orders: &[(u16, PoolOrder)]) -> Vec<(u16, u64)> {
    sent(orders, |order| match order {
        PoolOrder::Evict { evicted_total_bytes, .. } => Some(*evicted_total_bytes),
        _ => None,
    })
}

fn rooms(orders: &[(u16, PoolOrder)]) -> Vec<(u16, PageRun)> {
    sent(orders, |order| match order {
        PoolOrder::Room { run, .. } => Some(*run),
        _ => None,
    })
}

fn refusals(orders: &[(u16, PoolOrder)]) -> Vec<(u16, Option<u32>)> {
    sent(orders, |order| match order {
        PoolOrder::NoRoom { retry_after_ms, .. } => Some(*retry_after_ms),
        _ => None,
    })
}
