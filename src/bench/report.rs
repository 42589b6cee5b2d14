//! The figures of a run, for people and as JSON.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::args::RunArgs;
use super::owner::Told;
use super::plan::Plan;
use super::tally::{Call, Part, Tally};
use crate::command::CommandError;
use crate::command::table::{Align, Table, pairs};
use crate::command::units::human_bytes;
use crate::output;

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) tally: Tally,
    /// The time that counted.
    pub(super) elapsed: Duration,
    /// Processor time of the master in that time; none if its process is not known.
    pub(super) master_cpu: Option<Duration>,
    /// Processor time of this process in that time.
    pub(super) own_cpu: Option<Duration>,
    /// Memory of the master's process at the end.
    pub(super) resident_bytes: Option<u64>,
    pub(super) told: Told,
}

impl Measured {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn resident(&self) -> Option<u64> {
        self.resident_bytes.or(self.told.resident_bytes)
    }
}

/// Prints the figures as the flags ask for.
///
/// # Errors
/// When they cannot be printed.
pub(super) fn print(args: &RunArgs, plan: &Plan, measured: &Measured) -> Result<(), CommandError> {
    if args.client.json {
        output::print_line(as_json(args, plan, measured))?;
    } else {
        output::print(as_text(&Asked::of(args, plan), measured))?;
    }
    if let Some(error) = &measured.tally.first_error {
        output::note(format_args!(
            "the first request that failed: {}",
            crate::command::table::printable(error)
        ));
    }
    Ok(())
}

/// What the figures are of.
struct Asked {
    operation: String,
    transport: String,
    /// Of the first lane.
    batch: u32,
    keys: u64,
    rate: Option<f64>,
}

impl Asked {
    fn of(args: &RunArgs, plan: &Plan) -> Asked {
        let names: Vec<String> = plan.lanes.iter().map(|lane| name(lane.operation)).collect();
        let rates: Option<Vec<f64>> = plan.lanes.iter().map(|lane| lane.rate).collect();
        Asked {
            operation: names.join("+"),
            transport: name(args.transport),
            batch: plan.lanes.first().map_or(0, |lane| lane.batch),
            keys: plan.keys,
            rate: rates.map(|rates| rates.iter().sum()),
        }
    }
}

/// As the flag writes it.
fn name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The figures of a run; the names are an interface for scripts.
pub(super) fn as_json(args: &RunArgs, plan: &Plan, measured: &Measured) -> Value {
    figures(&Asked::of(args, plan), measured)
}

fn figures(asked: &Asked, measured: &Measured) -> Value {
    let total = measured.tally.total();
    let mut figures = part_json(measured, &total);
    let parts: Vec<Value> = measured
        .tally
        .parts()
        .map(|(call, part)| {
            let mut figures = part_json(measured, part);
            figures["operation"] = json!(call.name());
            figures
        })
        .collect();
    figures["operation"] = json!(asked.operation);
    figures["transport"] = json!(asked.transport);
    figures["batch"] = json!(asked.batch);
    figures["keys"] = json!(asked.keys);
    figures["rate"] = json!(asked.rate);
    figures["elapsed_s"] = json!(measured.elapsed.as_secs_f64());
    figures["parts"] = json!(parts);
    figures["master"] = json!({
        "cpu_us_per_key": us_per_key(measured.master_cpu, &total),
        "resident_bytes": measured.resident(),
        "objects": measured.told.objects,
    });
    figures["generator"] = json!({ "cpu_us_per_key": us_per_key(measured.own_cpu, &total) });
    figures
}

fn part_json(measured: &Measured, part: &Part) -> Value {
    let latency = |quantile| us_at(&part.latency_ns, quantile);
    json!({
        "keys_per_s": measured.per_second(part.keys()),
        "requests_per_s": measured.per_second(part.answers.requests),
        "latency_us": {
            "p50": latency(0.5),
            "p90": latency(0.9),
            "p99": latency(0.99),
            "p999": latency(0.999),
            "max": latency(1.0),
        },
        "errors": part.errors,
        "refused": part.answers.refused,
        "missing": part.answers.missing,
        "unsent": part.unsent,
    })
}

fn us_at(latency_ns: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!latency_ns.is_empty()).then(|| latency_ns.value_at_quantile(quantile) as f64 / 1e3)
}

fn us_per_key(cpu: Option<Duration>, total: &Part) -> Option<f64> {
    let keys = total.keys();
    cpu.filter(|_| keys > 0).map(|cpu| cpu.as_secs_f64() * 1e6 / keys as f64)
}

