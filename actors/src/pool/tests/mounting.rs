//! Mount, remount, and what memory that comes back has to wait for.

use mooring_proto::error::ErrorCode;
use mooring_proto::message::inspect::SegmentState;

use super::super::remnants::Remnants;
use super::*;

fn digest(segments: &[u128]) -> SegmentsDigest {
    segments.iter().copied().map(SegmentId).collect()
}

#[test]
fn a_mount_tells_every_shard_and_then_answers() {
    let mut bench = Bench::new(2);
    let grant = bench.mount(ALICE, segment(1, 64 * MIB + 100)).unwrap();
    assert_eq!(grant, MountGrant { slot: 0, generation: 1, incarnation: INCARNATION });
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    let orders = bench.take_orders();
    for shard in 0..2 {
        let own: Vec<_> = orders.iter().filter(|(to, _)| *to == shard).map(|(_, o)| o).collect();
        let capacity_bytes = 64 * MIB;
        let mounted = PoolOrder::SegmentMounted {
            mount,
            segment: SegmentId(1),
            capacity_bytes,
            page_bytes: PAGE as u32,
            rests_until: None,
        };
        let space = SegmentSpace {
            mount,
            free_bytes: capacity_bytes,
            largest_free_run_bytes: capacity_bytes,
        };
        assert_eq!(own, [&mounted, &PoolOrder::Space(vec![space])]);
    }
    assert_eq!(bench.epochs, [1]);
    assert_eq!(bench.client_segments[&ALICE], 1);
}

#[test]
fn generations_start_above_the_first_one() {
    let config = PoolConfig { first_generation: 41, ..PoolConfig::new(1, INCARNATION) };
    let mut bench = Bench::with(config);
    assert_eq!(bench.mount(ALICE, segment(1, MIB)).unwrap().generation, 42);
}

#[test]
fn each_field_out_of_its_range_is_named() {
    let mut bench = Bench::new(1);
    let good = segment(1, MIB);
    let faults = [
        ("size_bytes", Segment { size_bytes: 4_095, ..good.clone() }),
        ("size_bytes", Segment { size_bytes: (64 << 40) + 1, ..good.clone() }),
        ("base is zero", Segment { base: 0, ..good.clone() }),
        ("base + size_bytes", Segment { base: u64::MAX - 4_096, ..good.clone() }),
        ("endpoint", Segment { endpoint: String::new(), ..good.clone() }),
        ("endpoint", Segment { endpoint: "x".repeat(256), ..good.clone() }),
    ];
    for (field, fault) in faults {
        let error = bench.mount(ALICE, fault).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidSegment);
        assert!(error.text.contains(field), "{}", error.text);
    }
    assert_eq!(bench.table(), [] as [u32; 0]);
    assert_eq!(bench.epochs, [] as [u64; 0]);
    bench.mount(ALICE, Segment { endpoint: "x".repeat(255), ..good }).unwrap();
}

#[test]
fn memory_that_overlaps_is_refused_for_one_client_and_for_one_endpoint() {
    let mut bench = Bench::new(1);
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    let inside = Segment { base: (1 << 32) + MIB, ..segment(2, MIB) };
    let elsewhere = Segment { endpoint: "10.0.0.2:9100".to_owned(), ..inside.clone() };
    let around = Segment { base: (1 << 32) - MIB, ..segment(3, 16 * MIB) };
    let code = |result: Result<MountGrant, WireError>| result.unwrap_err().code;
    assert_eq!(code(bench.mount(ALICE, inside.clone())), ErrorCode::SegmentOverlap);
    assert_eq!(code(bench.mount(ALICE, elsewhere.clone())), ErrorCode::SegmentOverlap);
    assert_eq!(code(bench.mount(ALICE, around)), ErrorCode::SegmentOverlap);
    assert_eq!(code(bench.mount(BOB, inside)), ErrorCode::SegmentOverlap);
    bench.mount(BOB, elsewhere).unwrap();
    let next_to = Segment { base: (1 << 32) + 8 * MIB, ..segment(4, MIB) };
    bench.mount(ALICE, next_to).unwrap();
}

