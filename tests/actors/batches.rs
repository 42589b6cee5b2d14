//! Batches: each item has its own answer, and none of them spoils its neighbours.

use std::collections::HashMap;

use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, INCARNATION, code};
use crate::common::{KIB, MIB, STORE, WRITER, done, key, no_watermark, put_with, start_batch};
use crate::handoff::{again, reopen, restart};

// R6
#[test]
fn each_item_of_a_batch_of_starts_is_answered_for_itself() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 3 * MIB);
    put_with(&mut cluster, b"old", MIB, &PutOptions { hard_pin: true, ..PutOptions::default() });
    let put = |put_id| PutRequest { size_bytes: MIB, put_id };
    // Two blocks are free, and what is there may not go: the fourth new key finds no room.
    let keys: [&[u8]; 6] = [b"a", b"", b"a", b"old", b"b", b"c"];
    let puts: Vec<(&[u8], PutRequest)> = keys.into_iter().zip((1..).map(put)).collect();
    let answers = start_batch(&mut cluster, WRITER, &puts);
    let codes: Vec<Option<ErrorCode>> = answers.iter().cloned().map(code).collect();
    let expected = [
        None,
        Some(ErrorCode::InvalidKey),
        Some(ErrorCode::PutInProgress),
        Some(ErrorCode::AlreadyExists),
        None,
        Some(ErrorCode::NoSpace),
    ];
    assert_eq!(codes, expected);
    assert_eq!(cluster.totals().unfinished, 2, "refused items leave nothing behind");
    assert_eq!(cluster.totals().objects, 3);

    let sequences: Vec<u64> =
        answers.iter().map(|answer| answer.as_ref().map_or(0x00ff_ffff, |g| g.sequence)).collect();
    let batch = cluster.batch(&keys);
    let end = ShardRequest::PutEnd {
        incarnation: INCARNATION,
        batch: batch.clone(),
        sequences: sequences.clone(),
    };
    let ends = done(&mut cluster, b"a", end).into_iter().map(code).collect::<Vec<_>>();
    let expected = [
        None,
        Some(ErrorCode::NotFound),
        Some(ErrorCode::StaleToken),
        Some(ErrorCode::StaleToken),
        None,
        Some(ErrorCode::NotFound),
    ];
    assert_eq!(ends, expected, "an end of a failed item does not touch its neighbours");
    let revoke = ShardRequest::PutRevoke {
        incarnation: INCARNATION,
        no_write_in_flight: true,
        batch,
        sequences,
    };
    let revokes = done(&mut cluster, b"a", revoke).into_iter().map(code).collect::<Vec<_>>();
    assert_eq!(revokes[0], Some(ErrorCode::PutComplete));
    assert_eq!(revokes[5], Some(ErrorCode::NotFound));
    for (key, readable) in [(b"a" as &[u8], true), (b"old", true), (b"b", true), (b"c", false)] {
        assert_eq!(cluster.exists(key), readable, "{key:?}");
    }
    assert_eq!(cluster.totals().unfinished, 0);
}

// R6
#[test]
fn a_missing_key_does_not_spoil_the_other_keys_of_a_get() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put(WRITER, b"a", MIB).expect("there is room");
    cluster.put_start(WRITER, b"writing", MIB).expect("there is room");
    cluster.put(WRITER, b"b", 2 * MIB).expect("there is room");
    let keys: [&[u8]; 5] = [b"a", b"missing", b"writing", b"", b"b"];
    let batch = cluster.batch(&keys);
    let get = ShardRequest::Get { batch: batch.clone() };
    let id = cluster.send_shard(cluster.shard_of(b"a"), get);
    cluster.settle();
    let ShardReply::Located(answers) = cluster.take_shard_answer(id) else { panic!("no get") };
    let sizes: Vec<Option<u64>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(|found| found.size_bytes)).collect();
    assert_eq!(sizes, [Some(MIB), None, None, None, Some(2 * MIB)]);
    let exist = ShardRequest::Exist { lease: true, batch };
    let id = cluster.send_shard(cluster.shard_of(b"a"), exist);
    cluster.settle();
    let existing = cluster.take_shard_answer(id);
    assert_eq!(existing, ShardReply::Existing(vec![true, false, false, false, true]));
}

// R6
#[test]
fn a_batch_that_waits_for_space_is_answered_once_and_in_its_order() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let put = |put_id| PutRequest { size_bytes: put_id * MIB, put_id };
    // Nothing was granted to the shard yet, so most of these are parked until the pool answers.
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let puts: Vec<(&[u8], PutRequest)> = keys.into_iter().zip((1..).map(put)).collect();
    let answers = start_batch(&mut cluster, WRITER, &puts);
    for (number, (key, answer)) in keys.into_iter().zip(answers).enumerate() {
        let grant = answer.expect("there is room");
        cluster.put_end(key, grant.sequence).expect("the answer stands at its key");
        let located = cluster.get(key).expect("readable");
        assert_eq!(located.size_bytes, (number as u64 + 1) * MIB);
        assert_eq!(located.replicas, grant.replicas);
    }
}

