//! Writers without tokens: whose word ends, revokes and removes what.

use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{PutExtras, ShardRequest};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, code, memory, mount};
use crate::common::{MIB, OTHER, STORE, WRITER, assert_empty, done};
use crate::without_tokens::{Kind, end, get_detailed, peek, put, put_start, revoke, start};

#[test]
fn an_end_makes_the_writers_object_readable_and_may_be_repeated() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    assert_eq!(code(peek(&mut cluster, b"k")), Some(ErrorCode::NotReadable));
    end(&mut cluster, WRITER, b"k", Some(77)).expect("the put is the client's");
    let known = peek(&mut cluster, b"k").expect("readable");
    assert_eq!((known.checksum, known.writer), (Some(77), Some(WRITER)));
    assert_eq!((known.size_bytes, known.replicas), (MIB, grant.replicas));
    // What the first end has said stands.
    end(&mut cluster, WRITER, b"k", Some(78)).expect("an end may be repeated");
    assert_eq!(peek(&mut cluster, b"k").expect("readable").checksum, Some(77));
    assert_eq!(code(end(&mut cluster, OTHER, b"k", None)), Some(ErrorCode::NotWriter));
    assert_eq!(code(end(&mut cluster, WRITER, b"unknown", None)), Some(ErrorCode::NotFound));
}

#[test]
fn a_second_start_of_the_same_writer_is_refused_like_that_of_another_one() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    for client in [WRITER, OTHER] {
        let again = put_start(&mut cluster, client, b"k", MIB);
        assert_eq!(code(again), Some(ErrorCode::PutInProgress));
    }
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    for client in [WRITER, OTHER] {
        let again = put_start(&mut cluster, client, b"k", MIB);
        assert_eq!(code(again), Some(ErrorCode::AlreadyExists));
    }
}

#[test]
fn a_late_end_or_revoke_of_a_put_that_another_client_took_over_changes_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    cluster.leap(30_000);
    let current = put_start(&mut cluster, OTHER, b"k", MIB).expect("the first one is given up");
    assert_eq!(code(end(&mut cluster, WRITER, b"k", None)), Some(ErrorCode::NotWriter));
    assert_eq!(code(revoke(&mut cluster, WRITER, b"k")), Some(ErrorCode::NotWriter));
    assert!(!cluster.exists(b"k"));
    assert_eq!(cluster.purpose_at(current.replicas[0]), Some(Purpose::Writing));
    end(&mut cluster, OTHER, b"k", None).expect("the put is the client's");
    assert_eq!(code(end(&mut cluster, WRITER, b"k", None)), Some(ErrorCode::NotWriter));
    assert_eq!(code(revoke(&mut cluster, WRITER, b"k")), Some(ErrorCode::NotWriter));
    assert!(cluster.exists(b"k"));
}

#[test]
fn what_a_writer_without_tokens_revokes_is_held_until_the_release_timeout() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    cluster.leap(100_000);
    revoke(&mut cluster, WRITER, b"k").expect("the put is the client's");
    assert_eq!(cluster.purpose_at(grant.replicas[0]), Some(Purpose::Held));
    assert_eq!(code(revoke(&mut cluster, WRITER, b"k")), Some(ErrorCode::NotFound));
    put(&mut cluster, OTHER, b"k", MIB);
    cluster.leap(500_000);
    assert_eq!(cluster.totals().held_bytes, 0);
    let complete = revoke(&mut cluster, OTHER, b"k");
    assert_eq!(code(complete), Some(ErrorCode::PutComplete));
    assert!(cluster.exists(b"k"));
}

#[test]
fn an_end_after_the_release_timeout_finds_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_start(&mut cluster, WRITER, b"k", MIB).expect("there is room");
    cluster.leap(600_000);
    assert_eq!(code(end(&mut cluster, WRITER, b"k", None)), Some(ErrorCode::NotFound));
    assert_eq!(cluster.totals().allocated_bytes, 0);
}

