//! Which idle objects go first: what was read again stays longer where that pays.

use mooring_actors::core::Settings;
use mooring_actors::shard::EvictionPolicy;
use mooring_actors::shard::message::ShardRequest;
use mooring_proto::message::object::PutOptions;

use crate::cluster::Cluster;
use crate::cluster::handoff::OwnedRange;
use crate::common::{KIB, MIB, STORE, WRITER, key, no_watermark, put_all, put_with, readable};

fn with_policy(eviction_policy: EvictionPolicy) -> Settings {
    Settings { eviction_policy, lease_ttl_ms: 10, ..no_watermark() }
}

/// Reads a key, or puts it if it is not there. Says whether it was.
fn want(cluster: &mut Cluster, number: u64) -> bool {
    let there = cluster.get(&key(number)).is_ok();
    if !there {
        cluster.put(WRITER, &key(number), 64 * KIB).expect("something gives way");
    }
    there
}

/// A pool of 1,024 objects, and a load in which three of four keys are wanted once, and 300 keys
/// again and again, each after more keys than the pool has room for. How many of their last
/// 1,000 uses found something.
fn found_among_keys_that_come_once(policy: EvictionPolicy) -> usize {
    let mut cluster = Cluster::with(1, with_policy(policy));
    cluster.checked = false;
    cluster.mount(STORE, 1, 64 * MIB);
    let mut found = Vec::new();
    for round in 0..6_000 {
        found.push(want(&mut cluster, round % 300));
        for other in 0..3 {
            want(&mut cluster, 10_000 + 3 * round + other);
        }
        cluster.advance(20);
    }
    found[5_000..].iter().filter(|there| **there).count()
}

#[test]
fn what_comes_again_outlives_what_comes_once() {
    assert_eq!(found_among_keys_that_come_once(EvictionPolicy::Lru), 0);
    let found = found_among_keys_that_come_once(EvictionPolicy::Adaptive);
    assert!(found > 800, "{found} of 1,000 were found");
}

#[test]
fn without_experience_the_order_is_that_of_the_last_use() {
    for policy in [EvictionPolicy::Lru, EvictionPolicy::Adaptive] {
        let mut cluster = Cluster::with(1, with_policy(policy));
        cluster.mount(STORE, 1, 4 * MIB);
        for number in 0..4 {
            cluster.put(WRITER, &key(number), MIB).expect("there is room");
            cluster.advance(100);
            if number == 1 {
                // Read, and yet the oldest but one.
                cluster.get(&key(0)).expect("readable");
                cluster.advance(100);
            }
        }
        let mut left = vec![1, 0, 2, 3];
        for step in 0..4 {
            put_all(&mut cluster, 10 + step..11 + step, MIB);
            cluster.advance(100);
            left.remove(0);
            let mut expected = left.clone();
            expected.sort_unstable();
            assert_eq!(readable(&mut cluster, 0..4), expected, "{policy:?} {step}");
        }
    }
}

#[test]
fn pins_and_leases_go_before_reuse() {
    let mut cluster = Cluster::with(1, with_policy(EvictionPolicy::Adaptive));
    cluster.mount(STORE, 1, 4 * MIB);
    let soft = PutOptions { soft_pin_ttl_ms: Some(60_000), ..PutOptions::default() };
    put_with(&mut cluster, &key(0), MIB, &soft);
    put_all(&mut cluster, 1..4, MIB);
    for number in 1..4 {
        cluster.get(&key(number)).expect("readable");
    }
    cluster.advance(100);
    cluster.get(&key(1)).expect("readable");
    put_all(&mut cluster, 10..12, MIB);
    assert_eq!(readable(&mut cluster, 0..4), [0, 1], "2 and 3 went");
    put_all(&mut cluster, 12..14, MIB);
    assert_eq!(
        readable(&mut cluster, 0..4),
        [0, 1],
        "what was put last went before what is pinned"
    );
}

#[test]
fn the_next_master_knows_what_was_reused() {
    let mut cluster = Cluster::with(1, Settings { lease_ttl_ms: 10, ..Settings::default() });
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..4, MIB);
    cluster.get(&key(2)).expect("readable");
    cluster.advance(100);
    for _ in 0..2 {
        cluster.quiesce();
        let handoff = cluster.export();
        let reused: Vec<Vec<u8>> = (handoff.shards[0].ranges.iter())
            .filter_map(|range| match range {
                OwnedRange::Object { key, record, .. } if record.reused => Some(key.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(reused, [key(2)]);
        cluster = cluster.restored(&handoff).expect("it is whole");
    }
}

#[test]
fn what_is_put_after_a_restart_is_younger_than_what_was_there() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 8 * MIB);
    put_all(&mut cluster, 0..6, MIB);
    for number in [1, 3, 5] {
        cluster.get(&key(number)).expect("readable");
    }
    cluster.advance(60_000);
    let mut next = crate::handoff::restart(&mut cluster);
    crate::handoff::reopen(&mut next, STORE, vec![crate::handoff::again(STORE, 1, 8 * MIB)]);
    // Within the lease that the restart gives to all others.
    put_all(&mut next, 6..8, MIB);
    next.advance(60_000);
    put_all(&mut next, 10..16, MIB);
    assert_eq!(readable(&mut next, 0..8), [6, 7]);
}

#[test]
fn a_question_without_a_lease_is_no_use() {
    let mut cluster = Cluster::with(1, with_policy(EvictionPolicy::Adaptive));
    cluster.mount(STORE, 1, 4 * MIB);
    put_all(&mut cluster, 0..1, MIB);
    let batch = cluster.batch(&[&key(0)]);
    cluster.send_shard(mooring_actors::ShardId(0), ShardRequest::Exist { lease: false, batch });
    cluster.settle();
    cluster.quiesce();
    let handoff = cluster.export();
    let reused = handoff.shards[0].ranges.iter().any(|range| match range {
        OwnedRange::Object { record, .. } => record.reused,
        _ => false,
    });
    assert!(!reused);
}
