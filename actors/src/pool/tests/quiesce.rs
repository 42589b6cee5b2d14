//! Coming to rest.

use mooring_proto::error::ErrorCode;

use super::fake_shard::Content;
use super::*;

/// Everybody else has come to rest, in this order of shards.
fn quiesce(bench: &mut Bench) {
    bench.send(PoolMessage::ClientsQuiesced);
    for shard in 0..bench.shards.len() as u16 {
        bench.report(shard, ShardReport::Quiesced);
    }
}

#[test]
fn the_pool_rests_when_the_last_marker_has_come_and_says_so_once_and_last() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 8 * MIB);
    bench.report(1, ShardReport::Quiesced);
    bench.send(PoolMessage::ClientsQuiesced);
    bench.report(1, ShardReport::Quiesced);
    assert!(!bench.pool.at_rest());
    assert_eq!(bench.at_rest, 0);
    assert_eq!(bench.take_orders(), []);
    bench.report(0, ShardReport::Quiesced);
    assert!(bench.pool.at_rest());
    let orders = bench.take_orders();
    assert_eq!(orders, [(0, PoolOrder::Quiesced), (1, PoolOrder::Quiesced)]);
    bench.send(PoolMessage::ClientsQuiesced);
    bench.wait_ms(1_000);
    assert_eq!(bench.at_rest, 1);
    assert_eq!(bench.take_orders(), []);
}

#[test]
fn until_the_last_marker_the_pool_goes_on_as_usual() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 8 * MIB);
    bench.shards[1].slow_sweep = true;
    bench.send(PoolMessage::ClientsQuiesced);
    bench.report(0, ShardReport::Quiesced);
    bench.mounted(2, 8 * MIB);
    bench.send(PoolMessage::ClientLost(ALICE));
    let until = bench.now.after_ms(5_000);
    let remnants = vec![Remnant { offset_bytes: 100, length_bytes: 50, until }];
    bench.report(1, ShardReport::Swept { mount, remnants });
    bench.report(1, ShardReport::Quiesced);
    let record = bench.pool.export(bench.now);
    let ranges: Vec<_> = record.remnants.iter().filter(|remnant| !remnant.whole).collect();
    assert_eq!(ranges.len(), 1);
    assert_eq!((ranges[0].address, ranges[0].length_bytes), ((1 << 32) + 100, 50));
}

#[test]
fn a_pool_at_rest_changes_nothing() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 8 * MIB);
    bench.mounted(2, 8 * MIB);
    bench.unmount(None, 2, 5_000);
    quiesce(&mut bench);
    bench.take_orders();
    let record = bench.pool.export(bench.now);
    let later = bench.now;
    bench.wait_ms(100_000);
    bench.send(PoolMessage::ClientLost(ALICE));
    bench.report(0, ShardReport::Usage(vec![usage(mount, 8 * MIB)]));
    bench.report(0, ShardReport::SpanRequest { mount, size_bytes: 1 });
    assert_eq!(bench.take_orders(), []);
    assert_eq!(bench.pool.export(later), record);
    let left = bench.pool.export(bench.now).segments[1].drain_left_ms;
    assert_eq!(left, Some(0), "its time goes on, but nothing comes of it");
}

#[test]
fn a_pool_at_rest_answers_questions_and_refuses_all_else() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    quiesce(&mut bench);
    assert_eq!(bench.table(), [0]);
    assert_eq!(bench.uses().len(), 1);
    assert_eq!(bench.totals().segments, 1);
    assert_eq!(bench.mount(BOB, segment(2, MIB)).unwrap_err().code, ErrorCode::Restarting);
    let again = bench.remount(ALICE, &[segment(1, 8 * MIB)]).unwrap_err();
    assert_eq!(again.code, ErrorCode::Restarting);
    let refused = bench.unmount(None, 1, 0).unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::Restarting);
    assert_eq!(bench.table(), [0]);
}

#[test]
fn an_unmount_that_still_waits_is_answered_as_restarting() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 8 * MIB);
    bench.answering = false;
    assert_eq!(bench.unmount(None, 1, 0), None);
    quiesce(&mut bench);
    let replies: Vec<_> = mem::take(&mut bench.replies).into_values().collect();
    let [PoolReply::Unmounted(Err(error))] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(error.code, ErrorCode::Restarting);
}

#[test]
fn a_search_for_room_is_given_up_with_what_it_has_reserved() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 16 * MIB);
    bench.fill_pages(mount);
    for shard in 0..2_u16 {
        for page in bench.shards[usize::from(shard)].own_pages(mount) {
            let content = Content { bytes: PAGE, ..Content::default() };
            bench.shards[usize::from(shard)].fill(mount, page, content);
        }
        let full = SegmentUsage { free_bytes: 0, ..usage(mount, 8 * MIB) };
        bench.report(shard, ShardReport::Usage(vec![full]));
    }
    bench.answering = false;
    bench.room(0, 1, 12 * MIB);
    bench.room(1, 1, 12 * MIB);
    // The surveys are answered, one of the orders to vacate is not.
    let chunks = vec![ChunkCost::default(); 4_096];
    for shard in 0..2 {
        bench.report(shard, ShardReport::Surveyed { survey: 1, chunks: chunks.clone() });
    }
    let orders = bench.take_orders();
    let vacates = sent(&orders, |order| match order {
        PoolOrder::Vacate { job, runs, .. } => Some((*job, runs.clone())),
        _ => None,
    });
    assert_eq!(vacates.len(), 2, "both have pages in the window");
    let (shard, (job, runs)) = vacates[0].clone();
    bench.report(shard, ShardReport::Vacated { job, runs });
    assert_eq!(bench.pool.free_pages(mount), 0, "what came back is reserved");
    quiesce(&mut bench);
    assert_eq!(
        bench.take_orders(),
        [(0, PoolOrder::Quiesced), (1, PoolOrder::Quiesced)],
        "nobody is answered: the shards have refused the puts themselves"
    );
    assert!(bench.pool.free_pages(mount) > 0);
}
