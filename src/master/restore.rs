//! From a claimed snapshot to the state of all actors: all of it, or nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle};

use mooring_actors::ShardId;
use mooring_actors::beside::begin_scoped;
use mooring_actors::core::{CoreConfig, CoreState, Reshape};
use mooring_actors::handoff::{RangeRecord, RestoreError, RestoredSegment};
use mooring_actors::pool::Pool;
use mooring_actors::shard::restore::{BuiltShare, IndexShare, OwnedPages, ShardRestore, StoredKey};
use mooring_actors::shard::state::Shard;

use super::prefault::Prefault;
use crate::admin::RestoreProgress;
use crate::handoff::{Cause, Deadline, Manifest, Reason, Snapshot, read_ahead};

/// A whole restore.
pub(super) struct Restored {
    pub(super) config: CoreConfig,
    pub(super) seed: u64,
    pub(super) state: CoreState,
    pub(super) objects: u64,
    pub(super) segments: usize,
    pub(super) clients: usize,
}

/// The threads of a restore. What gets none is done by the thread that wanted it.
#[derive(Clone, Copy)]
pub(super) struct Threads {
    /// Files that are restored side by side. Each may take a second thread that reads ahead.
    pub(super) files: u16,
    /// Makes one.
    pub(super) new: fn() -> Builder,
}

/// Restores on such threads, which count what they have laid down.
///
/// # Errors
/// Why nothing of the snapshot may be used.
pub(super) fn restore(
    snapshot: &Snapshot,
    config: CoreConfig,
    threads: Threads,
    deadline: Deadline,
    progress: &RestoreProgress,
) -> Result<Restored, Cause> {
    let manifest = snapshot.manifest();
    progress.expect(manifest.shards.iter().map(|file| file.ranges).sum());
    let segments = Pool::restored_segments(&manifest.pool).map_err(|error| unsound(&error))?;
    let source =
        Source { snapshot, config: &config, segments: &segments, threads, deadline, progress };
    let state = if is_same_shape(manifest, &config) {
        let shards = source.each_by_itself()?;
        CoreState::restored(&config, &manifest.pool, &manifest.clients, shards)
            .map_err(|error| unsound(&error))?
    } else {
        source.all_together()?
    };
    Ok(Restored {
        seed: manifest.route_seed,
        objects: manifest.totals().objects,
        segments: manifest.pool.segments.len(),
        clients: manifest.clients.len(),
        config,
        state,
    })
}

/// Whether each file is of one shard, and of nothing that lies with others.
fn is_same_shape(manifest: &Manifest, config: &CoreConfig) -> bool {
    manifest.shards.len() == usize::from(config.route.shards())
        && manifest.shards.iter().all(|file| file.record.aliens == 0)
}

struct Source<'a> {
    snapshot: &'a Snapshot,
    config: &'a CoreConfig,
    segments: &'a [RestoredSegment],
    threads: Threads,
    deadline: Deadline,
    progress: &'a RestoreProgress,
}

type RestoredShard = (Shard, OwnedPages);

