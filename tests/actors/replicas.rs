//! Replicas and preferences: where the copies of an object go, and what is said if there are fewer.

use std::collections::BTreeSet;

use mooring_actors::shard::check::Purpose;
use mooring_proto::SegmentId;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, code};
use crate::common::{KIB, MIB, STORE, WRITER, key, no_watermark, put_with};

fn segment(number: u128) -> SegmentId {
    SegmentId(STORE.0 << 64 | number)
}

fn replicas(replicas: u8) -> PutOptions {
    PutOptions { replicas, ..PutOptions::default() }
}

#[test]
fn each_replica_stands_on_another_segment() {
    let mut cluster = Cluster::new(2);
    for number in 0..4 {
        cluster.mount(STORE, number, 64 * MIB);
    }
    for number in 0..40 {
        let wanted = 1 + (number % 4) as u8;
        let grant = put_with(&mut cluster, &key(number), 100 * KIB, &replicas(wanted));
        let slots: BTreeSet<u32> = grant.replicas.iter().map(|replica| replica.slot).collect();
        assert_eq!((grant.replicas.len(), slots.len()), (usize::from(wanted), usize::from(wanted)));
        assert_eq!(cluster.get(&key(number)).expect("readable").replicas, grant.replicas);
        for replica in &grant.replicas {
            assert_eq!(cluster.purpose_at(*replica), Some(Purpose::Readable));
        }
    }
    assert_eq!(cluster.totals().put_short, 0);
}

// R6
#[test]
fn as_many_replicas_as_there_is_room_for_are_granted_and_the_shortfall_shows() {
    let mut cluster = Cluster::with(1, no_watermark());
    for number in 0..3 {
        cluster.mount(STORE, number, 4 * MIB);
    }
    let grant = put_with(&mut cluster, &key(0), MIB, &replicas(5));
    assert_eq!(grant.replicas.len(), 3);
    assert_eq!(cluster.totals().put_short, 1);
    // One of the three is full now, and then two, and then all.
    let only = |number| PutOptions {
        preferred_segments: vec![segment(number)],
        hard_pin: true,
        ..PutOptions::default()
    };
    for (number, left) in [(0, 2), (1, 1)] {
        put_with(&mut cluster, &key(10 + number as u64), 5 * MIB / 2, &only(number));
        let grant = put_with(&mut cluster, &key(20 + number as u64), MIB, &replicas(3));
        assert_eq!(grant.replicas.len(), left);
        cluster.remove(&key(20 + number as u64), true).expect("nobody reads it");
    }
    assert_eq!(cluster.totals().put_short, 3);
    put_with(&mut cluster, &key(12), 5 * MIB / 2, &only(2));
    cluster.get(&key(0)).expect("readable");
    let refused = cluster.put_start_with(WRITER, &key(30), MIB, &replicas(2));
    assert_eq!(code(refused), Some(ErrorCode::NoSpace), "at least one must fit");
    assert_eq!(cluster.totals().put_refused, 1);
}

#[test]
fn preferred_segments_come_first_in_their_order_as_long_as_they_have_room() {
    let mut cluster = Cluster::with(2, no_watermark());
    for number in 0..6 {
        cluster.mount(STORE, number, 4 * MIB);
    }
    let slot_of = |cluster: &Cluster, number| {
        let mount = cluster.pool.mount_of(segment(number)).expect("mounted");
        u32::from(mount.slot.0)
    };
    let options = PutOptions {
        replicas: 3,
        preferred_segments: vec![segment(99), segment(4), segment(1)],
        ..PutOptions::default()
    };
    for number in 0..3 {
        let grant = put_with(&mut cluster, &key(number), MIB, &options);
        let slots: Vec<u32> = grant.replicas.iter().map(|replica| replica.slot).collect();
        assert_eq!(slots[..2], [slot_of(&cluster, 4), slot_of(&cluster, 1)]);
        assert!(!slots[..2].contains(&slots[2]), "the third one goes elsewhere");
    }
    // Full preferred ones are passed over, and not emptied either.
    let options = PutOptions { replicas: 1, ..options };
    for number in 10..14 {
        put_with(&mut cluster, &key(number), MIB, &options);
    }
    let grant = put_with(&mut cluster, &key(20), MIB, &options);
    let preferred = [slot_of(&cluster, 4), slot_of(&cluster, 1)];
    assert!(!preferred.contains(&grant.replicas[0].slot));
    assert_eq!(cluster.totals().evicted_objects, 0);
}

