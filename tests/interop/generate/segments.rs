//! Memory that comes and goes, and what becomes of the objects in it.

use std::collections::BTreeSet;

use mooring_proto::mooncake::*;
use rand::Rng;
use rand::seq::SliceRandom;

use super::objects::TENANT;
use super::{Names, SEGMENT_BYTES, Sequence, leaked, segment, segment_name};
use crate::client::config;

/// Epochs of such a sequence, and calls in each.
const EPOCHS: usize = 3;
const CALLS: usize = 14;

/// Segments of a sequence: the first half belongs to one store, the others to another one.
const SEGMENTS: u64 = 4;

/// The stores.
const STORES: [Uuid; 2] = [Uuid { first: 1, second: 1 }, Uuid { first: 1, second: 2 }];

/// What the masters know, as far as the next call hangs on it.
#[derive(Default)]
struct Model {
    /// Segments that are mounted.
    mounted: BTreeSet<u64>,
    /// Clients that have said that they mounted everything.
    counted: Vec<Uuid>,
    /// Memory came by a remount, so that nothing is put there before the next epoch.
    resting: bool,
}

/// The sequence of a seed, for masters that nobody else uses.
pub(crate) fn sequence(seed: u64) -> Sequence {
    let mut names = Names::of(seed);
    let mut model = Model::default();
    let mut epochs = Vec::new();
    let mut alive = Vec::new();
    for epoch in 0..EPOCHS {
        let mut calls = if epoch == 0 { beginning(&mut names, &mut model) } else { Vec::new() };
        while calls.len() < CALLS {
            add(&mut calls, &mut names, &mut model);
        }
        epochs.push(calls);
        let pinging: Vec<Uuid> = STORES.iter().copied().filter(|_| !names.one_in(3)).collect();
        model.mounted.retain(|number| pinging.contains(&owner(*number)));
        model.counted.retain(|client| pinging.contains(client));
        model.resting = false;
        alive.push(pinging);
    }
    let keys = names.keys.clone();
    epochs.push(vec![Call::BatchGetReplicaList(BatchGetReplicaList { keys, tenant: TENANT })]);
    Sequence { seed, epochs, alive }
}

fn owner(number: u64) -> Uuid {
    STORES[usize::from(number > SEGMENTS / 2)]
}

fn numbers_of(client: Uuid) -> impl Iterator<Item = u64> {
    (1..=SEGMENTS).filter(move |number| owner(*number) == client)
}

fn of_store(client: Uuid) -> Vec<Segment<'static>> {
    numbers_of(client).map(|number| segment(number, SEGMENT_BYTES)).collect()
}

/// All memory of a store. If it counts already, mostly that which is mounted: a client of Mooncake does
/// not remount anything else.
fn remount(names: &mut Names, model: &mut Model, client: Uuid) -> Call<'static> {
    let counts = model.counted.contains(&client);
    let all = names.one_in(if counts { 20 } else { 3 }) == counts;
    let named: Vec<u64> =
        numbers_of(client).filter(|number| all || model.mounted.contains(number)).collect();
    model.resting |= named.iter().any(|number| !model.mounted.contains(number));
    model.mounted.extend(&named);
    model.counted.push(client);
    let segments = named.into_iter().map(|number| segment(number, SEGMENT_BYTES)).collect();
    Call::ReMountSegment(ReMountSegment { segments, client })
}

/// What a store of Mooncake does first.
fn beginning(names: &mut Names, model: &mut Model) -> Vec<Call<'static>> {
    let mut calls = vec![
        Call::ServiceReady(ServiceReady {}),
        Call::GetStorageConfig(GetStorageConfig {}),
        Call::GetFsdir(GetFsdir {}),
    ];
    for client in STORES {
        if names.one_in(4) {
            continue;
        }
        let segments = of_store(client);
        for (number, segment) in numbers_of(client).zip(segments) {
            model.mounted.insert(number);
            calls.push(Call::MountSegment(MountSegment { segment, client }));
        }
        calls.push(Call::Ping(Ping { client }));
        if !names.one_in(4) {
            calls.push(remount(names, model, client));
        }
    }
    calls
}

