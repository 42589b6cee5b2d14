//! Settings (R53): from where they come, and that none is accepted and ignored.

use std::collections::HashSet;
use std::fs;

use crate::harness::{mooring, run};

/// A value for every flag of `mooring master` that is not its default, as the effective
/// configuration shows it.
const MASTER: [(&str, &str); 46] = [
    ("rpc-port", "1234"),
    ("rpc-address", "127.0.0.2"),
    ("max-connections-per-address", "99"),
    ("metrics-port", "1235"),
    ("metrics-address", "127.0.0.3"),
    ("dev", "true"),
    ("tls-cert", "cert.pem"),
    ("tls-key", "key.pem"),
    ("tls-client-ca", "ca.pem"),
    ("tls-admin-name", "spiffe://place/admin"),
    ("tls-store-name", "*.store.example"),
    ("shards", "5"),
    ("shard-layout", "threads"),
    ("default-kv-lease-ttl", "5s"),
    ("client-ttl", "20"),
    ("put-start-discard-timeout-sec", "31"),
    ("put-start-release-timeout-sec", "700"),
    ("eviction-high-watermark-ratio", "0.8"),
    ("eviction-ratio", "0.1"),
    ("eviction-policy", "lru"),
    ("allocation-strategy", "random"),
    ("default-kv-soft-pin-ttl", "10m"),
    ("max-kv-soft-pin-ttl", "10h"),
    ("mooncake-port", "1236"),
    ("summary-log-interval", "10s"),
    ("enable-http-metadata-server", "true"),
    ("http-metadata-server-port", "1237"),
    ("http-metadata-server-host", "127.0.0.4"),
    ("handoff-dir", "handoff"),
    ("handoff-max-age-sec", "60"),
    ("handoff-failure-policy", "refuse"),
    ("shutdown-deadline-sec", "40s"),
    ("handoff-shutdown-deadline-sec", "11s"),
    ("handoff-restore-deadline-sec", "12"),
    ("handoff-segment-deadline-sec", "13"),
    ("handoff-max-workers", "2"),
    ("handoff-restore-workers", "3"),
    ("handoff-restore-margin-percent", "20"),
    ("otlp-endpoint", "http://collector:4317"),
    ("otlp-protocol", "grpc"),
    ("otlp-metrics-interval", "5s"),
    ("trace-ratio", "0.25"),
    ("slow-request-ms", "250"),
    ("ready-file", "ready.json"),
    ("state-dir", "state"),
    ("log-level", "debug"),
];

/// The same for `mooring store`.
const STORE: [(&str, &str); 19] = [
    ("memory", "2GiB"),
    ("segments", "3"),
    ("huge-pages", "off"),
    ("address", "127.0.0.2"),
    ("data-port", "1236"),
    ("advertise", "elsewhere:1"),
    ("name", "a store"),
    ("buffer", "300MiB"),
    ("grace", "5s"),
    ("ready-file", "ready.json"),
    ("data-tls-cert", "cert.pem"),
    ("data-tls-key", "key.pem"),
    ("data-tls-client-ca", "ca.pem"),
    ("master", "elsewhere:2"),
    ("tls-ca", "ca.pem"),
    ("tls-cert", "cert.pem"),
    ("tls-key", "key.pem"),
    ("dev", "true"),
    ("pin-sha256", "abababababababababababababababababababababababababababababababab"),
];

/// The same for `mooring demo`.
const DEMO: [(&str, &str); 13] = [
    ("trace", "trace.jsonl"),
    ("limit", "7"),
    ("block-bytes", "32KiB"),
    ("pool-bytes", "512MiB"),
    ("stores", "4"),
    ("shards", "2"),
    ("speed", "2"),
    ("restart-every", "5s"),
    ("restarts", "3"),
    ("handoff-dir", "/dev/shm"),
    ("json", "true"),
    ("keep-logs", "logs"),
    ("write-trace", "written.jsonl"),
];

/// All of them, by subcommand.
const SUBJECTS: [(&str, &[(&str, &str)]); 3] =
    [("master", &MASTER), ("store", &STORE), ("demo", &DEMO)];

/// Flags of all client commands and of stores, whose variables name no subcommand.
const SHARED: [&str; 6] = ["master", "tls-ca", "tls-cert", "tls-key", "dev", "pin-sha256"];

