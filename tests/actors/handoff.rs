//! A planned restart: what is handed over, what becomes of it, and what must not.

use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::PutExtras;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;
use mooring_proto::message::segment::MountRequest;
use mooring_proto::{ClientId, Incarnation};

use crate::cluster::{Cluster, INCARNATION, INCARNATION_AFTER, code, memory};
use crate::without_tokens::{self, Kind};

const STORE: ClientId = ClientId(1);
const OTHER_STORE: ClientId = ClientId(2);
const WRITER: ClientId = ClientId(3);
const MIB: u64 = 1 << 20;

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("block-{number}").into_bytes()
}

/// The memory of a store as it offers it to the next master.
pub(crate) fn again(client: ClientId, number: u128, size_bytes: u64) -> MountRequest {
    MountRequest { mounted_with: Some(INCARNATION), ..memory(client, number, size_bytes) }
}

/// The next master, with nothing opened yet.
pub(crate) fn restart(cluster: &mut Cluster) -> Cluster {
    cluster.quiesce();
    cluster.restored(&cluster.export()).expect("what was exported can be restored")
}

pub(crate) fn reopen(cluster: &mut Cluster, client: ClientId, mounts: Vec<MountRequest>) {
    cluster.pinging.insert(client, mounts.len() as u32);
    let kept: Vec<_> = mounts.iter().map(|mount| mount.segment.segment).collect();
    assert!(cluster.ping(client, &kept), "the client must remount");
    cluster.remount(client, mounts).expect("the memory is the same");
}

// R44
#[test]
fn objects_are_readable_again_when_their_store_proves_the_same_memory() {
    for shards in [1, 3] {
        let mut cluster = Cluster::new(shards);
        cluster.mount(STORE, 1, 64 * MIB);
        cluster.mount(OTHER_STORE, 1, 64 * MIB);
        let sizes = (0..300).map(|number| 1 + number * 331);
        for (number, size_bytes) in (0..).zip(sizes.clone()) {
            cluster.put(WRITER, &key(number), size_bytes).expect("there is room");
        }
        cluster.checked = false;
        cluster.advance(100_000);
        cluster.checked = true;
        let places: Vec<_> =
            (0..300).map(|number| cluster.get(&key(number)).expect("readable")).collect();
        let mut next = restart(&mut cluster);
        assert!(!next.exists(&key(7)), "nothing is readable before the memory is proved");
        assert_eq!(code(next.get(&key(7))), Some(ErrorCode::NotFound));
        reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
        reopen(&mut next, OTHER_STORE, vec![again(OTHER_STORE, 1, 64 * MIB)]);
        for (number, (place, size_bytes)) in (0..).zip(places.iter().zip(sizes)) {
            let located = next.get(&key(number)).expect("readable again");
            assert_eq!(located.size_bytes, size_bytes);
            assert_eq!(located.sequence, place.sequence);
            assert_eq!(located.replicas[0].offset_bytes, place.replicas[0].offset_bytes);
            assert_eq!(located.replicas[0].slot, place.replicas[0].slot);
        }
        assert_eq!(next.totals().objects, 300);
    }
}

#[test]
fn a_snapshot_of_a_restored_master_equals_the_one_that_it_came_from() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.mount(OTHER_STORE, 1, 64 * MIB);
    let two = PutOptions { replicas: 2, ..PutOptions::default() };
    for number in 0..100 {
        let options = if number % 3 == 0 { two.clone() } else { PutOptions::default() };
        let grant = cluster.put_start_with(WRITER, &key(number), 10_000, &options).expect("room");
        if number % 10 != 9 {
            cluster.put_end(&key(number), grant.sequence).expect("current");
        }
    }
    cluster.quiesce();
    let first = cluster.export();
    let mut next = cluster.restored(&first).expect("sound");
    next.quiesce();
    let second = next.export();
    for (before, after) in first.shards.iter().zip(&second.shards) {
        assert_eq!(before.ranges.len(), after.ranges.len());
        assert_eq!(before.record.objects, after.record.objects);
        assert_eq!(before.record.holds, after.record.holds);
        assert!(before.record.next_sequence < after.record.next_sequence);
    }
    assert_eq!(first.pool.segments.len(), second.pool.segments.len());
    for (before, after) in first.pool.segments.iter().zip(&second.pool.segments) {
        assert_eq!((&before.segment, before.client), (&after.segment, after.client));
        assert_eq!(after.mounted_with, INCARNATION, "the owner has not come back");
    }
}

