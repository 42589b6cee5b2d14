//! Unmount, drain, and the loss of a client.

use mooring_proto::error::ErrorCode;
use mooring_proto::message::inspect::SegmentState;

use super::*;

#[test]
fn an_unmount_is_answered_after_every_shard_has_confirmed() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 8 * MIB);
    bench.answering = false;
    assert_eq!(bench.unmount(Some(ALICE), 1, 0), None);
    let lost = PoolOrder::SegmentLost { mount };
    let orders = bench.take_orders();
    assert!(orders.contains(&(0, lost.clone())) && orders.contains(&(1, lost)));
    assert_eq!(bench.table(), [] as [u32; 0]);
    assert_eq!(bench.uses()[0].state, SegmentState::Leaving);
    assert_eq!(bench.client_segments[&ALICE], 0);
    assert_eq!(bench.unmount(None, 1, 0), None, "a repeated one waits too");
    bench.report(0, ShardReport::Confirmed { mount });
    assert_eq!(bench.replies.len(), 0);
    bench.report(1, ShardReport::Confirmed { mount });
    let replies: Vec<PoolReply> = std::mem::take(&mut bench.replies).into_values().collect();
    assert_eq!(replies, [PoolReply::Unmounted(Ok(0)), PoolReply::Unmounted(Ok(0))]);
    assert_eq!(bench.unmount(Some(ALICE), 1, 0), Some(Ok(0)), "confirmed, not swept yet");
}

#[test]
fn only_the_owner_or_an_administrator_unmounts() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    bench.mounted(2, 8 * MIB);
    for grace_ms in [0, 30_000] {
        let refused = bench.unmount(Some(BOB), 1, grace_ms).unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotOwner);
    }
    assert_eq!(bench.uses()[0].state, SegmentState::Open);
    assert_eq!(bench.unmount(None, 1, 0), Some(Ok(0)));
    assert_eq!(bench.unmount(Some(ALICE), 2, 0), Some(Ok(0)));
    let unknown = bench.unmount(None, 1, 0).unwrap().unwrap_err();
    assert_eq!(unknown.code, ErrorCode::SegmentNotFound);
}

#[test]
fn a_slot_is_used_again_only_after_every_shard_has_swept_it() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 8 * MIB);
    bench.shards[1].slow_sweep = true;
    assert_eq!(bench.unmount(None, 1, 0), Some(Ok(0)));
    let code = |result: Result<MountGrant, WireError>| result.unwrap_err();
    let same = code(bench.mount(ALICE, segment(1, 8 * MIB)));
    assert_eq!(same.code, ErrorCode::SegmentLeaving);
    assert!(same.retry_after_ms.is_some());
    let same_memory = Segment { segment: SegmentId(8), ..segment(1, 4 * MIB) };
    assert_eq!(code(bench.mount(BOB, same_memory)).code, ErrorCode::SegmentLeaving);
    assert_eq!(bench.mount(ALICE, segment(2, 8 * MIB)).unwrap().slot, 1);
    bench.report(1, ShardReport::Swept { mount, remnants: Vec::new() });
    let again = bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    assert_eq!((again.slot, again.generation), (0, 2));
}

#[test]
fn reports_about_a_former_mount_of_a_slot_change_nothing() {
    let mut bench = Bench::new(1);
    let old = bench.mounted(1, 8 * MIB);
    let run = bench.span(0, old, 1).unwrap();
    bench.unmount(None, 1, 0);
    let new = bench.mounted(2, 8 * MIB);
    assert_eq!(old.slot, new.slot);
    let free_pages = bench.pool.free_pages(new);
    bench.report(0, ShardReport::Usage(vec![usage(old, 8 * MIB)]));
    bench.report(0, ShardReport::Returned { mount: old, runs: vec![run], answer: false });
    bench.report(0, ShardReport::Confirmed { mount: old });
    bench.report(0, ShardReport::Swept { mount: old, remnants: Vec::new() });
    bench.report(0, ShardReport::SpanRequest { mount: old, size_bytes: 1 });
    assert_eq!(bench.take_orders(), [(0, PoolOrder::Deny { mount: old })]);
    assert_eq!(bench.pool.free_pages(new), free_pages);
    assert_eq!(bench.uses()[0].allocated_bytes, 0);
}

