//! Which segment is tried first for a put that prefers none.

use mooring_actors::core::Settings;
use mooring_actors::shard::AllocationStrategy;
use mooring_proto::message::object::PutOptions;

use crate::cluster::Cluster;
use crate::common::{KIB, MIB, STORE, key, no_watermark, put_with};

const OBJECT_BYTES: u64 = 64 * KIB;

fn cluster(strategy: AllocationStrategy) -> Cluster {
    Cluster::with(1, Settings { allocation_strategy: strategy, ..no_watermark() })
}

/// Puts so many objects and counts how many went to each slot.
fn spread(cluster: &mut Cluster, from: u64, puts: u64, slots: usize) -> Vec<u64> {
    let mut counts = vec![0; slots];
    for number in from..from + puts {
        let grant = put_with(cluster, &key(number), OBJECT_BYTES, &PutOptions::default());
        counts[grant.replicas[0].slot as usize] += 1;
    }
    counts
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
