//! Full pools: whatever was put before, the next put gets its room while anything may go.

use mooring_actors::core::Settings;
use mooring_actors::shard::message::ShardReply;
use mooring_proto::message::object::PutOptions;
use rand::Rng;
use rand::seq::SliceRandom;

use crate::cluster::{Cluster, TICK_MS};
use crate::common::{KIB, MIB, STORE, WRITER, dice, key, keys_of_shard, no_watermark, started};

/// A pool of four segments that has taken twice its capacity in small objects.
fn full_of_small_ones(shards: u16, settings: Settings) -> Cluster {
    let mut cluster = Cluster::with(shards, settings);
    cluster.checked = false;
    for number in 0..4 {
        cluster.mount(STORE, number, 128 * MIB);
    }
    let count = 2 * 512 * MIB / SMALL_BYTES;
    for number in 0..count {
        cluster.put(WRITER, &key(number), SMALL_BYTES).expect("what is old gives way");
        if number % 100 == 0 {
            cluster.advance(TICK_MS);
        }
    }
    check(&cluster);
    cluster
}

fn check(cluster: &Cluster) {
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_pool_full_of_small_objects_takes_large_ones_one_after_the_other() {
    for shards in [1, 2, 8] {
        let mut cluster = full_of_small_ones(shards, Settings::default());
        for number in 0..100 {
            let put = cluster.put(WRITER, &key(1_000_000 + number), LARGE_BYTES);
            put.unwrap_or_else(|refusal| panic!("put {number}, {shards} shards: {refusal}"));
        }
        assert_eq!(cluster.totals().put_refused, 0);
        check(&cluster);
    }
}

#[test]
fn a_pool_full_to_its_last_page_takes_large_ones_too() {
    for shards in [1, 2, 8] {
        let mut cluster = full_of_small_ones(shards, no_watermark());
        for number in 0..100 {
            let put = cluster.put(WRITER, &key(1_000_000 + number), LARGE_BYTES);
            put.unwrap_or_else(|refusal| panic!("put {number}, {shards} shards: {refusal}"));
        }
        assert_eq!(cluster.totals().put_refused, 0);
        check(&cluster);
    }
}

#[test]
fn a_burst_of_large_objects_is_taken_as_a_whole() {
    for shards in [1, 2, 8] {
        for settings in [Settings::default(), no_watermark()] {
            let mut cluster = full_of_small_ones(shards, settings);
            // 360 MiB of 512, and nothing of it may go before it is written.
            let ids: Vec<_> = (0..30)
                .map(|number| {
                    let key = key(1_000_000 + number);
                    cluster.send_put_start(WRITER, &key, LARGE_BYTES, &PutOptions::default())
                })
                .collect();
            cluster.settle();
            for (number, id) in ids.into_iter().enumerate() {
                assert!(!cluster.open.contains_key(&id), "put {number} waits");
                let answer = started(&mut cluster, id).remove(0);
                answer.unwrap_or_else(|refusal| panic!("put {number}, {shards} shards: {refusal}"));
            }
            check(&cluster);
            assert_eq!(cluster.totals().unfinished, 30);
            assert_eq!(cluster.totals().put_refused, 0);
        }
    }
}

#[test]
fn sizes_that_shift_to_and_fro_find_their_room_each_time() {
    let mut cluster = full_of_small_ones(2, Settings::default());
    let mut number = 2_000_000;
    for size_bytes in [LARGE_BYTES, 4 * KIB, 40 * MIB, SMALL_BYTES, 128 * MIB, 3 * MIB] {
        for _ in 0..(300 * MIB / size_bytes).min(2_000) {
            let put = cluster.put(WRITER, &key(number), size_bytes);
            put.unwrap_or_else(|refusal| panic!("{size_bytes} bytes: {refusal}"));
            number += 1;
        }
        cluster.advance(TICK_MS);
        check(&cluster);
    }
    assert_eq!(cluster.totals().put_refused, 0);
}

#[test]
fn a_shard_whose_own_data_is_all_leased_gets_space_from_cold_ones() {
    let mut cluster = full_of_small_ones(8, no_watermark());
    let own: Vec<Vec<u8>> = keys_of_shard(&cluster, 0, 1_000)
        .into_iter()
        .filter(|key| cluster.get(key).is_ok())
        .collect();
    assert!(own.len() > 50, "{} objects of the shard are left", own.len());
    let leased = own.len() as u64;
    let mut puts = 0;
    for number in 1_000_000_u64.. {
        let key = key(number);
        if cluster.shard_of(&key).0 != 0 {
            continue;
        }
        let put = cluster.put(WRITER, &key, SMALL_BYTES);
        put.unwrap_or_else(|refusal| panic!("put {puts}: {refusal}"));
        cluster.get(&key).expect("readable");
        puts += 1;
        if puts == 3 * leased {
            break;
        }
    }
    assert!(own.iter().all(|key| cluster.exists(key)), "lease: what is read stays");
    check(&cluster);
}

// R13
#[test]
fn a_mixed_trace_leaves_no_holes_that_a_large_object_could_not_pass() {
    let mut cluster = Cluster::new(2);
    cluster.checked = false;
    for number in 0..8 {
        cluster.mount(STORE, number, 64 * MIB);
    }
    let mut dice = dice(13);
    let mut steps: Vec<Vec<u64>> = Vec::new();
    let (mut number, mut gone, mut written_bytes) = (0, 0, 0);
    for step in 0..200_u64 {
        let mut keys = Vec::new();
        for item in 0..34 {
            let size_bytes = match item {
                0..3 => dice.random_range(21 * MIB / 2..62 * MIB / 5),
                _ => dice.random_range(256..10 * KIB),
            };
            let put = cluster.put(WRITER, &key(number), size_bytes);
            put.unwrap_or_else(|refusal| panic!("step {step}: {size_bytes} bytes: {refusal}"));
            written_bytes += size_bytes;
            keys.push(number);
            number += 1;
        }
        keys.shuffle(&mut dice);
        steps.push(keys);
        // Up to six steps' large objects are there at a time: 45 % of the pool.
        while steps.len() > dice.random_range(3..7) {
            for number in steps.remove(0) {
                gone += u64::from(cluster.remove(&key(number), false).is_err());
            }
        }
        cluster.advance(TICK_MS);
        check(&cluster);
    }
    for number in steps.into_iter().flatten() {
        gone += u64::from(cluster.remove(&key(number), false).is_err());
    }
    let totals = cluster.totals();
    assert_eq!((totals.put_refused, totals.evicted_objects), (0, gone));
    // Where only a little more than half is free, a window now and then costs something.
    assert!(totals.evicted_bytes * 50 < written_bytes, "{totals:?}, {written_bytes} written");
    for number in 0..8 {
        // Not ended, so that the watermark does not let one go.
        let put = cluster.put_start(WRITER, &key(1_000_000 + number), 64 * MIB);
        put.unwrap_or_else(|refusal| panic!("a whole segment: {refusal}"));
    }
    let merged = cluster.totals().evicted_objects;
    assert_eq!(merged, totals.evicted_objects, "everything has merged again");
}

#[test]
fn thousands_of_small_segments_are_filled_by_eight_shards_and_waste_little() {
    let mut cluster = Cluster::with(8, no_watermark());
    cluster.checked = false;
    for number in 0..3_000 {
        cluster.mount(STORE, number, 64 * KIB);
    }
    let size_bytes = 8 * KIB;
    let fitting = 3_000 * 64 * KIB / size_bytes;
    let keys: Vec<Vec<u8>> = (0..fitting).map(key).collect();
    let mut placed = 0;
    for chunk in keys.chunks(500) {
        let ids: Vec<_> = chunk
            .iter()
            .map(|key| cluster.send_put_start(WRITER, key, size_bytes, &PutOptions::default()))
            .collect();
        cluster.settle();
        cluster.advance(TICK_MS);
        for id in ids {
            let ShardReply::Started(answers) = cluster.take_shard_answer(id) else {
                panic!("a start is answered otherwise");
            };
            placed += u64::from(answers[0].is_ok());
        }
    }
    check(&cluster);
    // Nothing is evictable, since nothing is finished: what is not placed found no room.
    assert!(placed * 100 >= fitting * 97, "{placed} of {fitting} were placed");
}

const SMALL_BYTES: u64 = 470_000;
const LARGE_BYTES: u64 = 12 * MIB;
