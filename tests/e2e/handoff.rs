//! Planned restarts: what the next master keeps, and how the one before leaves.

mod disk;
mod exhausted;
mod failures;
mod kills;
mod leaving;
mod owners;
mod pending;
mod place;
mod suspended;

use std::time::{Duration, Instant};

use mooring_proto::ErrorCode;
use mooring_proto::client::{Client, PutOptions};
use mooring_proto::message::session::PingRequest;

use self::place::Place;
use crate::exposition;
use crate::harness::Master;
use crate::pool::patterned;

/// R44, and the whole way: stores that stay, a master that goes, another one that comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_restart_keeps_every_object() {
    let mut place = Place::new();
    let master = place.master(&["--shards", "2", "--default-kv-lease-ttl", "50ms"]);
    place.add_store();
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..60).await;
    // Leases have ended long before the handoff.
    master.wait_for_metric("mooring_leased_bytes", 0.0);
    place.leave(master);

    let master = place.master(&["--shards", "2"]);
    assert_eq!(master.metric("master_handoff_restore_objects"), 60.0);
    let laid = master.metric("mooring_restore_ranges");
    assert!(laid >= 60.0 && laid == master.metric("mooring_restore_ranges_expected"), "{laid}");
    assert_eq!(master.metric("master_handoff_last_snapshot_objects"), 60.0);
    assert_eq!(master.metric("master_handoff_last_snapshot_workers"), 2.0);
    let (_, page) = master.page("/metrics");
    exposition::read(&page);
    for name in ["last_snapshot", "restore"] {
        assert!(page.contains(&format!("master_handoff_{name}_result{{result=\"ok\"}} 1\n")));
    }
    wait_until_confirmed(&master, 2);
    values.check(&client).await;
    assert_eq!(master.metric("mooring_clients_offline_total"), 0.0);
    assert!(!master.process.log().contains("client_expired"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_master_may_have_another_number_of_shards() {
    let mut place = Place::new();
    let mut master = place.master(&["--shards", "2"]);
    place.add_store();
    let client = place.client().await;
    let mut values = Values::put(&client, 0..30).await;
    for (round, shards) in ["5", "1", "3", "3"].into_iter().enumerate() {
        place.leave(master);
        master = place.master(&["--shards", shards]);
        wait_until_confirmed(&master, 1);
        values.check(&client).await;
        // Objects come and go between the rolls, also such as lie with another shard.
        values.remove(&client, 5).await;
        let first = 100 * (round as u64 + 1);
        values.extend(Values::put(&client, first..first + 10).await);
        values.check(&client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overlapping_roll_waits_for_the_master_that_still_serves() {
    let mut place = Place::new();
    let first = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let _values = Values::put(&client, 0..10).await;
    let (mut second, admin) = place.starting_elsewhere(&[]);
    let log = second.log_path();
    let waits = || std::fs::read_to_string(&log).unwrap().contains("waiting_for_lock");
    second.wait_until("it waits for the lock", waits);
    let (status, body) = crate::harness::page_at(admin, "/health");
    assert_eq!((status, body.contains("\"waiting\"")), (200, true), "{body}");
    let (status, body) = crate::harness::page_at(admin, "/ready");
    assert!(status == 503 && body.contains("waits for the handoff directory"), "{body}");
    let (_, page) = crate::harness::page_at(admin, "/metrics");
    exposition::read(&page);

    place.leave(first);
    let ready = second.ready_path();
    second.wait_until("it serves", || ready.exists());
    let second = Master::of(second);
    assert_eq!(second.metric("master_handoff_restore_objects"), 10.0);
    assert_eq!(second.metric("master_handoff_segments_pending"), 1.0);
    assert_eq!(second.page("/ready").0, 200);
}

/// A master that leaves while segments are pending hands them over as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_missed_two_restarts_still_has_its_objects() {
    let mut place = Place::new();
    let mut master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..20).await;
    place.signal_stores(libc::SIGSTOP);
    for flags in [["--shards", "1"], ["--shards", "2"]] {
        place.leave(master);
        master = place.master(&flags);
        assert_eq!(master.metric("master_handoff_segments_pending"), 1.0);
        assert_eq!(client.fetch("key-1").await.unwrap(), None);
    }
    place.signal_stores(libc::SIGCONT);
    wait_until_confirmed(&master, 1);
    values.check(&client).await;
}

/// R46 (c): another store at the same place proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_restarts_in_the_gap_has_lost_its_objects() {
    let mut place = Place::new();
    let master = place.master(&[]);
    place.add_store();
    let client = place.client().await;
    let lost = Values::put(&client, 0..20).await;
    place.leave(master);
    place.end_stores();
    let master = place.master(&["--handoff-segment-deadline-sec", "1s"]);
    place.add_store();
    let put = Values::put(&client, 20..30).await;
    master.wait_for_metric("master_handoff_segments_dropped", 1.0);
    assert_eq!(master.metric("master_handoff_segments_confirmed"), 0.0);
    for (key, _) in &lost.0 {
        assert_eq!(client.fetch(key).await.unwrap(), None);
    }
    put.check(&client).await;
    master.wait_for_metric("master_key_count", 10.0);
}

/// R57: clients come back within a second after the next master serves, whether the one before said
/// goodbye or was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_back_within_a_second() {
    let place = Place::new();
    let mut master = place.master(&[]);
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(place.client().await);
    }
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let known = clients[0].master().await.unwrap().incarnation;
        master.process.signal(signal);
        master.process.ended();
        master = place.master(&[]);
        let served = Instant::now();
        let mut slowest = Duration::ZERO;
        for client in &clients {
            while client.call(&PingRequest::default()).await.is_err()
                || client.master().await.unwrap().incarnation == known
            {
                assert!(served.elapsed() < crate::harness::PATIENCE);
            }
            slowest = slowest.max(served.elapsed());
        }
        // A killed master is missed with the next keep-alive, which comes each second.
        let unnoticed =
            if signal == libc::SIGKILL { Duration::from_secs(1) } else { Duration::ZERO };
        assert!(slowest < Duration::from_secs(1) + unnoticed, "signal {signal}: {slowest:?}");
    }
}

