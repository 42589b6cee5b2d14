//! Whole objects: put, fetch, and what goes wrong between master and stores.

use std::collections::HashSet;

use bytes::Bytes;
use mooring_proto::client::{ClientError, PutOptions};
use mooring_proto::message::object::RangeDescriptor;
use mooring_proto::{ErrorCode, Incarnation, Refusal};

use crate::cluster::{Cluster, Fault, MASTER, pattern};
use crate::soon;

fn replicas(count: u8) -> PutOptions {
    PutOptions { replicas: count, ..PutOptions::default() }
}

#[tokio::test]
async fn an_object_comes_back_as_it_was_put() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    assert_eq!(soon(client.fetch("key")).await.unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(soon(client.fetch("other")).await.unwrap(), None);
    let memory = cluster.stores[0].lock().unwrap();
    assert_eq!((memory.writes[0].generation, memory.writes[0].incarnation), (3, MASTER));
}

#[tokio::test]
async fn a_large_object_moves_in_pieces_that_fit() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let value = pattern((9 << 20) + 5);
    soon(client.put("key", value.clone(), &PutOptions::default())).await.unwrap();
    assert!(soon(client.fetch("key")).await.unwrap() == Some(value));
    let memory = cluster.stores[0].lock().unwrap();
    for moved in [&memory.writes, &memory.reads] {
        let mut lengths: Vec<u32> = moved.iter().map(|range| range.length_bytes).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [(1 << 20) + 5, 4 << 20, 4 << 20]);
    }
}

#[tokio::test]
async fn many_objects_need_one_start_one_end_and_one_get() {
    let cluster = Cluster::start(2);
    let client = cluster.client().await;
    let objects: Vec<(String, Bytes)> =
        (0..300).map(|index| (format!("key-{index}"), pattern(index + 1))).collect();
    let put = soon(client.put_many(&objects, &replicas(2))).await;
    assert!(put.iter().all(Result::is_ok));
    let mut keys: Vec<&str> = objects.iter().map(|(key, _)| key.as_str()).collect();
    keys.push("missing");
    let fetched = soon(client.fetch_many(&keys)).await;
    for ((_, value), fetched) in objects.iter().zip(&fetched) {
        assert_eq!(fetched.as_ref().unwrap().as_ref(), Some(value));
    }
    assert!(matches!(fetched[300], Ok(None)));
    let master = cluster.master.lock().unwrap();
    assert_eq!((master.starts.as_slice(), master.ends.as_slice()), (&[300][..], &[300][..]));
    assert_eq!(master.gets, 1);
    assert_eq!(master.put_ids.iter().collect::<HashSet<_>>().len(), 300);
    let stores: Vec<usize> =
        cluster.stores.iter().map(|store| store.lock().unwrap().writes.len()).collect();
    assert_eq!(stores, [300, 300]);
}

#[tokio::test]
async fn a_refused_write_gives_the_put_up_with_nothing_in_flight() {
    let cluster = Cluster::start(2);
    let client = cluster.client().await;
    let fault = Fault::Refuse(ErrorCode::OutOfRange);
    cluster.stores[1].lock().unwrap().faults.push_back(fault);
    let error = soon(client.put("key", "value", &replicas(2))).await.unwrap_err();
    assert!(matches!(error, ClientError::NoReplica { .. }), "{error:?}");
    assert_eq!(error.code(), Some(ErrorCode::OutOfRange));
    let master = cluster.master.lock().unwrap();
    assert_eq!(master.revoked, [(true, 1)]);
    assert!(master.ends.is_empty());
}

#[tokio::test]
async fn a_put_is_not_ended_while_a_write_of_it_may_be_in_flight() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    cluster.stores[0].lock().unwrap().faults.push_back(Fault::Close);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    let master = cluster.master.lock().unwrap();
    assert_eq!(master.revoked, [(false, 1)]);
    assert_eq!(master.put_ids.iter().collect::<HashSet<_>>().len(), 2, "a put of its own");
    assert_eq!(master.ends, [1]);
    let memory = cluster.stores[0].lock().unwrap();
    let offsets: HashSet<u64> = memory.writes.iter().map(|range| range.offset_bytes).collect();
    assert_eq!(offsets.len(), 2, "nothing was written twice into one range");
}

#[tokio::test]
async fn no_write_is_begun_after_the_discard_timeout() {
    let cluster = Cluster::start(2);
    let client = cluster.client().await;
    cluster.master.lock().unwrap().discard_timeout_ms = 0;
    for value in [pattern(5), pattern(5 << 20)] {
        let error = soon(client.put("key", value, &replicas(2))).await.unwrap_err();
        assert!(error.to_string().contains("reservation"), "{error}");
    }
    assert!(cluster.stores.iter().all(|store| store.lock().unwrap().writes.is_empty()));
    let master = cluster.master.lock().unwrap();
    assert!(master.ends.is_empty());
    assert!(master.revoked.iter().all(|(no_write_in_flight, _)| *no_write_in_flight));
}

