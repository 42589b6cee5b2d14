//! Objects in memory that is there all the time: the whole life of a few keys.

use mooring_proto::mooncake::*;
use rand::Rng;

use super::{Names, SEGMENT_BYTES, Sequence, leaked, tenant};
use crate::client::config;

/// Calls in an epoch.
const CALLS: usize = 16;

/// The sequence of a seed with so many epochs, on masters with so many segments.
pub(crate) fn sequence(seed: u64, epochs: usize, segments: u64) -> Sequence {
    let mut names = Names::of(seed);
    let mut epochs: Vec<Vec<_>> = (0..epochs)
        .map(|_| {
            let mut calls = Vec::new();
            while calls.len() < CALLS {
                add(&mut calls, &mut names, segments);
            }
            calls
        })
        .collect();
    let keys = names.keys.clone();
    epochs.push(vec![Call::BatchGetReplicaList(BatchGetReplicaList { keys, tenant: TENANT })]);
    let alive = vec![Vec::new(); epochs.len()];
    Sequence { seed, epochs, alive }
}

/// The tenant that is meant when nothing hangs on it.
pub(crate) const TENANT: Str<'static> = Str(b"default");

/// One more call, or two that belong together.
fn add(calls: &mut Vec<Call<'static>>, names: &mut Names, segments: u64) {
    match names.rng.random_range(0..20) {
        0..5 => {
            let start = put_start(names, segments);
            let end = PutEnd {
                client: start.client,
                meta: meta(names, start.key),
                replica_type: ReplicaType::ALL,
                tenant: TENANT,
            };
            calls.push(Call::PutStart(start));
            if !names.one_in(4) {
                calls.push(Call::PutEnd(end));
            }
        }
        5..8 => calls.push(finish(names)),
        8..12 => calls.push(look(names)),
        12..14 => calls.push(upsert(names, segments)),
        14..17 => calls.push(batch(names, segments)),
        _ => calls.push(removal(names, segments)),
    }
}

fn put_start(names: &mut Names, segments: u64) -> PutStart<'static> {
    PutStart {
        client: names.writer(),
        key: if names.one_in(50) { Str::default() } else { names.key() },
        slice_length: length(names),
        config: configuration(names, 1, segments),
        tenant: tenant(names),
    }
}

/// Mostly one that fits; sometimes none, and sometimes more than any segment has.
fn length(names: &mut Names) -> u64 {
    match names.rng.random_range(0..200) {
        0..6 => 0,
        6..12 => 2 * SEGMENT_BYTES,
        12 => 1 << 50,
        _ => names.of_these(&[1, 1000, 4096, 65_536, 65_537, 1 << 20]),
    }
}

fn meta(names: &mut Names, key: Str<'static>) -> ObjectMeta<'static> {
    let object_checksum = (!names.one_in(3)).then(|| names.rng.random_range(0..100));
    ObjectMeta { key, object_checksum }
}

/// What a put of so many keys asks for.
fn configuration(names: &mut Names, keys: usize, segments: u64) -> ReplicateConfig<'static> {
    let mut config = config();
    if names.one_in(5) {
        config.replica_num = names.of_these(&[0, 2, 3, 8]);
    }
    if names.one_in(40) {
        config.nof_replica_num = 1;
    }
    if names.one_in(5) {
        config.soft_pin_action = SoftPinAction(names.of_these(&[0, 1, 1, 2, 3]));
        config.soft_pin_ttl_ms = names.of_these(&[None, Some(0), Some(60_000), Some(u64::MAX)]);
    }
    config.with_hard_pin = names.one_in(8);
    config.data_type = ObjectDataType(names.rng.random_range(0..10));
    if names.one_in(6) {
        let number = names.rng.random_range(1..=segments + 1);
        config.preferred_segment = Str::from(leaked(super::segment_name(number)));
    }
    if names.one_in(4) {
        let count = if names.one_in(6) { keys + 1 } else { keys };
        let group = |names: &mut Names| {
            let number = names.rng.random_range(0..2);
            Str::from(leaked(format!("{}group-{number}", names.prefix)))
        };
        config.group_ids = Some((0..count).map(|_| group(names)).collect());
    }
    config
}

