//! The demo, in small.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{PATIENCE, mooring, run};

#[test]
fn the_demo_finds_every_byte_right_while_it_evicts() {
    let sizes = ["--block-bytes", "4KiB", "--pool-bytes", "6MiB", "--limit", "60"];
    let figures = figures(&sizes);
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert_eq!(number("wrong_bytes"), 0.0);
    assert_eq!(number("put_refused"), 0.0);
    assert_eq!(number("requests"), 60.0);
    assert!(number("hits") > 0.0 && number("hits") < number("block_refs"));
    assert_eq!(number("bytes_read"), number("hits") * 4096.0);
    assert_eq!(number("bytes_written"), number("puts") * 4096.0);
    assert!(number("evicted_objects") > 0.0 && number("evicted_bytes") > 0.0);
    assert!(number("elapsed_s") > 0.0);
    for name in ["put_us", "get_us"] {
        for quantile in ["p50", "p99", "max"] {
            assert!(figures[name][quantile].as_u64().unwrap() > 0, "{name}.{quantile}");
        }
    }
}

#[test]
fn restarts_of_the_master_lose_nothing_and_spoil_nothing() {
    let handoffs = tempfile::tempdir().unwrap();
    let directory = handoffs.path().to_str().unwrap();
    let sizes = ["--block-bytes", "4KiB", "--pool-bytes", "6MiB", "--limit", "60", "--shards", "2"];
    let restarts = ["--restart-every", "1s", "--restarts", "3", "--handoff-dir", directory];
    let figures = figures(&[&sizes[..], &restarts].concat());
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert_eq!(number("wrong_bytes"), 0.0);
    assert_eq!(number("restarts"), 3.0);
    assert_eq!(number("segments_confirmed"), 3.0 * 3.0, "{figures}");
    assert_eq!(number("segments_dropped"), 0.0);
    assert_eq!(number("clients_expired"), 0.0);
    let rates = figures["hit_rate_by_epoch"].as_array().unwrap();
    assert_eq!(rates.len(), 4, "{figures}");
    assert!(rates.iter().flat_map(Value::as_f64).any(|rate| rate > 0.0), "{figures}");
    for name in ["oracle_hits", "oracle_puts", "oracle_removes", "gap_s_max", "evicted_objects"] {
        assert!(number(name) > 0.0, "{name}: {figures}");
    }
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the handoff directory is left behind");
}

#[test]
fn the_table_tells_of_restarts_only_where_there_are_some() {
    let small = ["demo", "--limit", "5", "--pool-bytes", "6MiB", "--block-bytes", "4KiB"];
    let table = |more: &[&str]| {
        let output = run(&[&small[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = table(&[]);
    assert!(plain.contains("wrong bytes") && !plain.contains("restarts"), "{plain}");
    let rolled = table(&["--restart-every", "500ms", "--restarts", "1"]);
    for row in ["restarts", "segments", "clients expired", "hit rate by epoch", "wrong bytes"] {
        assert!(rolled.lines().any(|line| line.starts_with(row)), "{row}: {rolled}");
    }
}

#[test]
fn flags_of_restarts_need_an_interval() {
    for flags in [["--restarts", "3"], ["--handoff-dir", "/dev/shm"], ["--restart-every", "1ms"]] {
        let output = run(&[&["demo"][..], &flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(flags[0]) && error.contains("--restart-every"), "{error}");
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_refused_by_name() {
    let output = run(&["demo", "--trace", "/nowhere/trace.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nowhere/trace.jsonl"), "{error}");
}

#[test]
fn the_processes_of_a_killed_demo_end_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    let mut demo = mooring(&["demo", "--speed", "0.001", "--keep-logs", logs.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let files = ["master.json", "store-1.json", "store-2.json", "store-3.json"];
    let pid = |file: &&str| -> Option<u64> {
        let ready: Value = serde_json::from_slice(&fs::read(logs.join(file)).ok()?).ok()?;
        ready["pid"].as_u64()
    };
    let pids = loop_until(|| files.iter().map(pid).collect::<Option<Vec<u64>>>());
    assert!(pids.iter().all(|pid| runs(*pid)));
    demo.kill().unwrap();
    demo.wait().unwrap();
    loop_until(|| pids.iter().all(|pid| !runs(*pid)).then_some(()));
}

#[test]
fn a_demo_that_could_show_nothing_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.jsonl");
    fs::write(&empty, "\n").unwrap();
    for (flags, name) in [
        (["--speed", "1e-300"].as_slice(), "--speed"),
        (&["--limit", "0"], "trace"),
        (&["--trace", empty.to_str().unwrap()], "trace"),
        (&["--stores", "1", "--pool-bytes", "3MiB", "--block-bytes", "2MiB"], "--block-bytes"),
        (&["--block-bytes", "0"], "at least one byte"),
        (&["--pool-bytes", "1"], "--pool-bytes 1: each of the 3 stores needs"),
    ] {
        let output = run(&[&["demo"][..], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_request_of_more_blocks_than_fit_into_a_batch_is_replayed() {
    const BLOCKS: u64 = 66_000;
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    let request = |last: u64| {
        let blocks: Vec<u64> = (0..last).collect();
        format!("{}\n", serde_json::json!({ "timestamp": 0, "hash_ids": blocks }))
    };
    fs::write(&trace, request(BLOCKS) + &request(10_000)).unwrap();
    let trace = ["--trace", trace.to_str().unwrap(), "--stores", "1"];
    let figures =
        figures(&[&trace[..], &["--block-bytes", "64", "--pool-bytes", "64MiB"]].concat());
    assert_eq!(figures["wrong_bytes"], 0);
    assert_eq!(figures["block_refs"], BLOCKS + 10_000);
    assert_eq!(figures["puts"], BLOCKS);
    assert_eq!(figures["hits"], 10_000);
}

/// What a demo with these flags prints, once it has found every byte right.
fn figures(flags: &[&str]) -> Value {
    let output = run(&[&["demo", "--json"][..], flags].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Whether the process is there, and no zombie that nobody has collected.
fn runs(pid: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:\t"));
    state.is_some_and(|state| !state.starts_with('Z'))
}

fn loop_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}
