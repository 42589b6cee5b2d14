//! Segments that come, drain, go, and come back.

use std::collections::BTreeSet;

use mooring_actors::ShardId;
use mooring_actors::pool::message::{PoolMessage, PoolOrder, PoolReply, PoolRequest};
use mooring_actors::shard::message::{ShardMessage, ShardReply, ShardRequest};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::inspect::{SegmentState, SegmentUse};
use mooring_proto::message::segment::{MountRequest, Segment};
use mooring_proto::{ClientId, Incarnation, SegmentId};

use crate::cluster::{Answer, Cluster, Envelope, INCARNATION, TICK_MS, code, memory};
use crate::common::{
    KIB, MIB, OTHER, STORE, WRITER, assert_empty, key, put_all, readable, settle_shards,
};

fn segment(number: u128) -> SegmentId {
    SegmentId(STORE.0 << 64 | number)
}

fn uses(cluster: &mut Cluster) -> Vec<SegmentUse> {
    let id = cluster.send_pool(PoolRequest::Uses);
    cluster.settle();
    match cluster.answers.remove(&id) {
        Some(Answer::Pool(PoolReply::Uses(uses))) => uses,
        other => panic!("uses are answered with {other:?}"),
    }
}

// A mount was done and not answered, so its store serves nobody there, and lives.
#[test]
fn a_segment_that_its_living_store_does_not_know_of_goes_when_the_store_has_listed_what_it_has() {
    let mut cluster = Cluster::new(2);
    cluster.try_mount(STORE, memory(STORE, 1, 64 * MIB)).unwrap();
    put_all(&mut cluster, 0..4, MIB);
    let until = cluster.now.after_ms(cluster.settings.client_ttl_ms);
    assert!(!cluster.ping(STORE, &[]), "the answer may have crossed the ping");
    while cluster.now < until {
        assert!(cluster.ping(STORE, &[]), "it must list what it has");
        assert_eq!(cluster.remount(STORE, Vec::new()), Ok(Vec::new()));
        assert_eq!(uses(&mut cluster).len(), 1, "the mount may still be on its way to be known");
        cluster.advance(TICK_MS);
    }
    assert!(cluster.ping(STORE, &[]));
    assert_eq!(cluster.remount(STORE, Vec::new()), Ok(Vec::new()));
    assert!(!cluster.ping(STORE, &[]));
    assert_eq!(readable(&mut cluster, 0..4), [] as [u64; 0]);
    assert_eq!(code(cluster.put_start(WRITER, &key(9), MIB)), Some(ErrorCode::NoSegment));
    assert_empty(&cluster);
}

// The refusal of a remount and the answer to a mount got lost: as many here as there, but others.
#[test]
fn a_store_with_as_many_segments_as_its_master_and_other_ones_lists_what_it_has() {
    let mut cluster = Cluster::new(2);
    cluster.try_mount(STORE, memory(STORE, 1, 64 * MIB)).unwrap();
    cluster.try_mount(STORE, memory(STORE, 2, 64 * MIB)).unwrap();
    let elsewhere =
        MountRequest { mounted_with: Some(Incarnation(0xdead)), ..memory(STORE, 1, 64 * MIB) };
    cluster.settle();
    cluster.advance(cluster.settings.lease_ttl_ms);
    let refusal = cluster.remount(STORE, vec![elsewhere, memory(STORE, 2, 64 * MIB)]);
    assert_eq!(refusal.unwrap_err().code, ErrorCode::SegmentLeaving);
    cluster.try_mount(STORE, memory(STORE, 3, 64 * MIB)).unwrap();
    cluster.advance(cluster.settings.client_ttl_ms);
    let known = [segment(1), segment(2)];
    assert!(!cluster.ping(STORE, &known), "an answer may have crossed the ping");
    assert!(cluster.ping(STORE, &known));
    let all = vec![memory(STORE, 1, 64 * MIB), memory(STORE, 2, 64 * MIB)];
    cluster.remount(STORE, all).unwrap();
    assert!(!cluster.ping(STORE, &known));
    let mounted: BTreeSet<_> =
        uses(&mut cluster).iter().map(|it| it.entry.segment.segment).collect();
    assert_eq!(mounted, BTreeSet::from(known));
}

