//! What peers do wrong on the wire, and that it costs nobody else anything.

use std::net::UdpSocket;
use std::sync::Arc;

use mooring_proto::frame::{REQUEST_HEADER_BYTES, RequestHeader, decode_body, encode_request};
use mooring_proto::limits::FRAME_BYTES_MAX;
use mooring_proto::message::Kind;
use mooring_proto::message::inspect::StatsRequest;
use mooring_proto::message::object::{
    ExistRequest, GetRequest, PutItem, PutOptions, PutStartItem, PutStartRequest, RemoveRequest,
    ValidateRequest,
};
use mooring_proto::message::segment::SegmentTableRequest;
use mooring_proto::message::session::{Attention, HelloRequest, PingRequest, VERSION, VERSION_MIN};
use mooring_proto::{ErrorCode, Refusal, close};
use quinn::{ConnectionError, VarInt};
use tokio::sync::Semaphore;

use crate::harness::Master;
use crate::peer::{Answer, Dial, Peer, header, hello, in_time, read_answer, tiny_windows};

fn ping() -> PingRequest {
    PingRequest::default()
}

#[tokio::test]
async fn a_hello_is_granted_with_what_the_client_must_know() {
    let master = Master::start(&["--client-ttl", "7", "--default-kv-lease-ttl", "1234"]);
    let peer = Peer::silent(&master).await;
    let reply = peer.ask(&hello(VERSION_MIN, VERSION)).await.unwrap();
    assert_eq!((reply.client_ttl_ms, reply.lease_ttl_ms), (7_000, 1_234));
    assert_eq!(reply.version, VERSION);
    let ping = peer.ask(&ping()).await.unwrap();
    assert_eq!((ping.incarnation, ping.client_ttl_ms), (reply.incarnation, 7_000));
}

/// R49.
#[tokio::test]
async fn a_peer_of_another_protocol_is_refused_in_the_handshake() {
    let master = Master::start(&[]);
    for alpn in [&b"h3"[..], b"mooring/2", b"mooring-store/1"] {
        let dial = Dial { alpn: alpn.to_vec(), ..Dial::default() };
        let Err(error) = Peer::dial(master.rpc(), dial).await else { panic!("was let in") };
        // TLS alert 120: no application protocol.
        assert!(error.to_string().contains("120"), "{error}");
    }
    Peer::greeted(&master).await;
}

/// R49.
#[tokio::test]
async fn a_version_that_the_master_does_not_speak_is_refused_with_both_named() {
    let master = Master::start(&[]);
    let peer = Peer::silent(&master).await;
    let frame = encode_request(&hello(700, 900), 0, None).unwrap();
    let answer = peer.send(&frame).await;
    let both = format!("the client speaks 700 to 900, the master {VERSION_MIN} to {VERSION}");
    // The close may overtake the reply; each says the same.
    if answer != Answer::Closed {
        assert_eq!(answer.error().code, ErrorCode::UnsupportedVersion);
        assert!(answer.error().text.contains(&both));
    }
    let (code, reason) = peer.closed().await;
    assert_eq!(code, u64::from(close::VERSION));
    assert!(reason.contains(&both), "{reason}");
}

#[tokio::test]
async fn whatever_comes_before_the_hello_is_told_of_it_and_closes_the_connection() {
    let master = Master::start(&[]);
    let (ping_kind, too_large) = (Kind::Ping as u16, u32::try_from(FRAME_BYTES_MAX + 1).unwrap());
    let cases = [
        ("a ping", encode_request(&ping(), 0, None).unwrap()),
        ("an unknown kind", header(999, 0).to_vec()),
        ("kind 0", header(0, 0).to_vec()),
        ("a kind of stores", header(Kind::ReadRange as u16, 0).to_vec()),
        ("a ping over the limit", header(ping_kind, too_large).to_vec()),
        ("half a ping", [&header(ping_kind, 9)[..], b"abc"].concat()),
    ];
    for (what, frame) in cases {
        let (error, reason) = refused_at_once(&master, &frame, close::PROTOCOL, what).await;
        assert!(error.is_none_or(|it| it == ErrorCode::HelloRequired), "{what}: {error:?}");
        assert!(reason.contains("no hello"), "{what}: {reason}");
    }
}

