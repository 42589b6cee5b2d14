//! The requests of one kind: which keys come next, shared by all who send them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;

use super::args::{Operation, RunArgs};
use super::choice::Choice;
use super::keys::KeyMaker;
use super::plan::{LanePlan, Plan};
use super::schedule::Schedule;
use super::tally::Call;

/// What workers of one kind share.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) plan: LanePlan,
    maker: KeyMaker,
    choice: Choice,
    get_share: f64,
    /// How many keys are there from the start.
    keys: u64,
    /// The number of the next key that is put or removed.
    next: AtomicU64,
    /// When requests are due; none in a closed loop.
    pub(super) schedule: Option<Schedule>,
    /// Keys that were answered so far, for those who watch.
    pub(super) progress: AtomicU64,
}

impl Lane {
    pub(super) fn new(args: &RunArgs, plan: &Plan, lane: &LanePlan) -> Lane {
        // What is put is new: behind what was filled.
        let first = match lane.operation {
            Operation::Fill | Operation::Remove => 0,
            _ => plan.fill,
        };
        Lane {
            plan: lane.clone(),
            maker: plan.maker,
            choice: Choice::new(args.distribution, plan.keys),
            get_share: args.get_share,
            keys: plan.keys,
            next: AtomicU64::new(first),
            schedule: lane.rate.map(|rate| Schedule::new(rate, lane.batch)),
            progress: AtomicU64::new(0),
        }
    }

    /// What an unsent request would have asked for, as far as that is known.
    pub(super) fn usual_call(&self) -> Call {
        match self.plan.operation {
            Operation::Put | Operation::Churn | Operation::Fill => Call::Put,
            Operation::Get | Operation::Mixed => Call::Get,
            Operation::Exist => Call::Exist,
            Operation::MatchPrefix => Call::MatchPrefix,
            Operation::Remove => Call::Remove,
        }
    }

    /// Decides on the next request and appends its keys; `None` if all keys were named. `owed` is
    /// what this worker has put and must make room for.
    pub(super) fn next(
        &self,
        random: &mut impl Rng,
        owed: &mut Option<Range<u64>>,
        keys: &mut Vec<u8>,
    ) -> Option<Call> {
        match self.plan.operation {
            Operation::Put => Some(self.put_new(keys).0),
            Operation::Fill => self.named_once(keys, Call::Put),
            Operation::Remove => self.named_once(keys, Call::Remove),
            Operation::Get => Some(self.drawn(random, keys, Call::Get)),
            Operation::Exist => Some(self.drawn(random, keys, Call::Exist)),
            Operation::MatchPrefix => Some(self.chain(random, keys)),
            Operation::Mixed if random.random_bool(self.get_share) => {
                Some(self.drawn(random, keys, Call::Get))
            }
            Operation::Mixed => Some(self.put_new(keys).0),
            Operation::Churn => Some(self.churn(owed, keys)),
        }
    }

    fn put_new(&self, keys: &mut Vec<u8>) -> (Call, Range<u64>) {
        let batch = u64::from(self.plan.batch);
        let start = self.next.fetch_add(batch, Ordering::Relaxed);
        self.append(start..start + batch, keys);
        (Call::Put, start..start + batch)
    }

    /// The oldest keys go as soon as as many new ones have come.
    fn churn(&self, owed: &mut Option<Range<u64>>, keys: &mut Vec<u8>) -> Call {
        if let Some(put) = owed.take() {
            // Both are never below zero: keys that are put come behind those that were there.
            let oldest = put.start.saturating_sub(self.keys)..put.end.saturating_sub(self.keys);
            self.append(oldest, keys);
            return Call::Remove;
        }
        let (call, put) = self.put_new(keys);
        *owed = Some(put);
        call
    }

    fn named_once(&self, keys: &mut Vec<u8>, call: Call) -> Option<Call> {
        let batch = u64::from(self.plan.batch);
        let start = self.next.fetch_add(batch, Ordering::Relaxed).min(self.keys);
        let numbers = start..(start + batch).min(self.keys);
        (!numbers.is_empty()).then(|| {
            self.append(numbers, keys);
            call
        })
    }

    fn drawn(&self, random: &mut impl Rng, keys: &mut Vec<u8>, call: Call) -> Call {
        (0..self.plan.batch).for_each(|_| self.maker.append(self.choice.draw(random), keys));
        call
    }

    /// Keys that follow each other, as the blocks of one prompt do.
    fn chain(&self, random: &mut impl Rng, keys: &mut Vec<u8>) -> Call {
        let first = self.choice.draw(random);
        let numbers = first..first + u64::from(self.plan.batch);
        numbers.for_each(|number| self.maker.append(number % self.keys, keys));
        Call::MatchPrefix
    }

    fn append(&self, numbers: Range<u64>, keys: &mut Vec<u8>) {
        numbers.for_each(|number| self.maker.append(number, keys));
    }
}

#[cfg(test)]
mod tests;
