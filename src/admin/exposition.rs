//! The figures of the process, and their text form of Prometheus.

use std::fmt::{self, Display, Write as _};

use crate::frontend::histogram::Durations;

/// What can be known of one thing: its samples, one for each set of labels.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// Unlike that of any other one.
    pub(crate) name: String,
    /// What it means, for people.
    pub(crate) help: String,
    /// How its samples change.
    pub(crate) kind: FamilyKind,
    /// Its samples.
    pub(crate) samples: Samples,
}

/// How the samples of a family change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// They rise and fall.
    Gauge,
    /// They only grow.
    Counter,
    /// Counts of durations, which only grow.
    Histogram,
}

/// Names of labels with their values.
pub(crate) type Labels = Vec<(String, String)>;

/// The samples of a family.
#[derive(Clone, Debug)]
pub(crate) enum Samples {
    /// Numbers.
    Numbers(Vec<(Labels, Number)>),
    /// How long things took.
    Durations(Vec<(Labels, Durations)>),
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// A count.
    Whole(u64),
    /// Anything else.
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        Number::Whole(value)
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Number {
        Number::Whole(value.into())
    }
}

impl From<u16> for Number {
    fn from(value: u16) -> Number {
        Number::Whole(value.into())
    }
}

impl From<u8> for Number {
    fn from(value: u8) -> Number {
        Number::Whole(value.into())
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::Whole(value as u64)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Real(value)
    }
}

impl Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => value.fmt(formatter),
            Number::Real(value) => value.fmt(formatter),
        }
    }
}

/// All families, in their order.
#[derive(Default)]
pub(super) struct Exposition {
    families: Vec<Family>,
}

impl Exposition {
    /// A number that rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Into<Number>) {
        self.numbers(name, help, FamilyKind::Gauge, vec![(Labels::new(), value.into())]);
    }

    /// A number that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Into<Number>) {
        self.numbers(name, help, FamilyKind::Counter, vec![(Labels::new(), value.into())]);
    }

    /// A number that rises and falls, for each value of a label.
    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (impl Display, impl Into<Number>)>,
    ) {
        let samples = samples.map(|(value, sample)| ([value.to_string()], sample));
        self.gauges_of(name, help, [label], samples);
    }

    /// A number that only grows, for each value of a label.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl Iterator<Item = (impl Display, impl Into<Number>)>,
    ) {
        let samples = samples.map(|(value, it)| (labels([label], [value.to_string()]), it.into()));
        self.numbers(name, help, FamilyKind::Counter, samples.collect());
    }

    /// A number that rises and falls, for each set of values of several labels.
    pub(super) fn gauges_of<const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        names: [&str; LABELS],
        samples: impl Iterator<Item = ([String; LABELS], impl Into<Number>)>,
    ) {
        let samples = samples.map(|(values, sample)| (labels(names, values), sample.into()));
        self.numbers(name, help, FamilyKind::Gauge, samples.collect());
    }

    /// How long things took, in seconds, for each set of values of several labels.
    pub(super) fn histograms<const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        names: [&str; LABELS],
        samples: impl Iterator<Item = ([String; LABELS], Durations)>,
    ) {
        let samples = samples.map(|(values, durations)| (labels(names, values), durations));
        let samples = Samples::Durations(samples.collect());
        self.family(name, help, FamilyKind::Histogram, samples);
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<Family> {
        self.families
    }

    fn numbers(
        &mut self,
        name: &str,
        help: &str,
        kind: FamilyKind,
        samples: Vec<(Labels, Number)>,
    ) {
        self.family(name, help, kind, Samples::Numbers(samples));
    }

    fn family(&mut self, name: &str, help: &str, kind: FamilyKind, samples: Samples) {
        let (name, help) = (name.to_owned(), help.to_owned());
        self.families.push(Family { name, help, kind, samples });
    }
}

fn labels<const LABELS: usize>(names: [&str; LABELS], values: [String; LABELS]) -> Labels {
    names.iter().map(|name| (*name).to_owned()).zip(values).collect()
}

/// The families in the text form of Prometheus, each before its samples.
pub(super) fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, help, kind, samples } in families {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let kind = match kind {
            FamilyKind::Gauge => "gauge",
            FamilyKind::Counter => "counter",
            FamilyKind::Histogram => "histogram",
        };
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        match samples {
            Samples::Numbers(samples) => {
                for (labels, sample) in samples {
                    let _ = match labels.is_empty() {
                        true => writeln!(text, "{name} {sample}"),
                        false => writeln!(text, "{name}{{{}}} {sample}", pairs(labels)),
                    };
                }
            }
            Samples::Durations(samples) => {
                for (labels, durations) in samples {
                    buckets(&mut text, name, &pairs(labels), durations);
                }
            }
        }
    }
    text
}

fn buckets(text: &mut String, name: &str, labels: &str, durations: &Durations) {
    for power in BOUNDS_LOG2_US {
        let bound = f64::from(1_u32 << power) / 1e6;
        let count = durations.within_us(power);
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let (count, sum) = (durations.count(), durations.sum().as_secs_f64());
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
    let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
}

/// Labels with their values, as they stand between the braces.
fn pairs(labels: &Labels) -> String {
    let pairs = labels.iter().map(|(label, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{label}=\"{value}\"")
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// The bounds of the buckets of times, as powers of two of microseconds: 8 us to 8 s. Between them
/// Prometheus guesses, so that they are close where most requests are.
pub(crate) const BOUNDS_LOG2_US: [u32; 16] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 23];

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
        page.gauge("a_bytes", "All of\nthem.", 7_u64);
        page.counters("b_total", "By kind.", "kind", [("x\"y\\", 1_u64), ("z", 2)].into_iter());
        let expected = "# HELP a_bytes All of\\nthem.\n# TYPE a_bytes gauge\na_bytes 7\n\
                        # HELP b_total By kind.\n# TYPE b_total counter\n\
                        b_total{kind=\"x\\\"y\\\\\"} 1\nb_total{kind=\"z\"} 2\n";
        assert_eq!(text(&page.finish()), expected);
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
        let page = text(&page.finish());
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
