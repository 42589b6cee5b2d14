//! Upserts: what is replaced, when, and what goes on from the old object to the new one.

use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{PutExtras, SoftPinAction};
use mooring_proto::ClientId;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, code, memory};
use crate::common::{MIB, OTHER, STORE, WRITER, no_watermark};
use crate::without_tokens::{
    Kind, end, get_detailed, peek, put, put_start, revoke, start, upsert_start,
};

const THIRD: ClientId = ClientId(77);

#[test]
fn an_upsert_of_a_free_key_is_a_put() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    upsert_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    assert!(!cluster.exists(b"k"));
    end(&mut cluster, WRITER, b"k", Some(5)).expect("the put is the client's");
    assert_eq!(peek(&mut cluster, b"k").expect("readable").checksum, Some(5));
}

#[test]
fn an_object_vanishes_when_its_successor_gets_space_and_a_leased_range_is_not_rewritten() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put(&mut cluster, WRITER, b"k", MIB);
    let old = get_detailed(&mut cluster, b"k").expect("readable").replicas[0];
    let new = upsert_start(&mut cluster, OTHER, b"k", MIB).expect("there is room").replicas[0];
    assert_ne!(new.offset_bytes, old.offset_bytes);
    assert!(!cluster.exists(b"k"));
    assert_eq!(cluster.purpose_at(old), Some(Purpose::Held), "somebody still reads it");
    assert_eq!(code(end(&mut cluster, WRITER, b"k", None)), Some(ErrorCode::NotWriter));
    end(&mut cluster, OTHER, b"k", None).expect("the put is the client's");
    let known = peek(&mut cluster, b"k").expect("readable");
    assert_eq!((known.replicas[0], known.writer), (new, Some(OTHER)));
    cluster.leap(10_000);
    assert_eq!(cluster.purpose_at(old), Some(Purpose::Free));
    assert_eq!(cluster.totals().objects, 1);
}

#[test]
fn an_object_that_nobody_leases_is_free_at_once_when_it_is_replaced() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put(&mut cluster, WRITER, b"k", MIB);
    upsert_start(&mut cluster, WRITER, b"k", 2 * MIB).expect("there is room");
    assert_eq!((cluster.totals().held_bytes, cluster.totals().allocated_bytes), (0, 2 * MIB));
}

#[test]
fn an_unfinished_put_of_anyone_is_given_up_at_once_and_its_range_is_held() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let first = put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    let second = upsert_start(&mut cluster, THIRD, b"k", MIB).expect("at once");
    let third = upsert_start(&mut cluster, OTHER, b"k", MIB).expect("an upsert too");
    assert_eq!(code(end(&mut cluster, WRITER, b"k", None)), Some(ErrorCode::NotWriter));
    for given_up in [&first, &second] {
        assert_eq!(cluster.purpose_at(given_up.replicas[0]), Some(Purpose::Held));
        let late = cluster.put_end(b"k", given_up.sequence);
        assert_eq!(code(late), Some(ErrorCode::StaleToken));
    }
    assert_eq!(cluster.totals().put_discarded, 2);
    end(&mut cluster, OTHER, b"k", None).expect("the put is the client's");
    assert_eq!(peek(&mut cluster, b"k").expect("readable").sequence, third.sequence);
    cluster.leap(600_000);
    assert_eq!((cluster.totals().held_bytes, cluster.totals().objects), (0, 1));
}

/// The end of the first one could not be told from that of the second, whose bytes are not there yet.
#[test]
fn a_writer_has_one_unfinished_put_of_a_key_until_the_discard_timeout() {
    for kind in [Kind::Put, Kind::Upsert] {
        let mut cluster = Cluster::new(1);
        cluster.mount(STORE, 1, 64 * MIB);
        let options = PutOptions::default();
        let first = start(&mut cluster, kind, WRITER, b"k", MIB, &options, None).expect("room");
        cluster.leap(29_000);
        let second = upsert_start(&mut cluster, WRITER, b"k", MIB);
        assert_eq!(code(second), Some(ErrorCode::PutInProgress));
        end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
        assert_eq!(peek(&mut cluster, b"k").expect("readable").sequence, first.sequence);
        upsert_start(&mut cluster, WRITER, b"k", MIB).expect("the first one has ended");
        revoke(&mut cluster, WRITER, b"k").expect("the put is the client's");
        upsert_start(&mut cluster, WRITER, b"k", MIB).expect("the one before is revoked");
        cluster.leap(30_000);
        upsert_start(&mut cluster, WRITER, b"k", MIB).expect("the one before is given up");
    }
}

