//! What a client without tokens asks of a cluster, for the tests of several concerns.

use mooring_actors::shard::message::{
    Described, PutExtras, PutRequest, ShardMessage, ShardReply, ShardRequest,
};
use mooring_proto::ClientId;
use mooring_proto::error::Refusal;
use mooring_proto::message::object::{PutOptions, PutStartGrant};

use crate::cluster::{Cluster, TICK_MS};
use crate::common::done;

/// How a start treats what the key has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Upsert,
}

/// Sends a start with a put id of its own, and waits for the answer.
pub(crate) fn start(
    cluster: &mut Cluster,
    kind: Kind,
    client: ClientId,
    key: &[u8],
    size_bytes: u64,
    options: &PutOptions,
    extras: Option<PutExtras>,
) -> Result<PutStartGrant, Refusal> {
    let id = cluster.ticket();
    let puts = vec![PutRequest { size_bytes, put_id: id.0 }];
    let (options, extras, batch) = (options.clone(), extras.map(Box::new), cluster.batch(&[key]));
    let request = match kind {
        Kind::Put => ShardRequest::PutStart { client, options, extras, batch, puts },
        Kind::Upsert => ShardRequest::UpsertStart { client, options, extras, batch, puts },
    };
    let message = ShardMessage::Request { id, deadline: None, request };
    let shard = cluster.shard_of(key);
    cluster.queue.push_back(crate::cluster::Envelope::ToShard(shard, message));
    cluster.settle();
    while cluster.open.contains_key(&id) {
        cluster.advance(TICK_MS);
    }
    match cluster.take_shard_answer(id) {
        ShardReply::Started(mut answers) => answers.remove(0),
        other => panic!("a start is answered with {other:?}"),
    }
}

/// Starts a put of an ordinary object.
pub(crate) fn put_start(
    cluster: &mut Cluster,
    client: ClientId,
    key: &[u8],
    size_bytes: u64,
) -> Result<PutStartGrant, Refusal> {
    start(cluster, Kind::Put, client, key, size_bytes, &PutOptions::default(), None)
}

/// Starts an upsert of an ordinary object.
pub(crate) fn upsert_start(
    cluster: &mut Cluster,
    client: ClientId,
    key: &[u8],
    size_bytes: u64,
) -> Result<PutStartGrant, Refusal> {
    start(cluster, Kind::Upsert, client, key, size_bytes, &PutOptions::default(), None)
}

pub(crate) fn end(
    cluster: &mut Cluster,
    client: ClientId,
    key: &[u8],
    checksum: Option<u64>,
) -> Result<(), Refusal> {
    let batch = cluster.batch(&[key]);
    let request = ShardRequest::EndByWriter { client, batch, checksums: vec![checksum] };
    done(cluster, key, request).remove(0)
}

pub(crate) fn revoke(cluster: &mut Cluster, client: ClientId, key: &[u8]) -> Result<(), Refusal> {
    let batch = cluster.batch(&[key]);
    done(cluster, key, ShardRequest::RevokeByWriter { client, batch }).remove(0)
}

/// Puts a whole object.
pub(crate) fn put(cluster: &mut Cluster, client: ClientId, key: &[u8], size_bytes: u64) {
    put_start(cluster, client, key, size_bytes).expect("there is room");
    end(cluster, client, key, None).expect("the put is the client's");
}

/// What is known of a key, without a lease.
pub(crate) fn peek(cluster: &mut Cluster, key: &[u8]) -> Result<Described, Refusal> {
    let batch = cluster.batch(&[key]);
    described(cluster, key, ShardRequest::Peek { batch })
}

/// What is known of a key, with a lease.
pub(crate) fn get_detailed(cluster: &mut Cluster, key: &[u8]) -> Result<Described, Refusal> {
    let batch = cluster.batch(&[key]);
    described(cluster, key, ShardRequest::GetDetailed { batch })
}

fn described(
    cluster: &mut Cluster,
    key: &[u8],
    request: ShardRequest,
) -> Result<Described, Refusal> {
    let id = cluster.send_shard(cluster.shard_of(key), request);
    cluster.settle();
    match cluster.take_shard_answer(id) {
        ShardReply::Described(mut answers) => answers.remove(0),
        other => panic!("answered with {other:?}"),
    }
}
