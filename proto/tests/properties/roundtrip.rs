//! Every message survives the wire, and nothing shorter or longer passes for it.

use std::fmt::Debug;

use mooring_proto::frame;
use mooring_proto::message::Request;
use mooring_proto::message::data::*;
use mooring_proto::message::inspect::*;
use mooring_proto::message::object::*;
use mooring_proto::message::segment::*;
use mooring_proto::message::session::*;
use mooring_proto::{
    ClientId, ErrorCode, Incarnation, NoSpace, PutToken, Refusal, SegmentId, SegmentsDigest,
    WireError,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests_with_keys_survive_the_wire(
        keys in vec(vec(any::<u8>(), 0..100), 0..12),
        number in any::<u64>(),
        flag in any::<bool>(),
        options in put_options(),
    ) {
        let incarnation = Incarnation(number);
        let keys: Vec<&Bytes> = keys.iter().map(|key| Bytes::new(key)).collect();
        let numbers = (0..64).map(|places| number.rotate_left(places));
        let numbered: Vec<_> = keys.iter().copied().zip(numbers).collect();
        let start = |&(key, number): &(_, u64)| {
            PutStartItem { key, size_bytes: number, put_id: !number }
        };
        let put = |&(key, sequence): &(_, u64)| PutItem { key, sequence };
        let puts: Vec<PutItem> = numbered.iter().map(put).collect();

        survives(&PutStartRequest { options, items: numbered.iter().map(start).collect() });
        survives(&PutEndRequest { incarnation, items: puts.clone() });
        let no_write_in_flight = flag;
        survives(&PutRevokeRequest { incarnation, no_write_in_flight, items: puts.clone() });
        survives(&ValidateRequest { incarnation, items: puts });
        survives(&GetRequest { keys: keys.clone() });
        survives(&ExistRequest { lease: flag, keys: keys.clone() });
        survives(&MatchPrefixRequest { lease: flag, keys: keys.clone() });
        survives(&RemoveRequest { force: flag, keys });
        survives(&RemoveAllRequest { force: flag });
    }

    #[test]
    fn answers_about_keys_survive_the_wire(
        head in any::<(u64, u64, u64)>(),
        grants in vec(prop_oneof![grant().prop_map(Ok), refusal().prop_map(Err)], 0..8),
        places in vec(prop_oneof![located().prop_map(Ok), refusal().prop_map(Err)], 0..8),
        items in vec(prop_oneof![Just(Ok(())), refusal().prop_map(Err)], 0..8),
        matched in any::<u32>(),
    ) {
        let incarnation = Incarnation(head.0);
        let (segment_epoch, discard_timeout_ms) = (head.1, head.2);
        let reply = PutStartReply { incarnation, segment_epoch, discard_timeout_ms, items: grants };
        survives(&reply);
        survives(&GetReply { incarnation, segment_epoch, lease_ttl_ms: head.2, items: places });
        survives(&ItemsReply { items });
        survives(&MatchPrefixReply { matched });
        survives(&RemoveAllReply { removed: head.0, kept: head.1 });
        survives(&PutToken { incarnation, sequence: head.1 });
    }

    #[test]
    fn the_bits_of_an_exist_reply_survive_the_wire(readable in vec(any::<bool>(), 0..300)) {
        let reply = ExistReply::pack(readable.iter().copied());
        survives(&reply);
        prop_assert_eq!(reply.keys as usize, readable.len());
        prop_assert_eq!(reply.bits.len(), readable.len().div_ceil(8));
        let unpacked: Vec<bool> = (0..readable.len()).map(|index| reply.readable(index)).collect();
        prop_assert_eq!(unpacked, readable);
    }

    #[test]
    fn session_messages_survive_the_wire(
        client in any::<u128>(),
        name in "\\PC{0,60}",
        versions in any::<(u16, u16)>(),
        numbers in any::<(u64, u64, u64, u64)>(),
        count in any::<u32>(),
        flag in any::<bool>(),
    ) {
        let (version_min, version_max) = versions;
        let (incarnation, features) = (Incarnation(numbers.0), numbers.1);
        let client = ClientId(client);
        survives(&HelloRequest { client, name: name.clone(), version_min, version_max, features });
        survives(&HelloReply {
            version: version_max,
            features,
            incarnation,
            server: name,
            client_ttl_ms: numbers.2,
            lease_ttl_ms: numbers.3,
            segment_epoch: numbers.1,
        });
        survives(&PingRequest { mounted_segments: count, kept: SegmentsDigest(numbers.1) });
        survives(&PingReply {
            incarnation,
            need_remount: flag,
            segment_epoch: numbers.2,
            client_ttl_ms: numbers.3,
        });
        survives(&Attention { silent_ms: numbers.0 });
    }

    #[test]
    fn segment_messages_survive_the_wire(
        mounts in vec(mount(), 0..6),
        entries in option::of(vec(segment_entry(), 0..6)),
        known in option::of(any::<(u64, u64)>()),
        id in any::<u128>(),
        numbers in any::<(u64, u64)>(),
        place in any::<(u32, u32)>(),
    ) {
        let grant =
            MountGrant { slot: place.0, generation: place.1, incarnation: Incarnation(numbers.0) };
        mounts.iter().for_each(survives);
        survives(&RemountRequest { segments: mounts });
        survives(&grant);
        survives(&RemountReply { grants: vec![grant; 3] });
        survives(&UnmountRequest { segment: SegmentId(id), grace_ms: numbers.1 });
        survives(&UnmountReply { grace_left_ms: numbers.1 });
        let known = known.map(|(incarnation, epoch)| (Incarnation(incarnation), epoch));
        survives(&SegmentTableRequest { known });
        let incarnation = Incarnation(numbers.0);
        survives(&SegmentTableReply { incarnation, epoch: numbers.1, segments: entries });
    }

    #[test]
    fn inspection_survives_the_wire(
        entries in vec(segment_entry(), 0..6),
        left in option::of(any::<u64>()),
        keys in vec((vec(any::<u8>(), 0..50), any::<u64>()), 0..8),
        numbers in any::<(u64, u64, u64, u32)>(),
        name in "\\PC{0,60}",
    ) {
        use SegmentState::{Draining, Leaving, Open, Pending, Quarantined};
        let states = [Open, Quarantined, Draining, Leaving, Pending].into_iter().cycle();
        let row = |(entry, state)| SegmentUse {
            entry,
            state,
            allocated_bytes: numbers.0,
            held_bytes: numbers.1,
            time_left_ms: left,
        };
        survives(&ListSegmentsReply { segments: entries.into_iter().zip(states).map(row).collect() });
        let row = |state| ClientEntry {
            client: ClientId(numbers.0.into()),
            name: name.clone(),
            state,
            silent_ms: numbers.2,
            segments: numbers.3,
        };
        let clients = vec![row(ClientState::Active), row(ClientState::Suspected)];
        survives(&ListClientsReply { clients });
        survives(&ListKeysRequest { cursor: numbers.0, limit: numbers.3 % 65_536 + 1 });
        let row = |(key, size_bytes)| KeyEntry { key: ByteBuf::from(key), size_bytes };
        survives(&ListKeysReply { keys: keys.into_iter().map(row).collect(), next: left });
        let (objects, allocated_bytes, queue) = (numbers.0, numbers.1, numbers.2);
        let shards = vec![ShardStats { objects, allocated_bytes, queue }; 3];
        survives(&StatsReply { objects, resident_bytes: queue, shards, ..StatsReply::default() });
        survives(&StatsRequest {});
        survives(&ListSegmentsRequest {});
        survives(&ListClientsRequest {});
    }

    #[test]
    fn data_messages_survive_the_wire(
        segment in any::<u128>(),
        numbers in any::<(u32, u64, u64, u32)>(),
        length_bytes in 1..=8_388_608_u32,
    ) {
        let range = MountedRange {
            segment: SegmentId(segment),
            generation: numbers.0,
            incarnation: Incarnation(numbers.1),
            offset_bytes: numbers.2,
            length_bytes,
        };
        survives(&ReadRangeRequest { range });
        survives(&ReadRangeReply { length_bytes, crc32c: numbers.3 });
        survives(&WriteRangeRequest { range, crc32c: numbers.3 });
        survives(&WriteRangeReply {});
    }

    #[test]
    fn errors_survive_the_wire(refusal in refusal(), text in "\\PC{0,80}") {
        let error = WireError {
            code: refusal.code,
            text,
            retry_after_ms: refusal.retry_after_ms,
        };
        survives(&error);
        survives(&refusal);
    }

    #[test]
    fn a_frame_holds_the_header_the_trace_and_the_body(
        keys in vec(vec(any::<u8>(), 0..50), 0..6),
        deadline_ms in any::<u32>(),
        trace in option::of(any::<([u8; 16], [u8; 8], u8)>()),
    ) {
        let request = GetRequest { keys: keys.iter().map(|key| Bytes::new(key)).collect() };
        let trace = trace.map(|(trace_id, span_id, flags)| frame::TraceContext {
            trace_id,
            span_id,
            flags,
        });
        let bytes = frame::encode_request(&request, deadline_ms, trace.as_ref()).expect("small");
        let (head, mut rest) = bytes.split_first_chunk().expect("a header");
        let header = frame::RequestHeader::decode(head).expect("a good header");
        prop_assert_eq!(header.kind, GetRequest::KIND);
        prop_assert_eq!(header.deadline_ms, deadline_ms);
        prop_assert_eq!(header.traced, trace.is_some());
        if let Some(trace) = trace {
            let (context, body) = rest.split_first_chunk().expect("a context");
            prop_assert_eq!(frame::TraceContext::decode(context), trace);
            rest = body;
        }
        prop_assert_eq!(header.body_bytes as usize, rest.len());
        prop_assert_eq!(frame::decode_request::<GetRequest>(rest), Ok(request));
    }
}

