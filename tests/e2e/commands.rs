//! The client commands.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, mooring, run};
use crate::pool::{Pool, patterned};

#[test]
fn what_is_put_is_got() {
    let pool = Pool::start(&[], 2);
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (file, copy) = (directory.join("large"), directory.join("copy"));
    let large = patterned((64 << 20) + 12_345);
    fs::write(&file, &large).unwrap();
    pool.done(&["put", "large", file.to_str().unwrap()]);
    pool.done(&["get", "large", "-o", copy.to_str().unwrap()]);
    assert!(fs::read(&copy).unwrap() == large);

    pool.put("small", b"a few bytes");
    assert_eq!(pool.done(&["get", "small"]), b"a few bytes");
    let error = pool.command_with_input(&["put", "small", "-"], b"others");
    assert_eq!(error.status.code(), Some(1));
    assert_eq!(pool.done(&["get", "small"]), b"a few bytes");
}

#[test]
fn replicas_stand_on_different_stores_and_survive_one() {
    let pool = Pool::start(&["--client-ttl", "2s"], 2);
    let output = pool.command_with_input(&["put", "key", "-", "--replicas", "2"], b"twice");
    assert!(output.status.success(), "{output:?}");
    let uses = pool.json(&["ls", "segments"]);
    let used: Vec<_> = uses.as_array().unwrap().iter().map(|one| &one["allocated_bytes"]).collect();
    assert!(used.iter().all(|bytes| bytes.as_u64().unwrap() > 0), "{uses}");
    pool.stores[0].signal(libc::SIGKILL);
    assert_eq!(pool.done(&["get", "key"]), b"twice");
}

#[test]
fn many_small_objects_travel_as_lines() {
    let pool = Pool::start(&[], 1);
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let [lines, keys, copy] = ["lines", "keys", "copy"].map(|name| directory.join(name));
    let numbers = 0..5_000;
    let text: String =
        numbers.clone().map(|n| format!("key/{n}\tvalue {n}\twith a tab\n")).collect();
    fs::write(&lines, &text).unwrap();
    fs::write(&keys, numbers.map(|n| format!("key/{n}\n")).collect::<String>()).unwrap();
    let put = pool.json(&["put", "--lines", lines.to_str().unwrap()]);
    assert_eq!((&put["put"], &put["refused"]), (&5_000.into(), &0.into()));
    let (keys, copy_path) = (keys.to_str().unwrap(), copy.to_str().unwrap());
    pool.done(&["get", "--lines", keys, "-o", copy_path]);
    assert!(fs::read_to_string(&copy).unwrap() == text);

    let missing = pool.command_with_input(&["get", "--lines", "-"], b"key/1\nnone\n");
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(missing.stdout, b"key/1\tvalue 1\twith a tab\n");
    let without_tab = pool.command_with_input(&["put", "--lines", "-"], b"key and no value\n");
    assert_eq!(without_tab.status.code(), Some(1));
}

#[test]
fn a_store_that_is_dead_costs_its_own_lines_and_each_is_named() {
    let pool = Pool::start(&[], 2);
    let (lines, keys): (String, String) =
        (0..60).map(|n| (format!("key/{n}\tvalue {n}\n"), format!("key/{n}\n"))).unzip();
    let put = pool.command_with_input(&["put", "--lines", "-"], lines.as_bytes());
    assert_eq!(put.status.code(), Some(0));
    pool.stores[0].signal(libc::SIGKILL);
    let got = pool.command_with_input(&["get", "--lines", "-"], keys.as_bytes());
    let (found, told) = (String::from_utf8(got.stdout), String::from_utf8(got.stderr).unwrap());
    let found: Vec<String> = found.unwrap().lines().map(str::to_owned).collect();
    assert!(!found.is_empty() && found.len() < 60, "{} lines, {told}", found.len());
    assert!(found.iter().all(|line| lines.contains(line.as_str())));
    for key in keys.lines() {
        let is_there = found.iter().any(|line| line.starts_with(&format!("{key}\t")));
        assert!(is_there || told.contains(&format!("{key}: ")), "{key}: {told}");
    }
    assert_eq!(got.status.code(), Some(1));
}

