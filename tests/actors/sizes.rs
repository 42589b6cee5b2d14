//! Sizes and keys at their limits, and requests that can never fit.

use mooring_actors::shard::message::PutRequest;
use mooring_proto::SegmentId;
use mooring_proto::error::ErrorCode;
use mooring_proto::limits::{KEY_BYTES_MAX, OBJECT_BYTES_MAX, REPLICAS_MAX, SEGMENT_BYTES_MAX};
use mooring_proto::message::object::PutOptions;
use mooring_proto::message::segment::{MountRequest, Segment};

use crate::cluster::{Cluster, code, memory};
use crate::common::{
    GIB, KIB, MIB, STORE, WRITER, assert_empty, key, no_watermark, pool_messages, put_all,
    readable, settle_shards, start_batch, started,
};

// R15
#[test]
fn a_size_or_key_out_of_its_bounds_is_refused_and_reserves_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let long = vec![b'x'; KEY_BYTES_MAX + 1];
    let huge = vec![b'x'; 1 << 20];
    let cases: [(&[u8], u64, ErrorCode); 9] = [
        (b"k", 0, ErrorCode::InvalidSize),
        (b"k", OBJECT_BYTES_MAX + 1, ErrorCode::InvalidSize),
        (b"k", 1 << 48, ErrorCode::InvalidSize),
        (b"k", u64::MAX, ErrorCode::InvalidSize),
        (b"k", u64::MAX - 63, ErrorCode::InvalidSize),
        (b"k", 64 * MIB + 1, ErrorCode::LargerThanSegments),
        (b"k", OBJECT_BYTES_MAX, ErrorCode::LargerThanSegments),
        (&long, 1, ErrorCode::InvalidKey),
        (&huge, 1, ErrorCode::InvalidKey),
    ];
    for (key, size_bytes, expected) in cases {
        let refusal = cluster.put_start(WRITER, key, size_bytes).expect_err("out of bounds");
        assert_eq!((refusal.code, refusal.retry_after_ms), (expected, None), "{size_bytes}");
    }
    let put = PutRequest { size_bytes: 1, put_id: 1 };
    let answers = start_batch(&mut cluster, WRITER, &[(b"", put), (b"fine", put)]);
    assert_eq!(code(answers[0].clone()), Some(ErrorCode::InvalidKey));
    let fine = answers[1].as_ref().expect("its neighbour is sound").sequence;
    assert_eq!(cluster.totals().unfinished, 1);
    cluster.put_revoke(b"fine", fine, true).expect("the put is current");
    assert_eq!(cluster.totals().held_bytes + cluster.totals().allocated_bytes, 0);
}

// R15
#[test]
fn every_size_up_to_that_of_the_segment_is_granted_and_told_exactly() {
    let mut cluster = Cluster::with(1, no_watermark());
    cluster.mount(STORE, 1, 64 * MIB);
    let longest = vec![b'x'; KEY_BYTES_MAX];
    for size_bytes in [1, 63, 64, 65, 4_095, MIB + 1, 64 * MIB - 1, 64 * MIB] {
        for key in [b"k" as &[u8], &longest] {
            cluster.put(WRITER, key, size_bytes).expect("it fits");
            assert_eq!(cluster.get(key).expect("readable").size_bytes, size_bytes);
            cluster.leap(10_000);
            cluster.remove(key, false).expect("nobody reads it");
        }
    }
    assert_eq!(cluster.totals().allocated_bytes, 0);
}

// R4, R15
#[test]
fn sizes_above_four_gibibytes_are_exact_in_every_answer() {
    let mut cluster = Cluster::new(2);
    cluster.mount(STORE, 1, 2 << 40);
    let size_bytes = 5 * GIB + 12_345;
    let first = cluster.put(WRITER, b"a", size_bytes).expect("it fits");
    let second = cluster.put(WRITER, b"b", OBJECT_BYTES_MAX).expect("it fits");
    let first = (cluster.get(b"a").expect("readable"), first);
    let second = (cluster.get(b"b").expect("readable"), second);
    assert_eq!((first.0.size_bytes, second.0.size_bytes), (size_bytes, OBJECT_BYTES_MAX));
    for (located, grant) in [&first, &second] {
        assert_eq!(located.replicas, grant.replicas);
    }
    let offsets = [first.1.replicas[0].offset_bytes, second.1.replicas[0].offset_bytes];
    assert!(offsets[0].abs_diff(offsets[1]) >= size_bytes, "{offsets:?}");
    assert_eq!(cluster.totals().allocated_bytes, size_bytes.div_ceil(64) * 64 + OBJECT_BYTES_MAX);
}