/// The message decodes to itself; each shorter prefix and one more byte are refused.
fn survives<T: Serialize + PartialEq + Debug + OnWire>(message: &T) {
    let mut bytes = postcard::to_stdvec(message).expect("it can be encoded");
    T::expect_equal(message, &bytes);
    // Long bodies are cut at every place of the first bytes and at a sample of the others.
    let step = bytes.len() / 64 + 1;
    for length in (0..bytes.len().min(64)).chain((0..bytes.len()).step_by(step)) {
        assert_eq!(T::refusal(&bytes[..length]), Some(ErrorCode::Malformed), "cut to {length}");
    }
    for extra in [0x00, 0x01, 0xff] {
        bytes.push(extra);
        assert_eq!(T::refusal(&bytes), Some(ErrorCode::Malformed), "with {extra:#04x} behind");
        bytes.pop();
    }
}

/// Decodes a message in the way of its direction: requests are checked, the rest is not.
trait OnWire: Sized {
    fn expect_equal(&self, bytes: &[u8]);
    fn refusal(bytes: &[u8]) -> Option<ErrorCode>;
}

macro_rules! on_wire {
    ($decode:ident: $($message:ty,)*) => {
        $(
            impl OnWire for $message {
                fn expect_equal(&self, bytes: &[u8]) {
                    let decoded = $decode(bytes);
                    assert_eq!(decoded.as_ref(), Ok(self));
                }

                fn refusal(bytes: &[u8]) -> Option<ErrorCode> {
                    let decoded: Result<$message, WireError> = $decode(bytes);
                    decoded.err().map(|error| error.code)
                }
            }
        )*
    };
}