#[test]
fn the_ranges_of_unfinished_puts_are_held_and_their_tokens_are_stale() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let grant = cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.advance(100_000);
    let mut next = restart(&mut cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    next.incarnation = INCARNATION;
    assert_eq!(code(next.put_end(b"k", grant.sequence)), Some(ErrorCode::StaleToken));
    assert_eq!(next.totals().held_bytes, MIB);
    next.advance(499_000);
    assert_eq!(next.totals().held_bytes, MIB, "held for what was left of its release timeout");
    next.advance(2_000);
    assert_eq!(next.totals().held_bytes, 0);
}

#[test]
fn another_identity_drops_every_entry_of_the_segment() {
    let same = || again(STORE, 1, 64 * MIB);
    let mut moved = same();
    moved.segment.base += 1 << 20;
    let mut smaller = same();
    smaller.segment.size_bytes -= MIB;
    let mut elsewhere = same();
    elsewhere.segment.endpoint = "elsewhere:1".to_owned();
    let mut of_another_master = same();
    of_another_master.mounted_with = Some(Incarnation(99));
    for changed in [moved, smaller, elsewhere, of_another_master] {
        let mut cluster = Cluster::new(2);
        cluster.mount(STORE, 1, 64 * MIB);
        cluster.put(WRITER, b"k", MIB).expect("there is room");
        let mut next = restart(&mut cluster);
        next.pinging.insert(STORE, 1);
        for _ in 0..5 {
            let _ = next.remount(STORE, vec![changed.clone()]);
            next.advance(1_000);
            assert!(!next.exists(b"k"), "an entry of other memory came back: {changed:?}");
        }
        assert_eq!(next.totals().objects, 0);
    }
}

#[test]
fn a_store_that_never_returns_loses_its_entries_to_the_ordinary_expiry() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    let mut next = restart(&mut cluster);
    next.advance(19_000);
    assert_eq!(next.totals().objects, 1);
    next.advance(12_000);
    assert_eq!(next.totals().objects, 0);
    assert_eq!(next.offline, [STORE]);
}

#[test]
fn a_put_or_a_remove_of_a_pending_key_is_final() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.mount(OTHER_STORE, 1, 64 * MIB);
    let first = PutOptions {
        preferred_segments: vec![memory(STORE, 1, 1).segment.segment],
        ..PutOptions::default()
    };
    for name in [b"replaced", b"removed!"] {
        let grant = cluster.put_start_with(WRITER, name, MIB, &first).expect("there is room");
        cluster.put_end(name, grant.sequence).expect("current");
    }
    let old = cluster.get(b"replaced").expect("readable");
    let mut next = restart(&mut cluster);
    reopen(&mut next, OTHER_STORE, vec![again(OTHER_STORE, 1, 64 * MIB)]);
    assert_eq!(code(next.remove(b"removed!", false)), Some(ErrorCode::NotFound));
    let grant = next.put(WRITER, b"replaced", 2 * MIB).expect("a hidden entry is superseded");
    assert_eq!(next.purpose_at(old.replicas[0]), None);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert!(!next.exists(b"removed!"));
    let located = next.get(b"replaced").expect("the new object");
    assert_eq!(located.replicas, grant.replicas);
    assert_eq!(next.totals().held_bytes, 2 * MIB, "readers of before may still read");
}

// R46
#[test]
fn nothing_is_placed_over_what_was_restored() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 16 * MIB);
    for number in 0..100 {
        cluster.put(WRITER, &key(number), 100_000).expect("there is room");
    }
    let mut next = restart(&mut cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 16 * MIB)]);
    // Every message is followed by a check that no two ranges overlap.
    for number in 1000..1200 {
        let _ = next.put(WRITER, &key(number), 100_000);
        next.advance(50);
    }
    assert!(next.totals().evicted_objects > 0);
}