#[test]
fn a_key_of_no_length_is_refused_by_name() {
    let keys = ["", &"k".repeat(4097)];
    for command in [&["put", "KEY", "/dev/null"][..], &["get", "KEY"]] {
        for key in keys {
            let given: Vec<_> =
                command.iter().map(|word| if *word == "KEY" { key } else { word }).collect();
            let output = run(&given);
            assert_eq!(output.status.code(), Some(2));
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("KEY") && error.contains("1 to 4096 bytes"), "{error}");
        }
    }
}

/// As the port of a master that only clients of Mooncake can reach.
#[test]
fn a_master_that_does_not_answer_quic_is_told_with_what_is_likely() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let master = tcp.local_addr().unwrap().to_string();
    let pin = "0".repeat(64);
    let trust = ["--master", &master, "--pin-sha256", &pin, "--timeout", "1s"];
    for command in [&["stats"][..], &["ls", "segments"], &["get", "key"]] {
        let output = run(&[command, &trust].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        for word in [&format!("UDP {master}"), "--rpc-port", "Mooncake", "blocked"] {
            assert!(error.contains(word), "no {word}: {error}");
        }
    }
}

#[test]
fn a_command_says_what_it_waits_for_and_for_how_long() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let master = udp.local_addr().unwrap().to_string();
    let pin = "0".repeat(64);
    let stats = |timeout| {
        let trust = ["--master", &master, "--pin-sha256", &pin, "--timeout", timeout];
        let output = run(&[&["stats"][..], &trust].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = stats("1500ms");
    let first = told.lines().next().unwrap();
    for word in [&format!("UDP {master}"), "waiting for the master", "1 s more", "--timeout"] {
        assert!(first.contains(word), "no {word}: {told}");
    }
    assert!(!stats("800ms").contains("waiting for the master"));
}

#[test]
fn missing_keys_are_told_by_text_and_exit_code() {
    let pool = Pool::start(&[], 1);
    pool.put("there", b"value");
    assert_eq!(pool.done(&["exists", "there"]), b"there yes\n");
    assert_eq!(pool.refused(&["exists", "there", "none"]), "there yes\nnone no\n");
    assert!(pool.refused(&["get", "none"]).contains("not found"));
    assert!(pool.refused(&["rm", "none"]).contains("no such object"));
    // Each answer is a line, whatever is in the key.
    assert_eq!(pool.refused(&["exists", "a\nb"]), "a\\nb no\n");
    assert_eq!(pool.refused(&["rm", "a\nb"]).lines().count(), 1);
}

#[test]
fn leased_objects_are_removed_by_force_only() {
    let pool = Pool::start(&[], 1);
    for key in ["read", "unread", "other"] {
        pool.put(key, b"value");
    }
    pool.done(&["get", "read"]);
    assert!(pool.refused(&["rm", "read"]).contains("leased"));
    pool.done(&["rm", "unread"]);
    pool.done(&["rm", "read", "--force"]);
    assert_eq!(pool.refused(&["exists", "read", "unread"]), "read no\nunread no\n");
    pool.done(&["get", "other"]);
    let kept = pool.json(&["rm", "--all"]);
    assert_eq!((&kept["removed"], &kept["kept"]), (&0.into(), &1.into()));
    let removed = pool.json(&["rm", "--all", "--force"]);
    assert_eq!((&removed["removed"], &removed["kept"]), (&1.into(), &0.into()));
}

#[test]
fn lists_show_segments_clients_and_keys() {
    let mut pool = Pool::start(&[], 0);
    pool.add_store(&["--memory", "32MiB", "--segments", "2", "--name", "the store"]);
    pool.put("key/1", b"value");
    let segments = pool.json(&["ls", "segments"]);
    let segments = segments.as_array().unwrap();
    assert_eq!(segments.len(), 2);
    assert!(segments.iter().all(|one| one["size_bytes"] == 16 << 20 && one["state"] == "open"));
    let ready = pool.stores[0].ready();
    assert_eq!(ready["data"][0], segments[0]["endpoint"]);
    let ids = ready["segments"].as_array().unwrap();
    assert!(segments.iter().all(|one| ids.contains(&one["segment"])));
    let clients = pool.json(&["ls", "clients"]);
    let store = clients.as_array().unwrap().iter().find(|one| one["name"] == "the store").unwrap();
    assert_eq!((&store["segments"], &store["state"]), (&2.into(), &"active".into()));
    assert_eq!(pool.done(&["ls", "keys"]), b"key/1\t5\n");
    let table = String::from_utf8(pool.done(&["ls", "segments"])).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn what_a_peer_calls_itself_cannot_steer_a_terminal() {
    let mut pool = Pool::start(&[], 0);
    pool.add_store(&["--memory", "32MiB", "--name", "one\ntwo\u{1b}[2Jthree"]);
    let table = String::from_utf8(pool.done(&["ls", "clients"])).unwrap();
    assert!(table.contains(r"one\ntwo\u{1b}[2Jthree") && !table.contains('\u{1b}'), "{table}");
    let clients = pool.json(&["ls", "clients"]);
    let named = |one: &serde_json::Value| one["name"] == "one\ntwo\u{1b}[2Jthree";
    assert!(clients.as_array().unwrap().iter().any(named), "{clients}");
}

#[test]
fn the_totals_have_the_names_that_scripts_rely_on() {
    let pool = Pool::start(&["--shards", "2"], 1);
    pool.put("key", &[7; 1000]);
    let stats = pool.json(&["stats"]);
    assert_eq!(stats["objects"], 1);
    assert_eq!(stats["capacity_bytes"], 96 << 20);
    assert_eq!(stats["segments"], 1);
    assert!((1000..2000).contains(&stats["allocated_bytes"].as_u64().unwrap()), "{stats}");
    for name in ["held_bytes", "clients", "resident_bytes", "uptime_s"] {
        assert!(stats[name].is_number(), "{name}");
    }
    let shards = stats["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2);
    for name in ["objects", "allocated_bytes", "queue"] {
        assert!(shards.iter().all(|shard| shard[name].is_number()), "{name}");
    }
    assert!(String::from_utf8(pool.done(&["stats"])).unwrap().contains("capacity"));
}

#[test]
fn whom_to_trust_must_be_said() {
    let output = run(&["stats", "--master", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--tls-ca") && error.contains("--pin-sha256"), "{error}");
}

#[test]
fn what_cannot_be_the_address_of_a_master_is_refused_by_name() {
    for address in ["foo", ":1", "127.0.0.1:0", "127.0.0.1:99999"] {
        for command in [&["stats"][..], &["get", "key"], &["store"]] {
            let output = run(&[command, &["--dev", "--master", address]].concat());
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{address}: {error}");
            assert!(error.contains("--master") && error.contains("HOST:PORT"), "{error}");
        }
    }
}

#[test]
fn a_master_with_another_certificate_is_refused_at_once() {
    let pool = Pool::start(&[], 0);
    let (master, pin) = (pool.rpc().to_string(), "00".repeat(32));
    let started = Instant::now();
    let output = run(&["stats", "--master", &master, "--pin-sha256", &pin]);
    assert_eq!(output.status.code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(10));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("certificate") && error.lines().count() == 1, "told once: {error}");
}

#[test]
fn a_master_that_is_not_there_is_given_up_in_time() {
    let pin = "00".repeat(32);
    let started = Instant::now();
    let flags = ["--master", "127.0.0.1:1", "--pin-sha256", &pin, "--timeout", "1s"];
    let output = run(&[&["stats"][..], &flags].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_fill_without_memory_counts_what_it_put() {
    let pool = Pool::start(&[], 0);
    let sizes = ["--keys", "3000", "--batch", "256", "--value-bytes", "64KiB"];
    let segments = ["--segments", "2", "--segment-bytes", "1GiB", "--connections", "2"];
    let figures = pool.json(&[&["bench", "fill"][..], &sizes, &segments].concat());
    assert_eq!((&figures["keys"], &figures["refused"]), (&3_000.into(), &0.into()));
    assert_eq!(figures["objects"], 3_000);
    for name in ["elapsed_s", "keys_per_s", "resident_bytes", "bytes_per_object"] {
        assert!(figures[name].as_f64().unwrap() > 0.0, "{name}");
    }
    assert_eq!(pool.json(&["stats"])["segments"], 0);
}

#[test]
fn a_fill_that_the_protocol_does_not_allow_is_refused_by_name() {
    let pin = "00".repeat(32);
    for flags in [
        ["--value-bytes", "0"].as_slice(),
        &["--value-bytes", "2TiB"],
        &["--batch", "65536", "--key-bytes", "4096"],
    ] {
        let output = run(&[&["bench", "fill", "--pin-sha256", &pin][..], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(flags[0]), "{error}");
    }
}

#[test]
fn a_fill_of_which_all_is_refused_fails() {
    let pool = Pool::start(&[], 0);
    let sizes = ["--keys", "10", "--value-bytes", "1GiB", "--segment-bytes", "1MiB"];
    assert!(pool.refused(&[&["bench", "fill"][..], &sizes].concat()).contains("refused"));
}

#[test]
fn the_largest_batch_of_a_fill_that_is_allowed_fits_into_a_request() {
    let pool = Pool::start(&[], 0);
    let sizes = ["--keys", "8130", "--batch", "4060", "--key-bytes", "4096"];
    let segments = ["--value-bytes", "4KiB", "--segments", "1", "--segment-bytes", "1GiB"];
    let figures = pool.json(&[&["bench", "fill"][..], &sizes, &segments].concat());
    assert_eq!(figures["refused"], 0);
}

#[test]
fn a_fill_that_is_ended_leaves_nothing_mounted_and_two_do_not_meet() {
    let pool = Pool::start(&[], 0);
    let fill = ["bench", "fill", "--keys", "100", "--segments", "2", "--hold"];
    let flags: Vec<&str> =
        fill.into_iter().chain(pool.client_flags().iter().map(String::as_str)).collect();
    let mut fills: Vec<Child> =
        (0..2).map(|_| mooring(&flags).stdout(Stdio::null()).spawn().unwrap()).collect();
    let until = Instant::now() + PATIENCE;
    while pool.json(&["stats"])["objects"] != 100 || pool.json(&["stats"])["segments"] != 4 {
        assert!(Instant::now() < until, "{}", pool.json(&["stats"]));
    }
    for (fill, signal) in fills.iter_mut().zip([libc::SIGTERM, libc::SIGINT]) {
        let pid = libc::pid_t::try_from(fill.id()).unwrap();
        // SAFETY: `kill` touches no memory; the child was not waited for, so the id is its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        fill.wait().unwrap();
    }
    assert_eq!(pool.json(&["stats"])["segments"], 0);
}

#[test]
fn a_key_that_comes_twice_is_put_once_and_the_others_are_put() {
    let pool = Pool::start(&[], 1);
    let output =
        pool.command_with_input(&["put", "--lines", "-"], b"a\tfirst\nb\tother\na\tsecond\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(told.contains("put 2 objects, 1 refused") && told.contains("a: "), "{told}");
    assert_eq!(pool.done(&["get", "a"]), b"first");
    assert_eq!(pool.done(&["get", "b"]), b"other");
}

#[test]
fn a_line_whose_store_is_gone_is_named_and_the_next_ones_are_tried() {
    let pool = Pool::start(&["--client-ttl", "60s"], 1);
    pool.stores[0].signal(libc::SIGKILL);
    let output = pool.command_with_input(&["put", "--lines", "-"], b"a\t1\nb\t2\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(told.contains("a: ") && told.contains("b: "), "{told}");
    assert!(told.contains("put 0 objects, 2 refused"), "{told}");
}