#[test]
fn an_unmount_is_acknowledged_only_after_every_shard_has_confirmed() {
    let mut cluster = Cluster::new(4);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..40, MIB);
    let request = PoolRequest::Unmount { client: Some(STORE), segment: segment(1), grace_ms: 0 };
    let id = cluster.send_pool(request);
    cluster.deliver(0);
    // The loss reaches one shard after the other, the last one late.
    for number in [2, 0, 3, 1] {
        assert!(cluster.open.contains_key(&id), "a shard may still hand out descriptors");
        let lost = |envelope: &Envelope| match envelope {
            Envelope::ToShard(shard, ShardMessage::Pool(PoolOrder::SegmentLost { .. })) => {
                *shard == ShardId(number)
            }
            _ => false,
        };
        let place = cluster.queue.iter().position(lost).expect("the loss is on its way");
        cluster.deliver(place);
        while let Some(place) =
            cluster.queue.iter().position(|envelope| matches!(envelope, Envelope::ToPool(_)))
        {
            cluster.deliver(place);
        }
    }
    assert!(!cluster.open.contains_key(&id));
    assert!(cluster.totals().objects > 0, "the sweep is not done yet");
    assert_eq!(readable(&mut cluster, 0..40), [] as [u64; 0]);
    cluster.settle();
    assert_empty(&cluster);
}

#[test]
fn in_each_shard_a_lost_segment_is_unreadable_with_the_message_that_says_so() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.mount(STORE, 2, 64 * MIB);
    put_all(&mut cluster, 0..60, MIB);
    let lost_slot = cluster.pool.mount_of(segment(1)).expect("mounted").slot.0;
    let on_lost = |cluster: &mut Cluster, number| {
        let located = cluster.get(&key(number)).expect("readable");
        located.replicas[0].slot == u32::from(lost_slot)
    };
    let lost: Vec<u64> = (0..60).filter(|number| on_lost(&mut cluster, *number)).collect();
    assert!(lost.len() > 10 && lost.len() < 50);
    cluster.send_pool(PoolRequest::Unmount { client: None, segment: segment(1), grace_ms: 0 });
    cluster.deliver(0);
    cluster.deliver(0);
    let left: Vec<u64> = (0..60).filter(|number| !lost.contains(number)).collect();
    assert_eq!(cluster.totals().objects, 60, "nothing is swept yet");
    // These questions come behind the first slice of the sweep at most.
    assert_eq!(readable(&mut cluster, 0..60), left);
    for number in lost {
        assert_eq!(code(cluster.get(&key(number))), Some(ErrorCode::NotFound));
        cluster.put(WRITER, &key(number), KIB).expect("the key is free");
    }
    assert_eq!(cluster.totals().objects, 60);
}

#[test]
fn a_put_whose_segment_is_lost_and_not_swept_yet_has_nothing_to_end() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let put = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.send_pool(PoolRequest::Unmount { client: None, segment: segment(1), grace_ms: 0 });
    cluster.deliver(0);
    cluster.deliver(0);
    let (batch, sequences) = (cluster.batch(&[b"k"]), vec![put.sequence]);
    let end = ShardRequest::PutEnd { incarnation: INCARNATION, batch, sequences };
    let id = cluster.send_shard(ShardId(0), end);
    let end = cluster.queue.pop_back().expect("it was sent just now");
    cluster.queue.push_front(end);
    cluster.deliver(0);
    match cluster.take_shard_answer(id) {
        ShardReply::Done(mut answers) => {
            assert_eq!(code(answers.remove(0)), Some(ErrorCode::NotFound));
        }
        other => panic!("an end is answered with {other:?}"),
    }
}

