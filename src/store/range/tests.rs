//! Requests as bytes in, answers as bytes out.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use mooring_proto::client::Mounts as Grants;
use mooring_proto::frame::{
    REPLY_HEADER_BYTES, ReplyHeader, TraceContext, decode_body, encode_request,
};
use mooring_proto::limits::RANGE_BYTES_MAX;
use mooring_proto::message::Request;
use mooring_proto::message::data::MountedRange;
use mooring_proto::message::inspect::StatsRequest;
use mooring_proto::message::segment::MountGrant;
use mooring_proto::{Incarnation, SegmentId};
use tokio::sync::watch;

use super::*;
use crate::store::memory::SegmentMemory;

const RANGE: MountedRange = MountedRange {
    segment: SegmentId(7),
    generation: 5,
    incarnation: Incarnation(9),
    offset_bytes: 100,
    length_bytes: 4,
};

/// What a service buffers that is told to buffer as little as it can, for one peer and for all.
const BUFFER_BYTES: usize = RANGE_BYTES_MAX;

fn service() -> (RangeService, watch::Sender<Grants>) {
    service_of(4096)
}

fn service_of(size_bytes: usize) -> (RangeService, watch::Sender<Grants>) {
    let grant = MountGrant { slot: 3, generation: 5, incarnation: Incarnation(9) };
    let (sender, grants) = watch::channel(Grants::from([(SegmentId(7), grant)]));
    let memory = SegmentMemory::map(size_bytes, false).unwrap();
    let mounts = Mounts::new(HashMap::from([(SegmentId(7), memory)]), grants);
    (RangeService::new(mounts, 0), sender)
}

fn write_request(range: MountedRange, bytes: &[u8]) -> Vec<u8> {
    let crc32c = crc32c::crc32c(bytes);
    let mut request = encode_request(&WriteRangeRequest { range, crc32c }, 0, None).unwrap();
    request.extend_from_slice(bytes);
    request
}

async fn answer(service: &RangeService, mut request: &[u8]) -> Answer {
    service.answer(&service.peer_buffer(), &mut request).await.unwrap()
}

/// The reply to a read, with the bytes.
async fn read(service: &RangeService, range: MountedRange) -> (ReadRangeReply, Bytes) {
    let request = encode_request(&ReadRangeRequest { range }, 0, None).unwrap();
    let answer = answer(service, &request).await;
    assert!(!answer.refused);
    let reply = decode_body(&answer.frame[REPLY_HEADER_BYTES..]).unwrap();
    (reply, answer.bytes)
}

