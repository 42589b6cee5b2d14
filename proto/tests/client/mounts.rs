//! Mounting, and mounting again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use mooring_proto::client::{Client, Mounts};
use mooring_proto::message::Kind;
use mooring_proto::message::segment::{
    MountGrant, MountRequest, RemountReply, RemountRequest, Segment, TransferEngine, UnmountReply,
    UnmountRequest,
};
use mooring_proto::message::session::{PingReply, PingRequest};
use mooring_proto::{ErrorCode, Incarnation, SegmentId};
use tokio::sync::{mpsc, watch};

use crate::fake::{Answer, Call, Server, greet, refuse_with, reply};
use crate::soon;

const FIRST: Incarnation = Incarnation(1);
const SECOND: Incarnation = Incarnation(2);
const SHORT_TTL_MS: u64 = 500;

fn segment(id: u128) -> Segment {
    Segment {
        segment: SegmentId(id),
        base: 4096,
        size_bytes: 1 << 20,
        endpoint: "store:1".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    }
}

/// A master that grants every mount, each with the next generation.
#[derive(Clone)]
struct Master {
    incarnation: Incarnation,
    generation: Arc<AtomicU32>,
    need_remount: Arc<AtomicBool>,
    remounts: mpsc::UnboundedSender<RemountRequest>,
    unmount: Arc<Mutex<Result<u64, ErrorCode>>>,
    unmounts: Arc<Mutex<Vec<UnmountRequest>>>,
    last_ping: watch::Sender<PingRequest>,
}

impl Master {
    fn new(incarnation: Incarnation) -> (Master, mpsc::UnboundedReceiver<RemountRequest>) {
        let (remounts, told) = mpsc::unbounded_channel();
        let master = Master {
            incarnation,
            generation: Arc::default(),
            need_remount: Arc::default(),
            remounts,
            unmount: Arc::new(Mutex::new(Ok(0))),
            unmounts: Arc::default(),
            last_ping: watch::Sender::default(),
        };
        (master, told)
    }

    fn grant(&self) -> MountGrant {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        MountGrant { slot: 0, generation, incarnation: self.incarnation }
    }

    fn answer(&self, call: &Call) -> Answer {
        match call.kind {
            Kind::Mount => reply::<MountRequest>(&self.grant()),
            Kind::Remount => {
                let request: RemountRequest = call.message();
                let grants = request.segments.iter().map(|_| self.grant()).collect();
                self.remounts.send(request).unwrap();
                reply::<RemountRequest>(&RemountReply { grants })
            }
            Kind::Unmount => {
                self.unmounts.lock().unwrap().push(call.message());
                match *self.unmount.lock().unwrap() {
                    Ok(grace_left_ms) => reply::<UnmountRequest>(&UnmountReply { grace_left_ms }),
                    Err(code) => refuse_with(call, code),
                }
            }
            Kind::Ping => {
                self.last_ping.send_replace(call.message());
                reply::<PingRequest>(&PingReply {
                    incarnation: self.incarnation,
                    need_remount: self.need_remount.swap(false, Ordering::SeqCst),
                    segment_epoch: 1,
                    client_ttl_ms: SHORT_TTL_MS,
                })
            }
            _ => greet(call, self.incarnation, SHORT_TTL_MS),
        }
    }

    fn handler(&self) -> impl Fn(&Call) -> Answer + Send + Sync + 'static {
        let master = self.clone();
        move |call| master.answer(call)
    }
}

async fn grants_of(
    grants: &mut watch::Receiver<Mounts>,
    wanted: impl Fn(&Mounts) -> bool,
) -> Mounts {
    soon(grants.wait_for(|mounts| wanted(mounts))).await.unwrap().clone()
}

