//! The long jobs of a shard, as somebody sees them who follows them: when they ran, what they moved,
//! and which requests they ran for.

use std::time::{Duration, Instant};

use mooring_proto::frame::TraceContext;

use super::message::ShardRequest;
use super::remove::Sweep;
use super::state::Shard;
use crate::route::ShardId;

/// What a shard does in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Idle objects make room, as the pool has ordered.
    Evict,
    /// Everything on a lost segment goes.
    SweepSegment,
    /// Every object goes, by request.
    RemoveAll,
    /// A window of pages is vacated for a large object.
    Vacate,
}

/// A job that has come to its end. Jobs run side by side, and what they removed is counted for the
/// shard, so that one counts what another did meanwhile if it is of the same sort.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// Whose.
    pub shard: ShardId,
    /// What it was.
    pub kind: JobKind,
    /// When it came up.
    pub began: Instant,
    /// When nothing of it was left.
    pub ended: Instant,
    /// The time in the slices of the shard, of all jobs.
    pub worked: Duration,
    /// How many slices there were.
    pub slices: u64,
    /// Objects that went.
    pub objects: u64,
    /// Their bytes, where those are counted.
    pub bytes: u64,
    /// Followed requests that it ran for: those that waited for it, and those that came just before.
    pub causes: Vec<TraceContext>,
}

/// Follows the jobs of one shard.
#[derive(Debug)]
pub(super) struct JobLog {
    shard: ShardId,
    on_job: fn(JobReport),
    evicting: Option<Run>,
    sweeping: Option<Run>,
    /// Followed requests since the last job, the latest last.
    before: Vec<TraceContext>,
}

/// A job that is not at its end.
#[derive(Debug)]
struct Run {
    kind: JobKind,
    began: Instant,
    worked: Duration,
    slices: u64,
    /// What was gone before.
    gone: Gone,
    causes: Vec<TraceContext>,
}

/// What went from a shard since its start.
#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    objects: u64,
    bytes: u64,
}

impl JobLog {
    pub(super) fn new(shard: ShardId, on_job: fn(JobReport)) -> JobLog {
        JobLog { shard, on_job, evicting: None, sweeping: None, before: Vec::new() }
    }

    /// A followed request has come: if it takes space, what makes room may be for it.
    pub(super) fn note_request(&mut self, request: &ShardRequest, trace: TraceContext) {
        if !matches!(request, ShardRequest::PutStart { .. } | ShardRequest::UpsertStart { .. }) {
            return;
        }
        match &mut self.evicting {
            Some(run) if run.causes.len() < CAUSES_MAX => run.causes.push(trace),
            Some(_) => {}
            None => {
                if self.before.len() == CAUSES_MAX {
                    self.before.remove(0);
                }
                self.before.push(trace);
            }
        }
    }

    /// A slice of the jobs took so long.
    pub(super) fn note_slice(&mut self, took: Duration) {
        for run in self.evicting.iter_mut().chain(&mut self.sweeping) {
            run.worked += took;
            run.slices += 1;
        }
    }

    /// Looks which jobs have come up or to their end. `causes_of` gives the followed requests that wait
    /// for one that has come up.
    pub(super) fn look(&mut self, shard: &Shard, causes_of: impl Fn(JobKind) -> Vec<TraceContext>) {
        let evicts = shard.eviction_due().then_some(JobKind::Evict);
        let sweeps = shard.sweeps.front().map(JobKind::of);
        if evicts.is_some() == self.evicting.is_some()
            && sweeps.is_some() == self.sweeping.is_some()
        {
            return;
        }
        let now = Instant::now();
        for (due, is_eviction) in [(evicts, true), (sweeps, false)] {
            let run = if is_eviction { &mut self.evicting } else { &mut self.sweeping };
            match (due, run.take()) {
                (Some(kind), None) => {
                    let mut causes = causes_of(kind);
                    if kind == JobKind::Evict {
                        for cause in self.before.drain(..) {
                            if !causes.contains(&cause) {
                                causes.push(cause);
                            }
                        }
                    }
                    causes.truncate(CAUSES_MAX);
                    *run = Some(Run::new(kind, now, Gone::of(shard, kind), causes));
                }
                (None, Some(ended)) => {
                    let gone = Gone::of(shard, ended.kind);
                    (self.on_job)(ended.report(self.shard, now, gone));
                }
                (_, as_before) => *run = as_before,
            }
        }
    }
}

impl Run {
    fn new(kind: JobKind, began: Instant, gone: Gone, causes: Vec<TraceContext>) -> Run {
        Run { kind, began, worked: Duration::ZERO, slices: 0, gone, causes }
    }

    fn report(self, shard: ShardId, ended: Instant, gone: Gone) -> JobReport {
        JobReport {
            shard,
            kind: self.kind,
            began: self.began,
            ended,
            worked: self.worked,
            slices: self.slices,
            objects: gone.objects - self.gone.objects,
            bytes: gone.bytes - self.gone.bytes,
            causes: self.causes,
        }
    }
}

impl JobKind {
    fn of(sweep: &Sweep) -> JobKind {
        match sweep {
            Sweep::All { .. } => JobKind::RemoveAll,
            Sweep::Segment(_) => JobKind::SweepSegment,
            Sweep::Window(_) => JobKind::Vacate,
        }
    }
}

impl Gone {
    /// Of the sort that such a job counts.
    fn of(shard: &Shard, kind: JobKind) -> Gone {
        let counters = &shard.counters;
        match kind {
            JobKind::Evict | JobKind::Vacate => {
                Gone { objects: counters.evicted_objects, bytes: counters.evicted_bytes }
            }
            JobKind::SweepSegment => Gone { objects: counters.lost_objects, bytes: 0 },
            JobKind::RemoveAll => Gone { objects: counters.removed, bytes: 0 },
        }
    }
}

/// Enough to find the way from a job to what it ran for; more would say the same.
const CAUSES_MAX: usize = 8;
