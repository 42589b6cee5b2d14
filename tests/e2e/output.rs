//! Output that nobody takes: a reader that has gone ends no command with a failure, and a device that is
//! full does.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::process::{Output, Stdio};

use crate::harness::mooring;
use crate::pool::Pool;

/// To a pipe whose reader has gone.
fn to_nobody(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    mooring(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap()
}

fn to_a_full_device(arguments: &[&str]) -> Output {
    let device = OpenOptions::new().write(true).open("/dev/full").unwrap();
    mooring(arguments).stdout(device).stderr(Stdio::piped()).output().unwrap()
}

/// As `>&-` in a shell does it: there is no standard output at all.
fn to_a_closed_output(arguments: &[&str]) -> Output {
    let command = mooring(arguments);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(command.get_program());
    shell.args(command.get_args()).stderr(Stdio::piped()).output().unwrap()
}

fn ends_well_in_either_way(arguments: &[&str]) {
    let output = to_nobody(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
    let output = to_a_full_device(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.starts_with("error: ") && error.contains("No space left"), "{error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    let output = to_a_closed_output(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.contains("standard output: Bad file descriptor"), "{arguments:?}: {error}");
}

#[test]
fn commands_without_a_master_end_in_order_when_their_output_goes_nowhere() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().to_str().unwrap();
    let blocks = ["bench", "eviction", "--blocks", "10", "--trace"];
    let trace = scratch.path().join("trace.jsonl");
    let request = r#"{"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[1,2]}"#;
    fs::write(&trace, format!("{request}\n")).unwrap();
    let replay = [&blocks[..], &[trace.to_str().unwrap()]].concat();
    let commands: [&[&str]; 8] = [
        &["--help"],
        &["--version"],
        &["config", "store"],
        &["reference", "flags"],
        &["mooncake-master", "--help"],
        &["handoff", "inspect", directory],
        &["handoff", "inspect", directory, "--json"],
        &replay,
    ];
    for command in commands {
        ends_well_in_either_way(command);
    }
}

#[test]
fn commands_of_a_client_end_in_order_when_their_output_goes_nowhere() {
    let pool = Pool::start(&[], 1);
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let text: String = (0..5_000).map(|n| format!("key/{n}\tvalue {n}\n")).collect();
    fs::write(&lines, &text).unwrap();
    pool.done(&["put", "--lines", lines.to_str().unwrap()]);
    let keys = directory.path().join("keys");
    fs::write(&keys, (0..5_000).map(|n| format!("key/{n}\n")).collect::<String>()).unwrap();
    let ready = pool.master.ready();
    let metrics = ready["metrics"].as_str().unwrap();
    ends_well_in_either_way(&["top", "--once", "--interval", "100ms", "--metrics", metrics]);
    let reach: Vec<&str> = pool.client_flags().iter().map(String::as_str).collect();
    let commands: [&[&str]; 9] = [
        &["ls", "keys"],
        &["ls", "keys", "--json"],
        &["ls", "segments"],
        &["ls", "clients"],
        &["stats"],
        &["exists", "key/1", "key/2"],
        &["get", "key/1"],
        &["get", "--lines", keys.to_str().unwrap()],
        &["rm", "--all"],
    ];
    for command in commands {
        ends_well_in_either_way(&[command, &reach].concat());
    }
}

/// As `head -c 5` takes it.
#[test]
fn a_reader_that_takes_a_part_of_an_object_has_seen_enough() {
    let pool = Pool::start(&[], 1);
    // More than a pipe holds.
    pool.put("large", &vec![b'v'; 4 << 20]);
    let mut get = mooring(&["get", "large"]);
    get.args(pool.client_flags()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut get = get.spawn().unwrap();
    let mut output = get.stdout.take().unwrap();
    output.read_exact(&mut [0; 5]).unwrap();
    drop(output);
    let ended = get.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
}

/// Where not even an error can be told, the exit code tells it.
#[test]
fn an_error_that_nobody_can_read_is_in_the_exit_code() {
    let device = || OpenOptions::new().write(true).open("/dev/full").map(Stdio::from).unwrap();
    let mut refused = mooring(&["handoff", "inspect", "/nowhere/at/all"]);
    let status = refused.stdout(device()).stderr(device()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let mut wrong = mooring(&["stats", "--no-such-flag"]);
    let status = wrong.stdout(Stdio::null()).stderr(device()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
