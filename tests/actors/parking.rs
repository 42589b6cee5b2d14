//! Puts that wait for space: when they are answered, with what, and in which order.
//!
//! The pool is kept from hearing, so that a put that needs it has to wait.

use mooring_actors::pool::message::PoolMessage;
use mooring_actors::shard::message::{PutRequest, ShardMessage, ShardRequest};
use mooring_actors::{RequestId, ShardId};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::{PutOptions, PutStartGrant};
use mooring_proto::{ClientId, SegmentId};

use crate::cluster::{Cluster, Envelope, code};
use crate::common::{
    KIB, MIB, OTHER, STORE, WRITER, key, no_watermark, pool_messages, put_all, put_with,
    settle_shards, started, tick_shards,
};

/// A shard that has to ask the pool for whatever it places.
fn waiting_for_its_first_span() -> Cluster {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 16 * MIB);
    cluster
}

/// A shard whose only segment is full of leased objects; the leases last for a while.
fn full_and_leased() -> Cluster {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    put_all(&mut cluster, 0..64, RANGE_BYTES);
    for number in 0..64 {
        cluster.get(&key(number)).expect("readable");
    }
    cluster
}

fn park(cluster: &mut Cluster, client: ClientId, key: &[u8], size_bytes: u64) -> RequestId {
    let id = cluster.send_put_start(client, key, size_bytes, &PutOptions::default());
    settle_shards(cluster);
    assert!(cluster.open.contains_key(&id), "the put waits");
    id
}

fn answer(
    cluster: &mut Cluster,
    id: RequestId,
) -> Result<PutStartGrant, mooring_proto::error::Refusal> {
    started(cluster, id).remove(0)
}

#[test]
fn a_parked_put_is_refused_at_its_deadline_and_the_late_span_does_no_harm() {
    let mut cluster = waiting_for_its_first_span();
    let id = park(&mut cluster, WRITER, b"k", MIB);
    assert_eq!(cluster.totals().parked, 1);
    tick_shards(&mut cluster, 1_999);
    assert!(cluster.open.contains_key(&id));
    tick_shards(&mut cluster, 1);
    let refusal = answer(&mut cluster, id).expect_err("its time is over");
    assert_eq!((refusal.code, refusal.retry_after_ms), (ErrorCode::NoSpace, Some(100)));
    assert!(refusal.no_space.is_some());
    assert_eq!((cluster.totals().parked, cluster.totals().objects), (0, 0));
    cluster.settle();
    assert_eq!(cluster.totals().objects, 0, "the span that came late is only free space");
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("the key is free again");
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
}

#[test]
fn a_parked_put_is_refused_at_the_deadline_of_its_request_if_that_is_sooner() {
    let mut cluster = waiting_for_its_first_span();
    let id = cluster.ticket();
    let request = ShardRequest::PutStart {
        client: WRITER,
        options: PutOptions::default(),
        extras: None,
        batch: cluster.batch(&[b"k"]),
        puts: vec![PutRequest { size_bytes: MIB, put_id: 1 }],
    };
    let deadline = Some(cluster.now.after_ms(500));
    let message = ShardMessage::Request { id, deadline, request };
    cluster.queue.push_back(Envelope::ToShard(ShardId(0), message));
    settle_shards(&mut cluster);
    tick_shards(&mut cluster, 499);
    assert!(cluster.open.contains_key(&id));
    tick_shards(&mut cluster, 1);
    assert_eq!(code(answer(&mut cluster, id)), Some(ErrorCode::NoSpace));
}

#[test]
fn the_parked_puts_of_a_lost_client_are_refused_and_those_of_others_are_not() {
    let mut cluster = waiting_for_its_first_span();
    let lost = park(&mut cluster, WRITER, b"lost", MIB);
    let other = park(&mut cluster, OTHER, b"other", MIB);
    let message = ShardMessage::ClientLost(WRITER);
    cluster.queue.push_back(Envelope::ToShard(ShardId(0), message));
    settle_shards(&mut cluster);
    assert_eq!(code(answer(&mut cluster, lost)), Some(ErrorCode::NeedRemount));
    assert!(cluster.open.contains_key(&other));
    cluster.settle();
    answer(&mut cluster, other).expect("the pool had a span");
    assert_eq!(cluster.totals().objects, 1);
    cluster.put_start(OTHER, b"lost", MIB).expect("the key is free");
}

