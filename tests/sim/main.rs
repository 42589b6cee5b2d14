//! The simulator: a whole cluster in one thread, on virtual time, from one seed.
//!
//! Clients and stores work against the core's state machines while lanes delay, stores die, fall
//! silent, hang and come back, clients die in the midst of puts, the network loses, doubles and
//! delays what is sent and falls apart, clocks run at other rates, and masters stall, hand over or are
//! killed. The memory of the stores is modelled, so that a reader who finds the bytes of another put
//! is caught in the act. A seed that fails is made smaller, and prints the command that repeats it.
//!
//! `MOORING_SIM_SEEDS` is how many seeds are run, or which (`100..200`), `MOORING_SIM_SEED` runs just
//! that one, `MOORING_SIM_LESS` leaves parts of its plan out, and `MOORING_SIM_TRACE=1` prints every
//! event and checks everything after each of them. `MOORING_SIM_THREADS` runs several seeds at once.

#[path = "../cluster/mod.rs"]
mod cluster;

mod access;
mod agenda;
mod asked;
mod audit;
mod checks;
mod client;
mod digest;
mod ending;
mod event;
mod guards;
mod keeper;
mod keys;
mod network;
mod oracle;
mod plan;
mod planted;
mod reader;
mod restart;
mod shrink;
mod store;
mod world;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ending::Outcome;
use plan::{Canary, Plan};
use shrink::{shrink, without};
use world::World;

#[test]
fn every_seed_keeps_all_invariants_and_repeats_itself() {
    let threads = number("MOORING_SIM_THREADS").unwrap_or(1);
    let (seeds, began) = (seeds(), Instant::now());
    let (next, virtual_ms) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match judge(seed) {
                        Some(ran_ms) => {
                            virtual_ms.fetch_add(ran_ms, Ordering::Relaxed);
                        }
                        None => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    let (ran_s, took_s) = (virtual_ms.into_inner() as f64 / 1e3, began.elapsed().as_secs_f64());
    println!(
        "{seeds:?}: {ran_s:.0} s of clusters in {took_s:.1} s, {:.0} times as fast",
        ran_s / took_s
    );
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed seeds: {failed:?}");
}

/// Runs a seed, and says for how long its clusters ran together by their own clocks; nothing if it has
/// failed.
fn judge(seed: u64) -> Option<u64> {
    let less = std::env::var("MOORING_SIM_LESS").unwrap_or_default();
    let traced = std::env::var_os("MOORING_SIM_TRACE").is_some();
    let plan = without(Plan::new(seed), &less).unwrap_or_else(|fault| panic!("{fault}"));
    match run_twice(&plan, traced) {
        Ok(Outcome { events, tally, virtual_ms, .. }) => {
            println!("seed {seed}: {events} events in {virtual_ms} ms, {tally:?}");
            Some(2 * virtual_ms)
        }
        Err(fault) => {
            eprintln!("seed {seed}: {fault}");
            tell_how_to_repeat(&plan, &fault, &less);
            None
        }
    }
}

/// Runs a plan, and again to see that it goes the same way.
fn run_twice(plan: &Plan, traced: bool) -> Result<Outcome, String> {
    let first = run(plan.clone(), traced, true)?;
    match run(plan.clone(), false, false) {
        Ok(second) if second.hash == first.hash => Ok(first),
        _ => Err("a second run went otherwise".to_owned()),
    }
}

/// Makes the plan smaller while it fails in the same way, and prints the command that runs that.
fn tell_how_to_repeat(plan: &Plan, fault: &str, less: &str) {
    let kind = |fault: &str| fault.split(':').next().unwrap_or_default().to_owned();
    let (smallest, left_out) = shrink(plan, |smaller| {
        run_twice(smaller, false).is_err_and(|other| kind(&other) == kind(fault))
    });
    let left_out: Vec<&str> =
        less.split(',').filter(|name| !name.is_empty()).chain(left_out).collect();
    eprintln!("what is left of its plan: {smallest:?}");
    eprintln!(
        "repeat it: MOORING_SIM_SEED={} MOORING_SIM_LESS={} MOORING_SIM_TRACE=1 \\\n    cargo test -p \
         mooring-actors --test sim every_seed -- --nocapture",
        plan.seed,
        left_out.join(",")
    );
}

/// The seeds to run: a single one, so many, or from one to before another one.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = number("MOORING_SIM_SEED") {
        return seed..seed + 1;
    }
    let Ok(text) = std::env::var("MOORING_SIM_SEEDS") else { return 0..SEEDS };
    let bounds = match text.split_once("..") {
        None => text.parse().map(|count| 0..count),
        Some((from, to)) => from.parse().and_then(|from| Ok(from..to.parse()?)),
    };
    bounds.unwrap_or_else(|_| panic!("MOORING_SIM_SEEDS must be a number or two, as in 100..200"))
}

#[test]
fn writes_that_land_beside_their_range_are_noticed() {
    assert_noticed(Canary::ShiftedWrites, &["readable"]);
}

#[test]
fn holds_and_leases_that_end_early_are_noticed() {
    assert_noticed(Canary::EarlyTicks, &["lease", "readable"]);
}