#[test]
fn an_upsert_that_gets_no_space_leaves_the_object_as_it_was() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 2 * MIB);
    put(&mut cluster, WRITER, b"k", MIB);
    put(&mut cluster, WRITER, b"l", MIB);
    for key in [b"k", b"l"] {
        get_detailed(&mut cluster, key).expect("readable");
    }
    let refused = upsert_start(&mut cluster, OTHER, b"k", MIB);
    assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    assert_eq!(peek(&mut cluster, b"k").expect("still readable").writer, Some(WRITER));
    assert_eq!(cluster.totals().objects, 2);
}

#[test]
fn an_object_may_be_evicted_to_make_room_for_its_own_successor() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 2 * MIB);
    put(&mut cluster, WRITER, b"k", 2 * MIB);
    upsert_start(&mut cluster, WRITER, b"k", 2 * MIB).expect("the old one gives way");
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    assert_eq!(cluster.totals().objects, 1);
}

#[test]
fn a_revoked_upsert_leaves_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put(&mut cluster, WRITER, b"k", MIB);
    upsert_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    revoke(&mut cluster, WRITER, b"k").expect("the put is the client's");
    assert_eq!(code(peek(&mut cluster, b"k")), Some(ErrorCode::NotFound));
    assert_eq!(cluster.totals().objects, 0);
}

#[test]
fn a_hard_pin_of_either_object_lasts() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let mut upsert = |hard_pin| {
        let options = PutOptions { hard_pin, ..PutOptions::default() };
        start(&mut cluster, Kind::Upsert, WRITER, b"k", MIB, &options, None).expect("room");
        end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
        peek(&mut cluster, b"k").expect("readable").hard_pin
    };
    assert!(!upsert(false));
    assert!(upsert(true));
    assert!(upsert(false));
}

#[test]
fn a_soft_pin_is_preserved_begun_anew_or_ended() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let begin_by = |cluster: &mut Cluster, client, soft_pin, soft_pin_ttl_ms| {
        let options = PutOptions { soft_pin_ttl_ms, ..PutOptions::default() };
        let extras = Some(PutExtras { soft_pin, ..PutExtras::default() });
        start(cluster, Kind::Upsert, client, b"k", MIB, &options, extras).expect("room");
    };
    let begin = |cluster: &mut Cluster, soft_pin, soft_pin_ttl_ms| {
        begin_by(cluster, WRITER, soft_pin, soft_pin_ttl_ms);
    };
    let finish = |cluster: &mut Cluster| {
        end(cluster, WRITER, b"k", None).expect("the put is the client's");
        peek(cluster, b"k").expect("readable").soft_pin_left_ms
    };
    begin(&mut cluster, SoftPinAction::Preserve, None);
    assert_eq!(finish(&mut cluster), None, "there is nothing to preserve");
    begin(&mut cluster, SoftPinAction::Enable, Some(50_000));
    cluster.leap(1_000);
    assert_eq!(finish(&mut cluster), Some(50_000), "from the moment when it is readable");
    // An upsert that is given up changes nothing of the pin, whatever it asked for.
    begin(&mut cluster, SoftPinAction::Disable, None);
    begin_by(&mut cluster, OTHER, SoftPinAction::Enable, Some(90_000));
    begin(&mut cluster, SoftPinAction::Preserve, None);
    cluster.leap(10_000);
    assert_eq!(finish(&mut cluster), Some(40_000));
    begin(&mut cluster, SoftPinAction::Preserve, None);
    cluster.leap(40_000);
    assert_eq!(finish(&mut cluster), None, "it has ended meanwhile");
    begin(&mut cluster, SoftPinAction::Enable, Some(50_000));
    finish(&mut cluster);
    begin(&mut cluster, SoftPinAction::Disable, None);
    assert_eq!(finish(&mut cluster), None);
    begin(&mut cluster, SoftPinAction::Enable, Some(0));
    assert_eq!(finish(&mut cluster), None, "a pin of no time is none");
}

#[test]
fn what_went_with_its_segment_leaves_no_pin_to_its_successor() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let options = PutOptions { hard_pin: true, ..PutOptions::default() };
    start(&mut cluster, Kind::Put, WRITER, b"k", MIB, &options, None).expect("there is room");
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    cluster.mount(STORE, 2, 64 * MIB);
    cluster
        .unmount(None, memory(STORE, 1, MIB).segment.segment, 0)
        .expect("the segment is mounted");
    upsert_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    assert!(!peek(&mut cluster, b"k").expect("readable").hard_pin);
}
