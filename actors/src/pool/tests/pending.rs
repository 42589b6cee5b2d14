//! Segments that were handed over, until their owners come back.

use mooring_proto::error::ErrorCode;
use mooring_proto::message::inspect::SegmentState;

use super::handover::{NEXT, next_config, restore, restore_with};
use super::*;

/// A master with these segments of Alice, 8 MiB each, hands over to one with two shards.
fn handed_over(numbers: &[u64]) -> Bench {
    let mut bench = Bench::new(2);
    for &number in numbers {
        bench.mounted(number, 8 * MIB);
    }
    restore(2, &bench.pool.export(bench.now))
}

fn opened(bench: &mut Bench) -> Vec<(u16, bool)> {
    sent(&bench.take_orders(), |order| match order {
        PoolOrder::SegmentOpened { placeable, .. } => Some(*placeable),
        _ => None,
    })
}

fn lost(bench: &mut Bench) -> Vec<u16> {
    let orders = bench.take_orders();
    let lost = sent(&orders, |order| match order {
        PoolOrder::SegmentLost { mount } => Some(mount.slot.0),
        _ => None,
    });
    lost.into_iter().filter(|&(shard, _)| shard == 0).map(|(_, slot)| slot).collect()
}

/// Pending, confirmed, dropped.
fn counts(bench: &mut Bench) -> [u64; 3] {
    let totals = bench.totals();
    [totals.segments_pending, totals.segments_confirmed, totals.segments_dropped]
}

#[test]
fn a_pending_segment_is_neither_in_the_table_nor_placed_on() {
    let mut bench = handed_over(&[1]);
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    bench.wait_ms(1_000);
    assert_eq!(bench.table(), [] as [u32; 0]);
    assert_eq!(bench.span(0, mount, 1), None);
    assert_eq!(refusals(&bench.room(0, 1, MIB)), [(0, Some(1_000))], "it may open soon");
    let uses = bench.uses();
    assert_eq!((uses[0].state, uses[0].time_left_ms), (SegmentState::Pending, None));
    assert_eq!(bench.client_segments[&ALICE], 1, "its owner is judged all the same");
    assert_eq!(counts(&mut bench), [1, 0, 0]);
    assert_eq!(bench.totals().capacity_bytes, 8 * MIB);
}

#[test]
fn a_pending_segment_is_not_evicted_from_until_it_is_open() {
    let mut bench = handed_over(&[1]);
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    bench.report(0, ShardReport::Usage(vec![usage(mount, 8 * MIB)]));
    assert_eq!(evictions(&bench.take_orders()), []);
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    assert_eq!(evictions(&bench.take_orders()).len(), 1);
}

#[test]
fn a_mount_of_the_identical_segment_opens_it() {
    for mounted_with in [None, Some(INCARNATION)] {
        let mut bench = handed_over(&[1, 2]);
        let grant = bench.mount_again(ALICE, segment(2, 8 * MIB), mounted_with).unwrap();
        assert_eq!((grant.slot, grant.generation, grant.incarnation), (1, 2, NEXT));
        assert_eq!(bench.epochs.len(), 1);
        assert_eq!(opened(&mut bench), [(0, true), (1, true)]);
        assert_eq!(bench.table(), [1]);
        assert_eq!(bench.uses()[1].state, SegmentState::Open);
        assert_eq!(counts(&mut bench), [1, 1, 0], "it speaks of that segment alone");
        let again = bench.mount_again(ALICE, segment(2, 8 * MIB), mounted_with).unwrap();
        assert_eq!(again, grant);
        assert_eq!(opened(&mut bench), [], "once is enough");
        let mount = bench.pool.mount_of(SegmentId(2)).unwrap();
        assert!(bench.span(0, mount, 1).is_some());
    }
}

