//! What came of the requests.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Start and end of puts: two requests.
    Put,
    Get,
    Exist,
    MatchPrefix,
    Remove,
}

impl Call {
    /// All of them, in the order of [`Call::index`].
    pub(super) const ALL: [Call; 5] =
        [Call::Put, Call::Get, Call::Exist, Call::MatchPrefix, Call::Remove];

    /// As the flag writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Put => "put",
            Call::Get => "get",
            Call::Exist => "exist",
            Call::MatchPrefix => "match-prefix",
            Call::Remove => "remove",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// What the master answered to one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Keys for which it did what was asked.
    pub(super) done: u64,
    /// Keys that it does not have, where that is an ordinary answer.
    pub(super) missing: u64,
    /// Keys that it refused.
    pub(super) refused: u64,
    /// Requests that it took.
    pub(super) requests: u64,
}

/// Counts and latencies of one kind of request.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) answers: Answer,
    /// Requests that failed as a whole.
    pub(super) errors: u64,
    /// Requests of an open loop that were due and were not sent in time.
    pub(super) unsent: u64,
    pub(super) latency_ns: Histogram<u64>,
}

impl Part {
    fn new() -> Part {
        let latency_ns =
            Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
                .expect("the bounds are constants that the histogram allows");
        Part { answers: Answer::default(), errors: 0, unsent: 0, latency_ns }
    }

    /// Keys that got an answer, whatever it was.
    pub(super) fn keys(&self) -> u64 {
        self.answers.done + self.answers.missing
    }

    fn add(&mut self, other: &Part) {
        self.answers.done += other.answers.done;
        self.answers.missing += other.answers.missing;
        self.answers.refused += other.answers.refused;
        self.answers.requests += other.answers.requests;
        self.errors += other.errors;
        self.unsent += other.unsent;
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
    }

    fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.saturating_record(ns);
    }
}

/// Counts and latencies of all requests of one worker, or of many.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    parts: [Option<Box<Part>>; Call::ALL.len()],
    /// Why the first request failed that did.
    pub(super) first_error: Option<String>,
}

impl Tally {
    fn part(&mut self, call: Call) -> &mut Part {
        self.parts[call.index()].get_or_insert_with(|| Box::new(Part::new()))
    }

    pub(super) fn answered(&mut self, call: Call, latency: Duration, answer: &Answer) {
        let part = self.part(call);
        part.record(latency);
        part.answers.done += answer.done;
        part.answers.missing += answer.missing;
        part.answers.refused += answer.refused;
        part.answers.requests += answer.requests;
    }

    pub(super) fn failed(&mut self, call: Call, reason: String) {
        self.part(call).errors += 1;
        self.first_error.get_or_insert(reason);
    }

    /// A request that waited so long in vain. It counts with this latency, or a master that stalls
    /// until the end would look fast.
    pub(super) fn unsent(&mut self, call: Call, waited: Duration) {
        let part = self.part(call);
        part.unsent += 1;
        part.record(waited);
    }

    pub(super) fn add(&mut self, other: Tally) {
        for (own, others) in self.parts.iter_mut().zip(other.parts) {
            match (own, others) {
                (Some(own), Some(others)) => own.add(&others),
                (own @ None, others) => *own = others,
                (Some(_), None) => {}
            }
        }
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// The kinds of requests that were sent, with what came of them.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Call, &Part)> {
        let parts = Call::ALL.into_iter().zip(&self.parts);
        parts.filter_map(|(call, part)| Some((call, part.as_deref()?)))
    }

    /// All kinds together.
    pub(super) fn total(&self) -> Part {
        let mut total = Part::new();
        self.parts().for_each(|(_, part)| total.add(part));
        total
    }
}

/// Finer than anything that a network does.
const LATENCY_NS_MIN: u64 = 100;

/// A quarter of an hour; what takes longer counts as this.
const LATENCY_NS_MAX: u64 = 900_000_000_000;

/// Percentiles are exact to a thousandth.
const SIGNIFICANT_DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_workers_add_up_by_kind_and_in_total() {
        let answer = Answer { done: 60, missing: 3, refused: 1, requests: 2 };
        let (mut one, mut two) = (Tally::default(), Tally::default());
        one.answered(Call::Put, Duration::from_micros(10), &answer);
        two.answered(Call::Put, Duration::from_micros(30), &answer);
        two.answered(Call::Get, Duration::from_micros(20), &answer);
        two.failed(Call::Get, "late".to_owned());
        one.add(two);
        let names: Vec<&str> = one.parts().map(|(call, _)| call.name()).collect();
        assert_eq!(names, ["put", "get"]);
        let total = one.total();
        assert_eq!((total.keys(), total.answers.refused, total.errors), (189, 3, 1));
        assert_eq!(total.answers.requests, 6);
        assert_eq!(total.latency_ns.len(), 3);
        assert_eq!(one.first_error.as_deref(), Some("late"));
    }

    #[test]
    fn what_was_not_sent_shows_in_the_latency() {
        let mut tally = Tally::default();
        tally.unsent(Call::Get, Duration::from_secs(4));
        let total = tally.total();
        assert_eq!((total.unsent, total.keys()), (1, 0));
        assert!(total.latency_ns.max() >= 3_990_000_000);
    }

    #[test]
    fn a_latency_beyond_the_scale_counts_as_its_end() {
        let mut tally = Tally::default();
        tally.unsent(Call::Get, Duration::from_secs(1 << 20));
        assert!(tally.total().latency_ns.max() >= LATENCY_NS_MAX);
    }
}
