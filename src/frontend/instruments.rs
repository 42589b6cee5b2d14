//! The requests of both front ends in one set of figures, under the names of the existing master.
//!
//! Each request of Mooring's own protocol is a batch, and of some kinds the existing master has no
//! batch. So it counts among the requests of its name and, where there are such, among the batches too.
//! A call of a client of Mooncake counts in the one place where it does there.

use mooring_proto::message::Kind;
use mooring_proto::mooncake::Function;

use super::Context;
use super::counters::{BatchCounters, Counter};

/// Requests that do the same, whichever front end they come to.
pub(crate) struct Instrument {
    /// As the existing master names it: `master_NAME_requests_total`.
    pub(crate) name: &'static str,
    /// How the line of the summary calls it, if it does.
    pub(crate) label: Option<&'static str>,
    native: Option<Kind>,
    mooncake: &'static [Function],
    /// Batches of which each item counts as a request.
    by_item: &'static [Function],
}

/// What became of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests.
    pub(crate) requests: u64,
    /// Of them, refused as a whole; of batches also those whose items all are.
    pub(crate) failures: u64,
    /// Batches of which some items were refused.
    pub(crate) partial_successes: u64,
    /// Items of batches.
    pub(crate) items: u64,
    /// Of them, refused.
    pub(crate) failed_items: u64,
}

impl Instrument {
    /// What has happened since the start. Of a single request the figures of items say nothing.
    pub(crate) fn counts(&self, context: &Context) -> Counts {
        let mut counts = Counts::NONE;
        if let Some(kind) = self.native {
            let kind = context.counters.kind(kind);
            counts.add(&kind.requests, &kind.failures, &kind.batch);
        }
        for function in self.mooncake {
            let function = context.mooncake.function(*function);
            counts.add(&function.requests, &function.failures, &function.batch);
        }
        for function in self.by_item {
            let batch = &context.mooncake.function(*function).batch;
            counts.failures += batch.failed_items.value();
            counts.requests += batch.items.value();
        }
        counts
    }
}

impl Counts {
    /// Nothing yet.
    pub(crate) const NONE: Counts =
        Counts { requests: 0, failures: 0, partial_successes: 0, items: 0, failed_items: 0 };

    fn add(&mut self, requests: &Counter, failures: &Counter, batch: &BatchCounters) {
        // First those that grow last: nobody sees a failure without its request.
        self.failures += failures.value() + batch.failures.value();
        self.partial_successes += batch.partial_successes.value();
        self.failed_items += batch.failed_items.value();
        self.items += batch.items.value();
        self.requests += requests.value();
    }

    /// Those that succeeded as a whole.
    pub(crate) fn successes(&self) -> u64 {
        self.requests.saturating_sub(self.failures + self.partial_successes)
    }

    /// Items that were not refused.
    pub(crate) fn good_items(&self) -> u64 {
        self.items.saturating_sub(self.failed_items)
    }

    /// What came since then. Of two who look at once, the later one may have counted earlier.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_sub(before.requests),
            failures: self.failures.saturating_sub(before.failures),
            partial_successes: self.partial_successes.saturating_sub(before.partial_successes),
            items: self.items.saturating_sub(before.items),
            failed_items: self.failed_items.saturating_sub(before.failed_items),
        }
    }
}

const fn of(
    name: &'static str,
    label: Option<&'static str>,
    native: Option<Kind>,
    mooncake: &'static [Function],
) -> Instrument {
    Instrument { name, label, native, mooncake, by_item: &[] }
}

impl Instrument {
    const fn by_item(mut self, functions: &'static [Function]) -> Instrument {
        self.by_item = functions;
        self
    }
}

