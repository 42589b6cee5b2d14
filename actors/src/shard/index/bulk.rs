//! Building the index of many objects at once.
//!
//! Inserted one by one, each object costs a miss of the cache, and each page is split and grown
//! several times over. Here handles are first gathered by the low bits of their tags. When all have
//! come, the number of pages is known, and they are filled one after the other from a part that
//! fits the cache. No part needs another, so several threads can share the work.

use std::fmt;

use super::page::{Page, Slot};
use super::{GROUP_PAGES, Index, ObjectHandle, SPLIT_LIVE, page_of, round_of};

/// Handles that are to be an index.
pub(crate) struct IndexBuilder {
    /// By the low bits of their tags.
    parts: Vec<Vec<Slot>>,
    /// The latest of each part, which are not among the others yet.
    lines: Box<[Line]>,
    /// How many these are, for each part.
    waiting: [u8; PARTS],
    built: Option<BuiltIndex>,
}

/// Handles on their way to a part. Each part ends in a page of its own, and a single write there
/// waits for the address of that page; so handles go there by the cache line, and wait in lines that
/// stand side by side.
#[derive(Clone)]
#[repr(align(64))]
struct Line {
    slots: [Slot; LINE_SLOTS],
}

impl IndexBuilder {
    /// A builder for about this many objects. It may be any other number; memory is only set aside
    /// for them, and not used before they come.
    pub(crate) fn with_capacity(objects: usize) -> IndexBuilder {
        let fair = objects / PARTS;
        // Random shares are hardly ever further apart.
        let capacity = fair + 5 * fair.isqrt() + 8;
        let parts = (0..PARTS).map(|_| Vec::with_capacity(capacity)).collect();
        let line = Line { slots: [Slot::EMPTY; LINE_SLOTS] };
        let lines = vec![line; PARTS].into_boxed_slice();
        IndexBuilder { parts, lines, waiting: [0; PARTS], built: None }
    }

    /// Adds a handle.
    #[inline]
    pub(crate) fn add(&mut self, tag: u32, handle: ObjectHandle) {
        let part = tag as usize % PARTS;
        let latest = usize::from(self.waiting[part]);
        self.lines[part].slots[latest % LINE_SLOTS] = Slot { tag, handle };
        if latest + 1 == LINE_SLOTS {
            self.parts[part].extend_from_slice(&self.lines[part].slots);
            self.waiting[part] = 0;
        } else {
            self.waiting[part] += 1;
        }
    }

    /// All handles by part.
    fn take_parts(&mut self) -> Vec<Vec<Slot>> {
        let mut parts = std::mem::take(&mut self.parts);
        for ((part, line), waiting) in parts.iter_mut().zip(&*self.lines).zip(&mut self.waiting) {
            part.extend_from_slice(&line.slots[..usize::from(std::mem::take(waiting))]);
        }
        parts
    }

    /// Builds the index of all handles. `build_all` is given shares of the work, about as many as this, and
    /// builds each of them, wherever it likes. Nothing may be added after it.
    pub(crate) fn build(
        &mut self,
        shares: usize,
        build_all: impl FnOnce(Vec<IndexShare>) -> Vec<BuiltShare>,
    ) {
        let parts = self.take_parts();
        let len = parts.iter().map(Vec::len).sum::<usize>();
        let pages = len.div_ceil(SPLIT_LIVE).max(1);
        if pages < PARTS {
            self.built = Some(insert_all(parts));
            return;
        }
        let mut parts = parts.into_iter();
        let each = PARTS.div_ceil(shares.max(1));
        let shares = (0..PARTS).step_by(each).map(|first| {
            let parts = parts.by_ref().take(each).collect();
            IndexShare { pages, first, parts }
        });
        let mut shares = build_all(shares.collect());
        // A group takes its pages in the order of their numbers.
        shares.sort_unstable_by_key(|share| share.first);
        let mut built =
            BuiltIndex { index: Index::without_pages(pages, len), same_tag: Vec::new() };
        for share in shares {
            built.same_tag.extend(share.same_tag);
            for pages in share.pages {
                pages.into_iter().enumerate().for_each(|(group, page)| {
                    built.index.push_page(group, page);
                });
            }
        }
        self.built = Some(built);
    }

