//! Which objects are readable, and where.

use std::ops::Range;

use mooring_actors::shard::message::{Described, ShardReply, ShardRequest};
use mooring_proto::mooncake::{
    BatchExistKey, BatchGetReplicaList, BatchGetReplicaListForAdmin, BatchProbeKey, Descriptor,
    Each, ErrorCode, ExistKey, Expected, GetReplicaList, GetReplicaListByRegex,
    GetReplicaListForAdmin, GetReplicaListResponse, Map, ProbeKey, ProbeLeaseMode, ReplicaStatus,
    Request, Str,
};

use super::errors::{code_of, item, whole};
use super::places::{Placed, Places};
use super::router::Scope;
use crate::frontend::calls::{each_bit, each_item};
use crate::frontend::split::split;

/// Whether an answer grants leases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lease {
    Granted,
    None,
}

pub(super) async fn exist(scope: &Scope<'_>, call: &ExistKey<'_>) -> Vec<u8> {
    let answer = exists(scope, &[call.key], Lease::Granted).await.map(|bits| bits[0]);
    scope.reply::<ExistKey<'_>, _, _>(&answer)
}

pub(super) async fn probe(scope: &Scope<'_>, call: &ProbeKey<'_>) -> Vec<u8> {
    let answer = exists(scope, &[call.key], Lease::None).await.map(|bits| bits[0]);
    scope.reply::<ProbeKey<'_>, _, _>(&answer)
}

pub(super) async fn exist_batch(scope: &Scope<'_>, call: &BatchExistKey<'_>) -> Vec<u8> {
    let keys = call.keys.len();
    match exists(scope, &call.keys, Lease::Granted).await {
        Ok(bits) => {
            let answers = Each(bits.iter().map(|bit| Expected::Ok(*bit)));
            scope.reply_items::<BatchExistKey<'_>, _>(keys, 0, &answers)
        }
        Err(code) => {
            let answers = Each((0..keys).map(|_| Expected::<bool>::Err(code)));
            scope.reply_items::<BatchExistKey<'_>, _>(keys, keys, &answers)
        }
    }
}

/// Without leases each key is told. Else the keys are candidates of several keys each, and only those
/// of the last one that is complete are true, and leased.
pub(super) async fn probe_batch(scope: &Scope<'_>, call: &BatchProbeKey<'_>) -> Vec<u8> {
    let answer = async {
        let mut bits = exists(scope, &call.keys, Lease::None).await?;
        match call.policy.lease_mode {
            ProbeLeaseMode::NONE => {}
            ProbeLeaseMode::LAST_HIT_ONLY => {
                let last = last_complete(&bits, call.policy.candidate_size)?;
                bits.fill(false);
                if let Some(last) = last {
                    let keys = &call.keys[last.clone()];
                    let leased = exists(scope, keys, Lease::Granted).await?;
                    // What has gone between the two looks is no candidate any more.
                    bits[last].fill(leased.iter().all(|bit| *bit));
                }
            }
            _ => return Err(ErrorCode::INVALID_PARAMS),
        }
        Ok(bits)
    };
    let keys = call.keys.len();
    match answer.await {
        Ok(bits) => {
            let answers = Each(bits.iter().map(|bit| Expected::Ok(*bit)));
            scope.reply_items::<BatchProbeKey<'_>, _>(keys, 0, &answers)
        }
        Err(code) => {
            let answers = Each((0..keys).map(|_| Expected::<bool>::Err(code)));
            scope.reply_items::<BatchProbeKey<'_>, _>(keys, keys, &answers)
        }
    }
}

/// The last candidate of so many keys that are all there; the last one may have fewer.
fn last_complete(bits: &[bool], candidate_size: u64) -> Expected<Option<Range<usize>>> {
    let size = usize::try_from(candidate_size).unwrap_or(usize::MAX);
    if size == 0 {
        return Err(ErrorCode::INVALID_PARAMS);
    }
    let complete = bits.chunks(size).rposition(|candidate| candidate.iter().all(|bit| *bit));
    Ok(complete.map(|index| index * size..bits.len().min((index + 1) * size)))
}

