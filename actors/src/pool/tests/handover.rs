//! What is exported, what it is restored to, and which records are refused.

use proptest::prelude::*;

use super::super::heap::PageOwner;
use super::*;
use crate::handoff::{PoolRecord, RemnantRecord, RestoreError, SegmentRecord};

/// The master that takes over.
pub(super) const NEXT: Incarnation = Incarnation(8);

/// The pages that each shard's restored ranges lie in.
pub(super) type Owned = Vec<Vec<(SegmentSlot, Vec<PageRun>)>>;

pub(super) fn next_config(shards: u16) -> PoolConfig {
    PoolConfig::new(shards, NEXT)
}

/// The next master at the moment of serving, with shards that own these pages.
pub(super) fn restore_with(config: PoolConfig, record: &PoolRecord, owned: Owned) -> Bench {
    let shards = config.shards;
    let pool = Pool::restore(config, record, owned.clone()).unwrap();
    pool.check().unwrap();
    let mut bench = Bench::of(shards, pool, Moment::from_ms(0));
    let restored = Pool::restored_segments(record).unwrap();
    for (fake, owned) in bench.shards.iter_mut().zip(owned) {
        for (slot, runs) in owned {
            let known = restored.iter().find(|segment| segment.mount.slot == slot).unwrap();
            let pages = fake.pages.entry(known.mount).or_default();
            pages.extend(
                runs.iter().flat_map(|run| run.first_page..run.end()).map(|page| (page, None)),
            );
        }
    }
    bench
}

/// The next master with this many shards, which own no pages yet.
pub(super) fn restore(shards: u16, record: &PoolRecord) -> Bench {
    restore_with(next_config(shards), record, vec![Vec::new(); usize::from(shards)])
}

fn refused(record: &PoolRecord, owned: Owned) -> RestoreError {
    Pool::restore(next_config(owned.len() as u16), record, owned).unwrap_err()
}

fn record_of(number: u64, size_bytes: u64, slot: u16) -> SegmentRecord {
    SegmentRecord {
        client: ALICE,
        segment: segment(number, size_bytes),
        slot,
        generation: 1,
        mounted_with: INCARNATION,
        drain_left_ms: None,
        quarantine_left_ms: None,
    }
}

fn records(segments: Vec<SegmentRecord>) -> PoolRecord {
    PoolRecord { segments, remnants: Vec::new(), generation_max: 1, epoch: 3 }
}

fn remnant(address: u64, length_bytes: u64) -> RemnantRecord {
    RemnantRecord {
        endpoint: "10.0.0.1:9100".to_owned(),
        address,
        length_bytes,
        left_ms: 5_000,
        whole: false,
    }
}

/// The pages of a segment that are withheld, and for how long still.
fn withheld(bench: &Bench, id: SegmentId) -> Vec<(PageRun, u64)> {
    let segment = bench.pool.segments.by_id(id).unwrap();
    let runs = segment.heap.runs_in(PageRun::new(0, segment.heap.pages())).into_iter();
    runs.filter_map(|(run, owner)| match owner {
        PageOwner::Withheld { until } => Some((run, until.since_ms(bench.now))),
        _ => None,
    })
    .collect()
}

#[test]
fn a_segment_keeps_its_slot_and_gets_a_generation_above_all_former_ones() {
    let mut bench = Bench::new(2);
    for number in 1..=3 {
        bench.mounted(number, 8 * MIB);
    }
    bench.unmount(None, 2, 0);
    bench.mounted(4, 8 * MIB);
    bench.unmount(None, 1, 0);
    let record = bench.pool.export(bench.now);
    let slots: Vec<_> =
        record.segments.iter().map(|known| (known.slot, known.generation)).collect();
    assert_eq!(slots, [(1, 2), (2, 1)]);
    assert_eq!(record.generation_max, 2);
    let mut next = restore(2, &record);
    let grant = next.mount(ALICE, segment(3, 8 * MIB)).unwrap();
    assert_eq!((grant.slot, grant.generation, grant.incarnation), (2, 3, NEXT));
    let new = next.mount(ALICE, segment(5, 8 * MIB)).unwrap();
    assert_eq!((new.slot, new.generation), (0, 3));
}

