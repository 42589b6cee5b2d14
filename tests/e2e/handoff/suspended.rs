//! A master that is stopped, as a debugger or a frozen machine does it, and goes on as if nothing had
//! been. Time has passed for everybody meanwhile: leases are over by its clock as by those of its
//! clients, and nobody is taken for dead who could not be heard.

use std::fs;
use std::time::Duration;

use mooring_proto::ErrorCode;
use mooring_proto::message::object::PutItem;
use serde_bytes::Bytes;

use super::place::Place;
use super::{Values, put_when_possible};
use crate::harness::Master;
use crate::pool::patterned;

const FLAGS: [&str; 4] = ["--client-ttl", "2s", "--default-kv-lease-ttl", "200ms"];

/// Above twice the TTL and every lease, and below half of what clients wait for an answer.
const STOPPED: Duration = Duration::from_millis(4_500);

/// Stops a master. It goes on until the thread that takes the signal has its turn.
fn stop(master: &mut Master) {
    master.process.signal(libc::SIGSTOP);
    let tasks = format!("/proc/{}/task", master.process.id());
    let is_stopped = |task: std::io::Result<fs::DirEntry>| {
        let stat = task.and_then(|task| fs::read_to_string(task.path().join("stat")));
        // The name of a thread stands in brackets, before its state.
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    };
    master.process.wait_until("it is stopped", || fs::read_dir(&tasks).unwrap().all(is_stopped));
}

async fn stop_for_a_while(master: &mut Master) {
    stop(master);
    tokio::time::sleep(STOPPED).await;
    master.process.signal(libc::SIGCONT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_stopped_answers_who_waited_and_takes_nobody_for_dead() {
    let mut place = Place::new();
    let mut master = place.master(&FLAGS);
    place.add_store();
    let client = place.client().await;
    let mut values = Values::put(&client, 0..20).await;
    stop(&mut master);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.fetch("key-19").await }
    });
    tokio::time::sleep(STOPPED).await;
    assert!(!waiting.is_finished(), "nobody has said where it is");
    master.process.signal(libc::SIGCONT);
    let found = waiting.await.unwrap().unwrap();
    assert!(found.is_some_and(|found| found == values.0[19].1[..]));

    // Longer than it takes to find somebody dead who did not come back.
    master.wait_for_metric_above("mooring_stalls_total", 0.0);
    for _ in 0..5 {
        values.check(&client).await;
        tokio::time::sleep(STOPPED / 5).await;
    }
    values.extend(Values::put(&client, 20..30).await);
    values.check(&client).await;
    assert!(!master.process.log().contains("client_expired"), "{}", master.process.log());
    place.leave(master);
    let master = place.master(&FLAGS);
    super::wait_until_confirmed(&master, 1);
    values.check(&client).await;
}

// A reader that is as old as its lease must not take what it finds for the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ran_out_while_the_master_was_stopped_protects_nothing() {
    let mut place = Place::new();
    let mut master = place.master(&FLAGS);
    place.add_store();
    let client = place.client().await;
    let (before, after) = (patterned(20 << 20), vec![7; 20 << 20]);
    put_when_possible(&client, "before", before.clone()).await;
    let leased = client.get(&["before"]).await.unwrap();
    let located = leased.reply.items[0].clone().unwrap();
    let refused = client.remove(&["before"], false).await.unwrap();
    assert_eq!(refused[0].as_ref().map_err(|refusal| refusal.code), Err(ErrorCode::Leased));
    stop_for_a_while(&mut master).await;
    assert!(leased.until < tokio::time::Instant::now());

    // Of 32 MiB there is only this room.
    assert_eq!(client.remove(&["before"], false).await.unwrap(), [Ok(())]);
    put_when_possible(&client, "after", after.clone()).await;
    let item = PutItem { key: Bytes::new(b"before"), sequence: located.sequence };
    let valid = client.validate(leased.reply.incarnation, &[item]).await.unwrap();
    assert!(valid[0].is_err(), "{valid:?}");
    assert_eq!(client.fetch("before").await.unwrap(), None);
    assert!(client.fetch("after").await.unwrap().is_some_and(|found| found == after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_stopped_while_it_is_told_to_leave_hands_over_when_it_goes_on() {
    let mut place = Place::new();
    let mut master = place.master(&FLAGS);
    place.add_store();
    let client = place.client().await;
    let values = Values::put(&client, 0..20).await;
    stop(&mut master);
    master.process.signal(libc::SIGTERM);
    tokio::time::sleep(STOPPED).await;
    master.process.signal(libc::SIGCONT);
    assert_eq!(master.process.ended().code(), Some(0));
    let master = place.master(&FLAGS);
    super::wait_until_confirmed(&master, 1);
    values.check(&client).await;
}
