//! Bytes on the wire: what is no request, and requests in any shape and order.

use mooring_proto::mooncake::{
    ErrorCode, Function, ObjectMeta, Ping, PutEnd, PutStart, ReplicaType, ReplyError,
    RequestHeader, RpcError, ServiceReady, Uuid, decode_reply,
};

use super::client::{Client, STORE, TENANT, WRITER, config, master};
#[cfg(debug_assertions)]
use crate::harness::http;

fn is_answered(client: &mut Client) -> bool {
    client.call(&ServiceReady {}, |answer| answer.is_ok())
}

fn raw(seq: u32, function_id: u32, body: &[u8]) -> Vec<u8> {
    let body_bytes = u32::try_from(body.len()).unwrap();
    let header = RequestHeader { seq, function_id, body_bytes, attachment_bytes: 0 };
    [&header.encode()[..], body].concat()
}

#[test]
fn what_is_no_frame_closes_the_connection_and_nothing_else() {
    let master = master(&[]);
    let mut other = Client::connect(&master);
    for start in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x15, 1],
        &[0x15, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut client = Client::connect(&master);
        client.write(start);
        assert!(client.receive().is_none(), "{start:?}");
        assert!(is_answered(&mut other));
    }
}

#[test]
fn a_call_that_cannot_be_served_is_refused_and_the_connection_stays() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let refusal = |client: &mut Client, frame: &[u8]| {
        client.write(frame);
        let (header, body) = client.receive().unwrap();
        match mooring_proto::mooncake::decode_reply::<ServiceReady>(&header, &body) {
            Err(ReplyError::Rpc { code, message }) => (header.seq, code, message),
            other => panic!("{other:?}"),
        }
    };
    let (seq, code, message) = refusal(&mut client, &raw(40, 0x1234_5678, b""));
    assert_eq!((seq, code), (40, RpcError::FUNCTION_NOT_REGISTERED));
    assert_eq!(message, "the rpc function not registered");
    let ping = Function::Ping.id();
    for body in [&b""[..], b"\x01", &[0xff; 30]] {
        let (_, code, message) = refusal(&mut client, &raw(41, ping, body));
        assert_eq!(code, RpcError::INVALID_RPC_ARGUMENTS, "{message}");
    }
    assert!(is_answered(&mut client));
}

#[test]
fn a_client_of_another_release_is_told_in_the_log_once_with_both_types() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    // The ping of a release that sent one number.
    let mut body = Vec::new();
    mooring_proto::mooncake::append_body(
        &mut body,
        &5_u64,
        mooring_proto::mooncake::Form::WithLiteral,
    );
    for seq in 0..3 {
        client.write(&raw(seq, Function::Ping.id(), &body));
        let (header, _) = client.receive().unwrap();
        assert_eq!(header.error, 4);
    }
    assert!(is_answered(&mut client));
    let log = master.process.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("another release")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("Ping") && told[0].contains("u64"), "{}", told[0]);
}

#[test]
fn a_frame_above_the_limit_is_refused_before_it_is_there() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let header =
        RequestHeader { seq: 9, function_id: 1, body_bytes: u32::MAX, attachment_bytes: 0 };
    client.write(&header.encode());
    let (header, _) = client.receive().unwrap();
    assert_eq!((header.seq, header.error), (9, 14));
    assert!(client.receive().is_none());
}

#[test]
fn requests_may_come_in_one_piece_or_byte_by_byte() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let frames: Vec<u8> = (0..100).flat_map(|_| client.frame(&ServiceReady {})).collect();
    client.write(&frames);
    let mut seen: Vec<u32> = (0..100).map(|_| client.receive().unwrap().0.seq).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    for byte in client.frame(&Ping { client: STORE }) {
        client.write(&[byte]);
    }
    assert_eq!(client.receive().unwrap().0.error, 0);
}

// Only builds for development can make a shard hang.
#[cfg(debug_assertions)]
#[test]
fn a_ping_does_not_wait_behind_a_put_that_waits() {
    let master = master(&["--shard-layout", "threads"]);
    let mut client = Client::connect(&master);
    client.mount(1, 1 << 20);
    assert_eq!(http(master.metrics(), "POST", "/debug/hang?shard=0", b"").0, 200);
    let config = config();
    client.send(&PutStart {
        client: WRITER,
        key: "waits".into(),
        slice_length: 700 << 10,
        config,
        tenant: TENANT,
    });
    for _ in 0..3 {
        let pinged = client.send(&Ping { client: STORE });
        let (header, _) = client.receive().unwrap();
        assert_eq!((header.seq, header.error), (pinged, 0));
    }
}

