//! Starting, ending, revoking and abandoning puts.

use mooring_actors::core::Settings;
use mooring_actors::shard::check::Purpose;
use mooring_proto::ClientId;
use mooring_proto::error::ErrorCode;

use crate::cluster::{Cluster, code, memory};
use crate::common::no_watermark;

const STORE: ClientId = ClientId(1);
const WRITER: ClientId = ClientId(2);
const OTHER: ClientId = ClientId(3);
const MIB: u64 = 1 << 20;

#[test]
fn an_object_is_readable_from_its_end_on_and_leads_to_its_own_range() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    assert!(!cluster.exists(b"k"));
    assert_eq!(code(cluster.get(b"k")), Some(ErrorCode::NotReadable));
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
    assert!(cluster.exists(b"k"));
    let located = cluster.get(b"k").expect("the object is readable");
    assert_eq!(located.replicas, grant.replicas);
    assert_eq!(located.size_bytes, MIB);
    assert_eq!(cluster.purpose_at(grant.replicas[0]), Some(Purpose::Readable));
}

// R2
#[test]
fn an_abandoned_put_blocks_its_key_for_the_discard_timeout_and_its_range_for_the_release_timeout() {
    // No eviction by watermark, so that three blocks are three blocks.
    let settings =
        Settings { eviction_high_watermark_ratio: 1.0, eviction_ratio: 0.0, ..Settings::default() };
    let mut cluster = Cluster::with(1, settings);
    cluster.mount(STORE, 1, 3 * MIB);
    let first = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.advance(29_000);
    assert_eq!(code(cluster.put_start(OTHER, b"k", MIB)), Some(ErrorCode::PutInProgress));
    cluster.advance(2_000);
    let second = cluster.put_start(OTHER, b"k", MIB).expect("the key can be taken over");
    assert_ne!(first.replicas, second.replicas);
    assert_eq!(code(cluster.put_end(b"k", first.sequence)), Some(ErrorCode::StaleToken));
    cluster.put_end(b"k", second.sequence).expect("the second put is current");
    assert_eq!(cluster.totals().held_bytes, MIB);
    let third = cluster.put_start(WRITER, b"l", MIB).expect("one block is left");
    cluster.put_end(b"l", third.sequence).expect("the put is current");
    // Both objects can be evicted, the hold cannot: two blocks are all that a put of two gets.
    cluster.get(b"k").expect("readable");
    cluster.get(b"l").expect("readable");
    let refused = cluster.put_start(WRITER, b"m", MIB);
    assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    cluster.advance(601_000 - 31_000);
    assert_eq!(cluster.totals().held_bytes, 0);
    cluster.put_start(WRITER, b"m", MIB).expect("the hold has ended");
}

// R27
#[test]
fn whatever_becomes_of_a_put_no_hold_outlives_it_and_its_space_is_given_out_again() {
    type Fate = fn(&mut Cluster, u64);
    let fates: [(&str, Fate); 7] = [
        ("ended twice", |cluster, sequence| {
            cluster.put_end(b"k", sequence).expect("current");
            cluster.put_end(b"k", sequence).expect("repeated");
        }),
        ("ended after its forced removal", |cluster, sequence| {
            cluster.put_end(b"k", sequence).expect("current");
            cluster.get(b"k").expect("readable");
            cluster.remove(b"k", true).expect("there");
            assert_eq!(code(cluster.put_end(b"k", sequence)), Some(ErrorCode::NotFound));
        }),
        ("revoked twice", |cluster, sequence| {
            cluster.put_revoke(b"k", sequence, false).expect("current");
            assert!(cluster.put_revoke(b"k", sequence, false).is_err());
        }),
        ("revoked while nobody writes", |cluster, sequence| {
            cluster.put_revoke(b"k", sequence, true).expect("current");
        }),
        ("abandoned", |_, _| {}),
        ("taken over and ended late", |cluster, sequence| {
            cluster.leap(31_000);
            let second = cluster.put_start(OTHER, b"k", MIB).expect("the key is free");
            assert_eq!(code(cluster.put_end(b"k", sequence)), Some(ErrorCode::StaleToken));
            cluster.put_end(b"k", second.sequence).expect("current");
        }),
        ("its segment goes and comes back", |cluster, _| {
            let segment = memory(STORE, 1, 4 * MIB).segment.segment;
            cluster.unmount(Some(STORE), segment, 0).expect("its own");
            cluster.mount(STORE, 1, 4 * MIB);
        }),
    ];
    for (what, fate) in fates {
        let mut cluster = Cluster::with(1, no_watermark());
        cluster.mount(STORE, 1, 4 * MIB);
        let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
        fate(&mut cluster, grant.sequence);
        cluster.leap(600_000);
        cluster.advance(2_000);
        assert_eq!(cluster.totals().held_bytes, 0, "{what}");
        assert_eq!(cluster.totals().unfinished, 0, "{what}");
        let whole = cluster.put(OTHER, b"all of it", 4 * MIB);
        whole.unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
    }
}