#[test]
fn a_known_id_with_another_identity_is_a_conflict_and_the_old_segment_stays() {
    let mut bench = Bench::new(1);
    let known = segment(1, 8 * MIB);
    let grant = bench.mount(ALICE, known.clone()).unwrap();
    for other in [
        Segment { base: known.base + MIB, ..known.clone() },
        Segment { size_bytes: 4 * MIB, ..known.clone() },
        Segment { endpoint: "10.0.0.9:1".to_owned(), ..known.clone() },
        Segment { certificate_sha256: Some([1; 32]), ..known.clone() },
        mooncake(known.clone(), "node"),
    ] {
        assert_eq!(bench.mount(ALICE, other).unwrap_err().code, ErrorCode::SegmentConflict);
    }
    let other_owner = bench.mount(BOB, known.clone()).unwrap_err();
    assert_eq!(other_owner.code, ErrorCode::SegmentConflict);
    assert_eq!(bench.mount(ALICE, known).unwrap(), grant);
    assert_eq!(bench.totals().capacity_bytes, 8 * MIB);
}

#[test]
fn a_transfer_engine_and_its_names_belong_to_the_identity() {
    let mut bench = Bench::new(1);
    let known = mooncake(segment(1, 8 * MIB), "node");
    let grant = bench.mount(ALICE, known.clone()).unwrap();
    let engine = known.transfer_engine.clone().unwrap();
    for other in [
        TransferEngine { name: "other".to_owned(), ..engine.clone() },
        TransferEngine { protocol: "rdma".to_owned(), ..engine.clone() },
        TransferEngine { host: "10.0.0.2".to_owned(), ..engine.clone() },
    ] {
        let other = Segment { transfer_engine: Some(other), ..known.clone() };
        assert_eq!(bench.mount(ALICE, other).unwrap_err().code, ErrorCode::SegmentConflict);
    }
    let error = bench.mount(ALICE, mooncake(segment(2, MIB), &"x".repeat(256))).unwrap_err();
    assert!(error.text.contains("transfer_engine.name has 256 bytes"), "{}", error.text);
    assert_eq!(bench.mount(ALICE, known).unwrap(), grant);
    bench.mount(BOB, Segment { base: 9 << 32, ..mooncake(segment(3, MIB), "node") }).unwrap();
}

#[test]
fn memory_that_readers_reach_in_two_ways_is_never_mounted_together() {
    let mut bench = Bench::new(1);
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    let other = mooncake(segment(2, MIB), "node");
    let error = bench.mount(BOB, other.clone()).unwrap_err();
    assert_eq!(error.code, ErrorCode::SegmentConflict);
    assert!(error.text.contains("run a master for each"), "{}", error.text);
    let both = [segment(1, 8 * MIB), other.clone()];
    assert_eq!(bench.remount(ALICE, &both).unwrap_err().code, ErrorCode::SegmentConflict);
    assert_eq!(bench.table(), [0]);
    let mut bench = Bench::new(1);
    assert_eq!(bench.remount(ALICE, &both).unwrap_err().code, ErrorCode::SegmentConflict);
    assert_eq!(bench.table(), [] as [u32; 0]);
    bench.mount(BOB, other).unwrap();
}

#[test]
fn a_hundred_remounts_of_a_mounted_segment_change_nothing() {
    let mut bench = Bench::new(4);
    let grant = bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    bench.take_orders();
    for _ in 0..100 {
        assert_eq!(bench.remount(ALICE, &[segment(1, 8 * MIB)]).unwrap(), [grant]);
    }
    assert_eq!(bench.take_orders(), []);
    assert_eq!(bench.epochs, [1]);
    assert_eq!(bench.totals().capacity_bytes, 8 * MIB);
    assert_eq!(bench.client_segments[&ALICE], 1);
}