/// Polls once.
async fn is_pending<T>(mut future: Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// The code of a refusal, with the kind that it repeats.
fn refusal(answer: &Answer) -> (ErrorCode, u16) {
    assert!(answer.refused && answer.bytes.is_empty());
    let error: WireError = decode_body(&answer.frame[REPLY_HEADER_BYTES..]).unwrap();
    (error.code, u16::from_le_bytes([answer.frame[4], answer.frame[5]]))
}

async fn refused(request: &[u8]) -> (ErrorCode, u16) {
    let (service, _sender) = service();
    refusal(&answer(&service, request).await)
}

#[tokio::test]
async fn written_bytes_are_read_with_their_checksum() {
    let (service, _sender) = service();
    let written = answer(&service, &write_request(RANGE, b"four")).await;
    let header = ReplyHeader::decode(written.frame[..REPLY_HEADER_BYTES].try_into().unwrap());
    assert_eq!(header.unwrap().status, 0);
    let (reply, bytes) = read(&service, RANGE).await;
    assert_eq!(bytes, "four");
    assert_eq!(reply, ReadRangeReply { length_bytes: 4, crc32c: crc32c::crc32c(b"four") });
}

#[tokio::test]
async fn a_trace_context_is_skipped() {
    let (service, _sender) = service();
    let trace = TraceContext { trace_id: [1; 16], span_id: [2; 8], flags: 1 };
    let request = encode_request(&ReadRangeRequest { range: RANGE }, 0, Some(&trace)).unwrap();
    assert!(!answer(&service, &request).await.refused);
}

#[tokio::test]
async fn damaged_bytes_are_refused_and_not_written() {
    let (service, _sender) = service();
    let mut request = write_request(RANGE, b"four");
    *request.last_mut().unwrap() ^= 1;
    let kind = WriteRangeRequest::KIND as u16;
    assert_eq!(refusal(&answer(&service, &request).await), (ErrorCode::ChecksumMismatch, kind));
    assert_eq!(read(&service, RANGE).await.1, [0; 4].as_slice());
}

#[tokio::test]
async fn a_write_that_breaks_off_or_goes_on_is_malformed_and_not_written() {
    let (service, _sender) = service();
    let request = write_request(RANGE, b"four");
    for length in 0..request.len() {
        let answer = answer(&service, &request[..length]).await;
        assert_eq!(refusal(&answer).0, ErrorCode::Malformed, "cut at {length}");
    }
    let longer = [request.as_slice(), b"!"].concat();
    assert_eq!(refusal(&answer(&service, &longer).await).0, ErrorCode::Malformed);
    assert_eq!(read(&service, RANGE).await.1, [0; 4].as_slice());
}

#[tokio::test]
async fn a_write_of_another_mount_is_refused_before_its_bytes_are_read() {
    let range = MountedRange { generation: 4, ..RANGE };
    let announced = write_request(range, b"four");
    let without_bytes = &announced[..announced.len() - 4];
    assert_eq!(refused(without_bytes).await.0, ErrorCode::WrongMount);
}

#[tokio::test]
async fn ranges_outside_of_the_segment_or_above_the_limit_are_refused() {
    let outside = MountedRange { offset_bytes: 4093, ..RANGE };
    assert_eq!(refused(&write_request(outside, b"four")).await.0, ErrorCode::OutOfRange);
    let request = |length_bytes| {
        let range = MountedRange { length_bytes, ..RANGE };
        encode_request(&ReadRangeRequest { range }, 0, None).unwrap()
    };
    assert_eq!(refused(&request(0)).await.0, ErrorCode::InvalidArgument);
    assert_eq!(refused(&request(u32::MAX)).await.0, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn requests_to_a_master_and_unknown_ones_are_of_an_unknown_kind() {
    let stats = encode_request(&StatsRequest {}, 0, None).unwrap();
    assert_eq!(refused(&stats).await, (ErrorCode::UnknownKind, StatsRequest::KIND as u16));
    let mut unknown = stats;
    unknown[4..6].copy_from_slice(&999_u16.to_le_bytes());
    assert_eq!(refused(&unknown).await, (ErrorCode::UnknownKind, 999));
}

#[tokio::test]
async fn a_long_body_is_refused_by_its_header() {
    let mut request = encode_request(&ReadRangeRequest { range: RANGE }, 0, None).unwrap();
    request[8..12].copy_from_slice(&1000_u32.to_le_bytes());
    assert_eq!(refused(&request[..REQUEST_HEADER_BYTES]).await.0, ErrorCode::TooLarge);
}

#[tokio::test]
async fn garbage_is_malformed() {
    assert_eq!(refused(&[0xa5; 64]).await.0, ErrorCode::Malformed);
    assert_eq!(refused(&[]).await.0, ErrorCode::Malformed);
}

#[tokio::test]
async fn the_buffer_bounds_what_waits_for_its_reader() {
    let (service, _sender) = service();
    let free_before = service.buffer.free_bytes();
    let request = encode_request(&ReadRangeRequest { range: RANGE }, 0, None).unwrap();
    let waiting = answer(&service, &request).await;
    assert_eq!(service.buffer.free_bytes(), free_before - (1 << 10));
    drop(waiting);
    assert_eq!(service.buffer.free_bytes(), free_before);
}

#[tokio::test]
async fn announced_bytes_that_do_not_come_take_no_room_from_others() {
    const LENGTH_BYTES: u32 = 8 << 20;
    let (service, _sender) = service_of(LENGTH_BYTES as usize);
    let range = MountedRange { offset_bytes: 0, length_bytes: LENGTH_BYTES, ..RANGE };
    let bytes = vec![7; LENGTH_BYTES as usize];
    let request = write_request(range, &bytes);
    let header_alone = &request[..request.len() - bytes.len()];
    let (_keeps_open, silent) = tokio::io::duplex(1);
    let mut stalled = header_alone.chain(silent);
    let greedy = service.peer_buffer();
    let mut waiting = std::pin::pin!(service.answer(&greedy, &mut stalled));
    assert!(is_pending(waiting.as_mut()).await);
    assert!(!answer(&service, &request).await.refused);
    assert!(is_pending(waiting.as_mut()).await);
}

/// All its bytes have come, so there is nothing left on their way that could be reset.
#[tokio::test]
async fn a_write_that_waits_for_room_and_is_given_up_is_not_carried_out() {
    for gives_up in [false, true] {
        let (service, _sender) = service();
        let peer = service.peer_buffer();
        let room = service.buffer.room(&peer, BUFFER_BYTES).await.unwrap();
        let request = write_request(RANGE, b"four");
        let mut bytes = request.as_slice();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        {
            let stopped = async { stopped.await.unwrap_or(()) };
            let answering = service.answer_while_wanted(&peer, &mut bytes, stopped);
            let mut answering = std::pin::pin!(answering);
            assert!(is_pending(answering.as_mut()).await);
            let keeps = match gives_up {
                true => stop.send(()).map(|()| None).unwrap(),
                false => Some(stop),
            };
            // Both are there at once.
            drop(room);
            assert_eq!(answering.await.is_err(), gives_up);
            drop(keeps);
        }
        let expected: &[u8] = if gives_up { &[0; 4] } else { b"four" };
        assert_eq!(read(&service, RANGE).await.1, expected);
    }
}
