//! Thousands of huge segments: what they cost before they are used, and how much talk they cause.

use mooring_actors::pool::message::PoolOrder;
use mooring_actors::shard::message::ShardMessage;
use mooring_proto::message::object::PutOptions;

use crate::cluster::{Cluster, Envelope, TICK_MS};
use crate::common::{KIB, STORE, WRITER, key};

const TIB: u64 = 1 << 40;
const SHARDS: u16 = 2;
const SEGMENTS: u64 = 4_000;

/// What was delivered.
#[derive(Default)]
struct Talk {
    messages: u64,
    /// Segments of which shards were told the space.
    spaces: u64,
}

impl Talk {
    fn settle(&mut self, cluster: &mut Cluster) {
        while let Some(envelope) = cluster.queue.front() {
            self.messages += 1;
            if let Envelope::ToShard(_, ShardMessage::Pool(PoolOrder::Space(spaces))) = envelope {
                self.spaces += spaces.len() as u64;
            }
            cluster.deliver(0);
        }
    }

    fn tick(&mut self, cluster: &mut Cluster) {
        cluster.now = cluster.now.after_ms(TICK_MS);
        cluster.tick();
        self.settle(cluster);
    }
}

fn with_huge_segments() -> Cluster {
    let mut cluster = Cluster::new(SHARDS);
    cluster.checked = false;
    for number in 0..SEGMENTS {
        cluster.mount(STORE, u128::from(number), 64 * TIB);
    }
    cluster.advance(TICK_MS);
    cluster
}

/// Starts puts of 4 KiB side by side and lets a tick pass after each batch.
fn put_batches(cluster: &mut Cluster, talk: &mut Talk, batches: u64) {
    for batch in 0..batches {
        for number in 0..BATCH {
            let key = key(batch * BATCH + number);
            cluster.send_put_start(WRITER, &key, 4 * KIB, &PutOptions::default());
        }
        talk.settle(cluster);
        talk.tick(cluster);
        assert!(cluster.open.is_empty(), "there is room for all");
    }
    assert_eq!(cluster.totals().unfinished, batches * BATCH);
}

/// Memory of the shards for each segment and shard.
fn memory_bytes_each(cluster: &Cluster) -> u64 {
    let memory_bytes: u64 = cluster.shards.iter().map(|shard| shard.totals().memory_bytes).sum();
    memory_bytes / (SEGMENTS * u64::from(SHARDS))
}

#[test]
fn a_huge_segment_costs_a_few_kilobytes_until_it_is_filled() {
    let mut cluster = with_huge_segments();
    let each_bytes = memory_bytes_each(&cluster);
    assert!(each_bytes < KIB, "{each_bytes} bytes for a mounted segment in each shard");
    put_batches(&mut cluster, &mut Talk::default(), 500);
    let each_bytes = memory_bytes_each(&cluster);
    assert!(each_bytes < 16 * KIB, "{each_bytes} bytes for a used segment in each shard");
    cluster.check().unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn shards_hear_only_of_the_segments_whose_space_has_changed() {
    let mut cluster = with_huge_segments();
    let mut talk = Talk::default();
    put_batches(&mut cluster, &mut talk, 100);
    // Each put may bring its shard a span on another segment, of which each shard may be told, and
    // told again when most of the span has gone back.
    let puts = 100 * BATCH;
    assert!(talk.spaces <= 2 * puts * u64::from(SHARDS), "{} spaces were told", talk.spaces);
    assert!(talk.messages <= 12 * puts, "{} messages for {puts} puts", talk.messages);
}

/// Puts that are started side by side.
const BATCH: u64 = 64;