#[test]
fn a_remount_mounts_all_or_nothing() {
    let mut bench = Bench::new(1);
    let mut segments: Vec<Segment> = (1..=5).map(|number| segment(number, MIB)).collect();
    bench.mount(ALICE, segments[0].clone()).unwrap();
    segments[4].base = segments[3].base + 4_096;
    let error = bench.remount(ALICE, &segments).unwrap_err();
    assert_eq!(error.code, ErrorCode::SegmentOverlap, "two entries overlap each other");
    assert_eq!(bench.table(), [0]);
    segments[4] = Segment { base: 9 << 32, ..segments[3].clone() };
    let error = bench.remount(ALICE, &segments).unwrap_err();
    assert_eq!(error.code, ErrorCode::SegmentConflict, "two entries with one id");
    assert_eq!(bench.table(), [0]);
    segments[4] = segments[3].clone();
    let grants = bench.remount(ALICE, &segments).unwrap();
    assert_eq!(grants.iter().map(|grant| grant.slot).collect::<Vec<_>>(), [0, 1, 2, 3, 3]);
    assert_eq!(bench.client_segments[&ALICE], 4);
    assert_eq!(bench.epochs, [1, 2], "one change of the table for all of them");
}

// The answer to the mount of the second one never came, and its owner has given it up.
#[test]
fn a_segment_that_its_owner_does_not_list_is_gone_once_it_was_not_named_for_a_ttl() {
    let mut bench = Bench::new(2);
    let grant = bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    bench.mount(ALICE, segment(2, 8 * MIB)).unwrap();
    assert_eq!(bench.client_kept[&ALICE], digest(&[1, 2]));
    bench.wait_ms(9_999);
    assert_eq!(bench.remount(ALICE, &[segment(1, 8 * MIB)]).unwrap(), [grant]);
    assert_eq!(bench.table(), [0, 1], "a mount may still be asked for again, or overtake the list");
    bench.wait_ms(1);
    assert_eq!(bench.remount(BOB, &[]).unwrap(), []);
    assert_eq!(bench.table(), [0, 1], "what others list says nothing of it");
    assert_eq!(bench.remount(ALICE, &[segment(1, 8 * MIB)]).unwrap(), [grant]);
    assert_eq!((bench.table(), bench.unlisted.as_slice()), (vec![0], &[SegmentId(2)][..]));
    assert_eq!((bench.client_segments[&ALICE], bench.client_kept[&ALICE]), (1, digest(&[1])));
    assert_eq!(bench.totals().capacity_bytes, 8 * MIB);
}

#[test]
fn a_segment_counts_as_named_with_each_mount_of_it_and_with_each_list() {
    let mut bench = Bench::new(1);
    let (first, second) = (segment(1, 8 * MIB), segment(2, 8 * MIB));
    bench.remount(ALICE, &[first.clone(), second.clone()]).unwrap();
    bench.wait_ms(9_000);
    bench.mount(ALICE, first.clone()).unwrap();
    bench.remount(ALICE, std::slice::from_ref(&second)).unwrap();
    bench.wait_ms(9_999);
    bench.remount(ALICE, &[]).unwrap();
    assert_eq!(bench.table(), [0, 1]);
    bench.wait_ms(1);
    bench.remount(ALICE, &[]).unwrap();
    assert_eq!(bench.table(), [] as [u32; 0]);
    assert_eq!(bench.totals(), PoolTotals::default());
}

#[test]
fn a_list_may_leave_out_what_drains_and_takes_nothing_from_a_client_of_mooncake() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    bench.unmount(Some(ALICE), 1, 60_000);
    assert_eq!((bench.client_segments[&ALICE], bench.client_kept[&ALICE]), (1, digest(&[])));
    bench.wait_ms(20_000);
    bench.remount(ALICE, &[]).unwrap();
    assert_eq!(bench.uses()[0].state, SegmentState::Draining);
    let mut bench = Bench::new(1);
    bench.mount(ALICE, mooncake(segment(1, 8 * MIB), "node")).unwrap();
    assert_eq!((bench.client_segments[&ALICE], bench.client_kept[&ALICE]), (1, digest(&[])));
    bench.wait_ms(20_000);
    bench.remount(ALICE, &[]).unwrap();
    assert_eq!(bench.table(), [0], "as its own master keeps it");
}

