//! Traces and figures as a collector gets them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};

use crate::collector::{All, Collector, number_of, text_of};
use crate::harness::{Master, PATIENCE, Process, mooring, page_at, run};
use crate::mooncake::client::{self, Client};
use crate::tls::Authority;

/// A master that sends to the collector.
fn master(collector: &Collector, flags: &[&str]) -> Master {
    let sends = collector.flags();
    let sends: Vec<&str> = sends.iter().map(String::as_str).collect();
    Master::start(&[&sends[..], flags].concat())
}

/// Runs a command of a client.
fn command(master: &Master, arguments: &[&str]) {
    let to = master.client_flags();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let output = run(&[arguments, &to].concat());
    // That keys are missing is no failure here.
    assert!(output.stderr.is_empty(), "{output:?}");
}

fn leave(mut master: Master) {
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
}

/// The span of this name, kind and trace.
fn find<'a>(all: &'a All, name: &str, kind: SpanKind, trace: &[u8]) -> Option<&'a (String, Span)> {
    let is_it = |span: &Span| span.name == name && span.kind() == kind && span.trace_id == trace;
    all.spans.iter().find(|(_, span)| is_it(span))
}

/// The spans of this name below a span.
fn below<'a>(all: &'a All, parent: &Span, name: &str) -> Vec<&'a Span> {
    let is_below = |span: &&Span| {
        span.parent_span_id == parent.span_id
            && span.trace_id == parent.trace_id
            && span.name == name
    };
    all.spans.iter().map(|(_, span)| span).filter(is_below).collect()
}

/// The only span of this name below a span, which lies within it.
fn part<'a>(all: &'a All, parent: &Span, name: &str) -> &'a Span {
    let [part] = below(all, parent, name)[..] else { panic!("one {name}") };
    assert!(
        parent.start_time_unix_nano <= part.start_time_unix_nano
            && part.start_time_unix_nano <= part.end_time_unix_nano
            && part.end_time_unix_nano <= parent.end_time_unix_nano,
        "{name} lies within {}",
        parent.name
    );
    part
}

/// The first span of a trace with this name.
fn first<'a>(all: &'a All, name: &str) -> Option<&'a Span> {
    let is_it = |span: &&Span| span.name == name && span.parent_span_id.is_empty();
    all.spans.iter().map(|(_, span)| span).find(is_it)
}

