use std::collections::BTreeMap;

use proptest::prelude::*;

use super::record::OBJECT_BYTES_MAX;
use super::*;
use crate::moment::Moment;
use crate::shard::index::Index;
use crate::shard::keys::Keys;

fn object(number: u64) -> Object {
    Object {
        key: KeyAddress::from_raw(number as u32 ^ 0xFFFF_0000),
        key_length: number as u16,
        state: if number.is_multiple_of(3) { ObjectState::Writing } else { ObjectState::Readable },
        flags: ObjectFlags { hard_pin: number & 1 != 0, soft_pin: number & 2 != 0 },
        size_bytes: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & OBJECT_BYTES_MAX,
        lease_until: Moment::from_ms(number.wrapping_mul(0xC2B2_AE3D_27D4_EB4F) >> 17),
        first_range: !(number as u32),
        sequence: number.wrapping_mul(3),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { number: u64 },
    InsertMany { count: usize },
    Remove { pick: usize },
    RemoveRange { first: u32, count: u32 },
    Change { pick: usize, number: u64, field: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<u64>().prop_map(|number| Step::Insert { number }),
        2 => (1..6000_usize).prop_map(|count| Step::InsertMany { count }),
        3 => any::<usize>().prop_map(|pick| Step::Remove { pick }),
        2 => (0..20_000_u32, 1..9000_u32)
            .prop_map(|(first, count)| Step::RemoveRange { first, count }),
        4 => (any::<usize>(), any::<u64>(), 0..5_u8)
            .prop_map(|(pick, number, field)| Step::Change { pick, number, field }),
    ]
}

/// Changes one field of an object and of its model alike.
fn change(objects: &mut Objects, handle: ObjectHandle, model: &mut Object, number: u64, field: u8) {
    let new = object(number);
    match field {
        0 => (objects.set_key(handle, new.key), model.key = new.key),
        1 => (objects.set_state(handle, new.state), model.state = new.state),
        2 => (objects.set_flags(handle, new.flags), model.flags = new.flags),
        3 => {
            (objects.set_lease_until(handle, new.lease_until), model.lease_until = new.lease_until)
        }
        _ => {
            (objects.set_first_range(handle, new.first_range), model.first_range = new.first_range)
        }
    };
}

fn all_fields(objects: &Objects, handle: ObjectHandle) -> Object {
    Object {
        key: objects.key(handle),
        key_length: objects.key_length(handle),
        state: objects.state(handle),
        flags: objects.flags(handle),
        size_bytes: objects.size_bytes(handle),
        lease_until: objects.lease_until(handle),
        first_range: objects.first_range(handle),
        sequence: objects.sequence(handle),
    }
}

fn compare(objects: &Objects, model: &BTreeMap<u32, Object>) {
    assert_eq!(objects.len(), model.len());
    let mut cursor = 0;
    for (raw, expected) in model {
        let handle = objects.next_from(cursor).expect("the walk meets every object");
        assert_eq!(handle.0, *raw);
        assert!(objects.live(handle));
        assert_eq!(all_fields(objects, handle), *expected);
        cursor = raw + 1;
    }
    assert_eq!(objects.next_from(cursor), None);
    let allocated = objects.chunks.iter().filter(|chunk| chunk.records.capacity() > 0).count();
    assert_eq!(objects.allocated, allocated);
    let empty = objects
        .chunks
        .iter()
        .filter(|chunk| chunk.records.capacity() > 0 && chunk.live == 0)
        .count();
    assert!(empty <= 1, "{empty} empty chunks keep their memory");
    for (number, chunk) in objects.chunks.iter().enumerate() {
        let with_room = objects.with_room[number / 64] >> (number % 64) & 1 != 0;
        assert_eq!(with_room, !chunk.is_full());
    }
}

fn insert(objects: &mut Objects, model: &mut BTreeMap<u32, Object>, number: u64) {
    let handle = objects.insert(object(number));
    assert_eq!(model.insert(handle.0, object(number)), None, "the handle was free");
}

fn remove(objects: &mut Objects, model: &mut BTreeMap<u32, Object>, raw: u32) {
    let handle = ObjectHandle(raw);
    assert_eq!(Some(objects.remove(handle)), model.remove(&raw));
    assert!(!objects.live(handle));
}

fn pick_from(model: &BTreeMap<u32, Object>, pick: usize) -> Option<u32> {
    model.keys().nth(pick % model.len().max(1)).copied()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn they_hold_what_a_naive_map_holds(steps in prop::collection::vec(step(), 1..30)) {
        let mut objects = Objects::new();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert { number } => insert(&mut objects, &mut model, number),
                Step::InsertMany { count } => {
                    for number in 0..count {
                        insert(&mut objects, &mut model, number as u64);
                    }
                }
                Step::Remove { pick } => {
                    if let Some(raw) = pick_from(&model, pick) {
                        remove(&mut objects, &mut model, raw);
                    }
                }
                Step::RemoveRange { first, count } => {
                    let range: Vec<u32> =
                        model.range(first..first + count).map(|(raw, _)| *raw).collect();
                    for raw in range {
                        remove(&mut objects, &mut model, raw);
                    }
                }
                Step::Change { pick, number, field } => {
                    if let Some(raw) = pick_from(&model, pick) {
                        let expected = model.get_mut(&raw).expect("it was picked");
                        change(&mut objects, ObjectHandle(raw), expected, number, field);
                    }
                }
            }
            compare(&objects, &model);
        }
    }

    #[test]
    fn a_record_gives_back_what_was_put_in(number in any::<u64>()) {
        let record = ObjectRecord::new(object(number));
        prop_assert!(!record.is_free());
        prop_assert_eq!(record.object(), object(number));
    }
}