async fn exists(scope: &Scope<'_>, keys: &[Str<'_>], lease: Lease) -> Expected<Vec<bool>> {
    let parts = split(scope.ask().core.route(), scope.body, keys.iter().map(|key| key.0));
    let lease = lease == Lease::Granted;
    let request = |_: &_, batch| ShardRequest::Exist { lease, batch };
    each_bit(scope.ask(), keys.len(), parts, request).await.map_err(whole)
}

pub(super) async fn get(scope: &Scope<'_>, call: &GetReplicaList<'_>) -> Vec<u8> {
    one::<GetReplicaList<'_>>(scope, call.key, Lease::Granted).await
}

pub(super) async fn peek(scope: &Scope<'_>, call: &GetReplicaListForAdmin<'_>) -> Vec<u8> {
    one::<GetReplicaListForAdmin<'_>>(scope, call.key, Lease::None).await
}

pub(super) async fn get_batch(scope: &Scope<'_>, call: &BatchGetReplicaList<'_>) -> Vec<u8> {
    batch::<BatchGetReplicaList<'_>>(scope, &call.keys, Lease::Granted).await
}

pub(super) async fn peek_batch(
    scope: &Scope<'_>,
    call: &BatchGetReplicaListForAdmin<'_>,
) -> Vec<u8> {
    batch::<BatchGetReplicaListForAdmin<'_>>(scope, &call.keys, Lease::None).await
}

async fn one<R: Request>(scope: &Scope<'_>, key: Str<'_>, lease: Lease) -> Vec<u8> {
    let objects = described(scope, &[key], lease).await;
    let places = places(scope, &objects).await;
    let found = Found::of(&places, &objects);
    let answer = found.answers(lease_ttl_ms(scope, lease)).next();
    scope.reply::<R, _, _>(&answer.unwrap_or(Err(ErrorCode::INTERNAL_ERROR)))
}

async fn batch<R: Request>(scope: &Scope<'_>, keys: &[Str<'_>], lease: Lease) -> Vec<u8> {
    let objects = described(scope, keys, lease).await;
    let places = places(scope, &objects).await;
    let found = Found::of(&places, &objects);
    let answers = found.answers(lease_ttl_ms(scope, lease));
    scope.reply_items::<R, _>(keys.len(), found.missing(), &Each(answers))
}

/// What a reader may rely on, counted from before it asked.
fn lease_ttl_ms(scope: &Scope<'_>, lease: Lease) -> u64 {
    match lease {
        Lease::Granted => scope.ask().core.settings().lease_ttl_ms,
        Lease::None => 0,
    }
}

/// What the shards know of these keys.
async fn described(scope: &Scope<'_>, keys: &[Str<'_>], lease: Lease) -> Vec<Expected<Described>> {
    let parts = split(scope.ask().core.route(), scope.body, keys.iter().map(|key| key.0));
    let answers = each_item(
        scope.ask(),
        keys.len(),
        parts,
        |_, batch| match lease {
            Lease::Granted => ShardRequest::GetDetailed { batch },
            Lease::None => ShardRequest::Peek { batch },
        },
        |answer| match answer {
            ShardReply::Described(items) => Some(items),
            _ => None,
        },
    );
    match answers.await {
        Ok(items) => items.into_iter().map(|answer| answer.map_err(item)).collect(),
        Err(error) => {
            let code = code_of(error.code);
            keys.iter().map(|_| Err(code)).collect()
        }
    }
}

async fn places(scope: &Scope<'_>, objects: &[Expected<Described>]) -> Places {
    let ranges = objects.iter().flatten().flat_map(|object| &object.replicas);
    Places::for_all(scope.ask().core, ranges).await
}

/// Objects with the descriptors of their replicas, all of them in one list.
struct Found<'a> {
    descriptors: Vec<Descriptor<'a>>,
    objects: Vec<Expected<(Range<usize>, Option<u64>)>>,
}

