//! The admin pages that Mooncake's master has, with its shapes.

use std::collections::BTreeSet;

use mooring_proto::SegmentId;
use mooring_proto::message::object::{
    PutEndRequest, PutItem, PutOptions, PutStartItem, PutStartRequest,
};
use mooring_proto::message::segment::{MountRequest, Segment};
use serde_bytes::Bytes;
use serde_json::{Value, json};

use crate::harness::{Master, http};
use crate::peer::Peer;

const SEGMENT_BYTES: u64 = 64 << 20;

/// Mounts memory that nobody has.
async fn mounted(master: &Master) -> Peer {
    let peer = Peer::greeted(master).await;
    let segment = Segment {
        segment: SegmentId((7 << 64) | 9),
        base: 1 << 30,
        size_bytes: SEGMENT_BYTES,
        endpoint: "nowhere:1".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    };
    peer.ask(&MountRequest { segment, mounted_with: None }).await.unwrap();
    peer
}

async fn put(peer: &Peer, keys: &[Vec<u8>]) {
    let items =
        keys.iter().map(|key| PutStartItem { key: Bytes::new(key), size_bytes: 1000, put_id: 1 });
    let start = PutStartRequest { options: PutOptions::default(), items: items.collect() };
    let granted = peer.ask(&start).await.unwrap();
    let items = keys.iter().zip(&granted.items).map(|(key, grant)| PutItem {
        key: Bytes::new(key),
        sequence: grant.as_ref().unwrap().sequence,
    });
    let end = PutEndRequest { incarnation: granted.incarnation, items: items.collect() };
    assert!(peer.ask(&end).await.unwrap().items.iter().all(Result::is_ok));
}

fn asked(master: &Master, method: &str, path: &str, body: &str) -> (u16, String) {
    let (status, body) = http(master.metrics(), method, path, body.as_bytes());
    (status, String::from_utf8(body).unwrap())
}

fn json_of(answer: &(u16, String)) -> Value {
    serde_json::from_str(&answer.1).unwrap_or_else(|error| panic!("{error}: {}", answer.1))
}

fn problem(code: i32, name: &str) -> Value {
    json!({ "success": false, "error_code": code, "error_message": name })
}

#[test]
fn a_master_that_is_alone_leads() {
    let master = Master::start(&[]);
    assert_eq!(master.page("/role"), (200, "leader".to_owned()));
    assert_eq!(master.page("/ha_status"), (200, "serving".to_owned()));
    let leader = "{\"present\":false,\"leader_address\":null,\"view_version\":null}";
    assert_eq!(master.page("/leader"), (200, leader.to_owned()));
    let health = json_of(&master.page("/health"));
    let known = json!({ "status": "ok", "role": "leader", "ha_state": "serving",
        "service_ready": true, "leader_address": null, "view_version": null,
        "state": "serving", "reason": null });
    assert_eq!(health, known);
    let events = "{\"enabled\":false,\"published_batches\":0,\"published_events\":0,\
                  \"dropped_events\":0,\"skipped_unparsed_keys\":0}";
    assert_eq!(master.page("/kv_events/status"), (200, events.to_owned()));
    let (status, summary) = master.page("/metrics/summary");
    let start = "role=leader, state=serving, service_ready=true, master={Mem Storage: 0 B / 0 B | \
                 Keys: 0 | Clients: 0 | Requests";
    assert!(status == 200 && summary.starts_with(start), "{summary}");
    for (method, path) in [("GET", "/nothing"), ("POST", "/get_all_keys"), ("PUT", "/role")] {
        assert_eq!(asked(&master, method, path, ""), (404, "404 Not Found".to_owned()));
    }
}