fn request<'a, R: Request + Deserialize<'a>>(bytes: &'a [u8]) -> Result<R, WireError> {
    frame::decode_request(bytes)
}

fn other<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    frame::decode_body(bytes)
}

on_wire! {
    request:
    HelloRequest, PingRequest, MountRequest, RemountRequest, UnmountRequest, SegmentTableRequest,
    PutStartRequest<'_>, PutEndRequest<'_>, PutRevokeRequest<'_>, GetRequest<'_>,
    ExistRequest<'_>, MatchPrefixRequest<'_>, ValidateRequest<'_>, RemoveRequest<'_>,
    RemoveAllRequest, StatsRequest, ListSegmentsRequest, ListClientsRequest, ListKeysRequest,
    ReadRangeRequest, WriteRangeRequest,
}

on_wire! {
    other:
    HelloReply, PingReply, Attention, MountGrant, RemountReply, UnmountReply, SegmentTableReply,
    PutStartReply, ItemsReply, GetReply, ExistReply, MatchPrefixReply, RemoveAllReply, StatsReply,
    ListSegmentsReply, ListClientsReply, ListKeysReply, ReadRangeReply, WriteRangeReply,
    WireError, Refusal, PutToken,
}

fn put_options() -> impl Strategy<Value = PutOptions> {
    (1..=8_u8, vec(any::<u128>(), 0..=16), any::<bool>(), option::of(any::<u64>())).prop_map(
        |(replicas, preferred, hard_pin, soft_pin_ttl_ms)| PutOptions {
            replicas,
            preferred_segments: preferred.into_iter().map(SegmentId).collect(),
            hard_pin,
            soft_pin_ttl_ms,
        },
    )
}

