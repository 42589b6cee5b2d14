//! Long jobs go in slices: the loss of many segments at once holds nobody up.

use mooring_actors::clients::ClientsMessage;
use mooring_actors::shard::message::{ShardReply, ShardRequest};
use mooring_actors::{RequestId, ShardId};
use mooring_proto::ClientId;

use crate::cluster::{Answer, Cluster, Envelope};
use crate::common::{KIB, MIB, WRITER, assert_empty, deliver_and_weigh, key, put_all};

/// Eight clients with a segment each, and one that only reads; 40,000 objects.
fn eight_stores() -> Cluster {
    let mut cluster = Cluster::new(2);
    cluster.checked = false;
    for client in 10..18 {
        cluster.mount(ClientId(client), 1, 64 * MIB);
    }
    cluster.pinging.insert(READER, 0);
    put_all(&mut cluster, 0..OBJECTS, KIB);
    assert_eq!(cluster.totals().objects, OBJECTS);
    cluster
}

/// Lets the stores fall silent until the tick in which they all go, and stops before its messages.
fn silence_stores(cluster: &mut Cluster) {
    cluster.pinging.retain(|client, _| *client == READER);
    // Twice the TTL, and one more since it looks like an outage of the network.
    while cluster.offline.is_empty() {
        cluster.now = cluster.now.after_ms(10);
        if cluster.now.as_ms().is_multiple_of(1_000) {
            let id = cluster.ticket();
            let ping = ClientsMessage::Ping { id, client: READER, mounted_segments: 0, kept: None };
            cluster.queue.push_back(Envelope::ToClients(ping));
        }
        cluster.tick();
        let ticks = cluster.queue.len();
        for _ in 0..ticks {
            cluster.deliver(0);
        }
        if cluster.offline.is_empty() {
            cluster.settle();
        }
        assert!(cluster.now.as_ms() < 60_000, "they expire");
    }
}

// R31
#[test]
fn eight_stores_that_expire_in_one_tick_are_unreadable_at_once_and_swept_in_slices() {
    let mut cluster = eight_stores();
    silence_stores(&mut cluster);
    assert_eq!(cluster.offline.len(), 8, "all in the same tick");
    // The losses reach the shards; nothing else is waited for.
    let lost = |envelope: &Envelope| match envelope {
        Envelope::ToPool(message) => format!("{message:?}").starts_with("ClientLost"),
        Envelope::ToShard(_, message) => format!("{message:?}").contains("SegmentLost"),
        Envelope::ToClients(_) => false,
    };
    while let Some(place) = cluster.queue.iter().position(lost) {
        cluster.deliver(place);
    }
    assert_eq!(cluster.totals().objects, OBJECTS, "nothing is swept yet");
    let keys: Vec<Vec<u8>> = (0..OBJECTS).map(key).collect();
    let mut asked: Vec<RequestId> = Vec::new();
    for number in 0..2 {
        let own = keys.iter().filter(|key| cluster.shard_of(key) == ShardId(number));
        let own: Vec<&[u8]> = own.map(Vec::as_slice).collect();
        let exist = ShardRequest::Exist { lease: false, batch: cluster.batch(&own) };
        asked.push(cluster.send_shard(ShardId(number), exist));
    }
    let mut turns = 0;
    while asked.iter().any(|id| cluster.open.contains_key(id)) {
        assert!(deliver_and_weigh(&mut cluster) <= SLICE_OBJECTS_MAX);
        turns += 1;
    }
    assert!(turns < 100, "the question waits for {turns} turns");
    for id in asked {
        let ShardReply::Existing(existing) = cluster.take_shard_answer(id) else {
            panic!("an exist is answered otherwise");
        };
        assert!(existing.iter().all(|readable| !readable), "readable: its segment is lost");
    }
    assert!(cluster.totals().objects > OBJECTS / 2, "the sweep has only begun");
}