// R26
#[test]
fn capacity_counts_once_however_often_the_master_restarts() {
    let mut cluster = Cluster::new(1);
    for number in 1..=3 {
        cluster.mount(STORE, number, 16 * MIB);
    }
    for _ in 0..2 {
        cluster.quiesce();
        let handoff = cluster.export();
        // One that only looks at it, and goes.
        drop(cluster.restored(&handoff).expect("sound"));
        let mut next = cluster.restored(&handoff).expect("sound");
        let mounted_with = Some(cluster.incarnation);
        let mounts = (1..=3).map(|it| MountRequest { mounted_with, ..memory(STORE, it, 16 * MIB) });
        reopen(&mut next, STORE, mounts.collect());
        assert_eq!(next.pool.totals().capacity_bytes, 48 * MIB);
        assert_eq!(next.pool.totals().segments, 3);
        cluster = next;
    }
    // Eviction begins where it would have begun without restarts: at nine tenths of a segment.
    let size_bytes = 64 << 10;
    let mut used_bytes = 0;
    while cluster.totals().evicted_objects == 0 {
        cluster.put(WRITER, &key(used_bytes), size_bytes).expect("there is room");
        used_bytes += size_bytes;
        assert!(used_bytes < 48 * MIB, "the watermark is never reached");
    }
    assert!(used_bytes > 48 * MIB * 8 / 10, "{used_bytes} bytes were used");
}

#[test]
fn eviction_goes_on_in_the_order_of_before() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    for number in 0..50 {
        cluster.put(WRITER, &key(number), MIB).expect("there is room");
        cluster.advance(1_000);
    }
    cluster.get(&key(3)).expect("readable");
    cluster.advance(30_000);
    let mut next = restart(&mut cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    next.advance(11_000);
    for number in 100..125 {
        next.put(WRITER, &key(number), MIB).expect("the oldest make room");
        next.advance(100);
    }
    assert!(next.exists(&key(3)), "the one that was read is young");
    assert!(!next.exists(&key(0)) && !next.exists(&key(5)), "the oldest went");
    assert!(next.exists(&key(49)), "the youngest stayed");
}

#[test]
fn two_restarts_in_a_row_keep_the_order_of_eviction() {
    // Also when the second one comes within the lease that the first one gives.
    for between_ms in [1_000, 60_000] {
        let mut cluster = Cluster::new(2);
        cluster.mount(STORE, 1, 64 * MIB);
        for number in 0..50 {
            cluster.put(WRITER, &key(number), MIB).expect("there is room");
        }
        cluster.advance(60_000);
        // The lower half of the memory is younger than the upper one.
        for number in 0..25 {
            cluster.get(&key(number)).expect("readable");
            cluster.advance(100);
        }
        cluster.advance(30_000);
        let mut second = restart(&mut cluster);
        reopen(&mut second, STORE, vec![again(STORE, 1, 64 * MIB)]);
        second.advance(between_ms);
        second.get(&key(40)).expect("readable");
        let mut third = restart(&mut second);
        let mounted_with = Some(INCARNATION_AFTER);
        let mount = MountRequest { mounted_with, ..again(STORE, 1, 64 * MIB) };
        reopen(&mut third, STORE, vec![mount]);
        third.advance(11_000);
        for number in 100..120 {
            third.put(WRITER, &key(number), MIB).expect("the oldest make room");
            third.advance(100);
        }
        let evicted: Vec<u64> = (0..50).filter(|number| !third.exists(&key(*number))).collect();
        assert!(evicted.len() > 10, "{evicted:?}");
        assert!(evicted.iter().all(|number| *number >= 25), "{evicted:?} are not the oldest");
        assert!(!evicted.contains(&40), "the one that was read in between is young");
    }
}

