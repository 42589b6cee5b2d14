//! Leases: what a reader may rely on, and for how long; and that only the given time counts.

use mooring_actors::core::Settings;
use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{ShardMessage, ShardReply, ShardRequest, ShardTotals};
use mooring_actors::{Moment, ShardId};
use mooring_proto::error::ErrorCode;

use crate::cluster::{Cluster, Envelope, code};
use crate::common::{
    MIB, OTHER, STORE, WRITER, key, no_watermark, pool_messages, put_all, settle_shards,
};
use crate::handoff::{again, reopen, restart};

// R8
#[test]
fn a_leased_object_is_out_of_reach_of_eviction_and_removal_and_a_reader_learns_when_it_is_gone() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    put_all(&mut cluster, 0..4, MIB);
    let mut before = Vec::new();
    for number in 0..4 {
        before.push(cluster.get(&key(number)).expect("readable"));
    }
    cluster.advance(9_999);
    let refused = cluster.put_start(WRITER, b"new", MIB).expect_err("everything is leased");
    assert_eq!(refused.code, ErrorCode::NoSpace);
    assert!(refused.retry_after_ms.is_some_and(|ms| ms <= 1_000), "{refused:?}");
    assert_eq!(refused.no_space.expect("it says why").leased_bytes, 4 * MIB);
    for number in 0..4 {
        assert_eq!(code(cluster.remove(&key(number), false)), Some(ErrorCode::Leased));
    }
    assert_eq!(cluster.remove_all(false), (0, 4));
    for (number, located) in before.iter().enumerate() {
        cluster.validate(&key(number as u64), located.sequence).expect("still the same object");
    }

    cluster.advance(1_001);
    let new = cluster.put(WRITER, b"new", MIB).expect("the leases have ended");
    let victim = before.iter().position(|located| located.replicas == new.replicas);
    assert_eq!(victim, Some(0), "the oldest one had to go");
    let gone = cluster.validate(&key(0), before[0].sequence);
    assert_eq!(code(gone), Some(ErrorCode::Changed));
    cluster.validate(&key(1), before[1].sequence).expect("the other ones are intact");
}

// R8
#[test]
fn every_key_of_a_batch_gets_the_same_lease_as_a_single_one() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..8, MIB);
    cluster.advance(20_000);
    cluster.get(&key(7)).expect("readable");
    let keys: Vec<Vec<u8>> = (0..6).map(key).collect();
    let mut refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    refs.insert(3, b"missing");
    let batch = cluster.batch(&refs[..5]);
    cluster.send_shard(ShardId(0), ShardRequest::Get { batch });
    let batch = cluster.batch(&refs[5..]);
    let asked = cluster.send_shard(ShardId(0), ShardRequest::Exist { lease: true, batch });
    cluster.settle();
    assert_eq!(cluster.take_shard_answer(asked), ShardReply::Existing(vec![true, true]));
    assert!(cluster.exists(&key(6)));
    cluster.advance(9_999);
    let leased: Vec<u64> = (0..8)
        .filter(|number| code(cluster.remove(&key(*number), false)) == Some(ErrorCode::Leased))
        .collect();
    assert_eq!(leased, [0, 1, 2, 3, 4, 5, 7], "an exist without lease gave none");
    cluster.advance(1);
    for number in leased {
        cluster.remove(&key(number), false).expect("the lease has ended");
    }
}

#[test]
fn a_forced_removal_hides_the_object_at_once_and_holds_its_range_until_the_lease_ends() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, MIB);
    let grant = cluster.put(WRITER, b"k", MIB).expect("there is room");
    cluster.get(b"k").expect("readable");
    cluster.advance(4_000);
    cluster.remove(b"k", true).expect("by force");
    assert!(!cluster.exists(b"k"));
    assert_eq!(code(cluster.get(b"k")), Some(ErrorCode::NotFound));
    assert_eq!(cluster.purpose_at(grant.replicas[0]), Some(Purpose::Held));
    let refused = cluster.put_start(WRITER, b"l", MIB).expect_err("a reader may be at work");
    assert_eq!(refused.no_space.expect("it says why").held_bytes, MIB);
    cluster.advance(10_990 - cluster.now.as_ms());
    assert_eq!(cluster.totals().held_bytes, MIB);
    cluster.advance(10);
    assert_eq!(cluster.totals().held_bytes, 0);
    let again = cluster.put_start(WRITER, b"l", MIB).expect("the lease has ended");
    assert_eq!(again.replicas, grant.replicas);
}

#[test]
fn a_forced_removal_without_a_lease_frees_the_range_at_once() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put(WRITER, b"k", MIB).expect("there is room");
    cluster.remove(b"k", true).expect("by force");
    assert_eq!(cluster.purpose_at(grant.replicas[0]), Some(Purpose::Free));
    assert_eq!(cluster.totals().held_bytes, 0);
}

