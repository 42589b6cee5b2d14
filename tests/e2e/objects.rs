//! Batches over several shards, on memory that nobody has: what the master says about it is all
//! that counts here.

use std::collections::HashSet;

use mooring_proto::message::inspect::{ListKeysRequest, StatsRequest};
use mooring_proto::message::object::{
    ExistRequest, GetRequest, MatchPrefixRequest, PutEndRequest, PutItem, PutOptions, PutStartItem,
    PutStartRequest, RemoveAllRequest, RemoveRequest,
};
use mooring_proto::message::segment::{MountRequest, Segment};
use mooring_proto::{ErrorCode, SegmentId};
use serde_bytes::Bytes;

use crate::harness::Master;
use crate::peer::Peer;

const KEYS: usize = 3000;

fn keys() -> Vec<String> {
    (0..KEYS).map(|number| format!("key-{number:05}")).collect()
}

fn size_of(number: usize) -> u64 {
    100 + number as u64
}

async fn mounted(master: &Master) -> Peer {
    let peer = Peer::greeted(master).await;
    let segment = Segment {
        segment: SegmentId(rand::random()),
        base: 1 << 30,
        size_bytes: 1 << 30,
        endpoint: "nowhere:1".to_owned(),
        certificate_sha256: None,
        transfer_engine: None,
    };
    peer.ask(&MountRequest { segment, mounted_with: None }).await.unwrap();
    peer
}

/// Puts all keys, in one batch each for start and end.
async fn put_all(peer: &Peer, keys: &[String]) {
    let items = keys.iter().enumerate().map(|(number, key)| PutStartItem {
        key: Bytes::new(key.as_bytes()),
        size_bytes: size_of(number),
        put_id: number as u64 + 1,
    });
    let start = PutStartRequest { options: PutOptions::default(), items: items.collect() };
    let granted = peer.ask(&start).await.unwrap();
    let items = keys.iter().zip(&granted.items).map(|(key, grant)| PutItem {
        key: Bytes::new(key.as_bytes()),
        sequence: grant.as_ref().unwrap().sequence,
    });
    let end = PutEndRequest { incarnation: granted.incarnation, items: items.collect() };
    let ended = peer.ask(&end).await.unwrap();
    assert!(ended.items.len() == keys.len() && ended.items.iter().all(Result::is_ok));
}

fn borrowed(keys: &[String]) -> Vec<&Bytes> {
    keys.iter().map(|key| Bytes::new(key.as_bytes())).collect()
}

#[tokio::test]
async fn answers_stand_in_the_order_of_the_request_over_all_shards() {
    let master = Master::start(&["--shards", "5"]);
    let peer = mounted(&master).await;
    let keys = keys();
    put_all(&peer, &keys).await;

    let located = peer.ask(&GetRequest { keys: borrowed(&keys) }).await.unwrap();
    for (number, item) in located.items.iter().enumerate() {
        assert_eq!(item.as_ref().unwrap().size_bytes, size_of(number));
    }

    // Each third key is one that nobody has put.
    let mut mixed = keys.clone();
    mixed.iter_mut().step_by(3).for_each(|key| key.push('x'));
    let exist = peer.ask(&ExistRequest { lease: false, keys: borrowed(&mixed) }).await.unwrap();
    for number in 0..KEYS {
        assert_eq!(exist.readable(number), number % 3 != 0, "{number}");
    }

    let stats = peer.ask(&StatsRequest {}).await.unwrap();
    assert_eq!((stats.objects, stats.shards.len()), (KEYS as u64, 5));
    assert!(stats.shards.iter().all(|shard| shard.objects > 0));
}

#[tokio::test]
async fn a_prefix_ends_at_the_first_key_that_is_not_readable() {
    let master = Master::start(&["--shards", "3"]);
    let peer = mounted(&master).await;
    let keys = keys();
    put_all(&peer, &keys).await;
    for missing in [0, 1, 700, KEYS] {
        let mut chain = keys.clone();
        if let Some(key) = chain.get_mut(missing) {
            key.push('x');
        }
        let request = MatchPrefixRequest { lease: false, keys: borrowed(&chain) };
        assert_eq!(peer.ask(&request).await.unwrap().matched as usize, missing);
    }
}

#[tokio::test]
async fn pages_of_keys_lead_through_all_shards_once() {
    let master = Master::start(&["--shards", "4"]);
    let peer = mounted(&master).await;
    let keys = keys();
    put_all(&peer, &keys).await;
    let (mut listed, mut cursor) = (HashSet::new(), 0);
    loop {
        let page = peer.ask(&ListKeysRequest { cursor, limit: 500 }).await.unwrap();
        assert!(page.keys.len() <= 500);
        for entry in page.keys {
            let key = String::from_utf8(entry.key.into_vec()).unwrap();
            assert!(listed.insert(key), "listed twice");
        }
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(listed, HashSet::from_iter(keys));
    let beyond = ListKeysRequest { cursor: 9 << 32, limit: 1 };
    assert_eq!(peer.ask(&beyond).await.unwrap_err().code, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn one_bad_key_spoils_nothing_but_its_own_answer() {
    let master = Master::start(&["--shards", "2"]);
    let peer = mounted(&master).await;
    let long = "k".repeat(5000);
    let keys = ["a".to_owned(), String::new(), long, "b".to_owned()];
    let items = keys.iter().zip(1_u64..).map(|(key, put_id)| PutStartItem {
        key: Bytes::new(key.as_bytes()),
        size_bytes: 10,
        put_id,
    });
    let start = PutStartRequest { options: PutOptions::default(), items: items.collect() };
    let granted = peer.ask(&start).await.unwrap().items;
    let code = |index: usize| granted[index].as_ref().map(|_| ()).map_err(|refusal| refusal.code);
    assert_eq!([code(0), code(3)], [Ok(()), Ok(())]);
    assert_eq!([code(1), code(2)], [Err(ErrorCode::InvalidKey), Err(ErrorCode::InvalidKey)]);
}

#[tokio::test]
async fn removing_concerns_all_shards_and_keeps_what_is_leased() {
    let master = Master::start(&["--shards", "3"]);
    let peer = mounted(&master).await;
    let keys = keys();
    put_all(&peer, &keys).await;
    peer.ask(&GetRequest { keys: borrowed(&keys[..100]) }).await.unwrap();

    let some = RemoveRequest { force: false, keys: borrowed(&keys[50..150]) };
    let removed = peer.ask(&some).await.unwrap().items;
    for (number, item) in removed.iter().enumerate() {
        let code = item.as_ref().map_err(|refusal| refusal.code);
        let expected = if number < 50 { Err(ErrorCode::Leased) } else { Ok(&()) };
        assert_eq!(code, expected, "{number}");
    }
    let all = peer.ask(&RemoveAllRequest { force: false }).await.unwrap();
    assert_eq!((all.removed, all.kept), (KEYS as u64 - 150, 100));
    let forced = peer.ask(&RemoveAllRequest { force: true }).await.unwrap();
    assert_eq!((forced.removed, forced.kept), (100, 0));
}
