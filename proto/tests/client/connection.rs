//! Connecting, losing the connection, retries and deadlines.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mooring_proto::client::{Client, ClientConfig, ClientError, ClientTls};
use mooring_proto::frame::{REQUEST_HEADER_BYTES, RequestHeader, encode_request};
use mooring_proto::message::inspect::{StatsReply, StatsRequest};
use mooring_proto::message::object::{ItemsReply, RemoveAllReply, RemoveAllRequest, RemoveRequest};
use mooring_proto::message::segment::SegmentTableRequest;
use mooring_proto::message::session::{ALPN_MASTER, Attention, HelloRequest};
use mooring_proto::message::{Kind, Request};
use mooring_proto::{ErrorCode, Incarnation, Refusal, WireError, close};
use quinn::{ReadError, ReadToEndError};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::fake::{Answer, Call, Server, Setup, greet, refuse, refuse_with, reply};
use crate::soon;

const FIRST: Incarnation = Incarnation(1);
const SECOND: Incarnation = Incarnation(2);
const TTL_MS: u64 = 60_000;

fn stats(objects: u64) -> Answer {
    reply::<StatsRequest>(&StatsReply { objects, ..StatsReply::default() })
}

/// Counts the requests of one kind.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    /// How many came before this one.
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn total(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_restart_of_the_master_is_waited_out_from_a_new_local_port() {
    let ports = Arc::new(Mutex::new(Vec::<SocketAddr>::new()));
    let serve = |incarnation: Incarnation, objects| {
        let ports = ports.clone();
        move |call: &Call| match call.kind {
            Kind::Stats => {
                ports.lock().unwrap().push(call.from);
                stats(objects)
            }
            _ => greet(call, incarnation, TTL_MS),
        }
    };
    let server = Server::master(serve(FIRST, 1));
    let client = soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(client.stats().await.unwrap().objects, 1);
    let _server = soon(server.restart(serve(SECOND, 2))).await;
    assert_eq!(soon(client.stats()).await.unwrap().objects, 2);
    assert_eq!(client.master().await.unwrap().incarnation, SECOND);
    let ports = ports.lock().unwrap();
    assert_ne!(ports[0].port(), ports[1].port());
}

#[tokio::test]
async fn a_request_that_the_connection_was_lost_over_is_sent_again() {
    let asked = Count::default();
    let count = asked.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Stats if count.next() == 0 => Answer::Close(close::RESTARTING),
        Kind::Stats => stats(7),
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(soon(client.stats()).await.unwrap().objects, 7);
    assert_eq!(asked.total(), 2);
}

#[tokio::test]
async fn no_common_version_is_told_at_once_and_not_tried_again() {
    for code in [ErrorCode::UnsupportedVersion, ErrorCode::Forbidden] {
        let hellos = Count::default();
        let count = hellos.clone();
        let server = Server::master(move |call| {
            count.next();
            refuse_with(call, code)
        });
        let error = soon(Client::connect(server.config())).await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(hellos.total(), 1);
    }
}

#[tokio::test]
async fn a_connection_closed_for_its_version_is_not_opened_again() {
    let server = Server::master(|_| Answer::Close(close::VERSION));
    let error = soon(Client::connect(server.config())).await.unwrap_err();
    let ClientError::Closed { code, reason } = error else { panic!("{error:?}") };
    assert_eq!((code, reason.as_str()), (Some(u64::from(close::VERSION)), "told to"));
}

#[tokio::test]
async fn a_client_that_the_next_master_refuses_ends_and_says_why() {
    let server = Server::master(|call| greet(call, FIRST, TTL_MS));
    let client = soon(Client::connect(server.config())).await.unwrap();
    let _server =
        soon(server.restart(|call| refuse_with(call, ErrorCode::UnsupportedVersion))).await;
    let why = soon(client.ended()).await;
    assert_eq!(why.code(), Some(ErrorCode::UnsupportedVersion));
    assert_eq!(client.stats().await.unwrap_err().code(), Some(ErrorCode::UnsupportedVersion));
}

#[tokio::test]
async fn a_master_that_is_not_ready_is_asked_again() {
    let hellos = Count::default();
    let count = hellos.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Hello if count.next() < 2 => {
            refuse(call, &WireError::new(ErrorCode::NotReady, "restoring").retry_after_ms(5))
        }
        _ => greet(call, FIRST, TTL_MS),
    });
    soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(hellos.total(), 3);
}

