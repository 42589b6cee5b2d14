//! Building the index of many objects at once.
//!
//! Inserted one by one, each object costs a miss of the cache, and each page is split and grown
//! several times over. Here handles are first gathered by the low bits of their tags. When all have
//! come, the number of pages is known, and they are filled one after the other from a part that
//! fits the cache.

use std::fmt;

use super::page::{Page, Slot};
use super::{GROUP_PAGES, Index, ObjectHandle, SPLIT_LIVE};

/// Handles that are to be an index.
pub(crate) struct IndexBuilder {
    /// By the low bits of their tags.
    parts: Vec<Vec<Slot>>,
}

impl IndexBuilder {
    /// A builder for about this many objects. It may be any other number; memory is only set aside
    /// for them, and not used before they come.
    pub(crate) fn with_capacity(objects: usize) -> IndexBuilder {
        let fair = objects / PARTS;
        // Random shares are hardly ever further apart.
        let capacity = fair + 5 * fair.isqrt() + 8;
        IndexBuilder { parts: (0..PARTS).map(|_| Vec::with_capacity(capacity)).collect() }
    }

    /// Adds a handle.
    #[inline]
    pub(crate) fn add(&mut self, tag: u32, handle: ObjectHandle) {
        self.parts[tag as usize % PARTS].push(Slot { tag, handle });
    }

    /// The index of all handles. `equal` is told the handles of each tag that has several: only
    /// those may be of one key.
    pub(crate) fn build(self, mut equal: impl FnMut(&[Slot])) -> Index {
        let len = self.parts.iter().map(Vec::len).sum::<usize>();
        let pages = len.div_ceil(SPLIT_LIVE).max(1);
        if pages < PARTS {
            return self.insert_all(equal);
        }
        let mut index = Index::without_pages(pages, len);
        let mut sorted = Vec::new();
        let mut borders = Vec::new();
        for (number, part) in self.parts.into_iter().enumerate() {
            // The pages whose low bits are those of the part, one in each group. They come in the
            // order of parts, so each is the next one of its group.
            let pages = (pages - number).div_ceil(PARTS);
            sort_by_page(&index, &part, pages, &mut sorted, &mut borders);
            drop(part);
            let mut first = 0;
            for (group, end) in borders.iter().enumerate() {
                let slots = &mut sorted[first..*end];
                slots.sort_unstable_by_key(Slot::order);
                slots
                    .chunk_by(|a, b| a.tag == b.tag)
                    .filter(|run| run.len() > 1)
                    .for_each(&mut equal);
                index.push_page(group, Page::of_sorted(slots));
                first = *end;
            }
        }
        index
    }

    /// Without so many pages that each has a part of its own.
    fn insert_all(self, mut equal: impl FnMut(&[Slot])) -> Index {
        let mut index = Index::new();
        for mut part in self.parts {
            part.sort_unstable_by_key(Slot::order);
            part.chunk_by(|a, b| a.tag == b.tag).filter(|run| run.len() > 1).for_each(&mut equal);
            part.iter().for_each(|slot| index.insert(slot.tag, slot.handle));
        }
        index
    }
}

impl fmt::Debug for IndexBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.parts.iter().map(Vec::len).sum::<usize>();
        formatter.debug_struct("IndexBuilder").field("len", &len).finish_non_exhaustive()
    }
}

/// Sorts the slots of a part by the group of their page. `borders` tells where those of each group
/// end.
fn sort_by_page(
    index: &Index,
    part: &[Slot],
    groups: usize,
    sorted: &mut Vec<Slot>,
    borders: &mut Vec<usize>,
) {
    let group_of = |slot: &Slot| index.page_of(slot.tag) / GROUP_PAGES;
    borders.clear();
    borders.resize(groups, 0);
    for slot in part {
        borders[group_of(slot)] += 1;
    }
    let mut first = 0;
    for border in borders.iter_mut() {
        first += std::mem::replace(border, first);
    }
    sorted.clear();
    sorted.resize(part.len(), Slot::EMPTY);
    for slot in part {
        let next = &mut borders[group_of(slot)];
        sorted[*next] = *slot;
        *next += 1;
    }
}

/// As many as a group has pages, so that each part fills one page of each group. With 25 million
/// objects a part is 800 KB, and its pages are 120.
const PARTS: usize = GROUP_PAGES;