#[test]
fn the_pages_of_restored_ranges_are_the_shards_and_all_others_are_free() {
    let record = records(vec![record_of(1, 64 * MIB, 4)]);
    let slot = SegmentSlot(4);
    let owned = vec![
        vec![(slot, vec![PageRun::new(0, 10), PageRun::new(20, 5)])],
        vec![(slot, vec![PageRun::new(10, 10)])],
    ];
    let bench = restore_with(next_config(2), &record, owned);
    let mount = bench.pool.mount_of(SegmentId(1)).unwrap();
    let runs = bench.pool.shard_runs(mount, ShardId(0));
    assert_eq!(runs, [PageRun::new(0, 10), PageRun::new(20, 5)]);
    assert_eq!(bench.pool.shard_runs(mount, ShardId(1)), [PageRun::new(10, 10)]);
    assert_eq!(bench.pool.free_pages(mount), 1_024 - 25);
}

#[test]
fn pages_with_two_owners_or_outside_of_their_segment_are_refused() {
    let record = records(vec![record_of(1, 64 * MIB, 0)]);
    let slot = SegmentSlot(0);
    for (one, other) in [
        (PageRun::new(0, 10), PageRun::new(9, 1)),
        (PageRun::new(5, 10), PageRun::new(0, 20)),
        (PageRun::new(0, 1), PageRun::new(1_023, 2)),
        (PageRun::new(0, 1), PageRun::new(1_024, 1)),
        (PageRun::new(0, 1), PageRun::new(u32::MAX, 2)),
    ] {
        let owned = vec![vec![(slot, vec![one])], vec![(slot, vec![other])]];
        assert!(matches!(refused(&record, owned), RestoreError::Overlap(_)), "{one:?} {other:?}");
    }
    let stray = vec![vec![(SegmentSlot(1), vec![PageRun::new(0, 1)])]];
    assert!(matches!(refused(&record, stray), RestoreError::Dangling(_)));
    let missing = Pool::restore(next_config(2), &record, vec![Vec::new()]).unwrap_err();
    assert!(matches!(missing, RestoreError::Dangling(_)));
}

#[test]
fn segments_that_are_not_sound_or_do_not_fit_each_other_are_refused() {
    let good = record_of(1, 8 * MIB, 0);
    let dangling = |segments| {
        let fault = refused(&records(segments), vec![Vec::new()]);
        assert!(matches!(fault, RestoreError::Dangling(_)), "{fault:?}");
    };
    let with = |change: fn(&mut Segment)| {
        let mut record = good.clone();
        change(&mut record.segment);
        vec![record]
    };
    dangling(with(|segment| segment.base = 0));
    dangling(with(|segment| segment.base = u64::MAX - 5));
    dangling(with(|segment| segment.size_bytes = 0));
    dangling(with(|segment| segment.size_bytes = u64::MAX));
    dangling(with(|segment| segment.endpoint = String::new()));
    dangling(vec![good.clone(), record_of(2, 8 * MIB, 0)]);
    dangling(vec![record_of(2, 8 * MIB, 1), good.clone()]);
    dangling(vec![good.clone(), record_of(1, 8 * MIB, 1)]);
    dangling(vec![SegmentRecord { generation: 2, ..good.clone() }]);
    let used_up = PoolRecord { generation_max: u32::MAX, ..records(vec![good.clone()]) };
    assert!(matches!(refused(&used_up, vec![Vec::new()]), RestoreError::Dangling(_)));

    let mut other = SegmentRecord { client: BOB, ..record_of(2, 8 * MIB, 1) };
    other.segment.base = good.segment.base + 4 * MIB;
    let fault = refused(&records(vec![good.clone(), other.clone()]), vec![Vec::new()]);
    assert!(matches!(fault, RestoreError::Overlap(_)));
    other.segment.endpoint = "10.0.0.2:9100".to_owned();
    Pool::restore(next_config(1), &records(vec![good, other]), vec![Vec::new()]).unwrap();
}

