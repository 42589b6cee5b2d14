//! Batches: each item has its own answer, and none of them spoils its neighbours.

use mooring_actors::shard::message::{PutRequest, ShardReply, ShardRequest};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, INCARNATION, code};
use crate::common::{KIB, MIB, STORE, WRITER, done, key, no_watermark, put_with, start_batch};

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