// R36
#[test]
fn a_draining_segment_is_readable_until_its_end_and_takes_nothing_new() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..10, MIB);
    let foreign = cluster.unmount(Some(OTHER), segment(1), 30_000).expect_err("not its own");
    assert_eq!(foreign.code, ErrorCode::NotOwner);
    assert_eq!(cluster.unmount(Some(STORE), segment(1), 30_000), Ok(30_000));
    cluster.advance(1_000);
    assert_eq!(readable(&mut cluster, 0..10).len(), 10);
    assert_eq!(code(cluster.put_start(WRITER, b"new", MIB)), Some(ErrorCode::NoSegment));
    let described = uses(&mut cluster).remove(0);
    assert_eq!((described.state, described.time_left_ms), (SegmentState::Draining, Some(29_000)));
    assert_eq!(described.allocated_bytes, 10 * MIB);
    cluster.advance(28_990);
    cluster.get(&key(3)).expect("readable to the last moment");
    cluster.advance(10);
    assert_eq!(readable(&mut cluster, 0..10), [] as [u64; 0]);
    assert_empty(&cluster);
}

// R36
#[test]
fn of_two_drains_the_earlier_end_holds_and_the_death_of_the_owner_ends_both() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..4, MIB);
    assert_eq!(cluster.unmount(Some(STORE), segment(1), 60_000), Ok(60_000));
    assert_eq!(cluster.unmount(None, segment(1), 40_000), Ok(40_000));
    assert_eq!(cluster.unmount(Some(STORE), segment(1), 90_000), Ok(40_000));
    cluster.pinging.clear();
    cluster.advance(19_000);
    assert_eq!(readable(&mut cluster, 0..4).len(), 4);
    cluster.advance(1_200);
    assert_eq!(cluster.offline, [STORE]);
    assert_empty(&cluster);
    // The timer of the drain finds the same memory mounted anew, and leaves it alone.
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    cluster.advance(60_000);
    assert!(cluster.exists(b"k"));
}

// R33
#[test]
fn a_remount_of_what_is_mounted_is_a_comparison_and_touches_no_object() {
    let mut cluster = Cluster::new(2);
    cluster.checked = false;
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.mount(STORE, 2, 64 * MIB);
    put_all(&mut cluster, 0..20_000, 4 * KIB);
    cluster.advance(10);
    let same = || vec![memory(STORE, 1, 64 * MIB), memory(STORE, 2, 64 * MIB)];
    let grants = cluster.remount(STORE, same()).expect("the same memory");
    let (capacity, totals, epoch) =
        (cluster.pool.totals().capacity_bytes, cluster.totals(), cluster.pool.epoch());
    for _ in 0..100 {
        let request = PoolRequest::Remount { client: STORE, mounts: same() };
        let id = cluster.send_pool(request);
        let mut to_shards = 0;
        while let Some(next) = cluster.queue.front() {
            to_shards += usize::from(matches!(next, Envelope::ToShard(..)));
            cluster.deliver(0);
        }
        assert_eq!(to_shards, 0, "no shard has to look at anything");
        match cluster.answers.remove(&id) {
            Some(Answer::Pool(PoolReply::Remounted(again))) => {
                assert_eq!(again, Ok(grants.clone()))
            }
            other => panic!("a remount is answered with {other:?}"),
        }
    }
    assert_eq!(cluster.pool.totals().capacity_bytes, capacity);
    assert_eq!((cluster.totals(), cluster.pool.epoch()), (totals, epoch));
    // A new segment beside them is one message to each shard, and the news of its space.
    let id = cluster.send_pool(PoolRequest::Mount { client: OTHER, mount: memory(OTHER, 1, MIB) });
    let mut to_shards = 0;
    while let Some(next) = cluster.queue.front() {
        to_shards += usize::from(matches!(next, Envelope::ToShard(..)));
        cluster.deliver(0);
    }
    assert!(cluster.answers.contains_key(&id));
    assert!(to_shards <= 4, "{to_shards} messages to two shards");
    assert_eq!(readable(&mut cluster, 19_990..20_000).len(), 10);
}