// Whatever its owner has said of it last counts, and what others do to it does not.
#[test]
fn a_segment_is_kept_from_its_mount_until_its_owner_asks_for_its_end() {
    let mut bench = Bench::new(1);
    let both = [segment(1, 8 * MIB), segment(2, 8 * MIB)];
    let kept = |bench: &Bench| bench.client_kept[&ALICE];
    bench.remount(ALICE, &both).unwrap();
    assert_eq!(kept(&bench), digest(&[2, 1]));
    bench.unmount(None, 1, 60_000);
    assert_eq!(kept(&bench), digest(&[1, 2]), "its owner knows nothing of that");
    bench.unmount(Some(ALICE), 1, 60_000);
    assert_eq!(kept(&bench), digest(&[2]));
    bench.mount(ALICE, both[0].clone()).unwrap();
    assert_eq!(kept(&bench), digest(&[1, 2]));
    bench.unmount(Some(ALICE), 1, 60_000);
    bench.remount(ALICE, &both[1..]).unwrap();
    assert_eq!(kept(&bench), digest(&[2]), "it is left out of the list");
    bench.remount(ALICE, &both).unwrap();
    assert_eq!(kept(&bench), digest(&[1, 2]));
    bench.unmount(Some(ALICE), 2, 0);
    assert_eq!(kept(&bench), digest(&[1]));
    bench.wait_ms(60_000);
    assert_eq!((bench.client_segments[&ALICE], kept(&bench)), (0, digest(&[])));
}

// The same memory, cut otherwise, by a store that has given up what was mounted before.
#[test]
fn memory_of_a_segment_that_is_not_listed_is_mounted_under_another_id_when_that_is_swept() {
    let mut bench = Bench::new(1);
    bench.mount(ALICE, segment(1, 8 * MIB)).unwrap();
    let other = Segment { segment: SegmentId(2), size_bytes: 4 * MIB, ..segment(1, 8 * MIB) };
    let again = std::slice::from_ref(&other);
    assert_eq!(bench.remount(ALICE, again).unwrap_err().code, ErrorCode::SegmentOverlap);
    bench.wait_ms(10_000);
    assert_eq!(bench.mount(ALICE, other.clone()).unwrap_err().code, ErrorCode::SegmentOverlap);
    let error = bench.remount(ALICE, again).unwrap_err();
    assert_eq!((error.code, error.retry_after_ms), (ErrorCode::SegmentLeaving, Some(100)));
    assert_eq!(bench.remount(ALICE, again).unwrap()[0].generation, 2);
    assert_eq!(bench.totals().capacity_bytes, 4 * MIB);
}

#[test]
fn a_remount_above_its_limit_is_too_large() {
    let mut bench = Bench::new(1);
    let segments: Vec<Segment> = (1..=4_097).map(|number| segment(number, 4_096)).collect();
    assert_eq!(bench.remount(ALICE, &segments).unwrap_err().code, ErrorCode::TooLarge);
    assert_eq!(bench.remount(ALICE, &segments[1..]).unwrap().len(), 4_096);
    assert_eq!(bench.remount(BOB, &[]).unwrap(), []);
    assert_eq!(bench.client_segments[&BOB], 0, "a client without memory is told of too");
}

#[test]
fn memory_of_a_former_master_rests_for_one_lease_time() {
    let mut bench = Bench::new(1);
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(Incarnation(6))).unwrap();
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    let end = bench.now.after_ms(10_000);
    let rests = |(_, order): &(_, PoolOrder)| matches!(order, PoolOrder::SegmentMounted { rests_until, .. } if *rests_until == Some(end));
    assert!(bench.take_orders().iter().any(rests));
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
    assert_eq!(bench.uses()[0].time_left_ms, Some(10_000));
    assert_eq!(bench.span(0, mount, 1), None);
    assert_eq!(refusals(&bench.room(0, 1, MIB)), [(0, Some(10_000))]);
    let space = bench.pool.no_space();
    assert_eq!((space.free_bytes, space.held_bytes), (0, 8 * MIB), "nobody gets what rests");
    bench.wait_ms(9_999);
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
    bench.take_orders();
    bench.wait_ms(1);
    let opens = PoolOrder::SegmentPlaceable { mount, placeable: true };
    assert!(bench.take_orders().contains(&(0, opens)));
    assert_eq!(bench.uses()[0].state, SegmentState::Open);
    assert!(bench.span(0, mount, 1).is_some());
}

