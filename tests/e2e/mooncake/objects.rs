//! The life of objects.

use mooring_proto::mooncake::{
    BatchExistKey, BatchGetReplicaList, BatchPutEnd, BatchPutRevoke, BatchPutStart, BatchRemove,
    BatchReplicaClear, ErrorCode, ExistKey, Expected, GetReplicaList, GetReplicaListByRegex,
    GetReplicaListForAdmin, ObjectMeta, ProbeKey, PutEnd, PutRevoke, PutStart, Remove, RemoveAll,
    RemoveByRegex, ReplicaStatus, ReplicaType, Request, Str, UpsertEnd, UpsertStart, Uuid,
};

use super::client::{Client, TENANT, WRITER, config, master, place_of};

const MIB: u64 = 1 << 20;
const OTHER: Uuid = Uuid { first: 5, second: 6 };

fn start<'a>(client: Uuid, key: &'a str, bytes: u64) -> PutStart<'a> {
    PutStart { client, key: key.into(), slice_length: bytes, config: config(), tenant: TENANT }
}

fn end<'a>(client: Uuid, key: &'a str, checksum: Option<u64>) -> PutEnd<'a> {
    let meta = ObjectMeta { key: key.into(), object_checksum: checksum };
    PutEnd { client, meta, replica_type: ReplicaType::ALL, tenant: TENANT }
}

fn remove(key: &str, force: bool) -> Remove<'_> {
    Remove { key: key.into(), force, tenant: TENANT }
}

fn get(key: &str) -> GetReplicaList<'_> {
    GetReplicaList { key: key.into(), tenant: TENANT }
}

/// The address and the size of each replica.
type Places = Vec<(u64, u64)>;

/// Where a put may be written.
fn started<
    R: for<'r> Request<Reply<'r> = Expected<Vec<mooring_proto::mooncake::Descriptor<'r>>>>,
>(
    client: &mut Client,
    request: &R,
) -> Expected<Places> {
    client.call(request, |answer| {
        answer.map(|replicas| {
            assert!(replicas.iter().all(|it| it.status == ReplicaStatus::PROCESSING));
            replicas.iter().map(place_of).collect()
        })
    })
}

/// Where an object can be read, and its checksum.
fn read(client: &mut Client, key: &str) -> Expected<(Places, Option<u64>)> {
    client.call(&get(key), |answer| {
        answer.map(|found| {
            assert!(found.replicas.iter().all(|it| it.status == ReplicaStatus::COMPLETE));
            assert_eq!(found.lease_ttl_ms, 10_000);
            (found.replicas.iter().map(place_of).collect(), found.object_checksum)
        })
    })
}

fn put(client: &mut Client, key: &str, bytes: u64) -> Places {
    let places = started(client, &start(WRITER, key, bytes)).unwrap();
    client.call(&end(WRITER, key, None), Expected::unwrap);
    places
}

#[test]
fn what_was_put_is_readable_where_it_was_written_until_it_is_removed() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    let places = started(&mut client, &start(WRITER, "k", 5000)).unwrap();
    assert!(
        matches!(places[..], [(address, 5000)] if (1 << 40..(1 << 40) + 16 * MIB).contains(&address))
    );
    assert_eq!(read(&mut client, "k"), Err(ErrorCode::REPLICA_IS_NOT_READY));
    client.call(&end(WRITER, "k", Some(77)), Expected::unwrap);
    client.call(&end(WRITER, "k", Some(77)), Expected::unwrap);
    assert_eq!(read(&mut client, "k"), Ok((places, Some(77))));
    assert_eq!(client.call(&remove("k", false), |answer| answer), Err(ErrorCode::OBJECT_HAS_LEASE));
    client.call(&remove("k", true), Expected::unwrap);
    assert_eq!(read(&mut client, "k"), Err(ErrorCode::OBJECT_NOT_FOUND));
}

#[test]
fn a_start_is_refused_where_the_existing_master_refuses_it() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let refusal = |client: &mut Client, request: &PutStart<'_>| {
        started(client, request).expect_err("refused")
    };
    let no_memory = refusal(&mut client, &start(WRITER, "k", 10));
    assert_eq!(no_memory, ErrorCode::NO_AVAILABLE_HANDLE);
    client.mount(1, 16 * MIB);
    assert_eq!(refusal(&mut client, &start(WRITER, "", 10)), ErrorCode::INVALID_PARAMS);
    assert_eq!(refusal(&mut client, &start(WRITER, "k", 0)), ErrorCode::INVALID_PARAMS);
    let large = refusal(&mut client, &start(WRITER, "k", 17 * MIB));
    assert_eq!(large, ErrorCode::NO_AVAILABLE_HANDLE);
    let mut nothing = start(WRITER, "k", 10);
    nothing.config.replica_num = 0;
    assert_eq!(refusal(&mut client, &nothing), ErrorCode::INVALID_PARAMS);
    started(&mut client, &start(WRITER, "k", 10)).unwrap();
    for writer in [WRITER, OTHER] {
        let again = refusal(&mut client, &start(writer, "k", 10));
        assert_eq!(again, ErrorCode::OBJECT_ALREADY_EXISTS);
    }
}

