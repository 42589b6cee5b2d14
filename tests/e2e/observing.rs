//! What people and programs see of a master: `/status`, `mooring top`, metrics, readiness of a process
//! that hangs, and the log.

use std::net::SocketAddr;

use mooring_proto::mooncake::{ExistKey, Str};
use serde_json::Value;

use crate::harness::{Master, Process, page_at, run};
use crate::mooncake::client::{Client, TENANT};
use crate::pool::Pool;

/// Where the admin pages of a process are.
fn metrics(process: &Process) -> SocketAddr {
    process.ready()["metrics"].as_str().unwrap().parse().unwrap()
}

fn status(metrics: SocketAddr) -> Value {
    let (code, body) = page_at(metrics, "/status");
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn ask_for_stats(master: &Master) {
    let flags = master.client_flags();
    let stats: Vec<&str> = ["stats"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    assert_eq!(run(&stats).status.code(), Some(0));
}

#[test]
fn the_status_has_every_field_that_its_document_names() {
    let pool = Pool::start(&[], 1);
    pool.put("a-key", b"a value");
    let shown = status(metrics(&pool.master));
    let document = include_str!("../../src/admin/STATUS.md");
    let mut names = document.split('`').skip(1).step_by(2);
    let mut fields = Vec::new();
    collect_fields(&shown, &mut fields);
    fields.sort();
    fields.dedup();
    let mut undocumented: Vec<_> =
        fields.iter().filter(|field| !document.contains(&format!("`{field}`"))).collect();
    undocumented.retain(|field| !field.is_empty());
    assert!(undocumented.is_empty(), "STATUS.md does not name {undocumented:?}");
    // Names of the document that end in a unit are fields.
    let missing: Vec<_> = names
        .by_ref()
        .filter(|name| ["_bytes", "_ms", "_us", "_left_out"].iter().any(|it| name.ends_with(it)))
        .filter(|name| !fields.iter().any(|field| field == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} is not in {shown:#}");
    assert_eq!(shown["state"], "serving");
    assert_eq!(shown["totals"]["objects"], 1);
    assert_eq!(shown["segments"][0]["state"], "open");
}

fn collect_fields(value: &Value, fields: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                fields.push(name.clone());
                collect_fields(value, fields);
            }
        }
        Value::Array(rows) => rows.iter().for_each(|row| collect_fields(row, fields)),
        _ => {}
    }
}

#[test]
fn lists_of_the_status_are_as_long_as_asked_and_say_what_is_left_out() {
    let pool = Pool::start(&[], 3);
    let address = metrics(&pool.master);
    let (code, body) = page_at(address, "/status?limit=1");
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, shown["segments"].as_array().unwrap().len()), (200, 1));
    assert_eq!(shown["segments_left_out"], 2);
    for limit in ["-1", "x", "10001"] {
        let (code, body) = page_at(address, &format!("/status?limit={limit}"));
        assert!(code == 400 && body.contains("limit"), "{limit}: {code} {body}");
    }
}

#[test]
fn latencies_are_told_by_operation_of_both_ports() {
    let master = Master::start(&["--mooncake-port", "0"]);
    let mut client = Client::connect(&master);
    client.call(&ExistKey { key: Str(b"a"), tenant: TENANT }, |answer| assert!(answer.is_ok()));
    ask_for_stats(&master);
    let (_, page) = master.page("/metrics");
    for labels in
        [r#"front_end="mooncake",operation="ExistKey""#, r#"front_end="quic",operation="Stats""#]
    {
        for line in [
            format!("mooring_request_duration_seconds_count{{{labels}}} 1"),
            format!(r#"mooring_request_duration_seconds_bucket{{{labels},le="+Inf"}} 1"#),
        ] {
            assert!(page.lines().any(|it| it == line), "{line} is not in\n{page}");
        }
    }
    for name in [
        "mooring_actors_answer 1",
        "mooring_shard_oldest_request_seconds{shard=\"0\"}",
        "mooring_quic_receive_drops_total 0",
        "mooring_certificate_days_left",
        "mooring_allocator_retained_bytes",
        "mooring_state{state=\"serving\"} 1",
    ] {
        assert!(page.lines().any(|it| it.starts_with(name)), "{name} is not in\n{page}");
    }
}