#[test]
fn an_object_stays_readable_by_the_replicas_that_are_left() {
    let mut cluster = Cluster::new(2);
    for number in 0..3 {
        cluster.mount(STORE, number, 64 * MIB);
    }
    let grant = put_with(&mut cluster, b"k", MIB, &replicas(3));
    let mut left = grant.replicas.to_vec();
    for number in 0..3 {
        let mount = cluster.pool.mount_of(segment(number)).expect("mounted");
        cluster.unmount(None, segment(number), 0).expect("mounted");
        left.retain(|replica| replica.slot != u32::from(mount.slot.0));
        match cluster.get(b"k") {
            Ok(located) => assert_eq!(*located.replicas, *left),
            Err(refusal) => assert!(left.is_empty() && refusal.code == ErrorCode::NotFound),
        }
        assert_eq!(cluster.totals().allocated_bytes, left.len() as u64 * MIB);
    }
    assert_eq!(cluster.totals().lost_objects, 1, "it is counted once");
}

#[test]
fn a_put_whose_segment_goes_ends_with_what_is_left_and_without_any_it_fails() {
    let mut cluster = Cluster::new(1);
    for number in 0..2 {
        cluster.mount(STORE, number, 64 * MIB);
    }
    let both = cluster.put_start_with(WRITER, b"both", MIB, &replicas(2)).expect("two fit");
    cluster.unmount(None, segment(0), 0).expect("mounted");
    cluster.put_end(b"both", both.sequence).expect("one is left");
    let located = cluster.get(b"both").expect("readable");
    assert_eq!(located.replicas.len(), 1);
    assert!(both.replicas.contains(&located.replicas[0]));
    let last = cluster.put_start_with(WRITER, b"last", MIB, &replicas(2)).expect("one fits");
    assert_eq!(last.replicas.len(), 1);
    cluster.unmount(None, segment(1), 0).expect("mounted");
    assert_eq!(code(cluster.put_end(b"last", last.sequence)), Some(ErrorCode::NotFound));
    assert_eq!(cluster.totals().unfinished, 0);
}

#[test]
fn evicting_one_replica_leaves_the_other_one() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 0, 4 * MIB);
    cluster.mount(STORE, 1, 4 * MIB);
    let grant = put_with(&mut cluster, b"k", MIB, &replicas(2));
    let only = PutOptions {
        preferred_segments: vec![segment(0)],
        hard_pin: true,
        ..PutOptions::default()
    };
    put_with(&mut cluster, b"a", 3 * MIB, &only);
    let rest = PutOptions { preferred_segments: vec![segment(1)], ..only.clone() };
    put_with(&mut cluster, b"b", 3 * MIB, &rest);
    // Both segments are full; one replica has to go for this one, and not both.
    let new = put_with(&mut cluster, b"c", MIB, &PutOptions { hard_pin: true, ..replicas(2) });
    assert_eq!(new.replicas.len(), 1);
    let left = cluster.get(b"k").expect("still readable").replicas;
    assert_eq!(left.len(), 1);
    assert!(grant.replicas.contains(&left[0]) && left[0] != new.replicas[0]);
    assert_eq!(cluster.totals().evicted_objects, 0, "the object is not gone");
    assert_eq!(cluster.totals().evicted_bytes, MIB);
}

// A reader whose lease is over may have read the replica that is gone.
#[test]
fn an_object_that_has_lost_a_replica_is_the_same_for_a_get_and_another_one_for_a_validation() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 0, 4 * MIB);
    cluster.mount(STORE, 1, 4 * MIB);
    let grant = put_with(&mut cluster, b"k", MIB, &replicas(2));
    cluster.validate(b"k", grant.sequence).expect("both replicas are there");
    cluster.unmount(None, segment(0), 0).expect("mounted");
    assert_eq!(code(cluster.validate(b"k", grant.sequence)), Some(ErrorCode::Changed));
    assert_eq!(cluster.get(b"k").expect("readable").sequence, grant.sequence);
}
