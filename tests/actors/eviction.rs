//! Eviction: how much goes, what goes, in which order, and what stays.

use mooring_actors::core::Settings;
use mooring_actors::pool::message::{PoolMessage, ShardReport};
use mooring_proto::error::ErrorCode;
use mooring_proto::message::object::PutOptions;
use rand::Rng;

use crate::cluster::{Cluster, Envelope, code};
use crate::common::{
    KIB, MIB, STORE, WRITER, dice, key, no_watermark, put_all, put_with, readable,
};

/// Takes messages to their end and gathers the reports of use that the pool hears on the way.
fn settle_and_record(cluster: &mut Cluster) -> Vec<PoolMessage> {
    let mut heard = Vec::new();
    while let Some(next) = cluster.queue.front() {
        if let Envelope::ToPool(PoolMessage::Shard { shard, report: ShardReport::Usage(usages) }) =
            next
        {
            let report = ShardReport::Usage(usages.clone());
            heard.push(PoolMessage::Shard { shard: *shard, report });
        }
        cluster.deliver(0);
    }
    heard
}

// R20
#[test]
fn above_the_watermark_goes_what_is_above_it_and_the_ratio_below() {
    for (watermark, ratio, shards) in [(0.90, 0.05, 1), (0.90, 0.05, 4), (0.70, 0.20, 2)] {
        let settings = Settings {
            eviction_high_watermark_ratio: watermark,
            eviction_ratio: ratio,
            ..Settings::default()
        };
        let mut cluster = Cluster::with(shards, settings);
        cluster.mount(STORE, 1, 128 * MIB);
        let watermark_bytes = (128.0 * MIB as f64 * watermark) as u64;
        let size_bytes = 256 * KIB;
        let full = watermark_bytes / size_bytes;
        // So much may go unnoticed in each shard until a report is due.
        let slack_bytes = u64::from(shards) * 256 * KIB + size_bytes;
        for number in 0..full - u64::from(shards) {
            cluster.put(WRITER, &key(number), size_bytes).expect("there is room");
        }
        cluster.advance(50);
        assert_eq!(cluster.totals().evicted_bytes, 0, "nothing goes below the watermark");
        let used_bytes = (full - u64::from(shards)) * size_bytes;
        let mut number = full;
        while cluster.totals().evicted_bytes == 0 {
            cluster.put(WRITER, &key(number), size_bytes).expect("there is room");
            number += 1;
            assert!(number < full + 16, "the watermark is passed");
        }
        let used_bytes = used_bytes + (number - full) * size_bytes;
        let expected = used_bytes as f64 - 128.0 * MIB as f64 * (watermark - ratio);
        let evicted = cluster.totals().evicted_bytes;
        assert!(
            evicted.abs_diff(expected as u64) <= slack_bytes + u64::from(shards) * size_bytes,
            "{evicted} of {expected} with {shards} shards at {watermark}"
        );
        cluster.advance(1_000);
        assert_eq!(cluster.totals().evicted_bytes, evicted, "once is enough");
    }
}

// R20
#[test]
fn only_what_may_go_goes_and_the_oldest_first_although_most_may_not() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 100 * MIB);
    let size_bytes = 256 * KIB;
    let pinned = PutOptions { hard_pin: true, ..PutOptions::default() };
    // 400 objects: 280 are pinned or unfinished, and of the others 32 are read all the time.
    for number in 0..270 {
        put_with(&mut cluster, &key(1_000 + number), size_bytes, &pinned);
    }
    for number in 0..10 {
        cluster.put_start(WRITER, &key(2_000 + number), size_bytes).expect("there is room");
    }
    for number in 0..108 {
        cluster.put(WRITER, &key(number), size_bytes).expect("there is room");
        if number % 4 == 0 {
            cluster.get(&key(number)).expect("readable");
        }
    }
    cluster.advance(50);
    assert!(cluster.totals().evicted_objects > 0, "97 % are used");
    let evicted = 108 - readable(&mut cluster, 0..108).len() as u64;
    // 340 objects are 85 % and 360 are 90 %: it starts with the 361st.
    assert!((28..=49).contains(&evicted), "{evicted} went");
    let unread: Vec<u64> = (0..108).filter(|number| number % 4 != 0).collect();
    let left = readable(&mut cluster, 0..108);
    let unread_left: Vec<u64> = left.iter().copied().filter(|number| number % 4 != 0).collect();
    assert_eq!(unread_left, unread[evicted as usize..], "the oldest go");
    for number in 0..270 {
        assert!(cluster.exists(&key(1_000 + number)), "a pinned object went");
    }
    assert_eq!(cluster.totals().unfinished, 10);
}