#[tokio::test]
async fn the_time_to_write_counts_from_the_first_start_of_a_put_whatever_was_answered_since() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    {
        let mut master = cluster.master.lock().unwrap();
        // The reservation of the lost start is over when a later one is answered with it.
        (master.discard_timeout_ms, master.lost_starts) = (200, 1);
        let wait = Refusal { retry_after_ms: Some(300), ..ErrorCode::Overloaded.into() };
        master.start_refusals.push_back(wait);
    }
    // What was granted too late is given up, and another put may succeed in time.
    let _ = soon(client.put("key", "value", &PutOptions::default())).await;
    let master = cluster.master.lock().unwrap();
    assert_eq!(master.put_ids[..3].iter().collect::<HashSet<_>>().len(), 1, "one put so far");
    assert_ne!(master.put_ids[3], master.put_ids[0]);
    assert_eq!(master.revoked[0], (true, 1));
    let memory = cluster.stores[0].lock().unwrap();
    assert!(memory.writes.iter().all(|range| range.offset_bytes != 0), "that of the first grant");
}

#[tokio::test]
async fn a_start_that_was_refused_and_never_lost_is_followed_by_another_put_with_its_own_time() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let wait = Refusal { retry_after_ms: Some(1), ..ErrorCode::Overloaded.into() };
    cluster.master.lock().unwrap().start_refusals.extend([wait.clone(), wait]);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    let master = cluster.master.lock().unwrap();
    assert_eq!(master.put_ids.iter().collect::<HashSet<_>>().len(), 3);
}

#[tokio::test]
async fn a_piece_in_doubt_is_not_forgotten_over_another_one_that_was_refused() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    // Of three pieces one meets a mount that is not known yet, and the next one is lost.
    let faults = [Fault::Refuse(ErrorCode::WrongMount), Fault::Close];
    cluster.stores[0].lock().unwrap().faults.extend(faults);
    let value = pattern((9 << 20) + 5);
    soon(client.put("key", value.clone(), &PutOptions::default())).await.unwrap();
    assert_eq!(cluster.master.lock().unwrap().revoked, [(false, 1)]);
    assert!(soon(client.fetch("key")).await.unwrap() == Some(value));
}

#[tokio::test]
async fn what_cannot_be_written_is_put_elsewhere_and_later_puts_go_there_at_once() {
    let cluster = Cluster::start(2);
    let client = cluster.client().await;
    cluster.stores[0].lock().unwrap().faults.push_back(Fault::Close);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    assert_eq!(soon(client.fetch("key")).await.unwrap().as_deref(), Some(&b"value"[..]));
    soon(client.put("next", "value", &PutOptions::default())).await.unwrap();
    let writes = |store: usize| cluster.stores[store].lock().unwrap().writes.len();
    assert_eq!((writes(0), writes(1)), (1, 2));
    assert_eq!(cluster.master.lock().unwrap().starts, [1, 1, 1]);
}

#[tokio::test]
async fn a_put_that_no_store_takes_is_given_up_after_a_few_reservations() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    cluster.stores[0].lock().unwrap().faults.extend([Fault::Close; 100]);
    let error = soon(client.put("key", "value", &PutOptions::default())).await.unwrap_err();
    assert!(matches!(error, ClientError::NoReplica { .. }), "{error:?}");
    let master = cluster.master.lock().unwrap();
    assert_eq!((master.starts.len(), master.revoked.len()), (4, 4));
    assert!(master.ends.is_empty());
}

#[tokio::test]
async fn a_put_that_is_refused_after_a_lost_one_is_settled_by_itself() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let faults = [Fault::Close, Fault::Refuse(ErrorCode::OutOfRange)];
    cluster.stores[0].lock().unwrap().faults.extend(faults);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap_err();
    assert_eq!(cluster.master.lock().unwrap().revoked, [(false, 1), (true, 1)]);
}

#[tokio::test]
async fn a_lost_connection_to_a_store_is_opened_again() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    cluster.stores[0].lock().unwrap().faults.push_back(Fault::Close);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    cluster.stores[0].lock().unwrap().faults.push_back(Fault::Close);
    assert_eq!(soon(client.fetch("key")).await.unwrap().as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn a_put_waits_for_space_only_if_there_will_be_some() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let full = |retry_after_ms| Refusal { retry_after_ms, ..Refusal::from(ErrorCode::NoSpace) };
    cluster.master.lock().unwrap().start_refusals.extend([full(Some(5)), full(Some(5))]);
    soon(client.put("waits", "value", &PutOptions::default())).await.unwrap();
    assert_eq!(cluster.master.lock().unwrap().starts.len(), 3);
    cluster.master.lock().unwrap().start_refusals.push_back(full(None));
    let error = soon(client.put("does not", "value", &PutOptions::default())).await.unwrap_err();
    assert!(matches!(error, ClientError::Item(_)), "{error:?}");
    assert_eq!(error.code(), Some(ErrorCode::NoSpace));
    assert_eq!(cluster.master.lock().unwrap().starts.len(), 4);
}

