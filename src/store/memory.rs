//! The memory of one segment: a mapping that peers read and write through checked copies.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::{PoisonError, RwLock};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A zeroed private mapping.
///
/// Nobody gets a reference into it. Bytes go in and out by copies, and each copy holds the lock of
/// the stripe that it touches, so whatever ranges peers name, no two of them race on a byte.
#[derive(Debug)]
pub(crate) struct SegmentMemory {
    base: NonNull<u8>,
    /// What peers may touch.
    size_bytes: usize,
    /// What is mapped: the size in whole pages.
    mapped_bytes: usize,
    stripes: Box<[RwLock<()>]>,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for SegmentMemory {}
// SAFETY: every access to the mapping goes through `copy_out` and `copy_in`, which hold the lock of
// the bytes' stripe, shared for reads and exclusive for writes.
unsafe impl Sync for SegmentMemory {}

impl SegmentMemory {
    /// Maps this many bytes, on huge pages if asked for and available.
    ///
    /// # Errors
    /// What the kernel refuses the mapping with; a size of zero is invalid.
    pub(crate) fn map(size_bytes: usize, huge_pages: bool) -> io::Result<SegmentMemory> {
        if huge_pages
            && let Some(mapped_bytes) = size_bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)
            && let Ok(base) = map_anonymous(mapped_bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)
        {
            return Ok(SegmentMemory::new(base, size_bytes, mapped_bytes));
        }
        let mapped_bytes = size_bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let base = map_anonymous(mapped_bytes, MapFlags::empty())?;
        let memory = SegmentMemory::new(base, size_bytes, mapped_bytes);
        if huge_pages {
            memory.advise_huge_pages();
        }
        Ok(memory)
    }

    /// The address of the first byte, which is part of the identity of the segment.
    pub(crate) fn base(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// How many bytes peers may touch.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes as u64
    }

    /// A copy of a range; `None` if it is not inside.
    pub(crate) fn read(&self, offset_bytes: u64, length_bytes: usize) -> Option<Vec<u8>> {
        let range = self.range(offset_bytes, length_bytes)?;
        let mut copy = Vec::with_capacity(length_bytes);
        for part in stripe_parts(range) {
            self.copy_out(part, &mut copy);
        }
        Some(copy)
    }

    /// Copies the bytes to a range; `None` if it is not inside, and then nothing is written.
    pub(crate) fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Option<()> {
        let range = self.range(offset_bytes, bytes.len())?;
        let start = range.start;
        for part in stripe_parts(range) {
            let bytes = &bytes[part.start - start..part.end - start];
            self.copy_in(part.start, bytes);
        }
        Some(())
    }

    /// Whether a range is inside.
    pub(crate) fn contains(&self, offset_bytes: u64, length_bytes: usize) -> bool {
        self.range(offset_bytes, length_bytes).is_some()
    }

    fn new(base: NonNull<u8>, size_bytes: usize, mapped_bytes: usize) -> SegmentMemory {
        let stripes = (0..STRIPES).map(|_| RwLock::new(())).collect();
        SegmentMemory { base, size_bytes, mapped_bytes, stripes }
    }

    fn advise_huge_pages(&self) {
        // SAFETY: the range is exactly this mapping, and the advice changes no content. A kernel
        // without huge pages refuses, and then small ones serve.
        let _ =
            unsafe { madvise(self.base.as_ptr().cast(), self.mapped_bytes, Advice::LinuxHugepage) };
    }

    fn range(&self, offset_bytes: u64, length_bytes: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset_bytes).ok()?;
        let end = start.checked_add(length_bytes)?;
        (end <= self.size_bytes).then_some(start..end)
    }

    /// Appends a part, which lies inside the segment and one stripe, to the copy, which has room.
    fn copy_out(&self, part: Range<usize>, copy: &mut Vec<u8>) {
        let stripe = &self.stripes[stripe_of(part.start)];
        let room = &mut copy.spare_capacity_mut()[..part.len()];
        let shared = stripe.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the part is inside the mapping, which is initialised (the kernel zeroes it) and
        // lives as long as `self`; the room is as long, and it is other memory since `copy` owns
        // it. No write to these bytes runs, as it would hold the lock of their stripe.
        unsafe {
            let source = self.base.as_ptr().add(part.start);
            ptr::copy_nonoverlapping(source, room.as_mut_ptr().cast::<u8>(), part.len());
        }
        drop(shared);
        // SAFETY: the copy above initialised exactly these bytes behind the former length.
        unsafe { copy.set_len(copy.len() + part.len()) };
    }

    /// Copies to a part that lies inside the segment and one stripe.
    fn copy_in(&self, start: usize, bytes: &[u8]) {
        let stripe = &self.stripes[stripe_of(start)];
        let exclusive = stripe.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the destination is inside the mapping, which lives as long as `self`; it is other
        // memory than `bytes`, as there are no references into the mapping. No other copy touches
        // these bytes, as it would hold the lock of their stripe.
        unsafe {
            let destination = self.base.as_ptr().add(start);
            ptr::copy_nonoverlapping(bytes.as_ptr(), destination, bytes.len());
        }
        drop(exclusive);
    }
}

