//! Memory that is full: which objects go, on either master, and which stay.
//!
//! The two do not evict the same objects, nor at the same moment. But of both an operator expects the
//! same: pinned and leased objects stay, old ones go before young ones, and a put finds room.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use mooring_proto::mooncake::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::client::{Client, TENANT, WRITER, config};
use crate::differential::{mount, program_for, seeds};
use crate::harness::PATIENCE;
use crate::masters::{Pair, Side};
use crate::tell;

const OBJECT_BYTES: u64 = 16 << 20;

/// Objects that fit into the memory at once.
const ROOM: usize = 64;

/// Objects that are put, one after the other.
const PUTS: usize = 3 * ROOM;

/// Why an object is not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    None,
    HardPin,
    SoftPin,
    Lease,
}

/// What is put by a seed. Few enough are guarded that there is always something to evict.
fn guards(seed: u64) -> Vec<Guard> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let guard = |rng: &mut SmallRng| match rng.random_range(0..PUTS) {
        0..4 => Guard::HardPin,
        4..8 => Guard::SoftPin,
        8..12 => Guard::Lease,
        _ => Guard::None,
    };
    (0..PUTS).map(|_| guard(&mut rng)).collect()
}

fn key_of(number: usize) -> String {
    format!("object-{number}")
}

/// Puts an object as soon as there is room for it.
fn put(client: &mut Client, number: usize, guard: Guard) {
    let key = key_of(number);
    let mut config = config();
    config.with_hard_pin = guard == Guard::HardPin;
    if guard == Guard::SoftPin {
        config.soft_pin_action = SoftPinAction::ENABLE;
    }
    let start = PutStart {
        client: WRITER,
        key: key.as_str().into(),
        slice_length: OBJECT_BYTES,
        config,
        tenant: TENANT,
    };
    let until = Instant::now() + PATIENCE;
    while let Err(code) = client.call(&start, |answer| answer.map(drop)) {
        assert_eq!(code, ErrorCode::NO_AVAILABLE_HANDLE, "{key}");
        assert!(Instant::now() < until, "no room for {key}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let meta = ObjectMeta { key: key.as_str().into(), object_checksum: None };
    let end = PutEnd { client: WRITER, meta, replica_type: ReplicaType::ALL, tenant: TENANT };
    client.call(&end, Expected::unwrap);
    if guard == Guard::Lease {
        let exist = ExistKey { key: key.as_str().into(), tenant: TENANT };
        assert_eq!(client.call(&exist, |answer| answer), Ok(true));
    }
}

/// Fills one master and gives the numbers of the objects that are there at the end.
fn survivors(client: &mut Client, guards: &[Guard]) -> BTreeSet<usize> {
    for (number, guard) in guards.iter().enumerate() {
        put(client, number, *guard);
    }
    let names: Vec<String> = (0..guards.len()).map(key_of).collect();
    let keys = names.iter().map(|name| Str::from(name.as_str())).collect();
    client.call(&BatchExistKey { keys, tenant: TENANT }, |answers| {
        let there = |(number, answer): (usize, &Expected<bool>)| answer.unwrap().then_some(number);
        answers.iter().enumerate().filter_map(there).collect()
    })
}

fn check(seed: u64, side: Side, guards: &[Guard], there: &BTreeSet<usize>) {
    let at = format!("seed {seed}, {side:?}: {there:?}");
    assert!((ROOM / 2..=ROOM).contains(&there.len()), "{at}");
    for (number, guard) in guards.iter().enumerate() {
        let is_there = there.contains(&number);
        if *guard != Guard::None {
            assert!(is_there, "{number} is guarded by {guard:?}; {at}");
        } else if number + ROOM / 4 >= guards.len() {
            assert!(is_there, "{number} is among the youngest; {at}");
        } else if number + 2 * ROOM < guards.len() {
            assert!(!is_there, "{number} is among the oldest; {at}");
        }
    }
}

fn compare(program: &OsString, seed: u64) {
    let flags = [
        "--default_kv_lease_ttl=600s",
        "--eviction_high_watermark_ratio=0.9",
        "--eviction_ratio=0.1",
        "--client_ttl=600",
    ];
    let pair = Pair::start(program, &flags);
    mount(&pair, 1..=1, ROOM as u64 * OBJECT_BYTES);
    let guards = guards(seed);
    for side in [Side::Theirs, Side::Ours] {
        let there = survivors(&mut pair.connect(side), &guards);
        check(seed, side, &guards, &there);
    }
}

#[test]
fn under_pressure_both_keep_what_is_guarded_and_evict_what_is_old() {
    let test = "under_pressure_both_keep_what_is_guarded_and_evict_what_is_old";
    let Some(program) = program_for(test) else { return };
    let seeds = seeds(8);
    tell(test, format!("{} sequences", seeds.len()));
    seeds.into_iter().for_each(|seed| compare(&program, seed));
}