fn finds_the_whole_trace(form: &'static str) {
    let collector = Collector::start(form);
    let master = master(&collector, &["--shards", "2"]);
    let sends = collector.flags();
    let sends: Vec<&str> = sends.iter().map(String::as_str).collect();
    let keys: Vec<String> = (0..16).map(|number| format!("key-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    command(&master, &[&["exists", "--trace-ratio", "1"], &keys[..], &sends].concat());
    leave(master);
    let trace = collector.wait_for("the call of the client", |all| {
        let is_it = |span: &Span| span.name == "Exist" && span.kind() == SpanKind::Client;
        let (service, call) = all.spans.iter().find(|(_, span)| is_it(span))?;
        assert_eq!((service.as_str(), call.parent_span_id.len()), ("mooring-client", 0));
        Some(call.trace_id.clone())
    });
    collector.wait_for("the request at the master", |all| {
        let (service, request) = find(all, "Exist", SpanKind::Server, &trace)?;
        let (_, call) = find(all, "Exist", SpanKind::Client, &trace)?;
        assert_eq!((service.as_str(), &request.parent_span_id), ("mooring", &call.span_id));
        assert_eq!(number_of(&request.attributes, "mooring.keys"), Some(16));
        assert!(request.status.is_none());
        // The two processes have one clock, and read it at two moments.
        let between = CLOCK_SLACK_NS + call.end_time_unix_nano - call.start_time_unix_nano;
        assert!(request.end_time_unix_nano - request.start_time_unix_nano <= between);
        let read = part(all, request, "read");
        let write = part(all, request, "write");
        assert!(read.end_time_unix_nano <= write.start_time_unix_nano);
        let shards = below(all, request, "shard");
        let keys = shards.iter().map(|it| number_of(&it.attributes, "mooring.keys").unwrap());
        assert_eq!((shards.len(), keys.sum::<i64>()), (2, 16));
        for shard in shards {
            let (queue, work) = (part(all, shard, "queue"), part(all, shard, "work"));
            assert_eq!(queue.start_time_unix_nano, shard.start_time_unix_nano);
            assert_eq!(queue.end_time_unix_nano, work.start_time_unix_nano);
            assert!(read.end_time_unix_nano <= shard.start_time_unix_nano);
            assert!(shard.end_time_unix_nano <= write.start_time_unix_nano);
        }
        Some(())
    });
}

#[test]
fn a_call_of_a_client_is_one_trace_to_the_shards_and_back_over_http() {
    finds_the_whole_trace("http");
}

#[test]
fn a_call_of_a_client_is_one_trace_to_the_shards_and_back_over_grpc() {
    finds_the_whole_trace("grpc");
}

#[test]
fn what_the_caller_says_goes_before_the_ratio_of_the_master() {
    let collector = Collector::start("http");
    let master = master(&collector, &["--trace-ratio", "1"]);
    let parent = |trace: &str, flags: &str| format!("00-{trace}-00f067aa0ba902b7-{flags}");
    let (sampled, not_sampled) = ("0af7651916cd43dd8448eb211c80319c", "1".repeat(32));
    command(&master, &["exists", "a", "--traceparent", &parent(sampled, "01")]);
    command(&master, &["exists", "b", "--traceparent", &parent(&not_sampled, "00")]);
    command(&master, &["exists", "c"]);
    leave(master);
    collector.wait_for("the end of the master", |all| first(all, "leave").map(drop));
    collector.wait_for("the requests", |all| {
        let requests = all.spans.iter().map(|(_, span)| span).filter(|it| it.name == "Exist");
        let requests: Vec<&Span> = requests.collect();
        let below: Vec<_> = requests.iter().filter(|it| !it.parent_span_id.is_empty()).collect();
        assert_eq!(requests.len(), 2, "one is not sampled");
        assert_eq!(below[0].trace_id[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(below[0].parent_span_id[..3], [0x00, 0xf0, 0x67]);
        Some(())
    });
}

#[test]
fn a_fetch_is_one_span_with_its_calls_below_it() {
    let collector = Collector::start("http");
    let master = master(&collector, &[]);
    let sends = collector.flags();
    let output = mooring(&["get", "nothing", "--trace-ratio", "1"])
        .args(master.client_flags())
        .args(sends)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    leave(master);
    collector.wait_for("the fetch", |all| {
        let fetch = first(all, "fetch")?;
        let call = part(all, fetch, "Get");
        assert_eq!(call.kind(), SpanKind::Client);
        find(all, "Get", SpanKind::Server, &fetch.trace_id).map(|(_, request)| {
            assert_eq!(request.parent_span_id, call.span_id);
        })
    });
}

#[test]
fn a_request_of_a_client_of_mooncake_is_traced_by_the_ratio() {
    let collector = Collector::start("grpc");
    let sends = collector.flags();
    let sends: Vec<&str> = sends.iter().map(String::as_str).collect();
    let master = client::master(&[&sends[..], &["--trace-ratio", "1"]].concat());
    Client::connect(&master).ping();
    leave(master);
    collector.wait_for("the request", |all| {
        let request = first(all, "Ping")?;
        let front_end = text_of(&request.attributes, "mooring.front_end");
        assert_eq!((request.kind(), front_end.as_deref()), (SpanKind::Server, Some("mooncake")));
        Some(())
    });
}

#[test]
fn start_restore_and_leave_are_traces_of_their_phases() {
    let collector = Collector::start("http");
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--handoff-dir", directory.path().to_str().unwrap()];
    leave(master(&collector, &flags));
    let names = ["stop serving", "quiesce", "answer", "export", "farewell", "publish"];
    collector.wait_for("the end of the first master", |all| {
        let whole = first(all, "leave")?;
        for name in names {
            assert!(part(all, whole, name).status.is_none(), "{name}");
        }
        Some(())
    });
    leave(master(&collector, &flags));
    collector.wait_for("the start of the second master", |all| {
        let starts = all.spans.iter().map(|(_, span)| span).filter(|it| it.name == "start");
        let [empty, restored] = starts.collect::<Vec<_>>()[..] else { return None };
        assert!(below(all, empty, "restore").is_empty());
        for name in ["open directory", "claim", "restore", "open ports"] {
            part(all, restored, name);
        }
        let objects = number_of(&part(all, restored, "restore").attributes, "mooring.objects");
        assert_eq!(objects, Some(0));
        Some(())
    });
}

#[test]
fn an_eviction_and_a_sweep_are_linked_to_what_they_ran_for() {
    let collector = Collector::start("http");
    let master = master(&collector, &["--trace-ratio", "1"]);
    // More than there is room for, and at the end the memory is taken away.
    let load = ["bench", "fill", "--keys", "400", "--batch", "16", "--value-bytes", "64KiB"];
    command(&master, &[&load[..], &["--segments", "1", "--segment-bytes", "16MiB"]].concat());
    leave(master);
    for (job, request) in [("evict", "PutStart"), ("sweep segment", "Unmount")] {
        collector.wait_for(job, |all| {
            let jobs = all.spans.iter().map(|(_, span)| span).filter(|it| it.name == job);
            let linked = jobs.filter(|it| !it.links.is_empty()).find(|it| {
                let objects = number_of(&it.attributes, "mooring.objects");
                objects.is_some_and(|objects| objects > 0)
            })?;
            let link = &linked.links[0];
            let is_cause = |it: &&Span| it.trace_id == link.trace_id && it.span_id == link.span_id;
            let cause = all.spans.iter().map(|(_, span)| span).find(is_cause)?;
            assert_eq!(cause.name, request);
            assert_ne!(cause.trace_id, linked.trace_id);
            Some(())
        });
    }
}

fn finds_the_figures_of_the_page(form: &'static str) {
    let collector = Collector::start(form);
    let master = master(&collector, &["--otlp-metrics-interval", "100ms"]);
    command(&master, &["exists", "a", "b"]);
    let (_, page) = master.page("/metrics");
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let names: Vec<&str> = names.collect();
    collector.wait_for("the figures", |all| {
        let keys = all.metrics.get("master_batch_exist_key_items_total")?;
        let Some(metric::Data::Sum(sum)) = &keys.data else { panic!("{keys:?}") };
        if sum.data_points[0].value != Some(number_data_point::Value::AsInt(2)) {
            return None;
        }
        let missing: Vec<_> = names.iter().filter(|it| !all.metrics.contains_key(**it)).collect();
        assert!(names.len() > 100 && missing.is_empty(), "{missing:?}");
        let durations = &all.metrics["mooring_request_duration_seconds"];
        let Some(metric::Data::Histogram(durations)) = &durations.data else { panic!("none") };
        let exist = durations
            .data_points
            .iter()
            .find(|point| text_of(&point.attributes, "operation").as_deref() == Some("Exist"));
        assert_eq!(exist.unwrap().count, 1);
        Some(())
    });
}

#[test]
fn the_figures_of_the_page_come_over_http() {
    finds_the_figures_of_the_page("http");
}

#[test]
fn the_figures_of_the_page_come_over_grpc() {
    finds_the_figures_of_the_page("grpc");
}

#[test]
fn headers_of_the_variables_go_with_each_message() {
    let collector = Collector::start("http");
    let sends = collector.flags();
    let (endpoint, rpc) = (sends[1].clone(), "127.0.0.1:1");
    let mut asks = mooring(&["exists", "a", "--dev", "--pin-sha256", &"0".repeat(64)]);
    asks.args(["--master", rpc, "--timeout", "100ms", "--trace-ratio", "1"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
        .env("OTEL_SERVICE_NAME", "somebody")
        .env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
    assert_eq!(asks.output().unwrap().status.code(), Some(1));
    // It never reached a master, so there is nothing to tell; one that does tells all. The master itself
    // sends nothing: the headers are those of the last message.
    let master = Master::start(&[]);
    let mut asks = mooring(&["exists", "a"]);
    asks.args(master.client_flags())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &sends[1])
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
        .env("OTEL_SERVICE_NAME", "somebody")
        .env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
    assert_eq!(asks.output().unwrap().status.code(), Some(1));
    collector.wait_for("the span", |all| {
        let (_, span) = all.spans.iter().find(|(service, _)| service == "somebody")?;
        assert_eq!(span.parent_span_id[..2], [0x00, 0xf0]);
        assert_eq!(all.headers["x-tenant"], "a b");
        Some(())
    });
}

#[test]
fn an_inherited_parent_that_is_none_stops_no_command() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let collector = Collector::start("http");
    let master = master(&collector, &[]);
    let none: [&[u8]; 4] =
        [b"", b"x", b"00-0AF7651916CD43DD8448EB211C80319C-00F067AA0BA902B7-01", b"\xff"];
    for parent in none {
        let mut asks = mooring(&["exists", "a"]);
        asks.args(master.client_flags()).env("TRACEPARENT", OsStr::from_bytes(parent));
        // There is no such object, which is what was asked.
        assert_eq!(asks.output().unwrap().status.code(), Some(1), "{parent:?}");
    }
}

#[test]
fn a_collector_over_tls_gets_what_is_sent_if_it_is_trusted() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let roots = directory.path().join("ca.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let master = Master::start(&[]);
    for form in ["http", "grpc"] {
        let collector = Collector::start_secure(form, authority.pair("localhost"));
        let ask = |name: &str| {
            let mut ask = mooring(&["exists", "a", "--trace-ratio", "1"]);
            ask.args(master.client_flags()).args(collector.flags()).env("OTEL_SERVICE_NAME", name);
            ask
        };
        // Whom the system trusts is somebody else; and that costs the command nothing but the span.
        assert_eq!(ask("without").output().unwrap().status.code(), Some(1));
        let mut trusting = ask("with");
        trusting.env("OTEL_EXPORTER_OTLP_CERTIFICATE", &roots);
        assert_eq!(trusting.output().unwrap().status.code(), Some(1));
        collector.wait_for("the call", |all| {
            let services: Vec<_> = all.spans.iter().map(|(service, _)| service.as_str()).collect();
            (services == ["with"]).then_some(())
        });
    }
}

#[test]
fn an_endpoint_that_makes_no_sense_is_refused_by_name() {
    let output = run(&["master", "--dev", "--rpc-port", "0", "--otlp-endpoint", "collector:4317"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--otlp-endpoint = collector:4317"), "{error}");
    let bad_port =
        run(&["master", "--dev", "--rpc-port", "0", "--otlp-endpoint", "http://c:99999"]);
    assert_eq!(bad_port.status.code(), Some(2), "{bad_port:?}");
}

/// Variables of OpenTelemetry are there for every program of a pod or a user.
#[test]
fn variables_that_make_no_sense_stop_no_command_and_are_warned_of_once() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let master = Master::start(&[]);
    let good = ("OTEL_EXPORTER_OTLP_ENDPOINT", &b"http://127.0.0.1:1"[..]);
    let bad: [(&str, &[u8]); 12] = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", b"http/json"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", b"\xff"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", b"http/json"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", b"collector:4317"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", b"http://collector:99999"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", b"\xff"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", b"soon"),
        ("OTEL_EXPORTER_OTLP_HEADERS", b"secret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", b"host=secret"),
        ("OTEL_TRACES_EXPORTER", b"zipkin"),
        ("OTEL_RESOURCE_ATTRIBUTES", b"a=b,oops"),
        ("OTEL_SERVICE_NAME", b"\xff"),
    ];
    for (name, value) in bad {
        let mut asks = mooring(&["exists", "a"]);
        asks.args(master.client_flags());
        for (name, value) in [good, (name, value)] {
            asks.env(name, OsStr::from_bytes(value));
        }
        let output = asks.output().unwrap();
        // There is no such object, which is what was asked.
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        assert_eq!(output.stdout, b"a no\n", "{name}: {output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        let told = error.lines().filter(|line| line.contains(name)).count();
        assert_eq!((told, error.lines().count()), (1, 1), "{name}: {error}");
    }
    let mut empty = mooring(&["exists", "a"]);
    let output = empty.args(master.client_flags()).env("OTEL_EXPORTER_OTLP_PROTOCOL", "").output();
    assert_eq!(output.unwrap().stderr, b"");
}

#[test]
fn what_makes_sense_of_variables_is_sent_without_the_rest() {
    let collector = Collector::start("http");
    let master = Master::start(&[]);
    let mut asks = mooring(&["exists", "a", "--trace-ratio", "1"]);
    asks.args(master.client_flags())
        .args(collector.flags())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "host=elsewhere,Content-Length=7,x-tenant=a")
        .env("OTEL_RESOURCE_ATTRIBUTES", "service.name=somebody,oops,=x");
    let output = asks.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.matches("that part is left out").count(), 3, "{error}");
    collector.wait_for("the span", |all| {
        all.spans.iter().find(|(service, _)| service == "somebody")?;
        assert_eq!(all.headers["x-tenant"], "a");
        assert_ne!(all.headers["host"], "elsewhere");
        Some(())
    });
}

#[test]
fn a_master_with_variables_that_make_no_sense_serves() {
    let mut command = mooring(&["master", "--dev", "--rpc-port", "0", "--metrics-port", "0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1").env("OTEL_EXPORTER_OTLP_TIMEOUT", "x");
    let mut process = Process::spawn(command);
    let ready = process.ready_path();
    process.wait_until("it serves", || ready.exists());
    let log = process.log();
    let told = log.lines().filter(|line| line.contains("OTEL_EXPORTER_OTLP_TIMEOUT = x"));
    assert_eq!(told.count(), 1, "{log}");
}

#[test]
fn a_command_does_not_wait_for_a_collector_that_hangs() {
    let master = Master::start(&[]);
    let took = |flags: &[&str]| {
        let begun = Instant::now();
        let to = master.client_flags();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        assert_eq!(run(&[&["exists", "a"], flags, &to].concat()).status.code(), Some(1));
        begun.elapsed()
    };
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hangs.local_addr().unwrap());
    // The fastest of some, since the machine may be busy otherwise, too.
    let fastest = |flags: &[&str]| (0..5).map(|_| took(flags)).min().unwrap();
    let without = fastest(&[]);
    let with = fastest(&["--otlp-endpoint", &url, "--trace-ratio", "1"]);
    assert!(with < without + Duration::from_millis(400), "{with:?}, and without {without:?}");
}

/// Provisional answers may come before an answer, in any number.
#[test]
fn a_collector_that_talks_without_an_end_is_not_listened_to() {
    let talks = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", talks.local_addr().unwrap());
    let master = Master::start(&["--otlp-endpoint", &url, "--trace-ratio", "1"]);
    command(&master, &["exists", "a"]);
    let (mut stream, _) = talks.accept().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let (begun, mut said) = (Instant::now(), 0);
    let provisional = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
    while stream.write_all(provisional.as_bytes()).is_ok() {
        said += provisional.len();
    }
    // What the sockets buffer counts, too.
    assert!(said < 64 << 20, "{said} bytes were taken");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// How long a master takes to leave that sends there.
fn time_to_leave(url: &str) -> Duration {
    let master = Master::start(&["--otlp-endpoint", url, "--trace-ratio", "1"]);
    let load = ["bench", "--operation", "mixed", "--keys", "1000", "--segments", "1"];
    let short = ["--value-bytes", "4KiB", "--warm-up", "10ms", "--duration", "1500ms"];
    command(&master, &[&load[..], &["--segment-bytes", "1GiB"], &short].concat());
    let begun = Instant::now();
    leave(master);
    begun.elapsed()
}

#[test]
fn a_collector_that_is_gone_or_hangs_delays_no_exit() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Its connections are opened by the system, and nobody ever answers on them.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, hangs.local_addr().unwrap()] {
        let took = time_to_leave(&format!("http://{address}"));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn what_a_collector_does_not_take_is_counted() {
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hangs.local_addr().unwrap());
    let mut master = Master::start(&["--otlp-endpoint", &url, "--trace-ratio", "1"]);
    let (metrics, to) = (master.metrics(), master.client_flags());
    let lost = || {
        let page = page_at(metrics, "/metrics").1;
        let line = "mooring_trace_spans_total{outcome=\"dropped\"} ";
        let value = page.lines().find_map(|it| it.strip_prefix(line)).unwrap();
        value.parse::<u64>().unwrap()
    };
    let load =
        ["bench", "--operation", "exist", "--keys", "1000", "--batch", "1", "--segments", "1"];
    let short = ["--value-bytes", "4KiB", "--warm-up", "10ms", "--duration", "500ms"];
    master.process.wait_until("more is traced than can wait", || {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let output = run(&[&load[..], &["--segment-bytes", "1GiB"], &short, &to].concat());
        assert!(output.status.success(), "{output:?}");
        lost() > 0
    });
}

/// Between two looks at the clock on the wall.
const CLOCK_SLACK_NS: u64 = 5_000_000;
