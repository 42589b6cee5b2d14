//! A planned restart: what the master before has promised to readers, writers and owners holds.

use mooring_actors::ShardId;
use mooring_actors::shard::check::Purpose;
use mooring_actors::shard::message::{ShardReply, ShardRequest};
use mooring_proto::ClientId;
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, INCARNATION, code};
use crate::common::done;
use crate::handoff::{again, key, reopen, restart};
use crate::without_tokens::{self, Kind};

const STORE: ClientId = ClientId(1);
const OTHER_STORE: ClientId = ClientId(2);
const WRITER: ClientId = ClientId(3);
const MIB: u64 = 1 << 20;

fn one_store() -> Cluster {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster
}

/// The next master, with the store back.
fn restarted(cluster: &mut Cluster) -> Cluster {
    let mut next = restart(cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    next
}

#[test]
fn a_restored_object_is_leased_for_a_whole_lease_from_the_moment_of_serving() {
    let mut cluster = one_store();
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    let place = cluster.get(b"k").expect("readable");
    let mut next = restarted(&mut cluster);
    next.advance(9_900);
    assert_eq!(code(next.remove(b"k", false)), Some(ErrorCode::Leased));
    next.remove(b"k", true).expect("forced");
    assert!(!next.exists(b"k"));
    let mut there = place.replicas[0];
    there.generation += 1;
    assert_eq!(next.purpose_at(there), Some(Purpose::Held), "a reader of before may still read");
    next.advance(200);
    assert_ne!(next.purpose_at(there), Some(Purpose::Held));
}

#[test]
fn what_was_removed_before_the_master_left_stays_removed() {
    let mut cluster = one_store();
    for name in [b"kept", b"gone"] {
        cluster.put(WRITER, name, MIB).expect("there is room");
    }
    cluster.remove(b"gone", false).expect("not leased");
    let mut next = restarted(&mut cluster);
    assert!(next.exists(b"kept") && !next.exists(b"gone"));
    let mut third = restart(&mut next);
    third.advance(100);
    assert!(!third.exists(b"gone"));
}

#[test]
fn the_range_of_a_writer_of_before_is_given_to_nobody_while_it_may_write() {
    let mut cluster = one_store();
    let written = cluster.put_start(WRITER, b"late", 8 * MIB).expect("there is room");
    let mut next = restarted(&mut cluster);
    let mut there = written.replicas[0];
    there.generation += 1;
    next.checked = false;
    for number in 0..100 {
        // A full pool: whatever may go, goes.
        let _ = next.put(WRITER, &key(number), MIB);
        next.advance(50);
        assert_eq!(next.purpose_at(there), Some(Purpose::Held));
    }
    assert!(next.totals().evicted_objects > 0);
    next.check().expect("sound");
}

#[test]
fn a_token_of_before_ends_and_revokes_nothing() {
    let mut cluster = one_store();
    let ended = cluster.put(WRITER, b"ended", MIB).expect("there is room");
    let open = cluster.put_start(WRITER, b"open", MIB).expect("there is room");
    let mut next = restarted(&mut cluster);
    let again = next.put_start(WRITER, b"open", MIB).expect("the key is free");
    let now = next.incarnation;
    next.incarnation = INCARNATION;
    for (name, sequence) in [(&b"ended"[..], ended.sequence), (&b"open"[..], open.sequence)] {
        assert_eq!(code(next.put_end(name, sequence)), Some(ErrorCode::StaleToken));
        assert_eq!(code(next.put_revoke(name, sequence, true)), Some(ErrorCode::StaleToken));
        assert_eq!(code(next.validate(name, sequence)), Some(ErrorCode::Changed));
    }
    next.incarnation = now;
    assert!(next.exists(b"ended") && !next.exists(b"open"));
    next.put_end(b"open", again.sequence).expect("the token of now is current");
}

#[test]
fn a_pinned_object_is_pinned_again() {
    let mut cluster = one_store();
    let pinned = PutOptions { hard_pin: true, ..PutOptions::default() };
    let grant = cluster.put_start_with(WRITER, b"pinned", MIB, &pinned).expect("there is room");
    cluster.put_end(b"pinned", grant.sequence).expect("current");
    let mut next = restarted(&mut cluster);
    assert_eq!(next.totals().pinned_bytes, MIB);
    next.checked = false;
    next.advance(11_000);
    for number in 0..100 {
        next.put(WRITER, &key(number), MIB).expect("the oldest make room");
        next.advance(20);
    }
    assert!(next.exists(b"pinned") && next.totals().evicted_objects > 0);
}

#[test]
fn removing_everything_removes_what_is_hidden_too() {
    let mut cluster = one_store();
    for number in 0..20 {
        cluster.put(WRITER, &key(number), MIB).expect("there is room");
    }
    let mut next = restart(&mut cluster);
    assert_eq!(next.remove_all(false), (0, 0), "nobody could see anything");
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    for number in 0..20 {
        assert!(!next.exists(&key(number)), "object {number} was revived");
    }
    next.advance(11_000);
    let totals = next.totals();
    assert_eq!((totals.objects, totals.allocated_bytes, totals.held_bytes), (0, 0, 0));
}

/// The keys that a cluster lists, in order.
fn listed(cluster: &mut Cluster, hidden: bool) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for shard in (0..cluster.route.shards()).map(ShardId) {
        let request = ShardRequest::ListKeys { cursor: 0, limit: 100, hidden };
        let id = cluster.send_shard(shard, request);
        cluster.settle();
        match cluster.take_shard_answer(id) {
            ShardReply::Keys { keys: page, next: None } => {
                keys.extend(page.into_iter().map(|entry| entry.key.to_vec()));
            }
            other => panic!("a list of keys is answered with {other:?}"),
        }
    }
    keys.sort();
    keys
}

