//! A planned restart, and what is lost while the actors do not know of it all yet.

use mooring_actors::ShardId;
use mooring_actors::clients::ClientsMessage;
use mooring_actors::pool::message::{PoolOrder, PoolRequest};
use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{ShardMessage, ShardRequest};
use mooring_proto::message::object::{PutOptions, RangeDescriptor};
use mooring_proto::message::segment::MountRequest;
use mooring_proto::{ClientId, SegmentId};

use crate::cluster::handoff::OwnedRange;
use crate::cluster::{Cluster, Envelope, INCARNATION, memory, mount};
use crate::common::put_with;

const STORE: ClientId = ClientId(1);
const WRITER: ClientId = ClientId(3);
const MIB: u64 = 1 << 20;
const SIZE_BYTES: u64 = 64 * MIB;

fn key(number: u64) -> Vec<u8> {
    format!("block-{number}").into_bytes()
}

fn again(number: u128) -> MountRequest {
    MountRequest { mounted_with: Some(INCARNATION), ..memory(STORE, number, SIZE_BYTES) }
}

/// The shard in whose span a range lies.
fn host_of(cluster: &Cluster, place: RangeDescriptor) -> (ShardId, Purpose) {
    let mount = mount(place.slot, place.generation);
    let mut found = (0..cluster.route.shards()).map(ShardId).filter_map(|shard| {
        let stretches = cluster.shards[usize::from(shard.0)].stretches(mount);
        let stretch = stretches.iter().find(|one| one.offset_bytes == place.offset_bytes)?;
        Some((shard, stretch.purpose))
    });
    found.next().expect("a range lies in a span")
}

/// Delivers what is under way to one shard, in its order, until nothing is.
fn deliver_to(cluster: &mut Cluster, shard: ShardId) {
    let to_it = |envelope: &Envelope| matches!(envelope, Envelope::ToShard(to, _) if *to == shard);
    while let Some(place) = cluster.queue.iter().position(to_it) {
        cluster.deliver(place);
    }
}

/// A master that has another number of shards than the one before, and the key and the place of an
/// object that lies in the span of a shard that is not its home.
fn with_a_range_abroad() -> (Cluster, Vec<u8>, RangeDescriptor) {
    let mut cluster = Cluster::new(3);
    cluster.mount(STORE, 1, SIZE_BYTES);
    for number in 0..200 {
        cluster.put(WRITER, &key(number), 1_000 + number * 777 % 100_000).expect("room");
    }
    cluster.quiesce();
    let mut next = cluster.reshaped(&cluster.export(), 2).expect("sound");
    next.pinging.insert(STORE, 1);
    next.remount(STORE, vec![again(1)]).expect("the memory is the same");
    next.advance(12_000);
    let places: Vec<_> = (0..200)
        .map(|number| (key(number), next.get(&key(number)).expect("readable").replicas[0]))
        .collect();
    let (key, place) = places
        .into_iter()
        .find(|(_, place)| host_of(&next, *place).1 == Purpose::Foreign)
        .expect("some range lies abroad");
    (next, key, place)
}

#[test]
fn a_leased_range_in_the_span_of_a_shard_that_has_swept_it_is_still_withheld() {
    let (mut next, key, place) = with_a_range_abroad();
    let (home, (host, _)) = (next.shard_of(&key), host_of(&next, place));
    // No lease is left but the one on that object.
    next.advance(12_000);
    next.get(&key).expect("readable");

    let segment = memory(STORE, 1, 1).segment.segment;
    next.send_pool(PoolRequest::Unmount { client: Some(STORE), segment, grace_ms: 0 });
    next.deliver(0);
    deliver_to(&mut next, host);
    // The home does not know of the loss yet.
    let remove = ShardRequest::Remove { force: true, batch: next.batch(&[&key]) };
    let removed = next.send_shard(home, remove);
    let request = next.queue.pop_back().expect("it was sent just now");
    next.queue.push_front(request);
    next.deliver(0);
    next.take_shard_answer(removed);
    next.settle();

    let fresh = MountRequest {
        segment: mooring_proto::message::segment::Segment {
            segment: SegmentId(99),
            ..memory(STORE, 1, SIZE_BYTES).segment
        },
        mounted_with: None,
    };
    let grant = next.try_mount(STORE, fresh).expect("it is swept");
    let fresh = mount(grant.slot, grant.generation);
    let all = next.pool.free_pages(fresh);
    assert!(u64::from(all) < SIZE_BYTES / (64 << 10), "its reader may still read");
    next.advance(12_000);
    assert_eq!(u64::from(next.pool.free_pages(fresh)), SIZE_BYTES / (64 << 10));
}

#[test]
fn memory_that_is_lost_too_late_to_be_swept_rests_for_as_long_as_any_hold_of_before() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, SIZE_BYTES);
    cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.quiesce();
    let handoff = cluster.export();
    // The next master would hold the range of a put for a much shorter time.
    cluster.settings.put_release_timeout_ms = 40_000;
    let mut next = cluster.restored(&handoff).expect("sound");
    next.advance(1_000);
    next.queue.push_back(Envelope::ToShard(ShardId(0), ShardMessage::Quiesce { hands_over: true }));
    next.settle();
    let segment = memory(STORE, 1, 1).segment.segment;
    let unmount = next.send_pool(PoolRequest::Unmount { client: None, segment, grace_ms: 0 });
    next.settle();
    assert!(next.open.contains_key(&unmount), "the shard rests and does not confirm");
    next.queue.push_back(Envelope::ToClients(ClientsMessage::Quiesce));
    next.settle();
    let remnants = next.export().pool.remnants;
    assert!(remnants[0].whole && remnants[0].left_ms == 599_000, "{remnants:?}");
}