#[test]
fn memory_of_this_master_does_not_rest() {
    let mut bench = Bench::new(1);
    bench.mount_again(ALICE, segment(1, MIB), Some(INCARNATION)).unwrap();
    assert_eq!(bench.uses()[0].state, SegmentState::Open);
}

#[test]
fn a_segment_that_was_with_another_master_since_is_lost_as_a_whole_and_then_rests() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 8 * MIB);
    let before = bench.pool.mount_of(SegmentId(1)).unwrap();
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(INCARNATION)).unwrap();
    bench.mount_again(ALICE, segment(1, 8 * MIB), None).unwrap();
    assert_eq!(bench.pool.mount_of(SegmentId(1)), Some(before), "it never was away");
    let elsewhere = Some(Incarnation(6));
    let error = bench.mount_again(ALICE, segment(1, 8 * MIB), elsewhere).unwrap_err();
    assert_eq!(error.code, ErrorCode::SegmentLeaving);
    assert!(error.retry_after_ms.is_some());
    assert_eq!(bench.pool.mount_of(SegmentId(1)), None);
    let grant = bench.mount_again(ALICE, segment(1, 8 * MIB), elsewhere).unwrap();
    assert!(grant.generation > before.generation.0);
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
}

#[test]
fn a_mount_that_is_repeated_while_the_memory_rests_is_the_same_one_and_rests_anew() {
    let mut bench = Bench::new(1);
    let former = Some(Incarnation(6));
    let grant = bench.mount_again(ALICE, segment(1, 8 * MIB), former).unwrap();
    bench.wait_ms(4_000);
    assert_eq!(bench.mount_again(ALICE, segment(1, 8 * MIB), former).unwrap(), grant);
    assert_eq!(bench.uses()[0].time_left_ms, Some(10_000));
    bench.wait_ms(9_999);
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
    bench.wait_ms(1);
    assert_eq!(bench.uses()[0].state, SegmentState::Open);
}

#[test]
fn a_quarantine_outlives_the_loss_of_its_segment() {
    let mut bench = Bench::new(1);
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(Incarnation(6))).unwrap();
    bench.wait_ms(4_000);
    bench.send(PoolMessage::ClientLost(ALICE));
    bench.mount_again(BOB, Segment { segment: SegmentId(2), ..segment(1, 4 * MIB) }, None).unwrap();
    assert_eq!(bench.uses()[0].state, SegmentState::Quarantined);
    assert_eq!(bench.uses()[0].time_left_ms, Some(6_000));
}

#[test]
fn remnants_are_withheld_when_the_memory_comes_back_and_then_freed() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 64 * MIB);
    let remnant = |offset_bytes, length_bytes, left_ms| Remnant {
        offset_bytes,
        length_bytes,
        until: bench.now.after_ms(left_ms),
    };
    let late = remnant(10 * PAGE + 100, 200, 600_000);
    let soon = remnant(512 * PAGE + 4_096 - 64, 128, 10_000);
    bench.shards[0].remnants = vec![late];
    bench.shards[1].remnants = vec![soon];
    bench.send(PoolMessage::ClientLost(ALICE));
    // The same memory, but another client, another id, another base and so another page grid.
    let base = (1 << 32) + 5 * PAGE + 4_096;
    let again = Segment { segment: SegmentId(9), base, ..segment(1, 64 * MIB) };
    bench.mount(BOB, again).unwrap();
    let mount = bench.pool.mount_of(SegmentId(9)).unwrap();
    assert_eq!(bench.pool.free_pages(mount), 1_021, "one page for the first, two for the second");
    bench.fill_pages(mount);
    let granted: Vec<u32> = bench.shards.iter().flat_map(|shard| shard.own_pages(mount)).collect();
    assert!(!granted.contains(&4), "the page of the first remnant");
    bench.wait_ms(9_999);
    assert_eq!(bench.pool.free_pages(mount), 0);
    bench.wait_ms(1);
    assert_eq!(bench.pool.free_pages(mount), 2);
    bench.wait_ms(590_000);
    assert_eq!(bench.pool.free_pages(mount), 3);
}