impl Drop for SegmentMemory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, in its whole length, and nothing refers to
        // it any more. A failure would only leave it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}

fn map_anonymous(mapped_bytes: usize, more: MapFlags) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without a wished address the kernel picks one that nothing is mapped at.
    let base = unsafe {
        mmap_anonymous(ptr::null_mut(), mapped_bytes, protection, MapFlags::PRIVATE | more)
    }?;
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

/// Cuts a range where stripes meet.
fn stripe_parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((start / STRIPE_BYTES + 1) * STRIPE_BYTES);
        let part = start..end;
        start = end;
        (!part.is_empty()).then_some(part)
    })
}

fn stripe_of(offset: usize) -> usize {
    offset / STRIPE_BYTES % STRIPES
}

/// The part of a segment that one lock guards: large beside the cost of a lock, small beside what
/// is moved at the same time.
const STRIPE_BYTES: usize = 256 << 10;

/// Locks of a segment; stripes share them in turn, so that they need the same little memory for
/// any size, and far more than copies run at the same time.
const STRIPES: usize = 1024;

/// The smallest page of the platforms that this runs on.
const PAGE_BYTES: usize = 4096;

/// The size of page that is asked for by `HUGE_2MB`.
const HUGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 3 * STRIPE_BYTES + 5000;

    #[test]
    fn new_memory_is_zero() {
        let memory = SegmentMemory::map(SIZE, false).unwrap();
        assert_eq!(memory.read(0, SIZE).unwrap(), vec![0; SIZE]);
    }

    #[test]
    fn memory_is_found_with_and_without_huge_pages() {
        for huge_pages in [false, true] {
            let memory = SegmentMemory::map(8 << 20, huge_pages).unwrap();
            memory.write(123, b"bytes").unwrap();
            assert_eq!(memory.read(123, 5).unwrap(), b"bytes");
            assert_eq!(memory.base() % PAGE_BYTES as u64, 0);
        }
    }

    #[test]
    fn ranges_outside_are_refused_and_change_nothing() {
        let memory = SegmentMemory::map(SIZE, false).unwrap();
        let size = SIZE as u64;
        for (offset, length) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (0, SIZE + 1)] {
            assert!(memory.read(offset, length).is_none());
            assert!(memory.write(offset, &vec![1; length]).is_none());
            assert!(!memory.contains(offset, length));
        }
        assert_eq!(memory.read(0, SIZE).unwrap(), vec![0; SIZE]);
        assert!(memory.contains(size - 1, 1));
    }

    #[test]
    fn parts_end_where_stripes_meet_and_cover_the_range() {
        let range = STRIPE_BYTES - 10..2 * STRIPE_BYTES + 10;
        let parts: Vec<_> = stripe_parts(range).collect();
        let (first, second) = (STRIPE_BYTES, 2 * STRIPE_BYTES);
        assert_eq!(parts, [first - 10..first, first..second, second..second + 10]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn reads_return_what_writes_left(
            writes in prop::collection::vec((0..SIZE, 1..STRIPE_BYTES + 100, any::<u8>()), 1..12)
        ) {
            let memory = SegmentMemory::map(SIZE, false).unwrap();
            let mut model = vec![0_u8; SIZE];
            for (start, length, fill) in writes {
                let end = SIZE.min(start + length);
                model[start..end].fill(fill);
                memory.write(start as u64, &model[start..end]).unwrap();
            }
            prop_assert!(memory.read(0, SIZE).unwrap() == model);
        }
    }
}