#[tokio::test]
async fn segments_are_known_by_their_names() {
    let master = Master::start(&[]);
    assert_eq!(master.page("/get_all_segments"), (200, String::new()));
    let empty = "{\"total_segments\":0,\"segments\":[]}";
    assert_eq!(master.page("/get_segments_detail"), (200, empty.to_owned()));
    let unknown = (500, "Failed to query segment".to_owned());
    assert_eq!(master.page("/query_segment?segment=nowhere:1"), unknown);

    let peer = mounted(&master).await;
    put(&peer, &[b"a".to_vec()]).await;
    assert_eq!(master.page("/get_all_segments"), (200, "nowhere:1\n".to_owned()));
    let (status, text) = master.page("/query_segment?segment=nowhere%3A1");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((status, lines[0], lines[2]), (200, "nowhere:1", "Capacity(bytes) : 67108864"));
    let used: u64 = lines[1].strip_prefix("Used(bytes): ").unwrap().parse().unwrap();
    assert!((1000..2000).contains(&used), "{used}");

    let detail = json_of(&master.page("/get_segments_detail"));
    let segment = &detail["segments"][0];
    assert_eq!(detail["total_segments"], 1);
    for (field, value) in [
        ("segment_name", json!("nowhere:1")),
        ("segment_id", json!("7-9")),
        ("base_address", json!("0x40000000")),
        ("size_bytes", json!(SEGMENT_BYTES)),
        ("size_human", json!("0.0625 GiB")),
        ("te_endpoint", json!("nowhere:1")),
        ("protocol", json!("quic")),
        ("status", json!("OK")),
        ("allocator_used_bytes", json!(used)),
        ("allocator_capacity_bytes", json!(SEGMENT_BYTES)),
    ] {
        assert_eq!(segment[field], value, "{field}");
    }
    let status = "{\"success\":true,\"segment\":\"nowhere:1\",\"status\":1,\"status_name\":\"OK\",\
                  \"error_code\":0,\"error_message\":\"\"}";
    let path = "/api/v1/segments/status";
    assert_eq!(master.page(&format!("{path}?segment=nowhere:1")), (200, status.to_owned()));
    let answer = master.page(path);
    assert_eq!(
        (answer.0, json_of(&answer)),
        (400, problem(-600, "Missing segment query parameter"))
    );
    let answer = master.page(&format!("{path}?segment=x"));
    assert_eq!((answer.0, json_of(&answer)), (404, problem(-101, "SEGMENT_NOT_FOUND")));
}

#[tokio::test]
async fn all_keys_come_in_pages_as_their_bytes_are() {
    let master = Master::start(&["--shards", "3"]);
    assert_eq!(master.page("/get_all_keys"), (200, String::new()));
    let peer = mounted(&master).await;
    // More than two pages of a shard, so that they are streamed.
    let mut keys: Vec<_> = (0..50_000).map(|number| format!("key-{number}").into_bytes()).collect();
    keys.push(b"no \xff text".to_vec());
    keys.push(b"two\nlines".to_vec());
    for part in keys.chunks(20_000) {
        put(&peer, part).await;
    }
    let (status, body) = http(master.metrics(), "GET", "/get_all_keys", b"");
    let listed: BTreeSet<_> =
        body.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n').collect();
    let mut expected: BTreeSet<_> = keys.iter().map(Vec::as_slice).collect();
    // A line is a key.
    assert!(expected.remove(&b"two\nlines"[..]) && expected.insert(b"two\\nlines"));
    assert_eq!((status, listed), (200, expected));

    // Nobody has leased them, a list least of all.
    let removed = format!("{{\"success\":true,\"removed_count\":{}}}", keys.len());
    assert_eq!(asked(&master, "POST", "/api/v1/remove_all?tenant_id=x", ""), (200, removed));
    assert_eq!(master.page("/get_all_keys"), (200, String::new()));
}

