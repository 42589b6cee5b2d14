//! How a master leaves: in bounded time, whatever its peers do.

use std::time::{Duration, Instant};

use mooring_proto::close;
use mooring_proto::message::Kind;

use super::place::Place;
use crate::harness::Master;
use crate::peer::{Dial, Peer, header};
use crate::process::holding_up;

/// R40: no state is dropped, so the time to the exit does not depend on how much there is.
#[test]
fn without_a_handoff_a_master_is_gone_at_once() {
    let mut master = Master::start(&[]);
    let told = Instant::now();
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_millis(1_500), "{:?}", told.elapsed());
    let log = master.process.log();
    assert!(log.lines().last().unwrap().contains("\"shards_dropped\":0"), "{log}");
    assert!(log.contains("\"handoff_shutdown\":\"quiesced\""), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_gone_as_soon_as_its_peers_know() {
    let mut fastest_ms = u64::MAX;
    // A loaded machine may be slow at times, but not each time.
    for _ in 0..5 {
        let mut master = Master::start(&[]);
        let peers = [Peer::greeted(&master).await, Peer::greeted(&master).await];
        master.process.signal(libc::SIGTERM);
        for peer in &peers {
            assert_eq!(peer.closed().await.0, u64::from(close::RESTARTING));
        }
        assert_eq!(master.process.ended().code(), Some(0));
        let log = master.process.log();
        let left: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        fastest_ms = fastest_ms.min(left["duration_ms"].as_u64().unwrap());
        if fastest_ms < 50 {
            break;
        }
    }
    // It waits for 100 ms where a peer does not tell that it knows.
    assert!(fastest_ms < 100, "{fastest_ms} ms");
}

#[test]
fn a_peer_that_is_gone_without_a_word_does_not_keep_a_master() {
    let mut master = Master::start(&[]);
    let rpc = master.rpc();
    let dial = async move || {
        let peer = Peer::dial(rpc, Dial::default()).await.unwrap();
        peer.say_hello().await;
        peer
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Nothing of it may say goodbye.
        std::mem::forget(runtime.block_on(dial()));
        runtime.shutdown_background();
    })
    .join()
    .unwrap();
    let told = Instant::now();
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_millis(1_500), "{:?}", told.elapsed());
}

/// R41: neither a peer that never reads nor half a request keeps the snapshot from being left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_hangs_costs_neither_the_exit_nor_the_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let handoff = directory.path().to_str().unwrap();
    let mut master = Master::start(&["--handoff-dir", handoff]);
    let (deaf, _unread) = holding_up(&master).await;
    let slow = Peer::greeted(&master).await;
    let _half = slow.send_unfinished(&header(Kind::Stats as u16, 100)).await;
    let told = Instant::now();
    master.process.signal(libc::SIGTERM);
    for peer in [&deaf, &slow] {
        assert_eq!(peer.closed().await.0, u64::from(close::RESTARTING));
    }
    assert_eq!(master.process.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    assert!(directory.path().join("READY").exists());
}

/// R41: the whole is bounded by the deadline of the shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_deadline_is_kept_also_with_a_peer_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let handoff = directory.path().to_str().unwrap();
    let flags = ["--handoff-dir", handoff, "--shutdown-deadline-sec", "1s"];
    let mut master = Master::start(&flags);
    let _holding = holding_up(&master).await;
    let told = Instant::now();
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_millis(1_500), "{:?}", told.elapsed());
    assert!(directory.path().join("READY").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_process_without_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let handoff = directory.path().to_str().unwrap();
    let mut master = Master::start(&["--handoff-dir", handoff]);
    let _holding = holding_up(&master).await;
    let ready_file = master.process.ready_path();
    let log = master.process.log_path();
    master.process.signal(libc::SIGTERM);
    let exported = || std::fs::read_to_string(&log).unwrap().contains("\"exported\"");
    master.process.wait_until("the snapshot is written", exported);
    assert!(!ready_file.exists());
    assert!(master.page("/health").1.contains("draining"));
    let told = Instant::now();
    master.process.signal(libc::SIGTERM);
    assert_eq!(master.process.ended().code(), Some(1));
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert!(!directory.path().join("READY").exists());
    let master = Master::start(&["--handoff-dir", handoff]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"interrupted\"} 1\n"), "{page}");
}

/// The first that a master does when it leaves is to say so, long before it writes anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_killed_while_requests_are_answered_was_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let handoff = directory.path().to_str().unwrap();
    let mut master = Master::start(&["--handoff-dir", handoff]);
    let _holding = holding_up(&master).await;
    let ready_file = master.process.ready_path();
    master.process.signal(libc::SIGTERM);
    master.process.wait_until("it leaves", || !ready_file.exists());
    master.process.signal(libc::SIGKILL);
    master.process.ended();
    let master = Master::start(&["--handoff-dir", handoff]);
    let (_, page) = master.page("/metrics");
    assert!(page.contains("master_handoff_restore_result{result=\"interrupted\"} 1\n"), "{page}");
}

#[test]
fn a_start_that_waits_leaves_at_once_and_changes_nothing() {
    let place = Place::new();
    let first = place.master(&[]);
    let (mut second, _) = place.starting_elsewhere(&[]);
    let log = second.log_path();
    let waits = || std::fs::read_to_string(&log).unwrap().contains("waiting_for_lock");
    second.wait_until("it waits for the lock", waits);
    second.signal(libc::SIGTERM);
    assert_eq!(second.ended().code(), Some(0));
    assert!(second.log().contains("\"handoff_shutdown\":\"skipped_processing\""));
    place.leave(first);
    assert_eq!(place.inspect()["would"], "restore");
}
