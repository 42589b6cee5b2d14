//! How full a pool gets before a put is refused, and that all of it comes back.

use mooring_actors::shard::message::ShardReply;
use mooring_proto::message::object::PutOptions;
use rand::Rng;

use crate::cluster::{Cluster, TICK_MS};
use crate::common::{GIB, KIB, MIB, STORE, WRITER, dice, key, no_watermark};

/// Puts objects that cannot be evicted until the first is refused; gives the share of the pool, in
/// thousandths, that their bytes fill. Everything is removed then, and the pool must be whole again.
fn filled_permille(shards: u16, mut size_bytes: impl FnMut(u64) -> u64) -> u64 {
    let mut cluster = Cluster::with(shards, no_watermark());
    cluster.checked = false;
    for number in 0..u128::from(SEGMENTS) {
        cluster.mount(STORE, number, SEGMENT_BYTES);
    }
    let options = PutOptions { hard_pin: true, ..PutOptions::default() };
    let mut filled_bytes = 0;
    for number in 0.. {
        let (key, bytes) = (key(number), size_bytes(number));
        let id = cluster.send_put_start(WRITER, &key, bytes, &options);
        cluster.settle();
        let ShardReply::Started(answers) = cluster.take_shard_answer(id) else {
            panic!("a start is answered otherwise");
        };
        let Ok(grant) = &answers[0] else { break };
        cluster.put_end(&key, grant.sequence).expect("the put is current");
        filled_bytes += bytes;
    }
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
    cluster.remove_all(true);
    // The pool hears of it with the next reports.
    cluster.advance(20 * TICK_MS);
    let totals = cluster.totals();
    assert_eq!((totals.objects, totals.allocated_bytes), (0, 0));
    for number in 0..SEGMENTS {
        let put = cluster.put_start(WRITER, &key(number), SEGMENT_BYTES);
        put.unwrap_or_else(|refusal| panic!("a whole segment: {refusal}"));
    }
    filled_bytes * 1000 / (SEGMENTS * SEGMENT_BYTES)
}

/// With one shard, two and eight: in a pool of 4 GiB what other shards have left of their spans counts.
fn check_filled(at_least_permille: [u64; 3], sizes: impl Fn() -> Box<dyn FnMut(u64) -> u64>) {
    for (shards, at_least) in [1, 2, 8].into_iter().zip(at_least_permille) {
        let filled = filled_permille(shards, sizes());
        assert!(filled >= at_least, "{filled} of 1000 with {shards} shards");
    }
}

#[test]
fn blocks_of_256_kib_fill_a_pool_to_its_last_byte() {
    check_filled([1000, 997, 986], || Box::new(|_| 256 * KIB));
}

#[test]
fn blocks_of_470_000_bytes_fill_a_pool() {
    check_filled([999, 993, 970], || Box::new(|_| 470_000));
}

// R13
#[test]
fn large_objects_beside_small_ones_fill_a_pool() {
    check_filled([995, 943, 880], || {
        let mut dice = dice(13);
        Box::new(move |number| match number % 8 {
            0 => dice.random_range(8 * MIB..=12 * MIB),
            _ => dice.random_range(256..=16 * KIB),
        })
    });
}

const SEGMENTS: u64 = 4;
const SEGMENT_BYTES: u64 = GIB;
