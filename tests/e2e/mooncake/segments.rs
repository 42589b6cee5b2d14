//! Memory of clients, and who they are to the master.

use mooring_proto::mooncake::{
    BatchQueryIp, ClientStatus, ErrorCode, Expected, FetchTasks, GracefulUnmountSegment,
    MountSegment, PutStart, QuerySegmentStatus, QuerySegmentStatusById, SegmentStatus,
    ServiceReady, Str, UnmountSegment, Uuid,
};

use super::client::{Client, STORE, TENANT, WRITER, config, master, segment};
use crate::harness::Process;

const MIB: u64 = 1 << 20;

#[test]
fn a_client_has_to_remount_until_it_has_done_so_and_may_do_so_again() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    let version = client.call(&ServiceReady {}, |answer| answer.unwrap().to_string());
    assert_eq!(version, "2.0.0");
    let mount = MountSegment { segment: segment(1, MIB), client: STORE };
    client.call(&mount, Expected::unwrap);
    client.call(&mount, Expected::unwrap);
    for _ in 0..2 {
        assert_eq!(client.ping().client_status, ClientStatus::NEED_REMOUNT);
    }
    for _ in 0..2 {
        client.remount(&[(1, MIB)]).unwrap();
        assert_eq!(client.ping().client_status, ClientStatus::OK);
    }
    let tasks = FetchTasks { client: STORE, batch_size: 16 };
    client.call(&tasks, |answer| assert!(answer.unwrap().is_empty()));
}

#[test]
fn a_client_that_falls_silent_loses_its_segments_and_has_to_remount() {
    let master = master(&["--client-ttl", "1"]);
    let mut client = Client::connect(&master);
    client.mount(1, MIB);
    assert_eq!(client.ping().client_status, ClientStatus::OK);
    master.wait_for_metric("master_total_capacity_bytes", 0.0);
    assert_eq!(client.ping().client_status, ClientStatus::NEED_REMOUNT);
    client.remount(&[(1, MIB)]).unwrap();
    assert_eq!(client.ping().client_status, ClientStatus::OK);
}

#[test]
fn a_segment_that_a_list_names_several_times_counts_once() {
    let master = master(&["--client-ttl", "1"]);
    let mut client = Client::connect(&master);
    client.remount(&[(1, MIB); 5]).unwrap();
    assert_eq!(client.ping().client_status, ClientStatus::OK);
    master.wait_for_metric("master_total_capacity_bytes", 0.0);
    let log = master.process.log();
    let expired = log.lines().find(|line| line.contains("client_expired")).unwrap();
    assert!(expired.contains("\"segments\":1"), "{expired}");
}

#[test]
fn a_segment_with_another_identity_is_refused() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, MIB);
    let mut mounted =
        |segment| client.call(&MountSegment { segment, client: STORE }, |answer| answer);
    for wrong in [
        mooring_proto::mooncake::Segment { base: 0, ..segment(2, MIB) },
        mooring_proto::mooncake::Segment { size: 0, ..segment(2, MIB) },
        mooring_proto::mooncake::Segment { name: Str(b"\xff"), ..segment(2, MIB) },
        mooring_proto::mooncake::Segment { base: 4096, ..segment(1, MIB) },
        mooring_proto::mooncake::Segment { base: 1 << 40, ..segment(2, MIB) },
    ] {
        assert_eq!(mounted(wrong.clone()), Err(ErrorCode::INVALID_PARAMS), "{wrong:?}");
    }
}

#[test]
fn a_segment_goes_at_once_or_after_a_grace_and_says_so() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.call(&MountSegment { segment: segment(1, MIB), client: STORE }, Expected::unwrap);
    client.call(&MountSegment { segment: segment(2, MIB), client: STORE }, Expected::unwrap);
    let id = |number| Uuid { first: 7, second: number };
    let status = |client: &mut Client, number| {
        client.call(&QuerySegmentStatusById { segment: id(number) }, |answer| answer)
    };
    assert_eq!(status(&mut client, 1), Ok(SegmentStatus::OK));
    let by_name = QuerySegmentStatus { name: "node-1".into() };
    assert_eq!(client.call(&by_name, |answer| answer), Ok(SegmentStatus::OK));
    let graceful = GracefulUnmountSegment { segment: id(1), client: STORE, grace_ms: 3_600_000 };
    client.call(&graceful, Expected::unwrap);
    assert_eq!(status(&mut client, 1), Ok(SegmentStatus::GRACEFULLY_UNMOUNTING));
    let unmount = |client, number| UnmountSegment { segment: id(number), client };
    let foreign = client.call(&unmount(WRITER, 2), |answer| answer);
    assert_eq!(foreign, Err(ErrorCode::ILLEGAL_CLIENT));
    for number in [1, 2, 2, 9] {
        client.call(&unmount(STORE, number), Expected::unwrap);
    }
    assert_eq!(status(&mut client, 2), Err(ErrorCode::SEGMENT_NOT_FOUND));
}

#[test]
fn the_addresses_of_clients_are_those_of_their_segments() {
    let master = master(&[]);
    let mut client = Client::connect(&master);
    client.mount(1, MIB);
    let request = BatchQueryIp { clients: vec![STORE, WRITER, STORE] };
    client.call(&request, |answer| {
        let hosts = answer.unwrap().0;
        assert_eq!(hosts, [(STORE, vec![Str::from("127.0.0.1")])]);
    });
}

#[test]
fn clients_of_mooncake_take_no_space_on_memory_that_they_cannot_reach() {
    let master = master(&[]);
    let store = Process::serving(
        &[
            &["store", "--memory", "64MiB", "--address", "127.0.0.1"][..],
            &master.client_flags().iter().map(String::as_str).collect::<Vec<_>>(),
        ]
        .concat(),
    );
    let mut client = Client::connect(&master);
    let request = PutStart {
        client: WRITER,
        key: "k".into(),
        slice_length: MIB,
        config: config(),
        tenant: TENANT,
    };
    for _ in 0..2 {
        let refused = client.call(&request, |answer| answer.map(|_| ()));
        assert_eq!(refused, Err(ErrorCode::NO_AVAILABLE_HANDLE));
    }
    let mount = MountSegment { segment: segment(1, MIB), client: STORE };
    assert_eq!(client.call(&mount, |answer| answer), Err(ErrorCode::INVALID_PARAMS));
    assert_eq!(master.metric("master_key_count"), 0.0);
    let log = master.process.log();
    assert_eq!(log.matches("find no memory here").count(), 1, "{log}");
    drop(store);
}
