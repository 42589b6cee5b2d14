//! Words that the tests of several concerns share.

use mooring_actors::RequestId;
use mooring_actors::core::Settings;
use mooring_actors::pool::message::{PoolMessage, PoolTotals};
use mooring_actors::shard::message::{
    PutRequest, ShardMessage, ShardReply, ShardRequest, ShardTotals,
};
use mooring_proto::ClientId;
use mooring_proto::error::Refusal;
use mooring_proto::message::object::{PutOptions, PutStartGrant};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::cluster::{Cluster, Envelope};

/// A client that contributes memory.
pub(crate) const STORE: ClientId = ClientId(1);
/// A client that writes.
pub(crate) const WRITER: ClientId = ClientId(2);
/// Another one.
pub(crate) const OTHER: ClientId = ClientId(3);

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// The settings with which nothing is evicted by the watermark.
pub(crate) fn no_watermark() -> Settings {
    Settings { eviction_high_watermark_ratio: 1.0, eviction_ratio: 0.0, ..Settings::default() }
}

/// A generator that gives the same numbers in each run.
pub(crate) fn dice(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// The key of this number.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("block-{number:08}").into_bytes()
}

/// Keys that all fall to one shard: the first so many.
pub(crate) fn keys_of_shard(cluster: &Cluster, shard: u16, count: usize) -> Vec<Vec<u8>> {
    (0..).map(key).filter(|key| cluster.shard_of(key).0 == shard).take(count).collect()
}

/// Puts objects of one size under the keys of these numbers; each must be taken.
pub(crate) fn put_all(cluster: &mut Cluster, numbers: std::ops::Range<u64>, size_bytes: u64) {
    for number in numbers {
        let put = cluster.put(WRITER, &key(number), size_bytes);
        put.unwrap_or_else(|refusal| panic!("put {number}: {refusal}"));
    }
}

/// Puts an object with options; it must be taken.
pub(crate) fn put_with(
    cluster: &mut Cluster,
    key: &[u8],
    size_bytes: u64,
    options: &PutOptions,
) -> PutStartGrant {
    let grant = cluster
        .put_start_with(WRITER, key, size_bytes, options)
        .unwrap_or_else(|refusal| panic!("put: {refusal}"));
    cluster.put_end(key, grant.sequence).expect("the put is current");
    grant
}

/// Which of these numbers' keys are readable, without a lease.
pub(crate) fn readable(cluster: &mut Cluster, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.filter(|number| cluster.exists(&key(*number))).collect()
}

/// Sends one batch of starts to the shard of its keys; they must all fall to the same.
pub(crate) fn send_batch(
    cluster: &mut Cluster,
    client: ClientId,
    puts: &[(&[u8], PutRequest)],
    options: &PutOptions,
) -> RequestId {
    let keys: Vec<&[u8]> = puts.iter().map(|(key, _)| *key).collect();
    let request = ShardRequest::PutStart {
        client,
        options: options.clone(),
        extras: None,
        batch: cluster.batch(&keys),
        puts: puts.iter().map(|(_, put)| *put).collect(),
    };
    let shard = cluster.shard_of(keys.iter().find(|key| !key.is_empty()).expect("a key"));
    cluster.send_shard(shard, request)
}

/// Starts one batch of puts and waits for the answers, one for each key.
pub(crate) fn start_batch(
    cluster: &mut Cluster,
    client: ClientId,
    puts: &[(&[u8], PutRequest)],
) -> Vec<Result<PutStartGrant, Refusal>> {
    let id = send_batch(cluster, client, puts, &PutOptions::default());
    cluster.settle();
    started(cluster, id)
}

/// The answers to a batch of starts, which must have come.
pub(crate) fn started(cluster: &mut Cluster, id: RequestId) -> Vec<Result<PutStartGrant, Refusal>> {
    match cluster.take_shard_answer(id) {
        ShardReply::Started(answers) => answers,
        other => panic!("a start is answered with {other:?}"),
    }
}

/// The answers to a batch of ends, revokes or removes.
pub(crate) fn done(
    cluster: &mut Cluster,
    key: &[u8],
    request: ShardRequest,
) -> Vec<Result<(), Refusal>> {
    let id = cluster.send_shard(cluster.shard_of(key), request);
    cluster.settle();
    match cluster.take_shard_answer(id) {
        ShardReply::Done(answers) => answers,
        other => panic!("answered with {other:?}"),
    }
}

/// Delivers what is on its way to shards, and keeps back what is for the pool.
pub(crate) fn settle_shards(cluster: &mut Cluster) {
    let to_shard = |envelope: &Envelope| matches!(envelope, Envelope::ToShard(..));
    while let Some(place) = cluster.queue.iter().position(to_shard) {
        cluster.deliver(place);
    }
}

/// Lets time pass for the shards alone, while the pool is not heard.
pub(crate) fn tick_shards(cluster: &mut Cluster, ms: u64) {
    cluster.now = cluster.now.after_ms(ms);
    for number in 0..cluster.route.shards() {
        let shard = mooring_actors::ShardId(number);
        cluster.queue.push_back(Envelope::ToShard(shard, ShardMessage::Tick));
    }
    settle_shards(cluster);
}

/// How many messages for the pool are on their way.
pub(crate) fn pool_messages(cluster: &Cluster, picks: impl Fn(&PoolMessage) -> bool) -> usize {
    let picked =
        |envelope: &&Envelope| matches!(envelope, Envelope::ToPool(message) if picks(message));
    cluster.queue.iter().filter(picked).count()
}

/// Delivers the next message and says by how many objects and replicas it changed a shard.
pub(crate) fn deliver_and_weigh(cluster: &mut Cluster) -> u64 {
    let Some(Envelope::ToShard(shard, _)) = cluster.queue.front() else {
        cluster.deliver(0);
        return 0;
    };
    let shard = usize::from(shard.0);
    let before = cluster.shards[shard].totals().objects;
    cluster.deliver(0);
    cluster.shards[shard].totals().objects.abs_diff(before)
}

/// Nothing is left anywhere: every gauge of every actor is at zero.
pub(crate) fn assert_empty(cluster: &Cluster) {
    let ShardTotals {
        objects,
        unfinished,
        allocated_bytes,
        holds,
        held_bytes,
        free_bytes,
        leased_bytes,
        pinned_bytes,
        parked,
        ..
    } = cluster.totals();
    let gauges = [
        ("objects", objects),
        ("unfinished", unfinished),
        ("allocated_bytes", allocated_bytes),
        ("holds", holds),
        ("held_bytes", held_bytes),
        ("free_bytes", free_bytes),
        ("leased_bytes", leased_bytes),
        ("pinned_bytes", pinned_bytes),
        ("parked", parked),
    ];
    for (name, gauge) in gauges {
        assert_eq!(gauge, 0, "{name} is left");
    }
    let PoolTotals { segments, capacity_bytes, free_page_bytes, eviction_debt_bytes, .. } =
        cluster.pool.totals();
    assert_eq!((segments, capacity_bytes, free_page_bytes, eviction_debt_bytes), (0, 0, 0, 0));
    assert!(cluster.open.is_empty(), "answered: {:?} are open", cluster.open);
}
