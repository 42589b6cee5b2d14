//! What an expression of PromQL asks for.

use std::sync::LazyLock;

use regex::Regex;

/// A metric, and what its labels must be.
#[derive(Debug, PartialEq)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// Name, operator, value.
    pub(super) matchers: Vec<(String, String, String)>,
}

/// All selectors of an expression. It need not be sound: only names are looked for.
pub(super) fn selectors(expression: &str) -> Vec<Selector> {
    // What names labels and not metrics goes first, then ranges.
    let rest = LABEL_LISTS.replace_all(expression, " ");
    let rest = RANGES.replace_all(&rest, " ");
    let selectors = METRICS.captures_iter(&rest).filter_map(|found| {
        let metric = found[1].to_owned();
        if found.get(3).is_some() || WORDS.contains(&metric.as_str()) {
            return None;
        }
        let inside = found.get(2).map_or("", |inside| inside.as_str());
        let part = |found: &regex::Captures<'_>, at: usize| found[at].to_owned();
        let matchers = MATCHERS.captures_iter(inside);
        let matchers = matchers.map(|it| (part(&it, 1), part(&it, 2), part(&it, 3))).collect();
        Some(Selector { metric, matchers })
    });
    selectors.collect()
}

static LABEL_LISTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)").unwrap()
});

static RANGES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[[^\]]*\]").unwrap());

/// A word that may begin a name, with labels or an opening parenthesis behind it. What begins with a
/// digit is a number or a duration.
static METRICS: LazyLock<Regex> = LazyLock::new(|| {
    let strings = r#"(?:"(?:[^"\\]|\\.)*"|[^}"])*"#;
    Regex::new(&format!(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:(\{{{strings}\}})|(\())?")).unwrap()
});

static MATCHERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)""#).unwrap()
});

const WORDS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];

#[test]
fn names_and_labels_are_told_from_functions_words_and_durations() {
    let selector = |metric: &str, matchers: &[(&str, &str, &str)]| Selector {
        metric: metric.to_owned(),
        matchers: matchers
            .iter()
            .map(|(name, operator, value)| ((*name).into(), (*operator).into(), (*value).into()))
            .collect(),
    };
    let expression = r#"sum by (kind) (rate(a_total{x="1}",y=~"$b"}[5m])) / 1e3 > 0.5
                        and on (job, instance) b:c offset 5m unless absent(d{}) == 1"#;
    let expected = [
        selector("a_total", &[("x", "=", "1}"), ("y", "=~", "$b")]),
        selector("b:c", &[]),
        selector("d", &[]),
    ];
    assert_eq!(selectors(expression), expected);
}