#[test]
fn leases_that_eviction_ignores_are_noticed() {
    assert_noticed(Canary::IgnoredLeases, &["lease", "readable"]);
}

#[test]
fn stale_tokens_that_are_accepted_are_noticed() {
    assert_noticed(Canary::StaleTokens, &["readable"]);
}

#[test]
fn writers_that_call_a_write_in_doubt_settled_are_noticed() {
    assert_noticed(Canary::QuietDoubts, &["readable"]);
}

#[test]
fn writers_without_tokens_that_have_two_puts_of_a_key_are_noticed() {
    assert_shows(Canary::HastyWriters, &["readable"], |seed| {
        Plan::of_writers(seed, Canary::HastyWriters)
    });
}

#[test]
fn writers_that_go_on_when_their_master_was_killed_are_noticed() {
    assert_shows(Canary::RestlessWriters, &["readable"], |seed| {
        Plan::of_kills(seed, Canary::RestlessWriters)
    });
}

#[test]
fn memory_whose_former_master_nobody_names_is_noticed() {
    assert_shows(Canary::UnnamedMasters, &["lease", "readable"], |seed| {
        Plan::of_kills(seed, Canary::UnnamedMasters)
    });
}

#[test]
fn stores_that_start_again_at_an_address_that_peers_know_are_noticed() {
    assert_shows(Canary::SameAddress, &["readable"], |seed| {
        Plan::of_crashes(seed, Canary::SameAddress)
    });
}

#[test]
fn clocks_that_run_slow_are_noticed() {
    assert_noticed(Canary::SlowClocks, &["readable"]);
}

#[test]
fn requests_without_an_answer_are_noticed() {
    assert_noticed(Canary::LostRequests, &["answered"]);
}

#[test]
fn segments_that_live_on_without_their_store_knowing_are_noticed() {
    assert_noticed(Canary::UntoldMounts, &["conservation", "answered"]);
}

#[test]
fn readers_that_outlive_their_lease_are_noticed() {
    assert_noticed(Canary::LateReads, &["readable"]);
}

#[test]
fn a_snapshot_that_is_used_twice_is_noticed() {
    assert_noticed_in_handoffs(Canary::StaleSnapshot, &["readable", "lease"]);
}

#[test]
fn memory_that_is_taken_for_the_same_at_another_base_is_noticed() {
    assert_noticed_in_handoffs(Canary::UncheckedBase, &["readable"]);
}

#[test]
fn keys_that_come_back_after_they_were_removed_while_hidden_are_noticed() {
    assert_noticed_in_handoffs(Canary::RevivedKeys, &["readable"]);
}

#[test]
fn holds_that_end_with_the_master_are_noticed() {
    assert_noticed_in_handoffs(Canary::DroppedHolds, &["lease", "readable"]);
}

#[test]
fn groups_that_the_master_is_not_told_are_noticed() {
    assert_shows(Canary::UntoldGroups, &["conservation", "lease"], |seed| {
        Plan::of_groups(seed, Canary::UntoldGroups)
    });
}

#[test]
fn groups_that_end_with_the_master_are_noticed() {
    assert_shows(Canary::DroppedGroups, &["conservation", "lease"], |seed| {
        Plan::of_groups(seed, Canary::DroppedGroups)
    });
}

#[test]
fn reads_that_do_not_keep_the_rest_of_the_group_are_noticed() {
    assert_shows(Canary::LonelyMembers, &["lease"], |seed| {
        Plan::of_groups(seed, Canary::LonelyMembers)
    });
}

#[test]
fn leases_that_run_out_before_the_next_master_serves_are_noticed() {
    assert_noticed_in_handoffs(Canary::EarlyTime, &["lease", "readable"]);
}

fn assert_noticed_in_handoffs(canary: Canary, invariants: &[&str]) {
    assert_shows(canary, invariants, |seed| Plan::of_handoffs(seed, canary));
}

/// A fault of the harness must show as a violation of one of these invariants within some seeds.
fn assert_noticed(canary: Canary, invariants: &[&str]) {
    assert_shows(canary, invariants, |seed| Plan { canary: Some(canary), ..Plan::new(seed) });
}

fn assert_shows(canary: Canary, invariants: &[&str], plan: impl Fn(u64) -> Plan) {
    let mut others = Vec::new();
    for seed in 0..CANARY_SEEDS {
        let Err(fault) = run(plan(seed), false, true) else { continue };
        if invariants.iter().any(|id| fault.starts_with(&format!("{id}: "))) {
            println!("{canary:?} shows in seed {seed}: {fault}");
            return;
        }
        others.push(fault);
    }
    panic!("{canary:?} shows only as {others:?}");
}

/// Runs a plan; a panic of the core counts as a fault like any other.
fn run(plan: Plan, traced: bool, checked: bool) -> Result<Outcome, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(plan, traced, checked).run()));
    match outcome {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(violation)) => Err(violation.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("panic: {}", text.unwrap_or("of an unknown kind")))
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

/// As many as a gate has time for.
const SEEDS: u64 = 20;

/// A canary does not sing in every seed, but in one of so many.
const CANARY_SEEDS: u64 = 200;
