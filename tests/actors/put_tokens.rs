//! Tokens: what a repeated, a late, a foreign or a wrong word about a put changes.

use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{PutRequest, ShardRequest};
use mooring_proto::Incarnation;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, code};
use crate::common::{GIB, MIB, OTHER, STORE, WRITER, done, send_batch, start_batch, started};

// R3
#[test]
fn a_repeated_end_is_a_success_and_a_revoke_after_the_end_changes_nothing() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
    cluster.put_end(b"k", grant.sequence).expect("an end may be repeated");
    let late = cluster.put_revoke(b"k", grant.sequence, true);
    assert_eq!(code(late), Some(ErrorCode::PutComplete));
    assert_eq!(cluster.get(b"k").expect("still readable").replicas, grant.replicas);
    let unknown = cluster.put_end(b"unknown", grant.sequence);
    assert_eq!(code(unknown), Some(ErrorCode::NotFound));
    assert_eq!(cluster.totals().objects, 1);
}

// R4
#[test]
fn of_two_writers_of_one_key_the_second_waits_and_exist_and_get_never_disagree() {
    for size_bytes in [MIB, 5 * GIB] {
        let mut cluster = Cluster::new(2);
        cluster.mount(STORE, 1, 16 * GIB);
        let agree = |cluster: &mut Cluster, readable: bool| {
            assert_eq!(cluster.exists(b"k"), readable);
            assert_eq!(cluster.get(b"k").is_ok(), readable);
        };
        let first = cluster.put_start(WRITER, b"k", size_bytes).expect("there is room");
        let second = cluster.put_start(OTHER, b"k", size_bytes);
        assert_eq!(code(second), Some(ErrorCode::PutInProgress));
        agree(&mut cluster, false);
        cluster.put_revoke(b"k", first.sequence, true).expect("the put is current");
        agree(&mut cluster, false);
        let second = cluster.put_start(OTHER, b"k", size_bytes).expect("the key is free at once");
        agree(&mut cluster, false);
        cluster.put_end(b"k", second.sequence).expect("the put is current");
        agree(&mut cluster, true);
        assert_eq!(cluster.get(b"k").expect("readable").size_bytes, size_bytes);
        assert_eq!(code(cluster.put_end(b"k", first.sequence)), Some(ErrorCode::StaleToken));
        agree(&mut cluster, true);
    }
}

// R4
#[test]
fn two_starts_of_one_key_in_one_batch_have_one_winner() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 16 * GIB);
    let put = |put_id| PutRequest { size_bytes: 5 * GIB, put_id };
    let answers = start_batch(&mut cluster, WRITER, &[(b"k", put(1)), (b"k", put(2))]);
    let winner = answers[0].as_ref().expect("the first one wins");
    assert_eq!(code(answers[1].clone()), Some(ErrorCode::PutInProgress));
    assert_eq!(cluster.totals().held_bytes, 0);
    assert_eq!(cluster.totals().allocated_bytes, 5 * GIB);
    let sequence = winner.sequence;
    cluster.put_end(b"k", sequence).expect("the put is current");
    assert!(cluster.exists(b"k"));
}

#[test]
fn a_repeated_start_gets_the_same_reservation_until_the_discard_timeout() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let put = PutRequest { size_bytes: MIB, put_id: 77 };
    let start =
        |cluster: &mut Cluster, client, put| start_batch(cluster, client, &[(b"k", put)]).remove(0);
    let first = start(&mut cluster, WRITER, put).expect("there is room");
    cluster.advance(29_990);
    assert_eq!(start(&mut cluster, WRITER, put), Ok(first.clone()));
    assert_eq!(cluster.totals().objects, 1);
    // Neither another client nor another put of the same client is meant.
    let other_put = PutRequest { put_id: 78, ..put };
    assert_eq!(code(start(&mut cluster, OTHER, put)), Some(ErrorCode::PutInProgress));
    let refusal = start(&mut cluster, WRITER, other_put).expect_err("another put is under way");
    assert_eq!((refusal.code, refusal.retry_after_ms), (ErrorCode::PutInProgress, Some(10)));
    cluster.advance(10);
    let second = start(&mut cluster, WRITER, put).expect("the reservation is given up");
    assert_ne!(second.sequence, first.sequence);
    assert_ne!(second.replicas, first.replicas);
    assert_eq!(cluster.totals().held_bytes, MIB, "a slow writer may still write there");
}

