//! Puts that have started and neither ended nor been revoked.
//!
//! Sequences of a shard grow by one step with each start, so that the place of a put among the latest
//! ones follows from its sequence: nothing is hashed or searched for the usual put, which ends soon.

use std::collections::{BTreeMap, VecDeque};

use mooring_proto::ClientId;

use super::message::SoftPinAction;
use super::objects::ObjectHandle;
use super::put::SEQUENCE_STEP;
use crate::moment::Moment;

/// The unfinished puts of a shard.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// A place for each of the latest starts, in their order; empty if the put has ended. The first
    /// one is never empty.
    recent: VecDeque<Option<Entry>>,
    /// The sequence of the first of these places.
    first_sequence: u64,
    /// Those that take longer, by their sequences.
    slow: BTreeMap<u64, Entry>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    object: ObjectHandle,
    put: Put,
}

/// An unfinished put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) client: ClientId,
    pub(super) put_id: u64,
    pub(super) sequence: u64,
    pub(super) started: Moment,
    /// How many replicas were asked for; it may have got fewer.
    pub(super) replicas: u8,
    /// For how long the object is to be pinned softly once it is readable.
    pub(super) soft_pin_ttl_ms: Option<u64>,
    /// Until when the object that it replaces was pinned softly.
    pub(super) inherited_soft_pin_until: Option<Moment>,
    /// What becomes of that pin.
    pub(super) soft_pin: SoftPinAction,
}

impl Put {
    /// Until when its object is pinned softly that becomes readable now.
    pub(super) fn soft_pin_until(&self, now: Moment) -> Option<Moment> {
        let inherited = match self.soft_pin {
            SoftPinAction::Preserve => self.inherited_soft_pin_until,
            SoftPinAction::Enable | SoftPinAction::Disable => None,
        };
        let asked = self.soft_pin_ttl_ms.map(|ttl_ms| now.after_ms(ttl_ms));
        asked.or(inherited).filter(|until| *until > now)
    }
}

impl Unfinished {
    /// Adds the put of a new object. Its sequence is above all that were added before.
    pub(super) fn add(&mut self, object: ObjectHandle, put: Put) {
        let next = self.first_sequence + self.recent.len() as u64 * SEQUENCE_STEP;
        if self.recent.is_empty() {
            self.first_sequence = put.sequence;
        } else if put.sequence != next {
            let first = self.first_sequence;
            let places = self.recent.drain(..).zip((first..).step_by(SEQUENCE_STEP as usize));
            self.slow.extend(places.filter_map(|(entry, sequence)| Some((sequence, entry?))));
            self.first_sequence = put.sequence;
        }
        self.recent.push_back(Some(Entry { object, put }));
        self.len += 1;
        if self.recent.len() > RECENT_MAX {
            let slow = self.recent.pop_front().flatten();
            self.slow.extend(slow.map(|entry| (self.first_sequence, entry)));
            self.first_sequence += SEQUENCE_STEP;
            self.trim();
        }
    }

    /// The put of an object with this sequence, if it is unfinished.
    pub(super) fn of(&self, object: ObjectHandle, sequence: u64) -> Option<&Put> {
        let entry = self.entry(sequence)?;
        (entry.object == object && entry.put.sequence == sequence).then_some(&entry.put)
    }

    /// The object of the unfinished put with this sequence.
    pub(super) fn object_of(&self, sequence: u64) -> Option<ObjectHandle> {
        let entry = self.entry(sequence)?;
        (entry.put.sequence == sequence).then_some(entry.object)
    }

    /// Forgets the put of an object with this sequence.
    pub(super) fn remove(&mut self, object: ObjectHandle, sequence: u64) -> Option<Put> {
        let put = *self.of(object, sequence)?;
        match self.place(sequence) {
            Some(place) => self.recent[place] = None,
            None => drop(self.slow.remove(&sequence)),
        }
        self.len -= 1;
        self.trim();
        Some(put)
    }

    /// The oldest put if it started at or before a moment.
    pub(super) fn oldest_started_by(&self, started: Moment) -> Option<ObjectHandle> {
        let slow = self.slow.first_key_value().map(|(_, entry)| entry);
        let oldest = slow.or_else(|| self.recent.front()?.as_ref())?;
        (oldest.put.started <= started).then_some(oldest.object)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What stands at the place of a sequence, which may be that of another one.
    fn entry(&self, sequence: u64) -> Option<&Entry> {
        match self.place(sequence) {
            Some(place) => self.recent.get(place)?.as_ref(),
            None => self.slow.get(&sequence),
        }
    }

    /// Where a put of this sequence is among the latest ones, if it is not before them.
    fn place(&self, sequence: u64) -> Option<usize> {
        let ahead = sequence.checked_sub(self.first_sequence)?;
        usize::try_from(ahead / SEQUENCE_STEP).ok()
    }

    /// Drops the empty places in front.
    fn trim(&mut self) {
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first_sequence += SEQUENCE_STEP;
        }
    }
}

