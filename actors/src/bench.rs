//! Parts of a shard by themselves, for measurements alone. A shard uses them through its ledger, which
//! keeps them in step with each other.

use crate::pages::PageRun;
use crate::shard::index::Index;
use crate::shard::objects::ObjectHandle;
pub use crate::shard::ranges::RangeHandle;
use crate::shard::ranges::{Ranges, SegmentIndex};

/// The index of a shard: object handles by tag.
#[derive(Debug)]
pub struct IndexPart(Index);

impl Default for IndexPart {
    fn default() -> IndexPart {
        IndexPart(Index::new())
    }
}

impl IndexPart {
    /// Adds a handle.
    pub fn insert(&mut self, tag: u32, handle: u32) {
        self.0.insert(tag, ObjectHandle(handle));
    }

    /// Takes a handle out; gives whether it was there.
    pub fn remove(&mut self, tag: u32, handle: u32) -> bool {
        self.0.remove(tag, ObjectHandle(handle))
    }

    /// The first handle with a tag.
    #[must_use]
    pub fn find(&self, tag: u32) -> Option<u32> {
        self.0.find(tag, |_| true).map(|handle| handle.0)
    }

    /// Asks the processor for the slot of a tag.
    pub fn prefetch(&self, tag: u32) {
        self.0.prefetch(tag);
    }
}

/// The allocator of a shard, with one segment.
#[derive(Debug)]
pub struct RangesPart(Ranges);

impl RangesPart {
    /// Bytes of a page.
    pub const PAGE_BYTES: u32 = 65_536;

    /// With one span of so many pages.
    #[must_use]
    pub fn new(pages: u32) -> RangesPart {
        let mut ranges = Ranges::new();
        ranges.open_segment(SEGMENT, Self::PAGE_BYTES);
        ranges.grant(SEGMENT, PageRun::new(0, pages));
        RangesPart(ranges)
    }

    /// A range of at least so many bytes; `None` if there is no room.
    pub fn allocate(&mut self, size_bytes: u64, owner: u32) -> Option<RangeHandle> {
        self.0.allocate(SEGMENT, size_bytes, owner)
    }

    /// Gives a range back.
    pub fn free(&mut self, range: RangeHandle) {
        self.0.free(range);
    }
}

const SEGMENT: SegmentIndex = SegmentIndex(0);