/// What a flag needs beside it to make sense.
fn company(subject: &str, flag: &str) -> &'static [&'static str] {
    match (subject, flag) {
        ("master", "dev") => &[],
        (_, "tls-cert") => &["--tls-key", "other.key"],
        (_, "tls-key") => &["--tls-cert", "other.pem"],
        (_, "tls-client-ca") => &["--tls-cert", "other.pem", "--tls-key", "other.key"],
        (_, "tls-admin-name" | "tls-store-name") => &[
            "--tls-cert",
            "other.pem",
            "--tls-key",
            "other.key",
            "--tls-client-ca",
            "other-ca.pem",
        ],
        ("master", _) => &["--dev"],
        (_, "data-tls-cert") => &["--data-tls-key", "other.key"],
        (_, "data-tls-key") => &["--data-tls-cert", "other.pem"],
        (_, "data-tls-client-ca") => {
            &["--data-tls-cert", "other.pem", "--data-tls-key", "other.key"]
        }
        _ => &[],
    }
}

fn effective(mut command: std::process::Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

fn line_of(toml: &str, flag: &str) -> String {
    let line = toml.lines().find(|line| line.starts_with(&format!("{flag} = ")));
    line.unwrap_or_else(|| panic!("no {flag} in\n{toml}")).to_owned()
}

fn value_of(toml: &str, subject: &str, flag: &str) -> String {
    let table: toml::Table = toml.parse().unwrap();
    let value = table.get(flag).or_else(|| table.get(subject)?.as_table()?.get(flag)).unwrap();
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn variable_of(subject: &str, flag: &str) -> String {
    let flag_name = flag.to_uppercase().replace('-', "_");
    // Every program with OpenTelemetry knows these.
    if ["otlp-endpoint", "otlp-protocol"].contains(&flag) {
        return format!("OTEL_EXPORTER_{flag_name}");
    }
    let shared = subject == "store" && SHARED.contains(&flag);
    if flag.starts_with("log-") || shared {
        return format!("MOORING_{flag_name}");
    }
    format!("MOORING_{}_{flag_name}", subject.to_uppercase())
}

/// A file that sets one flag.
fn file_with(subject: &str, flag: &str, value: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let table = if flag.starts_with("log-") { "" } else { &format!("[{subject}]\n") };
    let plain = value.parse::<f64>().is_ok() || value == "true";
    let value = if plain { value.to_owned() } else { format!("'{value}'") };
    fs::write(file.path(), format!("{table}{flag} = {value}\n")).unwrap();
    file
}

#[test]
fn every_flag_is_in_the_tables_of_this_test() {
    for (subject, values) in SUBJECTS {
        let help = String::from_utf8(run(&[subject, "--help"]).stdout).unwrap();
        let flags: HashSet<&str> = help
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with('-'))
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
            .map(|flag| flag.trim_start_matches('-'))
            .collect();
        let tested: HashSet<&str> = values.iter().map(|(flag, _)| *flag).collect();
        let others = HashSet::from(["help", "config", "log-format", "log-level"]);
        let missing: Vec<_> =
            flags.difference(&tested).filter(|flag| !others.contains(*flag)).collect();
        assert!(flags.len() > 5 && missing.is_empty(), "{subject}: {missing:?}");
    }
}

// R53
#[test]
fn each_value_is_taken_from_flag_variable_and_file() {
    for (subject, values) in SUBJECTS {
        for (flag, value) in values {
            check_sources(subject, flag, value);
        }
    }
}

fn check_sources(subject: &str, flag: &str, value: &str) {
    let arguments = [&["config", subject], company(subject, flag)].concat();
    let option = format!("--{flag}={value}");
    let option = if value == "true" { option.trim_end_matches("=true") } else { &option };

    let mut by_flag = mooring(&arguments);
    by_flag.arg(option);
    let mut by_variable = mooring(&arguments);
    by_variable.env(variable_of(subject, flag), value);
    let file = file_with(subject, flag, value);
    let mut by_file = mooring(&arguments);
    by_file.arg("--config").arg(file.path());

    for (command, source) in [(by_flag, "flag"), (by_variable, "env "), (by_file, "file")] {
        let toml = effective(command);
        assert_eq!(value_of(&toml, subject, flag), value, "{subject} --{flag} by {source}");
        let line = line_of(&toml, flag);
        assert!(line.contains(&format!("# {source}")), "{subject}: {line}");
    }
}

#[test]
fn a_flag_overrides_a_variable_and_a_variable_the_file() {
    let file = file_with("master", "rpc-port", "1");
    let path = file.path().to_str().unwrap();
    let arguments = ["config", "master", "--dev", "--config", path];

    assert_eq!(line_of(&effective(mooring(&arguments)), "rpc-port"), "rpc-port = 1 # file");
    let mut variable = mooring(&arguments);
    variable.env("MOORING_MASTER_RPC_PORT", "2");
    let line = line_of(&effective(variable), "rpc-port");
    assert_eq!(line, "rpc-port = 2 # env MOORING_MASTER_RPC_PORT");
    let mut flag = mooring(&arguments);
    flag.env("MOORING_MASTER_RPC_PORT", "2").args(["--rpc-port", "3"]);
    assert_eq!(line_of(&effective(flag), "rpc-port"), "rpc-port = 3 # flag");
    let none = effective(mooring(&["config", "master", "--dev"]));
    assert_eq!(line_of(&none, "rpc-port"), "rpc-port = 50051 # default");
}

#[test]
fn a_flag_and_the_file_that_exclude_each_other_are_refused() {
    let file = file_with("client", "tls-ca", "ca.pem");
    let path = file.path().to_str().unwrap();
    let output = run(&["stats", "--config", path, "--dev"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("--tls-ca") && error.contains("--dev"), "{error}");
}

#[test]
fn the_effective_configuration_is_a_configuration_file() {
    let first = effective(mooring(&["config", "master", "--dev", "--client-ttl", "7s"]));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &first).unwrap();
    let path = file.path().to_str().unwrap();
    let second = effective(mooring(&["config", "--config", path]));
    let values = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(values(&first), values(&second));
}

#[test]
fn the_configuration_of_a_master_that_lacks_a_certificate_is_shown_with_a_note() {
    let output = run(&["config"]);
    assert_eq!(output.status.code(), Some(0));
    let (toml, note) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert_eq!(line_of(&toml.unwrap(), "rpc-port"), "rpc-port = 50051 # default");
    let note = note.unwrap();
    assert!(note.starts_with("note: ") && note.contains("--tls-cert FILE"), "{note}");
    // Everything else that is wrong still is.
    let wrong = run(&["config", "master", "--put-start-release-timeout-sec", "5"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(run(&["config", "master", "--tls-cert", "cert.pem"]).status.code(), Some(2));
}

// R53
#[test]
fn what_is_wrong_is_refused_by_name_with_status_2() {
    let unknown = file_with("master", "rpc-prot", "1");
    let bad = file_with("master", "rpc-port", "x");
    let conflict = file_with("master", "put-start-release-timeout-sec", "5");
    let table = tempfile::NamedTempFile::new().unwrap();
    fs::write(table.path(), "[mastre]\n").unwrap();
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let cases: [(&[&str], Option<&str>, &[&str]); 11] = [
        (&["--config", &path(&unknown)], None, &[&path(&unknown), "[master] rpc-prot", "rpc-port"]),
        (&["--config", &path(&bad)], None, &[&path(&bad), "[master] rpc-port", "\"x\""]),
        (&["--config", &path(&table)], None, &["[mastre]", "master", "store"]),
        (
            &["--config", &path(&conflict)],
            None,
            &["--put-start-release-timeout-sec", "--put-start-discard-timeout-sec"],
        ),
        (&["--rpc-port", "x"], None, &["--rpc-port", "'x'"]),
        (&["--rpc-prot", "1"], None, &["--rpc-prot"]),
        (&[], Some("70000"), &["70000", "--rpc-port", "MOORING_MASTER_RPC_PORT"]),
        (&["--config", "/nonexistent.toml"], None, &["/nonexistent.toml"]),
        (&["--config", "/dev/zero"], None, &["/dev/zero", "more than"]),
        (&["--client-ttl", "1ms"], None, &["--client-ttl", "1s"]),
        (&["--log-level", "bogus"], None, &["--log-level = bogus", "trace"]),
    ];
    for (flags, variable, names) in cases {
        let mut command = mooring(&["master", "--dev", "--metrics-port", "0"]);
        command.args(flags);
        if let Some(value) = variable {
            command.env("MOORING_MASTER_RPC_PORT", value);
        }
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        for name in names {
            assert!(error.contains(name), "{flags:?} names {name}: {error}");
        }
        assert!(output.stdout.is_empty());
    }
}
