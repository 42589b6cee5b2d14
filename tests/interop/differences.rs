//! Where the two masters answer differently on purpose.
//!
//! Each entry has the number under which `src/frontend/mooncake/TABLE.md` explains it. What is not on
//! this list fails the tests.

use mooring_proto::limits::OBJECT_BYTES_MAX;
use mooring_proto::mooncake::*;

use crate::answers::{Answer, Replica, Value};

/// A difference on purpose.
pub(crate) struct Difference {
    /// Its number in the table of the front end, and a few words.
    pub(crate) name: &'static str,
    /// What becomes of the sequence.
    pub(crate) after: After,
    /// Whether it is this one.
    pub(crate) explains: fn(&Seen<'_>) -> bool,
}

/// Whether a sequence goes on after a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Both are in the same state still.
    GoOn,
    /// They are not.
    Stop,
}

/// A call and what both masters answered.
pub(crate) struct Told {
    pub(crate) call: Call<'static>,
    pub(crate) theirs: Answer,
    pub(crate) ours: Answer,
}

/// Two outcomes that differ.
pub(crate) struct Seen<'a> {
    /// Which key of the last call.
    pub(crate) item: usize,
    /// What Mooncake's master says of it.
    pub(crate) theirs: &'a Expected<Value>,
    /// What the binary under test says.
    pub(crate) ours: &'a Expected<Value>,
    /// All calls of the sequence so far.
    pub(crate) story: &'a [Told],
}

/// The difference that these outcomes are, if they are one.
pub(crate) fn allowing(seen: &Seen<'_>) -> Option<&'static Difference> {
    DIFFERENCES.iter().find(|difference| (difference.explains)(seen))
}

/// All of them.
const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "1: memory that is mounted already is refused under another id",
        after: After::Stop,
        explains: |seen| {
            matches!(seen.call(), Call::MountSegment(_))
                && seen.theirs.is_ok()
                && *seen.ours == Err(ErrorCode::INVALID_PARAMS)
        },
    },
    Difference {
        name: "2: memory that comes by a remount rests",
        after: After::Stop,
        explains: |seen| {
            let rests = matches!(seen.call(), Call::PutStart(_))
                && seen.theirs.is_ok()
                && (seen.ours.is_ok() || *seen.ours == Err(ErrorCode::NO_AVAILABLE_HANDLE));
            let remounts = |told: &Told| matches!(told.call, Call::ReMountSegment(_));
            rests && seen.story.iter().any(remounts)
        },
    },
    Difference {
        name: "4: only its owner unmounts a segment",
        after: After::Stop,
        explains: |seen| {
            matches!(seen.call(), Call::UnmountSegment(_) | Call::GracefulUnmountSegment(_))
                && *seen.ours == Err(ErrorCode::ILLEGAL_CLIENT)
        },
    },
    Difference {
        name: "7: objects of more than a tebibyte",
        after: After::Stop,
        explains: |seen| {
            seen.length().is_some_and(|bytes| bytes > OBJECT_BYTES_MAX)
                && *seen.ours == Err(ErrorCode::INVALID_PARAMS)
        },
    },
    Difference {
        name: "9: the end of another kind of replica",
        after: After::GoOn,
        explains: |seen| is_of_another_kind(seen.call()) && *seen.ours == Ok(Value::Done),
    },
    Difference {
        name: "11: an upsert does not write over the former object",
        after: After::Stop,
        explains: |seen| {
            let Ok(Value::Started(replicas)) = seen.theirs else { return false };
            seen.ours.is_ok() && replicas.iter().any(|replica| seen.is_reused(replica))
        },
    },
    Difference {
        name: "11: an upsert that finds no space leaves the former object",
        after: After::Stop,
        explains: |seen| {
            seen.earlier(|call, _, ours| {
                is_upsert(call) && *ours == Err(ErrorCode::NO_AVAILABLE_HANDLE)
            })
        },
    },
    Difference {
        name: "13: an upsert may change the group of an object",
        after: After::Stop,
        explains: |seen| {
            is_upsert(seen.call())
                && *seen.theirs == Err(ErrorCode::INVALID_PARAMS)
                && seen.ours.is_ok()
                && seen.story.iter().any(|told| names_groups(&told.call))
        },
    },
    Difference {
        name: "14: a remount mounts what is not there, whoever the client is",
        after: After::Stop,
        explains: |seen| seen.remounts_what_is_gone(),
    },
    Difference {
        name: "15: what is unfinished has no lease",
        after: After::GoOn,
        explains: |seen| {
            *seen.theirs == Err(ErrorCode::OBJECT_HAS_LEASE)
                && *seen.ours == Err(ErrorCode::REPLICA_IS_NOT_READY)
        },
    },
    Difference {
        name: "16: a lease of a group is one of all its members",
        after: After::Stop,
        explains: |seen| {
            is_removal(seen.call()) && seen.story.iter().any(|told| names_groups(&told.call))
        },
    },
    Difference {
        name: "17: a segment that leaves gracefully may be remounted",
        after: After::Stop,
        explains: |seen| {
            matches!(seen.call(), Call::ReMountSegment(_))
                && *seen.theirs == Err(ErrorCode::UNAVAILABLE_IN_CURRENT_STATUS)
                && seen.ours.is_ok()
        },
    },
    Difference {
        name: "18: a client without memory is not forgotten",
        after: After::Stop,
        explains: |seen| {
            let Call::Ping(Ping { client }) = seen.call() else { return false };
            let nothing = |told: &Told| match &told.call {
                Call::ReMountSegment(call) if call.client == *client => {
                    Some(call.segments.is_empty())
                }
                _ => None,
            };
            // What it said last is that it has none.
            seen.story.iter().rev().find_map(nothing) == Some(true)
        },
    },
    Difference {
        name: "11: no upsert over an unfinished put of the same client",
        after: After::Stop,
        explains: |seen| {
            // The existing master has thrown the put away before it finds no space for the new one.
            let begun = seen.theirs.is_ok() || *seen.theirs == Err(ErrorCode::NO_AVAILABLE_HANDLE);
            is_upsert(seen.call()) && begun && *seen.ours == Err(ErrorCode::OBJECT_ALREADY_EXISTS)
        },
    },
    Difference {
        name: "19: what has lost its memory is not counted",
        after: After::GoOn,
        explains: |seen| {
            let (Ok(Value::Count(theirs)), Ok(Value::Count(ours))) = (seen.theirs, seen.ours)
            else {
                return false;
            };
            let unmounts = |told: &Told| matches!(told.call, Call::UnmountSegment(_));
            theirs > ours && seen.story.iter().any(unmounts)
        },
    },
];