    /// The index of all handles, built here unless it was built already.
    pub(crate) fn finish(mut self) -> BuiltIndex {
        if self.built.is_none() {
            self.build(1, |shares| shares.into_iter().map(IndexShare::build).collect());
        }
        self.built.expect("it was built above")
    }
}

/// An index that was built at once.
pub(crate) struct BuiltIndex {
    pub(crate) index: Index,
    /// The handles of all tags that have several, those of one tag beside each other: only these may
    /// be of one key.
    pub(crate) same_tag: Vec<Slot>,
}

/// A share of the work of building an index. It needs nothing else, so that threads can build
/// several shares side by side.
pub struct IndexShare {
    /// Of the whole index.
    pages: usize,
    /// The number of the first part.
    first: usize,
    parts: Vec<Vec<Slot>>,
}

/// A share that is built.
pub struct BuiltShare {
    first: usize,
    /// The pages of each part, one for each group.
    pages: Vec<Vec<Page>>,
    same_tag: Vec<Slot>,
}

impl IndexShare {
    /// Does the work.
    pub fn build(self) -> BuiltShare {
        let mut built = BuiltShare {
            first: self.first,
            pages: Vec::with_capacity(self.parts.len()),
            same_tag: Vec::new(),
        };
        let (mut sorted, mut borders) = (Vec::new(), Vec::new());
        for (part, number) in self.parts.into_iter().zip(self.first..) {
            // The pages whose low bits are those of the part, one in each group.
            let groups = (self.pages - number).div_ceil(PARTS);
            sort_by_page(self.pages, &part, groups, &mut sorted, &mut borders);
            drop(part);
            let mut first = 0;
            let pages = borders.iter().map(|end| {
                let slots = &mut sorted[first..*end];
                first = *end;
                sort(slots, &mut built.same_tag);
                Page::of_sorted(slots)
            });
            built.pages.push(pages.collect());
        }
        built
    }
}

/// Without so many pages that each has a part of its own.
fn insert_all(parts: Vec<Vec<Slot>>) -> BuiltIndex {
    let mut built = BuiltIndex { index: Index::new(), same_tag: Vec::new() };
    for mut part in parts {
        sort(&mut part, &mut built.same_tag);
        part.iter().for_each(|slot| built.index.insert(slot.tag, slot.handle));
    }
    built
}

/// Sorts the slots of one page, and adds those to `same_tag` whose tag others have too.
fn sort(slots: &mut [Slot], same_tag: &mut Vec<Slot>) {
    slots.sort_unstable_by_key(Slot::order);
    for run in slots.chunk_by(Slot::has_tag_of).filter(|run| run.len() > 1) {
        same_tag.extend_from_slice(run);
    }
}

impl fmt::Debug for IndexShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IndexShare").field("first", &self.first).finish_non_exhaustive()
    }
}

impl fmt::Debug for BuiltShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BuiltShare").field("first", &self.first).finish_non_exhaustive()
    }
}

impl fmt::Debug for IndexBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.iter().map(|waiting| usize::from(*waiting));
        let len = self.parts.iter().map(Vec::len).chain(waiting).sum::<usize>();
        formatter.debug_struct("IndexBuilder").field("len", &len).finish_non_exhaustive()
    }
}

/// Sorts the slots of a part by the group of their page. `borders` tells where those of each group
/// end.
fn sort_by_page(
    pages: usize,
    part: &[Slot],
    groups: usize,
    sorted: &mut Vec<Slot>,
    borders: &mut Vec<usize>,
) {
    let round = round_of(pages);
    let group_of = |slot: &Slot| page_of(slot.tag, pages, round) / GROUP_PAGES;
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

/// As many as fill a cache line.
const LINE_SLOTS: usize = 64 / size_of::<Slot>();