#[test]
fn whatever_waits_is_answered_when_the_master_comes_to_rest() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 4 * MIB);
    let ids: Vec<_> = (0..8)
        .map(|number| cluster.send_put_start(WRITER, &key(number), MIB, &PutOptions::default()))
        .collect();
    // The first ones wait for their first span when the order to rest comes.
    cluster.quiesce();
    let refused = ids
        .into_iter()
        .filter(|id| {
            let answer = cluster.take_shard_answer(*id);
            matches!(answer, mooring_actors::shard::message::ShardReply::Started(ref answers)
                if answers[0].as_ref().is_err_and(|refusal| refusal.code == ErrorCode::Restarting))
        })
        .count();
    assert!(refused > 0, "some puts were waiting for space");
    assert!(cluster.totals().parked == 0);
}

#[test]
fn a_purpose_survives_as_what_it_was() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let put = cluster.put(WRITER, b"k", MIB).expect("there is room");
    let writing = cluster.put_start(WRITER, b"l", MIB).expect("there is room");
    let mut next = restart(&mut cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    let renewed = |mut descriptor: mooring_proto::message::object::RangeDescriptor| {
        descriptor.generation += 1;
        descriptor
    };
    assert_eq!(next.purpose_at(renewed(put.replicas[0])), Some(Purpose::Readable));
    assert_eq!(next.purpose_at(renewed(writing.replicas[0])), Some(Purpose::Held));
}

/// A cluster of three shards with objects of sizes that share pages, some of them with two replicas.
fn crowded() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.mount(OTHER_STORE, 1, 64 * MIB);
    let two = PutOptions { replicas: 2, ..PutOptions::default() };
    for number in 0..200 {
        let options = if number % 3 == 0 { two.clone() } else { PutOptions::default() };
        let size_bytes = 1_000 + number * 777 % 100_000;
        let grant =
            cluster.put_start_with(WRITER, &key(number), size_bytes, &options).expect("room");
        cluster.put_end(&key(number), grant.sequence).expect("current");
    }
    cluster
}

fn reopen_both(cluster: &mut Cluster) {
    reopen(cluster, STORE, vec![again(STORE, 1, 64 * MIB)]);
    reopen(cluster, OTHER_STORE, vec![again(OTHER_STORE, 1, 64 * MIB)]);
}

#[test]
fn another_number_of_shards_finds_every_object_where_it_was() {
    for shards in [1, 2, 5] {
        let mut cluster = crowded();
        let places: Vec<_> =
            (0..200).map(|number| cluster.get(&key(number)).expect("readable")).collect();
        cluster.quiesce();
        let mut next = cluster.reshaped(&cluster.export(), shards).expect("sound");
        reopen_both(&mut next);
        for (number, place) in (0..).zip(&places) {
            let located = next.get(&key(number)).expect("readable again");
            let offsets = |located: &mooring_proto::message::object::Located| {
                let mut offsets: Vec<_> = located
                    .replicas
                    .iter()
                    .map(|replica| (replica.slot, replica.offset_bytes))
                    .collect();
                offsets.sort_unstable();
                offsets
            };
            assert_eq!(offsets(&located), offsets(place));
        }
        next.check().expect("sound");
    }
}

#[test]
fn a_range_in_a_span_of_another_shard_is_freed_held_and_used_again() {
    let mut cluster = crowded();
    cluster.quiesce();
    let mut next = cluster.reshaped(&cluster.export(), 2).expect("sound");
    reopen_both(&mut next);
    for number in 0..100 {
        assert_eq!(
            next.remove(&key(number), false).map_err(|refusal| refusal.code),
            Err(ErrorCode::Leased)
        );
        next.remove(&key(number), true).expect("forced");
    }
    assert!(next.totals().held_bytes > 0, "readers may still read");
    next.advance(12_000);
    assert_eq!(next.totals().held_bytes, 0);
    let (removed, kept) = next.remove_all(false);
    assert_eq!((removed, kept), (100, 0));
    let totals = next.totals();
    assert_eq!((totals.allocated_bytes, totals.objects), (0, 0));
    // All of the memory serves again: the whole of a segment for one object.
    next.advance(100);
    next.put(WRITER, b"whole", 50 * MIB).expect("nothing is left behind");
}