#[test]
fn a_remount_opens_what_it_lists_and_drops_what_it_does_not() {
    let mut bench = handed_over(&[1, 2, 3]);
    let grants = bench.remount(ALICE, &[segment(3, 8 * MIB), segment(1, 8 * MIB)]).unwrap();
    assert_eq!(grants.iter().map(|grant| grant.slot).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(lost(&mut bench), [1]);
    assert_eq!(counts(&mut bench), [0, 2, 1]);
    assert_eq!(bench.client_segments[&ALICE], 2);
    let fresh = bench.mount(ALICE, segment(2, 8 * MIB)).unwrap();
    assert_eq!(fresh.generation, 3, "what was dropped comes back empty");
}

#[test]
fn a_remount_of_another_client_drops_nothing() {
    let mut bench = handed_over(&[1]);
    bench.remount(BOB, &[]).unwrap();
    assert_eq!(counts(&mut bench), [1, 0, 0]);
}

#[test]
fn any_other_identity_loses_the_segment_as_a_whole_and_is_mounted_when_it_is_swept() {
    let same = segment(1, 8 * MIB);
    let base = same.base;
    let others = [
        (BOB, same.clone(), None),
        (ALICE, Segment { base: base + PAGE, ..same.clone() }, None),
        (ALICE, Segment { size_bytes: 4 * MIB, ..same.clone() }, None),
        (ALICE, Segment { endpoint: "10.0.0.2:9100".to_owned(), ..same.clone() }, None),
        (ALICE, Segment { certificate_sha256: Some([1; 32]), ..same.clone() }, None),
        (ALICE, same.clone(), Some(Incarnation(6))),
        (ALICE, same.clone(), Some(NEXT)),
        (BOB, Segment { segment: SegmentId(9), base: base + 7 * MIB, ..same.clone() }, None),
        (ALICE, Segment { segment: SegmentId(9), ..same.clone() }, None),
    ];
    for (client, other, mounted_with) in others {
        let mut bench = handed_over(&[1, 2]);
        bench.shards[1].slow_sweep = true;
        let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
        let error = bench.mount_again(client, other.clone(), mounted_with).unwrap_err();
        assert_eq!(error.code, ErrorCode::SegmentLeaving, "{other:?}");
        assert!(error.retry_after_ms.is_some());
        assert_eq!(lost(&mut bench), [0]);
        assert_eq!(counts(&mut bench), [1, 0, 1]);
        let waits = bench.mount_again(client, other.clone(), mounted_with).unwrap_err();
        assert_eq!(waits.code, ErrorCode::SegmentLeaving);
        bench.report(1, ShardReport::Swept { mount, remnants: Vec::new() });
        bench.mount_again(client, other.clone(), mounted_with).unwrap();
        assert_eq!(counts(&mut bench), [1, 0, 1], "{other:?}");
        assert_eq!(bench.client_segments[&client], if client == ALICE { 2 } else { 1 });
    }
}

#[test]
fn what_readers_and_writers_may_use_of_a_dropped_segment_is_withheld_from_the_next_one() {
    let mut bench = handed_over(&[1]);
    let until = bench.now.after_ms(10_000);
    bench.shards[0].remnants = vec![Remnant { offset_bytes: 0, length_bytes: MIB, until }];
    let other = Segment { segment: SegmentId(9), ..segment(1, 8 * MIB) };
    bench.mount(BOB, other.clone()).unwrap_err();
    bench.mount(BOB, other).unwrap();
    let mount = bench.pool.mount_of(SegmentId(9)).unwrap();
    assert_eq!(bench.pool.free_pages(mount), (7 * MIB / (32 << 10)) as u32);
}

#[test]
fn one_large_segment_drops_all_that_it_overlaps() {
    let mut bench = Bench::new(2);
    for number in 0..4 {
        let part = Segment { base: (1 << 32) + number * 8 * MIB, ..segment(number + 1, 8 * MIB) };
        bench.mount(ALICE, part).unwrap();
    }
    let mut bench = restore(2, &bench.pool.export(bench.now));
    let large =
        Segment { segment: SegmentId(9), base: (1 << 32) + 8 * MIB, ..segment(1, 16 * MIB) };
    bench.mount(BOB, large.clone()).unwrap_err();
    assert_eq!(lost(&mut bench), [1, 2]);
    bench.mount(BOB, large).unwrap();
    assert_eq!(counts(&mut bench), [2, 0, 2]);
}

#[test]
fn a_request_that_is_refused_for_another_reason_drops_and_opens_nothing() {
    let mut bench = handed_over(&[1, 2]);
    let moved = Segment { base: 99 << 32, ..segment(1, 8 * MIB) };
    let odd = Segment { base: 0, ..segment(7, 8 * MIB) };
    let error = bench.remount(ALICE, &[segment(2, 8 * MIB), moved, odd]).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidSegment);
    assert_eq!(counts(&mut bench), [2, 0, 0]);
}