/// A removal that a lease stands against.
fn is_removal(call: &Call<'_>) -> bool {
    match call {
        Call::Remove(call) => !call.force,
        Call::BatchRemove(call) => !call.force,
        Call::RemoveByRegex(call) => !call.force,
        Call::RemoveAll(call) => !call.force,
        Call::BatchReplicaClear(_) => true,
        _ => false,
    }
}

fn is_upsert(call: &Call<'_>) -> bool {
    matches!(call, Call::UpsertStart(_) | Call::BatchUpsertStart(_))
}

/// Whether a start puts its objects into groups.
fn names_groups(call: &Call<'_>) -> bool {
    match call {
        Call::PutStart(call) => call.config.group_ids.is_some(),
        Call::UpsertStart(call) => call.config.group_ids.is_some(),
        Call::BatchPutStart(call) => call.config.group_ids.is_some(),
        Call::BatchUpsertStart(call) => call.config.group_ids.is_some(),
        _ => false,
    }
}

impl Seen<'_> {
    fn call(&self) -> &Call<'static> {
        &self.story.last().expect("the call that was just made").call
    }

    /// Whether a client that counted already has mounted something by a remount. Mooncake's master takes
    /// no notice of what such a client names.
    fn remounts_what_is_gone(&self) -> bool {
        let mut known: Vec<Uuid> = Vec::new();
        let mut mounted: Vec<Uuid> = Vec::new();
        for told in self.story {
            match &told.call {
                Call::MountSegment(call) => mounted.push(call.segment.id),
                Call::UnmountSegment(call) => mounted.retain(|id| *id != call.segment),
                Call::ReMountSegment(call) => {
                    let is_new = |id: &Uuid| !mounted.contains(id);
                    if known.contains(&call.client)
                        && call.segments.iter().any(|segment| is_new(&segment.id))
                    {
                        return true;
                    }
                    known.push(call.client);
                    mounted.extend(call.segments.iter().map(|segment| segment.id));
                }
                _ => {}
            }
        }
        false
    }

    /// The length that a start asks for.
    fn length(&self) -> Option<u64> {
        match self.call() {
            Call::PutStart(call) => Some(call.slice_length),
            Call::UpsertStart(call) => Some(call.slice_length),
            Call::BatchPutStart(call) => call.slice_lengths.get(self.item).copied(),
            Call::BatchUpsertStart(call) => call.slice_lengths.get(self.item).copied(),
            _ => None,
        }
    }

    /// Whether Mooncake's master gave this replica out before: it is written in place then.
    fn is_reused(&self, replica: &Replica) -> bool {
        let before = &self.story[..self.story.len() - 1];
        let outcomes = before.iter().flat_map(|told| &told.theirs);
        outcomes.flatten().any(|value| {
            let Value::Started(given) = value else { return false };
            given.iter().any(|it| it.id == replica.id)
        })
    }

    /// Whether something was said of the same key before, or of any if the call is about many.
    fn earlier(
        &self,
        is_it: impl Fn(&Call<'_>, &Expected<Value>, &Expected<Value>) -> bool,
    ) -> bool {
        let key = keys_of(self.call()).get(self.item).copied();
        let outcomes = self.story.iter().flat_map(|told| {
            let keys = keys_of(&told.call);
            let pairs = told.theirs.iter().zip(&told.ours).enumerate();
            pairs.map(move |(item, (theirs, ours))| {
                (keys.get(item).copied(), &told.call, theirs, ours)
            })
        });
        outcomes.into_iter().any(|(about, call, theirs, ours)| {
            (key.is_none() || about == key) && is_it(call, theirs, ours)
        })
    }
}

