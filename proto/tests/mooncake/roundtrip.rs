//! What one end writes, the other reads, in counts as narrow as they can be.

use mooring_proto::mooncake::*;
use proptest::prelude::*;

use crate::captures::{reply_of, request_of};

/// Writes a request, reads it, and gives its body.
fn there_and_back(call: &Call<'_>, form: Form) -> Vec<u8> {
    let mut frame = b"before".to_vec();
    call.append_to(&mut frame, 77, form).expect("small");
    assert!(frame.starts_with(b"before"));
    let request = request_of(&frame[6..]);
    assert_eq!(request.header.seq, 77);
    assert_eq!(Call::decode(request.header.function_id, request.body).as_ref(), Ok(call));
    request.body.to_vec()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 250..260),
    ]
}

fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(text(), 0..6)
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<(u64, u64)>().prop_map(|(first, second)| Uuid { first, second })
}

fn strs(texts: &[Vec<u8>]) -> Vec<Str<'_>> {
    texts.iter().map(|text| Str(text)).collect()
}

/// A descriptor of each kind in turn.
fn descriptor<'a>(kind: u8, id: u64, name: Str<'a>, client_id: Uuid) -> Descriptor<'a> {
    let buffer_descriptor = BufferDescriptor {
        size: id,
        buffer_address: client_id.first,
        protocol: Str(b"tcp"),
        transport_endpoint: name,
    };
    let place = match kind % 5 {
        0 => Place::Memory(MemoryDescriptor { buffer_descriptor }),
        1 => Place::NoF(NoFDescriptor { buffer_descriptor }),
        2 => Place::Disk(DiskDescriptor { file_path: name, object_size: id }),
        3 => Place::LocalDisk(LocalDiskDescriptor {
            client_id,
            object_size: id,
            transport_endpoint: name,
        }),
        _ => Place::Dfs(DfsDescriptor {
            file_path: name,
            offset: client_id.first,
            object_size: id,
            aligned_size: client_id.second,
            shard_idx: -1,
        }),
    };
    Descriptor { id, place, status: ReplicaStatus(i32::from(kind)) }
}