// R31
#[test]
fn gets_and_pings_come_between_the_slices_of_a_sweep_and_each_object_is_visited_once() {
    let mut cluster = eight_stores();
    silence_stores(&mut cluster);
    let (mut turns, mut served, mut longest) = (0_u64, 0_u64, 0_u64);
    let mut waiting: Vec<(RequestId, u64)> = Vec::new();
    while !cluster.queue.is_empty() {
        if waiting.is_empty() && cluster.totals().objects > 0 {
            let sought = key(turns % OBJECTS);
            let get = ShardRequest::Get { batch: cluster.batch(&[&sought]) };
            waiting.push((cluster.send_shard(cluster.shard_of(&sought), get), turns));
            let ping = cluster.ticket();
            let message =
                ClientsMessage::Ping { id: ping, client: READER, mounted_segments: 0, kept: None };
            cluster.queue.push_back(Envelope::ToClients(message));
            waiting.push((ping, turns));
        }
        assert!(deliver_and_weigh(&mut cluster) <= SLICE_OBJECTS_MAX);
        turns += 1;
        waiting.retain(|(id, since)| {
            let open = cluster.open.contains_key(id);
            if !open {
                served += 1;
                longest = longest.max(turns - since);
            }
            open
        });
    }
    assert!(served > 200, "{served} served in {turns} turns");
    assert!(longest < 100, "one of them waited for {longest} turns");
    assert!(turns < 3 * served + OBJECTS / SLICE_OBJECTS_MAX * 2 + 200, "{turns} turns");
    assert_eq!(cluster.totals().lost_objects, OBJECTS);
    assert!(!cluster.offline.contains(&READER), "the reader lives");
    assert!(matches!(
        cluster.answers.values().next(),
        Some(Answer::Shard(_) | Answer::Ping { .. })
    ));
    assert_empty(&cluster);
}

// R22
#[test]
fn an_eviction_goes_in_slices() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(ClientId(10), 1, 32 * MIB);
    let mut number = 0;
    while cluster.totals().evicted_objects == 0 {
        cluster.put(WRITER, &key(number), KIB).expect("there is room");
        number += 1;
    }
    // Now 5 % at once: what the last put has set off.
    cluster.advance(10);
    let mut most = 0;
    for more in 0..4_000 {
        let id = cluster.send_put_start(WRITER, &key(number + more), KIB, &Default::default());
        while cluster.open.contains_key(&id) || !cluster.queue.is_empty() {
            most = most.max(deliver_and_weigh(&mut cluster));
        }
    }
    assert!(most <= SLICE_OBJECTS_MAX, "one message has evicted {most}");
    assert!(cluster.totals().evicted_objects > 1_000);
}

#[test]
fn a_window_full_of_small_objects_is_vacated_in_slices() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(ClientId(10), 1, 32 * MIB);
    put_all(&mut cluster, 0..28_000, KIB);
    let id = cluster.send_put_start(WRITER, b"large", 12 * MIB, &Default::default());
    let mut most = 0;
    while !cluster.queue.is_empty() {
        most = most.max(deliver_and_weigh(&mut cluster));
    }
    let answer = crate::common::started(&mut cluster, id).remove(0);
    answer.expect("there is a window for it");
    assert!(cluster.totals().evicted_objects > 5_000);
    assert!(most <= SLICE_OBJECTS_MAX, "one message has evicted {most}");
}

// R22
#[test]
fn a_lookup_of_thousands_of_keys_waits_for_a_slice_of_an_eviction_and_not_for_its_end() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(ClientId(10), 1, 32 * MIB);
    put_all(&mut cluster, 0..28_000, KIB);
    cluster.send_put_start(WRITER, b"large", 12 * MIB, &Default::default());
    while cluster.totals().evicted_objects == 0 {
        deliver_and_weigh(&mut cluster);
    }
    let before = cluster.totals().evicted_objects;
    let keys: Vec<Vec<u8>> = (0..20_000).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let exist = ShardRequest::Exist { lease: false, batch: cluster.batch(&keys) };
    let id = cluster.send_shard(ShardId(0), exist);
    while cluster.open.contains_key(&id) {
        deliver_and_weigh(&mut cluster);
    }
    let meanwhile = cluster.totals().evicted_objects - before;
    assert!(meanwhile <= 2 * SLICE_OBJECTS_MAX, "{meanwhile} went before the answer");
    cluster.settle();
    let afterwards = cluster.totals().evicted_objects - before - meanwhile;
    assert!(afterwards > 5_000, "the eviction was under way, and {afterwards} went after that");
}

#[test]
fn unfinished_puts_that_time_out_together_are_discarded_in_slices() {
    let mut cluster = Cluster::new(1);
    cluster.checked = false;
    cluster.mount(ClientId(10), 1, 32 * MIB);
    for number in 0..5_000 {
        cluster.put_start(WRITER, &key(number), KIB).expect("there is room");
    }
    cluster.leap(599_000);
    for _ in 0..110 {
        cluster.now = cluster.now.after_ms(10);
        cluster.tick();
        while !cluster.queue.is_empty() {
            assert!(deliver_and_weigh(&mut cluster) <= 1_024);
        }
    }
    assert_eq!((cluster.totals().objects, cluster.totals().put_discarded), (0, 5_000));
}

const OBJECTS: u64 = 40_000;
const READER: ClientId = ClientId(99);
/// About 100 µs of work.
const SLICE_OBJECTS_MAX: u64 = 256;