#[test]
fn parked_puts_are_answered_when_their_only_segment_is_lost() {
    let mut cluster = full_and_leased();
    let ids: Vec<RequestId> =
        (100..104).map(|number| park(&mut cluster, WRITER, &key(number), RANGE_BYTES)).collect();
    let unmount = mooring_actors::pool::message::PoolRequest::Unmount {
        client: None,
        segment: SegmentId(STORE.0 << 64 | 1),
        grace_ms: 0,
    };
    // The pool hears of the unmount before it hears that somebody wants room.
    let unmounted = cluster.send_pool(unmount);
    let place = cluster.queue.len() - 1;
    cluster.deliver(place);
    settle_shards(&mut cluster);
    for id in ids {
        assert_eq!(code(answer(&mut cluster, id)), Some(ErrorCode::NoSegment));
    }
    cluster.settle();
    assert!(!cluster.open.contains_key(&unmounted));
    assert_eq!((cluster.totals().parked, cluster.totals().objects), (0, 0));
}

#[test]
fn parked_puts_go_to_another_segment_when_theirs_is_lost() {
    let mut cluster = waiting_for_its_first_span();
    cluster.mount(STORE, 2, 16 * MIB);
    let ids: Vec<RequestId> =
        (0..6).map(|number| park(&mut cluster, WRITER, &key(number), MIB)).collect();
    let unmount = mooring_actors::pool::message::PoolRequest::Unmount {
        client: None,
        segment: SegmentId(STORE.0 << 64 | 1),
        grace_ms: 0,
    };
    cluster.send_pool(unmount);
    let place = cluster.queue.len() - 1;
    cluster.deliver(place);
    cluster.settle();
    let left = cluster.pool.table()[0].slot;
    for id in ids {
        let grant = answer(&mut cluster, id).expect("the other one has room");
        assert_eq!(grant.replicas[0].slot, left);
    }
}

#[test]
fn a_parked_put_is_granted_as_soon_as_an_object_makes_room() {
    let mut cluster = full_and_leased();
    let id = park(&mut cluster, WRITER, b"waits", RANGE_BYTES);
    cluster.send_shard(
        ShardId(0),
        ShardRequest::Remove { force: false, batch: cluster.batch(&[&key(3)]) },
    );
    settle_shards(&mut cluster);
    assert!(cluster.open.contains_key(&id), "what is leased stays");
    // A forced removal holds the range until its readers are done.
    let force = ShardRequest::Remove { force: true, batch: cluster.batch(&[&key(3)]) };
    cluster.send_shard(ShardId(0), force);
    settle_shards(&mut cluster);
    assert!(cluster.open.contains_key(&id), "a range that may be read is not room");
    let writing = cluster.totals().objects;
    tick_shards(&mut cluster, 1_000);
    assert_eq!(cluster.totals().objects, writing);
    // The pool hears at last, and has no better answer than when to try again.
    cluster.settle();
    let refusal = answer(&mut cluster, id).expect_err("nothing may go");
    assert_eq!(refusal.code, ErrorCode::NoSpace);
    assert_eq!(refusal.retry_after_ms, Some(9_000), "when the leases end");
}

#[test]
fn a_revoked_put_makes_room_for_one_that_waits() {
    let mut cluster = full_and_leased();
    cluster.advance(10_010);
    let grant = cluster.put_start(WRITER, b"writing", RANGE_BYTES).expect("something may go");
    for number in 0..64 {
        let _ = cluster.get(&key(number));
    }
    let id = park(&mut cluster, OTHER, b"waits", RANGE_BYTES);
    let revoke = ShardRequest::PutRevoke {
        incarnation: crate::cluster::INCARNATION,
        no_write_in_flight: true,
        batch: cluster.batch(&[b"writing"]),
        sequences: vec![grant.sequence],
    };
    cluster.send_shard(ShardId(0), revoke);
    settle_shards(&mut cluster);
    assert_eq!(answer(&mut cluster, id).expect("there is room now").replicas, grant.replicas);
}

#[test]
fn room_that_was_made_is_used_at_once_although_there_was_none_just_before() {
    let mut cluster = full_and_leased();
    let refused = cluster.put_start(WRITER, b"k", RANGE_BYTES);
    assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    cluster.advance(10_000 - 10);
    let refused = cluster.put_start(WRITER, b"k", RANGE_BYTES);
    assert_eq!(code(refused), Some(ErrorCode::NoSpace));
    cluster.advance(10);
    cluster.remove(&key(5), false).expect("its lease has ended");
    cluster.put_start(WRITER, b"k", RANGE_BYTES).expect("there is room");
    cluster.put_start(WRITER, b"l", RANGE_BYTES).expect("and what is old may go");
}

