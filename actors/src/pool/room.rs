//! Room for a large object: the cheapest window of pages is found, vacated and granted.
//!
//! One job at a time; the others wait first come, first served. A job first takes what is free.
//! Else it surveys the segments region by region, reserves the cheapest window of a region for
//! itself and has its owners vacate the rest of it. What got a lease meanwhile stays, and the next
//! best window is tried. Only when all candidates are surveyed is the request refused.

mod answer;
mod survey;
mod walk;

use std::collections::{BTreeMap, VecDeque};

use self::survey::Survey;
use self::walk::Walk;
use super::Pool;
use super::heap::PageOwner;
use super::message::{ChunkCost, Mount, PoolEffect, PoolOrder, SegmentSlot};
use super::segment::Phase;
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::route::ShardId;

/// The room requests of all shards, at most one of each.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    waiting: VecDeque<RoomWanted>,
    job: Option<Job>,
    /// The last number that was given to a survey or a job.
    last_number: u64,
    windows_vacated: u64,
}

/// A room request.
#[derive(Debug, Clone)]
pub(super) struct RoomWanted {
    pub(super) shard: ShardId,
    pub(super) number: u64,
    pub(super) size_bytes: u64,
    pub(super) excluded: Vec<SegmentSlot>,
}

/// The search for one request.
#[derive(Debug)]
struct Job {
    wanted: RoomWanted,
    /// Segments that are still to be searched, the best last.
    candidates: Vec<Candidate>,
    search: Option<Search>,
    /// Searches of segments that hardly have the room by the reports.
    long_shots_left: u32,
    earliest_unblocked: Option<Moment>,
    cancelled: bool,
}

#[derive(Debug)]
struct Candidate {
    mount: Mount,
    /// Free and evictable bytes by the reports.
    promise_bytes: u64,
    /// Free bytes alone.
    free_bytes: u64,
}

/// The search of one segment.
#[derive(Debug)]
struct Search {
    mount: Mount,
    need: u32,
    walk: Walk,
    survey: Option<Survey>,
    /// How many more windows of this region may be vacated.
    windows_left: u32,
    /// How often this region may be surveyed once more.
    surveys_left: u32,
    vacating: Option<Vacating>,
    /// Windows that were vacated in part. Their free pages stay reserved while the search goes on,
    /// or the objects that keep coming would take them.
    kept: Vec<PageRun>,
}

#[derive(Debug)]
struct Vacating {
    number: u64,
    window: PageRun,
    awaiting: Vec<ShardId>,
    /// Whether any shard had to vacate anything.
    any: bool,
}

/// What a job does next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Survey the next region.
    Survey,
    /// Choose a window in the surveyed region.
    Choose,
    /// Take the vacated window.
    Settle,
    /// Wait for the shards.
    Wait,
    /// Everything is surveyed.
    Refuse,
    /// The request is answered or gone.
    Done,
}

impl Rooms {
    /// How many windows were vacated since the start.
    pub(super) fn windows_vacated(&self) -> u64 {
        self.windows_vacated
    }