#[tokio::test]
async fn a_hello_that_cannot_be_read_closes_the_connection() {
    let master = Master::start(&[]);
    let hello_kind = Kind::Hello as u16;
    let too_large = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    let mut no_text = encode_request(&hello(VERSION_MIN, VERSION), 0, None).unwrap();
    let name = no_text.windows(6).position(|bytes| bytes == b"a test").unwrap();
    no_text[name] = 0xff;
    let long_name = HelloRequest { name: "n".repeat(256), ..hello(VERSION_MIN, VERSION) };
    let cases = [
        ("no text", no_text, ErrorCode::Malformed),
        ("a long name", encode_request(&long_name, 0, None).unwrap(), ErrorCode::TooLarge),
        ("half", [&header(hello_kind, 9)[..], b"abc"].concat(), ErrorCode::Malformed),
        ("garbage", [&header(hello_kind, 3)[..], b"abc"].concat(), ErrorCode::Malformed),
        ("nothing", Vec::new(), ErrorCode::Malformed),
        ("over the limit", header(hello_kind, too_large).to_vec(), ErrorCode::TooLarge),
    ];
    for (what, frame, code) in cases {
        let (error, reason) = refused_at_once(&master, &frame, close::PROTOCOL, what).await;
        assert!(error.is_none_or(|it| it == code), "{what}: {error:?}");
        assert!(!reason.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn a_peer_that_gives_its_hello_up_has_its_connection_closed() {
    let master = Master::start(&[]);
    let peer = Peer::silent(&master).await;
    let (mut send, _receive) = peer.send_unfinished(&header(Kind::Hello as u16, 30)).await;
    send.reset(VarInt::from_u32(0)).unwrap();
    assert_eq!(peer.closed().await, (u64::from(close::NORMAL), String::new()));
}

/// The error of the answer, unless the close has overtaken it, and the reason of the close.
async fn refused_at_once(
    master: &Master,
    first: &[u8],
    code: u32,
    what: &str,
) -> (Option<ErrorCode>, String) {
    let peer = Peer::silent(master).await;
    let answer = peer.send(first).await;
    let error = (answer != Answer::Closed).then(|| answer.error().code);
    let (closed, reason) = peer.closed().await;
    assert_eq!(closed, u64::from(code), "{what}: {reason}");
    (error, reason)
}

/// R49.
#[tokio::test]
async fn what_cannot_be_understood_is_refused_and_the_connection_goes_on() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let ping_kind = Kind::Ping as u16;
    let too_large = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    let cases = [
        ("unknown kind", header(999, 0).to_vec(), 999, ErrorCode::UnknownKind),
        ("of a store", header(Kind::ReadRange as u16, 0).to_vec(), 64, ErrorCode::UnknownKind),
        ("over the limit", header(ping_kind, too_large).to_vec(), 2, ErrorCode::TooLarge),
        ("half a header", header(ping_kind, 0)[..9].to_vec(), 0, ErrorCode::Malformed),
        ("nothing", Vec::new(), 0, ErrorCode::Malformed),
        ("half a body", [&header(ping_kind, 9)[..], b"abc"].concat(), 2, ErrorCode::Malformed),
        ("more than a body", [&header(ping_kind, 1)[..], b"\0b"].concat(), 2, ErrorCode::Malformed),
        (
            "two messages",
            [&header(ping_kind, 4)[..], b"\0\0\0\0"].concat(),
            2,
            ErrorCode::Malformed,
        ),
        (
            "a hello again",
            encode_request(&hello(1, 1), 0, None).unwrap(),
            1,
            ErrorCode::InvalidArgument,
        ),
    ];
    for (what, frame, kind_number, code) in cases {
        let answer = peer.send(&frame).await;
        assert_eq!(answer.error().code, code, "{what}");
        let Answer::Reply { kind_number: repeated, .. } = answer else { unreachable!() };
        assert_eq!(repeated, kind_number, "{what}");
        peer.ask(&ping()).await.unwrap();
    }
}

#[tokio::test]
async fn a_peer_of_another_framing_is_answered_and_its_connection_closed() {
    let master = Master::start(&[]);
    let cases = [
        ("wrong magic", 0, b'X', ErrorCode::Malformed, close::PROTOCOL),
        ("another frame version", 2, 9, ErrorCode::UnsupportedVersion, close::VERSION),
        ("unknown flags", 3, 2, ErrorCode::Malformed, close::PROTOCOL),
        ("reserved bytes", 6, 1, ErrorCode::Malformed, close::PROTOCOL),
    ];
    for (what, position, byte, error, code) in cases {
        let peer = Peer::greeted(&master).await;
        let mut frame = header(Kind::Ping as u16, 0);
        frame[position] = byte;
        let answer = peer.send(&frame).await;
        // The close may overtake the reply; each says the same.
        if answer != Answer::Closed {
            assert_eq!(answer.error().code, error, "{what}");
        }
        let (closed, reason) = peer.closed().await;
        assert_eq!(closed, u64::from(code), "{what}: {reason}");
        assert!(!reason.is_empty(), "{what}");
    }
    Peer::greeted(&master).await.ask(&ping()).await.unwrap();
}

#[tokio::test]
async fn only_a_put_is_told_that_its_key_is_invalid() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let long = [b'k'; 4097];
    let keys = || [&b""[..], &long[..]].map(serde_bytes::Bytes::new).to_vec();
    let items = |key| PutStartItem { key, size_bytes: 1, put_id: 1 };
    let items = keys().into_iter().map(items).collect();
    let start = PutStartRequest { options: PutOptions::default(), items };
    let start = peer.ask(&start).await.unwrap().items;
    assert!(start.iter().all(|item| refused_with(item) == Some(ErrorCode::InvalidKey)));
    let get = peer.ask(&GetRequest { keys: keys() }).await.unwrap();
    assert!(get.items.iter().all(|item| refused_with(item) == Some(ErrorCode::NotFound)));
    let remove = peer.ask(&RemoveRequest { force: true, keys: keys() }).await.unwrap().items;
    assert!(remove.iter().all(|item| refused_with(item) == Some(ErrorCode::NotFound)));
    let item = |key| PutItem { key, sequence: 1 };
    let items = keys().into_iter().map(item).collect();
    let validate = ValidateRequest { incarnation: get.incarnation, items };
    let validate = peer.ask(&validate).await.unwrap().items;
    assert!(validate.iter().all(|item| refused_with(item) == Some(ErrorCode::Changed)));
}

fn refused_with<T>(item: &Result<T, Refusal>) -> Option<ErrorCode> {
    item.as_ref().err().map(|refusal| refusal.code)
}

#[tokio::test]
async fn a_request_above_a_limit_is_refused_before_its_body_is_sent() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let (mut send, receive) = peer.send_unfinished(&header(Kind::Get as u16, u32::MAX)).await;
    assert_eq!(read_answer(receive).await.error().code, ErrorCode::TooLarge);
    let stopped = in_time(send.stopped()).await.unwrap();
    assert_eq!(stopped, Some(VarInt::from_u32(close::PROTOCOL)));
    assert!(send.write_all(b"more").await.is_err());
}