#[test]
fn remnants_that_overlap_each_other_or_a_range_are_refused() {
    let base = segment(1, 64 * MIB).base;
    let with = |remnants| PoolRecord { remnants, ..records(vec![record_of(1, 64 * MIB, 0)]) };
    let both = with(vec![remnant(base + 100, 100), remnant(base + 199, 1)]);
    assert!(matches!(refused(&both, vec![Vec::new()]), RestoreError::Overlap(_)));
    for (address, length_bytes) in [(u64::MAX, 2), (base, 0), (1, u64::MAX)] {
        let odd = with(vec![remnant(address, length_bytes)]);
        assert!(matches!(refused(&odd, vec![Vec::new()]), RestoreError::Dangling(_)));
    }
    let in_page_two = with(vec![remnant(base + 2 * PAGE + 100, 100)]);
    let owns = |page| vec![vec![(SegmentSlot(0), vec![PageRun::new(page, 1)])]];
    assert!(matches!(refused(&in_page_two, owns(2)), RestoreError::Overlap(_)));
    let bench = restore_with(next_config(1), &in_page_two, owns(1));
    assert_eq!(withheld(&bench, SegmentId(1)), [(PageRun::new(2, 1), 5_000)]);
}

#[test]
fn pages_that_are_withheld_stay_so_for_what_is_left() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 64 * MIB);
    let until = bench.now.after_ms(9_000);
    let left = Remnant { offset_bytes: 10 * PAGE + 5, length_bytes: PAGE, until };
    bench.shards[0].remnants = vec![left];
    bench.send(PoolMessage::ClientLost(ALICE));
    bench.mount(BOB, segment(1, 64 * MIB)).unwrap();
    bench.wait_ms(4_000);
    let record = bench.pool.export(bench.now);
    assert_eq!(record.remnants.len(), 1);
    assert_eq!(record.remnants[0].left_ms, 5_000);
    let mut next = restore(3, &record);
    assert_eq!(withheld(&next, SegmentId(1)), [(PageRun::new(10, 2), 5_000)]);
    next.mount(BOB, segment(1, 64 * MIB)).unwrap();
    assert_eq!(withheld(&next, SegmentId(1)).len(), 1, "opening changes nothing about it");
    next.wait_ms(4_999);
    assert_eq!(withheld(&next, SegmentId(1)).len(), 1);
    next.wait_ms(1);
    assert_eq!(withheld(&next, SegmentId(1)), []);
    let mount = next.pool.mount_of(SegmentId(1)).unwrap();
    assert_eq!(next.pool.free_pages(mount), 1_024);
}

#[test]
fn remnants_of_memory_that_is_not_mounted_are_handed_over() {
    let mut bench = Bench::new(1);
    bench.mount_again(ALICE, segment(1, 8 * MIB), Some(Incarnation(6))).unwrap();
    bench.wait_ms(4_000);
    bench.send(PoolMessage::ClientLost(ALICE));
    let record = bench.pool.export(bench.now);
    assert_eq!(record.segments, []);
    let mut next = restore(1, &record);
    next.wait_ms(1_000);
    next.mount(BOB, segment(1, 8 * MIB)).unwrap();
    assert_eq!(next.uses()[0].time_left_ms, Some(5_000), "six of ten seconds were left");
}

#[test]
fn memory_of_a_lost_segment_that_a_shard_has_not_swept_rests_as_long_as_a_hold() {
    let mut bench = Bench::new(2);
    bench.mounted(1, 8 * MIB);
    bench.shards[1].slow_sweep = true;
    bench.send(PoolMessage::ClientLost(ALICE));
    let record = bench.pool.export(bench.now);
    assert_eq!(record.segments, []);
    let mut next = restore(2, &record);
    next.mount(BOB, segment(1, 8 * MIB)).unwrap();
    assert_eq!(next.uses()[0].time_left_ms, Some(600_000));
}