/// Places of the latest starts, some hundred kilobytes: as many as are usually under way at once, and few
/// enough to stay in the processor's cache. What takes longer than that many starts may be searched for.
const RECENT_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(number: u64) -> Put {
        Put {
            client: ClientId(1),
            put_id: number,
            sequence: 3 + number * SEQUENCE_STEP,
            started: Moment::from_ms(number),
            replicas: 1,
            soft_pin_ttl_ms: None,
            inherited_soft_pin_until: None,
            soft_pin: SoftPinAction::Preserve,
        }
    }

    fn object(number: u64) -> ObjectHandle {
        ObjectHandle((number % 1_000) as u32)
    }

    fn started(unfinished: &mut Unfinished, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| unfinished.add(object(number), put(number)));
    }

    fn ended(unfinished: &mut Unfinished, number: u64) -> bool {
        unfinished.remove(object(number), put(number).sequence).is_some()
    }

    #[test]
    fn puts_are_found_until_they_end_however_many_start_meanwhile() {
        let mut unfinished = Unfinished::default();
        let last = 3 * RECENT_MAX as u64;
        started(&mut unfinished, 0..last);
        for number in (0..last).filter(|number| number % 7 != 0) {
            assert!(ended(&mut unfinished, number));
            assert!(!ended(&mut unfinished, number), "a put ends once");
        }
        for number in 0..last {
            let found = unfinished.of(object(number), put(number).sequence);
            assert_eq!(found.map(|put| put.put_id), (number % 7 == 0).then_some(number));
        }
        assert_eq!(unfinished.len(), (0..last).step_by(7).count());
        (0..last).step_by(7).for_each(|number| assert!(ended(&mut unfinished, number)));
        assert_eq!(unfinished.len(), 0);
        assert!(unfinished.recent.is_empty() && unfinished.slow.is_empty());
    }

    #[test]
    fn a_slow_put_does_not_keep_the_places_of_those_behind_it() {
        let mut unfinished = Unfinished::default();
        started(&mut unfinished, 0..1);
        for number in 1..3 * RECENT_MAX as u64 {
            started(&mut unfinished, number..number + 1);
            assert!(ended(&mut unfinished, number));
            assert!(unfinished.recent.len() <= RECENT_MAX);
        }
        assert_eq!(unfinished.slow.len(), 1);
        assert!(unfinished.recent.is_empty());
        assert!(ended(&mut unfinished, 0));
    }

    #[test]
    fn the_oldest_start_is_found_first_wherever_it_is_kept() {
        let mut unfinished = Unfinished::default();
        started(&mut unfinished, 0..RECENT_MAX as u64 + 2);
        let oldest = |unfinished: &Unfinished| unfinished.oldest_started_by(Moment::from_ms(2));
        for number in 0..3 {
            assert_eq!(oldest(&unfinished), Some(object(number)));
            assert!(ended(&mut unfinished, number));
        }
        assert_eq!(oldest(&unfinished), None, "the others started later");
    }

    #[test]
    fn another_object_and_another_sequence_have_no_put() {
        let mut unfinished = Unfinished::default();
        started(&mut unfinished, 5..7);
        let sequence = put(5).sequence;
        assert!(unfinished.of(object(6), sequence).is_none());
        for other in [0, sequence - 1, sequence + 1, sequence + 2 * SEQUENCE_STEP, u64::MAX] {
            assert!(unfinished.of(object(5), other).is_none(), "{other}");
            assert!(unfinished.object_of(other).is_none(), "{other}");
        }
        assert!(unfinished.of(object(5), sequence).is_some());
        assert_eq!(unfinished.object_of(sequence), Some(object(5)));
    }

    #[test]
    fn sequences_may_go_on_further_above() {
        let mut unfinished = Unfinished::default();
        started(&mut unfinished, 0..3);
        assert!(ended(&mut unfinished, 1));
        started(&mut unfinished, 10..12);
        for number in [0, 2, 10, 11] {
            assert!(ended(&mut unfinished, number), "{number}");
        }
        assert_eq!(unfinished.len(), 0);
    }
}
