//! What happened between two answers of one master, for each second.

use super::status::{Operation, Status, Totals, ratio};

/// What happens in each second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// `None` if one of the answers lacks what shards know.
    pub(super) keys: Option<KeyRates>,
    /// Processor time in each second, in percent of one core.
    pub(super) cpu_percent: f64,
    /// In the order of the later answer.
    pub(super) operations: Vec<OperationRates>,
}

/// Rates of keys, whichever front end they came by.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeyRates {
    pub(super) puts: f64,
    pub(super) gets: f64,
    pub(super) exists: f64,
    pub(super) removes: f64,
    pub(super) refused: f64,
    pub(super) evicted_objects: f64,
    pub(super) evicted_bytes: f64,
    /// Of the keys that were asked for, those that were found; `None` if none was asked for.
    pub(super) hit_ratio: Option<f64>,
}

/// Rates of one operation at one front end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperationRates {
    pub(super) front_end: String,
    pub(super) operation: String,
    pub(super) requests: f64,
    pub(super) items: f64,
    pub(super) failures: f64,
    /// Half of the requests took no longer; `None` if there was none.
    pub(super) p50_us: Option<f64>,
    /// All but one in a hundred took no longer.
    pub(super) p99_us: Option<f64>,
}

impl Rates {
    /// `None` if the answers are of two processes, or of one moment.
    pub(super) fn between(earlier: &Status, later: &Status) -> Option<Rates> {
        let seconds = later.uptime_s - earlier.uptime_s;
        if earlier.pid != later.pid || seconds < SHORTEST_S {
            return None;
        }
        let totals = earlier.totals.as_ref().zip(later.totals.as_ref());
        let operations = later.operations.iter();
        Some(Rates {
            keys: totals.map(|(before, after)| of_keys(before, after, seconds)),
            cpu_percent: (later.cpu_s - earlier.cpu_s) / seconds * 100.0,
            operations: operations.map(|after| of_operation(earlier, after, seconds)).collect(),
        })
    }
}

fn of_keys(before: &Totals, after: &Totals, seconds: f64) -> KeyRates {
    let passed = |figure: fn(&Totals) -> u64| figure(after).saturating_sub(figure(before));
    let rate = |figure: fn(&Totals) -> u64| passed(figure) as f64 / seconds;
    let gets = passed(|it| it.gets);
    KeyRates {
        puts: rate(|it| it.put_ends),
        gets: rate(|it| it.gets),
        exists: rate(|it| it.exists),
        removes: rate(|it| it.removed),
        refused: rate(|it| it.put_refused),
        evicted_objects: rate(|it| it.evicted_objects),
        evicted_bytes: rate(|it| it.evicted_bytes),
        hit_ratio: (gets > 0).then(|| ratio(passed(|it| it.get_hits), gets)),
    }
}

fn of_operation(earlier: &Status, after: &Operation, seconds: f64) -> OperationRates {
    let same =
        |it: &&Operation| (&it.front_end, &it.operation) == (&after.front_end, &after.operation);
    let nothing = Operation::default();
    let before = earlier.operations.iter().find(same).unwrap_or(&nothing);
    let rate = |figure: fn(&Operation) -> u64| {
        figure(after).saturating_sub(figure(before)) as f64 / seconds
    };
    let fresh = fresh_buckets(&before.durations_us, &after.durations_us);
    OperationRates {
        front_end: after.front_end.clone(),
        operation: after.operation.clone(),
        requests: rate(|it| it.requests),
        items: rate(|it| it.items),
        failures: rate(|it| it.failures),
        p50_us: quantile(&fresh, 0.5),
        p99_us: quantile(&fresh, 0.99),
    }
}

/// What has come to each bucket, those with nothing left out.
fn fresh_buckets(before: &[(f64, u64)], after: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let known = |upper_us: f64| {
        // Both ends make the bounds from the same numbers.
        before.iter().find(|(upper, _)| *upper == upper_us).map_or(0, |(_, count)| *count)
    };
    let mut fresh: Vec<(f64, u64)> = after
        .iter()
        .map(|(upper, count)| (*upper, count.saturating_sub(known(*upper))))
        .filter(|(_, count)| *count > 0)
        .collect();
    fresh.sort_by(|one, other| one.0.total_cmp(&other.0));
    fresh
}

/// The bound below which this part lies.
fn quantile(buckets: &[(f64, u64)], part: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let wanted = ((all as f64 * part).ceil() as u64).max(1);
    let mut below = 0;
    let reaches = |(_, count): &&(f64, u64)| {
        below += count;
        below >= wanted
    };
    buckets.iter().find(reaches).map(|(upper, _)| *upper)
}

/// Of two answers that come closer, a rate would be noise.
const SHORTEST_S: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uptime_s: f64, gets: u64, durations_us: &[(f64, u64)]) -> Status {
        let requests = durations_us.iter().map(|(_, count)| count).sum();
        let get = Operation {
            front_end: "quic".to_owned(),
            operation: "Get".to_owned(),
            requests,
            durations_us: durations_us.to_vec(),
            ..Operation::default()
        };
        Status {
            pid: 7,
            uptime_s,
            cpu_s: uptime_s / 2.0,
            totals: Some(Totals { gets, get_hits: gets / 4, ..Totals::default() }),
            operations: vec![get],
            ..Status::default()
        }
    }

    #[test]
    fn rates_are_those_of_the_time_in_between() {
        let before = status(10.0, 1_000, &[(8.0, 50)]);
        let after = status(12.0, 3_000, &[(8.0, 50), (16.0, 98), (900.0, 2)]);
        let rates = Rates::between(&before, &after).unwrap();
        let keys = rates.keys.unwrap();
        assert_eq!((keys.gets, keys.hit_ratio, rates.cpu_percent), (1_000.0, Some(0.25), 50.0));
        let get = &rates.operations[0];
        assert_eq!((get.requests, get.p50_us, get.p99_us), (50.0, Some(16.0), Some(900.0)));
    }

    #[test]
    fn an_operation_without_requests_has_no_latency() {
        let before = status(1.0, 0, &[(8.0, 50)]);
        let rates = Rates::between(&before, &status(2.0, 0, &[(8.0, 50)])).unwrap();
        let get = &rates.operations[0];
        assert_eq!((get.requests, get.p50_us, rates.keys.unwrap().hit_ratio), (0.0, None, None));
    }

    #[test]
    fn an_operation_that_is_new_counts_from_nothing() {
        let before = Status { pid: 7, uptime_s: 1.0, ..Status::default() };
        let rates = Rates::between(&before, &status(2.0, 9, &[(8.0, 5)])).unwrap();
        assert_eq!(rates.operations[0].requests, 5.0);
        assert_eq!(rates.keys, None, "without the totals before there is no rate");
    }

    #[test]
    fn another_process_or_the_same_moment_has_no_rates() {
        let before = status(10.0, 1_000, &[]);
        let restarted = Status { pid: 8, ..status(12.0, 5, &[]) };
        assert_eq!(Rates::between(&before, &restarted), None);
        assert_eq!(Rates::between(&before, &before), None);
        assert_eq!(Rates::between(&before, &status(3.0, 0, &[])), None);
    }
}