#[test]
fn a_remount_with_one_other_segment_opens_none_until_that_is_swept() {
    let mut bench = handed_over(&[1, 2]);
    let segments = [segment(2, 8 * MIB), Segment { base: 99 << 32, ..segment(1, 8 * MIB) }];
    let error = bench.remount(ALICE, &segments).unwrap_err();
    assert_eq!(error.code, ErrorCode::SegmentLeaving);
    assert_eq!(counts(&mut bench), [1, 0, 1]);
    assert_eq!(bench.remount(ALICE, &segments).unwrap().len(), 2);
    assert_eq!(counts(&mut bench), [0, 1, 1]);
}

#[test]
fn a_lost_client_loses_its_pending_segments() {
    let mut bench = handed_over(&[1, 2]);
    bench.send(PoolMessage::ClientLost(BOB));
    assert_eq!(counts(&mut bench), [2, 0, 0]);
    bench.send(PoolMessage::ClientLost(ALICE));
    assert_eq!(counts(&mut bench), [0, 0, 2]);
    assert_eq!(bench.client_segments[&ALICE], 0);
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    assert_eq!(counts(&mut bench), [0, 0, 2]);
}

#[test]
fn an_owner_that_takes_too_long_loses_its_segment() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    bench.mounted(2, 8 * MIB);
    let record = bench.pool.export(bench.now);
    let config = PoolConfig { pending_timeout_ms: Some(60_000), ..next_config(1) };
    let mut bench = restore_with(config, &record, vec![Vec::new()]);
    bench.wait_ms(1_000);
    assert_eq!(bench.uses()[0].time_left_ms, Some(59_000));
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    bench.wait_ms(58_999);
    assert_eq!(counts(&mut bench), [1, 1, 0]);
    bench.wait_ms(1);
    assert_eq!(counts(&mut bench), [0, 1, 1]);
    bench.wait_ms(60_000);
    assert_eq!(bench.table(), [0], "what has opened has no deadline");
}

#[test]
fn the_owner_or_an_administrator_unmounts_a_pending_segment() {
    let mut bench = handed_over(&[1, 2]);
    let refused = bench.unmount(Some(BOB), 1, 0).unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotOwner);
    bench.answering = false;
    assert_eq!(bench.unmount(Some(ALICE), 1, 0), None, "it waits for the shards");
    let mount = Mount { slot: SegmentSlot(0), generation: Generation(2) };
    bench.report(0, ShardReport::Confirmed { mount });
    bench.report(1, ShardReport::Confirmed { mount });
    assert_eq!(bench.replies.len(), 1);
    bench.answering = true;
    assert_eq!(bench.unmount(None, 2, 0), Some(Ok(0)));
    assert_eq!(counts(&mut bench), [0, 0, 2]);
}

#[test]
fn a_drain_goes_on_when_its_segment_opens() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    bench.unmount(None, 1, 30_000);
    bench.wait_ms(10_000);
    let mut bench = restore(1, &bench.pool.export(bench.now));
    bench.wait_ms(5_000);
    assert_eq!(bench.uses()[0].time_left_ms, Some(15_000));
    assert_eq!(refusals(&bench.room(0, 1, MIB)), [(0, None)], "it will never take anything");
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    assert_eq!(opened(&mut bench), [(0, false)]);
    let uses = bench.uses();
    assert_eq!((uses[0].state, uses[0].time_left_ms), (SegmentState::Draining, Some(15_000)));
    assert_eq!(bench.table(), [0]);
    bench.wait_ms(15_000);
    assert_eq!(bench.table(), [] as [u32; 0]);
}

#[test]
fn a_drain_that_ends_or_begins_while_its_segment_is_pending_holds() {
    let mut bench = handed_over(&[1, 2]);
    assert_eq!(bench.unmount(None, 1, 30_000), Some(Ok(30_000)));
    assert_eq!(bench.unmount(None, 2, 40_000), Some(Ok(40_000)));
    bench.wait_ms(10_000);
    assert_eq!(bench.unmount(None, 1, 60_000), Some(Ok(20_000)), "the earliest one holds");
    bench.mount(ALICE, segment(2, 8 * MIB)).unwrap();
    bench.wait_ms(20_000);
    assert_eq!(counts(&mut bench), [0, 1, 1]);
    assert_eq!(bench.uses()[0].state, SegmentState::Draining);
    bench.wait_ms(10_000);
    assert_eq!(bench.table(), [] as [u32; 0]);
}

