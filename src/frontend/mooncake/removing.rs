//! Removing objects.

use std::collections::HashSet;

use mooring_actors::pool::message::{Generation, Mount, SegmentSlot};
use mooring_actors::shard::message::ShardRequest;
use mooring_proto::ErrorCode;
use mooring_proto::error::Refusal;
use mooring_proto::mooncake::{
    BatchRemove, BatchReplicaClear, BatchReplicaClearOfTenant, Expected, Remove, RemoveAll,
    RemoveByRegex, Request, Str, Uuid,
};

use super::errors::{item, whole};
use super::keys;
use super::router::Scope;
use super::writing::done;
use crate::frontend::bulk;
use crate::frontend::calls::each_item;
use crate::frontend::split::split;

pub(super) async fn remove(scope: &Scope<'_>, call: &Remove<'_>) -> Vec<u8> {
    let answers = removed(scope, &[call.key], call.force).await;
    let answer = answers.and_then(|mut answers| answers.remove(0).map_err(item));
    scope.reply::<Remove<'_>, _, _>(&answer)
}

pub(super) async fn remove_batch(scope: &Scope<'_>, call: &BatchRemove<'_>) -> Vec<u8> {
    let answers = removed(scope, &call.keys, call.force).await;
    let answers = super::writing::for_each(call.keys.len(), answers);
    super::writing::reply_all::<BatchRemove<'_>>(scope, &answers)
}

/// What becomes of each key. Of a key that stands twice the second one finds nothing.
async fn removed(
    scope: &Scope<'_>,
    keys: &[Str<'_>],
    force: bool,
) -> Expected<Vec<Result<(), Refusal>>> {
    let parts = split(scope.ask().core.route(), scope.body, keys.iter().map(|key| key.0));
    let request = |_: &_, batch| ShardRequest::Remove { force, batch };
    each_item(scope.ask(), keys.len(), parts, request, done).await.map_err(whole)
}

/// How many were removed; what is leased or not complete is left without a word. What waits for its
/// owner goes uncounted, so that it does not come back with it. If a shard does not answer, this is no
/// success: what it has would be there still, also after a restart.
pub(super) async fn remove_matching(scope: &Scope<'_>, call: &RemoveByRegex<'_>) -> Vec<u8> {
    let _turn = scope.shared.searches.acquire().await.ok();
    let answer = async {
        let mut count = 0;
        for page in super::matching::keys(scope, call.regex, true).await? {
            let page_keys: Vec<Str<'_>> = page.keys().collect();
            let inner = scope.on(page.bytes());
            let answers = removed(&inner, &page_keys, call.force).await?;
            count += decided(answers)?;
        }
        Ok(count)
    };
    let answer: Expected<i64> = answer.await;
    scope.reply::<RemoveByRegex<'_>, _, _>(&answer)
}

/// How many of these keys were removed.
///
/// # Errors
/// If of one of them it was not decided whether it goes, because its shard is full or at rest.
fn decided(answers: Vec<Result<(), Refusal>>) -> Expected<i64> {
    let mut count = 0;
    for answer in answers {
        match answer {
            Ok(()) => count += 1,
            Err(refusal) => match refusal.code {
                ErrorCode::NotFound | ErrorCode::NotReadable | ErrorCode::Leased => {}
                _ => return Err(item(refusal)),
            },
        }
    }
    Ok(count)
}

/// The function has no word for a refusal: if a shard does not answer, nothing is told to be removed.
pub(super) async fn remove_all(scope: &Scope<'_>, call: &RemoveAll<'_>) -> Vec<u8> {
    let removed = bulk::remove_all(scope.ask(), call.force).await;
    let count = removed.map_or(0, |sum| i64::try_from(sum.removed).unwrap_or(i64::MAX));
    scope.frame::<RemoveAll<'_>, _>(&count)
}

pub(super) async fn clear(scope: &Scope<'_>, call: &BatchReplicaClear<'_>) -> Vec<u8> {
    let wanted = Cleared { keys: &call.keys, client: call.client, segment: call.segment_name };
    cleared::<BatchReplicaClear<'_>>(scope, &wanted).await
}

pub(super) async fn clear_of_tenant(
    scope: &Scope<'_>,
    call: &BatchReplicaClearOfTenant<'_>,
) -> Vec<u8> {
    let wanted = Cleared { keys: &call.keys, client: call.client, segment: call.segment_name };
    cleared::<BatchReplicaClearOfTenant<'_>>(scope, &wanted).await
}

struct Cleared<'a> {
    keys: &'a [Str<'a>],
    client: Uuid,
    /// Empty for all.
    segment: Str<'a>,
}

/// The keys that the client has written and that are gone now, from one segment or from all.
async fn cleared<R: Request>(scope: &Scope<'_>, wanted: &Cleared<'_>) -> Vec<u8> {
    let core = scope.ask().core;
    let table = core.table();
    let mounts: Option<Vec<Mount>> = (!wanted.segment.0.is_empty()).then(|| {
        let rows = keys::named(&table, wanted.segment);
        rows.filter_map(|row| {
            let slot = SegmentSlot(u16::try_from(row.slot).ok()?);
            Some(Mount { slot, generation: Generation(row.generation) })
        })
        .collect()
    });
    let mut seen = HashSet::new();
    let asked: Vec<Str<'_>> =
        wanted.keys.iter().copied().filter(|key| !key.0.is_empty() && seen.insert(*key)).collect();
    let parts = split(core.route(), scope.body, asked.iter().map(|key| key.0));
    let client = keys::client(wanted.client);
    let request =
        |_: &_, batch| ShardRequest::RemoveByWriter { client, mounts: mounts.clone(), batch };
    let answers = each_item(scope.ask(), asked.len(), parts, request, done).await;
    let asked_for = wanted.keys.len();
    let answer = answers.map_err(whole).map(|answers| {
        let gone = asked.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
        gone.map(|(key, _)| *key).collect::<Vec<_>>()
    });
    let cleared = answer.as_ref().map_or(0, Vec::len);
    scope.reply_items::<R, _>(asked_for, asked_for - cleared, &answer)
}

#[cfg(test)]
mod tests {
    use mooring_proto::mooncake::ErrorCode as Code;

    use super::*;

    #[test]
    fn what_stays_by_right_is_left_out_of_the_count() {
        let stays = [ErrorCode::NotFound, ErrorCode::NotReadable, ErrorCode::Leased];
        let stays = stays.map(|code| Err(Refusal::from(code)));
        let answers = stays.into_iter().chain([Ok(()), Ok(())]).collect();
        assert_eq!(decided(answers), Ok(2));
    }

    // A shard that comes to rest in the middle refuses its part, and the next master has those keys.
    #[test]
    fn a_removal_by_pattern_of_which_a_shard_refused_its_part_is_no_success() {
        for (refused, told) in [
            (ErrorCode::Restarting, Code::UNAVAILABLE_IN_CURRENT_STATUS),
            (ErrorCode::Overloaded, Code::NO_AVAILABLE_HANDLE),
            (ErrorCode::Internal, Code::INTERNAL_ERROR),
        ] {
            assert_eq!(decided(vec![Ok(()), Err(refused.into()), Ok(())]), Err(told));
        }
    }
}