#[tokio::test]
async fn one_refused_item_does_not_touch_its_neighbours() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let refusal = Refusal::from(ErrorCode::AlreadyExists);
    cluster.master.lock().unwrap().start_refusals.push_back(refusal);
    let objects = [("there", Bytes::from("1")), ("new", Bytes::from("2"))];
    let answers = soon(client.put_many(&objects, &PutOptions::default())).await;
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Some(ErrorCode::AlreadyExists));
    assert!(answers[1].is_ok());
    assert_eq!(cluster.master.lock().unwrap().starts, [2]);
}

#[tokio::test]
async fn a_read_within_its_lease_needs_no_confirmation() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    soon(client.fetch("key")).await.unwrap().unwrap();
    assert_eq!(cluster.master.lock().unwrap().validated, 0);
}

#[tokio::test]
async fn a_read_that_outlasts_its_lease_is_confirmed_or_done_again() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    cluster.master.lock().unwrap().lease_ttl_ms = 0;
    soon(client.fetch("key")).await.unwrap().unwrap();
    assert_eq!((cluster.master.lock().unwrap().validated, cluster.reads()), (1, 1));
    cluster.master.lock().unwrap().invalid.push_back(ErrorCode::Changed);
    soon(client.fetch("key")).await.unwrap().unwrap();
    assert_eq!((cluster.master.lock().unwrap().validated, cluster.reads()), (3, 3));
}

#[tokio::test]
async fn bytes_that_are_never_confirmed_are_never_returned() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    cluster.master.lock().unwrap().lease_ttl_ms = 0;
    cluster.master.lock().unwrap().invalid.extend([ErrorCode::Changed; 100]);
    let error = soon(client.fetch("key")).await.unwrap_err();
    assert!(matches!(error, ClientError::LeaseExpired), "{error:?}");
}

#[tokio::test]
async fn a_corrupt_read_is_taken_from_another_replica() {
    let cluster = Cluster::start(2);
    let client = cluster.client().await;
    soon(client.put("key", "value", &replicas(2))).await.unwrap();
    for store in &cluster.stores {
        store.lock().unwrap().faults.push_back(Fault::CorruptRead);
    }
    // Both are corrupt once, so the object is located anew and read well then.
    assert_eq!(soon(client.fetch("key")).await.unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(cluster.reads(), 3);
}

#[tokio::test]
async fn an_object_without_a_usable_replica_says_why() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    cluster.stores[0].lock().unwrap().faults.extend([Fault::CorruptRead; 100]);
    let error = soon(client.fetch("key")).await.unwrap_err();
    assert!(matches!(error, ClientError::NoReplica { .. }), "{error:?}");
    assert_eq!(error.code(), Some(ErrorCode::ChecksumMismatch));
}

#[tokio::test]
async fn a_store_that_hears_of_its_mount_late_is_asked_again() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    let late = [Fault::Refuse(ErrorCode::WrongMount); 2];
    cluster.stores[0].lock().unwrap().faults.extend(late);
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    assert!(cluster.master.lock().unwrap().revoked.is_empty());
}

#[tokio::test]
async fn a_segment_that_is_gone_is_not_read() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    cluster.stores[0].lock().unwrap().faults.push_back(Fault::Refuse(ErrorCode::WrongMount));
    {
        let mut master = cluster.master.lock().unwrap();
        master.table.clear();
        master.epoch += 1;
    }
    let error = soon(client.fetch("key")).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SegmentNotFound));
    assert_eq!(cluster.reads(), 1);
}

#[tokio::test]
async fn slots_of_another_master_mean_nothing() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    assert_eq!(soon(client.segment(MASTER, 0, 3)).await.unwrap().slot, 0);
    for (incarnation, slot, generation) in [(Incarnation(2), 0, 3), (MASTER, 1, 3), (MASTER, 0, 2)]
    {
        let error = soon(client.segment(incarnation, slot, generation)).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::SegmentNotFound));
    }
}

#[tokio::test]
async fn a_descriptor_outside_of_its_segment_is_not_followed() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    {
        let mut master = cluster.master.lock().unwrap();
        let located = master.objects.get_mut(&b"key"[..]).unwrap();
        let outside = RangeDescriptor { offset_bytes: u64::MAX, ..located.replicas[0] };
        located.replicas = vec![outside].into();
    }
    let error = soon(client.fetch("key")).await.unwrap_err();
    assert!(error.to_string().contains("outside"), "{error}");
    assert_eq!(cluster.reads(), 0);
}

#[tokio::test]
async fn an_object_above_the_limit_takes_no_memory() {
    let cluster = Cluster::start(1);
    let client = cluster.client().await;
    soon(client.put("key", "value", &PutOptions::default())).await.unwrap();
    {
        let mut master = cluster.master.lock().unwrap();
        master.objects.get_mut(&b"key"[..]).unwrap().size_bytes = 1 << 40;
    }
    let error = soon(client.fetch("key")).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}");
}

impl Cluster {
    fn reads(&self) -> usize {
        self.stores.iter().map(|store| store.lock().unwrap().reads.len()).sum()
    }
}