#[test]
fn the_latest_removed_handle_of_a_chunk_is_used_first() {
    let mut objects = Objects::new();
    let handles: Vec<ObjectHandle> = (0..10).map(|number| objects.insert(object(number))).collect();
    objects.remove(handles[3]);
    objects.remove(handles[7]);
    assert_eq!(objects.insert(object(20)), handles[7]);
    assert_eq!(objects.insert(object(21)), handles[3]);
    assert_eq!(objects.insert(object(22)).0, 10);
}

#[test]
fn objects_gather_in_the_lowest_chunks() {
    let mut objects = Objects::new();
    let handles: Vec<ObjectHandle> =
        (0..5 * CHUNK_RECORDS as u64).map(|number| objects.insert(object(number))).collect();
    objects.remove(handles[4 * CHUNK_RECORDS + 5]);
    objects.remove(handles[CHUNK_RECORDS + 5]);
    assert_eq!(objects.insert(object(1)), handles[CHUNK_RECORDS + 5]);
    assert_eq!(objects.insert(object(2)), handles[4 * CHUNK_RECORDS + 5]);
}

#[test]
fn an_emptied_chunk_gives_its_memory_back() {
    let mut objects = Objects::new();
    let count = 20 * CHUNK_RECORDS as u64;
    let handles: Vec<ObjectHandle> =
        (0..count).map(|number| objects.insert(object(number))).collect();
    let full_bytes = objects.memory_bytes();
    for handle in &handles[5 * CHUNK_RECORDS..] {
        objects.remove(*handle);
    }
    assert!(objects.memory_bytes() * 3 < full_bytes);
    assert_eq!(objects.next_from(5 * CHUNK_RECORDS as u32), None);
    for handle in &handles[5 * CHUNK_RECORDS..] {
        assert!(!objects.live(*handle));
        objects.prefetch(*handle);
    }
}

#[test]
fn going_back_and_forth_over_the_border_of_a_chunk_keeps_the_memory() {
    let mut objects = Objects::new();
    for number in 0..CHUNK_RECORDS as u64 {
        objects.insert(object(number));
    }
    let over = objects.insert(object(1));
    let bytes = objects.memory_bytes();
    for _ in 0..10 {
        objects.remove(over);
        assert_eq!(objects.memory_bytes(), bytes);
        assert_eq!(objects.insert(object(1)), over);
    }
}

#[test]
fn a_lease_beyond_the_end_of_time_ends_there() {
    let mut record = ObjectRecord::new(object(5));
    let size_bytes = record.size_bytes();
    record.set_lease_until(Moment::from_ms(u64::MAX));
    assert_eq!(record.lease_until().as_ms(), (1 << 47) - 1);
    assert_eq!(record.size_bytes(), size_bytes);
    assert!(!record.reused());
}

#[test]
fn an_object_stays_reused_whatever_its_lease_and_size() {
    let mut record = ObjectRecord::new(object(5));
    let (size_bytes, lease_until) = (record.size_bytes(), record.lease_until());
    record.set_reused();
    assert_eq!((record.size_bytes(), record.lease_until()), (size_bytes, lease_until));
    record.set_lease_until(Moment::from_ms(7));
    assert_eq!((record.size_bytes(), record.lease_until().as_ms()), (size_bytes, 7));
    assert!(record.reused());
}

// R24
#[test]
fn a_million_objects_with_keys_of_96_bytes_take_at_most_150_bytes_each() {
    let mut index = Index::new();
    let mut keys = Keys::new();
    let mut objects = Objects::new();
    let route = crate::route::Route::new(1, 1);
    let mut key = [b'k'; 96];
    for number in 0..1_000_000_u64 {
        key[88..].copy_from_slice(&number.to_le_bytes());
        let handle = objects.insert(Object { key_length: 96, ..object(number) });
        objects.set_key(handle, keys.push(handle.0, &key).expect("there is room"));
        index.insert(route.hash(&key).tag(), handle);
    }
    let bytes = index.memory_bytes() + keys.memory_bytes() + objects.memory_bytes();
    let each = bytes as f64 / objects.len() as f64;
    assert!(each <= 150.0, "{each:.1} bytes for each object");
    assert_eq!(index.len(), objects.len());
    for number in (0..1_000_000_u64).step_by(997) {
        key[88..].copy_from_slice(&number.to_le_bytes());
        let found = index.find(route.hash(&key).tag(), |handle| {
            keys.bytes(objects.key(handle), usize::from(objects.key_length(handle))) == key
        });
        assert_eq!(found.map(|handle| objects.sequence(handle)), Some(number * 3));
    }
}

#[test]
fn an_idle_class_lasts_until_the_next_access_and_touches_nothing_else() {
    let mut objects = Objects::new();
    for number in 0..4 {
        let handle = objects.insert(object(number));
        objects.set_idle_class(handle, IdleClass(1023));
        let flags = ObjectFlags { hard_pin: true, soft_pin: false };
        objects.set_flags(handle, flags);
        objects.set_shrunk(handle);
        objects.set_state(handle, ObjectState::Readable);
        assert_eq!(objects.idle_class(handle), IdleClass(1023));
        objects.set_lease_until(handle, Moment::from_ms(7));
        assert_eq!(objects.idle_class(handle), IdleClass::NONE);
        assert_eq!(objects.flags(handle), flags);
        assert!(objects.shrunk(handle) && objects.state(handle) == ObjectState::Readable);
    }
}