#[tokio::test]
async fn segments_are_mounted_again_when_a_ping_says_so() {
    let (master, mut remounts) = Master::new(FIRST);
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    let mut grants = client.mounts();
    let first = soon(client.mount(segment(1), None)).await.unwrap();
    assert_eq!(grants.borrow_and_update().get(&SegmentId(1)), Some(&first));
    master.need_remount.store(true, Ordering::SeqCst);
    let remount = soon(remounts.recv()).await.unwrap();
    let expected = MountRequest { segment: segment(1), mounted_with: Some(FIRST) };
    assert_eq!(remount.segments, [expected]);
    let again = grants_of(&mut grants, |mounts| mounts[&SegmentId(1)] != first).await;
    assert_eq!(again[&SegmentId(1)].generation, first.generation + 1);
}

#[tokio::test]
async fn a_master_of_another_incarnation_gets_all_segments_without_asking() {
    let (master, _remounts) = Master::new(FIRST);
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    soon(client.mount(segment(2), Some(Incarnation(77)))).await.unwrap();
    let (next, mut remounts) = Master::new(SECOND);
    let _server = soon(server.restart(next.handler())).await;
    let mut remount = soon(remounts.recv()).await.unwrap();
    remount.segments.sort_by_key(|mount| mount.segment.segment);
    // The last master that granted them, whatever was said at the first mount.
    assert!(remount.segments.iter().all(|mount| mount.mounted_with == Some(FIRST)));
    assert_eq!(remount.segments.len(), 2);
    let mut grants = client.mounts();
    grants_of(&mut grants, |mounts| {
        mounts.len() == 2 && mounts.values().all(|grant| grant.incarnation == SECOND)
    })
    .await;
}

#[tokio::test]
async fn a_client_without_segments_mounts_none_again_when_told() {
    let (master, mut remounts) = Master::new(FIRST);
    master.need_remount.store(true, Ordering::SeqCst);
    let server = Server::master(master.handler());
    let _client = soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(soon(remounts.recv()).await.unwrap().segments, []);
}

/// What is pinged with so many segments, of which these are kept.
fn says(mounted_segments: u32, kept: &[u128]) -> impl FnMut(&PingRequest) -> bool {
    let kept = kept.iter().copied().map(SegmentId).collect();
    move |ping| *ping == PingRequest { mounted_segments, kept }
}

#[tokio::test]
async fn pings_say_how_many_segments_are_mounted_and_which_are_kept() {
    let (master, _remounts) = Master::new(FIRST);
    let mut pinged = master.last_ping.subscribe();
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    soon(pinged.wait_for(says(1, &[1]))).await.unwrap();
    soon(client.mount(segment(2), None)).await.unwrap();
    soon(pinged.wait_for(says(2, &[1, 2]))).await.unwrap();
    soon(client.unmount(SegmentId(1), 0)).await.unwrap();
    client.ping_now();
    soon(pinged.wait_for(says(1, &[2]))).await.unwrap();
}

#[tokio::test]
async fn what_is_on_its_way_out_is_counted_and_not_kept_until_it_is_mounted_again() {
    let (master, _remounts) = Master::new(FIRST);
    let mut pinged = master.last_ping.subscribe();
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    *master.unmount.lock().unwrap() = Ok(3_600_000);
    soon(client.unmount(SegmentId(1), 3_600_000)).await.unwrap();
    soon(pinged.wait_for(says(1, &[]))).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    soon(pinged.wait_for(says(1, &[1]))).await.unwrap();
}

#[tokio::test]
async fn what_a_transfer_engine_reaches_is_counted_and_not_kept() {
    let (master, _remounts) = Master::new(FIRST);
    let mut pinged = master.last_ping.subscribe();
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    let engine = TransferEngine { name: "a".into(), protocol: "tcp".into(), host: "b".into() };
    let reached_by_it = Segment { transfer_engine: Some(engine), ..segment(1) };
    soon(client.mount(reached_by_it, None)).await.unwrap();
    soon(pinged.wait_for(says(1, &[]))).await.unwrap();
}