#[test]
fn a_put_id_that_is_used_again_for_something_else_is_refused_and_the_reservation_stays() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let mut start = |size_bytes, options: &PutOptions| {
        let put = PutRequest { size_bytes, put_id: 77 };
        let id = send_batch(&mut cluster, WRITER, &[(b"k", put)], options);
        cluster.settle();
        started(&mut cluster, id).remove(0)
    };
    // One segment, so only one of the replicas is granted.
    let options = PutOptions { replicas: 2, soft_pin_ttl_ms: Some(5), ..PutOptions::default() };
    let first = start(MIB, &options).expect("there is room");
    let invalid = Some(ErrorCode::InvalidArgument);
    assert_eq!(code(start(MIB + 1, &options)), invalid);
    assert_eq!(code(start(MIB - 1, &options)), invalid);
    assert_eq!(code(start(MIB, &PutOptions { replicas: 1, ..options.clone() })), invalid);
    assert_eq!(code(start(MIB, &PutOptions { hard_pin: true, ..options.clone() })), invalid);
    assert_eq!(code(start(MIB, &PutOptions { soft_pin_ttl_ms: None, ..options.clone() })), invalid);
    assert_eq!(start(MIB, &options), Ok(first.clone()));
    cluster.put_end(b"k", first.sequence).expect("the reservation is still good");
}

#[test]
fn a_late_end_is_a_success_as_long_as_nobody_took_the_key_over() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.leap(599_000);
    cluster.put_end(b"k", grant.sequence).expect("the range is still its own");
    assert!(cluster.exists(b"k"));
    let grant = cluster.put_start(WRITER, b"l", MIB).expect("there is room");
    cluster.leap(600_000);
    assert_eq!(code(cluster.put_end(b"l", grant.sequence)), Some(ErrorCode::NotFound));
    assert_eq!(cluster.totals().held_bytes, 0);
}

#[test]
fn a_stale_token_neither_ends_nor_revokes_what_came_after_it() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let stale = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.put_revoke(b"k", stale.sequence, true).expect("the put is current");
    let current = cluster.put_start(OTHER, b"k", MIB).expect("the key is free");
    for _ in 0..2 {
        assert_eq!(code(cluster.put_end(b"k", stale.sequence)), Some(ErrorCode::StaleToken));
        let revoke = cluster.put_revoke(b"k", stale.sequence, true);
        assert_eq!(code(revoke), Some(ErrorCode::StaleToken));
        assert!(!cluster.exists(b"k"));
    }
    assert_eq!(cluster.purpose_at(current.replicas[0]), Some(Purpose::Writing));
    cluster.put_end(b"k", current.sequence).expect("the put is current");
    assert_eq!(code(cluster.validate(b"k", stale.sequence)), Some(ErrorCode::Changed));
    cluster.validate(b"k", current.sequence).expect("the object is that of the put");
}

#[test]
fn a_token_of_another_master_is_stale_whatever_its_number() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    let incarnation = Incarnation(0xdead);
    let sequences = vec![grant.sequence];
    let batch = cluster.batch(&[b"k"]);
    let end =
        ShardRequest::PutEnd { incarnation, batch: batch.clone(), sequences: sequences.clone() };
    assert_eq!(code(done(&mut cluster, b"k", end).remove(0)), Some(ErrorCode::StaleToken));
    let revoke = ShardRequest::PutRevoke {
        incarnation,
        no_write_in_flight: true,
        batch: batch.clone(),
        sequences: sequences.clone(),
    };
    assert_eq!(code(done(&mut cluster, b"k", revoke).remove(0)), Some(ErrorCode::StaleToken));
    assert_eq!(cluster.totals().unfinished, 1);
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
    let validate = ShardRequest::Validate { incarnation, batch, sequences };
    assert_eq!(code(done(&mut cluster, b"k", validate).remove(0)), Some(ErrorCode::Changed));
}

#[test]
fn a_revoked_range_is_held_unless_the_writer_states_that_it_writes_no_more() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let quiet = cluster.put_start(WRITER, b"quiet", MIB).expect("there is room");
    cluster.put_revoke(b"quiet", quiet.sequence, true).expect("the put is current");
    assert_eq!(cluster.purpose_at(quiet.replicas[0]), Some(Purpose::Free));
    let writing = cluster.put_start(WRITER, b"writing", MIB).expect("there is room");
    cluster.leap(100_000);
    cluster.put_revoke(b"writing", writing.sequence, false).expect("the put is current");
    assert_eq!(code(cluster.get(b"writing")), Some(ErrorCode::NotFound));
    assert_eq!(cluster.purpose_at(writing.replicas[0]), Some(Purpose::Held));
    cluster.leap(499_980);
    assert_eq!(cluster.totals().held_bytes, MIB);
    cluster.advance(20);
    assert_eq!(cluster.totals().held_bytes, 0, "600 s after its start nobody writes");
    assert_eq!(cluster.totals().allocated_bytes, 0);
}
