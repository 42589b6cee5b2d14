//! A model of a cache with one weight.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::idle_goes_first;
use crate::moment::Moment;

/// A cache that evicts with one weight: for how many times as long something that was used again
/// may be idle, before it goes in front of something that was used once.
///
/// It holds no values, only what is there and in which order it goes. What it has evicted it
/// remembers, as many as it holds; when that is used, it was used again.
#[derive(Clone, Debug)]
pub struct Trial {
    weight: u64,
    capacity_bytes: u64,
    known: HashMap<u64, Known, BuildHasherDefault<Mixer>>,
    /// Those of each place in order of use, and such as are not there any more.
    queues: [VecDeque<(u64, u64)>; PLACES],
    bytes: u64,
    gone: usize,
    uses: u64,
    now: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    place: Place,
    size_bytes: u64,
    used: Moment,
    /// Which use it was: an entry of a queue with another number is outdated.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    Reused,
    Gone,
}

impl Trial {
    /// An empty one with a weight, at least one, and room for so many bytes.
    pub fn new(weight: u64, capacity_bytes: u64) -> Trial {
        Trial {
            weight,
            capacity_bytes,
            known: HashMap::default(),
            queues: Default::default(),
            bytes: 0,
            gone: 0,
            uses: 0,
            now: Moment::default(),
        }
    }

    /// Changes the weight.
    pub fn set_weight(&mut self, weight: u64) {
        self.weight = weight;
    }

    /// Changes for how many bytes there is room.
    pub fn set_capacity_bytes(&mut self, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
        self.evict();
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.known.len() - self.gone
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it holds a key.
    pub fn holds(&self, key: u64) -> bool {
        self.known.get(&key).is_some_and(|known| known.place != Place::Gone)
    }

    /// Uses a key, and keeps it if there is room. Says whether it was there.
    pub fn note_use(&mut self, now: Moment, key: u64, size_bytes: u64) -> bool {
        self.uses += 1;
        self.now = now;
        let before = self.known.get(&key).copied();
        let place = if before.is_some() { Place::Reused } else { Place::Idle };
        let there = before.filter(|before| before.place != Place::Gone);
        self.gone -= usize::from(before.is_some() && there.is_none());
        self.bytes -= there.map_or(0, |before| before.size_bytes);
        self.bytes += size_bytes;
        self.known.insert(key, Known { place, size_bytes, used: now, number: self.uses });
        self.push(place, key, self.uses);
        self.evict();
        there.is_some()
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, key: u64) {
        match self.known.remove(&key) {
            Some(Known { place: Place::Gone, .. }) => self.gone -= 1,
            Some(known) => self.bytes -= known.size_bytes,
            None => {}
        }
    }

    /// Forgets all keys but those that it is told to keep.
    pub(super) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.known.retain(|key, _| keep(*key));
        let known = self.known.values();
        let there = known.filter(|known| known.place != Place::Gone);
        let (count, bytes) =
            there.fold((0, 0), |(count, bytes), known| (count + 1, bytes + known.size_bytes));
        (self.gone, self.bytes) = (self.known.len() - count, bytes);
    }

    pub(super) fn halve_capacity(&mut self) {
        if self.capacity_bytes != u64::MAX {
            self.capacity_bytes /= 2;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let queued: usize = self.queues.iter().map(VecDeque::capacity).sum();
        self.known.capacity() * size_of::<(u64, Known)>() + queued * size_of::<(u64, u64)>()
    }

    fn evict(&mut self) {
        while self.bytes > self.capacity_bytes {
            let (idle, reused) = (self.oldest(Place::Idle), self.oldest(Place::Reused));
            let (place, (key, known)) = match (idle, reused) {
                (Some(idle), Some(reused)) => {
                    let idle_ms = |known: &Known| self.now.since_ms(known.used);
                    if idle_goes_first(idle_ms(&idle.1), idle_ms(&reused.1), self.weight) {
                        (Place::Idle, idle)
                    } else {
                        (Place::Reused, reused)
                    }
                }
                (Some(idle), None) => (Place::Idle, idle),
                (None, Some(reused)) => (Place::Reused, reused),
                (None, None) => return,
            };
            self.queues[place as usize].pop_front();
            self.bytes -= known.size_bytes;
            self.known.insert(key, Known { place: Place::Gone, ..known });
            self.push(Place::Gone, key, known.number);
            self.gone += 1;
            while self.gone > self.len() {
                let Some((key, _)) = self.oldest(Place::Gone) else { break };
                self.queues[Place::Gone as usize].pop_front();
                self.known.remove(&key);
                self.gone -= 1;
            }
        }
    }

    /// The oldest of a place. It stays at the front of the queue.
    fn oldest(&mut self, place: Place) -> Option<(u64, Known)> {
        let queue = &mut self.queues[place as usize];
        while let Some((key, number)) = queue.front().copied() {
            let known = self.known.get(&key).copied();
            if let Some(known) = known.filter(|known| current(known, place, number)) {
                return Some((key, known));
            }
            queue.pop_front();
        }
        None
    }

    fn push(&mut self, place: Place, key: u64, number: u64) {
        let queue = &mut self.queues[place as usize];
        queue.push_back((key, number));
        // As much work as there were uses since the last time.
        if queue.len() > 2 * self.known.len() + OUTDATED_MIN {
            let known = &self.known;
            queue.retain(|(key, number)| {
                known.get(key).is_some_and(|known| current(known, place, *number))
            });
        }
    }
}

fn current(known: &Known, place: Place, number: u64) -> bool {
    known.place == place && known.number == number
}

/// Keys are hashes already, but the bits by which a sample was chosen are all alike.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

const PLACES: usize = 3;

/// So many outdated entries are always left alone.
const OUTDATED_MIN: usize = 64;