impl<'a> Found<'a> {
    fn of(places: &'a Places, objects: &[Expected<Described>]) -> Found<'a> {
        let mut descriptors = Vec::with_capacity(objects.len());
        let objects = objects.iter().map(|object| {
            let object = object.as_ref().map_err(|code| *code)?;
            let from = descriptors.len();
            let placed = Placed {
                size_bytes: object.size_bytes,
                sequence: object.sequence,
                replicas: &object.replicas,
            };
            places.describe(placed, ReplicaStatus::COMPLETE, &mut descriptors);
            if descriptors.len() == from {
                // Its segments went between the two looks.
                return Err(ErrorCode::OBJECT_NOT_FOUND);
            }
            Ok((from..descriptors.len(), object.checksum))
        });
        let objects = objects.collect();
        Found { descriptors, objects }
    }

    fn missing(&self) -> usize {
        self.objects.iter().filter(|object| object.is_err()).count()
    }

    /// One answer for each object; the same each time it is asked.
    fn answers(
        &self,
        lease_ttl_ms: u64,
    ) -> impl ExactSizeIterator<Item = Expected<GetReplicaListResponse<&[Descriptor<'a>]>>> + Clone
    {
        self.objects.iter().map(move |object| match object {
            Ok((range, object_checksum)) => Ok(GetReplicaListResponse {
                replicas: &self.descriptors[range.clone()],
                lease_ttl_ms,
                object_checksum: *object_checksum,
            }),
            Err(code) => Err(*code),
        })
    }
}

/// The readable objects whose keys match, each with a lease.
pub(super) async fn get_matching(scope: &Scope<'_>, call: &GetReplicaListByRegex<'_>) -> Vec<u8> {
    // What it finds is kept until the answer is made. The semaphore is never closed.
    let _turn = scope.shared.searches.acquire().await.ok();
    let matching = match super::matching::keys(scope, call.regex, false).await {
        Ok(matching) => matching,
        Err(code) => return refuse_matching(scope, code),
    };
    let mut keys = Vec::new();
    let mut objects = Vec::new();
    for page in &matching {
        let page_keys: Vec<Str<'_>> = page.keys().collect();
        let inner = scope.on(page.bytes());
        for (key, object) in
            page_keys.iter().zip(described(&inner, &page_keys, Lease::Granted).await)
        {
            // One that went meanwhile is left out, as one that never matched.
            if object.is_ok() {
                keys.push(*key);
                objects.push(object);
            }
        }
    }
    let places = places(scope, &objects).await;
    let found = Found::of(&places, &objects);
    let entries = keys.iter().zip(&found.objects).filter_map(|(key, object)| {
        let (range, _) = object.as_ref().ok()?;
        Some((*key, &found.descriptors[range.clone()]))
    });
    let map = Map(entries.collect::<Vec<_>>());
    scope.reply::<GetReplicaListByRegex<'_>, _, _>(&Expected::Ok(map))
}

fn refuse_matching(scope: &Scope<'_>, code: ErrorCode) -> Vec<u8> {
    let refusal: Expected<Map<Str<'_>, Vec<Descriptor<'_>>>> = Err(code);
    scope.reply::<GetReplicaListByRegex<'_>, _, _>(&refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_candidates_the_last_complete_one_counts() {
        let bits = [true, true, false, true, true, true, true];
        assert_eq!(last_complete(&bits, 2), Ok(Some(6..7)));
        assert_eq!(last_complete(&bits[..6], 2), Ok(Some(4..6)));
        assert_eq!(last_complete(&bits[..4], 2), Ok(Some(0..2)));
        assert_eq!(last_complete(&bits[..4], 3), Ok(Some(3..4)));
        assert_eq!(last_complete(&bits[2..3], 1), Ok(None));
        assert_eq!(last_complete(&bits, u64::MAX), Ok(None));
        assert_eq!(last_complete(&[], 4), Ok(None));
        assert_eq!(last_complete(&bits, 0), Err(ErrorCode::INVALID_PARAMS));
    }
}