/// An item of a batch: a replica, or sometimes an error.
fn item(entry: &(u8, u64, Vec<u8>, Uuid), error: i32) -> Expected<Descriptor<'_>> {
    let (kind, id, name, client) = entry;
    match kind % 6 {
        5 => Err(ErrorCode(error)),
        _ => Ok(descriptor(*kind, *id, Str(name), *client)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn puts_come_back_as_they_were(
        client in uuid(), keys in texts(), sizes in prop::collection::vec(any::<u64>(), 0..6),
        names in texts(), groups in prop::option::of(texts()), one in text(),
        ttl in prop::option::of(any::<u64>()), flags in any::<[bool; 3]>(),
        numbers in any::<[u8; 3]>(), checksum in prop::option::of(any::<u64>()), replica_type in any::<i32>(),
    ) {
        let config = ReplicateConfig {
            replica_num: numbers[0].into(),
            nof_replica_num: u64::MAX,
            dfs_replica_num: 0,
            soft_pin_action: SoftPinAction(numbers[1]),
            soft_pin_ttl_ms: ttl,
            with_hard_pin: flags[0],
            preferred_segments: strs(&names),
            preferred_segment: Str(&one),
            preferred_nof_segments: strs(&names),
            prefer_alloc_in_same_node: flags[1],
            data_type: ObjectDataType(numbers[2]),
            host_id: Str(&one),
            group_ids: groups.as_deref().map(strs),
        };
        let form = if flags[2] { Form::Plain } else { Form::WithLiteral };
        let tenant = Str(&one);
        there_and_back(&Call::PutStart(PutStart {
            client, key: Str(&one), slice_length: 5, config: config.clone(), tenant,
        }), form);
        there_and_back(&Call::BatchPutStart(BatchPutStart {
            client, keys: strs(&keys), slice_lengths: sizes, config, tenant,
        }), form);
        let metas = keys.iter().map(|key| ObjectMeta { key: Str(key), object_checksum: checksum });
        there_and_back(&Call::BatchPutEnd(BatchPutEnd {
            client, metas: metas.collect(), replica_type: ReplicaType(replica_type), tenant,
        }), form);
    }

    #[test]
    fn segments_come_back_as_they_were(
        id in uuid(), client in uuid(), base in any::<u64>(), size in any::<u64>(),
        names in [text(), text()],
    ) {
        let segment = Segment {
            id, name: Str(&names[0]), base, size, te_endpoint: Str(&names[1]),
            protocol: Str(b"rdma"), host_id: Str(&names[0]),
        };
        let segments = vec![segment.clone(), segment];
        there_and_back(&Call::ReMountSegment(ReMountSegment { segments, client }), Form::Plain);
    }

    #[test]
    fn a_reply_is_the_same_from_a_list_and_from_an_iterator(
        kinds in prop::collection::vec((any::<u8>(), any::<u64>(), text(), uuid()), 0..300),
        error in any::<i32>(), lease_ttl_ms in any::<u64>(),
        checksum in prop::option::of(any::<u64>()),
    ) {
        let listed: Vec<_> = kinds.iter().map(|kind| {
            item(kind, error).map(|replica| GetReplicaListResponse {
                replicas: vec![replica], lease_ttl_ms, object_checksum: checksum,
            })
        }).collect();
        let each = Each(kinds.iter().map(|kind| {
            item(kind, error).map(|replica| GetReplicaListResponse {
                replicas: Each(std::iter::once(replica)), lease_ttl_ms, object_checksum: checksum,
            })
        }));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        append_reply::<BatchGetReplicaList<'_>, _>(&mut one, 9, &listed, Form::Plain)
            .expect("small");
        append_reply::<BatchGetReplicaList<'_>, _>(&mut other, 9, &each, Form::Plain)
            .expect("small");
        prop_assert_eq!(&one, &other);
        let reply = reply_of(&one);
        prop_assert_eq!(reply.header.seq, 9);
        let read = decode_reply::<BatchGetReplicaList<'_>>(&reply.header, reply.body);
        prop_assert_eq!(read, Ok(listed));
    }
}

#[test]
fn counts_are_as_narrow_as_the_largest_allows() {
    let widths = [(0, 0x00), (255, 0x00), (256, 0x08), (65_535, 0x08), (65_536, 0x10)];
    for (length, form) in widths {
        let key = vec![b'k'; length];
        let body = there_and_back(
            &Call::ExistKey(ExistKey { key: Str(&key), tenant: Str(b"default") }),
            Form::Plain,
        );
        let keys = vec![Str(b""); length];
        let batch = there_and_back(
            &Call::BatchExistKey(BatchExistKey { keys, tenant: Str(b"default") }),
            Form::Plain,
        );
        for body in [body, batch] {
            assert_eq!(body[0] & 1 == 1, form != 0, "{length}");
            assert!(form == 0 || body[4] == form, "{length}");
        }
    }
    // The count that needs most comes last.
    let keys = vec![Str(b"k"); 300];
    let tenant = vec![b't'; 70_000];
    let body = there_and_back(
        &Call::BatchExistKey(BatchExistKey { keys, tenant: Str(&tenant) }),
        Form::WithLiteral,
    );
    assert_eq!(body[4], 0x14);
}

#[test]
fn a_map_keeps_the_order_of_its_entries() {
    let id = |first| Uuid { first, second: 0 };
    let addresses = Map(vec![(id(2), vec![Str(b"10.0.0.2")]), (id(1), vec![])]);
    let mut frame = Vec::new();
    append_reply::<BatchQueryIp, _>(&mut frame, 0, &Expected::Ok(addresses.clone()), Form::Plain)
        .expect("small");
    let reply = reply_of(&frame);
    assert_eq!(decode_reply::<BatchQueryIp>(&reply.header, reply.body), Ok(Ok(addresses)));
}

#[test]
fn tuples_of_all_lengths_go_member_by_member() {
    let mut body = Vec::new();
    let seven = (1_i8, 2_u8, 3_i16, 4_u16, true, 5_i32, (6_u32, 0.5_f32, 0.25_f64));
    append_body(&mut body, &seven, Form::WithLiteral);
    assert_eq!(
        readable_type_of(&body).as_deref(),
        Some("{i8, u8, i16, u16, bool, i32, {u32, f32, f64}}")
    );
    assert_eq!(decode_body(&body), Ok(seven));
}
