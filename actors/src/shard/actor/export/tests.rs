use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::beside::refused_thread;
use crate::handoff::RangeRecord;
use crate::shard::stage::{Stage, mount};

fn now() -> Moment {
    Moment::from_ms(1_000)
}

const OBJECTS: u64 = 20_000;

/// A shard with ranges on two segments, all of unfinished puts, more than go into one batch.
fn shard() -> Shard {
    let mut stage = Stage::new(2, 1_000);
    for number in 0..OBJECTS / 2 {
        for slot in 0..2 {
            stage.start(slot, &format!("{slot}-{number}"), 1_000);
        }
    }
    stage.shard
}

/// Counts what it takes.
#[derive(Default)]
struct Counter {
    ranges: u64,
}

impl RecordSink for Counter {
    fn range(&mut self, _: &RangeRecord<'_>) -> Result<(), ExportError> {
        self.ranges += 1;
        Ok(())
    }

    fn finish(&mut self, _: &ShardRecord) -> Result<(), ExportError> {
        Ok(())
    }
}

fn mounts() -> [Mount; 2] {
    [mount(0), mount(1)]
}

#[test]
fn two_threads_or_a_refused_one_take_what_one_does_and_no_mount_that_is_not_known() {
    let shard = shard();
    let mounts = [mount(0), mount(9), mount(1)];
    for thread in [Builder::new(), refused_thread()] {
        let mut sink = Counter::default();
        let record = export(&shard, now(), &mounts, &mut sink, thread).unwrap();
        assert_eq!((sink.ranges, record.holds), (OBJECTS, OBJECTS));
        assert_eq!(shard.export(now(), &mounts, &mut Counter::default()), Ok(record));
    }
}

/// What an export makes of the ranges that `look` finds.
fn export_found(
    shard: &Shard,
    look: impl FnOnce(&mut dyn FnMut(u32, &[Passed]) -> ControlFlow<()>) + Send,
) -> Result<ShardRecord, ExportError> {
    let (mounts, mut sink) = (mounts(), Counter::default());
    export_what_is_found(shard, now(), &mounts, &mut sink, Builder::new(), look)
}

// The next master would take what is not told for free space.
#[test]
fn an_export_fails_if_the_search_for_ranges_ends_before_it_has_found_all() {
    let shard = shard();
    let all = |visit: &mut dyn FnMut(u32, &[Passed]) -> ControlFlow<()>| {
        shard.survey(&mounts(), visit);
    };
    for kept in [0, 1, OBJECTS / 2 - 1, OBJECTS / 2, OBJECTS - 1] {
        for tells_the_end in [false, true] {
            let mut left = kept;
            let outcome = export_found(&shard, |visit| {
                all(&mut |place, passed| {
                    let shown = passed.len().min(left as usize);
                    left -= shown as u64;
                    let is_end = passed.is_empty();
                    if shown > 0 || is_end && tells_the_end {
                        return visit(place, &passed[..shown]);
                    }
                    ControlFlow::Continue(())
                });
            });
            let error = outcome.expect_err("it is not whole");
            assert!(matches!(error, ExportError::Incomplete(_)), "{kept}: {error}");
        }
    }
    let outcome = export_found(&shard, all);
    assert_eq!(outcome.map(|record| record.holds), Ok(OBJECTS));
}

#[test]
fn an_export_panics_if_the_thread_that_looks_for_ranges_does() {
    let shard = shard();
    let mut seen = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        export_found(&shard, |visit| {
            shard.survey(&mounts(), |place, passed| {
                seen += passed.len() as u64;
                assert!(seen < OBJECTS / 2, "a node leads nowhere");
                visit(place, passed)
            });
        })
    }));
    assert!(outcome.is_err(), "a shard that is not sound hands nothing over");
}
