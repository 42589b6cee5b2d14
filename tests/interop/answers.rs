//! Answers in a form that can be compared: one outcome for each key, whatever the function.

use std::collections::BTreeMap;

use mooring_proto::mooncake::*;

/// What a master answers to one call: an outcome for each key, or one.
pub(crate) type Answer = Vec<Expected<Value>>;

/// An outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Done, and nothing to tell.
    Done,
    /// Whether something is there.
    There(bool),
    /// Where to write.
    Started(Vec<Replica>),
    /// Where to read.
    Found { replicas: Vec<Replica>, lease_ttl_ms: u64, checksum: Option<u64> },
    /// Where to read, by key.
    Matching(BTreeMap<Vec<u8>, Vec<Replica>>),
    /// How many.
    Count(i64),
    /// Which keys.
    Keys(Vec<Vec<u8>>),
    /// Anything else, as text.
    Other(String),
}

/// A replica in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) endpoint: String,
    pub(crate) protocol: String,
    pub(crate) status: ReplicaStatus,
}

impl Replica {
    fn of(descriptor: &Descriptor<'_>) -> Replica {
        let Place::Memory(memory) = &descriptor.place else { panic!("{descriptor:?}") };
        let buffer = &memory.buffer_descriptor;
        Replica {
            id: descriptor.id,
            address: buffer.buffer_address,
            bytes: buffer.size,
            endpoint: buffer.transport_endpoint.to_string(),
            protocol: buffer.protocol.to_string(),
            status: descriptor.status,
        }
    }
}

fn replicas(descriptors: &[Descriptor<'_>]) -> Vec<Replica> {
    descriptors.iter().map(Replica::of).collect()
}

fn found(answer: GetReplicaListResponse<Vec<Descriptor<'_>>>) -> Value {
    Value::Found {
        replicas: replicas(&answer.replicas),
        lease_ttl_ms: answer.lease_ttl_ms,
        checksum: answer.object_checksum,
    }
}

/// Reads the reply of one request type and puts it into that form.
macro_rules! read {
    ($header:ident, $body:ident, one $request:ty, $value:expr) => {
        vec![decode_reply::<$request>($header, $body).unwrap().map($value)]
    };
    ($header:ident, $body:ident, each $request:ty, $value:expr) => {{
        let answers = decode_reply::<$request>($header, $body).unwrap();
        answers.into_iter().map(|answer| answer.map($value)).collect()
    }};
}

/// The answer to a call.
pub(crate) fn answer(call: &Call<'_>, header: &ReplyHeader, body: &[u8]) -> Answer {
    let done = |()| Value::Done;
    match call {
        Call::PutStart(_) => {
            read!(header, body, one PutStart<'_>, |it| Value::Started(replicas(&it)))
        }
        Call::UpsertStart(_) => {
            read!(header, body, one UpsertStart<'_>, |it| Value::Started(replicas(&it)))
        }
        Call::BatchPutStart(_) => {
            read!(header, body, each BatchPutStart<'_>, |it| Value::Started(replicas(&it)))
        }
        Call::BatchUpsertStart(_) => {
            read!(header, body, each BatchUpsertStart<'_>, |it| Value::Started(replicas(&it)))
        }
        Call::PutEnd(_) => read!(header, body, one PutEnd<'_>, done),
        Call::UpsertEnd(_) => read!(header, body, one UpsertEnd<'_>, done),
        Call::PutRevoke(_) => read!(header, body, one PutRevoke<'_>, done),
        Call::UpsertRevoke(_) => read!(header, body, one UpsertRevoke<'_>, done),
        Call::BatchPutEnd(_) => read!(header, body, each BatchPutEnd<'_>, done),
        Call::BatchPutRevoke(_) => read!(header, body, each BatchPutRevoke<'_>, done),
        Call::BatchUpsertEnd(_) => read!(header, body, each BatchUpsertEnd<'_>, done),
        Call::BatchUpsertRevoke(_) => read!(header, body, each BatchUpsertRevoke<'_>, done),
        Call::Remove(_) => read!(header, body, one Remove<'_>, done),
        Call::BatchRemove(_) => read!(header, body, each BatchRemove<'_>, done),
        _ => looked(call, header, body),
    }
}

/// The answer to a call that changes no object, or many at once.
fn looked(call: &Call<'_>, header: &ReplyHeader, body: &[u8]) -> Answer {
    match call {
        Call::ExistKey(_) => read!(header, body, one ExistKey<'_>, Value::There),
        Call::BatchExistKey(_) => read!(header, body, each BatchExistKey<'_>, Value::There),
        Call::GetReplicaList(_) => read!(header, body, one GetReplicaList<'_>, found),
        Call::BatchGetReplicaList(_) => read!(header, body, each BatchGetReplicaList<'_>, found),
        Call::GetReplicaListByRegex(_) => {
            read!(header, body, one GetReplicaListByRegex<'_>, |it| {
                let entries = it.0.iter().map(|(key, list)| (key.0.to_vec(), replicas(list)));
                Value::Matching(entries.collect())
            })
        }
        Call::RemoveByRegex(_) => read!(header, body, one RemoveByRegex<'_>, Value::Count),
        Call::RemoveAll(_) => {
            vec![Ok(Value::Count(decode_reply::<RemoveAll<'_>>(header, body).unwrap()))]
        }
        Call::BatchReplicaClear(_) => read!(header, body, one BatchReplicaClear<'_>, |it| {
            let mut keys: Vec<_> = it.iter().map(|key| key.0.to_vec()).collect();
            keys.sort();
            Value::Keys(keys)
        }),
        Call::BatchQueryIp(_) => read!(header, body, one BatchQueryIp, |it| {
            let entries = it.0.into_iter().map(|(client, mut hosts)| {
                hosts.sort();
                (client.second, hosts)
            });
            Value::Other(format!("{:?}", entries.collect::<BTreeMap<_, _>>()))
        }),
        _ => beside(call, header, body),
    }
}

/// The answer to a call about clients and segments.
fn beside(call: &Call<'_>, header: &ReplyHeader, body: &[u8]) -> Answer {
    let done = |()| Value::Done;
    match call {
        Call::MountSegment(_) => read!(header, body, one MountSegment<'_>, done),
        Call::ReMountSegment(_) => read!(header, body, one ReMountSegment<'_>, done),
        Call::UnmountSegment(_) => read!(header, body, one UnmountSegment, done),
        Call::GracefulUnmountSegment(_) => read!(header, body, one GracefulUnmountSegment, done),
        Call::ServiceReady(_) => read!(header, body, one ServiceReady, other),
        Call::GetStorageConfig(_) => read!(header, body, one GetStorageConfig, other),
        Call::GetFsdir(_) => read!(header, body, one GetFsdir, other),
        Call::Ping(_) => read!(header, body, one Ping, other),
        Call::FetchTasks(_) => read!(header, body, one FetchTasks, other),
        Call::QuerySegmentStatus(_) => read!(header, body, one QuerySegmentStatus<'_>, other),
        Call::QuerySegmentStatusById(_) => read!(header, body, one QuerySegmentStatusById, other),
        unread => panic!("no sequence calls {:?}", unread.function()),
    }
}

fn other(value: impl std::fmt::Debug) -> Value {
    Value::Other(format!("{value:?}"))
}
