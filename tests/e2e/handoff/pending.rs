//! Between the start of the next master and the return of the stores.

use std::sync::Arc;

use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, ClientError, PutOptions};

use super::Values;
use super::place::Place;
use crate::harness::free_port;
use crate::peer::in_time;
use crate::pool::patterned;

/// R46 (c): the same address, another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_restarts_at_the_same_address_has_lost_its_objects() {
    let mut place = Place::new();
    let master = place.master(&[]);
    place.add_store_at(free_port());
    let port = place.store_port();
    let client = place.client().await;
    let lost = Values::put(&client, 0..20).await;
    place.leave(master);
    place.end_stores();
    let master = place.master(&["--handoff-segment-deadline-sec", "1s"]);
    place.add_store_at(port);
    assert_eq!(place.store_port(), port);
    master.wait_for_metric("master_handoff_segments_dropped", 1.0);
    assert_eq!(master.metric("master_handoff_segments_confirmed"), 0.0);
    assert_eq!(lost.count_right(&client).await, 0);
    Values::put(&client, 20..30).await.check(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_never_comes_back_takes_only_its_own_objects_along() {
    let mut place = Place::new();
    let master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let lost = Values::put(&client, 0..20).await;
    place.end_stores();
    place.add_store();
    let kept = put_on_second_store(&place, &client).await;
    place.leave(master);
    let mut master = place.master(&["--handoff-segment-deadline-sec", "1s"]);
    master.wait_for_metric("master_handoff_segments_confirmed", 1.0);
    kept.check(&client).await;
    master.wait_for_metric("master_handoff_segments_dropped", 1.0);
    assert_eq!(master.metric("master_handoff_segments_pending"), 0.0);
    assert_eq!(lost.count_right(&client).await, 0);
    kept.check(&client).await;
    master.wait_for_metric("master_key_count", kept.0.len() as f64);
    let log = master.process.log_path();
    let settled = || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines().find(|line| line.contains("\"settled\"")).map(str::to_owned)
    };
    master.process.wait_until("it says that all is settled", || settled().is_some());
    let line: serde_json::Value = serde_json::from_str(&settled().unwrap()).unwrap();
    let figures = ["segments_confirmed", "segments_dropped"].map(|name| line[name].as_u64());
    assert_eq!((figures, &line["level"]), ([Some(1), Some(1)], &"WARN".into()), "{line}");
}

/// The objects of a store that drains stay readable over the roll; nothing new comes to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_goes_on_with_the_next_master() {
    let mut place = Place::new();
    let mut master = place.master(&[]);
    place.add_store_with(&["--data-port", "0", "--grace", "1h"]);
    let client = place.client().await;
    let values = Values::put(&client, 0..10).await;
    place.signal_stores(libc::SIGTERM);
    let drains = || place.json(&["ls", "segments"])[0]["state"] == "draining";
    master.process.wait_until("its store drains", drains);
    place.leave(master);
    let master = place.master(&[]);
    super::wait_until_confirmed(&master, 1);
    assert_eq!(place.json(&["ls", "segments"])[0]["state"], "draining");
    values.check(&client).await;
    assert_eq!(master.metric("master_handoff_segments_dropped"), 0.0);
}

/// Puts objects on the one store that lives.
async fn put_on_second_store(place: &Place, client: &Client) -> Values {
    let preferred = place.store_segments();
    let options = PutOptions { preferred_segments: preferred, ..PutOptions::default() };
    let mut values = Vec::new();
    for number in 100..110 {
        let (key, value) = (format!("key-{number}"), patterned(number * 100));
        client.put(&key, value.clone(), &options).await.unwrap();
        values.push((key, value));
    }
    Values(values)
}

/// R46: what was put or removed while its old entry was pending stays so when the store comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_or_a_remove_of_a_pending_key_outlives_the_return_of_its_store() {
    let mut place = Place::new();
    let master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let mut values = Values::put(&client, 0..10).await;
    place.signal_stores(libc::SIGSTOP);
    place.leave(master);
    let master = place.master(&["--shards", "2"]);
    place.add_store();
    assert_eq!(master.metric("master_handoff_segments_pending"), 1.0);
    assert_eq!(master.page("/ready"), (200, r#"{"ready":true,"segments_pending":1}"#.to_owned()));
    assert!(!master.process.log().contains("\"settled\""));
    let missing = place.refused(&["get", "key-3"]);
    assert!(missing.contains("key-3: not found; 1 segment is pending"), "{missing}");
    let options = PutOptions::default();
    client.put("key-1", b"another".to_vec(), &options).await.unwrap();
    let removed = client.remove(&["key-2"], false).await.unwrap();
    assert_eq!(removed[0].as_ref().unwrap_err().code, ErrorCode::NotFound);
    place.signal_stores(libc::SIGCONT);
    super::wait_until_confirmed(&master, 1);
    // The page looks at most once a second.
    master.wait_for_page("/ready", r#"{"ready":true}"#);
    assert_eq!(client.fetch("key-1").await.unwrap().unwrap(), b"another"[..]);
    let missing = place.refused(&["get", "key-2"]);
    assert!(!missing.contains("pending"), "{missing}");
    assert_eq!(client.fetch("key-2").await.unwrap(), None);
    values.0.retain(|(key, _)| key != "key-1" && key != "key-2");
    values.check(&client).await;
}

/// Full, not back yet, or begun with the master before.
fn may_meet_a_restart(error: &ClientError) -> bool {
    let expected = [ErrorCode::NoSpace, ErrorCode::NoSegment, ErrorCode::StaleToken];
    error.code().is_some_and(|code| expected.contains(&code))
}

/// Puts that wait for space when the master is told to leave are answered, and go on with the next
/// one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_into_a_full_pool_go_on_with_the_next_master() {
    let mut place = Place::new();
    let master = place.master(&["--default-kv-lease-ttl", "50ms"]);
    place.add_store();
    let client = Arc::new(place.client().await);
    let value = Arc::new(patterned(3 << 20));
    let putting: Vec<_> = (0..8)
        .map(|task| {
            let (client, value) = (client.clone(), value.clone());
            tokio::spawn(async move {
                for number in 0..12 {
                    let key = format!("{task}-{number}");
                    match client.put(&key, value.to_vec(), &PutOptions::default()).await {
                        Ok(()) => {}
                        Err(error) => assert!(may_meet_a_restart(&error), "{error}"),
                    }
                }
            })
        })
        .collect();
    master.wait_for_metric_above("master_evicted_key_count", 4.0);
    place.leave(master);
    let master = place.master(&["--default-kv-lease-ttl", "50ms"]);
    for task in putting {
        in_time(task).await.unwrap();
    }
    assert_eq!(master.metric("mooring_clients_offline_total"), 0.0);
    let mut found = 0;
    for (task, number) in (0..8).flat_map(|task| (0..12).map(move |number| (task, number))) {
        if let Some(bytes) = client.fetch(&format!("{task}-{number}")).await.unwrap() {
            assert!(bytes == value[..], "{task}-{number}");
            found += 1;
        }
    }
    assert!(found > 0);
}