#[test]
fn what_comes_free_goes_to_the_put_that_waits_longest() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    let sequences: Vec<u64> = (0..64)
        .map(|number| {
            let started = cluster.put_start(WRITER, &key(number), RANGE_BYTES);
            started.expect("there is room").sequence
        })
        .collect();
    let ids: Vec<RequestId> =
        (100..110).map(|number| park(&mut cluster, OTHER, &key(number), RANGE_BYTES)).collect();
    for (number, sequence) in sequences.iter().enumerate().take(10) {
        let revoke = ShardRequest::PutRevoke {
            incarnation: crate::cluster::INCARNATION,
            no_write_in_flight: true,
            batch: cluster.batch(&[&key(number as u64)]),
            sequences: vec![*sequence],
        };
        cluster.send_shard(ShardId(0), revoke);
        settle_shards(&mut cluster);
        let open: Vec<bool> = ids.iter().map(|id| cluster.open.contains_key(id)).collect();
        let expected: Vec<bool> = (0..10).map(|place| place > number).collect();
        assert_eq!(open, expected);
    }
    cluster.settle();
    assert_eq!(cluster.totals().parked, 0);
}

#[test]
fn a_parked_put_holds_its_key_and_is_not_readable() {
    let mut cluster = waiting_for_its_first_span();
    let id = park(&mut cluster, WRITER, b"k", MIB);
    let second = cluster.send_put_start(OTHER, b"k", MIB, &PutOptions::default());
    settle_shards(&mut cluster);
    assert_eq!(code(answer(&mut cluster, second)), Some(ErrorCode::PutInProgress));
    let exist = ShardRequest::Exist { lease: true, batch: cluster.batch(&[b"k"]) };
    let asked = cluster.send_shard(ShardId(0), exist);
    settle_shards(&mut cluster);
    let reply = cluster.take_shard_answer(asked);
    assert_eq!(reply, mooring_actors::shard::message::ShardReply::Existing(vec![false]));
    cluster.settle();
    let grant = answer(&mut cluster, id).expect("the pool had a span");
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
    assert_eq!(code(cluster.put_start(OTHER, b"k", MIB)), Some(ErrorCode::AlreadyExists));
}

#[test]
fn a_large_put_does_not_starve_behind_a_stream_of_small_ones() {
    for shards in [1, 2] {
        let mut cluster = Cluster::with(shards, no_watermark());
        cluster.mount(STORE, 1, 64 * MIB);
        put_all(&mut cluster, 0..1_024, RANGE_BYTES);
        let large = cluster.send_put_start(OTHER, b"large", 12 * MIB, &PutOptions::default());
        let (mut writing, mut turns) = (Vec::new(), 0);
        while cluster.open.contains_key(&large) {
            // With every few messages comes another small put, and ends when it may.
            let (number, options) = (10_000 + turns, PutOptions::default());
            let id = cluster.send_put_start(WRITER, &key(number), RANGE_BYTES, &options);
            writing.push((number, id));
            for _ in 0..4 {
                cluster.deliver(0);
            }
            writing.retain(|(number, id)| !end_if_granted(&mut cluster, *number, *id));
            turns += 1;
            assert!(turns < 1_000, "it starves");
        }
        answer(&mut cluster, large).expect("there is a window for it");
        cluster.settle();
        for (_, id) in writing {
            answer(&mut cluster, id).expect("the small ones are served as well");
        }
    }
}

/// Sends the end of a put that has been granted.
fn end_if_granted(cluster: &mut Cluster, number: u64, id: RequestId) -> bool {
    if cluster.open.contains_key(&id) {
        return false;
    }
    let grant = answer(cluster, id).expect("the small ones are served as well");
    let batch = cluster.batch(&[&key(number)]);
    let end = ShardRequest::PutEnd {
        incarnation: crate::cluster::INCARNATION,
        batch,
        sequences: vec![grant.sequence],
    };
    cluster.send_shard(cluster.shard_of(&key(number)), end);
    true
}

#[test]
fn a_shard_has_one_request_for_each_segment_and_one_for_room_under_way_however_many_wait() {
    let mut cluster = Cluster::with(1, no_watermark());
    for number in 0..3 {
        cluster.mount(STORE, number, 4 * MIB);
    }
    let is =
        |what: &'static str| move |message: &PoolMessage| format!("{message:?}").contains(what);
    for number in 0..40 {
        cluster.send_put_start(WRITER, &key(number), RANGE_BYTES, &PutOptions::default());
        settle_shards(&mut cluster);
        assert!(pool_messages(&cluster, is("SpanRequest")) <= 3);
    }
    cluster.settle();
    let pinned = PutOptions { hard_pin: true, ..PutOptions::default() };
    for number in 100..108 {
        put_with(&mut cluster, &key(number), RANGE_BYTES, &pinned);
    }
    for number in 200..240 {
        cluster.send_put_start(WRITER, &key(number), RANGE_BYTES, &PutOptions::default());
        settle_shards(&mut cluster);
        assert!(pool_messages(&cluster, is("SpanRequest")) <= 3);
        assert!(pool_messages(&cluster, is("RoomRequest")) <= 1);
    }
    cluster.settle();
    assert_eq!(cluster.totals().parked, 0);
}

/// A 64th of the segment that is filled.
const RANGE_BYTES: u64 = 64 * KIB;