/// Uses within one step of time, an eighth of a lease, count as the first of them.
#[test]
fn victims_go_in_the_order_of_their_last_use() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 16 * MIB);
    put_all(&mut cluster, 0..64, 256 * KIB);
    let mut dice = dice(3);
    let mut by_use: Vec<u64> = (0..64).collect();
    let mut last_steps = [None; 64];
    for _ in 0..300 {
        let number = dice.random_range(0..64);
        cluster.get(&key(number)).expect("readable");
        let step = Some((cluster.now.as_ms() + 10_000) / 1_024);
        if std::mem::replace(&mut last_steps[number as usize], step) != step {
            by_use.retain(|other| *other != number);
            by_use.push(number);
        }
        cluster.advance(dice.random_range(0..3) * 10);
    }
    cluster.advance(10_010);
    for (step, victim) in by_use.into_iter().enumerate() {
        assert!(cluster.exists(&key(victim)), "step {step}");
        cluster.put(WRITER, &key(1_000 + step as u64), 256 * KIB).expect("the oldest gives way");
        assert!(!cluster.exists(&key(victim)), "step {step}: {victim} is the oldest");
        assert_eq!(cluster.totals().evicted_objects, step as u64 + 1, "and nothing else");
    }
}

#[test]
fn an_exist_without_lease_is_no_use_and_one_with_a_lease_is() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    put_all(&mut cluster, 0..4, MIB);
    assert!(cluster.exists(&key(0)));
    let batch = cluster.batch(&[&key(1)]);
    let exist = mooring_actors::shard::message::ShardRequest::Exist { lease: true, batch };
    cluster.send_shard(mooring_actors::ShardId(0), exist);
    cluster.settle();
    cluster.advance(10_010);
    put_all(&mut cluster, 10..13, MIB);
    assert_eq!(readable(&mut cluster, 0..4), [1]);
}

#[test]
fn hard_pinned_objects_never_go_and_soft_pinned_ones_go_last() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 16 * MIB);
    let size_bytes = 256 * KIB;
    let hard = PutOptions { hard_pin: true, ..PutOptions::default() };
    let soft = PutOptions { soft_pin_ttl_ms: Some(60_000), ..PutOptions::default() };
    put_with(&mut cluster, &key(0), size_bytes, &hard);
    put_with(&mut cluster, &key(1), size_bytes, &soft);
    put_with(&mut cluster, &key(2), size_bytes, &soft);
    put_all(&mut cluster, 3..64, size_bytes);
    // The pinned ones are the oldest, and all others go before them.
    put_all(&mut cluster, 100..161, size_bytes);
    assert_eq!(readable(&mut cluster, 0..64), [0, 1, 2]);
    for number in 100..161 {
        cluster.get(&key(number)).expect("readable");
    }
    for number in 200..202 {
        cluster.put(WRITER, &key(number), size_bytes).expect("a soft pin gives way");
        cluster.get(&key(number)).expect("readable");
    }
    assert_eq!(readable(&mut cluster, 0..64), [0], "nothing else may go");
    let refused = cluster.put_start(WRITER, &key(300), MIB).expect_err("all is leased or pinned");
    assert_eq!(refused.code, ErrorCode::NoSpace);
    assert_eq!(refused.no_space.expect("it says why").pinned_bytes, size_bytes);
    assert_eq!(readable(&mut cluster, 0..64), [0]);
}

#[test]
fn a_soft_pin_ends_at_its_deadline() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 4 * MIB);
    let soft = PutOptions { soft_pin_ttl_ms: Some(60_000), ..PutOptions::default() };
    put_with(&mut cluster, &key(0), MIB, &soft);
    put_all(&mut cluster, 1..4, MIB);
    cluster.advance(59_990);
    put_all(&mut cluster, 4..7, MIB);
    assert_eq!(readable(&mut cluster, 0..4), [0], "its pin holds for ten milliseconds more");
    cluster.advance(10);
    // Its pin counts as use until now, so the three that came before its end go first.
    put_all(&mut cluster, 7..11, MIB);
    assert_eq!(readable(&mut cluster, 0..11), [7, 8, 9, 10]);
}

