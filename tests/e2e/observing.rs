//! What people and programs see of a master: `/status`, `mooring top`, metrics, readiness of a process
//! that hangs, and the log.

use std::io::{Read, Write};
use std::net::SocketAddr;
#[cfg(debug_assertions)]
use std::time::Duration;
use std::time::Instant;

use mooring_proto::mooncake::{BatchExistKey, ExistKey, Str};
use serde_json::Value;

use crate::harness::{Master, PATIENCE, Process, http, page_at, run};
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

/// Status and body of the answer to a change of the log.
fn change_log(master: &Master, method: &str, directives: &str) -> (u16, String) {
    let (code, body) = http(master.metrics(), method, "/log_level", directives.as_bytes());
    (code, String::from_utf8(body).unwrap())
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
fn top_prints_one_frame_for_a_pipe_and_says_what_is_wrong_without_a_master() {
    let pool = Pool::start(&[], 1);
    pool.put("a-key", b"a value");
    let address = metrics(&pool.master).to_string();
    let output = run(&["top", "--once", "--interval", "100ms", "--metrics", &address]);
    let frame = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{frame}");
    for text in ["serving", "quic PutStart", "of 96.0M", "SEGMENT", "CLIENT"] {
        assert!(frame.contains(text), "{text} is not in\n{frame}");
    }
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    assert!(!frame.contains('\u{1b}'), "{frame:?}");
    drop(pool);
    let output = run(&["top", "--once", "--metrics", &address]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains(&address), "{error}");
    assert!(error.contains("it has ended"), "{error}");
}

/// A browser on the machine shows a page of somebody else, whose name leads here.
#[test]
fn a_page_of_another_origin_changes_nothing() {
    let master = Master::start(&[]);
    let before = master.page("/log_level");
    let ask = |method: &str, path: &str, origin: &str| {
        let mut stream = master.admin_connection();
        let text = format!(
            "{method} {path} HTTP/1.0\r\nHost: rebound.example.org:9003\r\nOrigin: {origin}\r\n\
             Content-Length: 5\r\n\r\ndebug"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for origin in ["http://rebound.example.org:9003", "https://example.org", "null"] {
        for (method, path) in [
            ("PUT", "/log_level"),
            ("DELETE", "/log_level"),
            ("POST", "/api/v1/remove_all"),
            ("PUT", "/api/v1/tenant_quotas"),
        ] {
            assert_eq!(ask(method, path, origin), 403, "{method} {path} from {origin}");
        }
        assert_eq!(ask("GET", "/log_level", origin), 200);
    }
    assert_eq!(master.page("/log_level"), before);
    assert_eq!(ask("PUT", "/log_level", "http://localhost:9003"), 200);
    assert_eq!(master.page("/log_level").1, "debug\n");
}

#[test]
fn top_without_a_terminal_says_what_to_do() {
    let output = run(&["top"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("--once"), "{error}");
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

/// Waits until the master says that it is not ready, and gives the reason.
#[cfg(debug_assertions)]
fn not_ready(master: &Master) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let (code, body) = master.page("/ready");
        if code == 503 {
            return body;
        }
        assert!(Instant::now() < until, "still ready");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_master_with_a_shard_that_hangs_is_not_ready_within_five_seconds() {
    let master = Master::start(&["--shards", "2", "--shard-layout", "threads"]);
    assert_eq!(master.page("/ready").0, 200);
    assert_eq!(http(master.metrics(), "POST", "/debug/hang?shard=1", b"").0, 200);
    let hung = Instant::now();
    let reason = not_ready(&master);
    assert!(hung.elapsed() < Duration::from_secs(5), "after {:?}", hung.elapsed());
    assert!(reason.contains("shard 1") && !reason.contains("shard 0"), "{reason}");
    // What needs no answer of a shard is told still.
    let (code, page) = master.page("/metrics");
    assert!(code == 200 && page.contains("mooring_actors_answer 0"), "{page}");
    assert!(!page.contains("master_key_count"), "a sum without a shard would be wrong: {page}");
    let oldest = page
        .lines()
        .find(|line| line.starts_with("mooring_shard_oldest_request_seconds{shard=\"1\"}"));
    let oldest: f64 = oldest.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(oldest > 0.0, "{page}");
    assert!(!status(master.metrics())["lacking"].as_array().unwrap().is_empty());
}

#[cfg(debug_assertions)]
#[test]
fn a_master_whose_ports_hang_is_not_ready_within_five_seconds() {
    for flags in [&["--dev"][..], &["--mooncake-port", "0"]] {
        let ports = ["master", "--rpc-port", "0", "--metrics-port", "0"];
        let process = Process::serving(&[&ports[..], flags].concat());
        let metrics = metrics(&process);
        assert_eq!(http(metrics, "GET", "/ready", b"").0, 200);
        assert_eq!(http(metrics, "POST", "/debug/hang?ports", b"").0, 200);
        let hung = Instant::now();
        while http(metrics, "GET", "/ready", b"").0 != 503 {
            assert!(hung.elapsed() < Duration::from_secs(5), "{flags:?}: still ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(hung.elapsed() < Duration::from_secs(5), "after {:?}", hung.elapsed());
    }
}

#[test]
fn what_is_logged_can_be_changed_and_goes_back_to_what_it_was() {
    let master = Master::start(&["--log-level", "warn"]);
    assert_eq!(change_log(&master, "GET", ""), (200, "warn\n".to_owned()));
    let told = |level: &str| master.process.log().contains(&format!("\"level\":\"{level}\""));
    assert!(!told("INFO"), "{}", master.process.log());
    assert_eq!(change_log(&master, "PUT", "mooring=debug\n").0, 200);
    assert_eq!(change_log(&master, "GET", "").1, "mooring=debug\n");
    ask_for_stats(&master);
    assert!(told("DEBUG"), "{}", master.process.log());
    assert_eq!(change_log(&master, "DELETE", ""), (200, "warn\n".to_owned()));
    for wrong in ["loud", "", "mooring=loud", "info,,warn"] {
        let (code, text) = change_log(&master, "PUT", wrong);
        assert_eq!(code, 400, "{wrong}: {text}");
    }
    assert_eq!(change_log(&master, "PUT", &"a=info,".repeat(200)).0, 413);
    assert_eq!(change_log(&master, "GET", "").1, "warn\n", "what is wrong changes nothing");
}

#[test]
fn each_change_of_what_is_logged_leaves_one_line_that_shows() {
    let master = Master::start(&["--log-level", "info"]);
    let changes = [
        ("info", "warn", "INFO"),
        ("warn", "error", "WARN"),
        ("error", "warn", "WARN"),
        ("warn", "mooring=debug", "INFO"),
        ("mooring=debug", "off", "INFO"),
    ];
    for (_, after, _) in changes {
        assert_eq!(change_log(&master, "PUT", after).0, 200);
    }
    let log = master.process.log();
    let told = log.lines().filter(|line| line.contains("what is logged was changed"));
    let told: Vec<Value> = told.map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let told: Vec<_> =
        told.iter().map(|it| (of(it, "before"), of(it, "after"), of(it, "level"))).collect();
    let expected = changes.map(|it| (it.0.to_owned(), it.1.to_owned(), it.2.to_owned()));
    assert_eq!(told, expected, "{log}");
}

#[test]
fn a_line_that_repeats_itself_is_held_back_and_counted() {
    let mut master = Master::start(&["--slow-request-ms", "1", "--mooncake-port", "0"]);
    let mut client = Client::connect(&master);
    let until = Instant::now() + PATIENCE;
    let slow_lines =
        |master: &Master| master.process.log().matches("\"message\":\"slow request\"").count();
    while slow_lines(&master) < 50 {
        assert!(Instant::now() < until, "{} slow requests", slow_lines(&master));
        slow_call(&mut client);
    }
    for _ in 0..200 {
        slow_call(&mut client);
    }
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    let log = master.process.log();
    assert!(log.contains("left out lines like others") && log.contains("slow.rs"), "{log}");
    let line = log.lines().find(|line| line.contains("slow request")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["front_end"], &line["level"]), (&"mooncake".into(), &"WARN".into()));
    assert!(line["took_ms"].as_f64().unwrap() >= 1.0, "{line}");
}

/// A batch that takes a while.
fn slow_call(client: &mut Client) {
    let count = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let names: Vec<Vec<u8>> = (0..count).map(|number| format!("key-{number}").into()).collect();
    let keys = names.iter().map(|name| Str(name)).collect();
    let call = BatchExistKey { keys, tenant: TENANT };
    client.call(&call, |answer| assert_eq!(answer.len(), count));
}
