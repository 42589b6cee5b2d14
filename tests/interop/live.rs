//! The unmodified client of Mooncake's Python package, with real bytes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::client::port;
use crate::harness::{MOORING, Process, free_port};
use crate::tell;

/// The script that the client follows.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/live.py");

/// Peers ask each other where memory is.
const PEERS: &str = "P2PHANDSHAKE";

/// Memory of a store, in bytes.
const STORE_BYTES: u64 = 64 << 20;

/// Clients print codes of refusals as they are on the wire.
const OBJECT_NOT_FOUND: i64 = -704;

/// A process with a client in it.
struct Live {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// A Python that has the package, or `None` with a word about the test that is skipped.
fn python(test: &str) -> Option<OsString> {
    let python = std::env::var_os("MOORING_MOONCAKE_PYTHON").filter(|path| !path.is_empty());
    if python.is_none() {
        tell(test, "skipped, MOORING_MOONCAKE_PYTHON names no Python with the package");
    }
    python
}

impl Live {
    /// Starts a client and waits until it is set up.
    fn start(python: &OsString, master: &str, metadata: &str, segment_bytes: u64) -> Live {
        let mut child = Command::new(python)
            .arg(SCRIPT)
            .args([master, metadata, &segment_bytes.to_string()])
            // Within one process and between two the bytes take the same way.
            .env("MC_STORE_MEMCPY", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut live = Live { child, commands, answers };
        assert_eq!(live.answer(), json!(0), "the client is set up");
        live
    }

    /// What an operation returns.
    fn say(&mut self, command: &Value) -> Value {
        writeln!(self.commands.as_mut().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the client has ended");
            if let Some(answer) = line.strip_prefix("answer ") {
                return serde_json::from_str(answer).unwrap();
            }
        }
    }

    /// Lets the client leave by itself.
    fn leave(mut self) {
        self.commands = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A master as `mooring master` starts it.
fn master(flags: &[&str]) -> Process {
    let ports = ["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"];
    Process::serving(&[&ports, flags].concat())
}

fn keys(count: u64) -> Vec<String> {
    (0..count).map(|number| format!("object-{number}")).collect()
}

/// The whole life of objects, as the client tells it; the last one stays.
fn exercise(client: &mut Live) {
    let expect = |client: &mut Live, command: Value, answer: Value| {
        assert_eq!(client.say(&command), answer, "{command}");
    };
    expect(client, json!(["put", "a", 1, 1000]), json!(0));
    expect(client, json!(["get", "a"]), json!(1));
    expect(client, json!(["size", "a"]), json!(1000));
    expect(client, json!(["put", "a", 2, 1000]), json!(0));
    expect(client, json!(["get", "a"]), json!(1));
    expect(client, json!(["upsert", "a", 3, 3_000_000]), json!(0));
    expect(client, json!(["get", "a"]), json!(3));
    expect(client, json!(["upsert", "a", 4, 3_000_000]), json!(0));
    expect(client, json!(["get", "a"]), json!(4));
    expect(client, json!(["put_batch", ["b1", "b2", "b3"], 5, 70_000]), json!(0));
    expect(client, json!(["get_batch", ["b1", "none", "b3"]]), json!([5, null, 5]));
    expect(client, json!(["upsert_batch", ["b1", "b2"], 6, 500]), json!(0));
    expect(client, json!(["get_batch", ["b1", "b2", "b3"]]), json!([6, 6, 5]));
    expect(client, json!(["exist", ["b1", "none", "a"]]), json!([1, 0, 1]));
    expect(client, json!(["get", "none"]), json!(null));
    expect(client, json!(["remove", "none", false]), json!(OBJECT_NOT_FOUND));
    expect(client, json!(["remove", "a", true]), json!(0));
    expect(client, json!(["get", "a"]), json!(null));
    expect(client, json!(["remove_by_regex", "^b[12]$", true]), json!(2));
    expect(client, json!(["batch_remove", ["b3", "b1"], true]), json!([0, OBJECT_NOT_FOUND]));
    expect(client, json!(["put", "a", 7, 20_000]), json!(0));
    expect(client, json!(["remove_all", true]), json!(1));
    expect(client, json!(["put", "last", 8, 20_000]), json!(0));
}

#[test]
fn a_client_puts_reads_replaces_and_removes() {
    let Some(python) = python("a_client_puts_reads_replaces_and_removes") else { return };
    let master = master(&["--mooncake-port", "0"]);
    let mut client = Live::start(&python, &port(&master).to_string(), PEERS, STORE_BYTES);
    exercise(&mut client);
    client.leave();
}

#[test]
fn bytes_travel_between_two_processes_that_find_each_other_at_the_master() {
    let test = "bytes_travel_between_two_processes_that_find_each_other_at_the_master";
    let Some(python) = python(test) else { return };
    let flags = ["--enable-http-metadata-server", "--http-metadata-server-port", "0"];
    let master = master(&[&["--mooncake-port", "0"], &flags[..]].concat());
    let address = port(&master).to_string();
    let store = master.ready()["metadata"].as_str().unwrap().to_owned();
    let store = store.rsplit(':').next().unwrap().to_owned();
    for metadata in [PEERS.to_owned(), format!("http://127.0.0.1:{store}/metadata")] {
        let node = Live::start(&python, &address, &metadata, STORE_BYTES);
        let mut client = Live::start(&python, &address, &metadata, 0);
        exercise(&mut client);
        let mut reader = Live::start(&python, &address, &metadata, 0);
        assert_eq!(reader.say(&json!(["get", "last"])), json!(8));
        [reader, client, node].into_iter().for_each(Live::leave);
    }
}

#[test]
fn every_object_is_read_again_after_a_planned_restart() {
    let Some(python) = python("every_object_is_read_again_after_a_planned_restart") else { return };
    let directory = tempfile::tempdir().unwrap();
    let handoff = directory.path().join("handoff").display().to_string();
    let number = free_port().to_string();
    let flags = ["--mooncake-port", &number, "--handoff-dir", &handoff];
    let mut former = master(&flags);
    let address = format!("127.0.0.1:{number}");
    let node = Live::start(&python, &address, PEERS, STORE_BYTES);
    let mut client = Live::start(&python, &address, PEERS, 0);
    let keys = keys(100);
    assert_eq!(client.say(&json!(["put_batch", &keys, 1, 100_000])), json!(0));
    former.signal(libc::SIGTERM);
    assert!(former.ended().success());

    let mut next = master(&flags);
    let all = json!(vec![1; keys.len()]);
    // The store comes back with its next ping. Until then its objects are misses, and the first call
    // on each connection to the former master fails.
    next.wait_until("all objects are read", || client.say(&json!(["get_batch", &keys])) == all);
    assert_eq!(client.say(&json!(["upsert", "object-0", 2, 5000])), json!(0));
    assert_eq!(client.say(&json!(["get", "object-0"])), json!(2));
    assert_eq!(client.say(&json!(["get", "object-1"])), json!(1));
    [client, node].into_iter().for_each(Live::leave);
}

#[test]
fn objects_come_back_after_the_master_was_killed() {
    let Some(python) = python("objects_come_back_after_the_master_was_killed") else { return };
    let number = free_port().to_string();
    let flags = ["--mooncake-port", &number, "--default-kv-lease-ttl", "1s"];
    let former = master(&flags);
    let address = format!("127.0.0.1:{number}");
    let mut client = Live::start(&python, &address, PEERS, STORE_BYTES);
    assert_eq!(client.say(&json!(["put", "k", 1, 5000])), json!(0));
    drop(former);
    let mut next = master(&flags);
    next.wait_until("a put goes through", || client.say(&json!(["put", "k", 2, 5000])) == 0);
    assert_eq!(client.say(&json!(["get", "k"])), json!(2));
    client.leave();
}

#[test]
fn the_binary_stands_in_for_mooncake_master_with_the_flags_of_an_operator() {
    let test = "the_binary_stands_in_for_mooncake_master_with_the_flags_of_an_operator";
    let Some(python) = python(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let program: PathBuf = directory.path().join("mooncake_master");
    std::os::unix::fs::symlink(MOORING, &program).unwrap();
    let (rpc, metadata) = (free_port(), free_port());
    let flags = [
        format!("--port={rpc}"),
        "--metrics_port=0".to_owned(),
        "--enable_http_metadata_server=true".to_owned(),
        "--http_metadata_server_host=0.0.0.0".to_owned(),
        format!("--http_metadata_server_port={metadata}"),
        "--eviction_high_watermark_ratio=0.95".to_owned(),
        "--eviction_ratio=0.1".to_owned(),
        "--default_kv_lease_ttl=5000".to_owned(),
        "--max_threads=64".to_owned(),
        "-v=1".to_owned(),
        "--logtostderr".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _master = Process::serving_as(&program, &flags);
    let master = format!("127.0.0.1:{rpc}");
    let metadata = format!("http://127.0.0.1:{metadata}/metadata");
    let mut client = Live::start(&python, &master, &metadata, STORE_BYTES);
    exercise(&mut client);
    client.leave();
}