impl Source<'_> {
    /// Each shard from its own file, side by side.
    fn each_by_itself(&self) -> Result<Vec<RestoredShard>, Cause> {
        let files = self.snapshot.manifest().shards.len();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut done = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= files {
                    break;
                }
                let outcome = self.shard(index, &failed);
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                done.push((index, outcome));
            }
            done
        };
        let mut outcomes: Vec<_> = std::thread::scope(|scope| {
            // This thread is one of them, so that it goes on if the system gives no other.
            let beside = || (self.threads.new)().spawn_scoped(scope, work).ok();
            let workers = usize::from(self.threads.files).clamp(1, files);
            let threads: Vec<_> = (1..workers).map_while(|_| beside()).collect();
            let own = catch_unwind(AssertUnwindSafe(work));
            let panicked = |_| vec![(0, Err(Cause::new(Reason::Corrupt, "the restore panicked")))];
            let done = threads.into_iter().map(ScopedJoinHandle::join);
            done.chain([own]).flat_map(|done| done.unwrap_or_else(panicked)).collect()
        });
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn shard(&self, index: usize, failed: &AtomicBool) -> Result<RestoredShard, Cause> {
        let reader = self.snapshot.shard(index, self.deadline)?;
        let number = u16::try_from(index).map_err(|_| too_many_files())?;
        let objects = self.snapshot.manifest().shards[index].record.objects;
        let mut restore = self.config.restore_shard(ShardId(number), self.segments, objects);
        let mut keys = restore.lend_keys();
        let (mut prefault, kept) = (Prefault::default(), &mut keys);
        let keep = move |key: &[u8]| {
            prefault.expect(key.len() + KEY_HEADER_BYTES);
            kept.add(key).map_err(|error| unsound(&error))
        };
        let mut laying =
            Laying { restore: &mut restore, failed, progress: self.progress, ranges: 0 };
        read_ahead((self.threads.new)(), reader, keep, laying.take())?;
        laying.end();
        restore.return_keys(keys);
        restore.build_index(INDEX_THREADS, |shares| build_side_by_side(shares, self.threads.new));
        restore.finish(objects, self.sequence_floor()).map_err(|error| unsound(&error))
    }

    /// All shards from all files, for another number of them.
    fn all_together(&self) -> Result<CoreState, Cause> {
        let manifest = self.snapshot.manifest();
        let mut reader = self.snapshot.merged(self.deadline)?;
        let (objects, files) = (manifest.totals().objects, manifest.shards.len());
        let mut reshape = Reshape::new(self.config, self.segments, files, objects);
        let mut ranges = 0_u64;
        while let Some((file, record)) = reader.next()? {
            reshape.range(file, &record).map_err(|error| unsound(&error))?;
            ranges += 1;
            if ranges.is_multiple_of(LOOK_EVERY) {
                self.progress.add(LOOK_EVERY);
            }
        }
        self.progress.add(ranges % LOOK_EVERY);
        reshape
            .finish(&manifest.pool, &manifest.clients, objects, self.sequence_floor())
            .map_err(|error| unsound(&error))
    }

    /// Tokens go on above the highest number that any shard has given.
    fn sequence_floor(&self) -> u64 {
        let files = self.snapshot.manifest().shards.iter();
        files.map(|file| file.record.next_sequence).max().unwrap_or(0)
    }
}

/// Lays the records of one file down in its shard.
struct Laying<'a> {
    restore: &'a mut ShardRestore,
    failed: &'a AtomicBool,
    progress: &'a RestoreProgress,
    ranges: u64,
}

impl Laying<'_> {
    /// What takes the records.
    fn take(&mut self) -> impl FnMut(&RangeRecord<'_>, Option<StoredKey>) -> Result<(), Cause> {
        let mut prefault = Prefault::default();
        move |record, key| {
            prefault.expect(RECORDS_BYTES);
            let laid = match (record, key) {
                (RangeRecord::Object(object), Some(key)) => self.restore.lay_object(object, key),
                _ => self.restore.range(record),
            };
            laid.map_err(|error| unsound(&error))?;
            self.ranges += 1;
            if self.ranges.is_multiple_of(LOOK_EVERY) {
                self.progress.add(LOOK_EVERY);
                if self.failed.load(Ordering::Relaxed) {
                    return Err(Cause::new(Reason::Corrupt, "another file is of no use"));
                }
            }
            Ok(())
        }
    }

    fn end(&self) {
        self.progress.add(self.ranges % LOOK_EVERY);
    }
}

/// Builds one share here, where memory was freed for it, and each other one on a thread of its own, or
/// here as well if the system refuses that.
fn build_side_by_side(mut shares: Vec<IndexShare>, thread: fn() -> Builder) -> Vec<BuiltShare> {
    let own = shares.pop();
    std::thread::scope(|scope| {
        let begin = |share| begin_scoped(scope, thread(), share, IndexShare::build);
        let begun: Vec<_> = shares.into_iter().map(begin).collect();
        let own = own.map(IndexShare::build);
        let built = begun.into_iter().map(|begun| match begun {
            // Whoever has asked for the shard says that it panicked.
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(refused) => refused.work.build(),
        });
        built.chain(own).collect()
    })
}

fn unsound(error: &RestoreError) -> Cause {
    let reason = match error {
        RestoreError::KeysFull => Reason::Memory,
        RestoreError::Overlap(_) | RestoreError::Key(_) | RestoreError::Dangling(_) => {
            Reason::Corrupt
        }
    };
    Cause::new(reason, error.to_string())
}

fn too_many_files() -> Cause {
    Cause::new(Reason::Corrupt, "the snapshot has more files than a master has shards")
}

/// Ranges between two looks at whether another thread has failed, and two counts of what is laid down:
/// about a millisecond.
const LOOK_EVERY: u64 = 4096;

/// For each file two threads have worked: one that has read and one that has laid down.
const INDEX_THREADS: usize = 2;

/// What is stored before each key, and on average after it, up to the next word.
const KEY_HEADER_BYTES: usize = 6;

/// What an object and its range take.
const RECORDS_BYTES: usize = 64;

#[cfg(test)]
mod tests;