#[test]
fn a_draining_segment_takes_nothing_and_goes_at_its_deadline() {
    let mut bench = Bench::new(1);
    let mount = bench.mounted(1, 8 * MIB);
    assert_eq!(bench.unmount(Some(ALICE), 1, 30_000), Some(Ok(30_000)));
    let orders = bench.take_orders();
    assert_eq!(orders[0], (0, PoolOrder::SegmentPlaceable { mount, placeable: false }));
    assert!(orders.contains(&(0, PoolOrder::Space(Vec::new()))));
    bench.wait_ms(1_000);
    assert_eq!(bench.span(0, mount, 1), None);
    assert_eq!(refusals(&bench.room(0, 1, MIB)), [(0, None)]);
    assert_eq!(bench.uses()[0].state, SegmentState::Draining);
    assert_eq!(bench.uses()[0].time_left_ms, Some(29_000));
    assert_eq!(bench.table(), [0], "readers still find it");
    bench.wait_ms(28_999);
    assert_eq!(bench.table(), [0]);
    bench.take_orders();
    bench.wait_ms(1);
    assert!(bench.take_orders().contains(&(0, PoolOrder::SegmentLost { mount })));
    assert_eq!(bench.table(), [] as [u32; 0]);
}

#[test]
fn the_earliest_of_several_deadlines_holds() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    assert_eq!(bench.unmount(None, 1, 30_000), Some(Ok(30_000)));
    bench.wait_ms(1_000);
    assert_eq!(bench.unmount(None, 1, 5_000), Some(Ok(5_000)));
    bench.wait_ms(1_000);
    assert_eq!(bench.unmount(None, 1, 60_000), Some(Ok(4_000)));
    bench.wait_ms(3_999);
    assert_eq!(bench.table(), [0]);
    bench.wait_ms(1);
    assert_eq!(bench.table(), [] as [u32; 0]);
}

#[test]
fn the_death_of_the_owner_ends_a_drain_at_once() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    bench.unmount(Some(ALICE), 1, 30_000);
    bench.wait_ms(10_000);
    bench.send(PoolMessage::ClientLost(ALICE));
    assert_eq!(bench.table(), [] as [u32; 0]);
    // The timer of the drain must not hit who has the slot by then.
    bench.mounted(2, 8 * MIB);
    bench.wait_ms(30_000);
    assert_eq!(bench.table(), [0]);
}

#[test]
fn a_remount_does_not_end_a_drain() {
    let mut bench = Bench::new(1);
    let grant = bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    bench.unmount(Some(ALICE), 1, 30_000);
    assert_eq!(bench.remount(ALICE, &[segment(1, 8 * MIB)]).unwrap(), [grant]);
    assert_eq!(bench.uses()[0].state, SegmentState::Draining);
}

#[test]
fn a_lost_client_loses_all_its_segments_and_nobody_elses() {
    let mut bench = Bench::new(2);
    for number in [1, 2] {
        bench.mounted(number, 8 * MIB);
    }
    bench.mount(BOB, segment(3, 8 * MIB)).unwrap();
    let epochs = bench.epochs.len();
    bench.send(PoolMessage::ClientLost(ALICE));
    assert_eq!(bench.epochs.len(), epochs + 1);
    assert_eq!(bench.table(), [2]);
    assert_eq!((bench.client_segments[&ALICE], bench.client_segments[&BOB]), (0, 1));
    bench.send(PoolMessage::ClientLost(ClientId(99)));
    assert_eq!(bench.table(), [2]);
}

#[test]
fn a_waiting_span_request_is_refused_when_its_segment_is_lost() {
    let mut bench = Bench::new(2);
    let mount = bench.mounted(1, 16 * MIB);
    bench.fill_pages(mount);
    let free = SegmentUsage { free_bytes: 8 * MIB, ..usage(mount, 0) };
    bench.report(1, ShardReport::Usage(vec![free]));
    bench.answering = false;
    assert_eq!(bench.span(0, mount, MIB), None);
    let orders = bench.take_orders();
    assert!(!orders.iter().any(|(_, order)| matches!(order, PoolOrder::Deny { .. })));
    bench.send(PoolMessage::ClientLost(ALICE));
    assert!(bench.take_orders().contains(&(0, PoolOrder::Deny { mount })));
    let late = ShardReport::Returned { mount, runs: Vec::new(), answer: true };
    bench.report(1, late);
    assert_eq!(bench.take_orders(), []);
}