/// R57: with another key for resets a killed master is missed by its silence alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_key_of_the_former_master_silence_tells_in_half_a_ttl() {
    let place = Place::new();
    let keys = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let keys = keys.each_ref().map(|key| key.path().to_str().unwrap());
    let mut master = place.master(&["--state-dir", keys[0]]);
    let client = place.client().await;
    let known = client.master().await.unwrap();
    master.process.signal(libc::SIGKILL);
    let killed = Instant::now();
    master.process.ended();
    let _master = place.master(&["--state-dir", keys[1]]);
    while client.master().await.is_ok_and(|now| now.incarnation == known.incarnation) {
        assert!(killed.elapsed() < Duration::from_millis(known.client_ttl_ms / 2));
        // Ends early when the connection does.
        let _ = client.call(&PingRequest::default()).await;
    }
}

/// The key of resets is a comfort, and the snapshot is claimed before it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_resets_that_is_of_no_use_costs_no_snapshot() {
    for spoil in [b"".as_slice(), b"short"] {
        let mut place = Place::new();
        let state = tempfile::tempdir().unwrap();
        let flags = ["--state-dir", state.path().to_str().unwrap()];
        let master = place.master(&flags);
        place.add_store();
        let client = place.client().await;
        let values = Values::put(&client, 0..10).await;
        place.leave(master);
        std::fs::write(state.path().join("quic-reset-key"), spoil).unwrap();
        let master = place.master(&flags);
        wait_until_confirmed(&master, 1);
        values.check(&client).await;
        let log = master.process.log();
        assert!(log.contains("quic-reset-key") && log.contains("WARN"), "{log}");
    }
}

/// Objects with what must come back.
struct Values(Vec<(String, Vec<u8>)>);

impl Values {
    /// Puts objects of many sizes.
    async fn put(client: &Client, numbers: std::ops::Range<u64>) -> Values {
        let mut values = Vec::new();
        for number in numbers {
            let (key, length) = (format!("key-{number}"), 1 + number as usize * 977);
            let mut value = patterned(length);
            value[0] = number as u8;
            put_when_possible(client, &key, value.clone()).await;
            values.push((key, value));
        }
        Values(values)
    }

    async fn check(&self, client: &Client) {
        for (key, value) in &self.0 {
            let found = client.fetch(key).await.unwrap();
            assert!(found.is_some_and(|found| found == value[..]), "{key}");
        }
    }

    /// Every object is what it was or is missing; gives how many are there.
    async fn count_right(&self, client: &Client) -> usize {
        let mut count = 0;
        for (key, value) in &self.0 {
            let Some(found) = client.fetch(key).await.unwrap() else { continue };
            assert!(found == value[..], "{key}");
            count += 1;
        }
        count
    }

    async fn remove(&mut self, client: &Client, count: usize) {
        for (key, _) in self.0.drain(..count) {
            assert!(client.remove(&[&key], true).await.unwrap()[0].is_ok());
            assert_eq!(client.fetch(&key).await.unwrap(), None);
        }
    }

    fn extend(&mut self, more: Values) {
        self.0.extend(more.0);
    }
}

/// Puts an object; waits for a store to come back, and for memory of a former master to be placed on.
async fn put_when_possible(client: &Client, key: &str, value: Vec<u8>) {
    let until = Instant::now() + crate::harness::PATIENCE;
    loop {
        match client.put(key, value.clone(), &PutOptions::default()).await {
            Ok(()) => return,
            Err(error) if error.code() == Some(ErrorCode::NoSegment) && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{key}: {error}"),
        }
    }
}

fn wait_until_confirmed(master: &Master, segments: u32) {
    master.wait_for_metric("master_handoff_segments_confirmed", f64::from(segments));
    assert_eq!(master.metric("master_handoff_segments_dropped"), 0.0);
    assert_eq!(master.metric("master_handoff_segments_pending"), 0.0);
}
