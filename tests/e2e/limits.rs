//! What one peer may take of what all share: how much of it, and what it is answered beyond that.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use mooring_proto::limits::{BATCH_KEYS_MAX, PREFERRED_SEGMENTS_MAX, REMOUNT_SEGMENTS_MAX};
use mooring_proto::message::Kind;
use mooring_proto::message::Request;
use mooring_proto::message::object::{GetRequest, PutOptions, PutStartRequest};
use mooring_proto::message::segment::RemountRequest;
use mooring_proto::message::session::PingRequest;
use mooring_proto::mooncake::{Function, RequestHeader, ServiceReady};
use mooring_proto::{ErrorCode, SegmentId};
use quinn::VarInt;

use crate::harness::Master;
use crate::mooncake::client::{self, Client};
use crate::peer::{Peer, header, in_time, mount};

fn ping() -> PingRequest {
    PingRequest::default()
}

#[tokio::test]
async fn a_peer_with_all_its_requests_under_way_waits_for_some_to_end_and_others_do_not() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let half = [&header(Kind::Ping as u16, 2)[..], &[0]].concat();
    let mut under_way = Vec::new();
    let moment = Duration::from_millis(300);
    while let Ok(stream) = tokio::time::timeout(moment, peer.connection.open_bi()).await {
        let (mut send, receive) = stream.unwrap();
        send.write_all(&half).await.unwrap();
        under_way.push((send, receive));
    }
    // The hello had one, and places are granted anew by the eighth.
    assert!((1023..=1024).contains(&under_way.len()), "{}", under_way.len());
    Peer::greeted(&master).await.ask(&ping()).await.unwrap();
    for (mut send, _receive) in under_way.drain(..200) {
        send.reset(VarInt::from_u32(0)).unwrap();
    }
    in_time(peer.connection.open_bi()).await.unwrap();
}

#[tokio::test]
async fn a_list_or_number_above_its_limit_refuses_the_whole_request_by_name() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let start = |options| PutStartRequest { options, items: Vec::new() };
    let nine = start(PutOptions { replicas: 9, ..PutOptions::default() });
    refuses(&peer, &nine, ErrorCode::InvalidArgument, "options.replicas").await;
    let preferred_segments = vec![SegmentId(1); PREFERRED_SEGMENTS_MAX + 1];
    let preferring = start(PutOptions { preferred_segments, ..PutOptions::default() });
    refuses(&peer, &preferring, ErrorCode::TooLarge, "options.preferred_segments").await;
    let keys = vec![serde_bytes::Bytes::new(b"k"); BATCH_KEYS_MAX + 1];
    refuses(&peer, &GetRequest { keys }, ErrorCode::TooLarge, "keys").await;
    let segments = (0..=REMOUNT_SEGMENTS_MAX as u64).map(mount).collect();
    refuses(&peer, &RemountRequest { segments }, ErrorCode::TooLarge, "segments").await;
    let mut long = mount(1);
    long.segment.endpoint = "e".repeat(256);
    refuses(&peer, &long, ErrorCode::TooLarge, "segment.endpoint").await;
    long.segment.endpoint = String::new();
    refuses(&peer, &long, ErrorCode::InvalidSegment, "endpoint").await;
    peer.ask(&ping()).await.unwrap();
}

async fn refuses<R: Request>(peer: &Peer, request: &R, code: ErrorCode, field: &str) {
    let Err(error) = peer.ask(request).await else { panic!("{field} was let pass") };
    assert_eq!(error.code, code, "{error}");
    assert!(error.text.contains(field), "{error}");
}

// Only builds for development can make a shard hang.
#[cfg(debug_assertions)]
#[test]
fn a_client_of_mooncake_has_only_so_many_calls_answered_at_once_and_others_go_on() {
    use mooring_proto::mooncake::ExistKey;

    let master = client::master(&["--shard-layout", "threads"]);
    assert_eq!(crate::harness::http(master.metrics(), "POST", "/debug/hang?shard=0", b"").0, 200);
    let mut busy = Client::connect(&master);
    let ask = ExistKey { key: "a-key".into(), tenant: client::TENANT };
    let frames: Vec<u8> = (0..2_000).flat_map(|_| busy.frame(&ask)).collect();
    busy.write(&frames);
    // 1 MiB of calls of 8 KiB and their body.
    master.wait_for_metric_above("mooring_requests_in_flight", 127.0);
    for _ in 0..3 {
        assert!(Client::connect(&master).call(&ServiceReady {}, |answer| answer.is_ok()));
    }
    // A look at readiness waits for the shard, too.
    let in_flight = master.metric("mooring_requests_in_flight");
    assert!(in_flight < 140.0, "{in_flight}");
    let kept_bytes = master.metric("mooring_mooncake_kept_bytes");
    assert!((1e6..1.3e6).contains(&kept_bytes), "{kept_bytes}");
}

#[test]
fn clients_of_mooncake_that_keep_too_much_together_are_closed_and_it_is_given_back() {
    let master = client::master(&[]);
    let body_bytes = (16 << 20) - 64;
    let function_id = Function::Ping.id();
    let header = RequestHeader { seq: 1, function_id, body_bytes, attachment_bytes: 0 };
    let half = vec![0; body_bytes as usize - 1];
    let address = client::port(&master.process);
    let holding: Vec<TcpStream> = (0..17)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // The one that is too much may be closed before it has sent everything.
            let _ = stream.write_all(&header.encode()).and_then(|()| stream.write_all(&half));
            stream
        })
        .collect();
    master.wait_for_metric_above("mooring_mooncake_connections_overloaded_total", 0.0);
    let (kept, max) = ("mooring_mooncake_kept_bytes", "mooring_mooncake_kept_bytes_max");
    assert!(master.metric(kept) <= master.metric(max), "{}", master.metric(kept));
    drop(holding);
    master.wait_for_metric(kept, 0.0);
    assert!(Client::connect(&master).call(&ServiceReady {}, |answer| answer.is_ok()));
}