#[test]
fn only_the_writer_ends_and_revokes_its_put() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    let revoke = |client, key: &'static str| PutRevoke {
        client,
        key: key.into(),
        replica_type: ReplicaType::MEMORY,
        tenant: TENANT,
    };
    let ended =
        |client: &mut Client, writer, key| client.call(&end(writer, key, None), |answer| answer);
    assert_eq!(ended(&mut client, WRITER, "k"), Err(ErrorCode::OBJECT_NOT_FOUND));
    started(&mut client, &start(WRITER, "k", 10)).unwrap();
    assert_eq!(ended(&mut client, OTHER, "k"), Err(ErrorCode::ILLEGAL_CLIENT));
    let revoked = client.call(&revoke(OTHER, "k"), |answer| answer);
    assert_eq!(revoked, Err(ErrorCode::ILLEGAL_CLIENT));
    client.call(&revoke(WRITER, "k"), Expected::unwrap);
    assert_eq!(ended(&mut client, WRITER, "k"), Err(ErrorCode::OBJECT_NOT_FOUND));
    put(&mut client, "k", 10);
    let revoked = client.call(&revoke(WRITER, "k"), |answer| answer);
    assert_eq!(revoked, Err(ErrorCode::INVALID_WRITE), "it is complete");
    assert!(read(&mut client, "k").is_ok());
}

#[test]
fn an_upsert_replaces_the_object_and_moves_it() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    let first = put(&mut client, "k", 1000);
    read(&mut client, "k").unwrap();
    let request = UpsertStart {
        client: OTHER,
        key: "k".into(),
        slice_length: 2000,
        config: config(),
        tenant: TENANT,
    };
    let second = started(&mut client, &request).unwrap();
    assert_ne!(first[0].0, second[0].0, "someone may read the former bytes still");
    assert_eq!(read(&mut client, "k"), Err(ErrorCode::REPLICA_IS_NOT_READY));
    let meta = ObjectMeta { key: "k".into(), object_checksum: None };
    let ended = UpsertEnd { client: OTHER, meta, replica_type: ReplicaType::ALL, tenant: TENANT };
    client.call(&ended, Expected::unwrap);
    assert_eq!(read(&mut client, "k"), Ok((second, None)));
}

#[test]
fn a_batch_answers_each_key_in_its_place() {
    let master = master(&["--shards", "3"]);
    let mut client = Client::connect(&master);
    client.mount(1, 64 * MIB);
    let names: Vec<String> = (0..50).map(|number| format!("key-{number}")).collect();
    let keys = || -> Vec<Str<'_>> { names.iter().map(|name| Str::from(name.as_str())).collect() };
    put(&mut client, "key-7", 10);
    let request = BatchPutStart {
        client: WRITER,
        keys: keys(),
        slice_lengths: (0..50).map(|number| 1000 + number).collect(),
        config: config(),
        tenant: TENANT,
    };
    client.call(&request, |answers| {
        assert_eq!(answers.len(), 50);
        for (number, answer) in answers.iter().enumerate() {
            match answer {
                Ok(replicas) => assert_eq!(place_of(&replicas[0]).1, 1000 + number as u64),
                Err(code) => {
                    assert_eq!((number, *code), (7, ErrorCode::OBJECT_ALREADY_EXISTS));
                }
            }
        }
    });
    let metas = |range: std::ops::Range<usize>| {
        names[range]
            .iter()
            .map(|name| ObjectMeta { key: name.as_str().into(), object_checksum: Some(9) })
    };
    let replica_type = ReplicaType::ALL;
    let request =
        BatchPutEnd { client: WRITER, metas: metas(0..40).collect(), replica_type, tenant: TENANT };
    client.call(&request, |answers| assert!(answers.iter().all(Result::is_ok)));
    let request = BatchPutRevoke {
        client: WRITER,
        keys: keys()[40..].to_vec(),
        replica_type,
        tenant: TENANT,
    };
    client.call(&request, |answers| assert!(answers.iter().all(Result::is_ok)));
    client.call(&BatchExistKey { keys: keys(), tenant: TENANT }, |answers| {
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(*answer, Ok(number < 40), "key-{number}");
        }
    });
    client.call(&BatchGetReplicaList { keys: keys(), tenant: TENANT }, |answers| {
        for (number, answer) in answers.iter().enumerate() {
            match answer {
                Ok(found) if number == 7 => assert_eq!(place_of(&found.replicas[0]).1, 10),
                Ok(found) => {
                    assert_eq!(place_of(&found.replicas[0]).1, 1000 + number as u64);
                    assert_eq!(found.object_checksum, Some(9));
                }
                Err(code) => {
                    assert!(number >= 40);
                    assert_eq!(*code, ErrorCode::OBJECT_NOT_FOUND);
                }
            }
        }
    });
    let mut twice = keys()[..3].to_vec();
    twice.push(twice[0]);
    client.call(&BatchRemove { keys: twice, force: true, tenant: TENANT }, |answers| {
        assert_eq!(answers[..3], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(answers[3], Err(ErrorCode::OBJECT_NOT_FOUND));
    });
}

