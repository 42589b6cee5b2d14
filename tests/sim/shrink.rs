//! Making the plan of a failed seed smaller: whatever can be left out without the fault going away
//! is left out, so that what remains is what the fault needs.

use crate::network::NetworkPlan;
use crate::plan::Plan;

/// Something that a plan can do without, by the name under which it is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Omission {
    pub(crate) name: &'static str,
    omit: fn(&mut Plan),
}

/// From what takes most of a plan away to what takes least. Each may be left out more than once.
pub(crate) const OMISSIONS: &[Omission] = &[
    Omission { name: "restarts", omit: |plan| plan.restarts.clear() },
    Omission { name: "network", omit: |plan| plan.network = NetworkPlan::default() },
    Omission { name: "faults", omit: |plan| plan.fault_pause_ms = 1_000_000 },
    Omission { name: "stalls", omit: |plan| plan.stall_pause_ms = 0 },
    Omission { name: "half-the-time", omit: |plan| plan.busy_ms = plan.busy_ms.div_ceil(2) },
    Omission {
        name: "last-restart",
        omit: |plan| plan.restarts.truncate(plan.restarts.len().saturating_sub(1)),
    },
    Omission {
        name: "last-store",
        omit: |plan| {
            let one_less = plan.stores.len().saturating_sub(1).max(1);
            plan.stores.truncate(one_less);
        },
    },
    Omission { name: "one-client", omit: |plan| plan.clients = (plan.clients - 1).max(1) },
    Omission { name: "cuts", omit: |plan| plan.network.cut_pause_ms = 0 },
    Omission { name: "loss", omit: |plan| plan.network.loss_ratio = 0.0 },
    Omission { name: "doubles", omit: |plan| plan.network.doubled_ratio = 0.0 },
    Omission { name: "overtaking", omit: |plan| plan.network.overtaking_ratio = 0.0 },
    Omission { name: "write-loss", omit: |plan| plan.network.write_loss_ratio = 0.0 },
    Omission { name: "clocks", omit: |plan| plan.clock_ratio = 1.0 },
    Omission { name: "rudeness", omit: |plan| plan.rude_ratio = 0.0 },
    Omission { name: "pins", omit: |plan| (plan.hard_pin_ratio, plan.soft_pin_ratio) = (0.0, 0.0) },
    Omission { name: "groups", omit: |plan| plan.groups = 0 },
    Omission { name: "replicas", omit: |plan| plan.replicas_max = 1 },
    Omission {
        name: "segments",
        omit: |plan| plan.stores.iter_mut().for_each(|store| store.segments = 1),
    },
    Omission {
        name: "shards",
        omit: |plan| {
            plan.shards = 1;
            plan.restarts.iter_mut().for_each(|restart| restart.shards = 1);
        },
    },
    Omission { name: "half-the-keys", omit: |plan| plan.keys = plan.keys.div_ceil(2) },
    Omission { name: "half-the-pace", omit: |plan| plan.pause_ms = (2 * plan.pause_ms).min(500) },
];

/// A plan without what is named, separated by commas.
///
/// # Errors
/// A name that is none.
pub(crate) fn without(mut plan: Plan, names: &str) -> Result<Plan, String> {
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let known = OMISSIONS.iter().find(|omission| omission.name == name);
        let omission = known.ok_or_else(|| format!("nothing is called {name} in a plan"))?;
        (omission.omit)(&mut plan);
    }
    Ok(plan)
}

/// What can be left out of a plan while it still fails, tried again and again until nothing more can
/// be, or until it has taken too many runs.
pub(crate) fn shrink(
    plan: &Plan,
    still_fails: impl Fn(&Plan) -> bool,
) -> (Plan, Vec<&'static str>) {
    let mut smallest = plan.clone();
    let mut left_out = Vec::new();
    let mut runs = 0;
    loop {
        let before = left_out.len();
        for omission in OMISSIONS {
            loop {
                let mut smaller = smallest.clone();
                (omission.omit)(&mut smaller);
                if smaller == smallest || runs == RUNS_MAX {
                    break;
                }
                runs += 1;
                if !still_fails(&smaller) {
                    break;
                }
                smallest = smaller;
                left_out.push(omission.name);
            }
        }
        if left_out.len() == before {
            return (smallest, left_out);
        }
    }
}

/// A run takes a tenth of a second or two.
const RUNS_MAX: u32 = 200;