#[test]
fn a_second_restart_and_another_number_of_shards_again_lose_nothing() {
    let mut cluster = crowded();
    cluster.quiesce();
    let mut second = cluster.reshaped(&cluster.export(), 2).expect("sound");
    reopen_both(&mut second);
    second.incarnation = INCARNATION_AFTER;
    second.put(WRITER, b"between", MIB).expect("room");
    second.quiesce();
    let handoff = second.export();
    assert!(handoff.shards.iter().any(|file| file.record.aliens > 0));
    let mut third = second.reshaped(&handoff, 3).expect("sound");
    let with = |client, number| MountRequest {
        mounted_with: Some(INCARNATION_AFTER),
        ..memory(client, number, 64 * MIB)
    };
    reopen(&mut third, STORE, vec![with(STORE, 1)]);
    reopen(&mut third, OTHER_STORE, vec![with(OTHER_STORE, 1)]);
    for number in 0..200 {
        assert!(third.exists(&key(number)), "object {number} was lost");
    }
    assert!(third.exists(b"between"));
}

#[test]
fn a_full_pool_evicts_through_ranges_in_spans_of_other_shards() {
    let mut cluster = crowded();
    cluster.quiesce();
    let mut next = cluster.reshaped(&cluster.export(), 2).expect("sound");
    reopen_both(&mut next);
    next.advance(12_000);
    for number in 1000..1200 {
        next.put(WRITER, &key(number), MIB).expect("what is old makes room");
        next.advance(20);
    }
    next.put(WRITER, b"large", 40 * MIB).expect("a window is vacated");
}

#[test]
fn a_segment_with_ranges_in_spans_of_other_shards_is_lost_as_a_whole() {
    let mut cluster = crowded();
    cluster.quiesce();
    let mut next = cluster.reshaped(&cluster.export(), 2).expect("sound");
    reopen_both(&mut next);
    let segment = memory(STORE, 1, 1).segment.segment;
    next.unmount(Some(STORE), segment, 0).expect("the owner");
    next.advance(1_000);
    let segment = memory(OTHER_STORE, 1, 1).segment.segment;
    next.unmount(Some(OTHER_STORE), segment, 0).expect("the owner");
    next.advance(1_000);
    let totals = next.totals();
    assert_eq!((totals.objects, totals.allocated_bytes, totals.held_bytes), (0, 0, 0));
}

#[test]
fn writer_checksum_data_type_and_group_outlive_a_restart() {
    for shards in [2, 3] {
        let mut cluster = Cluster::new(2);
        cluster.mount(STORE, 1, 64 * MIB);
        for number in 0..40 {
            let name = format!("request {}", number % 3);
            let groups = vec![name.into_bytes().into_boxed_slice()];
            let extras = Some(PutExtras { groups, data_type: 4, ..PutExtras::default() });
            let options = PutOptions::default();
            let key = key(number);
            without_tokens::start(
                &mut cluster,
                Kind::Put,
                WRITER,
                &key,
                MIB / 16,
                &options,
                extras,
            )
            .expect("there is room");
            let checksum = (number % 2 == 0).then_some(number);
            without_tokens::end(&mut cluster, WRITER, &key, checksum).expect("the client's");
        }
        cluster.quiesce();
        let mut next = cluster.reshaped(&cluster.export(), shards).expect("it can be restored");
        reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
        for number in 0..40 {
            let key = key(number);
            let known = without_tokens::peek(&mut next, &key).expect("readable");
            assert_eq!(known.checksum, (number % 2 == 0).then_some(number));
            assert_eq!((known.writer, known.data_type), (Some(WRITER), 4));
            let group = format!("request {}", number % 3);
            assert_eq!(known.group.as_deref(), Some(group.as_bytes()));
            without_tokens::end(&mut next, WRITER, &key, None).expect("a repeated end");
        }
    }
}