/// One more call, or two that belong together.
fn add(calls: &mut Vec<Call<'static>>, names: &mut Names, model: &mut Model) {
    let number = names.rng.random_range(1..=SEGMENTS);
    let client = owner(number);
    let id = segment(number, SEGMENT_BYTES).id;
    calls.push(match names.rng.random_range(0..24) {
        0..7 if model.resting && !names.one_in(10) => Call::Ping(Ping { client }),
        0..7 => return put(calls, names),
        7..11 => Call::GetReplicaList(GetReplicaList { key: names.key(), tenant: TENANT }),
        11 | 12 => Call::BatchExistKey(BatchExistKey { keys: names.some_keys(), tenant: TENANT }),
        13 if names.one_in(4) && model.mounted.contains(&number) => overlapping(number),
        13 => mount(names, model, number),
        14 | 15 => Call::Ping(Ping { client }),
        16 | 17 => remount(names, model, client),
        18 => {
            // Only its owner does that, but for a mistake.
            let client = if names.one_in(6) { names.of_these(&STORES) } else { client };
            if client == owner(number) {
                model.mounted.remove(&number);
            }
            Call::UnmountSegment(UnmountSegment { segment: id, client })
        }
        19 => Call::GracefulUnmountSegment(GracefulUnmountSegment {
            segment: id,
            client: names.of_these(&[client, client, STORES[0]]),
            grace_ms: 600_000,
        }),
        20 => {
            let number = names.rng.random_range(1..=SEGMENTS + 1);
            Call::QuerySegmentStatus(QuerySegmentStatus {
                name: Str::from(leaked(segment_name(number))),
            })
        }
        21 => Call::QuerySegmentStatusById(QuerySegmentStatusById { segment: id }),
        22 => {
            let clients = vec![STORES[0], STORES[1], names.writers[0]];
            Call::BatchQueryIp(BatchQueryIp { clients })
        }
        _ => Call::RemoveAll(RemoveAll { force: names.one_in(2), tenant: TENANT }),
    });
}

/// Fresh memory, or some that is none.
fn mount(names: &mut Names, model: &mut Model, number: u64) -> Call<'static> {
    let mut segment = segment(number, SEGMENT_BYTES);
    match names.rng.random_range(0..10) {
        0 => segment.size = 0,
        1 => segment.base = 0,
        _ => {
            model.mounted.insert(number);
        }
    }
    Call::MountSegment(MountSegment { segment, client: owner(number) })
}

/// Memory under another id, in the middle of some that its owner has mounted.
fn overlapping(number: u64) -> Call<'static> {
    let mut segment = segment(number, SEGMENT_BYTES / 2);
    segment.id.second += 1000;
    segment.base += SEGMENT_BYTES / 4;
    Call::MountSegment(MountSegment { segment, client: owner(number) })
}

/// An object in the first of the segments, in an order of its own, that is there.
fn put(calls: &mut Vec<Call<'static>>, names: &mut Names) {
    let (client, key) = (names.writer(), names.key());
    let mut numbers: Vec<u64> = (1..=SEGMENTS).collect();
    numbers.shuffle(&mut names.rng);
    let mut config = config();
    config.replica_num = names.of_these(&[1, 1, 2, 4]);
    config.preferred_segments =
        numbers.into_iter().map(|number| Str::from(leaked(segment_name(number)))).collect();
    let start = PutStart { client, key, slice_length: 10_000, config, tenant: TENANT };
    calls.push(Call::PutStart(start));
    if !names.one_in(5) {
        let meta = ObjectMeta { key, object_checksum: None };
        let replica_type = ReplicaType::ALL;
        calls.push(Call::PutEnd(PutEnd { client, meta, replica_type, tenant: TENANT }));
    }
}
