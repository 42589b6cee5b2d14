//! What the metrics page tells of calls.

use std::time::{Duration, Instant};

use mooring_proto::message::object::ExistRequest;
use mooring_proto::mooncake::{
    BatchExistKey, BatchPutStart, BatchQueryIp, BatchRemove, BatchReplicaClear, ClientStatus,
    ErrorCode, Expected, Function, GetReplicaList, Ping, PutStart, RequestHeader, Str, UpsertStart,
    Uuid,
};

use super::client::{Client, STORE, TENANT, WRITER, config, master};
use crate::harness::{Master, PATIENCE};
use crate::peer::Peer;

fn start(key: &'static str) -> PutStart<'static> {
    PutStart {
        client: WRITER,
        key: key.into(),
        slice_length: 1000,
        config: config(),
        tenant: TENANT,
    }
}

fn figures<const N: usize>(master: &Master, names: [&str; N]) -> [f64; N] {
    names.map(|name| master.metric(&format!("master_{name}_total")))
}

#[tokio::test]
async fn calls_to_both_front_ends_count_in_one_set_of_figures() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 << 20);
    client.call(&start("a"), |answer| assert!(answer.is_ok()));
    client.call(&start("a"), |answer| {
        assert_eq!(answer.unwrap_err(), ErrorCode::OBJECT_ALREADY_EXISTS);
    });
    let PutStart { client: writer, slice_length, .. } = start("b");
    let upsert = UpsertStart {
        client: writer,
        key: "b".into(),
        slice_length,
        config: config(),
        tenant: TENANT,
    };
    client.call(&upsert, |answer| assert!(answer.is_ok()));
    let batch = BatchPutStart {
        client: WRITER,
        keys: ["a", "c", "d"].map(Str::from).to_vec(),
        slice_lengths: vec![1000; 3],
        config: config(),
        tenant: TENANT,
    };
    client.call(&batch, |answers| assert_eq!(answers.iter().filter(|it| it.is_ok()).count(), 2));
    let keys = vec![Str::from("nothing"); 5];
    client.call(&BatchExistKey { keys, tenant: TENANT }, |answers| assert_eq!(answers.len(), 5));
    let get = GetReplicaList { key: "nothing".into(), tenant: TENANT };
    client.call(&get, |answer| assert_eq!(answer.unwrap_err(), ErrorCode::OBJECT_NOT_FOUND));
    let clear = BatchReplicaClear {
        keys: vec!["a".into(), "nothing".into()],
        client: WRITER,
        segment_name: Str::default(),
    };
    client.call(&clear, |answer| assert!(answer.unwrap().is_empty()));
    client.call(&Ping { client: STORE }, |answer| assert!(answer.is_ok()));
    let keys = vec!["nothing".into(), "neither".into()];
    client.call(&BatchRemove { keys, force: false, tenant: TENANT }, |answers| {
        assert!(answers.iter().all(Result::is_err));
    });
    let query = BatchQueryIp { clients: vec![STORE, WRITER] };
    client.call(&query, |answer| assert_eq!(answer.unwrap().0.len(), 1));

    let single = figures(
        &master,
        ["put_start_requests", "put_start_failures", "get_replica_list_failures", "ping_requests"],
    );
    assert_eq!(single, [3.0, 1.0, 1.0, 1.0]);
    let removals = figures(&master, ["remove_requests", "remove_failures"]);
    assert_eq!(removals, [2.0, 2.0], "a batch of them counts key by key");
    let batches = figures(
        &master,
        [
            "batch_put_start_requests",
            "batch_put_start_failures",
            "batch_put_start_partial_successes",
            "batch_put_start_items",
            "batch_put_start_failed_items",
            "batch_exist_key_items",
            "batch_exist_key_failed_items",
            "batch_replica_clear_failures",
            "batch_query_ip_partial_successes",
        ],
    );
    assert_eq!(
        batches,
        [1.0, 0.0, 1.0, 3.0, 1.0, 5.0, 0.0, 1.0, 1.0],
        "what is missing is no failure"
    );

    let peer = Peer::greeted(&master).await;
    let keys = ["a", "b"].map(|key| serde_bytes::Bytes::new(key.as_bytes())).to_vec();
    peer.ask(&ExistRequest { lease: false, keys }).await.unwrap();
    let both = figures(
        &master,
        ["exist_key_requests", "batch_exist_key_requests", "batch_exist_key_items"],
    );
    assert_eq!(both, [1.0, 2.0, 7.0]);
    let (_, summary) = master.page("/metrics/summary");
    let batch = summary.split("Batch Requests").nth(1).expect("batches are told, too");
    assert!(batch.contains("PutStart:(Req=0.00/") && !batch.contains("Item=0.00/0.00), PutEnd"));
}

/// Waits until a metric has this value.
fn wait_for(master: &Master, name: &str, value: f64) {
    let until = Instant::now() + PATIENCE;
    while master.metric(name) != value {
        assert!(Instant::now() < until, "{name} is {}", master.metric(name));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_connections_keep_is_told_and_given_back() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let header = RequestHeader {
        seq: 1,
        function_id: Function::Ping.id(),
        body_bytes: 1 << 20,
        attachment_bytes: 0,
    };
    client.write(&header.encode());
    client.write(&[0; 200_000]);
    wait_for(&master, "mooring_mooncake_kept_bytes", 200_020.0);
    assert_eq!(master.metric("mooring_mooncake_connections"), 1.0);
    assert!(master.metric("mooring_mooncake_kept_bytes_max") > 1e8);
    drop(client);
    wait_for(&master, "mooring_mooncake_kept_bytes", 0.0);
    wait_for(&master, "mooring_mooncake_connections", 0.0);
}

#[test]
fn a_client_that_has_mounted_nothing_does_not_count() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    for second in 0..5 {
        let ping = Ping { client: Uuid { first: 99, second } };
        let status = client.call(&ping, Expected::unwrap).client_status;
        assert_eq!(status, ClientStatus::NEED_REMOUNT);
    }
    assert_eq!(master.metric("master_active_clients"), 0.0);
    client.remount(&[]).unwrap();
    assert_eq!(client.ping().client_status, ClientStatus::OK);
    assert_eq!(
        master.metric("master_active_clients"),
        1.0,
        "one without memory counts from then on"
    );
}