// R33
#[test]
fn a_remount_with_another_identity_is_refused_and_the_mounted_one_stays() {
    let mut cluster = Cluster::new(2);
    let grant = cluster.mount(STORE, 1, 64 * MIB);
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    let known = memory(STORE, 1, 64 * MIB).segment;
    let others = [
        (STORE, Segment { size_bytes: 32 * MIB, ..known.clone() }),
        (STORE, Segment { base: known.base + MIB, ..known.clone() }),
        (STORE, Segment { endpoint: "elsewhere:7000".to_owned(), ..known.clone() }),
        (STORE, Segment { certificate_sha256: Some([7; 32]), ..known.clone() }),
        (OTHER, known.clone()),
    ];
    for (client, segment) in others {
        let mounts = vec![MountRequest { segment, mounted_with: None }];
        let error = cluster.remount(client, mounts).expect_err("another identity");
        assert_eq!(error.code, ErrorCode::SegmentConflict);
    }
    let overlap = Segment { segment: segment(2), base: known.base + 63 * MIB, ..known.clone() };
    let request = MountRequest { segment: overlap, mounted_with: None };
    let error = cluster.try_mount(STORE, request).expect_err("the memory overlaps");
    assert_eq!(error.code, ErrorCode::SegmentOverlap);
    assert_eq!(cluster.try_mount(STORE, memory(STORE, 1, 64 * MIB)), Ok(grant));
    assert!(cluster.exists(b"k"));
    assert_eq!(cluster.pool.totals().capacity_bytes, 64 * MIB);
}

/// The bytes of a segment that its writers and readers may still be at work on: offset, length and
/// until when.
fn lose_with_remnants(cluster: &mut Cluster) -> [(u64, u64, u64); 3] {
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(cluster, 0..8, MIB);
    let writing = cluster.put_start(WRITER, b"writing", 3 * MIB).expect("there is room");
    let revoked = cluster.put_start(WRITER, b"revoked", 2 * MIB).expect("there is room");
    let started_ms = cluster.now.as_ms();
    cluster.advance(2_000);
    cluster.put_revoke(b"revoked", revoked.sequence, false).expect("the put is current");
    let leased = cluster.get(&key(5)).expect("readable");
    let leased_ms = cluster.now.as_ms() + 10_000;
    cluster.unmount(Some(STORE), segment(1), 0).expect("its own");
    assert_empty(cluster);
    [
        (leased.replicas[0].offset_bytes, MIB, leased_ms),
        (writing.replicas[0].offset_bytes, 3 * MIB, started_ms + 600_000),
        (revoked.replicas[0].offset_bytes, 2 * MIB, started_ms + 600_000),
    ]
}

/// Fills a mounted segment with unfinished puts, and gives their offsets.
fn fill(cluster: &mut Cluster, round: u64, size_bytes: u64) -> Vec<u64> {
    let mut offsets = Vec::new();
    for number in 0.. {
        match cluster.put_start(WRITER, &key(round * 10_000 + number), size_bytes) {
            Ok(grant) => offsets.push(grant.replicas[0].offset_bytes),
            Err(refusal) => {
                assert_eq!(refusal.code, ErrorCode::NoSpace);
                return offsets;
            }
        }
    }
    offsets
}

#[test]
fn what_was_leased_unfinished_or_held_is_withheld_when_the_same_memory_comes_back() {
    // The same client with the same segment, or a new process with new ids: the memory counts.
    for (client, id) in [(STORE, segment(1)), (OTHER, SegmentId(99))] {
        let mut cluster = Cluster::new(2);
        let remnants = lose_with_remnants(&mut cluster);
        let segment = Segment { segment: id, ..memory(STORE, 1, 64 * MIB).segment };
        *cluster.pinging.entry(client).or_default() = 1;
        let request = MountRequest { segment, mounted_with: None };
        cluster.try_mount(client, request).expect("the memory is free");
        let size_bytes = 256 * KIB;
        let mut taken = fill(&mut cluster, 1, size_bytes);
        assert!(taken.len() > 200, "{} puts were placed", taken.len());
        let mut ends: Vec<u64> = remnants.iter().map(|(_, _, until_ms)| *until_ms).collect();
        ends.dedup();
        for (round, until_ms) in (2..).zip(ends) {
            for offset_bytes in &taken {
                for (from, length, until) in &remnants {
                    let apart =
                        offset_bytes + size_bytes <= *from || from + length <= *offset_bytes;
                    assert!(apart || *until <= cluster.now.as_ms(), "{offset_bytes} is in use");
                }
            }
            let left_ms = until_ms - cluster.now.as_ms();
            cluster.leap(left_ms - 10);
            assert_eq!(fill(&mut cluster, round * 2, size_bytes), [] as [u64; 0]);
            cluster.leap(until_ms - cluster.now.as_ms());
            let freed = fill(&mut cluster, round * 2 + 1, size_bytes);
            let expected: u64 = remnants
                .iter()
                .filter(|(_, _, until)| *until == until_ms)
                .map(|(_, length, _)| length / size_bytes)
                .sum();
            // The two shards leave a little between them.
            assert!(freed.len() as u64 + 2 >= expected, "{} of {expected}", freed.len());
            taken = freed;
        }
    }
}