#[test]
fn a_quarantine_goes_on_and_no_new_one_begins() {
    let mut bench = Bench::new(1);
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(Incarnation(6))).unwrap();
    bench.wait_ms(4_000);
    let record = bench.pool.export(bench.now);
    assert_eq!(record.segments[0].mounted_with, INCARNATION);
    let mut early = restore(1, &record);
    early.wait_ms(1_000);
    early.mount_again(ALICE, segment(1, 8 * MIB), Some(INCARNATION)).unwrap();
    assert_eq!(opened(&mut early), [(0, false)]);
    assert_eq!(early.uses()[0].time_left_ms, Some(5_000));
    early.wait_ms(5_000);
    assert_eq!(early.uses()[0].state, SegmentState::Open);

    let mut late = restore(1, &record);
    late.wait_ms(6_000);
    late.mount_again(ALICE, segment(1, 8 * MIB), Some(INCARNATION)).unwrap();
    assert_eq!(opened(&mut late), [(0, true)]);

    let mut gone = restore(1, &record);
    gone.wait_ms(2_000);
    gone.send(PoolMessage::ClientLost(ALICE));
    gone.mount(BOB, segment(1, 8 * MIB)).unwrap();
    assert_eq!(gone.uses()[0].time_left_ms, Some(4_000), "it holds for the memory");
}

#[test]
fn a_segment_that_is_still_pending_is_handed_on_as_it_was_mounted() {
    let mut bench = handed_over(&[1, 2]);
    bench.mount(ALICE, segment(2, 8 * MIB)).unwrap();
    let record = bench.pool.export(bench.now);
    let with: Vec<_> = record.segments.iter().map(|known| known.mounted_with).collect();
    assert_eq!(with, [INCARNATION, NEXT]);
    let third = PoolConfig::new(1, Incarnation(9));
    let mut bench = restore_with(third, &record, vec![Vec::new()]);
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(INCARNATION)).unwrap();
    bench.mount_again(ALICE, segment(2, 8 * MIB), Some(NEXT)).unwrap();
    assert_eq!(counts(&mut bench), [0, 2, 0]);
}

#[test]
fn pages_come_back_from_a_pending_segment() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 64 * MIB);
    let record = bench.pool.export(bench.now);
    let owned = vec![vec![(SegmentSlot(0), vec![PageRun::new(0, 8)])]];
    let mut bench = restore_with(next_config(1), &record, owned);
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    let runs = vec![PageRun::new(2, 3)];
    bench.report(0, ShardReport::Returned { mount, runs, answer: false });
    assert_eq!(bench.pool.free_pages(mount), 1_024 - 5);
}

#[test]
fn a_store_that_cannot_name_its_former_master_comes_back_by_its_identity_alone() {
    let mut bench = Bench::new(2);
    let known = mooncake(segment(1, 8 * MIB), "node");
    bench.mount(ALICE, known.clone()).unwrap();
    let handover = bench.pool.export(bench.now);
    let mut bench = restore(2, &handover);
    bench.mount_again(ALICE, known.clone(), Some(Incarnation::UNNAMED)).unwrap();
    assert_eq!(counts(&mut bench), [0, 1, 0]);
    let mut bench = restore(2, &handover);
    bench.mount_again(ALICE, known.clone(), Some(Incarnation(6))).unwrap_err();
    assert_eq!(counts(&mut bench), [0, 0, 1], "one that can is held to what it says");
    let mut bench = restore(2, &handover);
    let renamed = mooncake(segment(1, 8 * MIB), "other");
    bench.mount_again(ALICE, renamed, Some(Incarnation::UNNAMED)).unwrap_err();
    assert_eq!(counts(&mut bench), [0, 0, 1]);
}

#[test]
fn memory_of_a_master_that_nobody_names_rests_before_it_is_used_again() {
    let mut bench = Bench::new(1);
    let known = mooncake(segment(1, 8 * MIB), "node");
    bench.mount_again(ALICE, known, Some(Incarnation::UNNAMED)).unwrap();
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
}

#[test]
fn a_store_that_cannot_name_its_master_may_mount_again_what_is_mounted() {
    let mut bench = Bench::new(1);
    let known = mooncake(segment(1, 8 * MIB), "node");
    let grant = bench.mount(ALICE, known.clone()).unwrap();
    for _ in 0..2 {
        let again = bench.mount_again(ALICE, known.clone(), Some(Incarnation::UNNAMED));
        assert_eq!(again.unwrap(), grant);
    }
    assert_eq!(bench.uses()[0].state, SegmentState::Open);
    let mut bench = Bench::new(1);
    for _ in 0..3 {
        bench.mount_again(ALICE, known.clone(), Some(Incarnation::UNNAMED)).unwrap();
        bench.wait_ms(4_000);
    }
    assert_eq!(bench.uses()[0].state, SegmentState::Open, "it rests once");
}