// R15
#[test]
fn options_out_of_their_bounds_are_refused() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    for replicas in [0, REPLICAS_MAX as u8 + 1, u8::MAX] {
        let options = PutOptions { replicas, ..PutOptions::default() };
        let refused = cluster.put_start_with(WRITER, b"k", MIB, &options);
        assert_eq!(code(refused), Some(ErrorCode::InvalidArgument));
    }
    // A pin until the end of time is only a long one.
    let options = PutOptions { soft_pin_ttl_ms: Some(u64::MAX), ..PutOptions::default() };
    let grant = cluster.put_start_with(WRITER, b"k", MIB, &options).expect("it fits");
    cluster.put_end(b"k", grant.sequence).expect("the put is current");
    cluster.leap(100_000);
    assert!(cluster.exists(b"k"));
    assert_eq!(cluster.totals().objects, 1);
}

// R15
#[test]
fn a_batch_of_many_items_is_answered_item_by_item() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(STORE, 1, 256 * MIB);
    let keys: Vec<Vec<u8>> = (0..50_000).map(key).collect();
    let puts: Vec<(&[u8], PutRequest)> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| {
            let size_bytes = if number % 100 == 99 { 0 } else { KIB };
            (key.as_slice(), PutRequest { size_bytes, put_id: number as u64 })
        })
        .collect();
    let answers = start_batch(&mut cluster, WRITER, &puts);
    for (number, answer) in answers.iter().enumerate() {
        let expected = (number % 100 == 99).then_some(ErrorCode::InvalidSize);
        assert_eq!(answer.as_ref().err().map(|refusal| refusal.code), expected, "{number}");
    }
    assert_eq!(cluster.totals().unfinished, 49_500);
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
}

// R15
#[test]
fn a_segment_with_impossible_bounds_is_refused_by_name_and_mounts_nothing() {
    let mut cluster = Cluster::new(2);
    let sound = || memory(STORE, 1, 64 * MIB).segment;
    let cases = [
        (Segment { size_bytes: 0, ..sound() }, "size_bytes"),
        (Segment { size_bytes: 4_095, ..sound() }, "size_bytes"),
        (Segment { size_bytes: SEGMENT_BYTES_MAX + 1, ..sound() }, "size_bytes"),
        (Segment { size_bytes: u64::MAX, ..sound() }, "size_bytes"),
        (Segment { base: 0, ..sound() }, "base"),
        (Segment { base: u64::MAX - 64 * MIB + 1, ..sound() }, "base"),
        (Segment { endpoint: String::new(), ..sound() }, "endpoint"),
        (Segment { endpoint: "e".repeat(256), ..sound() }, "endpoint"),
    ];
    for (segment, field) in cases {
        let request = MountRequest { segment: segment.clone(), mounted_with: None };
        let error = cluster.try_mount(STORE, request).expect_err("out of bounds");
        assert_eq!(error.code, ErrorCode::InvalidSegment, "{segment:?}");
        assert!(error.text.contains(field), "{}", error.text);
    }
    assert_empty(&cluster);
    // An odd size is no fault: what is beyond the last whole page stays unused.
    let odd = Segment { size_bytes: 64 * MIB + 777, base: 0x1003, ..sound() };
    cluster.try_mount(STORE, MountRequest { segment: odd, mounted_with: None }).expect("sound");
    assert_eq!(cluster.pool.totals().capacity_bytes, 64 * MIB);
    cluster.put(WRITER, b"whole", 64 * MIB).expect("all whole pages");
}

