//! The tree of landmarks: leaves of 64 blocks, and branches of 64 regions each.
//!
//! Each region knows by a bitmap which of its parts have landmarks, so that the way from one landmark
//! to the next is short however far apart they are.

use crate::shard::ranges::RangeHandle;

/// A part of a segment. Blocks are counted from its start.
pub(super) trait Region {
    /// How many blocks it has.
    const BLOCKS: u64;

    /// No landmarks.
    fn empty() -> Self;

    /// Whether it has no landmark.
    fn is_empty(&self) -> bool;

    /// The landmark of a block; [`RangeHandle::NONE`] if there is none.
    fn at(&self, block: u64) -> RangeHandle;

    /// Sets or, with [`RangeHandle::NONE`], takes away the landmark of a block. Counts memory that is
    /// allocated in `memory_bytes`.
    fn set(&mut self, block: u64, handle: RangeHandle, memory_bytes: &mut usize);

    /// The last landmark in the blocks up to and with this one.
    fn last_up_to(&self, block: u64) -> Option<(u64, RangeHandle)>;

    /// Frees the parts of the blocks from `first` to `last` that have no landmarks.
    fn release(&mut self, first: u64, last: u64, memory_bytes: &mut usize);

    /// Appends the landmarks in order; the first block of the region has this number.
    fn gather(&self, first: u64, all: &mut Vec<(u64, RangeHandle)>);
}

/// The landmarks of 64 blocks.
pub(super) struct Leaf {
    filled: u64,
    handles: [RangeHandle; PARTS],
}

/// 64 regions side by side.
pub(super) struct Branch<R> {
    /// Which of them have landmarks.
    filled: u64,
    parts: [Option<Box<R>>; PARTS],
}

/// Sets or takes away a landmark of a region that may have to be allocated.
pub(super) fn set<R: Region>(
    place: &mut Option<Box<R>>,
    block: u64,
    handle: RangeHandle,
    memory_bytes: &mut usize,
) {
    if place.is_none() {
        if handle.is_none() {
            return;
        }
        *memory_bytes += size_of::<R>();
    }
    place.get_or_insert_with(|| Box::new(R::empty())).set(block, handle, memory_bytes);
}

/// Frees what has no landmarks in a region, and the region itself if that is all of it.
pub(super) fn release<R: Region>(
    place: &mut Option<Box<R>>,
    first: u64,
    last: u64,
    memory_bytes: &mut usize,
) {
    let Some(region) = place else { return };
    if region.is_empty() {
        region.release(0, R::BLOCKS - 1, memory_bytes);
        *place = None;
        *memory_bytes -= size_of::<R>();
    } else {
        region.release(first, last, memory_bytes);
    }
}

impl Region for Leaf {
    const BLOCKS: u64 = PARTS as u64;

    fn empty() -> Leaf {
        Leaf { filled: 0, handles: [RangeHandle::NONE; PARTS] }
    }

    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    #[inline]
    fn at(&self, block: u64) -> RangeHandle {
        self.handles[block as usize]
    }

    fn set(&mut self, block: u64, handle: RangeHandle, _: &mut usize) {
        self.handles[block as usize] = handle;
        mark(&mut self.filled, block as usize, !handle.is_none());
    }

    fn last_up_to(&self, block: u64) -> Option<(u64, RangeHandle)> {
        let last = u64::from(up_to(self.filled, block as usize).checked_ilog2()?);
        Some((last, self.at(last)))
    }

    fn release(&mut self, _: u64, _: u64, _: &mut usize) {}

    fn gather(&self, first: u64, all: &mut Vec<(u64, RangeHandle)>) {
        let numbered = (first..).zip(self.handles.iter().copied());
        all.extend(numbered.filter(|(_, handle)| !handle.is_none()));
    }
}

impl<R: Region> Region for Branch<R> {
    const BLOCKS: u64 = R::BLOCKS * PARTS as u64;

    fn empty() -> Branch<R> {
        Branch { filled: 0, parts: [const { None }; PARTS] }
    }

    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    #[inline]
    fn at(&self, block: u64) -> RangeHandle {
        let (part, block) = Branch::<R>::position(block);
        self.parts[part].as_ref().map_or(RangeHandle::NONE, |region| region.at(block))
    }

    fn set(&mut self, block: u64, handle: RangeHandle, memory_bytes: &mut usize) {
        let (part, block) = Branch::<R>::position(block);
        let place = &mut self.parts[part];
        set(place, block, handle, memory_bytes);
        mark(&mut self.filled, part, place.as_ref().is_some_and(|region| !region.is_empty()));
    }

    fn last_up_to(&self, block: u64) -> Option<(u64, RangeHandle)> {
        let (part, block) = Branch::<R>::position(block);
        let before = |part: usize, (block, handle)| (part as u64 * R::BLOCKS + block, handle);
        if let Some(found) = self.parts[part].as_ref().and_then(|region| region.last_up_to(block)) {
            return Some(before(part, found));
        }
        let below = up_to(self.filled, part) & !(1 << part);
        let last = below.checked_ilog2()? as usize;
        let found = self.parts[last].as_ref()?.last_up_to(R::BLOCKS - 1)?;
        Some(before(last, found))
    }

    fn release(&mut self, first: u64, last: u64, memory_bytes: &mut usize) {
        let (first_part, first) = Branch::<R>::position(first);
        let (last_part, last) = Branch::<R>::position(last);
        for part in first_part..=last_part {
            let from = if part == first_part { first } else { 0 };
            let to = if part == last_part { last } else { R::BLOCKS - 1 };
            release(&mut self.parts[part], from, to, memory_bytes);
        }
    }

    fn gather(&self, first: u64, all: &mut Vec<(u64, RangeHandle)>) {
        for (part, region) in self.parts.iter().enumerate() {
            if let Some(region) = region {
                region.gather(first + part as u64 * R::BLOCKS, all);
            }
        }
    }
}

impl<R: Region> Branch<R> {
    #[inline]
    const fn position(block: u64) -> (usize, u64) {
        ((block / R::BLOCKS) as usize, block % R::BLOCKS)
    }
}

fn mark(filled: &mut u64, part: usize, is_filled: bool) {
    *filled = *filled & !(1 << part) | u64::from(is_filled) << part;
}

/// The bits of a map up to and with this one.
fn up_to(filled: u64, part: usize) -> u64 {
    filled & (u64::MAX >> (PARTS - 1 - part))
}

/// As many as a bitmap has bits. A leaf has 64 MiB in 264 bytes, so small segments stay cheap, and a
/// segment of 1 TiB that is full needs about 4 MiB.
const PARTS: usize = u64::BITS as usize;

#[cfg(test)]
mod tests;