/// Requests for one thing. An upsert is a put to the figures of the existing master.
pub(crate) static SINGLE: [Instrument; 25] = [
    of(
        "put_start",
        Some("PutStart"),
        Some(Kind::PutStart),
        &[Function::PutStart, Function::UpsertStart],
    ),
    of("put_end", Some("PutEnd"), Some(Kind::PutEnd), &[Function::PutEnd, Function::UpsertEnd]),
    of(
        "put_revoke",
        Some("PutRevoke"),
        Some(Kind::PutRevoke),
        &[Function::PutRevoke, Function::UpsertRevoke],
    ),
    of("get_replica_list", Some("Get"), Some(Kind::Get), &[Function::GetReplicaList]),
    of("get_replica_list_by_regex", None, None, &[Function::GetReplicaListByRegex]),
    of("exist_key", Some("Exist"), Some(Kind::Exist), &[Function::ExistKey]),
    of("remove", Some("Del"), Some(Kind::Remove), &[Function::Remove])
        .by_item(&[Function::BatchRemove]),
    of("remove_by_regex", None, None, &[Function::RemoveByRegex]),
    of("remove_all", Some("DelAll"), Some(Kind::RemoveAll), &[Function::RemoveAll]),
    of("mount_segment", None, Some(Kind::Mount), &[Function::MountSegment]),
    of(
        "unmount_segment",
        None,
        Some(Kind::Unmount),
        &[Function::UnmountSegment, Function::GracefulUnmountSegment],
    ),
    of("remount_segment", None, Some(Kind::Remount), &[Function::ReMountSegment]),
    of("ping", Some("Ping"), Some(Kind::Ping), &[Function::Ping]),
    of("copy_start", Some("CopyStart"), None, &[Function::CopyStart]),
    of("copy_end", Some("CopyEnd"), None, &[Function::CopyEnd]),
    of("copy_revoke", Some("CopyRevoke"), None, &[Function::CopyRevoke]),
    of("move_start", Some("MoveStart"), None, &[Function::MoveStart]),
    of("move_end", Some("MoveEnd"), None, &[Function::MoveEnd]),
    of("move_revoke", Some("MoveRevoke"), None, &[Function::MoveRevoke]),
    of("evict_disk_replica", Some("EvictDiskReplica"), None, &[Function::EvictDiskReplica]),
    of("create_copy_task", None, None, &[Function::CreateCopyTask]),
    of("create_move_task", None, None, &[Function::CreateMoveTask]),
    of("query_task", None, None, &[Function::QueryTask]),
    of("fetch_tasks", None, None, &[Function::FetchTasks]),
    of("update_task", None, None, &[Function::MarkTaskToComplete]),
];

/// Batches, under `master_batch_NAME_…`.
pub(crate) static BATCHES: [Instrument; 7] = [
    of(
        "put_start",
        Some("PutStart"),
        Some(Kind::PutStart),
        &[Function::BatchPutStart, Function::BatchUpsertStart],
    ),
    of(
        "put_end",
        Some("PutEnd"),
        Some(Kind::PutEnd),
        &[Function::BatchPutEnd, Function::BatchUpsertEnd],
    ),
    of(
        "put_revoke",
        Some("PutRevoke"),
        Some(Kind::PutRevoke),
        &[Function::BatchPutRevoke, Function::BatchUpsertRevoke],
    ),
    of("get_replica_list", Some("Get"), Some(Kind::Get), &[Function::BatchGetReplicaList]),
    of("exist_key", Some("ExistKey"), Some(Kind::Exist), &[Function::BatchExistKey]),
    of("query_ip", Some("QueryIp"), None, &[Function::BatchQueryIp]),
    of(
        "replica_clear",
        Some("Clear"),
        None,
        &[Function::BatchReplicaClear, Function::BatchReplicaClearOfTenant],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_call_counts_twice_and_no_name_stands_twice() {
        let functions: Vec<Function> = SINGLE
            .iter()
            .chain(&BATCHES)
            .flat_map(|it| [it.mooncake, it.by_item].concat())
            .collect();
        assert_eq!(functions.iter().collect::<HashSet<_>>().len(), functions.len());
        for instruments in [&SINGLE[..], &BATCHES[..]] {
            let names: HashSet<_> = instruments.iter().map(|it| it.name).collect();
            assert_eq!(names.len(), instruments.len());
        }
    }

    #[test]
    fn what_came_since_an_earlier_look_is_never_below_zero() {
        let now = Counts { requests: 7, failures: 1, ..Counts::NONE };
        let before = Counts { requests: 5, failures: 2, ..Counts::NONE };
        let passed = now.since(&before);
        assert_eq!((passed.requests, passed.failures), (2, 0));
        assert_eq!((now.successes(), passed.successes()), (6, 2));
    }
}