#[test]
fn a_detailed_get_leases_and_a_peek_does_not() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let options = PutOptions { soft_pin_ttl_ms: Some(60_000), ..PutOptions::default() };
    let extras = Some(PutExtras { data_type: 3, ..PutExtras::default() });
    start(&mut cluster, Kind::Put, WRITER, b"k", MIB, &options, extras).expect("there is room");
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    cluster.leap(20_000);
    let known = peek(&mut cluster, b"k").expect("readable");
    assert_eq!((known.data_type, known.checksum), (3, None));
    assert_eq!((known.hard_pin, known.soft_pin_left_ms), (false, Some(40_000)));
    assert_eq!(known.lease_left_ms, 0);
    assert_eq!(cluster.totals().leased_bytes, 0);
    let known = get_detailed(&mut cluster, b"k").expect("readable");
    assert_eq!(known.lease_left_ms, 10_000);
    assert_eq!(cluster.totals().leased_bytes, MIB);
    assert_eq!(code(cluster.remove(b"k", false)), Some(ErrorCode::Leased));
    assert_eq!(code(get_detailed(&mut cluster, b"unknown")), Some(ErrorCode::NotFound));
}

#[test]
fn a_client_removes_what_it_has_written_and_nothing_else() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put(&mut cluster, WRITER, b"own", MIB);
    put(&mut cluster, WRITER, b"leased", MIB);
    put(&mut cluster, OTHER, b"foreign", MIB);
    cluster.put(WRITER, b"by token", MIB).expect("there is room");
    put_start(&mut cluster, WRITER, b"unfinished", MIB).expect("there is room");
    get_detailed(&mut cluster, b"leased").expect("readable");
    let keys: [&[u8]; 6] = [b"own", b"leased", b"foreign", b"by token", b"unfinished", b"gone"];
    let batch = cluster.batch(&keys);
    let request = ShardRequest::RemoveByWriter { client: WRITER, mounts: None, batch };
    let codes: Vec<_> = done(&mut cluster, b"own", request).into_iter().map(code).collect();
    use ErrorCode::{Leased, NotFound, NotReadable, NotWriter};
    let refused = [Leased, NotWriter, NotWriter, NotReadable, NotFound].map(Some);
    assert_eq!(codes[0], None);
    assert_eq!(codes[1..], refused);
    assert_eq!(cluster.totals().objects, 4);
}

#[test]
fn a_client_removes_its_replicas_on_one_segment_and_an_object_goes_with_its_last_one() {
    let mut cluster = Cluster::new(1);
    let first = cluster.mount(STORE, 1, 64 * MIB);
    let second = cluster.mount(STORE, 2, 64 * MIB);
    let options = PutOptions { replicas: 2, ..PutOptions::default() };
    start(&mut cluster, Kind::Put, WRITER, b"k", MIB, &options, None).expect("there is room");
    end(&mut cluster, WRITER, b"k", None).expect("the put is the client's");
    let mut remove_from = |mounts| {
        let batch = cluster.batch(&[b"k"]);
        let request = ShardRequest::RemoveByWriter { client: WRITER, mounts, batch };
        let answer = done(&mut cluster, b"k", request).remove(0);
        (code(answer), peek(&mut cluster, b"k").map_or(0, |known| known.replicas.len()))
    };
    let first = vec![mount(first.slot, first.generation)];
    let second = vec![mount(second.slot, second.generation)];
    assert_eq!(remove_from(Some(Vec::new())), (Some(ErrorCode::NotFound), 2));
    assert_eq!(remove_from(Some(first.clone())), (None, 1));
    assert_eq!(remove_from(Some(first)), (Some(ErrorCode::NotFound), 1));
    assert_eq!(remove_from(Some(second)), (None, 0));
    assert_eq!(cluster.totals().allocated_bytes, 0);
}

#[test]
fn what_writers_leave_beside_objects_goes_with_them() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    for number in 0..16 {
        let extras = Some(PutExtras { data_type: 1, ..PutExtras::default() });
        let key = crate::common::key(number);
        let options = PutOptions::default();
        start(&mut cluster, Kind::Put, WRITER, &key, MIB, &options, extras).expect("room");
        if number % 2 == 0 {
            end(&mut cluster, WRITER, &key, Some(number)).expect("the put is the client's");
        }
    }
    cluster
        .unmount(None, memory(STORE, 1, MIB).segment.segment, 0)
        .expect("the segment is mounted");
    cluster.leap(600_000);
    assert_empty(&cluster);
}
