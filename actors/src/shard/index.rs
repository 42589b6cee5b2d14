//! The index of a shard: from the hash of a key to the handle of its object.
//!
//! The table is a linear hash table of small pages. The low bits of a tag choose the page, its
//! high bits the home slot in the page, so that every position follows from the tags alone and no
//! key is read when the table grows. As the table fills, one page after another is split in two,
//! in the order of their numbers, and each page takes a few more slots when it is full. So an
//! insertion moves at most the slots of one page, and memory follows the number of objects up and
//! down without a jump.
//!
//! Tags that fall together, by chance or by intent, make their own page larger and nothing else.

mod bulk;
mod page;

use std::fmt;

use super::objects::ObjectHandle;
use super::prefetch::prefetch;
pub(crate) use bulk::IndexBuilder;
pub use bulk::{BuiltShare, IndexShare};
use page::Page;
pub(crate) use page::Slot;

/// From tags to object handles. A tag is the low half of the 64-bit hash of a key; the upper half
/// has chosen the shard. Different keys may have one tag: the caller compares keys.
pub(crate) struct Index {
    /// Pages by number, in groups, so that a new page moves no other ones.
    groups: Vec<Vec<Page>>,
    pages: usize,
    /// Tags modulo `2 * round` choose the page, or modulo `round` if that page doesn't exist yet.
    /// A power of two, and `round <= pages < 2 * round`.
    round: usize,
    len: usize,
    slots: usize,
    /// Slots that the latest insertion or removal moved to grow, split, shrink or merge pages.
    #[cfg(test)]
    moved: usize,
}

