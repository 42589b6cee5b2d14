//! Every way in which objects go, and what the gauges say afterwards.

use mooring_actors::ShardId;
use mooring_actors::shard::message::{ShardReply, ShardRequest};
use mooring_proto::SegmentId;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;
use rand::Rng;

use crate::cluster::{Answer, Cluster, Envelope, code};
use crate::common::{
    KIB, MIB, STORE, WRITER, assert_empty, deliver_and_weigh, dice, done, key, put_all,
};

/// A cluster with 100 objects of random sizes, and the size of each.
fn with_hundred() -> (Cluster, Vec<u64>) {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let mut dice = dice(10);
    let sizes: Vec<u64> = (0..100).map(|_| dice.random_range(1..200 * KIB)).collect();
    for (number, size_bytes) in sizes.iter().enumerate() {
        cluster.put(WRITER, &key(number as u64), *size_bytes).expect("there is room");
    }
    assert_conserved(&mut cluster, &sizes);
    (cluster, sizes)
}

/// The gauges are those of the objects that are readable, and of nothing else.
fn assert_conserved(cluster: &mut Cluster, sizes: &[u64]) {
    let left: Vec<u64> = (0..sizes.len())
        .filter(|number| cluster.exists(&key(*number as u64)))
        .map(|number| sizes[number].div_ceil(64) * 64)
        .collect();
    let totals = cluster.totals();
    assert_eq!(totals.objects, left.len() as u64);
    assert_eq!(totals.allocated_bytes, left.iter().sum::<u64>());
    assert_eq!((totals.unfinished, totals.pinned_bytes), (0, 0));
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
}

/// Takes the rest away and finds every gauge at zero.
fn assert_all_goes(mut cluster: Cluster, sizes: &[u64]) {
    assert_conserved(&mut cluster, sizes);
    cluster.advance(10_010);
    cluster.remove_all(false);
    assert_eq!(cluster.totals().allocated_bytes, 0);
    cluster.unmount(None, SegmentId(STORE.0 << 64 | 1), 0).expect("it is or was mounted");
    cluster.leap(600_010);
    assert_empty(&cluster);
}

// R10
#[test]
fn removals_one_by_one_leave_exact_gauges() {
    let (mut cluster, sizes) = with_hundred();
    for number in (0..100).step_by(3) {
        cluster.remove(&key(number), false).expect("nobody reads it");
        assert_eq!(code(cluster.remove(&key(number), true)), Some(ErrorCode::NotFound));
    }
    assert_eq!(cluster.totals().removed, 34);
    assert_all_goes(cluster, &sizes);
}

// R10
#[test]
fn a_batch_of_removals_leaves_exact_gauges() {
    let (mut cluster, sizes) = with_hundred();
    let shard = cluster.shard_of(&key(0));
    let mut keys: Vec<Vec<u8>> =
        (0..100).map(key).filter(|key| cluster.shard_of(key) == shard).collect();
    keys.push(key(0));
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let batch = cluster.batch(&refs);
    let answers = done(&mut cluster, &key(0), ShardRequest::Remove { force: false, batch });
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(refused, 1, "the key that stands twice is removed once");
    assert_all_goes(cluster, &sizes);
}

// R10
#[test]
fn remove_all_keeps_what_is_leased_and_says_how_many() {
    let (mut cluster, sizes) = with_hundred();
    for number in 0..30 {
        cluster.get(&key(number * 3)).expect("readable");
    }
    assert_eq!(cluster.remove_all(false), (70, 30));
    assert_conserved(&mut cluster, &sizes);
    assert_eq!(cluster.remove_all(false), (0, 30));
    assert_eq!(cluster.remove_all(true), (30, 0));
    assert_eq!(cluster.remove_all(true), (0, 0));
    assert!(cluster.totals().held_bytes > 0, "their readers may be at work");
    cluster.advance(10_000);
    assert_eq!(cluster.totals().held_bytes, 0);
    assert_all_goes(cluster, &sizes);
}

// R10
#[test]
fn a_remove_all_among_puts_counts_each_object_once() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..600, KIB);
    let id = cluster.send_shard(ShardId(0), ShardRequest::RemoveAll { force: false });
    // Between any two slices of the removal comes another put.
    for number in 600..660 {
        cluster.send_put_start(WRITER, &key(number), 10 * KIB, &PutOptions::default());
        cluster.deliver(0);
    }
    cluster.settle();
    let ShardReply::Removed { removed, kept } = cluster.take_shard_answer(id) else {
        panic!("a remove-all is answered otherwise");
    };
    assert_eq!(removed, 600);
    assert!((1..=60).contains(&kept), "{kept} were met while they were written");
    let totals = cluster.totals();
    assert_eq!((totals.objects, totals.unfinished), (60, 60));
    assert_eq!(totals.allocated_bytes, 600 * KIB);
    cluster.leap(600_010);
    assert_all_goes(cluster, &[]);
}