fn place() -> impl Strategy<Value = RangeDescriptor> {
    any::<(u32, u32, u64)>().prop_map(|(slot, generation, offset_bytes)| RangeDescriptor {
        slot,
        generation,
        offset_bytes,
    })
}

fn grant() -> impl Strategy<Value = PutStartGrant> {
    (any::<u64>(), vec(place(), 0..=8))
        .prop_map(|(sequence, replicas)| PutStartGrant { sequence, replicas: replicas.into() })
}

fn located() -> impl Strategy<Value = Located> {
    (any::<u64>(), any::<u64>(), vec(place(), 0..=8)).prop_map(
        |(size_bytes, sequence, replicas)| Located {
            size_bytes,
            sequence,
            replicas: replicas.into(),
        },
    )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let space = any::<[u64; 5]>().prop_map(|bytes| {
        Box::new(NoSpace {
            free_bytes: bytes[0],
            largest_free_run_bytes: bytes[1],
            leased_bytes: bytes[2],
            pinned_bytes: bytes[3],
            held_bytes: bytes[4],
        })
    });
    let code = proptest::sample::select(ErrorCode::ALL);
    (code, option::of(any::<u32>()), option::of(space))
        .prop_map(|(code, retry_after_ms, no_space)| Refusal { code, retry_after_ms, no_space })
}

fn segment() -> impl Strategy<Value = Segment> {
    let engine = ("\\PC{0,20}", "[a-z]{0,9}", "\\PC{0,20}")
        .prop_map(|(name, protocol, host)| TransferEngine { name, protocol, host });
    let memory = (any::<u128>(), any::<u64>(), any::<u64>(), "\\PC{0,60}");
    (memory, option::of(any::<[u8; 32]>()), option::of(engine)).prop_map(
        |((segment, base, size_bytes, endpoint), certificate_sha256, transfer_engine)| Segment {
            segment: SegmentId(segment),
            base,
            size_bytes,
            endpoint,
            certificate_sha256,
            transfer_engine,
        },
    )
}

fn mount() -> impl Strategy<Value = MountRequest> {
    (segment(), option::of(any::<u64>())).prop_map(|(segment, incarnation)| MountRequest {
        segment,
        mounted_with: incarnation.map(Incarnation),
    })
}

fn segment_entry() -> impl Strategy<Value = SegmentEntry> {
    (any::<u32>(), any::<u32>(), any::<u128>(), segment()).prop_map(
        |(slot, generation, client, segment)| SegmentEntry {
            slot,
            generation,
            client: ClientId(client),
            segment,
        },
    )
}