/// Longer ones are looked up in blocks, of which the last one is not full.
#[test]
fn a_batch_of_any_length_is_answered_as_its_keys_are_one_by_one() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    for number in (0..200).filter(|number| number % 3 > 0) {
        cluster.put(WRITER, &key(number), (number + 1) * KIB).expect("there is room");
    }
    let shard = cluster.shard_of(&key(0));
    for length in [0, 1, 15, 16, 17, 47, 48, 49, 64, 65, 200] {
        // Some keys twice, near each other and far apart.
        let numbers: Vec<u64> = (0..length).map(|at| at * 7 % 90 + at % 2).collect();
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let batch = cluster.batch(&keys.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>());
        let id = cluster.send_shard(shard, ShardRequest::Get { batch });
        cluster.settle();
        let ShardReply::Located(answers) = cluster.take_shard_answer(id) else { panic!("no get") };
        let singly: Vec<_> = keys.iter().map(|key| cluster.get(key)).collect();
        assert_eq!(answers, singly, "{length} keys");
    }
}

/// Two keys of one tag, as there are thousands in a shard of many millions of objects.
fn of_one_tag(cluster: &Cluster) -> [Vec<u8>; 2] {
    let mut numbers = HashMap::new();
    for number in 0.. {
        let tag = cluster.route.hash(&key(number)).tag();
        if let Some(before) = numbers.insert(tag, number) {
            return [key(before), key(number)];
        }
    }
    unreachable!("there are more keys than tags")
}

/// What a get of these keys in one batch finds: the number of each one's put.
fn found(cluster: &mut Cluster, keys: &[&[u8]]) -> Vec<Option<u64>> {
    let get = ShardRequest::Get { batch: cluster.batch(keys) };
    let id = cluster.send_shard(cluster.shard_of(keys[0]), get);
    cluster.settle();
    let ShardReply::Located(answers) = cluster.take_shard_answer(id) else { panic!("no get") };
    answers.into_iter().map(|answer| answer.ok().map(|found| found.sequence)).collect()
}

// The look ahead keeps the first object of a tag for the lookup, which may be that of the other key.
#[test]
fn a_key_is_never_taken_for_another_one_of_its_tag() {
    let [one, other] = of_one_tag(&Cluster::new(1));
    for there in [vec![&one], vec![&other], vec![&one, &other], vec![&other, &one]] {
        let mut cluster = Cluster::new(1);
        cluster.mount(STORE, 1, 64 * MIB);
        let mut puts = HashMap::new();
        for key in there {
            puts.insert(key, cluster.put(WRITER, key, MIB).expect("there is room").sequence);
        }
        let [first, second] = [&one, &other].map(|key| puts.get(key).copied());
        let keys: [&[u8]; 4] = [&one, &other, &other, &one];
        let expected = [first, second, second, first];
        assert_eq!(found(&mut cluster, &keys), expected);

        let (batch, shard) = (cluster.batch(&keys), cluster.shard_of(&one));
        let exist = ShardRequest::Exist { lease: false, batch: batch.clone() };
        let id = cluster.send_shard(shard, exist);
        cluster.settle();
        let there = expected.map(|put| put.is_some()).to_vec();
        assert_eq!(cluster.take_shard_answer(id), ShardReply::Existing(there));

        // Each put is asked for under both keys.
        let asked = [first, first, second, second].map(|put| put.unwrap_or(u64::MAX));
        let validate =
            ShardRequest::Validate { incarnation: INCARNATION, batch, sequences: asked.to_vec() };
        let same: Vec<bool> =
            done(&mut cluster, &one, validate).into_iter().map(|answer| answer.is_ok()).collect();
        assert_eq!(same, [first.is_some(), false, second.is_some(), false]);

        let mut next = restart(&mut cluster);
        reopen(&mut next, STORE, vec![again(STORE, 1, 64 * MIB)]);
        assert_eq!(found(&mut next, &keys), expected, "after a restart");
    }
}

// What is looked up ahead is gone, or there, by the turn of the next key.
#[test]
fn a_batch_that_makes_and_removes_objects_of_one_tag_tells_them_apart() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let [one, other] = of_one_tag(&cluster);
    let put = |put_id| PutRequest { size_bytes: put_id * MIB, put_id };
    let starts = [(&*one, put(1)), (&*other, put(2)), (&*one, put(3))];
    let grants = start_batch(&mut cluster, WRITER, &starts);
    let [Ok(first), Ok(second), Err(again)] = &grants[..] else { panic!("{grants:?}") };
    assert_eq!(again.code, ErrorCode::PutInProgress);
    assert_ne!(first.replicas, second.replicas);
    let keys: [&[u8]; 3] = [&other, &one, &other];
    let end = ShardRequest::PutEnd {
        incarnation: INCARNATION,
        batch: cluster.batch(&keys),
        sequences: vec![second.sequence, first.sequence, first.sequence],
    };
    let ends: Vec<_> = done(&mut cluster, &one, end).into_iter().map(code).collect();
    assert_eq!(ends, [None, None, Some(ErrorCode::StaleToken)]);
    let both = [Some(first.sequence), Some(second.sequence)];
    assert_eq!(found(&mut cluster, &[&one, &other]), both);

    let keys: [&[u8]; 3] = [&one, &one, &other];
    let remove = ShardRequest::Remove { force: true, batch: cluster.batch(&keys[..2]) };
    let removed: Vec<_> = done(&mut cluster, &one, remove).into_iter().map(code).collect();
    assert_eq!(removed, [None, Some(ErrorCode::NotFound)]);
    assert_eq!(found(&mut cluster, &keys), [None, None, Some(second.sequence)]);
}