/// An end or a revocation, of whatever comes.
fn finish(names: &mut Names) -> Call<'static> {
    let (client, key, tenant) = (names.writer(), names.key(), tenant(names));
    let kinds = [ReplicaType::ALL, ReplicaType::ALL, ReplicaType::MEMORY, ReplicaType::MEMORY];
    let odd = [ReplicaType::DISK, ReplicaType::NOF_SSD, ReplicaType::DFS];
    let replica_type = if names.one_in(12) { names.of_these(&odd) } else { names.of_these(&kinds) };
    match names.rng.random_range(0..6) {
        0 | 1 => Call::PutRevoke(PutRevoke { client, key, replica_type, tenant }),
        2 => Call::UpsertRevoke(UpsertRevoke { client, key, replica_type, tenant }),
        3 => Call::UpsertEnd(UpsertEnd { client, meta: meta(names, key), replica_type, tenant }),
        _ => Call::PutEnd(PutEnd { client, meta: meta(names, key), replica_type, tenant }),
    }
}

fn look(names: &mut Names) -> Call<'static> {
    let tenant = tenant(names);
    match names.rng.random_range(0..7) {
        0 | 1 => Call::ExistKey(ExistKey { key: names.key(), tenant }),
        2 | 3 => Call::GetReplicaList(GetReplicaList { key: names.key(), tenant }),
        4 => Call::BatchExistKey(BatchExistKey { keys: names.some_keys(), tenant }),
        5 => Call::BatchGetReplicaList(BatchGetReplicaList { keys: names.some_keys(), tenant }),
        _ => Call::GetReplicaListByRegex(GetReplicaListByRegex { regex: regex(names), tenant }),
    }
}

/// Only of the sequence's own keys, or one that is none.
fn regex(names: &mut Names) -> Str<'static> {
    let tail = names.of_these(&["[0-2]$", "[^l]*3", "(0|1|long)", "\\d$", "nothing", "."]);
    let broken = names.one_in(15);
    let head = if broken { "(" } else { "" };
    Str::from(leaked(format!("^{head}{}{tail}", names.prefix)))
}

fn upsert(names: &mut Names, segments: u64) -> Call<'static> {
    let mut config = configuration(names, 1, segments);
    keep_group(names, &mut config);
    Call::UpsertStart(UpsertStart {
        client: names.writer(),
        key: names.key(),
        slice_length: length(names),
        config,
        tenant: tenant(names),
    })
}

/// Upserts mostly name no group: with one they end the sequence at a difference.
fn keep_group(names: &mut Names, config: &mut ReplicateConfig<'static>) {
    if !names.one_in(10) {
        config.group_ids = None;
    }
}

fn batch(names: &mut Names, segments: u64) -> Call<'static> {
    let (client, keys, tenant) = (names.writer(), names.some_keys(), tenant(names));
    let replica_type = ReplicaType::ALL;
    let kind = names.rng.random_range(0..8);
    if kind < 4 {
        let surplus = usize::from(names.one_in(12));
        let slice_lengths: Vec<u64> = (0..keys.len() + surplus).map(|_| length(names)).collect();
        let mut config = configuration(names, keys.len(), segments);
        config.prefer_alloc_in_same_node = names.one_in(4);
        if kind == 0 {
            keep_group(names, &mut config);
        }
        return match kind {
            0 => Call::BatchUpsertStart(BatchUpsertStart {
                client,
                keys,
                slice_lengths,
                config,
                tenant,
            }),
            _ => Call::BatchPutStart(BatchPutStart { client, keys, slice_lengths, config, tenant }),
        };
    }
    let metas: Vec<_> = keys.iter().map(|key| meta(names, *key)).collect();
    match kind {
        4 => Call::BatchPutRevoke(BatchPutRevoke { client, keys, replica_type, tenant }),
        5 => Call::BatchUpsertRevoke(BatchUpsertRevoke { client, keys, tenant }),
        6 => Call::BatchUpsertEnd(BatchUpsertEnd { client, metas, tenant }),
        _ => Call::BatchPutEnd(BatchPutEnd { client, metas, replica_type, tenant }),
    }
}

fn removal(names: &mut Names, segments: u64) -> Call<'static> {
    let (force, tenant) = (names.one_in(3), tenant(names));
    match names.rng.random_range(0..8) {
        0 => Call::RemoveByRegex(RemoveByRegex { regex: regex(names), force, tenant }),
        1 => Call::BatchRemove(BatchRemove { keys: names.some_keys(), force, tenant }),
        2 => {
            // Of several segments each master chooses for itself.
            let segment = if segments == 1 { "node-1:12345" } else { "" };
            let segment_name = Str::from(names.of_these(&["", "node-9:1", segment]));
            let client = names.writer();
            Call::BatchReplicaClear(BatchReplicaClear {
                keys: names.some_keys(),
                client,
                segment_name,
            })
        }
        _ => Call::Remove(Remove { key: names.key(), force, tenant }),
    }
}