#[tokio::test]
async fn a_draining_segment_keeps_its_grant_until_the_master_knows_it_no_more() {
    let (master, _remounts) = Master::new(FIRST);
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    *master.unmount.lock().unwrap() = Ok(5_000);
    assert_eq!(soon(client.unmount(SegmentId(1), 5_000)).await.unwrap().grace_left_ms, 5_000);
    assert!(client.mounts().borrow().contains_key(&SegmentId(1)));
    // The grace is over, so the master knows nothing of it any more.
    *master.unmount.lock().unwrap() = Err(ErrorCode::SegmentNotFound);
    assert_eq!(soon(client.unmount(SegmentId(1), 0)).await.unwrap().grace_left_ms, 0);
    assert!(client.mounts().borrow().is_empty());
    let unknown = soon(client.unmount(SegmentId(1), 0)).await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::SegmentNotFound));
}

/// The next master has its objects, or has never heard that it goes.
#[tokio::test]
async fn a_draining_segment_is_mounted_with_the_next_master_and_told_to_go_on_leaving() {
    let (master, _remounts) = Master::new(FIRST);
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    for id in [1, 2] {
        soon(client.mount(segment(id), None)).await.unwrap();
    }
    *master.unmount.lock().unwrap() = Ok(3_600_000);
    soon(client.unmount(SegmentId(1), 7_200_000)).await.unwrap();
    let (next, mut remounts) = Master::new(SECOND);
    *next.unmount.lock().unwrap() = Ok(3_000_000);
    let _server = soon(server.restart(next.handler())).await;
    let mut named = soon(remounts.recv()).await.unwrap().segments;
    named.sort_by_key(|mount| mount.segment.segment);
    assert!(named.iter().all(|mount| mount.mounted_with == Some(FIRST)));
    assert_eq!(named.len(), 2);
    let mut grants = client.mounts();
    grants_of(&mut grants, |mounts| mounts.values().all(|grant| grant.incarnation == SECOND)).await;
    // A mount waits until the remount is through.
    soon(client.mount(segment(3), None)).await.unwrap();
    let told = next.unmounts.lock().unwrap().clone();
    // The master of before has shortened the grace.
    let is_right = |told: &UnmountRequest| {
        told.segment == SegmentId(1) && (3_500_000..=3_600_000).contains(&told.grace_ms)
    };
    assert!(!told.is_empty() && told.iter().all(is_right), "{told:?}");
}

#[tokio::test]
async fn a_segment_whose_grace_is_over_is_neither_counted_nor_mounted_again() {
    let (master, mut remounts) = Master::new(FIRST);
    let mut pinged = master.last_ping.subscribe();
    let server = Server::master(master.handler());
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    soon(pinged.wait_for(says(1, &[1]))).await.unwrap();
    *master.unmount.lock().unwrap() = Ok(1);
    soon(client.unmount(SegmentId(1), 1)).await.unwrap();
    soon(pinged.wait_for(says(0, &[]))).await.unwrap();
    assert!(client.mounts().borrow().contains_key(&SegmentId(1)), "it is still served");
    master.need_remount.store(true, Ordering::SeqCst);
    assert_eq!(soon(remounts.recv()).await.unwrap().segments, []);
}

#[tokio::test]
async fn a_refused_mount_is_not_mounted_again() {
    let (master, mut remounts) = Master::new(FIRST);
    let answering = master.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Mount => refuse_with(call, ErrorCode::SegmentOverlap),
        _ => answering.answer(call),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    let error = soon(client.mount(segment(1), None)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SegmentOverlap));
    assert!(client.mounts().borrow().is_empty());
    master.need_remount.store(true, Ordering::SeqCst);
    assert_eq!(soon(remounts.recv()).await.unwrap().segments, []);
}

#[tokio::test]
async fn a_mount_that_needs_a_remount_first_waits_for_it() {
    let (master, mut remounts) = Master::new(FIRST);
    let known = AtomicBool::new(false);
    let answering = master.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Remount => {
            known.store(true, Ordering::SeqCst);
            answering.answer(call)
        }
        Kind::Mount if !known.load(Ordering::SeqCst) => refuse_with(call, ErrorCode::NeedRemount),
        _ => answering.answer(call),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    soon(client.mount(segment(1), None)).await.unwrap();
    assert_eq!(soon(remounts.recv()).await.unwrap().segments, []);
}
