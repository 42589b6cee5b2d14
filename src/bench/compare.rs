//! `mooring bench run --compare A --compare B`: the same load on two masters in turn.
//!
//! A machine is not equally fast at all times, so the two take turns, and medians are compared.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::{RunArgs, Transport};
use super::plan::Plan;
use super::report;
use super::run::mounted;
use crate::command::table::{Align, Table};
use crate::command::{self, CommandError};
use crate::output;
use crate::tls::dev::Published;

/// Runs all rounds and prints the figures.
///
/// # Errors
/// A master that cannot be started or does not serve, and what a single run fails with.
pub(super) fn run(args: &RunArgs, plan: &Plan) -> Result<ExitCode, CommandError> {
    let mut runs: Vec<Vec<Value>> = vec![Vec::new(); args.compare.len()];
    for round in 1..=args.rounds {
        for (index, program) in args.compare.iter().enumerate() {
            output::note(format_args!("round {round} of {}: {program}", args.rounds));
            let mut master = Master::start(program)?;
            let of_master = RunArgs { master_pid: Some(master.child.id()), ..args.clone() };
            let measured = command::block_on(mounted(&of_master, plan, START_PATIENCE));
            let measured = measured.map_err(|error| master.explain(error))?;
            if args.transport == Transport::Quic {
                // The next one would be refused by what is left of this one, with a warning each time.
                let left = args.client.address.left_by_master();
                drop(master);
                left.inspect(Published::withdraw);
            }
            runs[index].push(report::as_json(&of_master, plan, &measured));
        }
    }
    let medians: Vec<Map<String, Value>> = runs.iter().map(|runs| medians(runs)).collect();
    if args.client.json {
        output::print_line(as_json(args, &runs, &medians))?;
    } else {
        output::print(as_text(&medians))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The process of a master; it is killed when it is dropped.
struct Master {
    program: String,
    child: Child,
}

impl Master {
    fn start(program: &str) -> Result<Master, CommandError> {
        // The shell splits the words and then becomes the master, so that its id is the master's.
        let child = Command::new("sh")
            .args(["-c", &format!("exec {program}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt is for the generator, which ends the master itself.
            .process_group(0)
            .spawn()
            .map_err(|error| CommandError::failed(format!("cannot start {program}"), error))?;
        Ok(Master { program: program.to_owned(), child })
    }

    /// Why a run failed, if that was because the master ended.
    fn explain(&mut self, error: CommandError) -> CommandError {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                CommandError::Failed(format!("{} ended with {status}: {error}", self.program))
            }
            _ => error,
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // It may have ended already. It has nothing that is worth an orderly end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The median of each figure; figures that a run does not know are left out.
fn medians(runs: &[Value]) -> Map<String, Value> {
    let mut medians = Map::new();
    for (name, pointer) in FIGURES {
        let known = runs.iter().filter_map(|run| run.pointer(pointer)?.as_f64());
        if let Some(median) = median(known.collect()) {
            medians.insert((*name).to_owned(), json!(median));
        }
    }
    medians
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

/// The second master's figures by the first one's.
fn ratios(medians: &[Map<String, Value>]) -> Map<String, Value> {
    let [first, second, ..] = medians else { return Map::new() };
    let ratio = |name: &String, value: &Value| {
        let (of, by) = (second.get(name)?.as_f64()?, value.as_f64()?);
        (by != 0.0).then(|| (name.clone(), json!(of / by)))
    };
    first.iter().filter_map(|(name, value)| ratio(name, value)).collect()
}

fn as_json(args: &RunArgs, runs: &[Vec<Value>], medians: &[Map<String, Value>]) -> Value {
    let masters: Vec<Value> = args
        .compare
        .iter()
        .zip(runs.iter().zip(medians))
        .map(|(command, (runs, median))| json!({ "command": command, "median": median, "runs": runs }))
        .collect();
    json!({ "rounds": args.rounds, "masters": masters, "ratio": ratios(medians) })
}

fn as_text(medians: &[Map<String, Value>]) -> String {
    let ratios = ratios(medians);
    let heads = ["A", "B", "B/A"].map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[("MEDIAN", Align::Left)], &heads[..]].concat());
    for (name, _) in FIGURES {
        let value = |of: &Map<String, Value>| of.get(*name).and_then(Value::as_f64);
        let shown = |of: &Map<String, Value>| {
            value(of).map_or_else(String::new, |value| format!("{value:.2}"))
        };
        let cells = medians.iter().take(2).chain([&ratios]).map(shown);
        table.row(std::iter::once((*name).to_owned()).chain(cells));
    }
    table.render()
}

/// What is compared: its name, and where it stands among the figures of a run.
const FIGURES: &[(&str, &str)] = &[
    ("keys_per_s", "/keys_per_s"),
    ("requests_per_s", "/requests_per_s"),
    ("p50_us", "/latency_us/p50"),
    ("p90_us", "/latency_us/p90"),
    ("p99_us", "/latency_us/p99"),
    ("p999_us", "/latency_us/p999"),
    ("refused", "/refused"),
    ("errors", "/errors"),
    ("master_cpu_us_per_key", "/master/cpu_us_per_key"),
    ("master_resident_bytes", "/master/resident_bytes"),
];

/// A master that has started serves within this time.
const START_PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(keys_per_s: f64) -> Value {
        json!({ "keys_per_s": keys_per_s, "latency_us": { "p50": 10.0 }, "master": {} })
    }

    #[test]
    fn medians_are_compared_and_what_is_not_known_is_left_out() {
        let first = medians(&[run_of(1.0), run_of(100.0), run_of(2.0)]);
        let second = medians(&[run_of(5.0), run_of(3.0)]);
        assert_eq!((&first["keys_per_s"], &second["keys_per_s"]), (&json!(2.0), &json!(4.0)));
        let ratios = ratios(&[first.clone(), second.clone()]);
        assert_eq!((&ratios["keys_per_s"], &ratios["p50_us"]), (&json!(2.0), &json!(1.0)));
        assert!(!ratios.contains_key("master_cpu_us_per_key"));
        assert!(as_text(&[first, second]).contains("keys_per_s"));
    }

    #[test]
    fn no_run_has_no_median() {
        assert_eq!(median(Vec::new()), None);
    }
}
