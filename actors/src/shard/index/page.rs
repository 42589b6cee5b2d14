//! One page of the index: linear probing, ordered by distance from home.

use super::ObjectHandle;

/// A tag and the handle that goes with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(super) tag: u32,
    pub(crate) handle: ObjectHandle,
}

const _: () = assert!(size_of::<Slot>() == 8);

impl Slot {
    pub(super) const EMPTY: Slot = Slot { tag: 0, handle: ObjectHandle::NONE };

    /// Slots in this order are in the order of their homes, whatever the size of the page.
    #[inline]
    pub(super) fn order(&self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.handle.0)
    }

    #[inline]
    pub(crate) fn has_tag_of(&self, other: &Slot) -> bool {
        self.tag == other.tag
    }

    fn is_empty(self) -> bool {
        self.handle == ObjectHandle::NONE
    }
}

/// A run of slots that wraps around. From each home on, the slots stand in the order of their
/// homes, so a search may stop at the first slot that is nearer to its home than the sought one
/// would be. At seven eighths full that makes a miss as short as a hit, where it would otherwise
/// pass thirty slots. Slots of one home stand in the order of their tags: that is the order of homes
/// in a page of any size, so that all slots go over to another page without a search.
pub(super) struct Page {
    slots: Box<[Slot]>,
    live: u32,
}

impl Page {
    /// An empty page of at least this many slots.
    pub(super) fn with_slots(slots: usize) -> Page {
        Page { slots: vec![Slot::EMPTY; size_class(slots)].into_boxed_slice(), live: 0 }
    }

    /// An empty page that takes this many handles and some more before it is full.
    pub(super) fn with_room_for(live: usize) -> Page {
        Page::with_slots((live + live / 16) * LOAD_DIVISOR / LOAD_MAX + 1)
    }

    /// The smallest page of these slots that is not too full. They stand in [`Slot::order`].
    pub(super) fn of_sorted(sorted: &[Slot]) -> Page {
        let mut page = Page::with_slots(sorted.len() * LOAD_DIVISOR / LOAD_MAX + 1);
        let mut at = 0;
        for (position, slot) in sorted.iter().enumerate() {
            at = at.max(page.home(slot.tag));
            if at == page.slots() {
                // The last ones go around to the front, past those that stand there.
                sorted[position..].iter().for_each(|slot| page.insert(*slot));
                return page;
            }
            page.slots[at] = *slot;
            page.live += 1;
            at += 1;
        }
        page
    }

    /// How many slots it has, used and empty.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How many handles it holds.
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// Whether it must grow before the next insertion.
    pub(super) fn is_full(&self) -> bool {
        (self.live() + 1) * LOAD_DIVISOR > self.slots() * LOAD_MAX
    }

    /// Whether it is worth a smaller page, and that one would have room again.
    pub(super) fn is_sparse(&self) -> bool {
        let part = if self.slots() > STEPS_FROM_SLOTS { 2 } else { 3 };
        self.live() * part < self.slots() && self.slots() > SLOTS_MIN
    }

    /// All used slots, in the order of their tags.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Slot> {
        // Those that have gone around to the front have their homes at the back.
        let gone_around = |at: &usize| {
            let slot = self.slots[*at];
            !slot.is_empty() && self.home(slot.tag) > *at
        };
        let first = (0..self.slots()).take_while(gone_around).count();
        let (around, rest) = self.slots.split_at(first);
        rest.iter().chain(around).copied().filter(|slot| !slot.is_empty())
    }

    /// Fills an empty page with slots in the order of their tags, fewer than make it full.
    pub(super) fn fill(&mut self, ordered: impl Iterator<Item = Slot>) {
        debug_assert!(self.live == 0);
        let mut at = 0;
        for slot in ordered {
            at = at.max(self.home(slot.tag));
            if at < self.slots() {
                self.slots[at] = slot;
                self.live += 1;
                at += 1;
            } else {
                // The last ones go around to the front, past those that stand there.
                self.insert(slot);
            }
        }
    }

    /// All used slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().filter(|slot| !slot.is_empty())
    }

    /// Adds a slot. The page isn't full.
    pub(super) fn insert(&mut self, slot: Slot) {
        let home = self.home(slot.tag);
        let run = self.slots[home..].iter().take_while(|slot| !slot.is_empty()).count();
        let end = home + run;
        // Those that have gone around to the front stand before all whose homes are there.
        let passes_the_end =
            end == self.slots() || run > 0 && self.home(self.slots[home].tag) > home;
        if passes_the_end {
            self.insert_around(slot);
            return;
        }
        // Up to the next empty slot they stand in the order of their tags.
        let place = home + self.slots[home..end].partition_point(|here| here.tag <= slot.tag);
        self.slots.copy_within(place..end, place + 1);
        self.slots[place] = slot;
        self.live += 1;
    }

    /// Adds a slot wherever its run begins and ends.
    #[cold]
    fn insert_around(&mut self, slot: Slot) {
        let mut carried = slot;
        let mut at = self.home(carried.tag);
        let mut distance = 0;
        loop {
            let here = self.slots[at];
            if here.is_empty() {
                break;
            }
            let here_distance = self.distance(here.tag, at);
            // As far from home at the same place is the same home.
            if here_distance < distance || here_distance == distance && here.tag > carried.tag {
                self.slots[at] = carried;
                carried = here;
                distance = here_distance;
            }
            at = self.after(at);
            distance += 1;
        }
        self.slots[at] = carried;
        self.live += 1;
    }

    /// Removes a slot, and moves those behind it one nearer to their homes, so that nothing marks
    /// the place. Returns whether the slot was there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(mut at) = self.position(slot.tag, |handle| handle == slot.handle) else {
            return false;
        };
        loop {
            let next = self.after(at);
            let moved = self.slots[next];
            if moved.is_empty() || self.distance(moved.tag, next) == 0 {
                break;
            }
            self.slots[at] = moved;
            at = next;
        }
        self.slots[at] = Slot::EMPTY;
        self.live -= 1;
        true
    }

    /// The first handle with this tag that `matches` accepts.
    #[inline]
    pub(super) fn find(
        &self,
        tag: u32,
        matches: impl FnMut(ObjectHandle) -> bool,
    ) -> Option<ObjectHandle> {
        self.position(tag, matches).map(|at| self.slots[at].handle)
    }

    /// Where the search for a tag begins.
    #[inline]
    pub(super) fn home_slot(&self, tag: u32) -> &Slot {
        &self.slots[self.home(tag)]
    }

    #[inline]
    fn position(&self, tag: u32, mut matches: impl FnMut(ObjectHandle) -> bool) -> Option<usize> {
        let mut at = self.home(tag);
        let mut distance = 0;
        loop {
            let here = self.slots[at];
            if here.is_empty() {
                return None;
            }
            if here.tag == tag {
                if matches(here.handle) {
                    return Some(at);
                }
            } else if self.distance(here.tag, at) < distance {
                return None;
            }
            at = self.after(at);
            distance += 1;
        }
    }

    /// The home slot of a tag: its high bits, scaled to the number of slots without a division.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> 32) as usize
    }

    /// How far a slot stands from its home.
    #[inline]
    fn distance(&self, tag: u32, at: usize) -> usize {
        let home = self.home(tag);
        if at >= home { at - home } else { at + self.slots.len() - home }
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }
}

