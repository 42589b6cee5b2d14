//! The text form of Prometheus metrics.

use std::fmt::{Display, Write as _};

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
        samples: impl Iterator<Item = (impl Display, u64)>,
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
        samples: impl Iterator<Item = (impl Display, u64)>,
    ) {
        self.family(name, help, "counter");
        self.samples(name, label, samples);
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
        samples: impl Iterator<Item = (impl Display, u64)>,
    ) {
        for (value, sample) in samples {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"");
            let value = value.replace('\n', "\\n");
            let _ = writeln!(self.text, "{name}{{{label}=\"{value}\"}} {sample}");
        }
    }
}

/// The version of the form.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

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
}