#[test]
fn a_remnant_survives_a_second_loss_of_its_memory() {
    let mut bench = Bench::new(1);
    bench.mounted(1, 64 * MIB);
    let until = bench.now.after_ms(600_000);
    bench.shards[0].remnants = vec![Remnant { offset_bytes: 0, length_bytes: 10 * PAGE, until }];
    for _ in 0..3 {
        bench.send(PoolMessage::ClientLost(ALICE));
        let mount = bench.mounted(1, 64 * MIB);
        assert_eq!(bench.pool.free_pages(mount), 1_024 - 10);
    }
    bench.send(PoolMessage::ClientLost(ALICE));
    bench.wait_ms(600_000);
    let mount = bench.mounted(1, 64 * MIB);
    assert_eq!(bench.pool.free_pages(mount), 1_024);
}

#[test]
fn too_many_remnants_let_the_whole_memory_rest() {
    let mut remnants = Remnants::with_limit(10);
    let memory = segment(1, MIB);
    let now = Moment::from_ms(5);
    let many: Vec<Remnant> = (0..11)
        .map(|number| Remnant {
            offset_bytes: number * 64,
            length_bytes: 64,
            until: Moment::from_ms(100 + number),
        })
        .collect();
    remnants.remember(now, &memory, &many[..9]);
    assert_eq!(remnants.recall(&memory).ranges.len(), 9);
    remnants.remember(now, &memory, &many[9..]);
    assert_eq!(remnants.recall(&memory).whole_until, Some(Moment::from_ms(110)));
    assert_eq!(remnants.recall(&segment(2, MIB)).whole_until, None);
    remnants.forget_expired(Moment::from_ms(105));
    assert_eq!(remnants.len(), 3);
    remnants.forget_expired(Moment::from_ms(110));
    assert_eq!(remnants.recall(&memory), Remnants::new().recall(&memory));
}

#[test]
fn a_range_that_is_over_is_not_taken_for_a_part_of_those_that_were_placed_over_it() {
    let memory = segment(1, MIB);
    let remnant = |offset_bytes, length_bytes, until_ms| Remnant {
        offset_bytes,
        length_bytes,
        until: Moment::from_ms(until_ms),
    };
    let mut remnants = Remnants::new();
    remnants.remember(Moment::from_ms(5), &memory, &[remnant(0, 1024, 10)]);
    let placed_since = [remnant(128, 64, 50), remnant(0, 128, 50)];
    remnants.remember(Moment::from_ms(10), &memory, &placed_since);
    assert_eq!(remnants.recall(&memory).ranges, placed_since);
    let handed_over = remnants.export(Moment::from_ms(10));
    Remnants::new().restore(&handed_over).expect("they are disjoint");
}

// R26
#[test]
fn capacity_is_the_sum_of_what_is_mounted_after_every_round() {
    let mut bench = Bench::new(2);
    let segments: Vec<Segment> = (1..=3).map(|number| segment(number, 64 * MIB)).collect();
    for _ in 0..3 {
        bench.remount(ALICE, &segments).unwrap();
        assert_eq!(bench.totals().capacity_bytes, 192 * MIB);
        assert_eq!(bench.totals().segments, 3);
        bench.send(PoolMessage::ClientLost(ALICE));
        assert_eq!(bench.totals(), PoolTotals::default());
        assert_eq!(bench.client_segments[&ALICE], 0);
    }
    bench.remount(ALICE, &segments).unwrap();
    let mount = bench.pool.mount_of(SegmentId(2)).unwrap();
    bench.take_orders();
    bench.report(0, ShardReport::Usage(vec![usage(mount, 64 * MIB * 89 / 100)]));
    assert_eq!(evictions(&bench.take_orders()), []);
    bench.report(0, ShardReport::Usage(vec![usage(mount, 64 * MIB * 91 / 100)]));
    assert_eq!(evictions(&bench.take_orders()).len(), 1, "at the watermark of the real capacity");
}