// R10
#[test]
fn revoked_and_discarded_puts_leave_exact_gauges() {
    let (mut cluster, sizes) = with_hundred();
    let before = cluster.totals().allocated_bytes;
    for number in 200..300 {
        let grant = cluster.put_start(WRITER, &key(number), number * 100).expect("there is room");
        match number % 3 {
            0 => cluster.put_revoke(&key(number), grant.sequence, true).expect("current"),
            1 => cluster.put_revoke(&key(number), grant.sequence, false).expect("current"),
            _ => {}
        }
    }
    assert_eq!(cluster.totals().unfinished, 34);
    cluster.leap(30_000);
    // Some are taken over, the others are forgotten when their time comes.
    for number in (200..300).step_by(5).filter(|number| number % 3 == 2) {
        let grant = cluster.put_start(WRITER, &key(number), 64).expect("taken over");
        cluster.put_revoke(&key(number), grant.sequence, true).expect("current");
    }
    cluster.leap(570_000);
    assert_eq!(cluster.totals().allocated_bytes, before);
    assert_eq!(cluster.totals().held_bytes, 0);
    assert_all_goes(cluster, &sizes);
}

// R10
#[test]
fn an_eviction_leaves_exact_gauges() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 4 * MIB);
    let mut dice = dice(11);
    let sizes: Vec<u64> = (0..100).map(|_| dice.random_range(1..200 * KIB)).collect();
    for (number, size_bytes) in sizes.iter().enumerate() {
        cluster.put(WRITER, &key(number as u64), *size_bytes).expect("what is old gives way");
        assert_conserved(&mut cluster, &sizes[..=number]);
    }
    assert!(cluster.totals().evicted_objects > 20);
    assert_all_goes(cluster, &sizes);
}

// R10
#[test]
fn an_unmount_takes_keys_bytes_and_capacity_along() {
    let (mut cluster, sizes) = with_hundred();
    cluster.mount(STORE, 2, 64 * MIB);
    cluster.unmount(Some(STORE), SegmentId(STORE.0 << 64 | 2), 0).expect("its own");
    assert_conserved(&mut cluster, &sizes);
    cluster.unmount(Some(STORE), SegmentId(STORE.0 << 64 | 1), 0).expect("its own");
    assert_eq!(cluster.totals().lost_objects, 100);
    assert_empty(&cluster);
}

// R10
#[test]
fn the_expiry_of_a_client_takes_keys_bytes_and_capacity_along() {
    let (mut cluster, _) = with_hundred();
    cluster.put_start(WRITER, b"unfinished", MIB).expect("there is room");
    cluster.get(&key(5)).expect("readable");
    cluster.pinging.clear();
    cluster.advance(20_100);
    assert_eq!(cluster.offline, [STORE]);
    assert_empty(&cluster);
}

#[test]
fn a_remove_all_goes_in_slices_and_gets_come_between() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..5_000, 4 * KIB);
    cluster.get(&key(4_999)).expect("readable");
    cluster.send_shard(ShardId(0), ShardRequest::RemoveAll { force: false });
    let (mut turns, mut gets) = (0, 0);
    let mut asked = None;
    while !cluster.queue.is_empty() {
        assert!(deliver_and_weigh(&mut cluster) <= 128, "a slice is bounded");
        turns += 1;
        let answered = |id| matches!(cluster.answers.get(&id), Some(Answer::Shard(_)));
        if asked.is_none_or(answered) && cluster.totals().objects > 1 {
            let batch = cluster.batch(&[&key(4_999)]);
            asked = Some(cluster.send_shard(ShardId(0), ShardRequest::Get { batch }));
            gets += 1;
        }
        let between = |envelope: &Envelope| matches!(envelope, Envelope::ToShard(..));
        assert!(cluster.queue.iter().filter(|e| between(e)).count() <= 2, "a get waits one slice");
    }
    assert!(gets > 20, "{gets} gets in {turns} turns");
    assert_eq!(cluster.totals().objects, 1, "the one that is read stays");
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
}

// R24
#[test]
fn after_everything_is_removed_and_unmounted_every_gauge_is_zero_and_memory_does_not_grow() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    let mut full = Vec::new();
    for round in 0..3 {
        cluster.mount(STORE, 1, 64 * MIB);
        put_all(&mut cluster, round * 20_000..(round + 1) * 20_000, KIB);
        full.push(cluster.shards[0].totals().memory_bytes);
        cluster.remove_all(false);
        cluster.unmount(None, SegmentId(STORE.0 << 64 | 1), 0).expect("mounted");
        cluster.advance(1_000);
        assert_empty(&cluster);
        assert_eq!(cluster.totals().removed, (round + 1) * 20_000);
        let empty = cluster.shards[0].totals().memory_bytes;
        assert!(empty < full[0] * 6 / 10, "{full:?} full, {empty} empty");
    }
    assert!(full[2] <= full[1], "{full:?}");
}
