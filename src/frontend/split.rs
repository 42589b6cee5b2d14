//! A batch by shard, and the answers in the order of the request again.

use bytes::Bytes;
use mooring_actors::shard::message::{KeyBatch, KeyRef};
use mooring_actors::{Route, ShardId};

/// The keys of a request that fall to one shard.
pub(crate) struct Part {
    /// Which shard.
    pub(crate) shard: ShardId,
    /// The keys, where they stand in the frame.
    pub(crate) batch: KeyBatch,
    /// Their places in the request.
    pub(crate) positions: Vec<u32>,
}

impl Part {
    /// What stands beside the keys of this part in a column of the request.
    pub(crate) fn pick<T>(&self, column: impl Fn(usize) -> T) -> Vec<T> {
        self.positions.iter().map(|position| column(*position as usize)).collect()
    }
}

/// Splits keys that were decoded in place from `frame` by the shards that hold them. Shards
/// without a key have no part.
///
/// # Panics
/// If a key does not lie in the frame.
pub(crate) fn split<'a>(
    route: Route,
    frame: &Bytes,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<Part> {
    let shards = usize::from(route.shards());
    // Hashes spread evenly; a little more than the fair share spares most of the growing.
    let expected = keys.len() / shards + keys.len() / shards / 8 + 1;
    let mut by_shard: Vec<Option<Part>> = Vec::new();
    by_shard.resize_with(shards, || None);
    for (position, key) in keys.enumerate() {
        let hash = route.hash(key);
        let shard = route.shard(hash);
        let part = by_shard[usize::from(shard.0)].get_or_insert_with(|| Part {
            shard,
            batch: KeyBatch { frame: frame.clone(), keys: Vec::with_capacity(expected) },
            positions: Vec::with_capacity(expected),
        });
        let (at, length) = place_in(frame, key);
        part.batch.keys.push(KeyRef { hash, at, length });
        part.positions.push(u32_of(position));
    }
    by_shard.into_iter().flatten().collect()
}

/// Where a key lies in the frame that it borrows from.
fn place_in(frame: &[u8], key: &[u8]) -> (u32, u32) {
    if key.is_empty() {
        // An empty slice may point anywhere; the shard refuses the key, wherever it is.
        return (0, 0);
    }
    let at = (key.as_ptr().addr()).wrapping_sub(frame.as_ptr().addr());
    let inside = at <= frame.len() && key.len() <= frame.len() - at;
    assert!(inside, "keys are decoded in place");
    (u32_of(at), u32_of(key.len()))
}

fn u32_of(number: usize) -> u32 {
    u32::try_from(number).expect("a frame and the count of its keys are far below 4 Gi")
}

/// Answers of several shards, to be put in the order of the request.
pub(crate) struct Gather<T> {
    items: Vec<Option<T>>,
}

impl<T> Gather<T> {
    /// For a request of this many keys.
    pub(crate) fn new(keys: usize) -> Gather<T> {
        let mut items = Vec::new();
        items.resize_with(keys, || None);
        Gather { items }
    }

    /// The answers to the keys at these places.
    pub(crate) fn place(&mut self, positions: &[u32], answers: impl IntoIterator<Item = T>) {
        for (position, answer) in positions.iter().zip(answers) {
            self.items[*position as usize] = Some(answer);
        }
    }

    /// All answers; what has none gets this one.
    pub(crate) fn finish(self, missing: impl Fn() -> T) -> Vec<T> {
        self.items.into_iter().map(|item| item.unwrap_or_else(&missing)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A frame with the keys one behind the other, and where each stands in it.
    fn frame_of(keys: &[Vec<u8>]) -> (Bytes, Vec<std::ops::Range<usize>>) {
        let mut frame = vec![0xff_u8; 3];
        let mut places = Vec::new();
        for key in keys {
            places.push(frame.len()..frame.len() + key.len());
            frame.extend_from_slice(key);
        }
        (Bytes::from(frame), places)
    }

    proptest! {
        #[test]
        fn every_key_goes_to_its_shard_once_and_its_answer_comes_back_to_its_place(
            keys in vec(vec(any::<u8>(), 0..20), 0..60),
            shards in 1_u16..9,
        ) {
            let (frame, places) = frame_of(&keys);
            let route = Route::new(5, shards);
            let parts = split(route, &frame, places.iter().map(|place| &frame[place.clone()]));
            let mut gather = Gather::new(keys.len());
            for part in &parts {
                prop_assert!(!part.batch.is_empty());
                prop_assert_eq!(part.batch.len(), part.positions.len());
                for index in 0..part.batch.len() {
                    let key = part.batch.key(index);
                    prop_assert_eq!(route.shard(route.hash(key)), part.shard);
                    prop_assert_eq!(route.hash(key), part.batch.keys[index].hash);
                }
                let answers = (0..part.batch.len()).map(|index| part.batch.key(index).to_vec());
                gather.place(&part.positions, answers);
                prop_assert_eq!(part.pick(|position| keys[position].len()),
                    part.batch.keys.iter().map(|key| key.length as usize).collect::<Vec<_>>());
            }
            prop_assert_eq!(gather.finish(|| unreachable!()), keys);
        }
    }

    #[test]
    fn what_has_no_answer_gets_the_one_for_missing_ones() {
        let mut gather = Gather::new(3);
        gather.place(&[2, 0], ["c", "a"]);
        assert_eq!(gather.finish(|| "-"), ["a", "-", "c"]);
    }

    #[test]
    #[should_panic(expected = "decoded in place")]
    fn a_key_from_elsewhere_is_a_mistake_of_the_caller() {
        let frame = Bytes::from_static(b"frame");
        let elsewhere = b"key".to_vec();
        split(Route::new(5, 1), &frame, [elsewhere.as_slice()].into_iter());
    }
}