#[tokio::test]
async fn an_overloaded_master_is_asked_again_after_its_hint() {
    let asked = Count::default();
    let count = asked.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Stats if count.next() < 2 => {
            refuse(call, &WireError::new(ErrorCode::Overloaded, "full").retry_after_ms(5))
        }
        Kind::Stats => stats(3),
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(soon(client.stats()).await.unwrap().objects, 3);
    assert_eq!(asked.total(), 3);
}

#[tokio::test]
async fn other_refusals_and_a_removal_of_everything_are_not_retried() {
    let asked = Count::default();
    let count = asked.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::RemoveAll if count.next() == 0 => refuse_with(call, ErrorCode::Overloaded),
        Kind::RemoveAll => reply::<RemoveAllRequest>(&RemoveAllReply::default()),
        Kind::Stats => {
            count.next();
            refuse_with(call, ErrorCode::Forbidden)
        }
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    assert_eq!(client.remove_all(false).await.unwrap_err().code(), Some(ErrorCode::Overloaded));
    assert_eq!(client.stats().await.unwrap_err().code(), Some(ErrorCode::Forbidden));
    assert_eq!(asked.total(), 2);
}

#[tokio::test]
async fn a_key_that_is_gone_after_a_lost_answer_counts_as_removed() {
    let asked = Count::default();
    let count = asked.clone();
    let server = Server::master(move |call| match call.kind {
        Kind::Remove if count.next() == 0 => Answer::Close(close::RESTARTING),
        Kind::Remove => {
            let gone = Err(Refusal::from(ErrorCode::NotFound));
            let leased = Err(Refusal::from(ErrorCode::Leased));
            reply::<RemoveRequest<'_>>(&ItemsReply { items: vec![gone, leased] })
        }
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    let lost = soon(client.remove(&["a", "b"], false)).await.unwrap();
    assert_eq!(lost, [Ok(()), Err(Refusal::from(ErrorCode::Leased))]);
    let plain = soon(client.remove(&["a", "b"], false)).await.unwrap();
    assert_eq!(plain[0], Err(Refusal::from(ErrorCode::NotFound)));
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline_and_gives_its_stream_up() {
    let mut server = Server::master(|call| match call.kind {
        Kind::Stats => Answer::Silence,
        _ => greet(call, FIRST, TTL_MS),
    });
    let mut config = server.config();
    config.request_timeout_ms = 200;
    let client = soon(Client::connect(config)).await.unwrap();
    let error = soon(client.stats()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error:?}");
    assert_eq!(soon(server.abandoned.recv()).await, Some(Kind::Stats));
}

#[tokio::test]
async fn a_dropped_call_gives_its_stream_up() {
    let (told, mut asked) = mpsc::unbounded_channel();
    let mut server = Server::master(move |call| match call.kind {
        Kind::Stats => {
            told.send(()).unwrap();
            Answer::Silence
        }
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    tokio::select! {
        outcome = client.stats() => panic!("{outcome:?}"),
        _ = asked.recv() => {}
    }
    assert_eq!(soon(server.abandoned.recv()).await, Some(Kind::Stats));
}

#[tokio::test]
async fn a_call_dropped_in_the_middle_of_its_request_is_reset_and_not_ended() {
    let setup = Setup::new(ALPN_MASTER);
    let endpoint = quinn::Endpoint::server(setup.config(), setup.address).unwrap();
    let address = endpoint.local_addr().unwrap();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (dropped, drops) = tokio::sync::oneshot::channel::<()>();
    let master = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let mut drops = Some(drops);
        loop {
            let (mut send, mut receive) = connection.accept_bi().await.unwrap();
            let mut head = [0; REQUEST_HEADER_BYTES];
            receive.read_exact(&mut head).await.unwrap();
            let kind = RequestHeader::decode(&head).unwrap().kind;
            if kind == Kind::Get {
                begun.send(()).unwrap();
                drops.take().unwrap().await.unwrap();
                return receive.read_to_end(16 << 20).await;
            }
            let Answer::Bytes(bytes) = greet(&Call::empty(kind, address), FIRST, TTL_MS) else {
                panic!("{kind:?}");
            };
            send.write_all(&bytes).await.unwrap();
        }
    });
    let tls = ClientTls::pinned(setup.certificate.sha256());
    let client = soon(Client::connect(ClientConfig::new(address.to_string(), tls))).await.unwrap();
    // More than the server takes in before it reads.
    let keys = vec![[7; 96]; 60_000];
    tokio::select! {
        outcome = client.get(&keys) => panic!("{outcome:?}"),
        _ = begins.recv() => {}
    }
    dropped.send(()).unwrap();
    let read = soon(master).await.unwrap();
    assert!(matches!(read, Err(ReadToEndError::Read(ReadError::Reset(_)))), "{read:?}");
}

#[tokio::test]
async fn an_unreachable_master_is_told_with_the_last_failure() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let tls = ClientTls::pinned([0; 32]);
    let address = silent.local_addr().unwrap().to_string();
    let mut config = ClientConfig::new(address.clone(), tls);
    config.connect_timeout_ms = 50;
    config.request_timeout_ms = 300;
    let error = soon(Client::connect(config)).await.unwrap_err();
    let ClientError::Timeout { last: Some(last), .. } = error else { panic!("{error:?}") };
    let ClientError::Connect { address: tried, .. } = *last else { panic!("{last:?}") };
    assert_eq!(tried, address);
}

#[tokio::test]
async fn the_master_can_ask_for_a_ping() {
    let (told, mut pings) = mpsc::unbounded_channel();
    let server = Server::master(move |call| {
        if call.kind == Kind::Ping {
            told.send(()).unwrap();
        }
        greet(call, FIRST, 600_000)
    });
    let _client = soon(Client::connect(server.config())).await.unwrap();
    soon(pings.recv()).await.unwrap();
    server.tell_all(&attention()).await;
    soon(pings.recv()).await.unwrap();
}

/// An attention as the master frames it.
fn attention() -> Vec<u8> {
    #[derive(Serialize)]
    struct Framed(Attention);
    impl Request for Framed {
        const KIND: Kind = Kind::Attention;
        type Reply = ();
    }
    encode_request(&Framed(Attention { silent_ms: 1 }), 0, None).unwrap()
}

#[tokio::test]
async fn pings_come_every_fifth_of_the_ttl() {
    let (told, mut pings) = mpsc::unbounded_channel();
    let server = Server::master(move |call| {
        if call.kind == Kind::Ping {
            told.send(()).unwrap();
        }
        greet(call, FIRST, 500)
    });
    let started = std::time::Instant::now();
    let _client = soon(Client::connect(server.config())).await.unwrap();
    for _ in 0..4 {
        soon(pings.recv()).await.unwrap();
    }
    let elapsed_ms = started.elapsed().as_millis();
    assert!((300..3_000).contains(&elapsed_ms), "{elapsed_ms}");
}

#[tokio::test]
async fn a_closed_client_answers_what_still_waits() {
    let (told, mut asked) = mpsc::unbounded_channel();
    let server = Server::master(move |call| match call.kind {
        Kind::Stats => {
            told.send(()).unwrap();
            Answer::Silence
        }
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    let other = client.clone();
    let waiting = tokio::spawn(async move { other.stats().await });
    soon(asked.recv()).await.unwrap();
    soon(client.close()).await;
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Ended), "{error:?}");
    assert!(matches!(client.ended().await, ClientError::Ended));
}

#[tokio::test]
async fn a_reply_of_another_kind_is_a_violation() {
    let server = Server::master(|call| match call.kind {
        Kind::Stats => reply::<RemoveAllRequest>(&RemoveAllReply::default()),
        Kind::SegmentTable => Answer::Bytes(b"MR".to_vec()),
        _ => greet(call, FIRST, TTL_MS),
    });
    let client = soon(Client::connect(server.config())).await.unwrap();
    let kind = soon(client.stats()).await.unwrap_err();
    assert!(matches!(kind, ClientError::Protocol(_)), "{kind:?}");
    let short = soon(client.call(&SegmentTableRequest { known: None })).await.unwrap_err();
    assert!(matches!(short, ClientError::Protocol(_)), "{short:?}");
}

#[tokio::test]
async fn the_hello_says_who_connects() {
    let (told, mut hellos) = mpsc::unbounded_channel();
    let server = Server::master(move |call| {
        if call.kind == Kind::Hello {
            told.send(call.message::<HelloRequest>()).unwrap();
        }
        greet(call, FIRST, TTL_MS)
    });
    let mut config = server.config();
    config.name = "a test".to_owned();
    let client = soon(Client::connect(config)).await.unwrap();
    let hello = soon(hellos.recv()).await.unwrap();
    assert_eq!((hello.name.as_str(), hello.client), ("a test", client.id()));
    assert_eq!(hello.negotiate(), Ok(1));
}
