//! A strict reader of the text form of metrics: what a scraper would forgive or misread is an error.

use std::collections::{BTreeMap, BTreeSet};

/// All samples of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Sample {
    /// That of the family, or of a histogram with `_bucket`, `_sum` or `_count` behind it.
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Reads a page that keeps every rule.
pub(crate) fn read(page: &str) -> Vec<Family> {
    try_read(page).unwrap_or_else(|error| panic!("{error}, in\n{page}"))
}

fn try_read(page: &str) -> Result<Vec<Family>, String> {
    if !page.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut families: Vec<Family> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').ok_or_else(|| wrong("no help"))?;
            let kind = lines.next().and_then(|next| next.strip_prefix("# TYPE "));
            let kind = kind.and_then(|next| next.strip_prefix(name)?.strip_prefix(' '));
            let kind = kind.ok_or_else(|| wrong("no type behind the help"))?.to_owned();
            if families.iter().any(|family| family.name == name) {
                return Err(wrong("a family twice"));
            }
            let (name, help) = (name.to_owned(), help.to_owned());
            families.push(Family { name, help, kind, samples: Vec::new() });
            continue;
        }
        let sample = sample(line).map_err(|what| wrong(&what))?;
        let family = families.last_mut().ok_or_else(|| wrong("a sample without a family"))?;
        family.samples.push(sample);
    }
    families.iter().try_for_each(check)?;
    Ok(families)
}

/// Reads `name{label="value",...} number`.
fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("no label")?;
            if !is_name(label, false) || label.starts_with("__") {
                return Err(format!("{label:?} is no name of a label"));
            }
            let (value, after) = quoted(after)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("the label {label} twice"));
            }
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = after.strip_prefix(',').ok_or("no comma between labels")?;
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no blank before the value")?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        number if number.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            number.parse().map_err(|_| "no number")?
        }
        _ => return Err("no number".to_owned()),
    };
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// The value up to its closing quote, and what stands behind it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, letter @ ('\\' | '"'))) => value.push(letter),
                _ => return Err("an escape that is none".to_owned()),
            },
            letter => value.push(letter),
        }
    }
    Err("a value without an end".to_owned())
}

fn is_name(text: &str, may_have_colons: bool) -> bool {
    let good = |letter: char| {
        letter.is_ascii_alphanumeric() || letter == '_' || (may_have_colons && letter == ':')
    };
    !text.is_empty() && text.chars().all(good) && !text.starts_with(|it: char| it.is_ascii_digit())
}

fn check(family: &Family) -> Result<(), String> {
    let Family { name, help, kind, samples } = family;
    let wrong = |what: &str| Err(format!("{name}: {what}"));
    if !is_name(name, true) {
        return wrong("no name of a metric");
    }
    if help.trim() != help || help.is_empty() {
        return wrong("no help");
    }
    let mut series = BTreeSet::new();
    for sample in samples {
        if !series.insert((&sample.name, &sample.labels)) {
            return wrong("a series twice");
        }
    }
    match kind.as_str() {
        "counter" if !name.ends_with("_total") && !KNOWN_COUNTERS.contains(&name.as_str()) => {
            return wrong("a counter that does not end in _total");
        }
        "gauge" if name.ends_with("_total") => return wrong("a gauge that ends in _total"),
        "counter" if samples.iter().any(|it| !it.value.is_finite() || it.value < 0.0) => {
            return wrong("a counter below zero, or that is no number");
        }
        "histogram" => return histogram(family),
        "counter" | "gauge" => {}
        _ => return wrong("an unknown type"),
    }
    if samples.iter().any(|sample| sample.name != *name) {
        return wrong("a sample of another name");
    }
    Ok(())
}