/// A segment is lost with something in use, and its shard has not begun to sweep it.
fn lost_and_not_swept() -> Cluster {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, SIZE_BYTES);
    cluster.put(WRITER, b"idle", MIB).expect("there is room");
    cluster.put(WRITER, b"read", MIB).expect("there is room");
    cluster.put_start(WRITER, b"written", 2 * MIB).expect("there is room");
    cluster.get(b"read").expect("readable");
    let segment = memory(STORE, 1, 1).segment.segment;
    cluster.send_pool(PoolRequest::Unmount { client: Some(STORE), segment, grace_ms: 0 });
    cluster.deliver(0);
    let lost = |envelope: &Envelope| {
        matches!(envelope, Envelope::ToShard(_, ShardMessage::Pool(PoolOrder::SegmentLost { .. })))
    };
    let place = cluster.queue.iter().position(lost).expect("the shard is told");
    cluster.deliver(place);
    cluster
}

/// Before the first slice of the sweep.
fn quiesce_at_once(cluster: &mut Cluster, hands_over: bool) {
    let quiesce = ShardMessage::Quiesce { hands_over };
    cluster.queue.push_front(Envelope::ToShard(ShardId(0), quiesce));
    cluster.deliver(0);
    cluster.come_to_rest(hands_over);
}

#[test]
fn a_master_that_hands_nothing_over_does_not_look_at_what_it_has_lost() {
    let mut cluster = lost_and_not_swept();
    quiesce_at_once(&mut cluster, false);
    // Nobody has told the pool of any range: it would let all of the segment rest.
    let remnants = cluster.pool.export(cluster.now).remnants;
    assert!(matches!(&remnants[..], [all] if all.whole && all.length_bytes == SIZE_BYTES));
}

#[test]
fn what_is_in_use_on_a_segment_that_is_being_swept_as_the_master_leaves_rests_with_the_next_one() {
    let mut cluster = lost_and_not_swept();
    quiesce_at_once(&mut cluster, true);
    let handoff = cluster.export();
    assert_eq!(handoff.pool.segments, []);
    let in_use: Vec<_> = handoff
        .pool
        .remnants
        .iter()
        .map(|remnant| (remnant.length_bytes, remnant.left_ms, remnant.whole))
        .collect();
    assert_eq!(in_use, [(MIB, 10_000, false), (2 * MIB, 600_000, false)]);

    let mut next = cluster.restored(&handoff).expect("sound");
    let grant = next.try_mount(STORE, memory(STORE, 1, SIZE_BYTES)).expect("it is free");
    let resting = next.pool.free_pages(mount(grant.slot, grant.generation));
    assert_eq!(u64::from(resting), (SIZE_BYTES - 3 * MIB) / (64 << 10));
}

#[test]
fn the_last_word_of_a_shard_about_a_range_abroad_is_waited_for_and_handed_over() {
    let (mut next, key, place) = with_a_range_abroad();
    let (home, (host, _)) = (next.shard_of(&key), host_of(&next, place));
    next.queue.push_back(Envelope::ToShard(host, ShardMessage::Quiesce { hands_over: true }));
    next.deliver(0);
    // Its readers may still read when it is removed.
    let remove = ShardRequest::Remove { force: true, batch: next.batch(&[&key]) };
    next.send_shard(home, remove);
    next.queue.push_back(Envelope::ToShard(home, ShardMessage::Quiesce { hands_over: true }));
    next.queue.push_back(Envelope::ToClients(ClientsMessage::Quiesce));
    let held_up = |envelope: &Envelope| matches!(envelope, Envelope::ToShard(to, ShardMessage::Peer(_)) if *to == host);
    while let Some(place) = next.queue.iter().position(|envelope| !held_up(envelope)) {
        next.deliver(place);
    }
    assert_eq!(next.shards_at_rest, 1, "a word to the other one is still under way");
    next.settle();
    assert_eq!(next.shards_at_rest, 2);
    let offset_bytes = place.offset_bytes;
    let held = next.export().shards[usize::from(host.0)].ranges.iter().any(|range| {
        matches!(range, OwnedRange::Hold { place, left_ms, .. }
            if place.offset_bytes == offset_bytes && *left_ms > 9_000)
    });
    assert!(held, "nobody else knows of its readers");
}

#[test]
fn an_object_that_loses_a_replica_too_late_for_its_shard_is_handed_over_with_the_other() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, SIZE_BYTES);
    cluster.mount(STORE, 2, SIZE_BYTES);
    let options = PutOptions { replicas: 2, ..PutOptions::default() };
    let put = put_with(&mut cluster, b"k", MIB, &options);
    assert_eq!(put.replicas.len(), 2);
    cluster
        .queue
        .push_back(Envelope::ToShard(ShardId(0), ShardMessage::Quiesce { hands_over: true }));
    cluster.settle();
    let segment = memory(STORE, 2, 1).segment.segment;
    cluster.send_pool(PoolRequest::Unmount { client: None, segment, grace_ms: 0 });
    cluster.queue.push_back(Envelope::ToClients(ClientsMessage::Quiesce));
    cluster.settle();
    let mut next = cluster.restored(&cluster.export()).expect("sound");
    next.pinging.insert(STORE, 1);
    next.remount(STORE, vec![again(1)]).expect("the memory is the same");
    assert_eq!(next.get(b"k").expect("readable").replicas.len(), 1);
}