#[tokio::test]
async fn a_request_that_is_never_finished_is_reset_in_the_end_and_holds_nobody_up() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let mut unfinished = Vec::new();
    for _ in 0..100 {
        let half = [&header(Kind::Ping as u16, 100)[..], &[0; 50]].concat();
        unfinished.push(peer.send_unfinished(&half).await);
    }
    peer.ask(&ping()).await.unwrap();
    for (_send, receive) in unfinished {
        assert_eq!(read_answer(receive).await, Answer::Reset(close::TIMEOUT.into()));
    }
    peer.ask(&ping()).await.unwrap();
    master.wait_for_metric("mooring_request_timeouts_total", 100.0);
    assert_eq!(master.metric("mooring_kept_bytes"), 0.0);
}

#[tokio::test]
async fn a_peer_that_never_says_hello_loses_its_place() {
    let master = Master::start(&[]);
    let peer = Peer::silent(&master).await;
    let (code, reason) = peer.closed().await;
    assert_eq!(code, u64::from(close::TIMEOUT));
    assert!(reason.contains("hello"), "{reason}");
}

#[tokio::test]
async fn a_peer_gets_no_streams_of_one_direction() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let opened =
        tokio::time::timeout(std::time::Duration::from_millis(200), peer.connection.open_uni());
    assert!(opened.await.is_err(), "the master grants none of them");
    peer.ask(&ping()).await.unwrap();
}