fn as_text(asked: &Asked, measured: &Measured) -> String {
    let total = measured.tally.total();
    let mut rows = vec![
        ("operation", format!("{} over {}", asked.operation, asked.transport)),
        ("elapsed", format!("{:.2} s", measured.elapsed.as_secs_f64())),
        ("keys per second", format!("{:.0}", measured.per_second(total.keys()))),
        ("requests per second", format!("{:.0}", measured.per_second(total.answers.requests))),
        ("missing", total.answers.missing.to_string()),
        ("refused", total.answers.refused.to_string()),
        ("errors", total.errors.to_string()),
    ];
    if asked.rate.is_some() {
        rows.push(("due and not sent", total.unsent.to_string()));
    }
    let cpu = |cpu| us_per_key(cpu, &total).map(|us| format!("{us:.3} µs"));
    rows.extend(cpu(measured.master_cpu).map(|us| ("master's CPU per key", us)));
    rows.extend(cpu(measured.own_cpu).map(|us| ("generator's CPU per key", us)));
    rows.extend(measured.resident().map(|bytes| ("master's memory", human_bytes(bytes))));
    rows.extend(measured.told.objects.map(|objects| ("objects", objects.to_string())));
    let columns = ["p50", "p90", "p99", "p99.9", "max"].map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[("LATENCY", Align::Left)], &columns[..]].concat());
    for (call, part) in measured.tally.parts() {
        table.row(latency_row(call, part));
    }
    format!("{}{}", pairs(&rows), table.render())
}

fn latency_row(call: Call, part: &Part) -> Vec<String> {
    let shown = |quantile| us_at(&part.latency_ns, quantile).map_or_else(String::new, human_us);
    let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0].map(shown);
    std::iter::once(call.name().to_owned()).chain(quantiles).collect()
}

/// A latency to three digits or so.
fn human_us(us: f64) -> String {
    match us {
        us if us < 1e4 => format!("{us:.0} µs"),
        us if us < 1e7 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Answer;
    use super::*;

    fn measured() -> Measured {
        let mut tally = Tally::default();
        let answer = Answer { done: 60, missing: 2, refused: 2, requests: 2 };
        (1..=100).for_each(|us| tally.answered(Call::Put, Duration::from_micros(us), &answer));
        Measured {
            tally,
            elapsed: Duration::from_secs(2),
            master_cpu: Some(Duration::from_micros(6_200)),
            own_cpu: None,
            resident_bytes: Some(1 << 20),
            told: Told { objects: Some(6_000), resident_bytes: Some(7) },
        }
    }

    fn asked() -> Asked {
        let (operation, transport) = ("put".to_owned(), "quic".to_owned());
        Asked { operation, transport, batch: 64, keys: 10, rate: None }
    }

    #[test]
    fn the_json_has_the_names_that_scripts_read() {
        let figures = figures(&asked(), &measured());
        let expected = json!({
            "operation": "put", "transport": "quic", "batch": 64,
            "keys_per_s": 3_100.0, "requests_per_s": 100.0, "errors": 0, "refused": 200,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&figures[name], value, "{name}");
        }
        for (name, us) in
            [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 100.0), ("max", 100.0)]
        {
            let told = figures["latency_us"][name].as_f64().unwrap();
            assert!((told - us).abs() <= us / 500.0, "{name}: {told}");
        }
        let master = json!({ "cpu_us_per_key": 1.0, "resident_bytes": 1 << 20, "objects": 6_000 });
        assert_eq!(figures["master"], master);
        assert_eq!(figures["parts"][0]["operation"], "put");
    }

    #[test]
    fn what_is_not_known_is_null_and_not_zero() {
        let measured = Measured {
            tally: Tally::default(),
            master_cpu: None,
            resident_bytes: None,
            told: Told::default(),
            ..measured()
        };
        let figures = figures(&asked(), &measured);
        assert!(figures["latency_us"]["p50"].is_null());
        for name in ["cpu_us_per_key", "resident_bytes", "objects"] {
            assert!(figures["master"][name].is_null(), "{name}");
        }
    }

    #[test]
    fn people_read_a_line_for_each_kind_of_request() {
        let text = as_text(&asked(), &measured());
        assert!(text.contains("keys per second"), "{text}");
        assert!(text.lines().last().unwrap().starts_with("put"), "{text}");
    }
}