#[test]
fn a_list_of_what_is_to_be_removed_has_the_hidden_keys_and_any_other_has_not() {
    let mut cluster = one_store();
    for number in 0..3 {
        cluster.put(WRITER, &key(number), MIB).expect("there is room");
    }
    cluster.put_start(WRITER, b"unfinished", MIB).expect("there is room");
    let all: Vec<_> = (0..3).map(key).collect();
    assert_eq!(listed(&mut cluster, false), all);
    let mut next = restart(&mut cluster);
    assert_eq!(listed(&mut next, false), [] as [Vec<u8>; 0]);
    assert_eq!(listed(&mut next, true), all);
    for name in &all[..2] {
        assert_eq!(code(next.remove(name, false)), Some(ErrorCode::NotFound));
    }
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert_eq!(listed(&mut next, false), all[2..]);
}

#[test]
fn a_hidden_entry_that_a_start_has_superseded_stays_away_when_the_start_is_refused() {
    let mut cluster = one_store();
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    let mut next = restart(&mut cluster);
    // Nothing is mounted that could take it.
    assert!(next.put_start(WRITER, b"k", MIB).is_err());
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert!(!next.exists(b"k"));
    next.put(WRITER, b"k", MIB).expect("the key is free");
}

#[test]
fn a_store_that_is_new_since_the_snapshot_serves_while_others_are_awaited() {
    let mut cluster = one_store();
    cluster.put(WRITER, b"old", MIB).expect("there is room");
    let mut next = restart(&mut cluster);
    next.mount(OTHER_STORE, 1, 64 * MIB);
    next.put(WRITER, b"new", MIB).expect("there is room");
    assert!(next.exists(b"new") && !next.exists(b"old"));
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert!(next.exists(b"new") && next.exists(b"old"));
}

#[test]
fn a_master_without_objects_hands_its_segments_over() {
    let mut cluster = one_store();
    let mut next = restarted(&mut cluster);
    assert_eq!(next.pool.totals().segments_confirmed, 1);
    next.put(WRITER, b"k", 50 * MIB).expect("all of it is free");
}

#[test]
fn what_is_asked_of_a_master_at_rest_is_refused_as_restarting() {
    let mut cluster = one_store();
    cluster.put(WRITER, b"k", MIB).expect("there is room");
    cluster.quiesce();
    let before = cluster.export();
    for request in [
        ShardRequest::Get { batch: cluster.batch(&[b"k"]) },
        ShardRequest::Remove { force: true, batch: cluster.batch(&[b"k"]) },
        ShardRequest::RemoveAll { force: true },
    ] {
        let shard: ShardId = cluster.shard_of(b"k");
        let id = cluster.send_shard(shard, request);
        cluster.settle();
        assert_eq!(cluster.take_shard_answer(id), ShardReply::Restarting);
    }
    cluster.advance(1_000_000);
    assert_eq!(cluster.export().shards[0].ranges.len(), before.shards[0].ranges.len());
    assert_eq!(cluster.totals().objects, 1);
}

#[test]
fn a_pending_key_that_its_writer_removes_does_not_come_back() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    without_tokens::put(&mut cluster, WRITER, b"k", MIB);
    without_tokens::put(&mut cluster, OTHER_STORE, b"l", MIB);
    let mut next = restart(&mut cluster);
    let batch = next.batch(&[b"k", b"l"]);
    let request = ShardRequest::RemoveByWriter { client: WRITER, mounts: None, batch };
    let answers = done(&mut next, b"k", request);
    assert_eq!(answers.into_iter().map(code).collect::<Vec<_>>(), [Some(ErrorCode::NotFound); 2]);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert!(!next.exists(b"k"));
    assert!(next.exists(b"l"), "what another client has written is left alone");
    assert_eq!(next.totals().held_bytes, MIB, "readers of before may still read");
}

#[test]
fn the_word_of_a_writer_without_a_token_about_a_put_of_before_changes_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let options = PutOptions::default();
    without_tokens::put(&mut cluster, WRITER, b"upsert", MIB);
    for (kind, key) in [(Kind::Put, &b"put"[..]), (Kind::Upsert, b"upsert")] {
        without_tokens::start(&mut cluster, kind, WRITER, key, MIB, &options, None).expect("room");
    }
    let mut next = restart(&mut cluster);
    reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
    assert_eq!((next.totals().objects, next.totals().held_bytes), (0, 2 * MIB));
    for key in [&b"put"[..], b"upsert"] {
        let ended = without_tokens::end(&mut next, WRITER, key, None);
        assert_eq!(code(ended), Some(ErrorCode::NotFound));
        let revoked = without_tokens::revoke(&mut next, WRITER, key);
        assert_eq!(code(revoked), Some(ErrorCode::NotFound));
        let grant = without_tokens::put_start(&mut next, OTHER_STORE, key, MIB).expect("room");
        let ended = without_tokens::end(&mut next, WRITER, key, None);
        assert_eq!(code(ended), Some(ErrorCode::NotWriter));
        assert_eq!(next.purpose_at(grant.replicas[0]), Some(Purpose::Writing));
    }
    assert_eq!(next.totals().held_bytes, 2 * MIB);
}
