//! Which segment is tried first for a put that prefers none.

use mooring_actors::core::Settings;
use mooring_actors::shard::AllocationStrategy;
use mooring_actors::shard::message::PutRequest;
use mooring_proto::message::object::{PutOptions, PutStartGrant};

use crate::cluster::Cluster;
use crate::common::{
    GIB, KIB, MIB, STORE, WRITER, key, keys_of_shard, no_watermark, put_with, start_batch,
};

const OBJECT_BYTES: u64 = 64 * KIB;

fn cluster(strategy: AllocationStrategy) -> Cluster {
    Cluster::with(1, Settings { allocation_strategy: strategy, ..no_watermark() })
}

/// Puts so many objects and counts how many went to each slot.
fn spread(cluster: &mut Cluster, from: u64, puts: u64, slots: usize) -> Vec<u64> {
    let grants: Vec<_> = (from..from + puts)
        .map(|number| put_with(cluster, &key(number), OBJECT_BYTES, &PutOptions::default()))
        .collect();
    counted(grants.iter(), slots)
}

/// Nine segments, each a quarter full, and a tenth that has just come.
fn nine_and_a_new_one(strategy: AllocationStrategy) -> Cluster {
    let mut cluster = cluster(strategy);
    for number in 0..9 {
        cluster.mount(STORE, number, 16 * MIB);
    }
    spread(&mut cluster, 0, 9 * 64, 9);
    cluster.leap(5_000);
    cluster.mount(STORE, 9, 16 * MIB);
    cluster
}

#[test]
fn every_strategy_spreads_over_equal_segments() {
    for strategy in [
        AllocationStrategy::TwoChoices,
        AllocationStrategy::Random,
        AllocationStrategy::FreeRatioFirst,
    ] {
        let mut cluster = cluster(strategy);
        for number in 0..8 {
            cluster.mount(STORE, number, 64 * MIB);
        }
        for count in spread(&mut cluster, 0, 800, 8) {
            assert!((50..=150).contains(&count), "{strategy:?}: {count} of 800 to one of 8");
        }
    }
}

/// Counts how many of the grants went to each slot.
fn counted<'a>(grants: impl Iterator<Item = &'a PutStartGrant>, slots: usize) -> Vec<u64> {
    let mut counts = vec![0; slots];
    for grant in grants {
        counts[grant.replicas[0].slot as usize] += 1;
    }
    counts
}

/// Panics unless each slot has its part of so many puts, but for a fifth.
fn assert_even(counts: &[u64], puts: u64, what: &str) {
    let fair = puts / counts.len() as u64;
    for count in counts {
        assert!((fair * 4 / 5..=fair * 6 / 5).contains(count), "{what}: {counts:?}");
    }
}

fn of_equal_segments(shards: u16, slots: usize) -> Cluster {
    let mut cluster = Cluster::with(shards, no_watermark());
    cluster.checked = false;
    for number in 0..slots {
        cluster.mount(STORE, number as u128, GIB);
    }
    cluster
}

/// Two stores are there for their bandwidth: whatever comes first must not all go to one of them.
#[test]
fn small_objects_use_equal_segments_alike_from_the_first_batch_on() {
    for (slots, shards, size_bytes) in [2, 16]
        .into_iter()
        .flat_map(|slots| [1, 4].map(|shards| (slots, shards)))
        .flat_map(|(slots, shards)| [256, 4 * KIB, 64 * KIB].map(|bytes| (slots, shards, bytes)))
    {
        let what = format!("{slots} segments, {shards} shards, {size_bytes} bytes");
        let mut cluster = of_equal_segments(shards, slots);
        let puts = 100 * slots as u64;
        let mut grants = Vec::new();
        for shard in 0..shards {
            let keys = keys_of_shard(&cluster, shard, puts as usize / usize::from(shards));
            let put = |put_id| PutRequest { size_bytes, put_id };
            let batch: Vec<_> = keys.iter().zip(1..).map(|(key, id)| (&key[..], put(id))).collect();
            for answer in start_batch(&mut cluster, WRITER, &batch) {
                grants.push(answer.unwrap_or_else(|refusal| panic!("{what}: {refusal}")));
            }
        }
        assert_even(&counted(grants.iter(), slots), puts, &format!("{what}, batches"));
        let mut cluster = of_equal_segments(shards, slots);
        let grants: Vec<_> = (0..puts)
            .map(|number| put_with(&mut cluster, &key(number), size_bytes, &PutOptions::default()))
            .collect();
        assert_even(&counted(grants.iter(), slots), puts, &format!("{what}, one by one"));
    }
}

#[test]
fn a_new_segment_gets_no_more_than_about_its_fair_share_at_first() {
    for strategy in [AllocationStrategy::TwoChoices, AllocationStrategy::FreeRatioFirst] {
        let mut cluster = nine_and_a_new_one(strategy);
        let new = spread(&mut cluster, 10_000, 300, 10)[9];
        assert!((10..=60).contains(&new), "{strategy:?}: {new} of 300 to one of 10");
    }
}

#[test]
fn a_new_segment_catches_up_when_it_has_started() {
    for (strategy, least) in
        [(AllocationStrategy::TwoChoices, 40), (AllocationStrategy::FreeRatioFirst, 60)]
    {
        let mut cluster = nine_and_a_new_one(strategy);
        cluster.leap(60_000);
        let new = spread(&mut cluster, 10_000, 300, 10)[9];
        assert!(new >= least, "{strategy:?}: {new} of 300 to one of 10");
    }
}

#[test]
fn a_new_segment_takes_everything_when_there_is_no_room_elsewhere() {
    let mut cluster = cluster(AllocationStrategy::TwoChoices);
    cluster.mount(STORE, 0, MIB);
    spread(&mut cluster, 0, 16, 1);
    cluster.mount(STORE, 1, 64 * MIB);
    assert_eq!(spread(&mut cluster, 100, 50, 2), [0, 50]);
}
