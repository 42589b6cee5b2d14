//! Our bytes, read and written again by another implementation, where there is one.
//!
//! `MOORING_MOONCAKE_TOOLS` names a directory with a codec in Python (`sp.py`, and `mc_schema.py`
//! with the functions); by default it is looked for beside the checkout.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mooring_proto::mooncake::*;

use crate::captures::{bytes_of, call_of, captures, reply_of, request_of};

/// Reads lines of a function, a direction and a body, and answers with the body written again.
const PROGRAM: &str = "
import sys
from mc_schema import FUNCS, arg_type, pack, unpack
for line in sys.stdin:
    name, direction, body = line.split()
    arguments, result = FUNCS[name]
    kind = arg_type(arguments) if direction == 'request' else result
    value, left = unpack(kind, bytes.fromhex(body))
    assert left == 0, line
    print(pack(kind, value).hex())
";

#[test]
fn another_implementation_reads_what_we_write() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tools/mooncake");
    let tools = std::env::var_os("MOORING_MOONCAKE_TOOLS").map_or(beside, PathBuf::from);
    if !tools.join("mc_schema.py").exists() {
        eprintln!("skipped: no mc_schema.py in {}", tools.display());
        return;
    }
    let bodies = bodies();
    let input: String =
        bodies.iter().map(|(name, way, body)| format!("{name} {way} {}\n", hex(body))).collect();
    let mut python = Command::new("python3")
        .args(["-B", "-c", PROGRAM])
        .env("PYTHONPATH", tools)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tools are there, so python3 should be");
    let mut stdin = python.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = python.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads to the end");
    assert!(output.status.success(), "{}", output.status);
    let answers = String::from_utf8(output.stdout).expect("digits");
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), bodies.len());
    for ((name, way, body), answer) in bodies.iter().zip(answers) {
        assert_eq!(&bytes_of(answer), body, "{name} {way}");
    }
}

/// Every captured body in our plain form, and some with wide counts.
fn bodies() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut bodies = Vec::new();
    let mut add_request = |call: &Call<'_>| {
        let mut frame = Vec::new();
        call.append_to(&mut frame, 0, Form::Plain).expect("small");
        let body = request_of(&frame).body.to_vec();
        if !body.is_empty() {
            bodies.push((call.function().name(), "request", body));
        }
    };
    for capture in captures() {
        add_request(&call_of(&capture.request));
    }
    let long = vec![b'l'; 70_000];
    add_request(&Call::BatchExistKey(BatchExistKey {
        keys: vec![Str(b"key"), Str(&long)],
        tenant: Str(b"default"),
    }));
    add_request(&Call::BatchExistKey(BatchExistKey {
        keys: vec![Str(b"key"); 300],
        tenant: Str(b"default"),
    }));
    for capture in captures() {
        let function = call_of(&capture.request).function();
        let body = reply_of(&capture.reply).body;
        let (_, again) = reread_reply(function, body, Form::Plain).expect("an answer");
        bodies.push((capture.function, "reply", again));
    }
    bodies
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
