//! The metrics page of a master that has seen a little of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use crate::exposition::{self, Family};
use crate::harness::{Master, PATIENCE, run};
use crate::mooncake::client::{self, Client};

use super::generated;

/// Every family that a master can show, from one that came after another one.
pub(super) fn all() -> Vec<Family> {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--handoff-dir", directory.path().to_str().unwrap()];
    let mut before = client::master(&flags);
    before.process.signal(libc::SIGTERM);
    assert_eq!(before.process.ended().code(), Some(0));
    let master = client::master(&flags);
    load(&master);
    exposition::read(&master.page("/metrics").1)
}

/// A little load by clients of both kinds.
fn load(master: &Master) {
    let flags = master.client_flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let sizes = ["--keys", "1000", "--segments", "2", "--segment-bytes", "1GiB"];
    let short = ["--value-bytes", "4KiB", "--warm-up", "10ms", "--duration", "100ms"];
    let until = Instant::now() + PATIENCE;
    loop {
        let mixed = ["bench", "--operation", "mixed"];
        let output = run(&[&mixed[..], &sizes, &short, &flags].concat());
        if output.status.success() {
            break;
        }
        // On a busy machine so short a time may pass without an answer.
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("no key was answered"), "{error}");
        assert!(Instant::now() < until, "{error}");
    }
    Client::connect(master).ping();
}

// R51
#[test]
fn the_page_keeps_every_rule_and_counters_only_grow() {
    let master = client::master(&[]);
    let counters = |page: &str| {
        let families = exposition::read(page).into_iter().filter(|it| it.kind == "counter");
        let samples = families.flat_map(|family| family.samples);
        let named = samples.map(|sample| ((sample.name, sample.labels), sample.value));
        named.collect::<BTreeMap<_, _>>()
    };
    let before = counters(&master.page("/metrics").1);
    load(&master);
    let after = counters(&master.page("/metrics").1);
    let grown = before.iter().filter(|(series, value)| after[*series] > **value).count();
    assert!(grown > 10, "only {grown} counters have grown");
    assert!(before.iter().all(|(series, value)| after[series] >= *value));
}

#[test]
fn the_document_names_every_metric() {
    let mut table = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for family in all() {
        let labels = family.samples.iter().flat_map(|sample| sample.labels.keys());
        let labels: BTreeSet<&str> = labels.map(String::as_str).collect();
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        let Family { name, kind, help, .. } = family;
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {} |", help.replace('|', "\\|"));
    }
    generated::check("metrics.md", &table);
}