// R16
#[test]
fn what_can_never_fit_is_refused_at_once_and_evicts_nothing() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    put_all(&mut cluster, 0..32, MIB);
    for number in 100..200 {
        let id = cluster.send_put_start(WRITER, &key(number), 128 * MIB, &PutOptions::default());
        settle_shards(&mut cluster);
        let refused = started(&mut cluster, id).remove(0).expect_err("it can never fit");
        assert_eq!((refused.code, refused.retry_after_ms), (ErrorCode::LargerThanSegments, None));
    }
    let asked = pool_messages(&cluster, |message| format!("{message:?}").contains("Request"));
    assert_eq!(asked, 0, "the pool is not even asked");
    for number in 200..220 {
        let options = PutOptions { replicas: 2, ..PutOptions::default() };
        let grant = cluster.put_start_with(WRITER, &key(number), MIB, &options).expect("one fits");
        assert_eq!(grant.replicas.len(), 1);
    }
    cluster.advance(5_000);
    assert_eq!(cluster.totals().evicted_objects, 0);
    assert_eq!(cluster.totals().put_short, 20);
    assert_eq!(readable(&mut cluster, 0..32).len(), 32);
}

// R16
#[test]
fn no_segment_at_all_is_another_answer_than_full() {
    let mut cluster = Cluster::new(2);
    let refusal = cluster.put_start(WRITER, b"k", MIB).expect_err("there is nothing");
    assert_eq!((refusal.code, refusal.no_space), (ErrorCode::NoSegment, None));
    cluster.mount(STORE, 1, 64 * MIB);
    cluster.put_start(WRITER, b"k", MIB).expect("there is room");
    cluster.unmount(None, SegmentId(STORE.0 << 64 | 1), 60_000).expect("mounted");
    let refusal = cluster.put_start(WRITER, b"l", MIB).expect_err("it drains");
    assert_eq!(refusal.code, ErrorCode::NoSegment);
    assert_eq!(cluster.totals().parked, 0);
}

#[test]
fn a_full_pool_says_precisely_what_holds_its_space() {
    let mut cluster = Cluster::new(1);
    cluster.mount(STORE, 1, 64 * MIB);
    let pinned = PutOptions { hard_pin: true, ..PutOptions::default() };
    crate::common::put_with(&mut cluster, b"pinned", 8 * MIB, &pinned);
    cluster.put(WRITER, b"leased", 16 * MIB).expect("there is room");
    cluster.get(b"leased").expect("readable");
    cluster.put_start(WRITER, b"writing", 31 * MIB).expect("there is room");
    let refusal = cluster.put_start(WRITER, b"k", 10 * MIB).expect_err("nine are free");
    assert_eq!(refusal.code, ErrorCode::NoSpace);
    assert!(refusal.retry_after_ms.is_some(), "the lease ends");
    let space = refusal.no_space.expect("it says why");
    assert_eq!(space.pinned_bytes, 8 * MIB);
    assert_eq!(space.leased_bytes, 16 * MIB);
    assert_eq!(space.held_bytes, 31 * MIB);
    assert_eq!(space.free_bytes, 9 * MIB);
    let largest_bytes = space.largest_free_run_bytes;
    assert!((4 * MIB..10 * MIB).contains(&largest_bytes), "{space:?}");
    cluster.put_start(WRITER, b"k", largest_bytes).expect("so much is in one run");
}

#[test]
fn a_pool_full_of_hard_pins_gives_no_hint_since_waiting_changes_nothing() {
    for shards in [1, 3] {
        let mut cluster = Cluster::new(shards);
        cluster.mount(STORE, 1, 8 * MIB);
        let pinned = PutOptions { hard_pin: true, ..PutOptions::default() };
        for number in 0..7 {
            crate::common::put_with(&mut cluster, &key(number), MIB, &pinned);
        }
        cluster.put(WRITER, b"read", MIB / 2).expect("there is room");
        cluster.get(b"read").expect("readable");
        cluster.advance(50);
        let start = |cluster: &mut Cluster| cluster.put_start(WRITER, b"k", MIB);
        let refusal = start(&mut cluster).expect_err("a lease is in the way");
        assert!(refusal.retry_after_ms.is_some(), "the lease ends: {refusal:?}");
        crate::common::put_with(&mut cluster, b"small", MIB / 4, &pinned);
        cluster.remove(b"read", true).expect("forced");
        cluster.advance(50);
        let refusal = start(&mut cluster).expect_err("too much is pinned");
        assert_eq!((refusal.code, refusal.retry_after_ms), (ErrorCode::NoSpace, None));
        cluster.advance(20_000);
        let refusal = start(&mut cluster).expect_err("pins do not end");
        assert_eq!((refusal.code, refusal.retry_after_ms), (ErrorCode::NoSpace, None));
        cluster.remove(&key(3), true).expect("there");
        cluster.advance(50);
        start(&mut cluster).expect("a pin is gone");
    }
}