#[tokio::test]
async fn jobs_and_quotas_are_answered_as_switched_off() {
    let master = Master::start(&[]);
    let _peer = mounted(&master).await;
    let (jobs, find) = ("/api/v1/drain_jobs", "/api/v1/drain_jobs/query");
    let quotas = "/api/v1/tenant_quotas";
    let (job, tenant) = (
        format!("{find}?job_id=00000000-0000-0000-0000-000000000001"),
        format!("{quotas}?tenant_id=x"),
    );
    let off = || problem(-1011, "UNAVAILABLE_IN_CURRENT_MODE");
    let no_job = || problem(-600, "Missing or invalid job_id");
    let no_tenant = || problem(-600, "Missing or invalid tenant_id");
    for (method, path, body, status, expected) in [
        ("POST", jobs, "{\"segments\":[\"nowhere:1\"],\"target_segments\":[]}", 409, off()),
        ("POST", jobs, "{\"segments\":[\"x\"]}", 404, problem(-101, "SEGMENT_NOT_FOUND")),
        ("POST", jobs, "{\"segments\":[]}", 400, problem(-600, "INVALID_PARAMS")),
        ("GET", find, "", 400, no_job()),
        ("GET", &job, "", 404, problem(-1402, "JOB_NOT_FOUND")),
        ("POST", "/api/v1/drain_jobs/cancel", "", 400, no_job()),
        ("GET", quotas, "", 409, off()),
        ("GET", &tenant, "", 409, off()),
        ("PUT", &tenant, "{\"requested_quota_bytes\":100}", 409, off()),
        ("PUT", quotas, "{\"requested_quota_bytes\":100}", 400, no_tenant()),
        ("DELETE", &tenant, "", 409, off()),
        ("DELETE", quotas, "", 400, no_tenant()),
    ] {
        let answer = asked(&master, method, path, body);
        assert_eq!((answer.0, json_of(&answer)), (status, expected), "{method} {path}");
    }
    for (method, path) in [("POST", jobs), ("PUT", tenant.as_str())] {
        let answer = asked(&master, method, path, "{bad");
        let text = json_of(&answer)["error_message"].as_str().unwrap().to_owned();
        assert!(answer.0 == 400 && text.starts_with("Invalid JSON body"), "{text}");
    }
}

#[test]
fn a_query_without_keys_is_refused() {
    let master = Master::start(&[]);
    let no_keys = "{\"success\":false,\"error\":\"No keys provided. Use ?keys=key1,key2,...\"}";
    for path in ["/batch_query_keys", "/batch_query_keys?keys="] {
        assert_eq!(master.page(path), (400, no_keys.to_owned()));
    }
    assert_eq!(master.page("/batch_query_keys?keys=%ff").0, 400);
    assert_eq!(json_of(&master.page("/query_key")), problem(-704, "OBJECT_NOT_FOUND"));
}

#[tokio::test]
async fn objects_are_located_without_a_lease() {
    let master = Master::start(&["--shards", "3"]);
    let peer = mounted(&master).await;
    put(&peer, &[b"a".to_vec(), b"k%41".to_vec(), b"b c".to_vec()]).await;
    let values_of = |answer: &(u16, String), pointer: &str| {
        let values = json_of(answer).pointer(pointer).unwrap_or(&Value::Null).clone();
        assert_eq!(
            (values[0]["size_"].clone(), values.as_array().unwrap().len()),
            (1000.into(), 1)
        );
        assert_eq!(values[0]["transport_endpoint_"], "nowhere:1");
        let address = values[0]["buffer_address_"].as_u64().unwrap();
        assert!((1 << 30..(1 << 30) + SEGMENT_BYTES).contains(&address), "{address}");
    };
    // One key stands as it is, many are decoded.
    for key in ["a", "k%41"] {
        values_of(&master.page(&format!("/query_key?key={key}")), "/data");
    }
    for key in ["none", "kA", "b%20c"] {
        let answer = master.page(&format!("/query_key?key={key}"));
        assert_eq!((answer.0, json_of(&answer)), (404, problem(-704, "OBJECT_NOT_FOUND")), "{key}");
    }
    let answer = master.page("/batch_query_keys?keys=a,k%2541,b%20c,none,,a");
    let data = json_of(&answer)["data"].clone();
    for key in ["a", "k%41", "b c"] {
        assert_eq!((&data[key]["ok"], &data[key]["error"]), (&json!(true), &Value::Null), "{key}");
        values_of(&answer, &format!("/data/{key}/values"));
    }
    for key in ["none", ""] {
        let item = json!({ "ok": false, "error": "OBJECT_NOT_FOUND", "values": null,
            "disk_values": null, "local_disk_values": null, "nof_values": null });
        assert_eq!(data[key], item, "{key}");
    }
    assert_eq!((data.as_object().unwrap().len(), master.metric("total_get_nums_")), (5, 0.0));
    let removed = "{\"success\":true,\"removed_count\":3}".to_owned();
    assert_eq!(asked(&master, "POST", "/api/v1/remove_all", ""), (200, removed));
}
