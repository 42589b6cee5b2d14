//! Groups: members that are leased and evicted together, in one shard and across shards.

use mooring_actors::shard::message::{PutExtras, SoftPinAction};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, code};
use crate::common::{MIB, STORE, WRITER, key, keys_of_shard, no_watermark};
use crate::without_tokens::{Kind, end, get_detailed, peek, start};

/// Puts an object into a group; no name is no group.
fn put_in(cluster: &mut Cluster, group: &[u8], key: &[u8], options: &PutOptions) {
    let extras = Some(PutExtras { groups: vec![group.into()], ..PutExtras::default() });
    start(cluster, Kind::Put, WRITER, key, MIB, options, extras).expect("there is room");
    end(cluster, WRITER, key, None).expect("the put is the client's");
}

fn put_group(cluster: &mut Cluster, group: &[u8], keys: &[Vec<u8>]) {
    for key in keys {
        put_in(cluster, group, key, &PutOptions::default());
    }
}

#[test]
fn a_read_of_one_member_leases_all_of_its_group_and_nobody_else() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_group(&mut cluster, b"request 1", &[key(0), key(1), key(2)]);
    put_group(&mut cluster, b"request 2", &[key(3)]);
    put_group(&mut cluster, b"", &[key(4)]);
    assert_eq!(peek(&mut cluster, &key(1)).expect("readable").group, Some(b"request 1"[..].into()));
    assert_eq!(peek(&mut cluster, &key(4)).expect("readable").group, None);
    cluster.get(&key(1)).expect("readable");
    for number in 0..3 {
        assert_eq!(code(cluster.remove(&key(number), false)), Some(ErrorCode::Leased));
    }
    assert_eq!(cluster.totals().leased_bytes, 3 * MIB);
    for number in 3..5 {
        cluster.remove(&key(number), false).expect("nobody leases it");
    }
    cluster.leap(10_000);
    for number in 0..3 {
        cluster.remove(&key(number), false).expect("nobody leases it any more");
    }
}

#[test]
fn members_in_other_shards_are_leased_by_a_hint_at_most_once_in_half_a_lease() {
    let mut cluster = Cluster::new(3);
    cluster.mount(STORE, 1, 64 * MIB);
    let keys: Vec<Vec<u8>> = (0..3).flat_map(|shard| keys_of_shard(&cluster, shard, 1)).collect();
    put_group(&mut cluster, b"g", &keys);
    get_detailed(&mut cluster, &keys[0]).expect("readable");
    for key in &keys {
        assert_eq!(peek(&mut cluster, key).expect("readable").lease_left_ms, 10_000);
    }
    // Too soon for another hint, from wherever; the own lease begins anew all the same.
    cluster.advance(4_000);
    get_detailed(&mut cluster, &keys[1]).expect("readable");
    assert_eq!(peek(&mut cluster, &keys[1]).expect("readable").lease_left_ms, 10_000);
    assert_eq!(peek(&mut cluster, &keys[2]).expect("readable").lease_left_ms, 6_000);
    cluster.advance(1_000);
    get_detailed(&mut cluster, &keys[1]).expect("readable");
    assert_eq!(peek(&mut cluster, &keys[2]).expect("readable").lease_left_ms, 10_000);
}

#[test]
fn with_one_member_all_of_its_group_is_evicted_but_what_is_pinned() {
    let mut cluster = Cluster::with(2, no_watermark());
    cluster.mount(STORE, 1, 8 * MIB);
    let here = keys_of_shard(&cluster, 0, 6);
    let there = keys_of_shard(&cluster, 1, 1);
    put_group(&mut cluster, b"old", &here[..2]);
    put_group(&mut cluster, b"old", &there);
    let hard_pin = PutOptions { hard_pin: true, ..PutOptions::default() };
    put_in(&mut cluster, b"old", &here[2], &hard_pin);
    put_group(&mut cluster, b"new", &here[3..5]);
    cluster.advance(10);
    while cluster.totals().evicted_objects == 0 {
        let key = format!("more-{}", cluster.totals().objects).into_bytes();
        cluster.put(WRITER, &key, MIB).expect("the oldest give way");
    }
    cluster.advance(10);
    for key in here[..2].iter().chain(&there) {
        assert!(!cluster.exists(key), "{}", String::from_utf8_lossy(key));
    }
    for key in &here[2..5] {
        assert!(cluster.exists(key), "{}", String::from_utf8_lossy(key));
    }
}

#[test]
fn no_member_is_evicted_while_one_of_its_group_is_leased() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    put_group(&mut cluster, b"g", &[key(0), key(1)]);
    put_group(&mut cluster, b"", &[key(2), key(3)]);
    cluster.get(&key(1)).expect("readable");
    for number in 4..8 {
        cluster.put(WRITER, &key(number), MIB).expect("what is in no group gives way");
        assert!(cluster.exists(&key(0)) && cluster.exists(&key(1)));
    }
}

#[test]
fn an_upsert_keeps_the_group_unless_it_names_another_one_or_none() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_group(&mut cluster, b"g", &[key(0)]);
    let mut upsert = |groups: Vec<Box<[u8]>>| {
        let extras = PutExtras { groups, soft_pin: SoftPinAction::Preserve, data_type: 0 };
        let options = PutOptions::default();
        start(&mut cluster, Kind::Upsert, WRITER, &key(0), MIB, &options, Some(extras))
            .expect("there is room");
        end(&mut cluster, WRITER, &key(0), None).expect("the put is the client's");
        peek(&mut cluster, &key(0)).expect("readable").group
    };
    assert_eq!(upsert(Vec::new()), Some(b"g"[..].into()));
    assert_eq!(upsert(vec![b"h"[..].into()]), Some(b"h"[..].into()));
    assert_eq!(upsert(vec![b""[..].into()]), None);
    assert_eq!(upsert(Vec::new()), None);
}

#[test]
fn names_of_groups_that_are_too_long_or_too_many_are_refused() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let names = |length: usize, count: usize| vec![vec![b'g'; length].into_boxed_slice(); count];
    let options = PutOptions::default();
    for groups in [names(4097, 1), names(1, 2)] {
        let extras = Some(PutExtras { groups, ..PutExtras::default() });
        let refused = start(&mut cluster, Kind::Put, WRITER, &key(0), MIB, &options, extras);
        assert_eq!(code(refused), Some(ErrorCode::InvalidArgument));
    }
    let extras = Some(PutExtras { groups: names(4096, 1), ..PutExtras::default() });
    start(&mut cluster, Kind::Put, WRITER, &key(0), MIB, &options, extras).expect("room");
}