#[test]
fn memory_that_another_master_handed_out_rests_for_a_lease() {
    let mut cluster = Cluster::new(2);
    *cluster.pinging.entry(STORE).or_default() = 2;
    let request =
        MountRequest { mounted_with: Some(Incarnation(0xdead)), ..memory(STORE, 1, 64 * MIB) };
    cluster.try_mount(STORE, request).expect("sound");
    let refusal = cluster.put_start(WRITER, b"k", MIB).expect_err("it rests");
    assert_eq!(refusal.code, ErrorCode::NoSegment);
    assert_eq!(refusal.retry_after_ms, Some(10_000), "it will take objects then");
    let text = refusal.to_string();
    assert!(text.contains("rests for one lease") && text.contains("in 10000 ms"), "{text}");
    let described = uses(&mut cluster).remove(0);
    assert_eq!(described.state, SegmentState::Quarantined);
    cluster.advance(9_980);
    assert_eq!(code(cluster.put_start(WRITER, b"k", MIB)), Some(ErrorCode::NoSegment));
    cluster.advance(20);
    cluster.put_start(WRITER, b"k", MIB).expect("a lease has passed");
    // Memory that this very master handed out is known in detail, and new memory is new.
    let request = MountRequest { mounted_with: Some(INCARNATION), ..memory(STORE, 2, 64 * MIB) };
    cluster.try_mount(STORE, request).expect("sound");
    assert!(uses(&mut cluster).iter().all(|described| described.state == SegmentState::Open));
}

#[test]
fn a_span_that_arrives_with_the_loss_of_its_segment_does_no_harm() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let number = (0..).find(|number| cluster.shard_of(&key(*number)) == ShardId(1));
    let key = key(number.expect("there is one"));
    let id = cluster.send_put_start(WRITER, &key, MIB, &Default::default());
    settle_shards(&mut cluster);
    // The request for a span is on its way; the grant will meet the loss.
    cluster.queue.push_back(Envelope::ToPool(PoolMessage::ClientLost(STORE)));
    cluster.settle();
    let answer = crate::common::started(&mut cluster, id).remove(0);
    match answer {
        Ok(grant) => {
            assert_eq!(code(cluster.put_end(&key, grant.sequence)), Some(ErrorCode::NotFound));
        }
        Err(refusal) => assert_eq!(refusal.code, ErrorCode::NoSegment),
    }
    assert_empty(&cluster);
    cluster.mount(ClientId(8), 1, 64 * MIB);
    cluster.put(WRITER, &key, MIB).expect("there is room");
}

#[test]
fn what_another_master_may_have_written_over_is_not_read_any_more() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    let back =
        || MountRequest { mounted_with: Some(Incarnation(0xdead)), ..memory(STORE, 1, 64 * MIB) };
    cluster.remount(STORE, vec![back()]).expect_err("what is there is dropped first");
    assert!(!cluster.exists(b"k"));
    cluster.remount(STORE, vec![back()]).expect("it is swept");
    assert!(!cluster.exists(b"k"));
    let described = uses(&mut cluster).remove(0);
    assert_eq!(described.state, SegmentState::Quarantined);
}
