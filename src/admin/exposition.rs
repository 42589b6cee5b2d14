//! The text form of Prometheus metrics.

use std::fmt::{Display, Write as _};

use crate::frontend::histogram::Durations;

/// A page of metrics: families, one after the other, each with its samples.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// A number that rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "gauge");
        let _ = writeln!(self.text, "{name} {value}");
    }

    /// A number that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help, "counter");
        let _ = writeln!(self.text, "{name} {value}");
    }

    /// A number that rises and falls, for each value of a label.
    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (impl Display, impl Display)>,
    ) {
        self.family(name, help, "gauge");
        self.samples(name, label, samples);
    }

    /// A number that only grows, for each value of a label.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (impl Display, impl Display)>,
    ) {
        self.family(name, help, "counter");
        self.samples(name, label, samples);
    }

    /// A number that rises and falls, for each set of values of several labels.
    pub(super) fn gauges_of<const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; LABELS],
        samples: impl Iterator<Item = ([String; LABELS], impl Display)>,
    ) {
        self.family(name, help, "gauge");
        for (values, sample) in samples {
            let labels = pairs(labels, &values);
            let _ = writeln!(self.text, "{name}{{{labels}}} {sample}");
        }
    }

    /// How long things took, in seconds, for each set of values of several labels.
    pub(super) fn histograms<const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; LABELS],
        samples: impl Iterator<Item = ([String; LABELS], Durations)>,
    ) {
        self.family(name, help, "histogram");
        for (values, durations) in samples {
            let labels = pairs(labels, &values);
            for power in BOUNDS_LOG2_US {
                let bound = f64::from(1_u32 << power) / 1e6;
                let count = durations.within_us(power);
                let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let (count, sum) = (durations.count(), durations.sum().as_secs_f64());
            let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(self.text, "{name}_sum{{{labels}}} {sum}");
            let _ = writeln!(self.text, "{name}_count{{{labels}}} {count}");
        }
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn samples(
        &mut self,
        name: &str,
        label: &str,
        samples: impl Iterator<Item = (impl Display, impl Display)>,
    ) {
        for (value, sample) in samples {
            let label = pairs([label], &[value.to_string()]);
            let _ = writeln!(self.text, "{name}{{{label}}} {sample}");
        }
    }
}

/// Labels with their values, as they stand between the braces.
fn pairs<const LABELS: usize>(labels: [&str; LABELS], values: &[String; LABELS]) -> String {
    let pairs = labels.iter().zip(values).map(|(label, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{label}=\"{value}\"")
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// The bounds of the buckets of times, as powers of two of microseconds: 8 us to 8 s. Between them
/// Prometheus guesses, so that they are close where most requests are.
const BOUNDS_LOG2_US: [u32; 16] = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 23];

/// The version of the form.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frontend::histogram::Histogram;

    #[test]
    fn a_family_stands_before_its_samples_and_labels_are_escaped() {
        let mut page = Exposition::default();
        page.gauge("a_bytes", "All of\nthem.", 7);
        page.counters("b_total", "By kind.", "kind", [("x\"y\\", 1), ("z", 2)].into_iter());
        let expected = "# HELP a_bytes All of\\nthem.\n# TYPE a_bytes gauge\na_bytes 7\n\
                        # HELP b_total By kind.\n# TYPE b_total counter\n\
                        b_total{kind=\"x\\\"y\\\\\"} 1\nb_total{kind=\"z\"} 2\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let histogram = Histogram::default();
        for us in [1, 9, 20_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut page = Exposition::default();
        let samples = [(["a".to_owned(), "b".to_owned()], histogram.read())];
        page.histograms("c_seconds", "Times.", ["x", "y"], samples.into_iter());
        let page = page.finish();
        let expected = [
            "# TYPE c_seconds histogram",
            "c_seconds_bucket{x=\"a\",y=\"b\",le=\"0.000008\"} 1",
            "c_seconds_bucket{x=\"a\",y=\"b\",le=\"0.000016\"} 2",
            "c_seconds_bucket{x=\"a\",y=\"b\",le=\"8.388608\"} 2",
            "c_seconds_bucket{x=\"a\",y=\"b\",le=\"+Inf\"} 3",
            "c_seconds_sum{x=\"a\",y=\"b\"} 20.00001",
            "c_seconds_count{x=\"a\",y=\"b\"} 3",
        ];
        for line in expected {
            assert!(page.lines().any(|it| it == line), "{line} is not in\n{page}");
        }
    }
}