// R12
#[test]
fn no_number_of_messages_moves_a_deadline_while_time_stands() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put_start(WRITER, b"writing", MIB).expect("there is room");
    cluster.put(WRITER, b"leased", MIB).expect("there is room");
    cluster.get(b"leased").expect("readable");
    let revoked = cluster.put_start(WRITER, b"revoked", MIB).expect("there is room");
    cluster.put_revoke(b"revoked", revoked.sequence, false).expect("the put is current");
    let before = ShardTotals { free_bytes: 0, ..cluster.totals() };
    for _ in 0..2_000 {
        cluster.tick();
        cluster.settle();
    }
    // Spare pages go back to the pool; nothing else changes.
    assert_eq!(ShardTotals { free_bytes: 0, ..cluster.totals() }, before);
    assert_eq!(code(cluster.put_start(OTHER, b"writing", MIB)), Some(ErrorCode::PutInProgress));
    assert_eq!(code(cluster.remove(b"leased", false)), Some(ErrorCode::Leased));
    assert!(cluster.offline.is_empty(), "nor does a client expire");
    // One second of the given time is one second, however long it took.
    cluster.advance(1_000);
    let refusal = cluster.remove(b"leased", false).expect_err("nine seconds are left");
    assert_eq!(refusal.retry_after_ms, Some(9_000));
    assert_eq!(cluster.totals().held_bytes, MIB);
}

// R12
#[test]
fn the_same_messages_have_the_same_answers_at_whatever_moment_the_clock_starts() {
    let run = |start_ms: u64| {
        let mut cluster = Cluster::new(2);
        cluster.now = Moment::from_ms(start_ms);
        cluster.mount(STORE, 1, 8 * MIB);
        let mut story = Vec::new();
        for number in 0..40_u64 {
            let client = if number % 3 == 0 { OTHER } else { WRITER };
            let started = cluster.put_start(client, &key(number % 4), MIB);
            if let (Ok(grant), true) = (&started, number % 4 != 0) {
                story.push(format!("{:?}", cluster.put_end(&key(number % 4), grant.sequence)));
            }
            story.push(format!("{started:?}"));
            story.push(format!("{:?}", cluster.get(&key(number % 5))));
            story.push(format!("{:?}", cluster.remove(&key(number % 7), number % 2 == 0)));
            cluster.leap(7_000);
            story.push(format!("{:?}", cluster.totals()));
        }
        story
    };
    let early = run(0);
    assert!(early.iter().any(|line| line.contains("PutInProgress")));
    assert_eq!(early, run(1_000));
    assert_eq!(early, run(700_000_000_000));
}

// R12
#[test]
fn a_master_that_slept_gives_nothing_back_before_its_time() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let slow = cluster.put_start(WRITER, b"slow", MIB).expect("there is room");
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    cluster.leap(599_999);
    assert_eq!(cluster.purpose_at(slow.replicas[0]), Some(Purpose::Writing));
    assert!(cluster.exists(b"k"), "the store is not taken for dead because of the sleep");
    cluster.leap(1);
    assert_eq!(cluster.purpose_at(slow.replicas[0]), Some(Purpose::Free));
}

#[test]
fn a_reader_gets_its_answer_in_one_turn_of_the_shard_without_the_pool() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..4, MIB);
    let batch = cluster.batch(&[&key(1)]);
    let id = cluster.send_shard(ShardId(0), ShardRequest::Get { batch });
    assert!(matches!(
        cluster.queue.front(),
        Some(Envelope::ToShard(_, ShardMessage::Request { .. }))
    ));
    settle_shards(&mut cluster);
    assert!(matches!(cluster.take_shard_answer(id), ShardReply::Located(_)));
    assert_eq!(pool_messages(&cluster, |_| true), 0);
}

// A reader may have asked at the end of the millisecond in which the master took its request, and
// counts from there.
#[test]
fn a_lease_and_a_hold_outlast_what_is_told_by_the_millisecond_that_a_moment_is_cut_to() {
    let settings = Settings {
        lease_ttl_ms: 1_000,
        put_discard_timeout_ms: 1_000,
        put_release_timeout_ms: 2_000,
        ..no_watermark()
    };
    let mut first = Cluster::with(1, settings);
    first.mount(STORE, 1, 4 * MIB);
    first.put(WRITER, b"read", MIB).expect("there is room");
    first.advance(2_000);
    // A master that is restored has its times from the settings as a process has.
    let mut cluster = restart(&mut first);
    reopen(&mut cluster, STORE, vec![again(STORE, 1, 4 * MIB)]);
    cluster.advance(2_000);

    cluster.get(b"read").expect("readable");
    let written = cluster.put_start(WRITER, b"written", MIB).expect("there is room");
    cluster.advance(1_000);
    assert_eq!(code(cluster.remove(b"read", false)), Some(ErrorCode::Leased));
    cluster.advance(1);
    cluster.remove(b"read", false).expect("the lease is over");
    cluster.advance(999);
    let place = written.replicas[0];
    assert_eq!(cluster.purpose_at(place), Some(Purpose::Writing));
    cluster.advance(1);
    assert_ne!(cluster.purpose_at(place), Some(Purpose::Writing));
}