#[derive(Debug, Clone)]
enum Step {
    Mount { number: u64, size_bytes: u64, former: bool },
    Unmount { number: u64, grace_ms: u64 },
    LoseClient { remnants: Vec<(u64, u64, u64)> },
    Span { shard: u16, number: u64, size_bytes: u64 },
    Wait { ms: u64 },
    Handoff { shards: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = || 1..6_u64;
    // Inside of the smallest segment: a shard never names bytes outside of its own.
    let remnant = (0..8 * MIB - 200_000, 1..200_000_u64, 1..900_000_u64);
    let step = prop_oneof![
        6 => (number(), any::<bool>()).prop_map(|(number, former)| Step::Mount {
            number,
            size_bytes: number * 8 * MIB,
            former,
        }),
        2 => (number(), prop_oneof![Just(0), 1..50_000_u64])
            .prop_map(|(number, grace_ms)| Step::Unmount { number, grace_ms }),
        1 => prop::collection::vec(remnant, 0..4)
            .prop_map(|remnants| Step::LoseClient { remnants }),
        6 => (0..3_u16, number(), 1..4 * MIB)
            .prop_map(|(shard, number, size_bytes)| Step::Span { shard, number, size_bytes }),
        3 => (1..20_000_u64).prop_map(|ms| Step::Wait { ms }),
        2 => (1..4_u16).prop_map(|shards| Step::Handoff { shards }),
    ];
    prop::collection::vec(step, 1..40)
}

/// What a record looks like when the next master exports it again at once.
fn again(record: &PoolRecord) -> PoolRecord {
    let mut record = record.clone();
    if !record.segments.is_empty() {
        record.generation_max += 1;
    }
    for segment in &mut record.segments {
        segment.generation = record.generation_max;
    }
    record
}

/// Ranges that shards say are left of the first segment: none twice.
fn disjoint(bench: &Bench, ranges: &[(u64, u64, u64)]) -> Vec<Remnant> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let mut end = 0;
    let mut remnants = Vec::new();
    for (offset_bytes, length_bytes, left_ms) in ranges {
        if offset_bytes >= end {
            end = offset_bytes + length_bytes;
            let until = bench.now.after_ms(left_ms);
            remnants.push(Remnant { offset_bytes, length_bytes, until });
        }
    }
    remnants
}

/// Hands over to a master with another number of shards. All pages go to its shards in turn.
fn hand_over(bench: &Bench, shards: u16) -> Bench {
    let record = bench.pool.export(bench.now);
    let mut owned: Owned = vec![Vec::new(); usize::from(shards)];
    let mut turn = 0;
    for known in &record.segments {
        let mount = bench.pool.mount_of(known.segment.segment).unwrap();
        for shard in 0..bench.shards.len() as u16 {
            for run in bench.pool.shard_runs(mount, ShardId(shard)) {
                owned[turn].push((mount.slot, vec![run]));
                turn = (turn + 1) % usize::from(shards);
            }
        }
    }
    let next = restore_with(next_config(shards), &record, owned);
    assert_eq!(next.pool.export(next.now), again(&record));
    for known in &record.segments {
        let id = known.segment.segment;
        assert_eq!(withheld(bench, id), withheld(&next, id), "{id} is withheld otherwise");
        let free = |bench: &Bench| bench.pool.free_pages(bench.pool.mount_of(id).unwrap());
        assert_eq!(free(bench), free(&next), "{id} has other free pages");
    }
    next
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_is_exported_is_the_same_after_a_restore(steps in steps()) {
        let mut bench = Bench::new(3);
        for step in steps.iter().chain([&Step::Handoff { shards: 2 }]) {
            match step {
                Step::Mount { number, size_bytes, former } => {
                    let former = former.then_some(Incarnation(6));
                    // One that is pending and is named with a former master is lost and swept.
                    let _ = bench.mount_again(ALICE, segment(*number, *size_bytes), former);
                }
                Step::Unmount { number, grace_ms } => {
                    bench.unmount(None, *number, *grace_ms);
                }
                Step::LoseClient { remnants } => {
                    let remnants = disjoint(&bench, remnants);
                    // Pending ones too, which are not in the table.
                    let pages_are_free = bench
                        .pool
                        .segments
                        .iter()
                        .all(|known| withheld(&bench, known.identity.segment).is_empty());
                    if pages_are_free {
                        bench.shards[0].remnants = remnants;
                    }
                    bench.send(PoolMessage::ClientLost(ALICE));
                    bench.shards[0].remnants.clear();
                }
                Step::Span { shard, number, size_bytes } => {
                    if let Some(mount) = bench.pool.mount_of(SegmentId((*number).into())) {
                        let shard = shard % bench.shards.len() as u16;
                        bench.span(shard, mount, *size_bytes);
                    }
                }
                Step::Wait { ms } => bench.wait_ms(*ms),
                Step::Handoff { shards } => bench = hand_over(&bench, *shards),
            }
        }
    }
}