#[test]
fn a_window_for_a_large_object_spares_soft_pins_as_long_as_there_is_another_one() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 32 * MIB);
    let soft = PutOptions { soft_pin_ttl_ms: Some(60_000), ..PutOptions::default() };
    for number in 0..32 {
        put_with(&mut cluster, &key(number), 256 * KIB, &soft);
    }
    put_all(&mut cluster, 100..196, 256 * KIB);
    for number in 0..2 {
        cluster.put(WRITER, &key(1_000 + number), 12 * MIB).expect("there is a cheaper window");
        assert_eq!(readable(&mut cluster, 0..32).len(), 32, "window {number}");
    }
}

#[test]
fn a_stale_report_of_use_does_not_double_an_order() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 64 * MIB);
    let mut heard = Vec::new();
    let mut number = 0;
    while cluster.totals().evicted_bytes == 0 {
        cluster.send_put_start(WRITER, &key(number), 512 * KIB, &PutOptions::default());
        heard.extend(settle_and_record(&mut cluster));
        let sequence = sequence_of(&mut cluster);
        cluster.put_end(&key(number), sequence).expect("the put is current");
        heard.extend(settle_and_record(&mut cluster));
        number += 1;
        assert!(number < 200, "the watermark is passed");
    }
    cluster.advance(100);
    let evicted_bytes = cluster.totals().evicted_bytes;
    // What was true when the pool was fullest, again and late.
    assert!(!heard.is_empty());
    for message in heard.into_iter().rev().take(4) {
        cluster.queue.push_back(Envelope::ToPool(message));
    }
    cluster.settle();
    cluster.advance(100);
    let again_bytes = cluster.totals().evicted_bytes;
    assert_eq!(again_bytes, evicted_bytes, "what was paid is not asked for again");
}

/// The number of the only grant that has just come.
fn sequence_of(cluster: &mut Cluster) -> u64 {
    let id = *cluster.answers.keys().max().expect("the start is answered");
    let answers = crate::common::started(cluster, id);
    answers[0].as_ref().expect("there is room").sequence
}

#[test]
fn holds_and_unfinished_puts_count_as_used_but_are_not_evicted() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..28, MIB);
    for number in 100..130 {
        cluster.put_start(WRITER, &key(number), MIB).expect("there is room");
    }
    cluster.advance(100);
    let totals = cluster.totals();
    // 58 of 64 are used: 54.4 have to be left, and only finished objects can go.
    assert_eq!((totals.unfinished, totals.evicted_objects), (30, 4));
    assert_eq!(readable(&mut cluster, 0..28), (4..28).collect::<Vec<_>>());
    for number in 0..28 {
        let _ = cluster.get(&key(number));
    }
    put_all(&mut cluster, 200..202, MIB);
    assert_eq!(readable(&mut cluster, 0..28).len(), 24, "what is leased stays");
    assert_eq!(code(cluster.put_start(WRITER, &key(100), MIB)), Some(ErrorCode::PutInProgress));
}

#[test]
fn an_object_that_nearly_fills_a_segment_goes_to_a_larger_one_and_stays_where_there_is_none() {
    let mut cluster = Cluster::new(1);
    cluster.mount(mooring_proto::ClientId(1), 1, 64 << 20);
    cluster.put(mooring_proto::ClientId(9), b"whole", 64 << 20).expect("it fits exactly");
    cluster.advance(100);
    assert!(cluster.exists(b"whole"), "the watermark is no reason to lose the only object");
    cluster.mount(mooring_proto::ClientId(1), 2, 128 << 20);
    for number in 0..20 {
        let key = format!("large-{number}");
        let grant = cluster
            .put(mooring_proto::ClientId(9), key.as_bytes(), 60 << 20)
            .expect("there is room");
        assert_eq!(grant.replicas[0].slot, 1, "only the larger segment holds it below its mark");
        cluster.remove(key.as_bytes(), false).expect("nobody reads it");
    }
}