    /// The windows of this mount that are being vacated or were in part, in order.
    pub(super) fn reserved_windows(&self, mount: Mount) -> Vec<PageRun> {
        let search = self.job.as_ref().and_then(|job| job.search.as_ref());
        let Some(search) = search.filter(|search| search.mount == mount) else { return Vec::new() };
        let vacating = search.vacating.as_ref().map(|vacating| vacating.window);
        let mut windows: Vec<PageRun> = search.kept.iter().copied().chain(vacating).collect();
        windows.sort_unstable();
        windows
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Pool {
    /// Looks for room, after the requests before it.
    ///
    /// # Panics
    /// If the shard has a request waiting already.
    pub(super) fn request_room(
        &mut self,
        now: Moment,
        wanted: RoomWanted,
        effects: &mut Vec<PoolEffect>,
    ) {
        let waits = self.rooms.waiting.iter().any(|other| other.shard == wanted.shard);
        assert!(!waits, "{:?} has a room request already", wanted.shard);
        self.rooms.waiting.push_back(wanted);
        self.start_jobs(now, effects);
    }

    /// A request is not needed any more. Nothing is answered.
    pub(super) fn cancel_room(
        &mut self,
        now: Moment,
        shard: ShardId,
        number: u64,
        effects: &mut Vec<PoolEffect>,
    ) {
        let is_it = |wanted: &RoomWanted| wanted.shard == shard && wanted.number == number;
        self.rooms.waiting.retain(|wanted| !is_it(wanted));
        let Some(mut job) = self.rooms.job.take_if(|job| is_it(&job.wanted)) else { return };
        job.cancelled = true;
        let vacates = job.search.as_ref().is_some_and(|search| search.vacating.is_some());
        // What is being vacated comes back first, so that every answer finds its job.
        self.drive(now, job, if vacates { Step::Wait } else { Step::Done }, effects);
    }

    /// A shard has surveyed its part of a region.
    pub(super) fn take_survey(
        &mut self,
        now: Moment,
        shard: ShardId,
        number: u64,
        chunks: &[ChunkCost],
        effects: &mut Vec<PoolEffect>,
    ) {
        let search = self.rooms.job.as_mut().and_then(|job| job.search.as_mut());
        let survey = search.and_then(|search| search.survey.as_mut());
        let Some(survey) = survey.filter(|survey| survey.number == number) else { return };
        if survey.awaiting.remove(&shard) {
            survey.add(now, chunks);
            if survey.awaiting.is_empty()
                && let Some(job) = self.rooms.job.take()
            {
                self.drive(now, job, Step::Choose, effects);
            }
        }
    }

    /// A shard has vacated its part of a window, as far as it could.
    pub(super) fn take_vacated(
        &mut self,
        now: Moment,
        shard: ShardId,
        number: u64,
        runs: &[PageRun],
        effects: &mut Vec<PoolEffect>,
    ) {
        let Some(search) = self.rooms.job.as_mut().and_then(|job| job.search.as_mut()) else {
            return;
        };
        // An answer that finds no job is about a segment that is lost: its pages are nobody's.
        let vacating = search.vacating.as_mut().filter(|vacating| vacating.number == number);
        let Some(vacating) = vacating else { return };
        let Some(segment) = self.segments.mounted(search.mount) else { return };
        for &run in runs {
            segment.heap.take_back(shard, run);
        }
        segment.heap.reserve(vacating.window);
        vacating.awaiting.retain(|&other| other != shard);
        if vacating.awaiting.is_empty()
            && let Some(job) = self.rooms.job.take()
        {
            self.drive(now, job, Step::Settle, effects);
        }
    }

    /// A segment is lost: a job that is at work there goes on elsewhere.
    pub(super) fn abandon_segment(
        &mut self,
        now: Moment,
        mount: Mount,
        effects: &mut Vec<PoolEffect>,
    ) {
        let at_work =
            |job: &mut Job| job.search.as_ref().is_some_and(|search| search.mount == mount);
        let Some(mut job) = self.rooms.job.take_if(at_work) else { return };
        job.search = None;
        let step = if job.cancelled { Step::Done } else { Step::Survey };
        self.drive(now, job, step, effects);
    }

    /// Forgets all requests and gives up what is reserved for them. Nothing is answered.
    pub(super) fn abandon_rooms(&mut self) {
        self.rooms.waiting.clear();
        let Some(mut job) = self.rooms.job.take() else { return };
        if let Some(search) = &mut job.search
            && let Some(vacating) = search.vacating.take()
        {
            search.kept.push(vacating.window);
        }
        self.end_search(&mut job);
    }

    /// Starts waiting jobs until one has to wait for shards.
    fn start_jobs(&mut self, now: Moment, effects: &mut Vec<PoolEffect>) {
        while self.rooms.job.is_none()
            && let Some(wanted) = self.rooms.waiting.pop_front()
        {
            if self.grant_free(&wanted, effects) {
                continue;
            }
            let candidates = self.candidates(&wanted);
            if candidates.is_empty() {
                self.refuse(now, &wanted, None, effects);
                continue;
            }
            let job = Job {
                wanted,
                candidates,
                search: None,
                long_shots_left: LONG_SHOTS,
                earliest_unblocked: None,
                cancelled: false,
            };
            self.run_job(now, job, Step::Survey, effects);
        }
    }

    /// Goes on with a job, and with the next ones when it is done.
    fn drive(&mut self, now: Moment, job: Job, step: Step, effects: &mut Vec<PoolEffect>) {
        self.run_job(now, job, step, effects);
        self.start_jobs(now, effects);
    }

    fn run_job(
        &mut self,
        now: Moment,
        mut job: Job,
        mut step: Step,
        effects: &mut Vec<PoolEffect>,
    ) {
        loop {
            step = match step {
                Step::Survey => self.survey_next(now, &mut job, effects),
                Step::Choose => self.choose_window(&mut job, effects),
                Step::Settle => self.settle_window(&mut job, effects),
                Step::Refuse => {
                    // Something may have become free since, or a segment may have come.
                    if !self.grant_free(&job.wanted, effects) {
                        self.refuse(now, &job.wanted, job.earliest_unblocked, effects);
                    }
                    Step::Done
                }
                Step::Wait => {
                    self.rooms.job = Some(job);
                    return;
                }
                Step::Done => {
                    self.end_search(&mut job);
                    return;
                }
            }
        }
    }

    /// Ends the search of a segment and frees what it has reserved.
    fn end_search(&mut self, job: &mut Job) {
        let Some(search) = job.search.take() else { return };
        let Some(segment) = self.segments.mounted(search.mount) else { return };
        for window in search.kept {
            segment.heap.release(window);
        }
        self.space.changed(search.mount.slot);
    }

    /// Sends a survey of the next region to those who own pages in it.
    fn survey_next(&mut self, now: Moment, job: &mut Job, effects: &mut Vec<PoolEffect>) -> Step {
        let Some((mount, region)) = self.next_region(job) else { return Step::Refuse };
        let Some(search) = &mut job.search else { return Step::Refuse };
        let Some(segment) = self.segments.open(mount) else {
            // It drains by now: nothing is placed there any more.
            self.end_search(job);
            return Step::Survey;
        };
        let chunk_pages = search.walk.chunk_pages();
        let mut survey = Survey::new(self.rooms.next_number(), region, chunk_pages);
        for (run, owner) in segment.heap.runs_in(region) {
            match owner {
                PageOwner::Shard(shard) => {
                    survey.awaiting.insert(shard);
                }
                PageOwner::Withheld { until } if until > now => survey.block_until(run, until),
                PageOwner::Withheld { .. } | PageOwner::Pool | PageOwner::Reserved => {}
            }
        }
        for &shard in &survey.awaiting {
            let order =
                PoolOrder::Survey { survey: survey.number, mount, window: region, chunk_pages };
            effects.push(PoolEffect::Order { shard, order });
        }
        let step = if survey.awaiting.is_empty() { Step::Choose } else { Step::Wait };
        search.survey = Some(survey);
        search.windows_left = WINDOWS_PER_SURVEY;
        step
    }

    /// The next region of the segment that is searched, or of the next best one.
    fn next_region(&mut self, job: &mut Job) -> Option<(Mount, PageRun)> {
        loop {
            if let Some(search) = &mut job.search {
                let surveyed = search.survey.take();
                if let Some(survey) = surveyed
                    && search.windows_left == 0
                    && search.surveys_left > 0
                {
                    search.surveys_left -= 1;
                    return Some((search.mount, survey.region));
                }
                search.surveys_left = SURVEYS_AGAIN;
                if let Some(region) = search.walk.next_region() {
                    return Some((search.mount, region));
                }
                self.end_search(job);
            }
            let Candidate { mount, promise_bytes, .. } = job.candidates.pop()?;
            let regions_max = if promise_bytes >= job.wanted.size_bytes {
                u32::MAX
            } else if job.long_shots_left > 0 {
                // Reports are a little old, and a look also tells when to try again.
                job.long_shots_left -= 1;
                1
            } else {
                continue;
            };
            let Some(segment) = self.segments.open(mount) else { continue };
            let Some(need) = segment.pages_for(job.wanted.size_bytes) else { continue };
            let walk = Walk::new(segment.heap.pages(), need, segment.hand, regions_max);
            job.search = Some(Search {
                mount,
                need,
                walk,
                survey: None,
                windows_left: 0,
                surveys_left: SURVEYS_AGAIN,
                vacating: None,
                kept: Vec::new(),
            });
        }
    }

    /// Reserves the cheapest window of the surveyed region and has it vacated.
    fn choose_window(&mut self, job: &mut Job, effects: &mut Vec<PoolEffect>) -> Step {
        if self.grant_free(&job.wanted, effects) {
            return Step::Done;
        }
        let Some(search) = &mut job.search else { return Step::Survey };
        let Some(survey) = &search.survey else { return Step::Survey };
        job.earliest_unblocked =
            [job.earliest_unblocked, survey.earliest_unblocked()].into_iter().flatten().min();
        let Some(segment) = self.segments.open(search.mount) else { return Step::Survey };
        let wanted = (segment.heap.pages() / SMALL_WINDOW_PART).min(SMALL_WINDOW_PAGES);
        let Some(window) = survey.cheapest(search.need, wanted) else { return Step::Survey };
        if search.windows_left == 0 {
            return Step::Survey;
        }
        search.windows_left -= 1;
        segment.heap.reserve(window);
        let mut runs: BTreeMap<ShardId, Vec<PageRun>> = BTreeMap::new();
        for (run, owner) in segment.heap.runs_in(window) {
            if let PageOwner::Shard(shard) = owner {
                runs.entry(shard).or_default().push(run);
            }
        }
        self.space.changed(search.mount.slot);
        let number = self.rooms.next_number();
        let awaiting: Vec<ShardId> = runs.keys().copied().collect();
        let any = !awaiting.is_empty();
        search.vacating = Some(Vacating { number, window, awaiting, any });
        for (shard, runs) in runs {
            let order = PoolOrder::Vacate { job: number, mount: search.mount, runs };
            effects.push(PoolEffect::Order { shard, order });
        }
        if any { Step::Wait } else { Step::Settle }
    }

    /// Grants the vacated window, or keeps what was vacated of it and goes on.
    fn settle_window(&mut self, job: &mut Job, effects: &mut Vec<PoolEffect>) -> Step {
        let Some(search) = &mut job.search else { return Step::Survey };
        let Some(Vacating { window, any, .. }) = search.vacating.take() else {
            return Step::Survey;
        };
        let Some(segment) = self.segments.mounted(search.mount) else { return Step::Survey };
        self.space.changed(search.mount.slot);
        let placeable = segment.phase == Phase::Open && !job.cancelled;
        let vacated = segment.heap.longest_reserved_in(window);
        let vacated = vacated.filter(|run| placeable && run.pages >= search.need);
        if let Some(survey) = &mut search.survey {
            for (run, owner) in segment.heap.runs_in(window) {
                if owner == PageOwner::Reserved { survey.clear(run) } else { survey.block(run) }
            }
        }
        if let Some(run) = vacated {
            segment.heap.give(job.wanted.shard, run);
            segment.heap.release(window);
            segment.hand = run.end();
            self.rooms.windows_vacated += u64::from(any);
            effects.push(room(&job.wanted, search.mount, run));
            return Step::Done;
        }
        search.kept.push(window);
        if job.cancelled { Step::Done } else { Step::Choose }
    }
}

fn room(wanted: &RoomWanted, mount: Mount, run: PageRun) -> PoolEffect {
    let order = PoolOrder::Room { number: wanted.number, mount, run };
    PoolEffect::Order { shard: wanted.shard, order }
}

/// How many windows of one region are vacated in vain before the search goes on: each one evicts
/// something, and fresh sums are better than old ones.
const WINDOWS_PER_SURVEY: u32 = 4;

/// How often a region is surveyed again when objects came into every window that was vacated. What
/// is won stays reserved meanwhile, so that each time less has to be vacated.
const SURVEYS_AGAIN: u32 = 8;

/// How many segments are looked at that hardly have the room by the reports.
const LONG_SHOTS: u32 = 8;

/// A small request has up to this many pages vacated at once, so that a shard whose own data is
/// all leased doesn't need a job for each put,
const SMALL_WINDOW_PAGES: u32 = 16;

/// but no more than this part of a segment.
const SMALL_WINDOW_PART: u32 = 256;