#[test]
fn an_end_that_is_sent_behind_a_start_that_waits_for_space_is_applied_behind_it() {
    // On a machine that pauses the start may be answered first, as one that has waited long enough.
    let waits_for_nothing = (0..5).any(|_| end_of_another_key_comes_first());
    assert!(waits_for_nothing, "the end of another key waits for nothing");
}

/// Sends a start that waits, its end, and the end of another key; gives whether the last was answered
/// first.
fn end_of_another_key_comes_first() -> bool {
    let master = master(&["--default-kv-lease-ttl", "1h"]);
    let mut client = Client::connect(&master);
    client.mount(1, 1 << 20);
    let start = |key: &'static str| PutStart {
        client: WRITER,
        key: key.into(),
        slice_length: 700 << 10,
        config: config(),
        tenant: TENANT,
    };
    let end = |key: &'static str| PutEnd {
        client: WRITER,
        meta: ObjectMeta { key: key.into(), object_checksum: None },
        replica_type: ReplicaType::ALL,
        tenant: TENANT,
    };
    client.call(&start("first"), |answer| assert!(answer.is_ok()));
    let parked = client.send(&start("second"));
    let ended = client.send(&end("second"));
    let other_ended = client.send(&end("first"));
    let mut answers = vec![client.receive().unwrap()];
    // The put gets its space here, unless this machine was too slow for it.
    Client::connect(&master).mount(2, 1 << 20);
    answers.extend((0..2).map(|_| client.receive().unwrap()));
    let place = |seq| answers.iter().position(|(header, _)| header.seq == seq).unwrap();
    assert!(place(parked) < place(ended), "an end is applied behind its start");
    let (header, body) = &answers[place(other_ended)];
    assert_eq!(decode_reply::<PutEnd<'_>>(header, body).unwrap(), Ok(()));
    let (header, body) = &answers[place(parked)];
    let granted = decode_reply::<PutStart<'_>>(header, body).unwrap().is_ok();
    let (header, body) = &answers[place(ended)];
    let answer = decode_reply::<PutEnd<'_>>(header, body).unwrap();
    assert_eq!(answer, if granted { Ok(()) } else { Err(ErrorCode::OBJECT_NOT_FOUND) });
    place(other_ended) == 0
}

#[test]
fn hundreds_of_connections_are_served_at_once_and_none_is_closed_for_being_idle() {
    let master = master(&[]);
    let mut clients: Vec<Client> = (0..300).map(|_| Client::connect(&master)).collect();
    for client in &mut clients {
        client.send(&ServiceReady {});
    }
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().0.error, 0);
    }
    for client in &mut clients {
        assert!(is_answered(client));
    }
    let none = Uuid::default();
    assert!(clients[0].call(&Ping { client: none }, |answer| answer.is_ok()));
}

#[test]
fn every_function_is_answered() {
    let master = master(&[]);
    let captures = include_str!("../../../proto/tests/mooncake/captures.txt");
    let mut asked = std::collections::BTreeSet::new();
    for line in captures.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut columns = line.split(' ').skip(1);
        let (function, request) = (columns.next().unwrap(), columns.next().unwrap());
        let bytes: Vec<u8> = (0..request.len() / 2)
            .map(|index| u8::from_str_radix(&request[2 * index..2 * index + 2], 16).unwrap())
            .collect();
        let mut client = Client::connect(&master);
        client.write(&bytes);
        let (header, _) = client.receive().expect(function);
        assert_eq!(header.error, 0, "{function}: not even a refusal as a result");
        asked.insert(function.to_owned());
    }
    let missing = Function::ALL.iter().filter(|function| !asked.contains(function.name()));
    let missing: Vec<_> = missing.map(|function| function.name()).collect();
    let later =
        ["ProbeKey", "BatchProbeKey", "GetReplicaListForAdmin", "BatchGetReplicaListForAdmin"];
    assert_eq!(missing, later, "those of 0.3.14 have tests of their own");
}