/// One series of a histogram.
#[derive(Default)]
struct Histogram {
    /// Upper bound and count.
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Each series has buckets that grow up to the count of all, and a sum.
fn histogram(family: &Family) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{}: {what}", family.name));
    let mut series: BTreeMap<_, Histogram> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let Histogram { buckets, sum, count } = series.entry(labels).or_default();
        match (sample.name.strip_prefix(family.name.as_str()), bound.as_deref()) {
            (Some("_bucket"), Some("+Inf")) => buckets.push((f64::INFINITY, sample.value)),
            (Some("_bucket"), Some(bound)) => match bound.parse() {
                Ok(bound) => buckets.push((bound, sample.value)),
                Err(_) => return wrong("a bucket without a bound"),
            },
            (Some("_sum"), None) => *sum = Some(sample.value),
            (Some("_count"), None) => *count = Some(sample.value),
            _ => return wrong("a sample that is no part of a histogram"),
        }
    }
    for Histogram { buckets, sum, count } in series.values() {
        if !buckets.is_sorted_by(|lower, upper| lower.0 < upper.0 && lower.1 <= upper.1) {
            return wrong("buckets that do not grow");
        }
        let all = buckets.last().filter(|(bound, _)| bound.is_infinite()).map(|(_, count)| *count);
        if all.is_none() || all != *count || sum.is_none() {
            return wrong("the last bucket, the count or the sum does not fit");
        }
    }
    Ok(())
}

/// Counters whose names are those of the existing master, so that its dashboards stay filled.
const KNOWN_COUNTERS: [&str; 6] = [
    "master_evicted_key_count",
    "master_evicted_size_bytes",
    "master_put_start_discard_cnt",
    "total_get_nums_",
    "valid_get_nums_",
    "mem_cache_hit_nums_",
];

#[test]
fn every_rule_of_the_form_is_held() {
    let page = |body: &str| format!("# HELP a_total Text.\n# TYPE a_total counter\n{body}");
    let good = page("a_total{x=\"1,}\\n\\\\\\\"\",y=\"\"} 1\na_total 2.5e3\n");
    let families = try_read(&good).unwrap();
    assert_eq!(families[0].samples[0].labels["x"], "1,}\n\\\"");
    assert_eq!(families[0].samples[1].value, 2500.0);
    let bad = [
        ("a_total 1", "does not end"),
        ("a_total 1\na_total 1\n", "series twice"),
        ("a_total{x=\"1\",x=\"2\"} 1\n", "label x twice"),
        ("a_total{x=\"\\t\"} 1\n", "escape"),
        ("a_total{x=\"1} 1\n", "without an end"),
        ("a_total{1=\"1\"} 1\n", "no name of a label"),
        ("a_total -1\n", "below zero"),
        ("a_total NaN\n", "no number"),
        ("a_total inf\n", "no number"),
        ("a_total\n", "no value"),
        ("b_total 1\n", "another name"),
        ("# HELP a_total Text.\n# TYPE a_total counter\n", "family twice"),
        ("# HELP b_total Text.\n# TYPE a_total counter\n", "no type"),
        ("# HELP b Text.\n# TYPE b counter\n", "end in _total"),
        ("# HELP b_total Text.\n# TYPE b_total gauge\n", "ends in _total"),
        ("# HELP b Text.\n# TYPE b summary\n", "unknown type"),
        ("# HELP b  \n# TYPE b gauge\n", "no help"),
        ("\n", "no value"),
    ];
    for (body, expected) in bad {
        let error = try_read(&page(body)).expect_err(body);
        assert!(error.contains(expected), "{body:?}: {error}");
    }
}

#[test]
fn a_histogram_grows_to_its_count() {
    let page = |body: &str| format!("# HELP a Text.\n# TYPE a histogram\n{body}");
    let good = "a_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 3\na_sum 7\na_count 3\n";
    assert_eq!(try_read(&page(good)).unwrap()[0].samples.len(), 4);
    for (from, to, expected) in [
        ("\"1\"} 1", "\"1\"} 4", "do not grow"),
        ("a_count 3", "a_count 4", "does not fit"),
        ("a_sum 7\n", "", "does not fit"),
        ("a_bucket{le=\"+Inf\"} 3\n", "", "does not fit"),
        ("a_sum 7", "a 7", "no part"),
        ("\"1\"", "\"one\"", "without a bound"),
    ] {
        let error = try_read(&page(&good.replace(from, to))).unwrap_err();
        assert!(error.contains(expected), "{from}: {error}");
    }
}
