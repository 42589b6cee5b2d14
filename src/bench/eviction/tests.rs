use std::collections::HashMap;

use super::policy::distinct;
use super::*;

fn rate(policy: PolicyName, blocks: u64, requests: &[TraceRequest]) -> f64 {
    measure(policy, blocks, requests).hit_rate()
}

/// The beginning of a generated trace.
fn beginning(shape: Shape) -> Vec<TraceRequest> {
    let mut trace = shape.trace();
    trace.truncate(3_000);
    trace
}

fn chains(chains: &[&[u64]]) -> Vec<TraceRequest> {
    let request = |(second, chain): (u64, &&[u64])| TraceRequest {
        timestamp: second * 1_000,
        hash_ids: chain.to_vec(),
        ..TraceRequest::default()
    };
    (0..).zip(chains).map(request).collect()
}

#[test]
fn a_generated_trace_is_the_same_each_time_and_in_order() {
    for shape in Shape::all() {
        let trace = shape.trace();
        assert_eq!(trace, shape.trace());
        assert!(trace.is_sorted_by_key(|request| request.timestamp), "{}", shape.name());
    }
}

#[test]
fn equal_blocks_of_a_generated_trace_stand_behind_equal_blocks() {
    for shape in Shape::all() {
        let mut before: HashMap<u64, Option<u64>> = HashMap::new();
        for request in beginning(shape) {
            let mut last = None;
            for block in request.hash_ids {
                assert_eq!(*before.entry(block).or_insert(last), last, "{}", shape.name());
                last = Some(block);
            }
        }
    }
}

#[test]
fn with_room_for_all_every_policy_misses_each_block_once() {
    let trace = beginning(Shape::Phases);
    let references: usize = trace.iter().map(|request| request.hash_ids.len()).sum();
    for policy in PolicyName::all() {
        let figures = measure(policy, 1 << 20, &trace);
        assert_eq!(figures.references, references as u64);
        assert_eq!(figures.references - figures.hits, distinct(&trace), "{}", policy.name());
    }
}

#[test]
fn a_policy_keeps_no_more_than_there_is_room_for() {
    // One more than there is room for, round and round: whoever knows the future finds all but one of
    // each round.
    let rounds: Vec<&[u64]> = vec![&[1, 2, 3, 4, 5]; 50];
    let trace = chains(&rounds);
    assert_eq!(measure(PolicyName::Lru, 4, &trace).hits, 0);
    for policy in PolicyName::all() {
        let hits = measure(policy, 4, &trace).hits;
        assert!(hits <= measure(PolicyName::Clairvoyant, 4, &trace).hits, "{}", policy.name());
        assert!(hits <= 4 * 49, "{}", policy.name());
    }
}

#[test]
fn a_prefix_ends_where_a_block_is_missing() {
    let figures = measure(PolicyName::Lru, 8, &chains(&[&[1, 2, 4], &[1, 2, 3, 4]]));
    assert_eq!((figures.references, figures.hits, figures.prefix_hits), (7, 3, 2));
}

#[test]
fn nothing_finds_more_than_what_knows_the_future() {
    for shape in [Shape::Conversations, Shape::Phases] {
        let trace = beginning(shape);
        let most = rate(PolicyName::Clairvoyant, 2_048, &trace);
        for policy in PolicyName::all() {
            assert!(rate(policy, 2_048, &trace) <= most, "{} {}", shape.name(), policy.name());
        }
    }
}

#[test]
fn the_policy_of_the_master_is_never_much_worse_than_least_recently_used_and_often_better() {
    let mut better = 0;
    for shape in Shape::all() {
        let trace = beginning(shape);
        let lru = rate(PolicyName::Lru, 2_048, &trace);
        let adaptive = rate(PolicyName::Adaptive, 2_048, &trace);
        assert!(adaptive > lru - 0.005, "{}: {adaptive} {lru}", shape.name());
        better += usize::from(adaptive > lru * 1.05);
    }
    assert!(better >= 3, "only {better} of 6 are better by a twentieth");
}