/// The smallest page size of at least this many slots: powers of two up to 512 slots and four
/// steps between powers of two from there, which are just the size classes of the allocator.
fn size_class(slots: usize) -> usize {
    let ceiling = slots.max(SLOTS_MIN).next_power_of_two();
    if ceiling <= STEPS_FROM_SLOTS {
        return ceiling;
    }
    slots.next_multiple_of(ceiling / 8)
}

/// The smallest page, 512 bytes: what a shard without objects costs.
const SLOTS_MIN: usize = 64;

/// Pages up to here double; larger ones grow by a quarter, so that on average a page is four
/// fifths full.
const STEPS_FROM_SLOTS: usize = 512;

/// A page is full at seven eighths: above that the runs between empty slots grow quickly.
const LOAD_MAX: usize = 7;
const LOAD_DIVISOR: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_sizes_of_the_allocator() {
        let sizes: Vec<usize> =
            [0, 64, 65, 512, 513, 640, 641, 1024, 1025, 1281, 1793, 2049].map(size_class).into();
        assert_eq!(sizes, [64, 64, 128, 512, 640, 640, 768, 1024, 1280, 1536, 2048, 2560]);
    }

    #[test]
    fn every_slot_stands_in_the_order_of_homes() {
        let mut page = Page::with_slots(64);
        let mut state = 1_u32;
        for number in 0..55 {
            state = state.wrapping_mul(0x915F_77F5).wrapping_add(12345);
            page.insert(Slot { tag: state, handle: ObjectHandle(number) });
        }
        for at in 0..64 {
            let next = page.after(at);
            if !page.slots[next].is_empty() && page.distance(page.slots[next].tag, next) > 0 {
                assert!(!page.slots[at].is_empty());
                let here = page.distance(page.slots[at].tag, at);
                assert!(page.distance(page.slots[next].tag, next) <= here + 1);
            }
        }
    }

    /// Pages in which some slots have gone around to the front, and several have one home.
    #[test]
    fn slots_go_over_to_a_page_of_another_size_in_their_order() {
        for seed in 1..200_u32 {
            let mut page = Page::with_slots(64);
            let mut state = seed;
            for number in 0..20 + seed % 36 {
                state = state.wrapping_mul(0x915F_77F5).wrapping_add(12345);
                let near_the_end = (state >> 5) | 0xf800_0000;
                let tag = if number % 3 == 0 { near_the_end } else { state };
                page.insert(Slot { tag, handle: ObjectHandle(number) });
            }
            let tags: Vec<u32> = page.in_order().map(|slot| slot.tag).collect();
            assert!(tags.is_sorted());
            assert_eq!(tags.len(), page.live());
            for slots in [64, 128, 640] {
                let mut other = Page::with_slots(slots);
                other.fill(page.in_order());
                assert_eq!(other.live(), page.live());
                assert!(other.in_order().map(|slot| slot.tag).eq(tags.iter().copied()));
                for slot in page.iter() {
                    assert!(other.find(slot.tag, |handle| handle == slot.handle).is_some());
                }
            }
        }
    }
}
