//! The load generator against a real master, over both protocols.

use serde_json::Value;

use crate::harness::{MOORING, Master, Process, free_port, run};
use crate::mooncake::client;

/// What reaches the master over a protocol.
fn flags(master: &Master, transport: &str) -> Vec<String> {
    let mut flags = vec!["--transport".to_owned(), transport.to_owned()];
    if transport == "mooncake" {
        let port = client::port(&master.process).to_string();
        flags.extend(["--master".to_owned(), port]);
        flags.extend(["--metrics".to_owned(), master.metrics().to_string()]);
    } else {
        flags.extend(master.client_flags());
    }
    flags
}

/// Runs a small load and gives its figures.
fn load(master: &Master, transport: &str, more: &[&str]) -> Value {
    let small = ["--keys", "10000", "--segments", "2", "--segment-bytes", "4GiB"];
    let short = ["--value-bytes", "64KiB", "--warm-up", "100ms", "--duration", "500ms", "--json"];
    let flags = flags(master, transport);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // The name of the subcommand may be left out.
    let output = run(&[&["bench"][..], more, &small, &short, &flags].concat());
    let silent = output.status.success() && output.stderr.is_empty();
    assert!(silent, "{more:?} over {transport}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(figures: &Value) {
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert!(number("keys_per_s") > 0.0 && number("requests_per_s") > 0.0, "{figures}");
    assert_eq!((number("errors"), number("refused")), (0.0, 0.0), "{figures}");
    for quantile in ["p50", "p90", "p99", "p999", "max"] {
        assert!(figures["latency_us"][quantile].as_f64().unwrap() > 0.0, "{quantile}: {figures}");
    }
}

#[test]
fn each_operation_is_measured_over_quic_and_nothing_is_refused() {
    let master = client::master(&[]);
    for operation in ["put", "get", "exist", "match-prefix", "remove", "mixed", "churn", "fill"] {
        let figures = load(&master, "quic", &["--operation", operation, "--batch", "64"]);
        assert_eq!(figures["operation"], operation);
        check(&figures);
        // Of what the generator says to be there nothing is missing.
        assert_eq!(figures["missing"], 0, "{figures}");
        assert!(figures["master"]["resident_bytes"].as_u64().unwrap() > 0, "{figures}");
    }
    assert_eq!(master.metric("master_total_capacity_bytes"), 0.0);
}

#[test]
fn the_same_operations_are_measured_over_the_protocol_of_mooncake() {
    let master = client::master(&[]);
    for operation in ["put", "get", "exist", "remove", "mixed", "churn", "fill"] {
        let figures = load(&master, "mooncake", &["--operation", operation, "--batch", "64"]);
        check(&figures);
        assert_eq!(figures["missing"], 0, "{figures}");
        assert!(figures["master"]["objects"].as_u64().is_some(), "{figures}");
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_knows_what_the_master_used() {
    for transport in ["quic", "mooncake"] {
        let master = client::master(&[]);
        let pid = master.process.id().to_string();
        let rate = ["--rate", "20000", "--batch", "100", "--distribution", "zipf"];
        let figures = load(&master, transport, &[&rate[..], &["--master-pid", &pid]].concat());
        check(&figures);
        // What was not sent for want of time is counted, so that both together are the rate.
        let unsent = figures["unsent"].as_f64().unwrap() * 100.0;
        let due = figures["keys_per_s"].as_f64().unwrap() * 0.5 + unsent;
        assert!((due - 10_000.0).abs() < 1_500.0, "{figures}");
        assert!(figures["master"]["resident_bytes"].as_u64().unwrap() > 1 << 20, "{figures}");
        assert!(figures["master"]["cpu_us_per_key"].is_number(), "{figures}");
    }
}

#[test]
fn loads_that_cannot_be_are_refused_by_name_before_anything_starts() {
    let pin = "00".repeat(32);
    for flags in [
        ["--value-bytes", "0"].as_slice(),
        &["--batch", "65536", "--key-bytes", "4096"],
        &["--operation", "match-prefix", "--transport", "mooncake"],
        &["--keys", "1000", "--segments", "1", "--segment-bytes", "1MiB"],
        &["--get-share", "1.5"],
        &["--master-pid", "4294967295"],
        &["--compare", "mooring master"],
    ] {
        let output = run(&[&["bench", "run", "--pin-sha256", &pin][..], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(flags[0]), "{error}");
    }
}

#[test]
fn two_masters_take_turns_and_are_compared() {
    let address = format!("127.0.0.1:{}", free_port());
    let port = address.rsplit(':').next().unwrap();
    let common = format!("{MOORING} master --metrics-port 0 --mooncake-port {port}");
    let two = [format!("{common} --shards 1"), format!("{common} --shards 2")];
    let compare = ["--compare", &two[0], "--compare", &two[1], "--rounds", "1"];
    let load = ["--transport", "mooncake", "--master", &address, "--operation", "put", "--json"];
    let short = ["--warm-up", "0", "--duration", "200ms"];
    let output = run(&[&["bench", "run"][..], &compare, &load, &short].concat());
    assert!(output.status.success(), "{output:?}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (master, command) in figures["masters"].as_array().unwrap().iter().zip(&two) {
        assert_eq!(master["command"], command.as_str());
        check(&master["runs"][0]);
        assert!(master["median"]["master_resident_bytes"].as_f64().unwrap() > 0.0);
    }
    assert!(figures["ratio"]["keys_per_s"].as_f64().unwrap() > 0.0, "{figures}");
}

#[test]
fn a_floor_answers_each_operation_of_a_load_and_does_nothing_for_it() {
    let floor = Process::serving(&["bench", "floor", "--listen", "127.0.0.1:0"]);
    let ready = floor.ready();
    let address = ready["rpc"][0].as_str().unwrap();
    let whom = ["--master", address, "--pin-sha256", ready["cert_sha256"].as_str().unwrap()];
    for operation in ["put", "get", "exist", "match-prefix", "remove", "mixed", "churn", "fill"] {
        let load = ["bench", "run", "--operation", operation, "--keys", "10000", "--batch", "64"];
        let short = ["--warm-up", "100ms", "--duration", "300ms", "--json"];
        let output = run(&[&load[..], &whom, &short].concat());
        assert!(output.status.success(), "{operation}: {output:?}");
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        check(&figures);
        assert_eq!(figures["missing"], 0, "{figures}");
        assert_eq!(figures["master"]["objects"], Value::Null, "nothing is kept: {figures}");
    }
}

/// Each of them makes a certificate of its own, and is killed before it can withdraw what it left.
#[test]
fn masters_that_take_turns_are_not_warned_of_for_their_certificates() {
    let address = format!("127.0.0.1:{}", free_port());
    let port = address.rsplit(':').next().unwrap();
    let program = format!("{MOORING} master --dev --metrics-port 0 --rpc-port {port}");
    let compare = ["--compare", &program, "--compare", &program, "--rounds", "2"];
    let load = ["--master", &address, "--dev", "--operation", "put", "--keys", "1000", "--json"];
    let short = ["--warm-up", "0", "--duration", "200ms"];
    let output = run(&[&["bench", "run"][..], &compare, &load, &short].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert_eq!(told.lines().count(), 4, "{told}");
    assert!(told.lines().all(|line| line.starts_with("round ")), "{told}");
}