#[test]
fn lists_of_different_lengths_refuse_every_key_and_change_nothing() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    let request = BatchPutStart {
        client: WRITER,
        keys: vec!["a".into(), "b".into()],
        slice_lengths: vec![10],
        config: config(),
        tenant: TENANT,
    };
    client.call(&request, |answers| {
        assert_eq!(answers, [Err(ErrorCode::INVALID_PARAMS), Err(ErrorCode::INVALID_PARAMS)]);
    });
    put(&mut client, "a", 10);
}

#[test]
fn a_look_that_grants_no_lease_leaves_the_object_removable() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    put(&mut client, "k", 10);
    let probe = ProbeKey { key: "k".into(), tenant: TENANT };
    assert_eq!(client.call(&probe, |answer| answer), Ok(true));
    let peek = GetReplicaListForAdmin { key: "k".into(), tenant: TENANT };
    client.call(&peek, |answer| {
        let found = answer.unwrap();
        assert_eq!((found.replicas.len(), found.lease_ttl_ms), (1, 0), "nobody may rely on it");
    });
    client.call(&remove("k", false), Expected::unwrap);
    assert_eq!(client.call(&probe, |answer| answer), Ok(false));
    put(&mut client, "k", 10);
    let exist = ExistKey { key: "k".into(), tenant: TENANT };
    assert_eq!(client.call(&exist, |answer| answer), Ok(true));
    let refused = client.call(&remove("k", false), |answer| answer);
    assert_eq!(refused, Err(ErrorCode::OBJECT_HAS_LEASE));
}

#[test]
fn an_expression_finds_keys_by_any_part_of_them() {
    let master = master(&["--shards", "2"]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    for key in ["model/a/1", "model/a/2", "model/b/1", "other"] {
        put(&mut client, key, 10);
    }
    let by = |regex: &'static str| GetReplicaListByRegex { regex: regex.into(), tenant: TENANT };
    let mut found = client.call(&by("a/[0-9]$"), |answer| {
        answer.unwrap().0.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    });
    found.sort();
    assert_eq!(found, ["model/a/1", "model/a/2"]);
    let refused = client.call(&by("("), |answer| answer.map(|_| ()));
    assert_eq!(refused, Err(ErrorCode::INVALID_PARAMS));
    let removed = |force| RemoveByRegex { regex: "^model".into(), force, tenant: TENANT };
    assert_eq!(client.call(&removed(false), |answer| answer), Ok(1), "two are leased");
    assert_eq!(client.call(&removed(true), |answer| answer), Ok(2));
    assert_eq!(client.call(&RemoveAll { force: false, tenant: TENANT }, |count| count), 1);
}

#[test]
fn a_writer_clears_its_own_replicas_and_nobody_elses() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, 16 * MIB);
    put(&mut client, "a", 10);
    put(&mut client, "b", 10);
    put(&mut client, "read", 10);
    read(&mut client, "read").unwrap();
    let clear = |client, segment_name: &'static str| BatchReplicaClear {
        keys: ["a", "b", "", "none", "read"].map(Str::from).to_vec(),
        client,
        segment_name: segment_name.into(),
    };
    let cleared = |client: &mut Client, request: &BatchReplicaClear<'_>| {
        client
            .call(request, |answer| answer.unwrap().iter().map(Str::to_string).collect::<Vec<_>>())
    };
    assert_eq!(cleared(&mut client, &clear(OTHER, "")), [] as [&str; 0]);
    assert_eq!(cleared(&mut client, &clear(WRITER, "elsewhere")), [] as [&str; 0]);
    assert_eq!(cleared(&mut client, &clear(WRITER, "node-1")), ["a", "b"]);
    assert_eq!(read(&mut client, "a"), Err(ErrorCode::OBJECT_NOT_FOUND));
    assert!(read(&mut client, "read").is_ok());
}