#[tokio::test]
async fn garbage_datagrams_cost_nothing() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let before = peer.ask(&StatsRequest {}).await.unwrap().resident_bytes;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut state = 1_u64;
    for number in 0..20_000_usize {
        let datagram: Vec<u8> = (0..number % 1400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        socket.send_to(&datagram, master.rpc()).unwrap();
    }
    peer.ask(&ping()).await.unwrap();
    Peer::greeted(&master).await;
    let after = peer.ask(&StatsRequest {}).await.unwrap().resident_bytes;
    assert!(after < before + (16 << 20), "{before} bytes resident before, {after} after");
    assert_eq!(master.page("/ready").0, 200);
}

#[tokio::test]
async fn slow_readers_hold_nobody_up() {
    let master = Master::start(&[]);
    let dial = Dial { transport: tiny_windows(), ..Dial::default() };
    let slow = Peer::dial(master.rpc(), dial).await.unwrap();
    slow.say_hello().await;
    let frame = encode_request(&StatsRequest {}, 0, None).unwrap();
    let mut unread = Vec::new();
    for _ in 0..500 {
        let (mut send, receive) = slow.connection.open_bi().await.unwrap();
        send.write_all(&frame).await.unwrap();
        send.finish().unwrap();
        unread.push(receive);
    }
    let other = Peer::greeted(&master).await;
    for _ in 0..100 {
        other.ask(&ping()).await.unwrap();
    }
    for receive in unread {
        let answer = read_answer(receive).await;
        assert!(matches!(answer, Answer::Reply { status: 0, .. }), "{answer:?}");
    }
    master.wait_for_metric("mooring_kept_bytes", 0.0);
}

#[tokio::test]
async fn a_peer_that_vanishes_is_forgotten() {
    let master = Master::start(&["--client-ttl", "2"]);
    let peer = Peer::greeted(&master).await;
    assert_eq!(master.metric("mooring_connections"), 1.0);
    // Another runtime that is dropped says no farewell.
    drop(peer);
    std::thread::spawn({
        let rpc = master.rpc();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let peer = runtime.block_on(async {
                let peer = Peer::dial(rpc, Dial::default()).await.unwrap();
                peer.say_hello().await;
                let half = header(Kind::Get as u16, 1000);
                let streams = peer.send_unfinished(&half).await;
                (peer, streams)
            });
            std::mem::forget(peer);
            runtime.shutdown_background();
        }
    })
    .join()
    .unwrap();
    master.wait_for_metric("mooring_connections", 0.0);
    master.wait_for_metric("mooring_requests_in_flight", 0.0);
}

#[tokio::test]
async fn a_thousand_requests_at_once_on_a_hundred_streams_with_half_of_them_cancelled() {
    let master = Master::start(&[]);
    let peer = Arc::new(Peer::greeted(&master).await);
    for _round in 0..3 {
        let streams = Arc::new(Semaphore::new(100));
        let mut requests = Vec::new();
        for number in 0..1000_usize {
            let (peer, streams) = (peer.clone(), streams.clone());
            requests.push(tokio::spawn(async move {
                let _stream = streams.acquire_owned().await.unwrap();
                if number % 2 == 0 {
                    exist(&peer, number).await;
                } else {
                    cancelled_exist(&peer, number).await;
                }
            }));
        }
        for request in requests {
            in_time(request).await.unwrap();
        }
    }
    // Nothing leaks: all places are free again, and no byte is kept.
    master.wait_for_metric("mooring_requests_in_flight", 0.0);
    master.wait_for_metric("mooring_kept_bytes", 0.0);
    assert_eq!(peer.connection.close_reason(), None::<ConnectionError>);
    for number in 0..2000 {
        exist(&peer, number).await;
    }
}