/// The keys that a call is about, if its answer has an outcome for each.
fn keys_of<'a>(call: &Call<'a>) -> Vec<Str<'a>> {
    let of_metas = |metas: &[ObjectMeta<'a>]| metas.iter().map(|meta| meta.key).collect();
    match call {
        Call::PutStart(call) => vec![call.key],
        Call::UpsertStart(call) => vec![call.key],
        Call::PutEnd(call) => vec![call.meta.key],
        Call::UpsertEnd(call) => vec![call.meta.key],
        Call::PutRevoke(call) => vec![call.key],
        Call::UpsertRevoke(call) => vec![call.key],
        Call::ExistKey(call) => vec![call.key],
        Call::GetReplicaList(call) => vec![call.key],
        Call::Remove(call) => vec![call.key],
        Call::BatchPutStart(call) => call.keys.clone(),
        Call::BatchUpsertStart(call) => call.keys.clone(),
        Call::BatchPutEnd(call) => of_metas(&call.metas),
        Call::BatchUpsertEnd(call) => of_metas(&call.metas),
        Call::BatchPutRevoke(call) => call.keys.clone(),
        Call::BatchUpsertRevoke(call) => call.keys.clone(),
        Call::BatchExistKey(call) => call.keys.clone(),
        Call::BatchGetReplicaList(call) => call.keys.clone(),
        Call::BatchRemove(call) => call.keys.clone(),
        _ => Vec::new(),
    }
}

/// The end or the revocation of replicas that no object here has.
fn is_of_another_kind(call: &Call<'_>) -> bool {
    let kind = match call {
        Call::PutEnd(call) => call.replica_type,
        Call::UpsertEnd(call) => call.replica_type,
        Call::PutRevoke(call) => call.replica_type,
        Call::UpsertRevoke(call) => call.replica_type,
        Call::BatchPutEnd(call) => call.replica_type,
        Call::BatchPutRevoke(call) => call.replica_type,
        _ => return false,
    };
    !matches!(kind, ReplicaType::ALL | ReplicaType::MEMORY)
}
