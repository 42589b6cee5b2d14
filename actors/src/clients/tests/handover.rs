//! Coming to rest, and what the next master makes of the clients of this one.

use super::*;
use crate::handoff::ClientRecord;

fn record(number: u128, segments: u32) -> ClientRecord {
    ClientRecord { client: ClientId(number), name: format!("store-{number}"), segments }
}

/// The next master at the moment of serving.
fn restored(records: &[ClientRecord]) -> Stage {
    let config = ClientsConfig { client_ttl_ms: TTL_MS, tick_period_ms: TICK_MS };
    let clients = Clients::restore(config, records);
    Stage { clients, now: Moment::from_ms(0), next_request: 0 }
}

#[test]
fn what_is_exported_is_the_same_after_a_restore() {
    let mut stage = Stage::with_holders(2);
    stage.hear(ClientsMessage::Hello { client: ClientId(1), name: "store-1".into() });
    stage.hear(ClientsMessage::Hello { client: ClientId(9), name: "engine".into() });
    let records = stage.clients.export();
    let segments: Vec<_> = records.iter().map(|known| (known.client.0, known.segments)).collect();
    assert_eq!(segments, [(1, 1), (2, 1), (9, 0)]);
    assert_eq!((records[0].name.as_str(), records[1].name.as_str()), ("store-1", ""));
    assert_eq!(restored(&records).clients.export(), records);
}

#[test]
fn an_offline_client_is_not_exported_and_a_suspected_one_is() {
    let mut stage = Stage::with_holders(1);
    stage.run(TTL_MS, &[]);
    assert_eq!(stage.clients.export().len(), 1);
    stage.run(TTL_MS, &[]);
    assert_eq!(stage.clients.export(), []);
}

#[test]
fn a_restored_client_is_active_and_must_remount() {
    let mut stage = restored(&[record(1, 3), record(2, 0)]);
    assert_eq!(stage.clients.counts().active, 2);
    assert_eq!(stage.list()[0].name, "store-1");
    assert!(stage.ping(1, 3));
    assert!(stage.ping(1, 0), "it must say that it has none left");
    assert!(!stage.ping(2, 0));
    assert!(stage.ping(2, 1), "it has mounted what no master knows");
    stage.hear(ClientsMessage::Remounted { client: ClientId(1), segments: 3 });
    assert!(!stage.ping(1, 3));
}

#[test]
fn a_restored_client_that_mounts_one_segment_must_still_remount_the_others() {
    let mut stage = restored(&[record(1, 3)]);
    for segments in [3, 4] {
        stage.hear(mounted(ClientId(1), segments));
        assert!(stage.ping(1, segments), "{segments}");
    }
    stage.hear(ClientsMessage::Remounted { client: ClientId(1), segments: 4 });
    assert!(!stage.ping(1, 4));
}

#[test]
fn a_restored_client_that_never_comes_goes_offline_after_twice_the_ttl_of_serving() {
    let mut stage = restored(&[record(1, 3), record(2, 0)]);
    assert_eq!(offline(&stage.run(2 * TTL_MS - TICK_MS, &[])), []);
    assert_eq!(offline(&stage.run(TICK_MS, &[])), [1, 2]);
    assert_eq!(stage.clients.export(), []);
}

#[test]
fn a_pause_right_after_the_start_counts_for_nobody() {
    let mut stage = restored(&[record(1, 3)]);
    assert_eq!(stage.tick_after(5 * TTL_MS), []);
    assert_eq!(stage.clients.counts().stalls_total, 1);
    assert_eq!(offline(&stage.run(2 * TTL_MS - 2 * TICK_MS, &[])), []);
    assert_eq!(offline(&stage.run(TICK_MS, &[])), [1]);
}

#[test]
fn at_rest_nobody_is_judged_and_all_else_goes_on() {
    let mut stage = Stage::with_holders(2);
    stage.run(2 * TTL_MS - TICK_MS, &[2]);
    assert_eq!(stage.hear(ClientsMessage::Quiesce), [ClientsEffect::Quiesced]);
    assert_eq!(stage.hear(ClientsMessage::Quiesce), [], "once is enough");
    assert_eq!(stage.run(5 * TTL_MS, &[]), []);
    stage.hear(ClientsMessage::FreezeJudgement(true));
    stage.hear(ClientsMessage::FreezeJudgement(false));
    assert_eq!(stage.run(5 * TTL_MS, &[]), [], "no message ends the rest");
    assert!(!stage.ping(2, 1));
    // The pool goes on until everybody else is at rest, and tells what it has mounted.
    stage.hear(mounted(ClientId(3), 2));
    let segments: Vec<_> =
        stage.clients.export().iter().map(|known| (known.client.0, known.segments)).collect();
    assert_eq!(segments, [(1, 1), (2, 1), (3, 2)]);
}