async fn exist(peer: &Peer, number: usize) {
    let (key, count) = (format!("key-{number}"), 50 + number % 50);
    let keys = vec![serde_bytes::Bytes::new(key.as_bytes()); count];
    let reply = peer.ask(&ExistRequest { lease: false, keys }).await.unwrap();
    assert_eq!(reply.keys as usize, count, "the answer is to this question");
    assert!(!reply.readable(0));
}

/// Cancels at another point each time: within the request, after it, or while the answer comes.
async fn cancelled_exist(peer: &Peer, number: usize) {
    let key = [b'k'; 100];
    let keys = vec![serde_bytes::Bytes::new(&key); 200];
    let frame = encode_request(&ExistRequest { lease: false, keys }, 0, None).unwrap();
    let (mut send, mut receive) = peer.connection.open_bi().await.unwrap();
    match number % 6 {
        1 => {
            let half = send.write_all(&frame[..frame.len() / 2]).await;
            half.unwrap();
            send.reset(VarInt::from_u32(0)).unwrap();
        }
        3 => {
            send.write_all(&frame).await.unwrap();
            send.finish().unwrap();
        }
        _ => {
            send.write_all(&frame).await.unwrap();
            send.finish().unwrap();
            let mut first = [0; 1];
            receive.read_exact(&mut first).await.unwrap();
        }
    }
    receive.stop(VarInt::from_u32(0)).unwrap();
}

#[tokio::test]
async fn a_connection_that_keeps_too_much_is_refused_until_it_lets_go() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let body_bytes = u32::try_from(FRAME_BYTES_MAX).unwrap();
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut frame = header(Kind::Get as u16, body_bytes).to_vec();
        frame.resize(frame.len() + FRAME_BYTES_MAX - 1, 0);
        kept.push(peer.send_unfinished(&frame).await);
    }
    let whole = [&header(Kind::Get as u16, body_bytes)[..], &vec![0; FRAME_BYTES_MAX]].concat();
    let half = peer.send_unfinished(&whole[..FRAME_BYTES_MAX / 2]).await;
    let error = peer.send(&whole).await.error();
    assert_eq!(error.code, ErrorCode::Overloaded);
    assert!(error.retry_after_ms.is_some());
    // Others are not concerned, and neither is this one once it has let go.
    Peer::greeted(&master).await.ask(&ping()).await.unwrap();
    drop((kept, half));
    assert_eq!(peer.send(&whole).await.error().code, ErrorCode::Malformed);
    master.wait_for_metric("mooring_kept_bytes", 0.0);
}

#[tokio::test]
async fn a_client_that_falls_silent_is_asked_to_ping() {
    let master = Master::start(&["--client-ttl", "1"]);
    let peer = Peer::greeted(&master).await;
    peer.ask(&ping()).await.unwrap();
    let mut stream = in_time(peer.connection.accept_uni()).await.unwrap();
    let frame = in_time(stream.read_to_end(1000)).await.unwrap();
    let (head, body) = frame.split_at(REQUEST_HEADER_BYTES);
    let head = RequestHeader::decode(head.try_into().unwrap()).unwrap();
    assert_eq!((head.kind, head.body_bytes as usize), (Kind::Attention, body.len()));
    let attention: Attention = decode_body(body).unwrap();
    assert!(attention.silent_ms >= 1000, "{attention:?}");
}

#[tokio::test]
async fn the_segment_table_is_sent_only_when_it_is_another_one() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let first = peer.ask(&SegmentTableRequest { known: None }).await.unwrap();
    assert_eq!(first.segments, Some(Vec::new()));
    let known = Some((first.incarnation, first.epoch));
    let again = peer.ask(&SegmentTableRequest { known }).await.unwrap();
    assert_eq!(again.segments, None);
}
