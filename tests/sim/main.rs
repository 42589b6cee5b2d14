//! The simulator: a whole cluster in one thread, on virtual time, from one seed.
//!
//! Clients and stores work against the core's state machines while lanes delay, stores die, fall
//! silent and come back, and clients die in the midst of puts. The memory of the stores is
//! modelled, so that a reader who finds the bytes of another put is caught in the act. A seed that
//! fails prints the command that repeats it.
//!
//! `MOORING_SIM_SEEDS` is how many seeds are run, `MOORING_SIM_SEED` runs just that one, and
//! `MOORING_SIM_TRACE=1` prints every event.

#[path = "../cluster/mod.rs"]
mod cluster;

mod asked;
mod audit;
mod checks;
mod client;
mod ending;
mod guards;
mod keeper;
mod keys;
mod oracle;
mod plan;
mod planted;
mod restart;
mod store;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use ending::Outcome;
use plan::{Canary, Plan};
use world::World;

#[test]
fn every_seed_keeps_all_invariants_and_repeats_itself() {
    let traced = std::env::var_os("MOORING_SIM_TRACE").is_some();
    let seeds = match number("MOORING_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MOORING_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let mut failed = Vec::new();
    for seed in seeds {
        let first = run(Plan::new(seed), traced);
        let fault = match first {
            Err(fault) => Some(fault),
            Ok(first) => {
                let Outcome { events, tally, .. } = first;
                println!("seed {seed}: {events} events, {tally:?}");
                match run(Plan::new(seed), false) {
                    Ok(second) if second.hash == first.hash => None,
                    _ => Some("a second run went otherwise".to_owned()),
                }
            }
        };
        if let Some(fault) = fault {
            eprintln!("seed {seed}: {fault}");
            eprintln!(
                "repeat it: MOORING_SIM_SEED={seed} cargo nextest run -p mooring-actors --test sim \
                 every_seed --no-capture"
            );
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "failed seeds: {failed:?}");
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
fn requests_without_an_answer_are_noticed() {
    assert_noticed(Canary::LostRequests, &["answered"]);
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
    let faults: Vec<String> =
        (0..CANARY_SEEDS).filter_map(|seed| run(plan(seed), false).err()).collect();
    let noticed = faults
        .iter()
        .any(|fault| invariants.iter().any(|id| fault.starts_with(&format!("{id}: "))));
    assert!(noticed, "{canary:?} shows only as {faults:?}");
}

/// Runs a plan; a panic of the core counts as a fault like any other.
fn run(plan: Plan, traced: bool) -> Result<Outcome, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(plan, traced).run()));
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

/// A canary does not sing in every seed.
const CANARY_SEEDS: u64 = 3;