impl Index {
    /// An index without objects.
    pub(crate) fn new() -> Index {
        let page = Page::with_room_for(0);
        let slots = page.slots();
        let mut group = Vec::with_capacity(GROUP_PAGES);
        group.push(page);
        Index {
            groups: vec![group],
            pages: 1,
            round: 1,
            len: 0,
            slots,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// How many handles it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a handle. The caller has made sure that its key isn't in the index.
    pub(crate) fn insert(&mut self, tag: u32, handle: ObjectHandle) {
        #[cfg(test)]
        {
            self.moved = 0;
        }
        let number = self.page_of(tag);
        let grown = self.page(number).is_full();
        if grown {
            let room = self.page(number).slots() + 1;
            self.rebuild(number, Page::with_slots(room));
        }
        self.page_mut(number).insert(Slot { tag, handle });
        self.len += 1;
        // One thing at a time: a split that is due waits for the next insertion.
        if !grown && self.len > self.pages * SPLIT_LIVE {
            self.split();
        }
    }

    /// Takes a handle out. Returns whether it was there.
    pub(crate) fn remove(&mut self, tag: u32, handle: ObjectHandle) -> bool {
        #[cfg(test)]
        {
            self.moved = 0;
        }
        let number = self.page_of(tag);
        if !self.page_mut(number).remove(Slot { tag, handle }) {
            return false;
        }
        self.len -= 1;
        let page = self.page(number);
        if page.is_sparse() {
            let smaller = Page::with_room_for(page.live());
            self.rebuild(number, smaller);
        } else if self.len < (self.pages - 1) * MERGE_LIVE {
            self.merge();
        }
        true
    }

    /// The handle with this tag that `matches` accepts, typically by comparing keys.
    #[inline]
    pub(crate) fn find(
        &self,
        tag: u32,
        matches: impl FnMut(ObjectHandle) -> bool,
    ) -> Option<ObjectHandle> {
        self.page(self.page_of(tag)).find(tag, matches)
    }

    /// The first handle with this tag: nearly always the one that [`Index::find`] will compare
    /// first and accept.
    #[inline]
    pub(crate) fn probe(&self, tag: u32) -> Option<ObjectHandle> {
        self.find(tag, |_| true)
    }

    /// Asks the processor for the slot where the search for a tag begins.
    #[inline]
    pub(crate) fn prefetch(&self, tag: u32) {
        prefetch(self.page(self.page_of(tag)).home_slot(tag));
    }

    /// Bytes of heap memory, in constant time.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots * size_of::<Slot>()
            + self.groups.len() * GROUP_PAGES * size_of::<Page>()
            + self.groups.capacity() * size_of::<Vec<Page>>()
    }

    /// An index for so many handles, whose pages are still to come.
    fn without_pages(pages: usize, len: usize) -> Index {
        let groups = pages.div_ceil(GROUP_PAGES);
        Index {
            groups: (0..groups).map(|_| Vec::with_capacity(GROUP_PAGES)).collect(),
            pages,
            round: round_of(pages),
            len,
            slots: 0,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// Adds the next page of a group.
    fn push_page(&mut self, group: usize, page: Page) {
        self.slots += page.slots();
        self.groups[group].push(page);
    }

    #[inline]
    fn page_of(&self, tag: u32) -> usize {
        page_of(tag, self.pages, self.round)
    }

    #[inline]
    fn page(&self, number: usize) -> &Page {
        &self.groups[number / GROUP_PAGES][number % GROUP_PAGES]
    }

    #[inline]
    fn page_mut(&mut self, number: usize) -> &mut Page {
        &mut self.groups[number / GROUP_PAGES][number % GROUP_PAGES]
    }

    /// Moves the slots of a page to an empty one, which takes its place.
    fn rebuild(&mut self, number: usize, mut empty: Page) {
        empty.fill(self.page(number).in_order());
        self.count_moved(empty.live());
        self.set_page(number, empty);
    }

    /// Splits the next page of the round.
    fn split(&mut self) {
        let low_number = self.pages - self.round;
        let high_number = self.pages;
        let belongs_high = |slot: &Slot| slot.tag as usize & self.round != 0;
        let page = self.page(low_number);
        let high_live = page.iter().filter(belongs_high).count();
        let mut high = Page::with_room_for(high_live);
        let mut low = Page::with_room_for(page.live() - high_live);
        high.fill(page.in_order().filter(belongs_high));
        low.fill(page.in_order().filter(|slot| !belongs_high(slot)));
        self.count_moved(low.live() + high.live());
        self.set_page(low_number, low);
        self.slots += high.slots();
        if high_number.is_multiple_of(GROUP_PAGES) {
            self.groups.push(Vec::with_capacity(GROUP_PAGES));
        }
        self.groups[high_number / GROUP_PAGES].push(high);
        self.pages += 1;
        if self.pages == 2 * self.round {
            self.round = self.pages;
        }
    }

    /// Takes the latest split back. The caller makes sure that there is more than one page.
    fn merge(&mut self) {
        if self.pages == self.round {
            self.round /= 2;
        }
        let high_number = self.pages - 1;
        let low_number = high_number - self.round;
        let group = &mut self.groups[high_number / GROUP_PAGES];
        let Some(high) = group.pop() else { return };
        if group.is_empty() {
            self.groups.pop();
        }
        self.pages = high_number;
        self.slots -= high.slots();
        let low = self.page(low_number);
        let mut both = Page::with_room_for(low.live() + high.live());
        for slot in low.iter().chain(high.iter()) {
            both.insert(slot);
        }
        self.count_moved(both.live());
        self.set_page(low_number, both);
    }

    fn set_page(&mut self, number: usize, page: Page) {
        self.slots += page.slots();
        self.slots -= self.page(number).slots();
        *self.page_mut(number) = page;
    }

    #[cfg(test)]
    fn count_moved(&mut self, slots: usize) {
        self.moved += slots;
    }

    #[cfg(not(test))]
    fn count_moved(&mut self, _slots: usize) {}
}

/// The number of the page of a tag.
#[inline]
fn page_of(tag: u32, pages: usize, round: usize) -> usize {
    let number = tag as usize & (2 * round - 1);
    if number < pages { number } else { number & (round - 1) }
}

/// The round of an index of so many pages.
fn round_of(pages: usize) -> usize {
    1 << pages.ilog2()
}

impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Index")
            .field("len", &self.len)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// A page is split for each this many objects. Within a round the pages that are still to be split
/// come to hold twice as many on average; with the spread of a random share (a standard deviation
/// of 40) that is still at most 1792, so pages stay at 2048 slots or 16 KiB, and moving the slots
/// of one takes about ten microseconds.
const SPLIT_LIVE: usize = 800;

/// Two pages are merged when there are fewer than this many objects for each page. The distance
/// to [`SPLIT_LIVE`] keeps an index whose size goes up and down from splitting and merging all the
/// time.
const MERGE_LIVE: usize = 600;

/// Pages in a group: 6 KiB, so that a table of 25 million objects has about 120 groups, which stay
/// in the innermost cache.
const GROUP_PAGES: usize = 256;

#[cfg(test)]
mod tests;
