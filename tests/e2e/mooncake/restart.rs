//! A planned restart, as clients of Mooncake meet it.

use mooring_proto::mooncake::{
    ClientStatus, ErrorCode, Expected, GetReplicaList, MountSegment, ObjectMeta, Place, PutEnd,
    PutStart, RemoveByRegex, ReplicaType, UnmountSegment, Uuid,
};

use super::client::{Client, STORE, TENANT, WRITER, config, master, place_of, port, segment};
use crate::harness::{Master, Process};

const MIB: u64 = 1 << 20;

fn flags(directory: &str) -> Vec<&str> {
    vec!["--dev", "--mooncake-port", "0", "--handoff-dir", directory]
}

fn read(client: &mut Client, key: &str) -> Expected<Vec<(u64, u64)>> {
    let request = GetReplicaList { key: key.into(), tenant: TENANT };
    client
        .call(&request, |answer| answer.map(|found| found.replicas.iter().map(place_of).collect()))
}

#[test]
fn objects_are_readable_where_they_were_when_their_store_has_remounted() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("handoff").display().to_string();
    let mut former = Master::start_with(&flags(&directory));
    let mut client = Client::connect(&former);
    client.mount(1, 16 * MIB);
    let start = PutStart {
        client: WRITER,
        key: "k".into(),
        slice_length: 5000,
        config: config(),
        tenant: TENANT,
    };
    client.call(&start, |answer| {
        assert!(matches!(answer.unwrap()[0].place, Place::Memory(_)));
    });
    let meta = ObjectMeta { key: "k".into(), object_checksum: Some(42) };
    let end = PutEnd { client: WRITER, meta, replica_type: ReplicaType::ALL, tenant: TENANT };
    client.call(&end, Expected::unwrap);
    let place = read(&mut client, "k").unwrap();
    former.process.signal(libc::SIGTERM);
    assert!(client.receive().is_none(), "the connection is closed");
    assert!(former.process.ended().success());

    let next = Master::start_with(&flags(&directory));
    let mut client = Client::to(port(&next.process));
    assert_eq!(read(&mut client, "k"), Err(ErrorCode::OBJECT_NOT_FOUND), "pending");
    assert_eq!(client.ping().client_status, ClientStatus::NEED_REMOUNT);
    client.remount(&[(1, 16 * MIB)]).unwrap();
    assert_eq!(client.ping().client_status, ClientStatus::OK);
    assert_eq!(read(&mut client, "k"), Ok(place));
    client.call(&end, Expected::unwrap);
}

// The keys that it matches cannot be seen at that moment, and must not come back later.
#[test]
fn a_removal_by_pattern_is_final_for_objects_whose_store_has_not_come_back_yet() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("handoff").display().to_string();
    let mut former = Master::start_with(&flags(&directory));
    let mut client = Client::connect(&former);
    client.mount(1, 16 * MIB);
    for key in ["gone-1", "gone-2", "kept"] {
        let start = PutStart {
            client: WRITER,
            key: key.into(),
            slice_length: 5000,
            config: config(),
            tenant: TENANT,
        };
        client.call(&start, |answer| drop(answer.unwrap()));
        let meta = ObjectMeta { key: key.into(), object_checksum: None };
        let end = PutEnd { client: WRITER, meta, replica_type: ReplicaType::ALL, tenant: TENANT };
        client.call(&end, Expected::unwrap);
    }
    former.process.signal(libc::SIGTERM);
    assert!(client.receive().is_none(), "the connection is closed");
    assert!(former.process.ended().success());

    let next = Master::start_with(&flags(&directory));
    let mut client = Client::to(port(&next.process));
    let remove = RemoveByRegex { regex: "^gone".into(), force: false, tenant: TENANT };
    assert_eq!(client.call(&remove, |answer| answer), Ok(0), "there is nothing to be seen");
    client.remount(&[(1, 16 * MIB)]).unwrap();
    assert!(read(&mut client, "kept").is_ok());
    for key in ["gone-1", "gone-2"] {
        assert_eq!(read(&mut client, key), Err(ErrorCode::OBJECT_NOT_FOUND), "{key}");
    }
}

#[test]
fn without_a_handoff_memory_rests_for_a_lease_before_it_is_used_again() {
    let first = Process::serving(&[
        "master",
        "--rpc-port",
        "0",
        "--metrics-port",
        "0",
        "--dev",
        "--mooncake-port",
        "0",
    ]);
    let mut client = Client::to(port(&first));
    // It was mounted with a master that is gone: nobody knows what is read there still.
    client.remount(&[(1, 16 * MIB)]).unwrap();
    assert_eq!(client.ping().client_status, ClientStatus::OK);
    let start = PutStart {
        client: WRITER,
        key: "k".into(),
        slice_length: 5000,
        config: config(),
        tenant: TENANT,
    };
    let refused = client.call(&start, |answer| answer.map(|_| ()));
    assert_eq!(refused, Err(ErrorCode::NO_AVAILABLE_HANDLE));
}

/// Readers that the former master has sent there may still read those bytes.
#[test]
fn memory_that_was_unmounted_from_a_master_of_before_rests_when_it_is_mounted_as_another_segment() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let start = PutStart {
        client: WRITER,
        key: "k".into(),
        slice_length: 5000,
        config: config(),
        tenant: TENANT,
    };
    let unmount = UnmountSegment { segment: Uuid { first: 7, second: 1 }, client: STORE };
    client.call(&unmount, Expected::unwrap);
    let mount = MountSegment { segment: segment(2, 16 * MIB), client: STORE };
    client.call(&mount, Expected::unwrap);
    let refused = client.call(&start, |answer| answer.map(|_| ()));
    assert_eq!(refused, Err(ErrorCode::NO_AVAILABLE_HANDLE));
}
